//! Titles of sessions, and the search for sessions.

use serde_json::Value;

use crate::machine::Machine;
use crate::sessions::used_machine;

const TITLE: &str = "Two weeks in Japan";

/// Returns the list of sessions as JSON, with these options.
fn listed(machine: &Machine, options: &[&str]) -> Vec<Value> {
    let list = [&["sessions", "list", "--format", "json"][..], options].concat();
    serde_json::from_str(&machine.run(list).stdout_of(0)).unwrap()
}

fn ids(list: &[Value]) -> Vec<&str> {
    list.iter().map(|it| it["id"].as_str().unwrap()).collect()
}

fn chat(machine: &Machine, lines: &str) -> crate::machine::Done {
    machine.run_with_input(["chat", "--session", "s"], lines)
}

#[test]
fn a_session_is_listed_and_shown_by_its_title_until_that_is_removed() {
    let machine = used_machine();
    let renamed = machine.run(["sessions", "rename", "trip", "  Two weeks in Japan "]);
    assert_eq!(renamed.stdout_of(0), format!("renamed trip: {TITLE}\n"));
    let list = machine.run(["sessions", "list"]).stdout_of(0);
    assert!(list.contains(&format!("  {TITLE}\n")), "{list}");
    assert!(!list.contains("Asia/Tokyo"), "{list}");
    let shown = machine.run(["sessions", "show", "trip"]).stdout_of(0);
    assert!(shown.contains(&format!("\n  title   {TITLE}\n")), "{shown}");

    let list = listed(&machine, &[]);
    assert_eq!(ids(&list), ["health", "trip"]);
    assert_eq!(list[0]["title"], Value::Null);
    assert_eq!(list[1]["title"], TITLE);
    assert_eq!(list[1]["about"], TITLE);
    assert_eq!(list[1]["first_message"], "What time is it in Asia/Tokyo?");
    let last = &list[1]["last_run"];
    assert_eq!(last["run_id"], machine.runs("trip")[0]);
    assert_eq!(last["status"], "done");
    assert!(
        last["started_at"].is_string() && last["ended_at"].is_string(),
        "{last}"
    );

    let cleared = machine.run(["sessions", "rename", "last", "--clear"]);
    assert_eq!(cleared.stdout_of(0), "removed the title of health\n");
    let cleared = machine.run(["sessions", "rename", "trip", "--clear"]);
    assert_eq!(cleared.stdout_of(0), "removed the title of trip\n");
    let list = machine.run(["sessions", "list"]).stdout_of(0);
    assert!(list.contains("What time is it in Asia/Tokyo?"), "{list}");
    let shown = machine.run(["sessions", "show", "trip"]).stdout_of(0);
    assert!(!shown.contains("title"), "{shown}");
}

#[test]
fn what_is_no_title_or_no_session_is_refused_with_a_next_step() {
    let machine = used_machine();
    let ask = ["ask", "--session", "trial", "What time is it?"];
    machine.run(ask).stdout_of(0);
    let long = "a".repeat(201);
    for (arguments, error, hint) in [
        (
            &["trip", " "][..],
            "the title is empty",
            "rename ID --clear` removes",
        ),
        (
            &["trip", &long],
            "has 201 characters; at most 200",
            "shorten it",
        ),
        (
            &["trip", "one\ntwo"],
            "contains a line break",
            "write it in one line",
        ),
        (
            &["trip", "\u{1b}[31mred"],
            "another control character",
            "in one line",
        ),
        (
            &["nope", TITLE],
            "there is no session \"nope\"",
            "sessions list` lists",
        ),
        (
            &["tri", TITLE],
            "several ids begin with \"tri\"",
            "more of its beginning",
        ),
        (&["trip"], "required", "<TITLE>"),
        (
            &["trip", TITLE, "--clear"],
            "cannot be used with",
            "--clear",
        ),
    ] {
        let rename = [&["sessions", "rename"][..], arguments].concat();
        let complaint = machine.run(rename).complaint(2);
        for expected in [error, hint] {
            assert!(complaint.contains(expected), "{expected:?}: {complaint}");
        }
    }
    assert!(listed(&machine, &[]).iter().all(|it| it["title"].is_null()));
}

