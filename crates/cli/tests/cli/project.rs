//! The file that is found in the working directory: honored, with a note about what it loosens, unless the user forbids it.

use serde_json::Value;

use crate::machine::Machine;

const LOOSER: &str = "[modes.moderate]\nmax_turns = 30\n";
const NOTE: &str = "note: neuraxis.toml:2: modes.moderate.max_turns loosens the policy that your other sources make (to \
                    forbid it to a file found in the working directory, set NEURAXIS_CONFIG__PROJECT_POLICY=tighten, or \
                    config.project_policy in the file of your configuration folder)\n";

/// Returns a machine with this file in its working directory.
fn machine() -> Machine {
    Machine::new().with_file("neuraxis.toml", LOOSER)
}

#[test]
fn what_it_loosens_is_a_note_on_standard_error_in_every_format() {
    for format in ["text", "json", "events"] {
        let done = machine().run(["ask", "--format", format, "What time is it?"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(done.stderr.matches(NOTE).count(), 1, "{done:?}");
        assert!(!done.stdout.contains("loosens"), "{done:?}");
    }
    let done = machine().run(["ask", "--format", "json", "What time is it?"]);
    assert!(serde_json::from_str::<Value>(&done.stdout).is_ok());
}

#[test]
fn it_holds_and_a_file_that_is_named_needs_no_note() {
    let shown = machine().run(["config", "show"]);
    assert_eq!(shown.stderr, "");
    let shown = shown.stdout_of(0);
    for expected in [
        "modes.moderate.max_turns = 30  # neuraxis.toml:2\n",
        "# config.project_policy = \"full\"  # default\n",
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    let done = machine().run(["ask", "--config", "neuraxis.toml", "What time is it?"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.stderr.contains("loosens"), "{done:?}");
}

#[test]
fn a_user_can_forbid_it_and_is_told_what_to_do() {
    let complaint = machine()
        .run(["ask", "--set", "config.project_policy=tighten", "Hi"])
        .complaint(2);
    assert_eq!(
        complaint,
        "error: wrong configuration: neuraxis.toml:2:1: config.project_policy lets this file only tighten the policy\n\
         \x20 because: project file may only tighten the policy, but modes.moderate.max_turns would loosen it: it raises a \
         limit\n\
         hint: if you trust the file, name it with --config, or set config.project_policy = \"full\" in your own configuration\n"
    );
}

#[test]
fn it_cannot_say_so_itself() {
    let text = "[config]\nproject_policy = 'full'\n";
    let machine = Machine::new().with_file("neuraxis.toml", text);
    let complaint = machine.run(["ask", "Hi"]).complaint(2);
    let expected = "error: wrong configuration: neuraxis.toml:2:1: config.project_policy: a file found in the working \
                    directory cannot say how far it is trusted; ";
    assert!(complaint.starts_with(expected), "{complaint}");
}
