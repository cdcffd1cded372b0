//! Everything fits its screen: lists, runs, answers, help and errors at 60, 80 and 140 columns, with and without
//! colors.

use crate::machine::Machine;
use crate::screen::{CALLS, PROMPT, Screen, chat};
use crate::scripted::{Scripted, Turn};

/// The widths, and whether colors are turned off.
const SCREENS: [(u16, bool); 4] = [(60, false), (80, false), (140, false), (80, true)];

const ANSWER: [&str; 1] = ["\
Run `cargo test` in **all** crates, and then look at what it says, since the terminal of whoever reads this ends somewhere.\n\n\
| what | how |\n| --- | --- |\n| test | run `cargo test` in **all** crates of the workspace, one after the other |\n"];

const MESSAGE: &str =
    "What is to be done before this change can be sent to the people who are going to look at it?";

/// Returns what a command prints on a screen.
fn shown(machine: &Machine, arguments: &[&str], (columns, no_color): (u16, bool)) -> String {
    let screen = Screen::open(machine, arguments, columns, no_color);
    let seen = screen.at_its_end();
    assert!(!no_color || !screen.has_colors(), "{seen}");
    seen
}

/// Checks that the terminal wrapped no line, except commands to be copied.
#[track_caller]
fn assert_fits(seen: &str, columns: u16) {
    let is_copied = |line: &&str| line.starts_with("to continue: ") || line.contains("://");
    let mut lines = seen.lines().filter(|line| !is_copied(line));
    let too_wide = lines.find(|line| line.chars().count() > usize::from(columns));
    assert_eq!(too_wide, None, "{columns}:\n{seen}");
}

