//! A file of the working directory: it says what it likes, and the user is told what it loosens, or forbids it.

use super::*;

const LOOSER: &str = "[modes.moderate]\nmax_turns = 30\n";
const TIGHTER: &str =
    "[modes.moderate]\nmax_turns = 3\n[modes.moderate.tools]\nread_only = 'ask'\n";
const ADDS: &str = "[modes.quick]\nmax_turns = 2\ntools.read_only = 'allow'\n\
                    [channels.clock]\nrole = 'router'\ntools = ['current_time']\n\
                    [plans.mine]\nmax_turns = 5\n\
                    [prices.'openai/*']\nprompt = 1.0\ncompletion = 1.0\n";
const FORBIDS: &str = "[config]\nproject_policy = 'tighten'\n";
const VARIABLE: &str = "NEURAXIS_CONFIG__PROJECT_POLICY";

/// Returns a machine with this file in its working directory.
fn at_work(text: &str) -> Machine {
    Machine::new().with_file("work/neuraxis.toml", text)
}

/// Returns a machine whose user forbids such a file to loosen anything.
fn guarded(text: &str) -> Machine {
    at_work(text).with_variable(VARIABLE, "tighten")
}

#[track_caller]
fn notice(machine: &Machine) -> String {
    let config = machine.load().unwrap();
    let [notice] = config.notices() else {
        panic!("not one notice: {:?}", config.notices())
    };
    notice.clone()
}

#[track_caller]
fn assert_no_notice(machine: &Machine) {
    let config = machine.load().unwrap();
    assert_eq!(config.notices(), [""; 0]);
}

#[test]
fn it_is_honored_and_what_it_loosens_is_told_with_file_line_and_key() {
    let machine = at_work(LOOSER);
    assert_eq!(
        max_turns(&machine.load().unwrap(), &Mode::MODERATE),
        Some(30)
    );
    assert_eq!(
        notice(&machine),
        "neuraxis.toml:2: modes.moderate.max_turns loosens the policy that your other sources make (to forbid it to a file \
         found in the working directory, set NEURAXIS_CONFIG__PROJECT_POLICY=tighten, or config.project_policy in the file \
         of your configuration folder)"
    );
}

#[test]
fn it_is_honored_exactly_like_a_file_that_is_named() {
    for text in [LOOSER, TIGHTER, ADDS] {
        let machine = at_work(text);
        let named = Sources::default().with_file("neuraxis.toml");
        let named = machine.load_from(&named).unwrap();
        let found = machine.load().unwrap();
        assert_eq!(found.policy().hash(), named.policy().hash(), "{text}");
        assert_eq!(lines(&found), lines(&named), "{text}");
        assert_eq!(named.notices(), [""; 0], "who names it knows it");
    }
}

#[test]
fn a_rule_that_allows_is_told() {
    let machine = at_work(
        "# mine\n[rules.all]\ntools = ['write_file']\nmodes = ['moderate']\nanswer = 'allow'\n",
    );
    let told = notice(&machine);
    assert!(
        told.starts_with("neuraxis.toml:5: rules.all.answer loosens"),
        "{told}"
    );
}

#[test]
fn what_only_tightens_or_adds_is_not_told() {
    assert_no_notice(&at_work(TIGHTER));
    assert_no_notice(&at_work(ADDS));
    assert_no_notice(&at_work("[models.reasoning]\nprovider = 'offline'\n"));
}

#[test]
fn what_is_loosened_behind_what_is_added_is_told_all_the_same() {
    let told = notice(&at_work(&format!("{ADDS}{LOOSER}")));
    assert!(
        told.contains(": modes.moderate.max_turns loosens"),
        "{told}"
    );
}

#[test]
fn it_is_measured_against_what_the_users_own_sources_make() {
    let own = |turns: u32| {
        let own = format!("[modes.moderate]\nmax_turns = {turns}\n");
        at_work("[modes.moderate]\nmax_turns = 20\n").with_file("user/neuraxis.toml", &own)
    };
    assert_no_notice(&own(25));
    assert!(notice(&own(5)).contains("modes.moderate.max_turns"));
    // A key that a stronger source sets can loosen nothing.
    let machine = own(5).with_variable("NEURAXIS_MODES__MODERATE__MAX_TURNS", "5");
    assert_no_notice(&machine);
}

#[test]
fn a_user_may_change_what_only_the_project_adds() {
    let machine = at_work(&format!("{ADDS}{LOOSER}"))
        .with_variable("NEURAXIS_CHANNELS__CLOCK__TOOLS", "['calculate']");
    let shown = lines(&machine.load().unwrap());
    let expected = r#"channels.clock.tools = ["calculate"]"#;
    assert!(shown.contains(&expected.to_owned()), "{shown:#?}");
    // Without the project there is no such channel to compare with.
    assert!(notice(&machine).contains("modes.moderate.max_turns"));
}

