//! Why a command failed: the kind of failure, the chain of causes, and what to do next.

mod resume;
mod store;

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::anyhow;
use neuraxis::cassette::CassetteError;
use neuraxis::core::with_causes;
use neuraxis::engine::{AttachmentError, ForkError, RequestError};
use neuraxis::ports::StoreError;
use neuraxis_app::{
    BuildError, ConfigError, Fault, OpenError, TrustError, names_tilde, without_secrets,
};

use crate::harmless::{harmless, line_with_blanks, one_line};
use crate::interrupt::Signal;
use crate::invocation;
use crate::terminal;
use crate::wrap::{laid_out, with_commands};

/// The exit code for wrong usage and wrong configuration.
pub(crate) const USAGE: u8 = 2;

/// The exit code for a run that reached a limit before it had an answer.
const AT_A_LIMIT: u8 = 3;

/// The exit code for a run in which a call was denied because nobody could be asked about it.
const DENIED: u8 = 4;

/// The exit code for a run that waits.
const WAITING: u8 = 5;

/// The exit code for a run that nothing could answer: there is no language model, and no rule matched.
const NO_ANSWER: u8 = 6;

/// The exit code for a command whose output has no reader any more: the same as for a program that SIGPIPE (13) ended.
const OUTPUT_CLOSED: u8 = 128 + 13;

/// The maximum number of lines of a cause, after its first.
const MAX_CAUSE_LINES: usize = 60;

/// How to see all keys of the configuration. A neuraxis.toml may exist already, so the command names another file.
pub(crate) const KEYS_EXPLAINED: &str =
    "`neuraxis config init --config new.toml` writes a file that explains every key";

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: Kind,
    error: anyhow::Error,
    hints: Vec<String>,
}

/// The kind of failure, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The request makes no sense.
    Usage,
    /// The configuration cannot be used.
    Configuration,
    /// The command was tried and failed.
    Failed,
    /// A limit was reached before there was an answer.
    AtLimit,
    /// A call was denied because nobody could be asked about it.
    Denied,
    /// The run waits for a decision or for its client.
    Waiting,
    /// There is no language model, and no rule matched.
    NoAnswer,
    /// The user stopped the command, or the process manager did.
    Interrupted(Signal),
    /// The reader of the output went away.
    OutputClosed,
}

