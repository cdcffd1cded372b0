//! The meaning of a line: a message, or a command that begins with a slash.

use crate::error::CommandError;
use crate::unknown::unknown;

/// The minimum similarity of two names for one to be suggested for the other.
const LIKENESS: f64 = 0.7;

/// A command of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    Mode,
    Channel,
    Agent,
    Model,
    Attach,
    Tools,
    Approvals,
    Resume,
    Session,
    Title,
    Verbose,
    Reasoning,
    Sessions,
    Prompts,
    History,
    Retry,
    Undo,
    Compact,
    Copy,
    Cost,
    Export,
    New,
    Quit,
}

/// Alternative names of commands.
const ALIASES: [(&str, Slash); 6] = [
    ("exit", Slash::Quit),
    ("clear", Slash::New),
    ("reset", Slash::New),
    ("thinking", Slash::Reasoning),
    ("usage", Slash::Cost),
    ("regenerate", Slash::Retry),
];

/// What users type to leave, without a slash.
const FAREWELLS: [&str; 2] = ["exit", "quit"];

/// All commands, each with its name, argument and description.
pub(super) const COMMANDS: [(Slash, &str, &str, &str); 24] = [
    (Slash::Help, "help", "", "list the commands"),
    (
        Slash::Mode,
        "mode",
        "[MODE]",
        "show or change how much freedom requests have",
    ),
    (
        Slash::Channel,
        "channel",
        "[CHANNEL]",
        "show or change what kind of request a message is",
    ),
    (
        Slash::Agent,
        "agent",
        "[NAME]",
        "show or change which agent answers",
    ),
    (
        Slash::Model,
        "model",
        "[MODEL]",
        "show or change which model answers",
    ),
    (
        Slash::Attach,
        "attach",
        "[FILE|none]",
        "show what is attached to the next message, attach a file, or remove all",
    ),
    (
        Slash::Tools,
        "tools",
        "",
        "list the tools that are offered now",
    ),
    (
        Slash::Approvals,
        "approvals",
        "[NUMBER]",
        "list what waits for you and what is allowed for the session, or revoke that",
    ),
    (
        Slash::Resume,
        "resume",
        "[SESSION]",
        "resume the waiting run, here or in another session",
    ),
    (
        Slash::Session,
        "session",
        "[SESSION]",
        "show the session, or switch to another one",
    ),
    (
        Slash::Title,
        "title",
        "[TITLE|none]",
        "show, set or remove the title of the session",
    ),
    (
        Slash::Sessions,
        "sessions",
        "",
        "list the sessions that were used last",
    ),
    (
        Slash::Prompts,
        "prompts",
        "",
        "list your prompts; /NAME uses one",
    ),
    (Slash::History, "history", "", "show the conversation"),
    (Slash::Retry, "retry", "", "ask the last message again"),
    (
        Slash::Undo,
        "undo",
        "",
        "undo the last message and its answer",
    ),
    (
        Slash::Compact,
        "compact",
        "",
        "summarize the conversation before the next message",
    ),
    (Slash::Copy, "copy", "", "copy the last answer"),
    (Slash::Cost, "cost", "", "show what the session used"),
    (
        Slash::Export,
        "export",
        "[FILE]",
        "write the conversation to a file, as Markdown",
    ),
    (
        Slash::Verbose,
        "verbose",
        "",
        "show all output of calls and the model's thinking, or stop that",
    ),
    (
        Slash::Reasoning,
        "reasoning",
        "",
        "show what the model thought before its last answer",
    ),
    (Slash::New, "new", "", "start a new session; also /clear"),
    (Slash::Quit, "quit", "", "leave; also /exit"),
];

/// The meaning of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ParsedLine<'a> {
    /// An empty line.
    Nothing,
    /// A message to the model.
    Message(String),
    /// A command with its argument.
    Command(Slash, Option<&'a str>),
    /// Not a command, but perhaps one of the user's saved prompts.
    Unknown {
        name: &'a str,
        argument: Option<&'a str>,
        nearest: Option<&'static str>,
    },
}

