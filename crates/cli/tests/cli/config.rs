//! `neuraxis config`.

use std::fs;

use crate::machine::{Done, Machine};

#[test]
fn every_value_is_shown_with_its_origin() {
    let file = "\
# mine
[models.coding]
provider = 'llama'
base_url = 'http://me:hunter2@127.0.0.1:8080'
api_key_env = 'MY_KEY'
api_key_file = '/run/hunter2'

[modes.moderate]
max_turns = 7
deadline = '90s'
";
    let machine = Machine::new().with_file("neuraxis.toml", file);
    let mut command = machine.command(["config", "show", "--set", "plans.mine.max_turns=3"]);
    command.env("NEURAXIS_MODES__MODERATE__TEMPERATURE", "0.3");
    let shown = Done::from(command.output().unwrap()).stdout_of(0);
    assert!(!shown.contains("hunter2"), "{shown}");
    let root = machine.root().canonicalize().unwrap();
    // The wording of the policy is not checked here.
    let shown = shown.lines().filter(|line| !line.contains("system_prompt"));
    let shown = shown.collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(shown.replace(&root.display().to_string(), "~"));
}

#[test]
fn config_show_output_is_a_valid_configuration_file() {
    let machine = Machine::new();
    let shown = machine.run(["config", "show"]).stdout_of(0);
    let machine = machine.with_file("again.toml", &shown);
    let again = machine
        .run(["config", "show", "--config", "again.toml"])
        .stdout_of(0);
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.split("  # ").next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(values(&shown), values(&again));
}

#[test]
fn config_show_output_works_as_the_file_of_the_working_directory() {
    let machine = Machine::new();
    let shown = machine.run(["config", "show"]).stdout_of(0);
    let machine = machine.with_file("neuraxis.toml", &shown);
    let again = machine.run(["config", "show"]).stdout_of(0);
    let line = |text: &str| text.lines().filter(|line| line.contains(" = ")).count();
    assert_eq!(line(&shown), line(&again));
}

#[test]
fn config_init_writes_a_file_that_sets_nothing() {
    let machine = Machine::new();
    assert_eq!(
        machine.run(["config", "init"]).stdout_of(0),
        "wrote neuraxis.toml\n"
    );
    let shown = machine.run(["config", "show"]).stdout_of(0);
    assert!(shown.starts_with("# read: neuraxis.toml\n"), "{shown}");
    let settings = shown.lines().filter(|line| !line.starts_with('#'));
    // The one key that every machine in these tests sets.
    let origins = settings.filter(|line| !line.starts_with("discovery.local_servers"));
    assert!(
        origins
            .into_iter()
            .all(|line| line.ends_with("  # default")),
        "{shown}"
    );
    let answer = machine.run(["ask", "What time is it?"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

#[test]
fn config_init_does_not_overwrite_an_existing_file() {
    let machine = Machine::new().with_file("neuraxis.toml", "# mine");
    let complaint = machine.run(["config", "init"]).complaint(2);
    let expected = "error: wrong usage: neuraxis.toml already exists and was not changed\nhint: ";
    assert!(complaint.starts_with(expected), "{complaint}");
    assert_eq!(
        fs::read_to_string(machine.path("neuraxis.toml")).unwrap(),
        "# mine"
    );
}

#[test]
fn config_init_writes_to_the_path_of_the_config_option() {
    let machine = Machine::new();
    let written = machine
        .run(["config", "init", "--config", "mine.toml"])
        .stdout_of(0);
    assert_eq!(written, "wrote mine.toml\n");
    assert!(machine.path("mine.toml").is_file());
    let complaint = machine
        .run(["config", "init", "--config", "no/such/folder.toml"])
        .complaint(2);
    assert!(
        complaint.starts_with("error: wrong usage: cannot write no/such/folder.toml\n"),
        "{complaint}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn the_file_of_the_working_directory_overrides_that_of_the_user() {
    let machine = Machine::new();
    let folder = machine.root().join("home/config/neuraxis");
    fs::create_dir_all(&folder).unwrap();
    let own = "[modes.moderate]\nmax_turns = 7\n[modes.exploratory]\nmax_turns = 7\n";
    fs::write(folder.join("neuraxis.toml"), own).unwrap();
    let machine = machine.with_file("neuraxis.toml", "[modes.moderate]\nmax_turns = 8\n");
    let shown = machine.run(["config", "show"]).stdout_of(0);
    assert!(
        shown.contains("modes.moderate.max_turns = 8  # neuraxis.toml:2\n"),
        "{shown}"
    );
    let expected = format!(
        "modes.exploratory.max_turns = 7  # {}:4\n",
        folder.join("neuraxis.toml").display()
    );
    assert!(shown.contains(&expected), "{shown}");
}