impl CommandError {
    /// Creates an error for a request that makes no sense.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::Usage, error)
    }

    /// Creates an error for a configuration that cannot be used.
    pub(crate) fn configuration(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::Configuration, error)
    }

    /// Creates an error for something that was tried and failed.
    pub(crate) fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::Failed, error)
    }

    /// Creates an error for a limit that was reached before there was an answer.
    pub(crate) fn at_limit(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::AtLimit, error)
    }

    /// Creates an error for a call that was denied because nobody could be asked about it.
    pub(crate) fn denied(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::Denied, error)
    }

    /// Creates an error for a run that waits for a decision or for its client.
    pub(crate) fn waiting(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::Waiting, error)
    }

    /// Creates an error for a request without a language model to answer it or a rule that matches.
    pub(crate) fn no_answer(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::NoAnswer, error)
    }

    /// Creates an error for a command that the user or the process manager stopped.
    pub(crate) fn interrupted(signal: Signal) -> Self {
        Self::new(Kind::Interrupted(signal), anyhow!(signal.word()))
    }

    /// Adds what to do next. Commands between backticks get the configuration options of this command line.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.raw_hint(invocation::again(&hint.into()))
    }

    /// Adds what to do next, without the options of this command line.
    #[must_use]
    fn raw_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn new(kind: Kind, error: impl Into<anyhow::Error>) -> Self {
        Self {
            kind,
            error: error.into(),
            hints: Vec::new(),
        }
    }

    /// Returns the signal that stopped the command, if any.
    pub(crate) const fn interruption(&self) -> Option<Signal> {
        match self.kind {
            Kind::Interrupted(signal) => Some(signal),
            _ => None,
        }
    }

    /// Returns whether the output has no reader any more.
    pub(crate) fn is_output_closed(&self) -> bool {
        self.kind == Kind::OutputClosed
    }

    /// Returns what to do first, if that is known.
    pub(crate) fn first_hint(&self) -> Option<&str> {
        self.hints.first().map(String::as_str)
    }

    /// Returns the error and its causes on one line.
    pub(crate) fn in_one_line(&self) -> String {
        one_line(&without_secrets(&with_causes(&*self.error)))
    }

    /// Reports the error to the user and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // If the error cannot be printed, the exit code still remains.
        self.print();
        match self.kind {
            Kind::Usage | Kind::Configuration => ExitCode::from(USAGE),
            Kind::Failed => ExitCode::FAILURE,
            Kind::AtLimit => ExitCode::from(AT_A_LIMIT),
            Kind::Denied => ExitCode::from(DENIED),
            Kind::Waiting => ExitCode::from(WAITING),
            Kind::NoAnswer => ExitCode::from(NO_ANSWER),
            Kind::Interrupted(signal) => ExitCode::from(signal.exit_code()),
            Kind::OutputClosed => ExitCode::from(OUTPUT_CLOSED),
        }
    }

    /// Prints the error to standard error, with lines wrapped to the width of a terminal.
    pub(crate) fn print(&self) {
        // If standard error cannot be written, there is nowhere to report that.
        let _ = anstream::stderr().write_all(self.render(terminal::error_columns()).as_bytes());
    }

    /// Returns the text of the error, wrapped to this many columns if given.
    pub(crate) fn render(&self, columns: Option<usize>) -> String {
        const ERROR: Style = AnsiColor::Red.on_default().bold();
        const HINT: Style = AnsiColor::Cyan.on_default().bold();
        let what = match self.kind {
            Kind::OutputClosed => return String::new(),
            Kind::Interrupted(signal) => return format!("{}\n", signal.word()),
            Kind::Usage => "wrong usage: ",
            Kind::Configuration => "wrong configuration: ",
            Kind::Failed | Kind::AtLimit | Kind::Denied | Kind::Waiting | Kind::NoAnswer => "",
        };
        let error = one_line(&without_secrets(&self.error.to_string()));
        // A run that waits did what it was asked to do, and a run with a denied call has said something: neither is an
        // error.
        let mut text = match self.kind {
            Kind::Waiting | Kind::Denied => format!("{HINT}note{HINT:#}: {error}\n"),
            _ => format!("{ERROR}error{ERROR:#}: {what}{error}\n"),
        };
        for cause in causes(&self.error).iter().skip(1) {
            text += &format_cause(&without_secrets(cause));
        }
        if let Some(columns) = columns {
            text = laid_out(&text, columns);
        }
        for hint in &self.hints {
            let hint = without_secrets(hint);
            let hint = format!("{HINT}hint{HINT:#}: {}\n", harmless(&hint));
            text += &match columns {
                Some(columns) => with_commands(&hint, columns),
                None => hint,
            };
        }
        text
    }
}

/// Returns the messages of an error and its causes. Causes that the message before already ends with are left out,
/// since some errors include their causes.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if messages
            .last()
            .is_none_or(|before| !before.ends_with(&cause))
        {
            messages.push(cause);
        }
    }
    messages
}

/// Formats a cause: its first line, followed by the indented remaining lines, such as a comparison.
fn format_cause(cause: &str) -> String {
    let mut lines = cause.lines();
    let first = lines.next().unwrap_or_default();
    let mut text = format!("  because: {}\n", line_with_blanks(first));
    let others = lines.take(MAX_CAUSE_LINES);
    text.extend(others.map(|line| format!("    {}\n", harmless(line))));
    text
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        let hint = match &error {
            ConfigError::BrokenSinceTrusted { .. } => {
                "fix it, or remove it; `neuraxis trust remove` stops trusting this folder"
            }
            ConfigError::KeyElsewhere { .. } | ConfigError::VariablesElsewhere { .. } => {
                "`neuraxis trust show` shows what this folder's file does"
            }
            ConfigError::Read { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
                "save it as UTF-8"
            }
            ConfigError::Read { .. } => {
                "check the path; `neuraxis config init --config FILE` writes a new file"
            }
            ConfigError::PriceListUnread { .. } | ConfigError::PriceList { .. } => {
                "`neuraxis help public-prices.toml` prints the built-in list, which shows the format"
            }
            ConfigError::Key { fault, .. } if is_case(fault) => {
                "put cases in a separate file: `neuraxis policy test FILE` runs them"
            }
            _ => KEYS_EXPLAINED,
        };
        // The options of this command line are what is wrong.
        Self::configuration(error).raw_hint(hint)
    }
}

