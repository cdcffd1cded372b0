//! `neuraxis sessions`, with a real database file.

use std::fs;

use neuraxis::core::jiff::Timestamp;
use neuraxis::ports::{ChainHead, Session};

use crate::machine::{Done, Machine};

const QUESTION: &str = "What time is it in Asia/Tokyo?";

/// Returns a machine on which two questions were asked in the session `trip`, and one in another.
pub(crate) fn used_machine() -> Machine {
    let machine = Machine::new();
    for arguments in [
        &["ask", "--session", "trip", QUESTION][..],
        &["ask", "--session", "trip", "And in New_York?"],
        &[
            "ask",
            "--session",
            "health",
            "--channel",
            "code_task",
            "Read missing.txt",
        ],
    ] {
        machine.run(arguments).stdout_of(0);
    }
    machine
}

/// Replaces what differs each time.
pub(crate) fn redacted(machine: &Machine, text: &str) -> String {
    let text = text.replace(&machine.root().display().to_string(), "~");
    let rules = [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}",
            "‹id›",
        ),
        (r"\b[0-9a-f]{64}\b", "‹hash›"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "‹time›"),
        (r"\b(\d+ ms|\d+\.\d s|\d+ min \d+ s)\b", "‹took›"),
        (r#""duration_ms": \d+"#, r#""duration_ms": ‹n›"#),
        (r"\d\d:\d\d(:\d\d)?", "‹clock›"),
        (r#""(sha256:)?[0-9a-f]{16,64}""#, "\"‹hex›\""),
        (r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day", "‹day›"),
        (
            r"\d{1,2} (January|February|March|April|May|June|July|August|September|October|November|December) \d{4}",
            "‹date›",
        ),
        // How much of it fits depends on the day of the week.
        (r"(?m)· It is ‹day›, [^·\n]*?( ·|$)", "· It is ‹now›$1"),
        (r"~?[\d,]+\+? tokens", "‹n› tokens"),
        (r"~?[\d,]+\+? \+ ‹n› tokens", "‹n› tokens"),
    ];
    rules.iter().fold(text, |text, (pattern, with)| {
        let pattern = regex::Regex::new(pattern).unwrap();
        pattern.replace_all(&text, *with).into_owned()
    })
}

/// Returns what commands print, with their exit codes, for a snapshot.
pub(crate) fn transcript(machine: &Machine, commands: &[&[&str]]) -> String {
    let shown = commands.iter().map(|arguments| {
        let Done {
            code,
            stdout,
            stderr,
        } = machine.run(*arguments);
        let code = code.unwrap();
        let line = arguments.join(" ");
        redacted(
            machine,
            &format!("$ neuraxis {line}\n{stdout}{stderr}[exit code {code}]\n"),
        )
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn head(machine: &Machine, session: &str) -> String {
    let verified = ["sessions", "verify", session, "--format", "json"];
    let list: serde_json::Value =
        serde_json::from_str(&machine.run(verified).stdout_of(0)).unwrap();
    list[0]["head"].as_str().unwrap().to_owned()
}

/// Changes the database file directly, bypassing the store.
pub(crate) fn tamper(machine: &Machine, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        use sqlx::Connection;
        let url = format!("sqlite://{}", machine.database().display());
        let mut raw = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let statement = sqlx::AssertSqlSafe(statement.to_owned());
        let done = sqlx::query(statement).execute(&mut raw).await.unwrap();
        assert!(done.rows_affected() > 0);
        raw.close().await.unwrap();
    });
}

#[test]
fn an_empty_store_is_reported_as_empty() {
    insta::assert_snapshot!(transcript(
        &Machine::new(),
        &[
            &["sessions", "list"],
            &["sessions", "list", "--format", "json"],
            &["runs", "list"],
            &["runs", "list", "--format", "json"],
            &["sessions", "verify"],
            &["sessions", "export", "--all"],
            &["sessions", "prune", "--older-than", "1d", "--yes"],
        ]
    ));
}

#[test]
fn missing_or_ambiguous_names_are_refused_with_a_next_step() {
    let machine = used_machine();
    machine
        .run(["ask", "--session", "trial", "What time is it?"])
        .stdout_of(0);
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["sessions", "show", "nope"],
            &["sessions", "show", "tri"],
            &["sessions", "show", "a b\u{1b}[2J"],
            &["sessions", "delete", "trip", "nope"],
            &["runs", "show", "ffff"],
            &["runs", "show", "x"],
            &["runs", "show", ""],
            &["runs", "show", "0"],
            &["runs", "list", "--session", "nope"],
            &["runs", "resume", "ffff"],
            &["runs", "fork", "ffff"],
            &["runs", "replay", "no-such-file.jsonl"],
            &["sessions", "import", "no-such-file.jsonl"],
            &["sessions", "export"],
            &["sessions", "prune"],
            &["sessions", "prune", "--older-than", "1y"],
            &["sessions", "prune", "--older-than", "soon"],
            &["sessions", "verify", "trip", "--expect", "abc"],
            &[
                "sessions",
                "verify",
                "trip",
                "health",
                "--expect",
                &"0".repeat(64)
            ],
        ]
    ));
}