/// Returns a text with each run of blanks and line breaks replaced by one blank.
fn words(seen: &str) -> String {
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a machine on which one message was answered, after several calls, one of which was refused.
fn answered(model: &Scripted) -> Machine {
    let machine = model.machine().with_file("notes.md", "one\ntwo\nthree\n");
    let arguments = [
        "ask",
        "--session",
        "a-trip",
        "--channel",
        "code_task",
        "--mode",
        "exploratory",
        MESSAGE,
    ];
    let done = machine
        .command(arguments)
        .env("MY_KEY", "k")
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    machine
}

fn model() -> Scripted {
    Scripted::start([Turn::Calls(&CALLS), Turn::Says(&ANSWER)])
}

#[test]
fn runs_show_prints_the_targets_and_outcomes_of_calls_as_the_chat_does() {
    let model = model();
    let machine = answered(&model);
    for (columns, no_color) in SCREENS {
        let seen = shown(&machine, &["runs", "show", "last"], (columns, no_color));
        assert_fits(&seen, columns);
        let words = words(&seen);
        let in_table = match no_color {
            true => "run `cargo test` in **all** crates",
            false => "run cargo test in all crates",
        };
        for expected in [
            "│ [x] Look",
            "│ [>] Write",
            "read_file notes.md · 3 lines",
            "write_file notes.md · +1 −1",
            "│ -two",
            "│ +2",
            "read_file /etc/passwd · not run:",
            in_table,
        ] {
            assert!(words.contains(expected), "{columns}: {expected:?}:\n{seen}");
        }
        assert!(
            !seen.contains("denied: ") && !seen.contains("\"path\""),
            "{seen}"
        );
    }
    let seen = shown(&machine, &["runs", "show", "last", "-v"], (80, false));
    assert!(seen.contains("│ three"), "what was read:\n{seen}");
}

#[test]
fn sessions_show_prints_the_target_of_each_call() {
    let model = model();
    let machine = answered(&model);
    for (columns, no_color) in SCREENS {
        let seen = shown(
            &machine,
            &["sessions", "show", "a-trip"],
            (columns, no_color),
        );
        assert_fits(&seen, columns);
        let words = words(&seen);
        for expected in [
            "· read_file notes.md · 3 lines",
            "· read_file /etc/passwd · denied:",
        ] {
            assert!(words.contains(expected), "{expected:?}:\n{seen}");
        }
    }
}

#[test]
fn lists_show_the_subject_of_each_entry_at_every_width() {
    let model = model();
    let machine = answered(&model);
    for (columns, no_color) in SCREENS.into_iter().chain([(70, false), (120, false)]) {
        for (list, began) in [
            (["sessions", "list"], "LAST USED"),
            (["runs", "list"], "STARTED"),
        ] {
            let seen = shown(&machine, &list, (columns, no_color));
            assert_fits(&seen, columns);
            assert!(words(&seen).contains("What is to be done before"), "{seen}");
            let heading = seen.lines().find_map(|line| line.find(began));
            let date = seen
                .lines()
                .find_map(|line| line.find(" 20").map(|at| at + 1));
            assert_eq!(
                heading, date,
                "{columns}: {began} is not above the dates:\n{seen}"
            );
        }
    }
}

#[test]
fn titles_in_any_script_fit_every_width_and_hide_nothing() {
    let machine = Machine::new();
    for (session, title) in [
        ("wide", "🗾".repeat(200)),
        ("long", "Two weeks in Japan ".repeat(10)),
        ("hebrew", "שלום ".repeat(40)),
        ("turned", "invoice \u{202e}fdp.exe".to_owned()),
    ] {
        machine
            .run(["ask", "--session", session, "What time is it?"])
            .stdout_of(0);
        machine
            .run(["sessions", "rename", session, &title])
            .stdout_of(0);
    }
    for columns in [60, 80, 120] {
        let seen = shown(&machine, &["sessions", "list"], (columns, false));
        assert_fits(&seen, columns);
        for expected in ["🗾", "Two weeks in Japan", "שלום", "invoice"] {
            assert!(seen.contains(expected), "{columns}: {seen}");
        }
        assert!(!seen.contains('\u{202e}'), "{columns}: {seen}");
    }
}

#[test]
fn output_of_informational_commands_is_wrapped_between_words_and_indented() {
    let machine = Machine::new();
    for (columns, no_color) in SCREENS {
        for command in [
            &["tools", "list"][..],
            &["agents"],
            &["help"],
            &["help", "chat"],
            &["doctor", "--offline"],
            &[
                "policy",
                "explain",
                "--tool",
                "current_time",
                "What time is it?",
            ],
            &["ask", "--mode", "moderat", "What time is it?"],
            &["sessions", "show", "no-such-session-at-all"],
        ] {
            assert_fits(&shown(&machine, command, (columns, no_color)), columns);
        }
    }
    let tools = shown(
        &machine,
        &["tools", "list", "--mode", "conservative"],
        (60, false),
    );
    assert!(
        tools.contains("· deny") && tools.contains("· allow"),
        "{tools}"
    );
}

#[test]
fn an_answer_is_rendered_at_a_terminal_by_every_command_and_raw_elsewhere() {
    let model = Scripted::start([
        Turn::Says(&ANSWER),
        Turn::Says(&ANSWER),
        Turn::Says(&ANSWER),
    ]);
    let machine = model.machine();
    let ask = ["ask", "--session", "s", MESSAGE];
    let seen = shown(&machine, &ask, (60, false));
    assert_fits(&seen, 60);
    assert!(seen.contains("─┼─") && !seen.contains("**"), "{seen}");
    let fork = ["runs", "fork", "last", "--at-turn", "0"];
    let seen = shown(&machine, &fork, (60, false));
    assert!(seen.contains("─┼─") && !seen.contains("**"), "{seen}");
    let raw = machine.command(ask).env("MY_KEY", "k").output().unwrap();
    assert_eq!(
        String::from_utf8(raw.stdout).unwrap().trim_end(),
        ANSWER[0].trim_end()
    );
}

#[test]
fn a_whole_chat_fits_the_screen() {
    let model = Scripted::start([
        Turn::Calls(&CALLS),
        Turn::Says(&ANSWER),
        Turn::Thinks("Seven times six.", "Forty-two.\n"),
        Turn::Says(&["Once more.\n"]),
    ]);
    let machine = model.machine().with_file("notes.md", "one\ntwo\nthree\n");
    for columns in [60, 140] {
        let mut screen = chat(&machine, columns, false);
        for (typed, expected) in [
            ("/help", "to begin a message with a slash"),
            ("/tools", "run_command"),
        ] {
            screen.wipe();
            screen.types(&format!("{typed}\r"));
            let seen = screen.until(typed, |seen| words(seen).contains(expected));
            assert_fits(&seen, columns);
        }
    }
    let mut screen = chat(&machine, 60, false);
    for (typed, expected) in [
        (MESSAGE, "model calls"),
        ("/history", "· read_file notes.md · 3 lines"),
        ("What is it?", "Forty-two."),
        ("/reasoning", "│ Seven times six."),
        ("/retry", "Once more."),
        ("/sessions", "What is to be done before"),
        ("/compact", "the session's runs keep all of it"),
        ("/undo", "undone: What is it?"),
        ("/cost", "model call"),
    ] {
        screen.wipe();
        screen.types(&format!("{typed}\r"));
        let seen = screen.until(typed, |seen| {
            let words = words(seen);
            words.contains(expected) && seen.ends_with(PROMPT)
        });
        let typed_lines = |line: &&str| !line.contains(PROMPT);
        let others: Vec<&str> = seen.lines().filter(typed_lines).collect();
        assert_fits(&others.join("\n"), 60);
    }
    screen.wipe();
    screen.types("/new\r");
    let seen = screen.until("/new", |seen| {
        words(seen).contains("to continue it later:") && seen.ends_with(PROMPT)
    });
    let mut lines = seen.lines();
    let command = lines.find(|line| line.starts_with("neuraxis chat --session "));
    let is_whole =
        command.is_some_and(|it| it.ends_with(" --channel code_task --mode exploratory"));
    assert!(is_whole, "{seen}");
    screen.types("/quit\r");
    screen.at_its_end();
}

#[test]
fn the_usage_of_a_run_is_wrapped_between_words() {
    let model = Scripted::start([Turn::Says(&["Well.\n"])]);
    let machine = model.machine();
    let seen = shown(&machine, &["ask", "Hello?"], (40, true));
    assert!(words(&seen).contains("1 model call"), "{seen}");
    assert_fits(&seen, 40);
}
