//! What a user at a terminal sees. Everything here runs in a real terminal.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::machine::Machine;

/// Runs a command in a terminal and returns its exit code with everything that the terminal received.
fn in_terminal(command: &mut Command) -> (Option<i32>, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = || -> Stdio {
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        rustix::fs::open(&name, flags, rustix::fs::Mode::empty())
            .unwrap()
            .into()
    };
    let child = command.stdin(theirs()).stdout(theirs()).stderr(theirs());
    let mut child = child.spawn().unwrap();
    // The test's own copies of the other side would keep the terminal open.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut got = Vec::new();
    // On Linux, reading from a terminal that no process has open anymore ends with an error.
    let _ = File::from(ours).read_to_end(&mut got);
    (
        child.wait().unwrap().code(),
        String::from_utf8(got).unwrap(),
    )
}

fn ask(machine: &Machine) -> Command {
    let mut command =
        machine.command(["ask", "--channel", "system_health", "How is this machine?"]);
    command.env("TERM", "xterm-256color");
    command
}

#[test]
fn a_terminal_shows_the_active_model_and_tool_with_durations() {
    let (code, seen) = in_terminal(&mut ask(&Machine::new()));
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("\u{1b}["), "{seen:?}");
    let plain = without_styles(&seen);
    for expected in [
        "running system_health: CPU (0 of 8)",
        "system_health · ",
        "offline/rules · 2 model calls · ",
        " ms",
        "Memory: ",
        "to continue: neuraxis chat --session ",
    ] {
        assert!(plain.contains(expected), "{expected:?} is not in {plain:?}");
    }
    let (_, verbose) = in_terminal(ask(&Machine::new()).arg("-v"));
    let verbose = without_styles(&verbose);
    for expected in ["reasoning (offline/rules) · ", " · asks for a tool", "  │ "] {
        assert!(
            verbose.contains(expected),
            "{expected:?} is not in {verbose:?}"
        );
    }
    let (_, quiet) = in_terminal(ask(&Machine::new()).arg("-q"));
    assert!(
        !quiet.contains("system_health") && !quiet.contains("model calls"),
        "{quiet:?}"
    );
}

fn without_styles(seen: &str) -> String {
    let styles = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    styles.replace_all(seen, "").into_owned()
}

#[test]
fn messages_about_a_step_start_on_their_own_line() {
    let (_, seen) = in_terminal(&mut ask(&Machine::new()));
    let end = "(Answered offline by fixed rules, without a language model.)";
    let after = seen.split(end).nth(1).unwrap();
    assert!(after.starts_with("\r\n"), "{after:?}");
}

#[test]
fn no_color_is_honored() {
    let colors = |seen: &str| {
        seen.matches("\u{1b}[").filter(|_| true).count() - seen.matches("\u{1b}[2K").count()
    };
    let machine = Machine::new();
    let (_, colorful) = in_terminal(&mut ask(&machine));
    assert_ne!(colors(&colorful), 0);
    let (_, plain) = in_terminal(ask(&machine).env("NO_COLOR", "1"));
    assert_eq!(colors(&plain), 0, "{plain:?}");
}

#[test]
fn without_a_terminal_there_are_neither_spinners_nor_colors() {
    let machine = Machine::new();
    let mut commands = [
        ask(&machine),
        machine.command(["ask", "--mode", "yolo", "Hi"]),
    ];
    for command in &mut commands {
        let done = command.env("TERM", "xterm-256color").output().unwrap();
        for bytes in [done.stdout, done.stderr] {
            let text = String::from_utf8(bytes).unwrap();
            assert!(
                !text.contains(['\u{1b}', '\r']) && !text.contains("running"),
                "{text:?}"
            );
        }
    }
}

#[test]
fn a_dumb_terminal_gets_neither_spinner_nor_color() {
    let (code, seen) = in_terminal(ask(&Machine::new()).env("TERM", "dumb"));
    assert_eq!(code, Some(0));
    assert!(
        !seen.contains('\u{1b}') && !seen.contains("running"),
        "{seen:?}"
    );
}

#[test]
fn control_characters_are_made_visible_at_a_terminal_and_unchanged_elsewhere() {
    // In JSON, this one control character needs no escape.
    let machine = Machine::new().with_file("hostile.txt", "a\u{9b}2Jb");
    let call = ["tools", "call", "read_file", r#"{"path": "hostile.txt"}"#];
    let (_, seen) = in_terminal(machine.command(call).env("TERM", "xterm"));
    assert!(
        seen.contains("a\u{fffd}2Jb") && !seen.contains('\u{9b}'),
        "{seen:?}"
    );
    assert!(machine.run(call).stdout_of(0).contains("a\u{9b}2Jb"));
}

/// A line editor turns off echo and line mode while it reads.
#[test]
fn a_chat_ended_by_a_signal_restores_the_terminal_modes() {
    use rustix::process::{Pid, Signal, kill_process};
    use rustix::termios::{LocalModes, tcgetattr};

    for (signal, expected) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let open = || rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).unwrap();
        let kept = open();
        let before = tcgetattr(&kept).unwrap().local_modes;
        let machine = Machine::new();
        let mut command = machine.command(["chat", "--session", "s"]);
        command.env("TERM", "xterm-256color");
        let mut child = command
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .unwrap();
        let mut screen = File::from(ours);
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("chat/moderate> ") {
            let mut bytes = [0; 1024];
            let read = screen.read(&mut bytes).unwrap();
            seen.extend(&bytes[..read]);
        }
        while tcgetattr(&kept)
            .unwrap()
            .local_modes
            .contains(LocalModes::ICANON)
        {
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(expected));
        assert_eq!(tcgetattr(&kept).unwrap().local_modes, before);
    }
}

#[test]
fn at_a_terminal_a_missing_question_is_an_error_at_once() {
    let (code, seen) = in_terminal(&mut Machine::new().command(["ask"]));
    assert_eq!(code, Some(2));
    assert!(seen.contains("no question was given"), "{seen:?}");
}

/// What was written by others may contain anything, but nothing here is.
#[test]
fn a_terminal_whose_locale_is_not_utf8_is_sent_only_ascii_signs() {
    let machine = Machine::new();
    let commands = [
        &["ask", "-v", "What time is it?"][..],
        &["runs", "show", "last"],
        &["sessions", "show", "last"],
        &["stats"],
        &["tools", "list"],
        &["doctor", "--offline"],
    ];
    for arguments in commands {
        let seen = |locale: &str| {
            let mut command = machine.command(arguments);
            command.env("TERM", "xterm-256color").env("LC_ALL", locale);
            in_terminal(&mut command).1
        };
        for locale in ["C", "POSIX", "en_US.ISO-8859-1"] {
            let seen = seen(locale);
            assert!(seen.is_ascii(), "{arguments:?}: {seen}");
        }
        assert!(!seen("C.UTF-8").is_ascii(), "{arguments:?}");
        let mut piped = machine.command(arguments);
        let done = piped.env("LC_ALL", "C").output().unwrap();
        let usual = machine.command(arguments).output().unwrap();
        let signs = |bytes: &[u8]| String::from_utf8_lossy(bytes).matches(" · ").count();
        assert_eq!(signs(&done.stdout), signs(&usual.stdout), "{arguments:?}");
    }
}