#[test]
fn a_search_finds_titles_and_messages_and_goes_on_after_its_limit() {
    let machine = used_machine();
    assert_eq!(ids(&listed(&machine, &["--search", "NEW_york"])), ["trip"]);
    let rename = ["sessions", "rename", "health", "Tokyo, too"];
    machine.run(rename).stdout_of(0);
    let search = ["--search", "tokyo"];
    assert_eq!(ids(&listed(&machine, &search)), ["health", "trip"]);
    let first = machine.run([&["sessions", "list", "--limit", "1"][..], &search].concat());
    let more = "there are more: add --after health";
    assert!(first.stderr.contains(more), "{first:?}");
    assert!(!first.stdout_of(0).contains("trip"));
    let rest = listed(&machine, &[&search[..], &["--after", "health"]].concat());
    assert_eq!(ids(&rest), ["trip"]);

    let nothing = machine.run(["sessions", "list", "--search", "Atlantis"]);
    assert!(
        nothing.stderr.contains("there are no such sessions"),
        "{nothing:?}"
    );
    assert_eq!(nothing.stdout_of(0), "");
    machine
        .run(["sessions", "list", "--search", ""])
        .complaint(2);
}

#[test]
fn forks_and_copies_keep_the_title() {
    let machine = used_machine();
    machine
        .run(["sessions", "rename", "trip", TITLE])
        .stdout_of(0);
    let run = machine.runs("trip").remove(0);
    let message = "And in Europe/Berlin?";
    let fork = [
        "runs",
        "fork",
        &run,
        "--session",
        "branch",
        "--message",
        message,
    ];
    machine.run(fork).stdout_of(0);
    let list = machine.run(["sessions", "list"]).stdout_of(0);
    let about = format!("{TITLE} (fork: {message})");
    assert!(list.contains(&about), "{list}");
    assert_eq!(listed(&machine, &[])[0]["title"], TITLE);

    let exported = machine.run(["sessions", "export", "trip"]).stdout_of(0);
    machine.run(["sessions", "delete", "trip"]).stdout_of(0);
    let import = machine.run_with_input(["sessions", "import", "-"], &exported);
    import.stdout_of(0);
    let shown = machine.run(["sessions", "show", "trip", "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown.stdout_of(0)).unwrap();
    assert_eq!(shown["title"], TITLE);
}

#[test]
fn a_chat_names_its_session_by_the_title_that_it_was_given() {
    let machine = Machine::new();
    let question = "What time is it in Asia/Tokyo?";
    let done = chat(
        &machine,
        &format!("/title Early\n/title\n{question}\n/title {TITLE}\n"),
    );
    assert!(
        done.stderr
            .contains("the next message starts a new session"),
        "{done:?}"
    );
    assert!(
        done.stderr.contains("hint: send the message first"),
        "{done:?}"
    );
    let seen = done.stdout_of(1);
    assert!(
        seen.contains("the session has no title; /title TITLE sets one"),
        "{seen}"
    );
    assert!(
        seen.contains(&format!("the title is now {TITLE}\n")),
        "{seen}"
    );

    let done = chat(
        &machine,
        "/title\n/session\n/sessions\n/title none\n/title\n/session\n",
    );
    assert!(
        done.stderr.contains(&format!("session s ({TITLE})\n")),
        "{done:?}"
    );
    let seen = done.stdout_of(0);
    let expected = format!("the title is {TITLE}; /title none removes it\nsession s ({TITLE}); ");
    assert!(seen.starts_with(&expected), "{seen}");
    assert!(
        seen.contains(&format!("  {TITLE}\n/session ID switches")),
        "{seen}"
    );
    assert!(
        seen.contains("the session has no title now\nthe session has no title;"),
        "{seen}"
    );
    assert!(seen.contains("\nsession s; "), "{seen}");
    assert_eq!(listed(&machine, &[])[0]["title"], Value::Null);
}

#[test]
fn after_an_undo_the_title_of_the_old_session_stays() {
    let machine = Machine::new();
    let ask = ["ask", "--session", "s", "What time is it in Asia/Tokyo?"];
    machine.run(ask).stdout_of(0);
    machine.run(["sessions", "rename", "s", TITLE]).stdout_of(0);
    let lines = "What time is it in Asia/Kathmandu?\n/undo\n/title Mine\nWhat time is it in Europe/Berlin?\n/title Mine\n";
    let done = chat(&machine, lines);
    let refused = "the next message starts a new session";
    assert_eq!(done.stderr.matches(refused).count(), 1, "{done:?}");
    assert_eq!(done.code, Some(1), "{done:?}");
    let list = listed(&machine, &[]);
    let titles: Vec<_> = list
        .iter()
        .map(|it| it["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["Mine", TITLE]);
}

#[cfg(unix)]
#[test]
fn at_a_terminal_the_last_session_is_named_by_its_title() {
    let machine = used_machine();
    machine
        .run(["sessions", "rename", "health", TITLE])
        .stdout_of(0);
    let arguments = ["-c", "What time is it in Asia/Tokyo?"];
    let screen = crate::screen::Screen::open(&machine, &arguments, 120, false);
    let seen = screen.at_its_end();
    let named = format!("session health: {TITLE}");
    assert!(seen.contains(&named), "{seen}");
}
