//! The plan of a session, as the user and the next run see it.

use crate::scripted::{Scripted, Turn};

const PLAN: &str = r#"{"steps":[{"step":"Read the map","status":"done"},{"step":"Dig","status":"in_progress"},{"step":"Rest","status":"pending"}]}"#;

#[test]
fn a_plan_is_shown_as_a_checklist_and_given_to_the_next_run() {
    let model = Scripted::start([
        Turn::Calls(&[("update_plan", PLAN)]),
        Turn::Says(&["Planned."]),
        Turn::Says(&["Digging is next."]),
    ]);
    let machine = model.machine();
    let run = |arguments: &[&str]| {
        let mut command = machine.command(["--set", "store.url=sqlite://s.db"]);
        let done = command.args(arguments).env("MY_KEY", "k").output().unwrap();
        crate::machine::Done::from(done).stdout_of(0)
    };
    run(&["ask", "--session", "s", "Find the treasure."]);
    let shown = run(&["sessions", "show", "s"]);
    let list = "plan\n  [x] Read the map\n  [>] Dig\n  [ ] Rest\n";
    assert!(shown.contains(list), "{shown}");
    run(&["ask", "--session", "s", "What is next?"]);
    let told = model.told().join("\n");
    assert!(
        told.contains("[x] Read the map\n[>] Dig\n[ ] Rest"),
        "{told}"
    );
}
