//! The content of a terminal's screen, by a terminal emulator: at several widths, with and without colors, when it is
//! resized and interrupted, and while the user types.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rexpect::process::PtyProcess;
use rustix::termios::{Winsize, tcsetwinsize};
use sqlx::Connection;

use crate::machine::Machine;
use crate::scripted::{Scripted, Turn};

/// How long something may take to appear before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

const ROWS: u16 = 60;

/// Ctrl-C as the key sends it; the terminal turns it into a signal.
const CTRL_C: &str = "\u{3}";

/// A terminal with a command in it, whose controlling terminal it is.
pub(crate) struct Screen {
    /// Ends with the screen.
    _child: PtyProcess,
    ours: File,
    shown: Arc<(Mutex<vt100::Parser>, Condvar)>,
    /// Signals that the terminal has no writer any more.
    end: Receiver<()>,
}

impl Screen {
    pub(crate) fn open(
        machine: &Machine,
        arguments: &[&str],
        columns: u16,
        no_color: bool,
    ) -> Self {
        // The command starts in a terminal of this size, and with echo.
        let script = format!("stty rows {ROWS} cols {columns} echo; exec \"$0\" \"$@\"");
        let mut command = machine.shell(&script);
        command.args(arguments);
        command.env("TERM", "xterm-256color").env("MY_KEY", "k");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        // The terminal becomes all three standard streams.
        command
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit());
        let child = PtyProcess::new(command).unwrap();
        let shown = Arc::new((
            Mutex::new(vt100::Parser::new(nonzero(ROWS), nonzero(columns), 0)),
            Condvar::new(),
        ));
        let ours = child.get_file_handle().unwrap();
        let (mut reader, writer) = (ours.try_clone().unwrap(), Arc::clone(&shown));
        let (ending, end) = channel::<()>();
        thread::spawn(move || {
            let _ending = ending;
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                writer.0.lock().unwrap().process(&bytes[..read]);
                writer.1.notify_all();
            }
        });
        Self {
            _child: child,
            ours,
            shown,
            end,
        }
    }

    /// Waits until the command has ended, and returns the screen's content.
    #[track_caller]
    pub(crate) fn at_its_end(&self) -> String {
        let ended = self.end.recv_timeout(PATIENCE);
        let seen = contents(&self.shown.0.lock().unwrap());
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected), "{seen}");
        seen
    }

    /// Waits until the screen is as expected, and returns it: lines without trailing blanks.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let (parser, grown) = &*self.shown;
        let parser = parser.lock().unwrap();
        let (parser, waited) = grown
            .wait_timeout_while(parser, PATIENCE, |parser| !is_so(&contents(parser)))
            .unwrap();
        let seen = contents(&parser);
        assert!(!waited.timed_out(), "never {what}:\n{seen}");
        seen
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        self.until(text, |seen| seen.contains(text))
    }

    /// Clears the screen, so that its content cannot be mistaken for what comes next.
    pub(crate) fn wipe(&mut self) {
        self.shown.0.lock().unwrap().process(b"\x1b[2J\x1b[H");
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, columns: u16) {
        self.shown
            .0
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(nonzero(ROWS), nonzero(columns));
        tcsetwinsize(&self.ours, size(columns)).unwrap();
    }

    /// Presses Ctrl-C.
    pub(crate) fn interrupt(&mut self) {
        self.types(CTRL_C);
    }

    pub(crate) fn has_colors(&self) -> bool {
        let parser = self.shown.0.lock().unwrap();
        let screen = parser.screen();
        let cells = (0..ROWS).flat_map(|row| (0..140).map(move |column| (row, column)));
        let mut cells = cells.filter_map(|(row, column)| screen.cell(row, column));
        cells.any(|cell| cell.fgcolor() != vt100::Color::Default)
    }
}

fn nonzero(size: u16) -> NonZero<u16> {
    NonZero::new(size).unwrap()
}

