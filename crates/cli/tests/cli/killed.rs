//! Processes that are killed in the middle of a run, and how other processes handle what they leave.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};
use crate::sessions::tamper;

/// Longer than any of these tests waits: the tests let the lease expire themselves.
const LEASE: [&str; 2] = ["--set", "store.lease_ms=600000"];

fn with_key(machine: &Machine, arguments: &[&str]) -> Command {
    let mut command = machine.command(arguments);
    command.env("MY_KEY", "k");
    command
}

fn run(machine: &Machine, arguments: &[&str]) -> Done {
    with_key(machine, arguments).output().unwrap().into()
}

/// Asks a model that says something and then stalls. Returns the process and its run.
fn stalled(machine: &Machine, settings: &[&str]) -> (Child, String) {
    let question = ["ask", "--session", "s", "--format", "events", "Hello?"];
    let question = [&question[..], settings].concat();
    let mut command = with_key(machine, &question);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = Vec::new();
    let stdout = child.stdout.as_mut().unwrap();
    while !String::from_utf8_lossy(&said).contains("\"text\":\"well\"") {
        let mut piece = [0; 1024];
        let read = stdout.read(&mut piece).unwrap();
        assert_ne!(read, 0, "it says nothing");
        said.extend_from_slice(&piece[..read]);
    }
    let run = machine.runs("s").swap_remove(0);
    (child, run)
}

/// Leaves an unfinished run of session `s` behind that says "well", and returns its id.
pub(crate) fn killed(machine: &Machine) -> String {
    let (mut child, run) = stalled(machine, &LEASE);
    // On unix, this is SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    run
}

/// Sets the leases of all runs as if they had expired, and changes nothing else.
fn let_leases_run_out(machine: &Machine) {
    tamper(
        machine,
        "UPDATE runs SET leased_until = 1 WHERE ended_at IS NULL",
    );
}

/// Starts a command that waits for a lease, lets the lease expire once the wait is reported, and returns the command's
/// result.
fn waited_for(machine: &Machine, command: &mut Command) -> Done {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("note: another process is driving run ") {
        let read = stderr.read_line(&mut told).unwrap();
        assert_ne!(read, 0, "it does not wait: {told}");
    }
    let_leases_run_out(machine);
    let mut done = Done::from(child.wait_with_output().unwrap());
    stderr.read_to_string(&mut told).unwrap();
    done.stderr = told;
    done
}

#[test]
fn resuming_a_run_whose_process_was_killed_waits_for_its_lease() {
    let model = Scripted::start([Turn::Stalls("well"), Turn::Says(&["Here I am.\n"])]);
    let machine = model.machine();
    let id = killed(&machine);

    let again = [&["ask", "--session", "s", "Hello?"], &LEASE[..]].concat();
    let complaint = run(&machine, &again).complaint(1);
    let expected = format!(
        "error: session s is busy with run {id}: another process is driving it, or died and still holds its lease for "
    );
    assert!(complaint.starts_with(&expected), "{complaint}");
    let resume = format!("`neuraxis --set store.lease_ms=600000 runs resume {id}` resumes it");
    assert!(complaint.contains(&resume), "{complaint}");

    // The exact command that was proposed, without a wait.
    let again = ["--set", "store.lease_ms=600000", "runs", "resume", &id];
    let done = waited_for(&machine, &mut with_key(&machine, &again));
    let told = format!(
        "note: another process is driving run {id}, or died and still holds its lease: it will be resumed within "
    );
    assert!(done.stderr.contains(&told), "{done:?}");
    assert_eq!(done.stdout_of(0), "Here I am.\n");
}

#[test]
fn a_run_whose_process_was_killed_can_be_cancelled() {
    let model = Scripted::start([Turn::Stalls("well"), Turn::Says(&["Here I am.\n"])]);
    let machine = model.machine();
    let id = killed(&machine);
    let mut end = with_key(&machine, &["runs", "resume", &id, "--cancel"]);
    let ended = waited_for(&machine, &mut end);
    assert_eq!(ended.stdout_of(0), format!("run {id} has ended\n"));
    let next = run(&machine, &["ask", "--session", "s", "And now?"]);
    assert_eq!(next.stdout_of(0), "Here I am.\n");
}

