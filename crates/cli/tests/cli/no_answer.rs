//! What is shown instead of an answer if nothing could answer: on standard error, with an exit code of its own; and
//! hints that can be used unchanged.

use crate::machine::Machine;
use crate::scripted::{Scripted, Turn};

const HOW_TO_GET_A_MODEL: &str = "export OPENAI_API_KEY=…";

#[test]
fn without_a_model_an_unmatched_question_is_an_error_that_names_how_to_get_one() {
    let machine = Machine::new();
    let told = machine.run(["ask", "Write me a poem."]).complaint(6);
    assert!(told.contains("error: there is no answer"), "{told}");
    let lines = told
        .lines()
        .filter(|line| line.contains(HOW_TO_GET_A_MODEL));
    assert_eq!(lines.count(), 1, "{told}");
    assert!(told.contains("neuraxis setup"), "{told}");

    let events = machine.run(["ask", "--format", "events", "Write me a poem."]);
    assert_eq!(events.code, Some(6));
    assert!(events.stdout.contains("offline/no-rule") || events.stdout.contains("no-rule"));
    let json = machine.run(["ask", "--format", "json", "Write me a poem."]);
    assert!(
        json.stdout_of(6)
            .replace(" ", "")
            .contains("\"status\":\"done\"")
    );
}

#[test]
fn offline_rules_answer_questions_follow_ups_and_forks() {
    let machine = Machine::new();
    let said = machine.run(["What time is it in Asia/Tokyo?"]).stdout_of(0);
    assert!(said.contains("Asia/Tokyo"), "{said}");
    let said = machine.run(["-c", "And in Asia/Kathmandu?"]).stdout_of(0);
    assert!(said.contains("Asia/Kathmandu"), "{said}");
    let fork = ["runs", "fork", "last", "--message", "And in Europe/Berlin?"];
    assert!(machine.run(fork).stdout_of(0).contains("Europe/Berlin"));
    let listed = machine.run(["sessions", "list"]).stdout_of(0);
    let about = "And in Europe/Berlin? (fork of: What time is it in Asia/Tokyo?)";
    assert!(listed.contains(about), "{listed}");
}

#[test]
fn a_recording_and_its_replay_both_report_no_answer() {
    let machine = Machine::new();
    let ask = |option: &str, words: &str| machine.run(["ask", option, "a.cassette", words]);
    ask("--record", "Write me a poem.").complaint(6);
    ask("--replay", "Write me a poem.").complaint(6);
    let told = ask("--replay", "Write me a song.").complaint(1);
    assert!(told.contains("the recording has no answer"), "{told}");
    assert!(
        !told.contains("base_url") && !told.contains("provider refuses"),
        "{told}"
    );
}

