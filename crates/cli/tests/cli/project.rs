//! The file found in the working directory: it is used if it is trusted; otherwise a notice says what is ignored of it.

use serde_json::Value;

use crate::machine::Machine;

const LOOSER: &str = "[modes.moderate]\nmax_turns = 30\n";
const NOTE: &str = "note: ./neuraxis.toml is not trusted; ignored: modes.moderate.max_turns (neuraxis trust show)\n";

#[test]
fn ignored_settings_are_noted_on_standard_error_in_every_format() {
    let machine = Machine::new().with_untrusted(LOOSER);
    for format in ["text", "json", "events"] {
        let done = machine.run(["ask", "--format", format, "What time is it?"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(done.stderr.matches(NOTE).count(), 1, "{done:?}");
        assert!(!done.stdout.contains("ignored"), "{done:?}");
    }
    let done = machine.run(["ask", "--format", "json", "What time is it?"]);
    assert!(serde_json::from_str::<Value>(&done.stdout).is_ok());
}

#[test]
fn an_unknown_name_is_reported_with_the_file_that_was_ignored() {
    let text = "[channels.team]\nagent = 'lead'\n[agents.lead]\ninstructions = 'Lead.'\n";
    let machine = Machine::new().with_untrusted(text);
    for asked in [
        &["ask", "--channel", "team", "Hello"][..],
        &["ask", "--agent", "lead", "Hello"],
        &["ask", "-p", "review", "Hello"],
        &["chat", "--channel", "team"],
        &["chat", "--agent", "lead"],
    ] {
        let complaint = machine.run_with_input(asked, "").complaint(2);
        let note = "note: ./neuraxis.toml is not trusted; ignored: ";
        assert_eq!(complaint.matches(note).count(), 1, "{asked:?}: {complaint}");
    }
}

#[test]
fn a_trusted_or_named_file_applies_without_a_note() {
    let trusted = Machine::new().with_file("neuraxis.toml", LOOSER);
    let named = Machine::new().with_untrusted(LOOSER);
    for (machine, flags) in [(trusted, &[][..]), (named, &["--config", "neuraxis.toml"])] {
        let shown = machine.run([&["config", "show"], flags].concat());
        assert_eq!(shown.stderr, "");
        let shown = shown.stdout_of(0);
        let expected = "modes.moderate.max_turns = 30  # neuraxis.toml:2\n";
        assert!(shown.contains(expected), "{shown}");
        assert!(!shown.contains("project_policy"), "{shown}");
        let done = machine.run([&["ask", "What time is it?"], flags].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(!done.stderr.contains("trust"), "{done:?}");
    }
}

#[test]
fn an_obsolete_project_policy_setting_is_reported() {
    let machine = Machine::new().with_untrusted(LOOSER);
    let done = machine.run([
        "ask",
        "--set",
        "config.project_policy=tighten",
        "What time is it?",
    ]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let told = "note: --set: config.project_policy no longer has any effect and can be removed: ";
    assert!(
        done.stderr.contains(told) && done.stderr.contains(NOTE),
        "{done:?}"
    );
}

#[test]
fn a_project_file_cannot_set_its_own_trust() {
    let text = format!("[config]\nproject_policy = 'full'\n{LOOSER}");
    let machine = Machine::new().with_untrusted(text);
    let done = machine.run(["ask", "What time is it?"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let told = "ignored: modes.moderate.max_turns, config.project_policy (";
    assert!(done.stderr.contains(told), "{done:?}");
}