#[test]
fn a_process_that_lost_its_run_reports_the_takeover_and_how_to_inspect_it() {
    let model = Scripted::start([Turn::Stalls("well")]);
    let machine = model.machine();
    let (child, id) = stalled(&machine, &["--set", "store.lease_ms=1000"]);
    // As another process does when it takes the run over.
    tamper(&machine, "UPDATE runs SET token = token + 1");
    let done = Done::from(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(1), "{done:?}");
    for told in [
        "error: another process has taken over the run, or may have by now\n",
        &format!("because: run {id} no longer holds its session\n"),
        &format!(
            "hint: `neuraxis --set store.lease_ms=1000 runs show {id}` shows its state; if it has not ended, `neuraxis --set store.lease_ms=1000 runs resume {id}` resumes it\n"
        ),
    ] {
        assert!(done.stderr.contains(told), "{told}: {done:?}");
    }
}

#[test]
fn a_killed_run_with_unreadable_records_can_be_cancelled() {
    let model = Scripted::start([Turn::Stalls("well")]);
    let machine = model.machine();
    let id = killed(&machine);
    tamper(&machine, "UPDATE steps SET body = CAST('{' AS BLOB)");
    let mut end = with_key(&machine, &["runs", "resume", &id, "--cancel"]);
    let ended = waited_for(&machine, &mut end);
    assert_eq!(ended.stdout_of(0), format!("run {id} has ended\n"));
}

#[test]
fn a_run_whose_lease_expired_is_reported_as_left_behind_and_resumes_at_once() {
    let model = Scripted::start([Turn::Stalls("well"), Turn::Says(&["Here I am.\n"])]);
    let machine = model.machine();
    let id = killed(&machine);
    let_leases_run_out(&machine);
    let what = format!(
        "session s has run {id}, which was left behind: its process died, or could not store its records"
    );

    let complaint = run(&machine, &["ask", "--session", "s", "Hello?"]).complaint(1);
    let expected = format!(
        "error: {what}\nhint: `neuraxis runs resume {id}` resumes it; with --cancel it ends it\n"
    );
    assert_eq!(complaint, expected);
    let greeted = run(&machine, &["chat", "--session", "s"]);
    let greeting = format!("note: {what}: /resume continues it\n");
    assert!(greeted.stderr.contains(&greeting), "{greeted:?}");
    let done = run(&machine, &["runs", "resume", &id]);
    assert!(!done.stderr.contains("another process"), "{done:?}");
    assert_eq!(done.stdout_of(0), "Here I am.\n");
}

#[test]
fn a_question_whose_process_was_killed_is_reported_as_awaiting_approval() {
    let machine = Machine::new();
    let ask = [
        "ask",
        "--wait",
        "--session",
        "s",
        "--set",
        "modes.moderate.tools.read_only=ask",
        "What time is it?",
    ];
    machine.run(ask).complaint(5);
    // A command that asks at a terminal has the run meanwhile.
    let_leases_run_out(&machine);
    let complaint = machine.run(ask).complaint(1);
    for expected in ["which waits for your approval of a call", "approvals show "] {
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn a_chat_also_waits_for_the_lease_of_a_killed_run() {
    let model = Scripted::start([Turn::Stalls("well"), Turn::Says(&["Here I am.\n"])]);
    let machine = model.machine();
    killed(&machine);
    let lines = machine.root().join("lines");
    std::fs::write(&lines, "Hello?\n/resume\n").unwrap();
    let lines = std::fs::File::open(lines).unwrap();
    let mut chat = with_key(&machine, &["chat", "--session", "s"]);
    let done = waited_for(&machine, chat.stdin(lines));
    assert!(
        done.stderr.contains("hint: /resume continues it"),
        "{done:?}"
    );
    assert!(done.stdout.ends_with("Here I am.\n"), "{done:?}");
}

/// Waits until this many runs are in the file, or a process has ended.
fn wait_for_runs(machine: &Machine, most: i64, child: &mut Child) {
    use sqlx::{Connection, Row, SqliteConnection};

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", machine.database().display());
        let mut raw = SqliteConnection::connect(&url).await.unwrap();
        while child.try_wait().unwrap().is_none() {
            let counted = sqlx::query("SELECT count(*) FROM runs")
                .fetch_one(&mut raw)
                .await;
            if counted.unwrap().get::<i64, _>(0) >= most {
                return;
            }
        }
    });
}