/// Parses a line. A second slash turns a command into a message; a path is always a message.
pub(super) fn read(line: &str) -> ParsedLine<'_> {
    let line = line.trim();
    if line.is_empty() {
        return ParsedLine::Nothing;
    }
    if FAREWELLS.contains(&line) {
        return ParsedLine::Command(Slash::Quit, None);
    }
    let Some(rest) = line.strip_prefix('/') else {
        return ParsedLine::Message(line.to_owned());
    };
    if rest.starts_with('/') {
        return ParsedLine::Message(rest.to_owned());
    }
    let (name, argument) = match rest.split_once(char::is_whitespace) {
        Some((name, argument)) => (name, Some(argument.trim())),
        None => (rest, None),
    };
    if name.is_empty() && argument.is_none() {
        return ParsedLine::Command(Slash::Help, None);
    }
    if name.contains(['/', '.']) || name.is_empty() {
        return ParsedLine::Message(line.to_owned());
    }
    let alias = ALIASES.iter().find(|(known, _)| *known == name);
    let command = COMMANDS.iter().find(|(_, known, ..)| *known == name);
    let command = command.map(|(command, ..)| *command);
    match command.or(alias.map(|(_, command)| *command)) {
        Some(command) => ParsedLine::Command(command, argument.filter(|text| !text.is_empty())),
        None => ParsedLine::Unknown {
            name,
            argument,
            nearest: nearest(name, COMMANDS.iter().map(|(_, known, ..)| *known)),
        },
    }
}

/// Returns whether a line is meant as a command, whether or not the command exists.
pub(super) fn is_command(line: &str) -> bool {
    matches!(
        read(line),
        ParsedLine::Command(..) | ParsedLine::Unknown { .. }
    )
}

/// Returns whether a text is an existing command of the chat.
pub(in crate::command) fn is_chat_command(text: &str) -> bool {
    matches!(read(text), ParsedLine::Command(..))
}

/// Returns whether a command takes an argument.
pub(super) fn takes_argument(command: Slash) -> bool {
    let mut commands = COMMANDS.iter();
    commands.any(|(known, _, argument, _)| *known == command && !argument.is_empty())
}

/// Returns the name that was probably meant.
pub(in crate::command) fn nearest<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let likeness = |known: &str| strsim::jaro_winkler(name, known);
    known
        .map(|known| (known, likeness(known)))
        .filter(|(_, likeness)| *likeness >= LIKENESS)
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(known, _)| known)
}

/// Checks that a name is one of the known names.
pub(super) fn nearest_of<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Result<(), CommandError> {
    let known: Vec<&str> = known.collect();
    if known.contains(&name) {
        return Ok(());
    }
    let listed = format!("the {what}s are {}", known.join(", "));
    Err(unknown(what, name, known, listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_or_a_command() {
        let message = |text: &str| ParsedLine::Message(text.to_owned());
        for (line, meant) in [
            ("  ", ParsedLine::Nothing),
            (" hello ", message("hello")),
            ("run \\\n  it", message("run \\\n  it")),
            ("/help", ParsedLine::Command(Slash::Help, None)),
            (
                "/mode  exploratory ",
                ParsedLine::Command(Slash::Mode, Some("exploratory")),
            ),
            ("/mode ", ParsedLine::Command(Slash::Mode, None)),
            ("//help is a command", message("/help is a command")),
            ("/etc/passwd is a file", message("/etc/passwd is a file")),
            ("/ is the root", message("/ is the root")),
            ("/", ParsedLine::Command(Slash::Help, None)),
            ("/clear", ParsedLine::Command(Slash::New, None)),
            ("exit", ParsedLine::Command(Slash::Quit, None)),
            ("exit strategies?", message("exit strategies?")),
        ] {
            assert_eq!(read(line), meant, "{line:?}");
        }
    }

    #[test]
    fn an_unknown_command_is_not_sent_as_a_message_and_the_nearest_is_suggested() {
        for (line, expected) in [
            ("/halp", Some("help")),
            ("/mdoel", Some("model")),
            ("/approval", Some("approvals")),
            ("/chanel code_task", Some("channel")),
            ("/zzz", None),
        ] {
            let ParsedLine::Unknown { nearest, .. } = read(line) else {
                panic!("{line:?} is a command");
            };
            assert_eq!(nearest, expected, "{line:?}");
        }
    }
}
