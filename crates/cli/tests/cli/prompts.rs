//! Saved prompts, and `/compact`.

use std::fs;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

const SECTION: &str = "[prompts.greet]\nabout = \"a greeting\"\ntext = \"Greet $1 in $2.\"\n";

fn with_prompt(machine: Machine, name: &str, text: &str) -> Machine {
    machine.with_private(&format!("config/neuraxis/prompts/{name}.md"), text)
}

fn with_input(machine: &Machine, arguments: &[&str], input: &str) -> Done {
    let file = machine.path("input");
    fs::write(&file, input).unwrap();
    let mut command = machine.command(arguments);
    let command = command.env("MY_KEY", "k");
    let input = fs::File::open(file).unwrap();
    command.stdin(input).output().unwrap().into()
}

fn answering() -> Scripted {
    Scripted::start(std::iter::repeat_n(Turn::Says(&["Done."]), 20))
}

#[test]
fn a_prompt_is_asked_by_name_with_its_arguments_filled_in() {
    let model = answering();
    let machine = model
        .machine()
        .with_private("config/neuraxis/neuraxis.toml", SECTION);
    let machine = with_prompt(machine, "review", "# Review\nReview this change.");
    machine
        .run_with_key(["-p", "greet", "Ada", "old Dutch"])
        .stdout_of(0);
    assert_eq!(model.heard(), ["Greet Ada in old Dutch."]);

    with_input(&machine, &["-p", "review", "only", "errors"], "+ a line\n").stdout_of(0);
    let heard = model.heard().join("\n");
    assert!(
        heard.contains("Review this change.") && heard.contains("only errors"),
        "{heard}"
    );
    assert!(heard.contains("+ a line"), "{heard}");

    let told = machine.run_with_key(["-p", "revuew"]).complaint(2);
    assert!(told.contains("did you mean review?"), "{told}");
    let told = with_input(&machine, &["-p", "review", "-"], "+ a line\n").complaint(2);
    assert!(told.contains("leave it out"), "{told}");
    assert_eq!(model.asked(), 2);
}

#[test]
fn in_a_chat_a_prompt_is_a_command_and_built_in_commands_take_precedence() {
    let model = answering();
    let machine = model
        .machine()
        .with_private("config/neuraxis/neuraxis.toml", SECTION);
    let machine = with_prompt(machine, "help", "Never asked.");
    let lines = "/greet Ada \"old Dutch\"\n/prompts\n/help\n/grete\n";
    let done = with_input(&machine, &["chat"], lines);
    assert_eq!(model.heard(), ["Greet Ada in old Dutch."]);
    assert_eq!(model.asked(), 1);
    assert!(done.stdout.contains("/greet"), "{done:?}");
    assert!(done.stdout.contains("a greeting"), "{done:?}");
    assert!(
        done.stderr.contains("unknown command \"/grete\""),
        "{done:?}"
    );
}

#[test]
fn in_a_chat_the_arguments_of_a_prompt_are_passed_unchanged() {
    let model = answering();
    let machine = with_prompt(model.machine(), "fix", "Fix this: $ARGUMENTS");
    let given = r#"#12 in C:\src, "as it is"  # not a comment"#;
    with_input(&machine, &["chat"], &format!("/fix {given}\n")).stdout_of(0);
    assert_eq!(model.heard(), [format!("Fix this: {given}")]);
}

#[test]
fn the_prompts_of_a_project_apply_once_it_is_trusted() {
    let machine = Machine::new().with_untrusted(SECTION);
    let told = machine.run(["-p", "greet", "Ada"]).complaint(2);
    assert!(told.contains("unknown prompt"), "{told}");
    let shown = machine.run(["trust", "show"]).stdout_of(0);
    assert!(shown.contains("adds the prompt greet"), "{shown}");
    machine.run(["trust", "add", "--yes"]).stdout_of(0);
    // No rule answers it, but it is asked.
    machine.run(["-p", "greet", "Ada"]).complaint(6);
}

#[test]
fn compact_summarizes_earlier_messages_and_later_runs_receive_the_summary() {
    // A summary is used only if it is shorter than what it replaces.
    let long: &'static str = "A long answer. ".repeat(300).leak();
    let pieces: &'static [&'static str] = vec![long].leak();
    let model = Scripted::start([
        Turn::Says(pieces),
        Turn::Says(&["They spoke of tides."]),
        Turn::Says(&["Yes."]),
        Turn::Says(&["No."]),
    ]);
    let machine = model.machine();
    let lines =
        "/compact\nWhy are there tides?\n/compact\nIs it the moon?\nOr the sun?\n/history\n";
    let done = with_input(&machine, &["chat", "--session", "tides"], lines);
    assert!(
        done.stderr.contains("this session has no messages yet"),
        "{done:?}"
    );
    assert!(
        done.stderr.contains("summarized 2 older messages"),
        "{done:?}"
    );
    assert!(done.stdout.contains("They spoke of tides."), "{done:?}");
    let kept = machine.run(["sessions", "export", "tides"]).stdout_of(0);
    assert!(
        kept.contains("Why are there tides?"),
        "what was said is kept: {kept}"
    );
    assert_eq!(model.asked(), 4);
    let heard = model.heard();
    assert!(heard[0].contains("They spoke of tides."), "{heard:?}");
    assert_eq!(heard[1..], ["Is it the moon?", "Or the sun?"]);
    assert_eq!(model.said(), ["Yes."]);
    let verified = machine.run(["sessions", "verify", "tides"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn without_a_model_compact_is_an_error() {
    let machine = Machine::new();
    let done = machine.run_with_input(["chat"], "What time is it?\n/compact\n");
    assert!(done.stderr.contains("needs a language model"), "{done:?}");
}
