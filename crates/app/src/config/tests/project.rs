//! A file of the working directory: nobody vouched for it, so it may only tighten the policy.

use super::*;

const LOOSER: &str = "[modes.moderate]\nmax_turns = 30\n";
const TIGHTER: &str =
    "[modes.moderate]\nmax_turns = 3\n[modes.moderate.tools]\nread_only = 'ask'\n";

#[test]
fn it_may_tighten_the_policy_of_the_users_own_file() {
    let machine = Machine::new()
        .with_file("user/neuraxis.toml", "[modes.moderate]\nmax_turns = 20\n")
        .with_file("work/neuraxis.toml", TIGHTER);
    let config = machine.load().unwrap();
    assert_eq!(max_turns(&config, &Mode::MODERATE), Some(3));
    let origin = config.origin("modes.moderate.max_turns");
    assert_eq!(origin.to_string(), "neuraxis.toml:2");
    assert_ne!(config.policy().hash(), Policy::built_in().hash());
}

#[test]
fn what_it_would_loosen_is_refused_with_file_line_and_key() {
    let machine = Machine::new().with_file("work/neuraxis.toml", LOOSER);
    let complaint = machine.complaint();
    for part in [
        "neuraxis.toml:2:1: a file that nobody vouched for may only tighten the policy",
        "project file",
        "modes.moderate.max_turns",
    ] {
        assert!(complaint.contains(part), "{complaint}");
    }
    let allows = "[rules.all]\nanswer = 'allow'\ntools = ['write_file']\n";
    let machine = Machine::new().with_file("work/neuraxis.toml", allows);
    let complaint = machine.complaint();
    assert!(
        complaint.contains("neuraxis.toml:") && complaint.contains("rules.all"),
        "{complaint}"
    );
}

#[test]
fn whoever_names_it_vouches_for_it() {
    let machine = Machine::new().with_file("work/neuraxis.toml", LOOSER);
    let named = Sources::default().with_file("neuraxis.toml");
    let config = machine.load_from(&named).unwrap();
    assert_eq!(max_turns(&config, &Mode::MODERATE), Some(30));
}

#[test]
fn the_file_of_the_configuration_folder_is_the_users_own_wherever_the_program_runs() {
    let mut machine = Machine::new().with_file("user/neuraxis.toml", LOOSER);
    let user = machine.folder.path().join("user");
    machine.environment = Environment::new(user.clone()).with_config_dir(user);
    assert_eq!(
        max_turns(&machine.load().unwrap(), &Mode::MODERATE),
        Some(30)
    );
}

#[test]
fn variables_and_flags_override_it_key_by_key() {
    let machine = Machine::new()
        .with_file("work/neuraxis.toml", TIGHTER)
        .with_variable("NEURAXIS_MODES__MODERATE__MAX_TURNS", "30");
    let config = machine.load().unwrap();
    assert_eq!(max_turns(&config, &Mode::MODERATE), Some(30));
    let origin = config.origin("modes.moderate.tools.read_only");
    assert_eq!(
        origin.to_string(),
        "neuraxis.toml:4",
        "the rest of it still holds"
    );
    // A key that somebody else sets can loosen nothing.
    let machine = Machine::new()
        .with_file("work/neuraxis.toml", LOOSER)
        .with_variable("NEURAXIS_MODES__MODERATE__MAX_TURNS", "5");
    assert_eq!(
        max_turns(&machine.load().unwrap(), &Mode::MODERATE),
        Some(5)
    );
}

#[test]
fn models_and_tools_of_a_project_are_its_own_affair() {
    let text = "[models.reasoning]\nprovider = 'offline'\n";
    let machine = Machine::new().with_file("work/neuraxis.toml", text);
    let config = machine.load().unwrap();
    assert_eq!(config.models().len(), 1);
    assert_eq!(config.policy().hash(), Policy::built_in().hash());
}

#[test]
fn what_is_no_policy_at_all_is_complained_of_as_anywhere() {
    let text = "[modes.moderate]\nmax_turns = 0\n";
    let complaint = Machine::new()
        .with_file("work/neuraxis.toml", text)
        .complaint();
    assert!(
        complaint.starts_with("neuraxis.toml:2:1: wrong policy: "),
        "{complaint}"
    );
}
