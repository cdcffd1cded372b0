//! One finding about a call, and how users read it.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use neuraxis_core::{AskCause, Decision, Remember, RuleRef, ToolName};

use crate::config::Permission;
use crate::names::{Listed, shown_up_to};
use crate::request::Call;
use crate::rules::{Part, Rule, ToolAnswers};
use crate::trust::annotations_of;

/// The maximum number of characters of a command that a sentence repeats.
const MAX_COMMAND_CHARS: usize = 120;

/// One finding about a call.
#[derive(Debug, Clone)]
pub(super) struct Finding<'a> {
    pub(super) answer: Permission,
    pub(super) cause: Cause<'a>,
    /// How much of a user's answer to this may be remembered.
    pub(super) remember: Remember,
}

/// What led to an answer.
#[derive(Debug, Clone)]
pub(super) enum Cause<'a> {
    /// A command without parts.
    Nothing,
    NotOffered,
    NoSuchMode,
    Mode(&'a ToolAnswers),
    Floor(&'static str, &'a ToolAnswers),
    Rule(&'a Rule),
    Unclear(&'a Rule, &'static str),
    Untrusted,
    Part(Box<Cause<'a>>, usize, String),
}

impl<'a> Cause<'a> {
    /// Marks this finding as one about a single part of a command.
    pub(super) fn of_part(self, index: usize, part: &Part) -> Self {
        Self::Part(Box::new(self), index, part.shown())
    }

    pub(super) fn part(&self) -> Option<usize> {
        match self {
            Self::Part(_, index, _) => Some(*index),
            _ => None,
        }
    }

    /// Returns the cause of the ask, if this finding asks the user.
    pub(super) fn ask_cause(&self) -> Option<AskCause> {
        match self {
            Self::Mode(_) => Some(AskCause::Mode),
            Self::Floor(..) => Some(AskCause::Layer),
            Self::Rule(_) => Some(AskCause::Rule),
            Self::Unclear(..) => Some(AskCause::UnclearRule),
            Self::Untrusted => Some(AskCause::UntrustedContent),
            Self::Part(inner, ..) => inner.ask_cause(),
            // These only deny.
            Self::Nothing | Self::NotOffered | Self::NoSuchMode => None,
        }
    }

    fn rule(&self) -> Option<&'a Rule> {
        match self {
            Self::Rule(rule) | Self::Unclear(rule, _) => Some(rule),
            Self::Part(inner, _, _) => inner.rule(),
            _ => None,
        }
    }
}

impl Finding<'_> {
    pub(super) const fn deny(cause: Cause<'_>) -> Finding<'_> {
        Finding {
            answer: Permission::Deny,
            cause,
            remember: Remember::Never,
        }
    }

    pub(super) fn rule(&self) -> Option<RuleRef> {
        self.cause.rule().map(|rule| rule.at.clone())
    }

    pub(super) fn sentence(&self, decision: &Decision, call: &Call<'_>) -> String {
        self.describe(&self.cause, decision, call)
    }

    fn describe(&self, cause: &Cause<'_>, decision: &Decision, call: &Call<'_>) -> String {
        let mode = &decision.mode;
        let does = ActionPhrase(self.answer, &call.tool.name);
        match cause {
            Cause::Nothing => "Nothing allows it.".to_owned(),
            Cause::NotOffered => {
                let (name, channel) = (&call.tool.name, &decision.channel);
                format!("Tool {name} is not offered on channel {channel} in mode {mode}.")
            }
            Cause::NoSuchMode => {
                let name = &call.tool.name;
                format!(
                    "Tool {name} cannot be judged, because the policy no longer has mode {mode}."
                )
            }
            Cause::Mode(answers) => {
                let because = ReasonPhrase(answers, call, self.answer);
                // This sentence is built for most calls that run, so reserve enough space to avoid growing it.
                let mut sentence = String::with_capacity(96);
                // Writing to a string cannot fail.
                let _ = write!(sentence, "Mode {mode} {does}, because it {because}.");
                sentence
            }
            Cause::Floor(layer, answers) => {
                let because = ReasonPhrase(answers, call, self.answer);
                format!("The {layer} {does} in mode {mode}, because it {because}.")
            }
            Cause::Rule(rule) => match &rule.reason {
                Some(reason) => format!("Rule {} {does}: {reason}", rule.at),
                None => format!("Rule {} {does}.", rule.at),
            },
            Cause::Unclear(rule, why) => {
                format!(
                    "Rule {} {does}: it is unclear whether the call matches, because {why}.",
                    rule.at
                )
            }
            Cause::Untrusted => {
                let mut taint = decision.taint.clone();
                if let Some(more) = call.taint {
                    taint.merge(more);
                }
                let tools: Vec<_> = taint
                    .sources()
                    .iter()
                    .map(|source| source.tool.clone())
                    .collect();
                format!(
                    "Mode {mode} {does}, because the conversation holds untrusted content (from {}).",
                    Listed(&tools)
                )
            }
            Cause::Part(inner, _, command) => {
                let sentence = self.describe(inner, decision, call);
                if command.is_empty() {
                    return sentence;
                }
                format!("{sentence} (`{}`)", shown_up_to(MAX_COMMAND_CHARS, command))
            }
        }
    }
}

/// What an answer does with a tool, worded for the middle of a sentence.
struct ActionPhrase<'a>(Permission, &'a ToolName);

impl fmt::Display for ActionPhrase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(answer, name) = self;
        match answer {
            Permission::Allow => write!(f, "lets {name} run"),
            Permission::Ask => write!(f, "asks before {name} runs"),
            Permission::Deny => write!(f, "denies {name}"),
        }
    }
}

/// The properties of a call that lead to an answer, worded for the end of a sentence. A property of the tool that does
/// not apply to this call is mentioned only if nothing else led to the answer.
struct ReasonPhrase<'a>(&'a ToolAnswers, &'a Call<'a>, Permission);

impl fmt::Display for ReasonPhrase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(answers, call, answer) = self;
        let class = call.tool.class;
        let causes = |annotations| answers.causes(class, annotations, *answer);
        let call_annotations = annotations_of(call);
        let relevant = match causes(call_annotations).next() {
            Some(_) => call_annotations,
            None => call.tool.annotations,
        };
        for (index, cause) in causes(relevant).enumerate() {
            f.write_str(if index == 0 { "" } else { " and " })?;
            f.write_str(cause)?;
        }
        Ok(())
    }
}

/// Caches why the mode of a decision lets calls of its tools run: one sentence for each tool, built once and shared by
/// all its calls. Tools whose reason depends on the call are not cached. There are at most as many entries as tools.
#[derive(Debug, Clone, Default)]
pub struct ReasonCache(Vec<(ToolName, Arc<str>)>);

impl ReasonCache {
    /// Returns the sentence about a tool, building it the first time.
    pub(super) fn get(&mut self, tool: &ToolName, sentence: impl FnOnce() -> String) -> Arc<str> {
        if let Some((_, cached)) = self.0.iter().find(|(name, _)| name == tool) {
            return Arc::clone(cached);
        }
        let sentence: Arc<str> = sentence().into();
        self.0.push((tool.clone(), Arc::clone(&sentence)));
        sentence
    }
}