#[test]
fn a_killed_import_is_completed_by_repeating_it() {
    const RUNS: i64 = 8;
    let machine = Machine::new();
    for _ in 0..RUNS {
        machine
            .run(["ask", "--session", "trip", "What time is it?"])
            .stdout_of(0);
    }
    let whole = machine.run(["sessions", "export", "trip"]).stdout_of(0);
    machine.run(["sessions", "delete", "trip"]).stdout_of(0);
    let end: Value = serde_json::from_str(whole.lines().last().unwrap()).unwrap();
    let head = end["head"].as_str().unwrap();
    let expect = ["sessions", "verify", "trip", "--expect", head];
    let machine = machine.with_file("trip.jsonl", &whole);
    let import = [
        "sessions",
        "import",
        "trip.jsonl",
        "--set",
        "store.lease_ms=1000",
    ];
    let mut halves = 0;
    for runs in (1..RUNS).cycle().take(30) {
        let mut command = machine.command(import);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for_runs(&machine, runs, &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        let is_whole = machine.run(expect).code == Some(0);
        halves += u8::from(!is_whole);
        let again = machine.run(import);
        assert_eq!(again.code, Some(0), "killed after {runs} runs: {again:?}");
        machine.run(expect).stdout_of(0);
        machine.run(["sessions", "delete", "trip"]).stdout_of(0);
        if halves == 3 {
            return;
        }
    }
    panic!("it was killed halfway {halves} times only");
}

#[test]
fn a_live_process_keeps_its_run_and_ends_it_on_request() {
    let model = Scripted::start([Turn::Stalls("well")]);
    let machine = model.machine();
    let (mut child, id) = stalled(&machine, &[]);
    let refused = run(&machine, &["runs", "resume", &id]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let expected = format!("error: run {id} is in progress in another process, which is alive\n");
    assert!(refused.stderr.contains(&expected), "{refused:?}");
    let told = run(&machine, &["runs", "resume", &id, "--cancel"]);
    assert_eq!(told.stdout_of(0), format!("run {id} has ended\n"));
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_steering_message_reaches_a_run_when_another_process_resumes_it() {
    let turns = ["Here I am.\n", "Hier bin ich.\n"];
    let [one, two] = turns.map(|says| Turn::Says(Vec::leak(vec![says])));
    let model = Scripted::start([Turn::Stalls("well"), one, two]);
    let machine = model.machine();
    let id = killed(&machine);
    let steered = run(&machine, &["runs", "steer", "last", "In German, please."]);
    let untaken = format!("run {id} has not received it yet; if its process has died, ");
    assert!(steered.stdout.starts_with(&untaken), "{steered:?}");
    let_leases_run_out(&machine);
    let steered = run(&machine, &["runs", "steer", &id, "And short."]);
    let expected =
        format!("run {id} receives it when `neuraxis runs resume {id}` or the server resumes it");
    assert!(steered.stdout.starts_with(&expected), "{steered:?}");
    let empty = run(&machine, &["runs", "steer", &id, " "]).complaint(2);
    assert!(empty.contains("the message is empty"), "{empty}");
    let resumed = run(&machine, &["runs", "resume", &id]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let shown = run(&machine, &["sessions", "show", "s"]).stdout_of(0);
    for said in ["In German, please.", "And short."] {
        let told = format!("note: a message arrived during the run: {said}\n");
        assert!(resumed.stderr.contains(&told), "{resumed:?}");
        let apart = format!("\nuser\n  {said}\n");
        assert!(shown.contains(&apart), "{shown}");
    }
    let outline = run(&machine, &["runs", "show", &id]).stdout_of(0);
    let sender = "(during the run, by tester, at the terminal)";
    assert_eq!(outline.matches(sender).count(), 2, "{outline}");
    let heard = model.heard().join("\n");
    assert!(heard.contains("In German, please."), "{heard}");
    assert!(heard.contains("And short."), "{heard}");
    let ended = run(&machine, &["runs", "steer", &id, "Too late."]).complaint(1);
    assert!(ended.contains("has ended"), "{ended}");
}