/// Returns whether the policy contains `[[case]]` sections in a place where only the policy may be.
fn is_case(fault: &Fault) -> bool {
    matches!(fault, Fault::UnknownKey { given, table, .. } if given == "case" && table.is_empty())
}

impl From<TrustError> for CommandError {
    fn from(error: TrustError) -> Self {
        Self::failed(error)
    }
}

impl From<BuildError> for CommandError {
    fn from(error: BuildError) -> Self {
        if names_tilde(&with_causes(&error)) {
            let hint = "`~` is not expanded in settings: write the whole path";
            return Self::configuration(error).hint(hint);
        }
        match &error {
            BuildError::Cassette(CassetteError::Exists { file }) => {
                let removing = if file.is_file() { "remove it, or " } else { "" };
                Self::usage(error).hint(format!("{removing}record to another file"))
            }
            BuildError::Cassette(CassetteError::Io { .. }) => {
                Self::usage(error).hint("check the path")
            }
            BuildError::Cassette(_) | BuildError::EmptyCassette { .. } => Self::usage(error).hint(
                "record it again with --record FILE; `neuraxis runs cassette RUN FILE` creates one from a run",
            ),
            BuildError::DatabaseBusy { source, .. } => {
                let hint = match source {
                    OpenError::Full { place } if place.starts_with("postgres") => {
                        "free some disk space and try again"
                    }
                    OpenError::Full { .. } => {
                        "free some disk space (32 KiB are enough to read what is stored) and try again; with --set store.url=memory: \
                         a question is answered, but nothing is stored"
                    }
                    _ => "try again in a moment, once the other process has released it",
                };
                Self::failed(error).hint(hint)
            }
            BuildError::Database {
                source: OpenError::Store(why),
                ..
            } => {
                let hint = match why {
                    StoreError::Full(_) | StoreError::ReadOnly(_) => store::hint_about(why),
                    _ => None,
                };
                let usual = || "`neuraxis doctor --offline` says what can be done".to_owned();
                let hint = hint.unwrap_or_else(usual);
                Self::failed(error).hint(hint)
            }
            BuildError::Model { .. }
            | BuildError::Database { .. }
            | BuildError::ApprovalKey { .. } => {
                Self::configuration(error).hint("`neuraxis doctor --offline` says what can be done")
            }
            BuildError::StoreFolder { .. } => {
                Self::configuration(error).hint("create the folder, or name another file")
            }
            _ => Self::configuration(error)
                .hint("`neuraxis config show` says where each value comes from"),
        }
    }
}

impl From<RequestError> for CommandError {
    fn from(error: RequestError) -> Self {
        use neuraxis::brainstem::Refusal;

        let hint = match &error {
            RequestError::EmptyMessage => {
                "say what you want: neuraxis ask \"How is this machine?\"".to_owned()
            }
            RequestError::TooLarge { .. } => "send less at once, shorten the instructions (a trusted AGENTS.md is part of them), or give the \
                 model more context, for example with llama-server's -c"
                .to_owned(),
            RequestError::Attachment { source, .. } => match source {
                AttachmentError::Unsupported { .. } | AttachmentError::NoModel => {
                    "give a role such as [models.reasoning] a model that accepts it, or leave it out; a llama-server \
                     accepts images if it was started with --mmproj"
                        .to_owned()
                }
                _ => "attach an image, a sound, a PDF or UTF-8 text".to_owned(),
            },
            RequestError::Policy(Refusal::ModeNotAllowed { allowed, .. }) => {
                match allowed.first() {
                    Some(mode) => format!("add --mode {mode}"),
                    None => "choose another channel".to_owned(),
                }
            }
            RequestError::Policy(Refusal::NoRole { allowed, .. }) => match allowed.first() {
                Some(role) => format!("give [models.{role}] a model, or choose another --mode"),
                None => "choose another --mode".to_owned(),
            },
            RequestError::Policy(Refusal::RoleNotAllowed { .. }) => {
                "choose another --model, or another --mode or --channel".to_owned()
            }
            RequestError::Policy(refusal) => hint_about_policy(refusal).to_owned(),
            RequestError::Store(why) => {
                let hint = store::hint_about(why);
                return hint.into_iter().fold(Self::failed(error), Self::hint);
            }
            _ => return Self::failed(error),
        };
        Self::usage(error).hint(hint)
    }
}