#[test]
fn sessions_are_listed_shown_and_verified() {
    let machine = used_machine();
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["sessions", "list"],
            &["sessions", "list", "--format", "json"],
            &["sessions", "list", "--limit", "1"],
            &["sessions", "list", "--limit", "1", "--after", "health"],
            &["sessions", "list", "--after", "trip"],
            &["sessions", "show", "tr"],
            &["sessions", "show", "heal"],
            &["sessions", "verify"],
            &["sessions", "verify", "trip", "--format", "json"],
        ]
    ));
}

#[test]
fn delete_requires_the_full_session_id_without_a_terminal() {
    let machine = Machine::new();
    for session in ["memo", "memo2", "trip1", "trip2"] {
        let ask = ["ask", "--session", session, "What time is it?"];
        machine.run(ask).stdout_of(0);
    }
    let delete = ["sessions", "delete", "memo"];
    machine.run(delete).stdout_of(0);
    let complaint = machine.run(delete).complaint(2);
    assert!(
        complaint.contains(r#""memo" is not a full session id"#),
        "{complaint}"
    );
    assert!(complaint.contains("give the full id: memo2"), "{complaint}");
    let several = machine.run(["sessions", "delete", "--yes", "trip"]);
    let complaint = several.complaint(2);
    assert!(
        complaint.contains(r#""trip" matches several ids: "#)
            && complaint.contains("hint: give the full id of the one you mean")
            && !complaint.contains("type its end"),
        "{complaint}"
    );
    for part in ["memo", "last"] {
        let done = machine.run(["sessions", "delete", "--yes", part]);
        assert_eq!(done.code, Some(2), "{done:?}");
    }
    machine.run(["sessions", "show", "memo2"]).stdout_of(0);

    let made = machine.run(["ask", "--format", "json", QUESTION]);
    let made: serde_json::Value = serde_json::from_str(&made.stdout_of(0)).unwrap();
    let id = made["session_id"].as_str().unwrap();
    for part in [&id[..8], &id[..35], &id[14..]] {
        let complaint = machine
            .run(["sessions", "delete", "--yes", part])
            .complaint(2);
        assert!(
            complaint.contains(&format!("give the full id: {id}")),
            "{complaint}"
        );
    }
    let deleted = machine.run(["sessions", "delete", "--yes", id]);
    assert_eq!(deleted.stdout_of(0), format!("deleted {id}\n"));
}

#[test]
fn a_session_continues_in_another_process() {
    let machine = Machine::new();
    let first = machine
        .run(["ask", "--format", "json", QUESTION])
        .stdout_of(0);
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let session = first["session_id"].as_str().unwrap();
    let beginning = &session[..30];
    let second = [
        "ask",
        "--format",
        "json",
        "--session",
        beginning,
        "And now?",
    ];
    let second = machine.run(second).stdout_of(0);
    let second: serde_json::Value = serde_json::from_str(&second).unwrap();
    assert_eq!(second["session_id"], session);
    let shown = machine
        .run(["sessions", "show", session, "--format", "json"])
        .stdout_of(0);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["runs"].as_array().unwrap().len(), 2);
    assert_eq!(shown["metrics"]["runs"], 2);
}

#[test]
fn an_owner_without_sessions_has_none_listed_or_exported() {
    let machine = used_machine();
    let list = ["sessions", "list", "--owner", "ada", "--format", "json"];
    assert_eq!(machine.run(list).stdout_of(0).trim(), "[]");
    let export = ["sessions", "export", "--owner", "ada", "-o", "ada.jsonl"];
    assert_eq!(machine.run(export).code, Some(1));
    assert!(!machine.path("ada.jsonl").exists());
}

#[test]
fn an_exported_session_is_imported_unchanged() {
    let machine = used_machine();
    let before = machine
        .run(["sessions", "show", "trip", "--format", "json"])
        .stdout_of(0);
    let head_before = head(&machine, "trip");
    let exported = machine.run(["sessions", "export", "trip"]).stdout_of(0);
    let machine = machine.with_file("trip.jsonl", &exported);
    let export = ["sessions", "export", "--all", "--output", "all.jsonl"];
    machine.run(export).stdout_of(0);
    let all = fs::read_to_string(machine.path("all.jsonl")).unwrap();
    assert!(
        all.contains(&exported),
        "the file of all sessions lacks one"
    );
    assert_eq!(machine.run(export).code, Some(2), "a file was overwritten");

    machine.run(["sessions", "delete", "trip"]).stdout_of(0);
    let database = fs::read(machine.database()).unwrap();
    let asked = QUESTION.as_bytes();
    let is_left = database.windows(asked.len()).any(|bytes| bytes == asked);
    assert!(!is_left, "what was deleted is still in the file");

    machine
        .run_with_input(["sessions", "import", "-"], &exported)
        .stdout_of(0);
    let again = machine
        .run(["sessions", "import", "trip.jsonl"])
        .stdout_of(0);
    assert_eq!(again, "trip: already present and identical\n");
    assert_eq!(head(&machine, "trip"), head_before);
    let after = machine
        .run(["sessions", "show", "trip", "--format", "json"])
        .stdout_of(0);
    assert_eq!(after, before);
    let replayed = machine.run(["runs", "replay", "trip.jsonl"]).stdout_of(0);
    assert_eq!(replayed.matches(": identical, ").count(), 2, "{replayed}");
    machine
        .run(["ask", "--session", "trip", "And now?"])
        .stdout_of(0);
    let conflict = machine.run(["sessions", "import", "trip.jsonl"]);
    assert_eq!(conflict.code, Some(1));
    assert!(
        conflict
            .stderr
            .contains("a different session trip already exists"),
        "{}",
        conflict.stderr
    );
}

#[test]
fn an_import_does_not_extend_a_different_shorter_session_with_the_same_id() {
    let exported = used_machine()
        .run(["sessions", "export", "trip"])
        .stdout_of(0);
    let other = Machine::new().with_file("trip.jsonl", exported);
    other
        .run(["ask", "--session", "trip", QUESTION])
        .stdout_of(0);
    let before = head(&other, "trip");
    let conflict = other.run(["sessions", "import", "trip.jsonl"]).complaint(1);
    assert!(
        conflict.contains("a different session trip already exists: nothing was imported"),
        "{conflict}"
    );
    assert_eq!(head(&other, "trip"), before);
}

#[test]
fn importing_a_session_older_than_the_retention_period_gives_a_warning() {
    let session = Session::new("old".parse().unwrap(), Timestamp::UNIX_EPOCH);
    let head = ChainHead::start(&session).hash;
    let archive = format!(
        r#"{{"type":"session","format":1,"id":"old","created_at":"1970-01-01T00:00:00Z","head":"{head}"}}
{{"type":"session_end","runs":0,"records":0,"head":"{head}"}}
"#
    );
    let machine = Machine::new().with_file("old.jsonl", archive);
    let import = ["sessions", "import", "old.jsonl"];
    let told = machine.run(import);
    assert_eq!(told.code, Some(0));
    assert!(!told.stderr.contains("store.keep"), "{}", told.stderr);
    let keeps = ["--set", "store.keep=90d"];
    let told = machine.run(import.into_iter().chain(keeps));
    assert_eq!(told.code, Some(0));
    assert_eq!(
        told.stderr
            .matches("old has been idle for longer than store.keep")
            .count(),
        1,
        "{}",
        told.stderr
    );
}

#[cfg(unix)]
#[test]
fn the_database_and_exports_are_readable_only_by_the_user() {
    use std::os::unix::fs::PermissionsExt;
    let machine = used_machine();
    machine
        .run(["sessions", "export", "trip", "-o", "trip.jsonl"])
        .stdout_of(0);
    for file in [machine.database(), machine.path("trip.jsonl")] {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[test]
fn a_damaged_file_is_refused_with_its_line_and_nothing_is_imported() {
    let machine = used_machine();
    let exported = machine.run(["sessions", "export", "trip"]).stdout_of(0);
    machine.run(["sessions", "delete", "trip"]).stdout_of(0);
    let lines: Vec<&str> = exported.lines().collect();
    let without = |gone: usize| {
        let kept = lines.iter().enumerate().filter(|(place, _)| *place != gone);
        kept.map(|(_, line)| format!("{line}\n"))
            .collect::<String>()
    };
    let mut swapped = lines.clone();
    swapped.swap(4, 5);
    let machine = machine
        .with_file(
            "changed.jsonl",
            exported.replacen("Asia/Tokyo?", "Asia/Osaka?", 1),
        )
        .with_file("missing.jsonl", without(3))
        .with_file("swapped.jsonl", swapped.join("\n"))
        .with_file("cut.jsonl", lines[..7].join("\n"))
        .with_file("endless.jsonl", without(lines.len() - 1))
        .with_file("garbage.jsonl", "hello\n")
        .with_file("binary.jsonl", [0xff, 0xfe])
        .with_file("empty.jsonl", "");
    let names = [
        "changed", "missing", "swapped", "cut", "endless", "garbage", "binary", "empty",
    ];
    let files = names.map(|name| format!("{name}.jsonl"));
    let commands: Vec<[&str; 3]> = files
        .iter()
        .map(|file| ["sessions", "import", file.as_str()])
        .collect();
    let commands: Vec<&[&str]> = commands.iter().map(|command| &command[..]).collect();
    let told = transcript(&machine, &commands);
    insta::assert_snapshot!(told);
    assert_eq!(machine.run(["sessions", "show", "trip"]).code, Some(2));
}

#[test]
fn verify_finds_altered_records() {
    let machine = used_machine();
    tamper(
        &machine,
        "UPDATE steps SET body = CAST(replace(CAST(body AS TEXT), 'Asia/Tokyo', 'Asia/Osaka') AS BLOB) \
         WHERE run = 1 AND first_seq = 1",
    );
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["sessions", "verify"],
            &["sessions", "verify", "trip", "--format", "json"],
            &["sessions", "export", "trip"],
        ]
    ));
}

