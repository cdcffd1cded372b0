//! The channels in the real program, answered by rules: the steps that each of them takes.

use serde_json::Value;

use crate::machine::Machine;

fn ask(arguments: &[&str], question: &str) -> Value {
    ask_for(0, arguments, question)
}

/// Asks, and expects this exit code.
fn ask_for(code: i32, arguments: &[&str], question: &str) -> Value {
    let arguments = ["ask", "--format", "json"].iter().chain(arguments);
    let done = Machine::new().run(arguments.chain([&question]));
    serde_json::from_str(&done.stdout_of(code)).unwrap()
}

fn steps(result: &Value) -> Vec<&str> {
    let steps = result["steps"].as_array().unwrap().iter();
    steps.map(|step| step["type"].as_str().unwrap()).collect()
}

#[test]
fn system_health_gathers_and_then_summarizes() {
    let result = ask(&["--channel", "system_health"], "Is this machine healthy?");
    assert_eq!(steps(&result), ["llm_call", "tool_call", "llm_call"]);
    assert_eq!(result["steps"][1]["metadata"]["tool_name"], "system_health");
    let purposes = [0, 2].map(|step| result["steps"][step]["metadata"]["purpose"].clone());
    assert_eq!(purposes, ["gather", "turn"]);
}

#[test]
fn code_task_is_a_single_call_in_conservative_mode() {
    let arguments = ["--channel", "code_task", "--mode", "conservative"];
    // Without tools, no rule has an answer.
    let result = ask_for(6, &arguments, "Read src/main.rs");
    assert_eq!(steps(&result), ["llm_call"]);
}

#[test]
fn deep_research_requires_exploratory_mode_and_the_error_names_it() {
    let done = Machine::new().run(["ask", "--channel", "deep_research", "Compare TCP with UDP."]);
    let complaint = done.complaint(2);
    assert!(
        complaint.contains(
            "channel deep_research cannot be used in mode moderate; it needs exploratory"
        ),
        "{complaint}"
    );
}

#[test]
fn a_vague_message_is_answered_with_a_clarifying_question() {
    let vague = ["--set", "channels.chat.clarify=vague"];
    let result = ask(&vague, "Fix it, please!");
    assert_eq!(result["finish_reason"], "clarify");
    assert_eq!(result["status"], "done");
    assert_eq!(steps(&result), [""; 0]);
    assert!(
        result["reply"]
            .as_str()
            .unwrap()
            .ends_with("the result you expect.")
    );
}

#[test]
fn a_plan_limits_the_total_usage_of_a_session() {
    let machine = Machine::new();
    let ask = |session: &str| {
        let limit = "plans.small.session.max_tool_calls=2";
        let arguments = ["ask", "--format", "json", "--plan", "small", "--set", limit];
        let question = ["--session", session, "What time is it?"];
        let done = machine.run(arguments.iter().chain(&question));
        serde_json::from_str::<Value>(&done.stdout).unwrap()
    };
    assert_eq!(ask("one")["finish_reason"], "stop");
    // The second run uses up the budget, and the third starts with none.
    assert_eq!(ask("one")["finish_reason"]["budget"], "tool_calls");
    let spent = ask("one");
    assert_eq!(spent["finish_reason"]["budget"], "tool_calls");
    assert_eq!(steps(&spent), ["warning"]);
    assert_eq!(ask("another")["finish_reason"], "stop");
}

#[test]
fn a_fork_uses_the_plan_of_its_run() {
    let machine = Machine::new();
    let run = |arguments: &[&str]| {
        let limit = ["--set", "plans.small.day.max_tool_calls=1"];
        let done = machine.run(limit.iter().chain(arguments).chain(&["--format", "json"]));
        serde_json::from_str::<Value>(&done.stdout).unwrap()
    };
    run(&["ask", "--plan", "small", "What time is it?"]);
    let fork = ["runs", "fork", "last", "--message", "What time is it?"];
    let forked = run(&fork);
    assert_eq!(forked["finish_reason"]["budget"], "tool_calls");
    assert_eq!(steps(&forked), ["warning"]);
    let unlimited = machine.run(fork);
    assert_eq!(unlimited.code, Some(0), "{unlimited:?}");
    assert!(
        unlimited
            .stderr
            .contains("the run's plan small is not configured here"),
        "{unlimited:?}"
    );
}

#[test]
fn a_run_that_ends_at_a_limit_names_the_command_that_shows_it() {
    let machine = Machine::new();
    let ask = || {
        let limit = ["--set", "plans.small.day.max_tool_calls=1"];
        let asked = ["ask", "--mode", "exploratory", "--plan", "small"];
        machine.run(limit.iter().chain(&asked).chain(&["What time is it?"]))
    };
    ask();
    let spent = ask();
    assert_eq!(spent.code, Some(3), "{spent:?}");
    let command = "`neuraxis --set plans.small.day.max_tool_calls=1 policy explain --mode exploratory --plan small` shows the limits";
    assert!(spent.stderr.contains(command), "{spent:?}");
    // A day's budget that is used up leaves nothing for smaller requests either.
    let hint = "hint: raise the limit:";
    assert!(spent.stderr.contains(hint), "{spent:?}");
}

#[test]
fn an_unknown_plan_is_a_usage_error() {
    let done = Machine::new().run(["ask", "--plan", "big", "What time is it?"]);
    let complaint = done.complaint(2);
    assert!(complaint.contains("big"), "{complaint}");
}