/// Returns what to do about a name that is not in the policy.
fn hint_about_policy(refusal: &neuraxis::brainstem::Refusal) -> &'static str {
    use neuraxis::brainstem::Refusal;

    match refusal {
        Refusal::UnknownPlan { known, .. } if known.is_empty() => {
            "leave out --plan: none is configured; `neuraxis help policy` explains how to add one"
        }
        Refusal::UnknownPlan { .. } => "`neuraxis config show plans` lists the plans",
        Refusal::UnknownAgent { .. } => "`neuraxis agents list` lists the agents",
        Refusal::UnknownChannel { .. } => "`neuraxis config show channels` lists the channels",
        Refusal::UnknownMode { .. } => "`neuraxis config show modes` lists the modes",
        _ => "`neuraxis config show modes channels` lists the modes and channels",
    }
}

impl From<ForkError> for CommandError {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::Request(error) => error.into(),
            ForkError::Store(error) => error.into(),
            ForkError::NothingToAnswer => Self::usage(error).hint("add --message TEXT"),
            ForkError::SessionExists(_) => {
                Self::usage(error).hint("leave out --session, or name a new one")
            }
            error => Self::failed(error),
        }
    }
}

impl From<anyhow::Error> for CommandError {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(error)
    }
}

/// An error of standard output.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Kind::OutputClosed, error);
        }
        Self::failed(anyhow::Error::new(error).context("cannot write to standard output"))
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_app::Origin;

    use super::*;

    fn told(error: &CommandError, columns: Option<usize>) -> String {
        anstream::adapter::strip_str(&error.render(columns)).to_string()
    }

    #[test]
    fn a_command_in_a_hint_is_on_its_own_line_and_one_in_an_error_is_not() {
        let id = "01990000-0000-7000-8000-000000000000";
        let command = format!("neuraxis approvals approve {id} {}", "4f0c".repeat(8));
        let error = CommandError::waiting(anyhow!("it says `{command}`"));
        let error = error.hint(format!("`{command}` lets it go on"));
        let told = told(&error, Some(80));
        let lines: Vec<&str> = told.lines().collect();
        let whole = lines.iter().filter(|line| **line == command);
        assert_eq!(whole.count(), 1, "{told}");
        assert!(told.ends_with("  lets it go on\n"), "{told}");
    }

    #[test]
    fn a_full_disk_hint_names_the_memory_store_for_files_only() {
        let hint = |place: &str| {
            let source = OpenError::Full {
                place: place.to_owned(),
            };
            let at = Origin::Default;
            told(&BuildError::DatabaseBusy { at, source }.into(), None)
        };
        let file = hint("/home/me/.local/share/neuraxis/sessions.db");
        assert!(file.contains("--set store.url=memory:"), "{file}");
        let server = hint("postgres://db/nx");
        assert!(!server.contains("memory:"), "{server}");
    }

    #[test]
    fn a_hint_contains_no_control_characters() {
        let error = CommandError::failed(anyhow!("x")).hint("a\u{7}b\u{202e}c\u{9b}2Jd");
        let told = error.render(None);
        assert!(!told.contains(['\u{7}', '\u{202e}', '\u{9b}']), "{told:?}");
    }
}