#[test]
fn a_damaged_session_does_not_prevent_the_backup_of_others() {
    let machine = used_machine();
    // Whichever session is first, another one follows it.
    machine
        .run(["ask", "--session", "work", QUESTION])
        .stdout_of(0);
    let whole = ["health", "work"].map(|id| {
        let export = ["sessions", "export", id];
        machine.run(export).stdout_of(0)
    });
    tamper(
        &machine,
        "UPDATE steps SET body = CAST(replace(CAST(body AS TEXT), 'Asia/Tokyo', 'Asia/Osaka') AS BLOB) \
         WHERE run = 1 AND first_seq = 1",
    );
    let export = ["sessions", "export", "--all"];
    let printed = machine.run(export);
    let to_file = machine.run([&export[..], &["--output", "all.jsonl"]].concat());
    let complaint = to_file.complaint(1);
    for told in [
        "warning: session trip is damaged and was not written: the step of run ",
        "note: wrote 2 sessions to all.jsonl\n",
        "error: 1 of 3 sessions is damaged and was not written\n",
    ] {
        assert!(complaint.contains(told), "{told}: {complaint}");
    }
    let backup = fs::read_to_string(machine.path("all.jsonl")).unwrap();
    assert_eq!(printed.stdout_of(1), backup);
    for session in &whole {
        assert!(backup.contains(session), "{backup}");
    }
    let length: usize = whole.iter().map(String::len).sum();
    assert_eq!(backup.len(), length, "{backup}");
    machine.run(["sessions", "delete", "health"]).stdout_of(0);
    machine
        .run(["sessions", "import", "all.jsonl"])
        .stdout_of(0);
}