#[test]
fn without_a_model_a_case_is_an_error_even_if_its_checks_would_pass() {
    let case = "[[case]]\nname = 'a'\nmessage = 'Write me a poem.'\n\
        check = [{ not_contains = 'sk-' }, { tool_not_called = '*' }, { finish_reason = 'stop' }]\n";
    let machine = Machine::new().with_file("evals.toml", case);
    let done = machine.run(["eval", "evals.toml"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("no model was available"), "{done:?}");
    machine
        .run(["eval", "evals.toml", "--record", "a.cassette"])
        .stdout_of(1);
    let replayed = machine.run(["eval", "evals.toml", "--replay", "a.cassette"]);
    assert!(
        replayed.stdout.contains("no model was available"),
        "{replayed:?}"
    );
    assert_eq!(replayed.code, Some(1), "{replayed:?}");
}

#[test]
fn a_chat_counts_unanswered_messages_and_reports_them_on_standard_error() {
    let machine = Machine::new();
    let done = machine.run_with_input(["chat"], "Write me a poem.\nWhat time is it?\n");
    assert!(done.stderr.contains(HOW_TO_GET_A_MODEL), "{done:?}");
    assert!(!done.stdout.contains("No language model"), "{done:?}");
    assert!(done.stdout.contains("It is"), "{done:?}");
    assert!(
        done.stderr.contains("a message was not answered"),
        "{done:?}"
    );
    assert_eq!(done.code, Some(1));
}

#[test]
fn a_failed_call_that_was_not_retried_is_reported_only_if_verbose() {
    let turns = || {
        [
            Turn::Calls(&[("read_file", r#"{"path": "missing.txt"}"#)]),
            Turn::Says(&["There is no such file."]),
        ]
    };
    for (option, is_told) in [(None, false), (Some("-v"), true)] {
        let model = Scripted::start(turns());
        let machine = model.machine();
        let words = ["ask", "--channel", "code_task", "Read missing.txt"];
        let mut command = machine.command(words);
        let done = command.args(option).env("MY_KEY", "k").output().unwrap();
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(told.contains("was not tried again"), is_told, "{told}");
    }
}

#[test]
fn a_chat_command_is_not_a_question_and_options_may_precede_a_command() {
    let machine = Machine::new();
    for words in [&["/model"][..], &["exit"], &["ask", "/session", "trip"]] {
        let told = machine.run(words).complaint(2);
        assert!(told.contains("neuraxis chat"), "{words:?}: {told}");
    }
    machine.run(["-q", "ask", "What time is it?"]).stdout_of(0);
}

#[test]
fn an_unknown_plan_is_refused_with_a_hint_to_show_the_plans() {
    let machine = Machine::new().with_file("neuraxis.toml", "[plans.team]\nmax_turns = 3\n");
    let told = machine.run(["ask", "--plan", "nope", "Hello"]).complaint(2);
    assert!(told.contains("neuraxis config show plans"), "{told}");
    let shown = machine.run(["config", "show", "plans"]).stdout_of(0);
    assert!(shown.contains("plans.team"), "{shown}");
}

#[test]
fn a_session_with_an_id_like_name_is_created_only_with_the_new_option() {
    let machine = Machine::new();
    for _ in 0..2 {
        machine.run(["What time is it?"]).stdout_of(0);
    }
    let ask = |session: &str, new: Option<&str>| {
        let words = ["ask", "--session", session, "What time is it?"];
        machine.run(words.into_iter().chain(new))
    };
    let told = ask("deadbeef1", None).complaint(2);
    assert!(told.contains("--new"), "{told}");
    let list = ["sessions", "list", "--format", "json"];
    let listed = machine.run(list).stdout_of(0);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let beginning = &id[..4];
    let told = ask(beginning, None).complaint(2);
    assert!(told.contains("several ids begin with"), "{told}");
    ask(beginning, Some("--new")).stdout_of(0);
    let told = ask(beginning, Some("--new")).complaint(2);
    assert!(told.contains("already"), "{told}");
    ask(beginning, None).stdout_of(0);
    ask("plain-name", None).stdout_of(0);
}

#[test]
fn a_denial_names_the_command_that_shows_its_rule() {
    // Text in a call's own arguments is not a reference to a rule.
    for call in [
        &[("read_file", r#"{"path": "/etc/passwd"}"#)],
        &[("read_file", r#"{"path": "/etc/default-policy.toml:7"}"#)],
    ] {
        let model = Scripted::start([Turn::Calls(call), Turn::Says(&["No."])]);
        let machine = model.machine();
        let mut command = machine.command(["ask", "--channel", "code_task", "Read it"]);
        let done = command.env("MY_KEY", "k").output().unwrap();
        let told = String::from_utf8(done.stderr).unwrap();
        let (_, place) = told
            .split_once("neuraxis help default-policy.toml:")
            .unwrap();
        let line: String = place.chars().take_while(char::is_ascii_digit).collect();
        let topic = format!("default-policy.toml:{line}");
        let shown = machine.run(["help", &topic]).stdout_of(0);
        let marked = shown.lines().find(|line| line.starts_with('>')).unwrap();
        assert!(marked.contains("[rules.outside-root]"), "{shown}");
    }
}

#[test]
fn an_empty_policy_test_is_reported_and_an_unknown_tool_is_refused() {
    let machine = Machine::new().with_file("empty.toml", "");
    let done = machine.run(["policy", "test", "empty.toml"]);
    assert!(done.stderr.contains("no cases and no rules"), "{done:?}");
    let words = ["policy", "explain", "--untrusted", "nope", "Hello"];
    let told = machine.run(words).complaint(2);
    assert!(told.contains("unknown tool \"nope\""), "{told}");
}