#[test]
fn what_a_variable_overrides_as_a_whole_is_not_told() {
    let gather = "[channels.chat.opening.gather]\nrole = 'reasoning'\ntool = 'calculate'\ndefault_arguments = '{}'\n";
    assert!(notice(&at_work(gather)).contains(": channels.chat.opening loosens"));
    let machine = at_work(gather).with_variable(
        "NEURAXIS_CHANNELS__CHAT__OPENING__GATHER",
        "{ role = 'router', tool = 'current_time', default_arguments = '{}' }",
    );
    let shown = lines(&machine.load().unwrap()).join("\n");
    assert!(
        shown.contains(r#"opening.gather.tool = "current_time""#),
        "{shown}"
    );
    assert_no_notice(&machine);
}

#[test]
fn the_file_of_the_configuration_folder_is_the_users_own_wherever_the_program_runs() {
    let own = format!("{FORBIDS}{LOOSER}");
    let mut machine = Machine::new().with_file("user/neuraxis.toml", &own);
    let user = machine.folder.path().join("user");
    machine.environment = Environment::new(user.clone()).with_config_dir(user);
    assert_eq!(
        max_turns(&machine.load().unwrap(), &Mode::MODERATE),
        Some(30)
    );
    assert_no_notice(&machine);
}

#[test]
fn models_and_tools_of_a_project_are_its_own_affair() {
    let machine = guarded("[models.reasoning]\nprovider = 'offline'\n");
    let config = machine.load().unwrap();
    assert_eq!(config.models().len(), 1);
    assert_eq!(config.policy().hash(), Policy::built_in().hash());
}

#[test]
fn what_is_no_policy_at_all_is_complained_of_as_anywhere() {
    let text = "[modes.moderate]\nmax_turns = 0\n";
    for machine in [at_work(text), guarded(text)] {
        let complaint = machine.complaint();
        assert!(
            complaint.starts_with("neuraxis.toml:2:1: wrong policy: "),
            "{complaint}"
        );
    }
}

#[test]
fn a_user_who_forbids_it_has_what_it_would_loosen_refused_with_file_line_and_key() {
    let complaint = guarded(LOOSER).complaint();
    for part in [
        "neuraxis.toml:2:1: config.project_policy lets this file only tighten the policy",
        "project file",
        "modes.moderate.max_turns",
    ] {
        assert!(complaint.contains(part), "{complaint}");
    }
    let allows = "[rules.all]\nanswer = 'allow'\ntools = ['write_file']\n";
    let complaint = guarded(allows).complaint();
    assert!(
        complaint.contains("neuraxis.toml:") && complaint.contains("rules.all"),
        "{complaint}"
    );
    let complaint = guarded(ADDS).complaint();
    assert!(complaint.contains("modes.quick"), "{complaint}");
}

#[test]
fn each_source_of_the_users_own_can_forbid_it() {
    let by_file = at_work(LOOSER).with_file("user/neuraxis.toml", FORBIDS);
    assert!(matches!(
        by_file.load().unwrap_err(),
        ConfigError::Project { .. }
    ));
    let by_flag = Sources::default().with_flag("--set", "config.project_policy", "tighten");
    let refused = at_work(LOOSER).load_from(&by_flag).unwrap_err();
    assert!(matches!(refused, ConfigError::Project { .. }));
    // The stronger source counts.
    let lifted = by_file.with_variable(VARIABLE, "full");
    assert_eq!(
        max_turns(&lifted.load().unwrap(), &Mode::MODERATE),
        Some(30)
    );
}

#[test]
fn whoever_names_it_vouches_for_it() {
    let named = Sources::default().with_file("neuraxis.toml");
    let text = format!("{FORBIDS}{LOOSER}");
    for machine in [guarded(LOOSER), at_work(&text)] {
        let config = machine.load_from(&named).unwrap();
        assert_eq!(max_turns(&config, &Mode::MODERATE), Some(30));
    }
}

#[test]
fn where_it_may_only_tighten_it_does_so_and_variables_and_flags_override_it_key_by_key() {
    let machine =
        guarded(TIGHTER).with_file("user/neuraxis.toml", "[modes.moderate]\nmax_turns = 20\n");
    let config = machine.load().unwrap();
    assert_eq!(max_turns(&config, &Mode::MODERATE), Some(3));
    let origin = config.origin("modes.moderate.max_turns");
    assert_eq!(origin.to_string(), "neuraxis.toml:2");

    let machine = guarded(TIGHTER).with_variable("NEURAXIS_MODES__MODERATE__MAX_TURNS", "30");
    let config = machine.load().unwrap();
    assert_eq!(max_turns(&config, &Mode::MODERATE), Some(30));
    let origin = config.origin("modes.moderate.tools.read_only");
    assert_eq!(
        origin.to_string(),
        "neuraxis.toml:4",
        "the rest of it still holds"
    );
    let machine = guarded(LOOSER).with_variable("NEURAXIS_MODES__MODERATE__MAX_TURNS", "5");
    let config = machine.load().unwrap();
    assert_eq!(max_turns(&config, &Mode::MODERATE), Some(5));
}

#[test]
fn it_cannot_say_how_far_it_is_trusted() {
    for word in ["full", "tighten"] {
        let complaint =
            at_work(&format!("# mine\n[config]\nproject_policy = '{word}'\n")).complaint();
        assert_eq!(
            complaint,
            "neuraxis.toml:3:1: config.project_policy: a file found in the working directory cannot say how far it is \
             trusted; set this in the file of your configuration folder, in a file that --config names, or as \
             NEURAXIS_CONFIG__PROJECT_POLICY"
        );
    }
}

#[test]
fn what_is_in_force_is_shown_with_its_origin() {
    let shown = |machine: &Machine| {
        let settings = machine.load().unwrap().settings();
        let mut settings = settings.into_iter();
        let found = settings.find(|setting| setting.key == "config.project_policy");
        let found = found.unwrap();
        (found.value, found.origin.to_string())
    };
    let by_default = shown(&Machine::new());
    assert_eq!(by_default, (r#""full""#.to_owned(), "default".to_owned()));
    let set = shown(&guarded(TIGHTER));
    assert_eq!(set, (r#""tighten""#.to_owned(), VARIABLE.to_owned()));
}
