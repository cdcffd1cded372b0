//! A case built from an existing run: what was asked, and checks of what the run did, for the user to read and edit.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use neuraxis_core::{
    FINAL_ANSWER, FinishReason, Message, Part, Record, RecordBody, RunId, Transcript,
};

use crate::case::{Case, HistoryMessage, Source};
use crate::check::Check;
use crate::file::CaseTable;
use crate::observed::ObservedRun;

/// Why a run cannot be turned into a case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCase {
    /// The run has no records.
    #[error("it has no records")]
    NoRecords,
    /// The data policy kept the question out of the log.
    #[error("the data policy withheld {0}: only a hash is stored")]
    Withheld(&'static str),
    /// There is no question, as in a fork that continues on its own.
    #[error("it contains no question of a user")]
    NoQuestion,
    /// The case contains something that TOML cannot express.
    #[error("it contains something that TOML cannot express, such as null in a list")]
    Unwritable,
}

/// Something that models read in a run and that no case contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftOut {
    /// Images, sounds, files and texts attached to user messages.
    Attachments,
    /// Tool calls of earlier runs, with their results.
    EarlierCalls,
    /// The models' reasoning in earlier runs.
    EarlierThoughts,
    /// Notes of the loop or the deployment among earlier messages.
    EarlierNotes,
    /// User messages that arrived during the run.
    Steered,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attachments => "attachments",
            Self::EarlierCalls => "tool calls of earlier runs",
            Self::EarlierThoughts => "the models' thinking in earlier runs",
            Self::EarlierNotes => "notes among earlier messages",
            Self::Steered => "messages that arrived during the run",
        })
    }
}

impl Case {
    /// Builds a case from a run: the question with the earlier messages, which tools were called (and that they
    /// succeed, if all their calls did), that the run finishes for the same reason, and that it takes no more turns.
    /// [`left_out`](Self::left_out) returns what the case lacks of the conversation.
    ///
    /// # Errors
    ///
    /// A [`NoCase`].
    pub fn of_run(
        name: impl Into<String>,
        history: &Transcript,
        records: &[Arc<Record>],
    ) -> Result<Self, NoCase> {
        let observed = ObservedRun::of(records);
        let spec = observed.view.spec().ok_or(NoCase::NoRecords)?;
        if let Some(withheld) = spec.withheld() {
            return Err(NoCase::Withheld(withheld));
        }
        let conversation: Vec<HistoryMessage> = history
            .messages()
            .iter()
            .chain(&spec.messages)
            .filter_map(history_message)
            .collect();
        let (Some(HistoryMessage::User(message)), before) = (conversation.last(), &conversation)
        else {
            return Err(NoCase::NoQuestion);
        };
        let mut case = Self::new(name, message.as_str());
        let earlier = before.len().saturating_sub(1);
        case.history = before.iter().take(earlier).cloned().collect();
        if let Some(decision) = observed.view.decision() {
            case.channel = decision.channel.clone();
            case.mode = decision.mode.clone();
            case.agent.clone_from(&decision.agent);
        }
        case.plan.clone_from(&spec.plan);
        let mut called: BTreeSet<&str> = BTreeSet::new();
        for call in &observed.calls {
            // Models give their final answer by calling this tool.
            if *call.name != *FINAL_ANSWER && called.insert(&call.name) {
                let mut same = observed.calls.iter().filter(|it| it.name == call.name);
                let check = Check::tool_called(&*call.name);
                case.checks.push(match same.all(|it| it.success) {
                    true => check.succeeded(true),
                    false => check,
                });
            }
        }
        case.checks.push(Check::finish_reason(&FinishReason::Stop));
        if observed.view.finish() == Some(&FinishReason::Stop) {
            case.checks
                .push(Check::max_turns(observed.view.turns().max(1)));
        }
        Ok(case)
    }

    /// Returns what models read in a run that a case built from it lacks. If there is anything, a recording of the run
    /// does not answer the case.
    #[must_use]
    pub fn left_out(history: &Transcript, records: &[Arc<Record>]) -> Vec<LeftOut> {
        let observed = ObservedRun::of(records);
        let new = observed.view.spec().map(|spec| spec.messages.as_slice());
        let (mut attached, mut called, mut thought, mut noted) = (false, false, false, false);
        for message in history.messages().iter().chain(new.unwrap_or_default()) {
            let parts: &[Part] = match &**message {
                Message::System { .. } => {
                    noted = true;
                    &[]
                }
                Message::User { parts } => parts,
                Message::Assistant(message) => &message.parts,
                Message::Tool(_) => {
                    called = true;
                    &[]
                }
            };
            // Attached or piped text is a separate part; a case asks in a single one.
            attached |= matches!(**message, Message::User { .. }) && parts.len() > 1;
            for part in parts {
                attached |= matches!(part, Part::Media(_));
                called |= matches!(part, Part::ToolCall(_));
                thought |= matches!(part, Part::Reasoning(_));
            }
        }
        [
            (attached, LeftOut::Attachments),
            (called, LeftOut::EarlierCalls),
            (thought, LeftOut::EarlierThoughts),
            (noted, LeftOut::EarlierNotes),
            (was_steered(records), LeftOut::Steered),
        ]
        .into_iter()
        .filter_map(|(is_present, what)| is_present.then_some(what))
        .collect()
    }

    /// Makes the case check the run as stored, without calling a model.
    #[must_use]
    pub fn stored(mut self, run: RunId) -> Self {
        self.source = Source::Run(run.to_string());
        self
    }

    /// Returns the case as written in a file: `[[case]]` and its keys.
    ///
    /// # Errors
    ///
    /// [`NoCase::Unwritable`].
    pub fn to_toml(&self) -> Result<String, NoCase> {
        #[derive(serde::Serialize)]
        struct One {
            case: [CaseTable; 1],
        }
        let table = CaseTable::of(self).ok_or(NoCase::Unwritable)?;
        toml::to_string(&One { case: [table] }).map_err(|_| NoCase::Unwritable)
    }
}

/// Returns whether models received anything that arrived during the run.
fn was_steered(records: &[Arc<Record>]) -> bool {
    let is_steered = |record: &&Arc<Record>| matches!(record.body, RecordBody::Steered(_));
    let steered = records.iter().filter(is_steered).count();
    let unhandled = records.iter().rev().find_map(|record| match &record.body {
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) if record.ends_the_run() => {
            usize::try_from(outcome.unheard).ok()
        }
        _ => None,
    });
    steered > unhandled.unwrap_or_default()
}

/// Returns the text of a message, if the user or the model said something in it.
fn history_message(message: &Arc<Message>) -> Option<HistoryMessage> {
    let text = message.text();
    if text.trim().is_empty() {
        return None;
    }
    match **message {
        Message::User { .. } => Some(HistoryMessage::User(text)),
        Message::Assistant(_) => Some(HistoryMessage::Assistant(text)),
        _ => None,
    }
}
