//! Agents on the command line: `neuraxis agents`, and `--agent`.

use crate::machine::Machine;

const HELPER: &str = "
[agents.helper]
instructions = 'You help with clocks.'
description = 'Knows what time it is.'
tools = ['current_time']
agents = ['researcher']
max_turns = 4
";

fn machine() -> Machine {
    Machine::new().with_file("neuraxis.toml", HELPER)
}

#[test]
fn the_available_agents_are_listed_with_their_tools() {
    insta::assert_snapshot!(machine().run(["agents"]).stdout_of(0));
    let list = machine().run(["agents", "--format", "json"]).stdout_of(0);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list[1]["name"], "helper");
    assert_eq!(list[1]["settings"]["max_turns"], 4);
}

#[test]
fn agents_and_agents_list_print_the_same() {
    let machine = machine();
    let alone = machine.run(["agents"]).stdout_of(0);
    assert_eq!(machine.run(["agents", "list"]).stdout_of(0), alone);
    let list = machine.run(["agents", "list", "--format", "json"]);
    assert!(list.stdout_of(0).starts_with("[\n"));
}

#[test]
fn a_question_to_an_agent_runs_with_its_settings() {
    let ask = [
        "ask",
        "--agent",
        "helper",
        "--format",
        "events",
        "What time is it?",
    ];
    let events = machine().run(ask).events();
    let root = &events[0]["spec"]["root"];
    assert_eq!(root["profile"]["name"], "helper");
    assert_eq!(root["system_prompt"], "You help with clocks.");
    assert_eq!(root["limits"]["max_turns"], 4);
    let tools: Vec<_> = root["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(tools, ["current_time", "research", "read_output"]);
    assert_eq!(events[1]["requested_agent"], "helper", "{}", events[1]);
}

#[test]
fn policy_explain_shows_the_limits_and_tools_of_an_agent() {
    let explain = ["policy", "explain", "--agent", "helper", "Hello"];
    let text = machine().run(explain).stdout_of(0);
    for expected in [
        "agent       helper\n",
        "Agent helper answers, because the request asks for it.",
        "At most 4 turns, set by agent helper.",
        ", 30s per call, 64 agents, 2 deep\n",
        "Agent helper does not use these tools: ",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn an_unknown_agent_is_a_usage_error_that_suggests_the_nearest() {
    for command in [
        &["ask", "--agent", "helpr", "Hello"][..],
        &["chat", "--agent", "helpr"],
        &["policy", "explain", "--agent", "helpr", "Hello"],
    ] {
        let complaint = machine().run(command).complaint(2);
        let expected = "unknown agent \"helpr\" (did you mean helper?)";
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn a_typo_in_an_agent_is_reported_with_its_location() {
    for (text, expected) in [
        ("[agents.helper]\ninstruction = 'x'", "unknown key"),
        (
            "[agents.helper]\nagents = ['reseacher']",
            "did you mean researcher?",
        ),
        (
            "[channels.chat]\nagent = 'main_thred'",
            "did you mean main_thread?",
        ),
        (
            "[channels.chat]\nprofile = 'research_supervisor'",
            "did you mean deep_research?",
        ),
    ] {
        let machine = Machine::new().with_file("neuraxis.toml", text);
        let complaint = machine.run(["ask", "Hello"]).complaint(2);
        assert!(complaint.contains(expected), "{complaint}");
        assert!(complaint.contains("neuraxis.toml:"), "{complaint}");
    }
}
