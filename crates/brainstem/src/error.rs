//! What can be wrong with a policy. Every message names the key and says what to do.

use crate::config::SourceLine;
use crate::names::{Listed, choices};

/// Why a configuration is not a valid policy. `at` is the dotted path of the key.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The text is not TOML, or has an unknown key or a value of the wrong type.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// The line number, from 1.
        line: usize,
        /// The column number, from 1, in characters.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// The name of an entry, such as a mode, an agent or a rule, has characters that are not allowed in addresses and
    /// variables.
    #[error("{section}: invalid name \"{given}\": it must be 1 to 64 of A-Z a-z 0-9 _ -")]
    InvalidName {
        /// The section, such as `modes`.
        section: &'static str,
        /// The name, truncated and escaped.
        given: String,
    },
    /// A key names something that does not exist.
    #[error("{at}: unknown {what} \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownName {
        /// The dotted path of the key.
        at: String,
        /// What it should name: `role`, `mode`, `channel` or `agent`.
        what: &'static str,
        /// The name, truncated and escaped.
        given: String,
        /// The name that was most likely meant.
        nearest: Option<String>,
        /// All names that are valid there.
        known: Vec<String>,
    },
    /// A channel does not name its role.
    #[error("{at} is missing: a new channel must name the role that serves it{}", meant(nearest.as_ref()))]
    MissingRole {
        /// The key that is missing.
        at: String,
        /// The built-in channel that was most likely meant.
        nearest: Option<String>,
    },
    /// A pattern is malformed.
    #[error("{at}: invalid pattern \"{pattern}\": {reason}")]
    InvalidPattern {
        /// The dotted path of the key.
        at: String,
        /// The pattern, truncated and escaped.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A limit of zero, which no run could keep to.
    #[error("{at} must be at least {least}; omit it to set no limit here")]
    LimitTooSmall {
        /// The dotted path of the key.
        at: String,
        /// The smallest allowed value.
        least: &'static str,
    },
    /// The number of retries of a failed call is too high.
    #[error("{at} must be at most {most}")]
    TooManyRetries {
        /// The dotted path of the key.
        at: String,
        /// The largest allowed value.
        most: u32,
    },
    /// A temperature that no model accepts.
    #[error("{at} must be between 0 and 2, not {given}")]
    TemperatureOutOfRange {
        /// The dotted path of the key.
        at: String,
        /// The given number.
        given: f32,
    },
    /// A list or table that leaves nothing allowed.
    #[error("{at} allows nothing: {remedy}{}", meant(nearest.as_ref()))]
    AllowsNothing {
        /// The dotted path of the key.
        at: String,
        /// What to do instead, as the end of a sentence.
        remedy: &'static str,
        /// The built-in name that was most likely meant, if the section may be misspelled.
        nearest: Option<String>,
    },
    /// A channel has settings for a mode in which it may not be used.
    #[error(
        "{at} can never apply: the channel's allowed_modes are {}",
        Listed(allowed)
    )]
    UnreachableMode {
        /// The dotted path of the key.
        at: String,
        /// The modes in which the channel may be used.
        allowed: Vec<String>,
    },
    /// An opening gathers with a tool that its channel does not list.
    #[error("{at}: the channel's tools do not include {tool}; add it to them")]
    OpeningToolNotListed {
        /// The dotted path of the key.
        at: String,
        /// The name of the tool that the opening calls.
        tool: String,
    },
    /// An opening's default arguments are not a JSON object.
    #[error("{at} must be a string that contains a JSON object, such as \"{{}}\": {reason}")]
    OpeningArguments {
        /// The dotted path of the key.
        at: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A rule or another section lacks a key.
    #[error("{at} is missing: set it to {values}")]
    IncompleteRule {
        /// The key that is missing.
        at: String,
        /// The values it may have.
        values: &'static str,
    },
    /// A key that can never have an effect, or that contradicts another.
    #[error("{at} is invalid: {why}")]
    Contradiction {
        /// The dotted path of the key.
        at: String,
        /// Why, as the end of a sentence.
        why: &'static str,
    },
    /// A rule never has an effect, because another rule always decides first.
    #[error(
        "{at} never has an effect: rule {other} answers \"{answer}\" for every call that it allows"
    )]
    Shadowed {
        /// The dotted path of the rule.
        at: String,
        /// The other rule, with its location.
        other: String,
        /// The answer of the other rule.
        answer: &'static str,
    },
    /// A rule does not treat one of its examples as the example says.
    #[error("{at}: the rule {outcome} {arguments}")]
    Example {
        /// The dotted path of the key.
        at: String,
        /// The arguments of the example, truncated and escaped.
        arguments: String,
        /// What the rule does instead.
        outcome: &'static str,
    },
    /// A pattern that matches none of the available tools.
    #[error("{at}: \"{pattern}\" matches no tool{}{}", choices(nearest.as_ref(), known), more(*left_out))]
    UnknownTool {
        /// The dotted path of the key.
        at: String,
        /// The pattern, truncated and escaped.
        pattern: String,
        /// The tool that was most likely meant.
        nearest: Option<String>,
        /// The first few available tools, by name.
        known: Vec<String>,
        /// The number of available tools that are not listed.
        left_out: usize,
    },
    /// The tool that calls an agent would have the name of another tool.
    #[error(
        "{at}: the agent could not be called, because a tool named {tool} already exists; set another tool_name"
    )]
    TakenToolName {
        /// The dotted path of the key.
        at: String,
        /// The name that both have.
        tool: String,
    },
    /// A rule about commands whose tools take no command.
    #[error(
        "{at} can never match: none of the rule's tools takes an argument named {}; set arguments to the one that holds the command", arguments.join(", ")
    )]
    NoCommand {
        /// The dotted path of the key.
        at: String,
        /// The arguments in which the rule expects commands.
        arguments: Vec<String>,
    },
    /// A rule about the value of an argument that none of its tools takes.
    #[error(
        "{at} can never match: none of the rule's tools takes an argument named {argument}; check its spelling"
    )]
    NoArgument {
        /// The dotted path of the key.
        at: String,
        /// The argument, truncated and escaped.
        argument: String,
    },
    /// A path pattern that no path can match.
    #[error(
        "{at}: \"{pattern}\" can never match: paths are relative to the root of the project, such as src/**; to match paths outside the root, set outside_root = true"
    )]
    OutOfRoot {
        /// The dotted path of the key.
        at: String,
        /// The pattern, truncated and escaped.
        pattern: String,
    },
    /// A price that is not an amount of money.
    #[error("{at} must be an amount of US dollars from 0 to 1000000, not {given}")]
    Price {
        /// The dotted path of the key.
        at: String,
        /// The given number, in US dollars.
        given: f64,
    },
    /// A layer that may only tighten would loosen something.
    #[error("{}{layer} may only tighten the policy, but {at} would loosen it: {how}", at_place(place.as_ref()))]
    Loosens {
        /// The kind of the layer, such as `key` or `session`.
        layer: &'static str,
        /// The dotted path of the key.
        at: String,
        /// Where it is written.
        place: Option<SourceLine>,
        /// What would become looser.
        how: String,
    },
}