const fn size(columns: u16) -> Winsize {
    Winsize {
        ws_row: ROWS,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn contents(parser: &vt100::Parser) -> String {
    let contents = parser.screen().contents();
    let lines: Vec<&str> = contents.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

pub(crate) const PROMPT: &str = "code_task/exploratory>";

pub(crate) fn chat(machine: &Machine, columns: u16, no_color: bool) -> Screen {
    let arguments = [
        "chat",
        "--session",
        "s",
        "--channel",
        "code_task",
        "--mode",
        "exploratory",
    ];
    let screen = Screen::open(machine, &arguments, columns, no_color);
    screen.shows(PROMPT);
    screen
}

pub(crate) const CALLS: [(&str, &str); 4] = [
    (
        "update_plan",
        r#"{"steps":[{"step":"Look","status":"done"},{"step":"Write","status":"in_progress"}]}"#,
    ),
    ("read_file", r#"{"path":"notes.md"}"#),
    (
        "write_file",
        r#"{"path":"notes.md","content":"one\n2\nthree\n"}"#,
    ),
    ("read_file", r#"{"path":"/etc/passwd"}"#),
];

const ANSWER: [&str; 1] = ["\
Here is a paragraph with **bold words** and `code` that goes on for quite some time, so that it has to be broken at the edge of the terminal.\n\n\
1. First item that is long enough to be broken on a terminal of eighty columns, with a hanging indent.\n\n\
> A quotation that is also long enough to be broken at the right edge of the terminal, I should think.\n\n\
| Name | Value | Description |\n| --- | ---: | --- |\n| gamma | 333 | the third, with a rather long description that will not fit on eighty columns |\n\n\
```rust\nfn main() {}\n```\n"];

#[test]
fn calls_and_answers_fit_the_screen_at_every_width() {
    for (columns, no_color) in [(60, false), (80, false), (140, false), (80, true)] {
        let model = Scripted::start([Turn::Calls(&CALLS), Turn::Says(&ANSWER)]);
        let machine = model.machine().with_file("notes.md", "one\ntwo\nthree\n");
        let mut screen = chat(&machine, columns, no_color);
        screen.types("Go on.\r");
        let seen = screen.until("done", |seen| {
            seen.contains("model calls") && seen.matches(PROMPT).count() == 2
        });
        assert_eq!(screen.has_colors(), !no_color, "{seen}");
        for expected in [
            "[x] Look\n[>] Write\n",
            "\nread_file notes.md · 3 lines",
            "\nwrite_file notes.md · +1 −1",
            "\n  │ -two\n  │ +2\n",
            "read_file /etc/passwd was not run: ",
            "\ngamma │   333 │ the third, with a rather long",
        ] {
            assert!(seen.contains(expected), "{columns}: {expected:?}:\n{seen}");
        }
        let too_wide = seen
            .lines()
            .find(|line| line.chars().count() > usize::from(columns));
        assert_eq!(too_wide, None);
        assert!(seen.contains("\nfn main() {}\n"), "{seen}");
        let words: Vec<&str> = seen.split_whitespace().collect();
        let words = words.join(" ");
        assert!(
            words.contains("be broken at the edge of the terminal. 1. First item"),
            "{seen}"
        );
        if columns == 60 {
            let item = "1. First item that is long enough to be broken on a terminal\n   of eighty columns, with";
            let quotation =
                "\n│ A quotation that is also long enough to be broken at the\n│ right edge of";
            assert!(seen.contains(item) && seen.contains(quotation), "{seen}");
        }
    }
}

#[test]
fn resizing_typing_and_interrupting_leave_no_stale_text_on_the_screen() {
    let model = Scripted::start([Turn::Stalls(""), Turn::Says(&["Well.\n"])]);
    let machine = model.machine();
    let mut screen = chat(&machine, 140, false);
    screen.types("Hello?\r");
    screen.shows("waiting for the model");
    screen.types("next ");
    screen.resize(60);
    screen.types("one");
    // It is redrawn at the new width.
    screen.shows("waiting for the model · 2.0 s");
    screen.interrupt();
    let seen = screen.until("the prompt", |seen| seen.matches(PROMPT).count() == 2);
    assert!(
        !seen.contains("waiting") && !seen.contains("model ·"),
        "{seen}"
    );
    // The typed text becomes part of the next message, and appears nowhere else.
    let seen = screen.shows("next one");
    assert_eq!(seen.matches("next").count(), 1, "{seen}");
    screen.types("\r");
    screen.shows("Well.");
    assert_eq!(model.heard().last().map(String::as_str), Some("next one"));
}

#[test]
fn messages_printed_while_a_run_ends_are_above_the_status_line() {
    let model = Scripted::start([Turn::Stalls("")]);
    let machine = model.machine();
    let arguments = ["--set", "store.patience_ms=60000", "chat", "--session", "s"];
    let mut screen = Screen::open(&machine, &arguments, 100, false);
    screen.shows("chat/moderate>");
    screen.types("Hello?\r");
    screen.shows("waiting for the model");
    // The end of the run cannot be written, so the run keeps ending.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let url = format!("sqlite://{}", machine.database().display());
    let holder = runtime.block_on(async {
        let mut holder = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let begin = sqlx::query("BEGIN EXCLUSIVE");
        begin.execute(&mut holder).await.unwrap();
        holder
    });
    let seconds = |seen: &str| -> Option<f64> {
        let (_, time) = seen.rsplit_once("waiting for the model · ")?;
        time.split_once(" s")?.0.parse().ok()
    };
    let seen = screen.until("a time", |seen| seconds(seen).is_some());
    let later = seconds(&seen).map(|seconds| seconds + 2.0);
    screen.interrupt();
    // By then the first Ctrl-C was received, so the next one is a second one.
    screen.until("a later time", |seen| seconds(seen) >= later);
    screen.interrupt();
    let seen = screen.shows("press Ctrl-C again to leave immediately");
    assert!(seen.contains("\nnote: the run is ending"), "{seen}");
    runtime.block_on(holder.close()).unwrap();
    let seen = screen.until("the prompt", |seen| {
        seen.matches("chat/moderate>").count() == 2
    });
    assert!(!seen.contains("waiting for the model"), "{seen}");
}

#[test]
fn no_approval_is_requested_for_a_patch_that_does_not_fit() {
    const CALLS: [(&str, &str); 1] = [(
        "apply_patch",
        r#"{"patch":"--- a/notes.md\n+++ b/notes.md\n@@ -1 +1 @@\n-absent\n+b\n"}"#,
    )];
    let model = Scripted::start([Turn::Calls(&CALLS), Turn::Says(&["I see.\n"])]);
    let machine = model.machine().with_file("notes.md", "one\n");
    let arguments = ["ask", "--channel", "code_task", "Go on."];
    let screen = Screen::open(&machine, &arguments, 80, false);
    let seen = screen.shows("I see.");
    assert!(!seen.contains("asks for your approval"), "{seen}");
    assert!(
        seen.contains("apply_patch notes.md · invalid arguments"),
        "{seen}"
    );
}

#[test]
fn the_output_of_an_interrupted_command_stays_and_is_sent_to_the_model() {
    const CALLS: [(&str, &str); 1] = [("run_command", r#"{"command":"seq 1 3; sleep 600"}"#)];
    let model = Scripted::start([Turn::Calls(&CALLS), Turn::Says(&["I see.\n"])]);
    let machine = model.machine();
    let mut screen = chat(&machine, 80, false);
    screen.types("Count.\r");
    screen.shows("your answer:");
    screen.types("y\r");
    screen.shows("│ 3");
    screen.types("and now");
    screen.interrupt();
    let seen = screen.until("the prompt", |seen| seen.matches(PROMPT).count() == 2);
    assert!(seen.contains("\n  │ 1\n  │ 2\n  │ 3\n"), "{seen}");
    assert!(!seen.contains("running run_command"), "{seen}");
    // Text typed before Ctrl-C is not lost.
    screen.shows(&format!("{PROMPT} and now"));
    screen.types("\r");
    screen.shows("I see.");
    assert_eq!(model.heard().last().map(String::as_str), Some("and now"));
    let results = model.results();
    assert!(results.contains(r"1\n2\n3"), "{results}");
}
