//! What a run did, in the form that checks examine.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use neuraxis_core::log::RunView;
use neuraxis_core::log::describe::counted;
use neuraxis_core::{
    Cost, CountLabel, FinishReason, MicroUsd, ModelRef, Record, RecordBody, RunStatus,
    SessionMetrics, clip, has_answered, last_of_user, without_fence,
};
use neuraxis_engine::{ToolCallRecord, run_cost, tool_calls};
use serde_json::Value;

/// The maximum number of characters of a reason that a report keeps, whether from a judge or for how a run ended. The
/// run keeps all of it.
const MAX_REASON_CHARS: usize = 1_000;

/// What the records of one run say.
#[derive(Debug)]
pub(crate) struct ObservedRun {
    pub(crate) view: RunView,
    /// The calls of the run and its sub-agents, in the order in which models made them.
    pub(crate) calls: Vec<ToolCallRecord>,
    /// `None` if a model without a price answered.
    pub(crate) cost: Option<MicroUsd>,
    /// The first model without a price, by the name under which it answered.
    pub(crate) without_price: Option<ModelRef>,
    /// Unknown if the usage of a call was not reported; the cost is then a lower bound.
    pub(crate) cost_label: CountLabel,
    /// The models that answered, as `provider/model`.
    pub(crate) models: BTreeSet<String>,
    /// Whether the run has an answer although a limit ended it.
    has_answered: bool,
    redact: Redact,
}

/// Removes from a text what must not leave the process.
type Clean = dyn Fn(&str) -> String + Send + Sync;

/// Removes from a text what reports must not hold. Removes nothing by default.
#[derive(Clone, Default)]
pub(crate) struct Redact(Option<Arc<Clean>>);

impl Redact {
    pub(crate) fn new(clean: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(clean)))
    }

    /// Returns the beginning of a text, as a report may hold it. Redaction comes first: half of a key would not be
    /// recognized as one.
    pub(crate) fn shown(&self, text: &str, most: usize) -> String {
        match &self.0 {
            Some(redact) => clip(&redact(text), most),
            None => clip(text, most),
        }
    }

    /// Returns a reason, as a report may hold it: it may quote messages.
    pub(crate) fn reason(&self, text: &str) -> String {
        self.shown(text, MAX_REASON_CHARS)
    }
}

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redact")
    }
}

/// Returns the first model without a price, because of which a run's cost is unknown.
fn without_price(records: &[Arc<Record>]) -> Option<ModelRef> {
    records.iter().find_map(|record| match &record.body {
        RecordBody::LlmCall(call) if call.cost.is_none() => {
            Cost::of(&record.body).map(|_| call.reply.model.clone())
        }
        _ => None,
    })
}

/// Returns the models that answered, by the names under which they did. A hook that answers instead is none.
fn models(records: &[Arc<Record>]) -> BTreeSet<String> {
    let names = records.iter().filter_map(|record| match &record.body {
        RecordBody::LlmCall(call) => Cost::of(&record.body).map(|_| call.reply.model.to_string()),
        _ => None,
    });
    names.collect()
}

impl ObservedRun {
    pub(crate) fn of(records: &[Arc<Record>]) -> Self {
        Self {
            view: RunView::of(records),
            calls: tool_calls(records),
            cost: run_cost(records),
            without_price: without_price(records),
            cost_label: SessionMetrics::of_run(records.iter().map(|record| &**record)).cost_label,
            models: models(records),
            has_answered: has_answered(records),
            redact: Redact::default(),
        }
    }

    /// Applies this redaction to everything that is shown of the run.
    pub(crate) fn redacted_by(mut self, redact: &Redact) -> Self {
        self.redact = redact.clone();
        self
    }

    /// Returns the beginning of a text, as a report may hold it.
    pub(crate) fn shown(&self, text: &str, most: usize) -> String {
        self.redact.shown(text, most)
    }

    /// Returns a reason, as a report may hold it: it may quote messages.
    pub(crate) fn reason(&self, text: &str) -> String {
        self.redact.reason(text)
    }

    /// Returns the answer, or the part of it that exists if the run did not complete one.
    pub(crate) fn answer(&self) -> &str {
        let outcome = self.view.outcome();
        outcome.map_or_else(|| self.view.text(), |outcome| &outcome.content)
    }

    /// Parses the answer as JSON, without the code fence if one encloses all of it.
    pub(crate) fn json(&self) -> Result<Value, String> {
        let read = serde_json::from_str(without_fence(self.answer()));
        read.map_err(|error| format!("the answer is not JSON ({error}): {}", self.quoted()))
    }

    /// Returns the beginning of the answer, for messages.
    pub(crate) fn quoted(&self) -> String {
        match self.answer().trim() {
            "" => "the answer is empty".to_owned(),
            answer => format!("the answer is {:?}", self.shown(answer, 200)),
        }
    }

    /// Returns the user's last message.
    pub(crate) fn question(&self) -> String {
        let messages = self.view.spec().map(|spec| spec.messages.as_slice());
        let last = messages.and_then(last_of_user);
        last.map(|message| message.text()).unwrap_or_default()
    }

    /// Returns the names of the tools that were called, for messages.
    pub(crate) fn called(&self) -> String {
        let mut calls = self.calls.iter().map(|call| {
            let arguments = self.shown(call.arguments.as_str(), 120);
            format!("{} {arguments}", call.name)
        });
        let first: Vec<String> = calls.by_ref().take(5).collect();
        match (first.is_empty(), calls.count()) {
            (true, _) => "no tool was called".to_owned(),
            (false, 0) => format!("called: {}", first.join(", ")),
            (false, more) => format!("called: {} and {more} more", first.join(", ")),
        }
    }

    /// Returns why the run ended without an answer, if so: it failed, a limit left it none, or the answer is empty.
    pub(crate) fn no_answer(&self) -> Option<String> {
        let reason = self.view.finish()?;
        let is_limit = reason.ends_at_a_limit() && !self.has_answered;
        let is_empty = self.answer().trim().is_empty() && *reason != FinishReason::ClientTools;
        if self.view.status() == RunStatus::Failed || is_limit {
            return Some(self.reason(&reason.to_string()));
        }
        is_empty.then(|| self.quoted())
    }

    /// Returns why the run cannot be judged, if so: it failed, was interrupted or cancelled, waits, or has not ended.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self.view.finish() {
            Some(FinishReason::Failed(why)) => Some(self.reason(&format!("the run failed: {why}"))),
            Some(FinishReason::Interrupted(why)) => {
                Some(self.reason(&format!("the run was interrupted: {why}")))
            }
            Some(FinishReason::Cancelled) => Some("the run was cancelled".to_owned()),
            Some(_) => None,
            None if self.view.status() == RunStatus::Waiting => {
                let pending = counted(self.view.pending().len() as u64, "call");
                Some(format!(
                    "the run waits for {pending} that nobody can answer here"
                ))
            }
            None => Some("the run has not ended".to_owned()),
        }
    }
}