fn at_place(place: Option<&SourceLine>) -> String {
    place.map_or_else(String::new, |place| {
        format!("{}:{}: ", place.source, place.line)
    })
}

impl PolicyError {
    /// Returns the dotted path of the invalid key; an empty string if there is none.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Syntax { .. } => "",
            Self::InvalidName { section, .. } => section,
            Self::UnknownName { at, .. }
            | Self::MissingRole { at, .. }
            | Self::InvalidPattern { at, .. }
            | Self::LimitTooSmall { at, .. }
            | Self::TooManyRetries { at, .. }
            | Self::TemperatureOutOfRange { at, .. }
            | Self::AllowsNothing { at, .. }
            | Self::UnreachableMode { at, .. }
            | Self::OpeningToolNotListed { at, .. }
            | Self::OpeningArguments { at, .. }
            | Self::IncompleteRule { at, .. }
            | Self::Contradiction { at, .. }
            | Self::Shadowed { at, .. }
            | Self::Example { at, .. }
            | Self::UnknownTool { at, .. }
            | Self::TakenToolName { at, .. }
            | Self::NoCommand { at, .. }
            | Self::NoArgument { at, .. }
            | Self::OutOfRoot { at, .. }
            | Self::Price { at, .. }
            | Self::Loosens { at, .. } => at,
        }
    }

    pub(crate) fn syntax(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let in_line = before.get(line_start..).unwrap_or_default();
        Self::Syntax {
            line: before.matches('\n').count() + 1,
            column: in_line.chars().count() + 1,
            message: error.message().to_owned(),
        }
    }
}

fn more(left_out: usize) -> String {
    match left_out {
        0 => String::new(),
        _ => format!(", … and {left_out} more"),
    }
}

fn meant(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |name| {
        format!(" (did you mean the built-in {name}?)")
    })
}
