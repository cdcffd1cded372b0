//! Machines on which something is missing, wrong or limited that is usually there.

#[cfg(unix)]
use std::process::Command;

use crate::machine::{Done, Machine};

#[test]
fn a_home_that_is_a_relative_path_makes_no_file_of_the_project_the_users_own() {
    let machine = Machine::new();
    let folder = machine.path(".config/neuraxis");
    std::fs::create_dir_all(&folder).unwrap();
    let server = "[mcp.servers.evil]\ncommand = 'sh'\nargs = ['-c', 'touch started']\n\
                  [modes.moderate]\nmax_turns = 99\n";
    std::fs::write(folder.join("neuraxis.toml"), server).unwrap();
    for home in [".", "./"] {
        let run = |arguments: &[&str]| -> Done {
            let mut command = machine.command(arguments);
            command.env("HOME", home);
            for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
                command.env_remove(name);
            }
            command.output().unwrap().into()
        };
        let done = run(&["ask", "What time is it?"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let told = "HOME is not an absolute path";
        assert!(done.stderr.contains(told), "{done:?}");
        assert!(!machine.path("started").exists(), "no server was started");
        assert!(!machine.path(".local").exists(), "nothing was stored there");
        let shown = run(&["config", "show", "modes"]).stdout_of(0);
        assert!(!shown.contains("max_turns = 99"), "{shown}");
        let checked = run(&["doctor", "--offline"]);
        assert!(checked.stdout.contains(told), "{checked:?}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_reported_and_ends_nothing_without_a_message() {
    let machine = Machine::new();
    let mut shell = machine.shell("ulimit -f 0; \"$0\" ask 'What time is it?'");
    let done: Done = shell.output().unwrap().into();
    // A shell adds 128 to the number of a signal.
    assert!(done.code.is_some_and(|code| code < 128), "{done:?}");
    assert!(done.stderr.contains("error: "), "{done:?}");
}

#[test]
fn a_limit_on_open_files_that_leaves_none_to_start_with_is_named() {
    let machine = Machine::new();
    for limit in 5..=8 {
        let script = format!("ulimit -n {limit}; \"$0\" ask 'What time is it?'");
        let done: Done = machine.shell(&script).output().unwrap().into();
        let told = done.complaint(1);
        assert!(told.contains("too many open files"), "{limit}: {told}");
        assert!(told.contains("ulimit -n"), "{limit}: {told}");
        assert!(!told.contains("panicked"), "{limit}: {told}");
    }
}

#[test]
fn a_configuration_that_cannot_be_written_whole_leaves_no_file() {
    let machine = Machine::new();
    let script = "ulimit -f 0; \"$0\" config init --config new.toml";
    let done: Done = machine.shell(script).output().unwrap().into();
    let told = done.complaint(2);
    assert!(told.contains("cannot write new.toml"), "{told}");
    let left = std::fs::read_dir(machine.path("")).unwrap().count();
    assert_eq!(left, 0, "neither half a file nor a temporary one");
    machine
        .run(["config", "init", "--config", "new.toml"])
        .stdout_of(0);
    let again = machine.run(["config", "init", "--config", "new.toml"]);
    let told = again.complaint(2);
    assert!(told.contains("already exists"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_does_not_fit_on_the_disk_is_an_error() {
    let machine = Machine::new();
    for arguments in ["--help", "--version", "ask --help"] {
        let script = format!("\"$0\" {arguments} > /dev/full");
        let done: Done = machine.shell(&script).output().unwrap().into();
        let told = done.complaint(1);
        assert!(told.contains("cannot write to standard output"), "{told}");
    }
}

#[test]
fn a_diagnosis_names_the_projects_instructions_and_whether_they_apply() {
    let machine = Machine::new().with_file("AGENTS.md", "Be brief.\n");
    let told = machine.run(["doctor", "--offline"]).stdout_of(0);
    assert!(told.contains("AGENTS.md is not trusted"), "{told}");
    let machine = Machine::new().with_file("AGENTS.md", b"Be \xff.\n");
    let told = machine.run(["doctor", "--offline"]).stdout_of(0);
    assert!(told.contains("AGENTS.md is ignored: "), "{told}");
}

/// Returns the same command without what lets root write where permissions forbid it.
#[cfg(unix)]
fn without_privileges(command: &Command) -> Command {
    let mut limited = Command::new("setpriv");
    limited
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_written_is_read_with_a_note_and_refuses_changes() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let machine = Machine::new();
    let ask = ["ask", "--session", "trip", "What time is it?"];
    machine.run(ask).stdout_of(0);
    let database = machine.database();
    let folder = database.parent().unwrap();
    let set_mode = |mode| set_permissions(folder, Permissions::from_mode(mode)).unwrap();
    set_mode(0o500);
    let can_write_anyway = std::fs::write(folder.join("probe"), "").is_ok();
    let before = std::fs::read(&database).unwrap();
    let url = format!("store.url=sqlite://{}", database.display());
    for (given, at) in [
        (&[][..], "store.url: default"),
        (&["--set", url.as_str()], "store.url: --set"),
    ] {
        let run = |command: &[&str]| {
            let mut command = machine.command([command, given].concat());
            let done = match can_write_anyway {
                true => without_privileges(&command).output(),
                false => command.output(),
            };
            Done::from(done.unwrap())
        };
        for command in [
            &["sessions", "list"][..],
            &["sessions", "show", "trip"],
            &["sessions", "verify"],
            &["runs", "show", "last"],
            &["runs", "replay", "last"],
            &["stats"],
        ] {
            let done = run(command);
            assert_eq!(done.code, Some(0), "{command:?}: {done:?}");
            assert!(done.stderr.contains("so it is only read"), "{done:?}");
            assert!(done.stderr.contains(at), "{done:?}");
        }
        let told = run(&["sessions", "rename", "trip", "Tokyo"]).complaint(1);
        assert!(told.contains("the store is read-only: "), "{told}");
        assert!(told.contains(at), "{told}");
    }
    assert!(std::fs::read(&database).unwrap() == before);
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let beside = names.filter(|name| name.starts_with("sessions.db-"));
    assert_eq!(beside.count(), 0, "something was put beside it");
    set_mode(0o700);
}