#[test]
fn an_altered_session_can_only_be_continued_as_a_fork() {
    let machine = used_machine();
    let run = &machine.runs("trip")[0];
    tamper(
        &machine,
        "UPDATE steps SET body = CAST(replace(CAST(body AS TEXT), 'Asia/Tokyo', 'Asia/Osaka') AS BLOB) \
         WHERE run = 1 AND first_seq = 1",
    );
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["ask", "--session", "trip", "And now?"],
            &["ask", "--session", "health", "What time is it?"],
            &[
                "runs",
                "fork",
                run,
                "--message",
                "And now?",
                "--session",
                "new"
            ],
            &["ask", "--session", "new", "And now?"],
        ]
    ));
    let talked = machine.run_with_input(["chat", "--session", "trip"], "And now?\n");
    let complaint = talked.complaint(1);
    assert!(
        complaint.contains("session trip was altered after it was stored"),
        "{complaint}"
    );
    let talked = machine.run_with_input(["chat"], "/session trip\n/session\n");
    assert!(
        talked
            .stderr
            .contains("session trip was altered after it was stored"),
        "{talked:?}"
    );
    assert!(!talked.stdout.contains("session trip"), "{talked:?}");
}

#[test]
fn a_truncated_session_is_detected_with_a_noted_head() {
    let machine = used_machine();
    let noted = head(&machine, "trip");
    let expect = ["sessions", "verify", "trip", "--expect", &noted];
    machine.run(expect).stdout_of(0);
    tamper(&machine, "DELETE FROM steps WHERE run = 2");
    tamper(&machine, "DELETE FROM runs WHERE key = 2");
    machine.run(["sessions", "verify", "trip"]).stdout_of(0);
    let found = machine.run(expect);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.stdout.contains("damaged"), "{found:?}");
}

