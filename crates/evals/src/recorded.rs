//! A case made of a run that happened: what was asked, and checks of what it did, to be read and edited by a person.

use std::sync::Arc;

use neuraxis_core::{FinishReason, Message, Record, RunId, Transcript};
use serde_json::Value;

use crate::case::{Case, Said, Source};
use crate::check::Check;
use crate::file::CaseTable;
use crate::seen::Seen;

/// Why no case can be made of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCase {
    /// There is no record.
    #[error("it has no records")]
    NoRecords,
    /// The data policy kept what was asked out of the log.
    #[error("the data policy withheld {0}: a hash stands in its place")]
    Withheld(&'static str),
    /// Nobody asked anything, as in a fork that goes on by itself.
    #[error("no user asked anything in it")]
    NoQuestion,
    /// It has something in it that TOML cannot say.
    #[error("it holds what TOML cannot say, such as null in a list")]
    Unwritable,
}

impl Case {
    /// Makes a case of a run: the question with what was said before, which tools were called, that it finishes as it should,
    /// and in no more turns. Attachments and the calls of earlier runs are left out.
    ///
    /// # Errors
    ///
    /// A [`NoCase`].
    pub fn of_run(
        name: impl Into<String>,
        history: &Transcript,
        records: &[Arc<Record>],
    ) -> Result<Self, NoCase> {
        let seen = Seen::of(records);
        let spec = seen.view.spec().ok_or(NoCase::NoRecords)?;
        if let Some(withheld) = spec.withheld() {
            return Err(NoCase::Withheld(withheld));
        }
        let said: Vec<Said> = history
            .messages()
            .iter()
            .chain(&spec.messages)
            .filter_map(said)
            .collect();
        let (Some(Said::User(message)), before) = (said.last(), &said) else {
            return Err(NoCase::NoQuestion);
        };
        let mut case = Self::new(name, message.as_str());
        let earlier = before.len().saturating_sub(1);
        case.history = before.iter().take(earlier).cloned().collect();
        if let Some(decision) = seen.view.decision() {
            case.channel = decision.channel.clone();
            case.mode = decision.mode.clone();
            case.agent.clone_from(&decision.agent);
        }
        let mut called: Vec<(&str, Option<Value>)> = Vec::new();
        for call in &seen.calls {
            if !called.iter().any(|(name, _)| *name == &*call.name) {
                called.push((&call.name, call.arguments.decode().ok()));
            }
        }
        for (tool, _) in called {
            case.checks.push(Check::tool_called(tool));
        }
        case.checks.push(Check::finish_reason(&FinishReason::Stop));
        if seen.view.finish() == Some(&FinishReason::Stop) {
            case.checks.push(Check::max_turns(seen.view.turns().max(1)));
        }
        Ok(case)
    }

    /// Lets the case be about the run as it is stored, so that no model is asked.
    #[must_use]
    pub fn stored(mut self, run: RunId) -> Self {
        self.source = Source::Run(run.to_string());
        self
    }

    /// Writes the case as it stands in a file: `[[case]]` and what follows.
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

/// Returns what was said in a message, where somebody said something.
fn said(message: &Arc<Message>) -> Option<Said> {
    let text = message.text();
    if text.trim().is_empty() {
        return None;
    }
    match **message {
        Message::User { .. } => Some(Said::User(text)),
        Message::Assistant(_) => Some(Said::Assistant(text)),
        _ => None,
    }
}
