//! "Allow in this folder from now on": asked once, and not again in the next session; only there, and until it is
//! revoked.

use std::fs;
use std::path::PathBuf;

use crate::machine::{Done, Machine};
use crate::screen::Screen;
use crate::scripted::{Scripted, Turn};

const WRITES: Turn = Turn::Calls(&[("write_file", r#"{"path":"src/a.txt","content":"one\n"}"#)]);
const WRITES_ELSEWHERE: Turn =
    Turn::Calls(&[("write_file", r#"{"path":"docs/a.txt","content":"one\n"}"#)]);
const DONE: Turn = Turn::Says(&["Done.\n"]);

fn ask(session: &str) -> Vec<String> {
    let arguments = [
        "ask",
        "--session",
        session,
        "--channel",
        "code_task",
        "Write.",
    ];
    arguments.map(str::to_owned).into()
}

fn open(machine: &Machine, session: &str) -> Screen {
    let arguments = ask(session);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Screen::open(machine, &arguments, 100, true)
}

/// Asks where nobody can be asked for approval.
fn unattended(machine: &Machine, session: &str) -> Done {
    let mut command = machine.command(ask(session));
    Done::from(command.env("MY_KEY", "k").output().unwrap())
}

fn run(machine: &Machine, arguments: &[&str]) -> Done {
    Done::from(
        machine
            .command(arguments)
            .env("MY_KEY", "k")
            .output()
            .unwrap(),
    )
}

/// Returns the file of the one folder in which something was allowed.
fn kept(machine: &Machine) -> PathBuf {
    let folder = machine.home().join("data/neuraxis/rules");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut files = files.filter(|file| file.extension().is_some_and(|ending| ending == "toml"));
    let file = files.next().unwrap();
    assert_eq!(files.next(), None);
    file
}

/// Returns a machine on which writing below `src` was allowed in its folder.
fn allowed(model: &Scripted) -> Machine {
    let machine = model.machine();
    let own = machine.home().join("config/neuraxis");
    fs::create_dir_all(&own).unwrap();
    fs::rename(machine.path("neuraxis.toml"), own.join("neuraxis.toml")).unwrap();
    for folder in ["src", "docs"] {
        fs::create_dir(machine.path(folder)).unwrap();
    }
    let mut screen = open(&machine, "first");
    let seen = screen.shows("your answer:");
    assert!(
        seen.contains("[f] allow in this folder from now on: files below src/"),
        "{seen}"
    );
    screen.types("f\r");
    let seen = screen.at_its_end();
    assert!(
        seen.contains("saved in ") && seen.contains("Done."),
        "{seen}"
    );
    machine
}

#[test]
fn a_call_allowed_in_a_folder_is_not_asked_again_until_the_rule_is_removed() {
    let model = Scripted::start([
        WRITES,
        DONE,
        WRITES,
        DONE,
        WRITES_ELSEWHERE,
        DONE,
        WRITES,
        DONE,
    ]);
    let machine = allowed(&model);
    let file = kept(&machine);
    let rule = "[rules.here-allow-src]\nanswer = \"allow\"\n";
    assert!(fs::read_to_string(&file).unwrap().contains(rule));

    // In another session, where nobody can be asked.
    fs::remove_file(machine.path("src/a.txt")).unwrap();
    assert_eq!(unattended(&machine, "second").code, Some(0));
    assert!(machine.path("src/a.txt").exists());
    // The rule covers nothing else.
    unattended(&machine, "third");
    assert!(!machine.path("docs/a.txt").exists());

    let arguments = [
        "policy",
        "explain",
        "--channel",
        "code_task",
        "--tool",
        "write_file",
        "--arguments",
        r#"{"path":"src/b.txt","content":"x"}"#,
        "Write.",
    ];
    let explained = run(&machine, &arguments).stdout_of(0);
    assert!(explained.contains("here-allow-src"), "{explained}");
    let shown = run(&machine, &["trust"]).stdout_of(0);
    assert!(shown.contains("[rules.here-allow-src]"), "{shown}");
    let shown = run(&machine, &["config", "show"]).stdout_of(0);
    assert!(shown.contains("here-allow-src"), "{shown}");

    let removed = run(&machine, &["trust", "remove"]).stdout_of(0);
    assert!(
        removed.contains("removed what you allowed in "),
        "{removed}"
    );
    fs::remove_file(machine.path("src/a.txt")).unwrap();
    unattended(&machine, "fourth");
    assert!(!machine.path("src/a.txt").exists());
}

#[test]
fn a_folder_rule_applies_only_in_its_folder_and_not_with_a_config_option() {
    let model = Scripted::start([WRITES, DONE, WRITES, DONE, WRITES, DONE]);
    let machine = allowed(&model);
    let target = machine.path("src/a.txt");
    fs::remove_file(&target).unwrap();
    let elsewhere = machine.root().join("elsewhere");
    fs::create_dir_all(elsewhere.join("src")).unwrap();
    let mut command = machine.command(ask("second"));
    command.current_dir(&elsewhere).env("MY_KEY", "k");
    command.output().unwrap();
    assert!(!elsewhere.join("src/a.txt").exists());

    let config = machine.home().join("config/neuraxis/neuraxis.toml");
    let mut command = machine.command(ask("third"));
    command.arg("--config").arg(config).env("MY_KEY", "k");
    let done = Done::from(command.output().unwrap());
    assert!(!target.exists(), "{done:?}");
}

#[test]
fn an_error_in_the_rule_file_is_named_and_a_file_writable_by_others_is_ignored() {
    use std::os::unix::fs::PermissionsExt;

    let model = Scripted::start([WRITES, DONE, WRITES, DONE]);
    let machine = allowed(&model);
    let file = kept(&machine);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        format!("{text}\n[models.reasoning]\nmodel = \"x\"\n"),
    )
    .unwrap();
    let complaint = run(&machine, &["doctor", "--offline"]);
    let said = format!("{complaint:?}");
    assert!(
        said.contains("unknown key") && said.contains("models"),
        "{said}"
    );

    fs::write(&file, &text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    fs::remove_file(machine.path("src/a.txt")).unwrap();
    let done = unattended(&machine, "second");
    assert!(done.stderr.contains("is ignored"), "{done:?}");
    assert!(!machine.path("src/a.txt").exists());
}

#[test]
fn undo_reports_that_session_approvals_no_longer_apply() {
    const ASKS: &str = "code_task/moderate>";
    let model = Scripted::start([WRITES, DONE, Turn::Says(&["Later.\n"])]);
    let machine = model.machine();
    fs::create_dir(machine.path("src")).unwrap();
    let chat = ["chat", "--session", "s", "--channel", "code_task"];
    let mut screen = Screen::open(&machine, &chat, 200, true);
    screen.shows(ASKS);
    screen.types("Write.\r");
    let seen = screen.shows("your answer:");
    let offer = seen.split_once("] allow for this session: files below src/");
    let number = offer.unwrap().0.chars().last().unwrap();
    screen.types(&format!("{number}\r"));
    screen.until("the prompt", |seen| seen.matches(ASKS).count() == 2);
    screen.types("And now?\r");
    screen.until("the prompt", |seen| seen.matches(ASKS).count() == 3);
    screen.types("/undo\r");
    screen.shows("asked again about what you allowed for this session");
    screen.until("the prompt", |seen| seen.matches(ASKS).count() == 4);
    screen.types("/approvals\r");
    screen
        .shows("files below src/ (does not apply to the next message, which starts a new session)");
}