#[test]
fn a_session_that_continued_after_its_head_was_noted_is_not_reported_as_altered() {
    let machine = used_machine();
    let noted = head(&machine, "trip");
    machine
        .run(["ask", "--session", "trip", QUESTION])
        .stdout_of(0);
    let checked = machine.run(["sessions", "verify", "trip", "--expect", &noted]);
    assert!(
        checked.stderr.contains("trip has continued since"),
        "{checked:?}"
    );
    checked.stdout_of(0);
}

#[test]
fn old_sessions_are_pruned_only_after_confirmation() {
    let machine = used_machine();
    insta::assert_snapshot!(transcript(
        &machine,
        &[
            &["sessions", "prune", "--older-than", "1h", "--dry-run"],
            &["sessions", "prune", "--older-than", "0s", "--dry-run"],
            &["sessions", "prune", "--older-than", "0s"],
            &["sessions", "prune", "--older-than", "0s", "--yes"],
            &["sessions", "list"],
        ]
    ));
}

#[test]
fn an_unwritable_data_folder_is_named_with_a_hint() {
    let machine = Machine::new().with_file("file", "in the way");
    for (arguments, code) in [
        (&["ask", "What time is it?"][..], 0),
        (&["sessions", "list"], 0),
        (&["approvals", "list"], 0),
        (&["ask", "-c", "Hi"], 2),
        (&["chat", "-c"], 2),
        (&["runs", "fork", "last"], 2),
        (&["runs", "resume", "last"], 2),
    ] {
        let mut command = machine.command(arguments);
        command.env("XDG_DATA_HOME", machine.path("file"));
        let done = Done::from(command.output().unwrap());
        assert_eq!(done.code, Some(code), "{done:?}");
        let told = "work/file/neuraxis is not writable";
        assert!(done.stderr.contains(told), "{done:?}");
        let what_to_do = "--set store.url=sqlite://FILE";
        assert!(done.stderr.contains(what_to_do), "{done:?}");
    }
    let mut command = machine.command(["tools", "list"]);
    command.env("XDG_DATA_HOME", machine.path("file"));
    Done::from(command.output().unwrap()).stdout_of(0);
}

#[test]
fn commands_that_need_no_session_create_no_database() {
    let machine = Machine::new();
    for arguments in [
        &["tools", "list"][..],
        &["policy", "explain", "Hi"],
        &["config", "show"],
    ] {
        machine.run(arguments).stdout_of(0);
    }
    let in_memory = ["ask", "--set", "store.url=memory:", "What time is it?"];
    machine.run(in_memory).stdout_of(0);
    assert!(!machine.database().exists());
}
