//! Conversion between an input and the record that contains it.

use std::sync::Arc;

use crate::ids::{Attempt, CallIndex, ToolCallId};
use crate::input::{Input, ModelFailed, ModelReplied, ToolFinished};
use crate::outcome::{ToolOutcome, ToolOutput, ToolSignal};
use crate::record::{
    LlmCall, LlmFailed, Record, RecordBody, ToolCallFailed, ToolResult, ToolStatus,
};

impl Record {
    /// Returns the input that a record contains, if it begins a step other than the first.
    #[must_use]
    pub fn cause(&self) -> Option<Input> {
        self.active_ms?;
        Some(match &self.body {
            RecordBody::LlmCall(call) => Input::ModelReplied(call.input()),
            RecordBody::LlmFailed(failed) => Input::ModelFailed(failed.input()),
            RecordBody::Verdict(vetted) => Input::Vetted(vetted.as_ref().clone()),
            RecordBody::ToolFailed(failed) => Input::ToolFinished(failed.input()),
            RecordBody::ToolResult(result) => Input::ToolFinished(result.input()?),
            RecordBody::ApprovalDecided(decided) => {
                Input::ApprovalDecided(decided.as_ref().clone())
            }
            RecordBody::Advised(advised) => Input::Advised(advised.as_ref().clone()),
            RecordBody::Steered(steered) => Input::Steered(steered.as_ref().clone()),
            RecordBody::Cancelled(cancelled) => Input::Cancelled(cancelled.as_ref().clone()),
            RecordBody::Resumed(resumed) => Input::Resumed(resumed.as_ref().clone()),
            RecordBody::LimitReached(_) => Input::TimePassed,
            _ => return None,
        })
    }
}

impl LlmCall {
    fn input(&self) -> ModelReplied {
        ModelReplied {
            effect_id: self.effect_id,
            attempt: self.attempt,
            reply: Arc::clone(&self.reply),
            served_by: self.served_by.clone(),
            downgraded: self.downgraded.clone(),
            cost: self.cost,
            cost_label: self.cost_label,
            duration: self.duration,
            first_delta: self.first_delta,
        }
    }
}

impl LlmFailed {
    fn input(&self) -> ModelFailed {
        ModelFailed {
            effect_id: self.effect_id,
            attempt: self.attempt,
            error: self.error.clone(),
            next: self.next,
            served_by: self.served_by.clone(),
            downgraded: self.downgraded.clone(),
            degraded: self.degraded.clone(),
            cost: self.cost,
            cost_label: self.cost_label,
            model: self.model.clone(),
            duration: self.duration,
        }
    }
}

impl ToolCallFailed {
    fn input(&self) -> ToolFinished {
        ToolFinished {
            effect_id: self.effect_id,
            attempt: self.attempt,
            outcome: ToolOutcome {
                output: ToolOutput::new(self.value.clone()),
                failure: Some(self.failure),
            },
            duration: self.duration,
            by: None,
        }
    }
}

impl ToolResult {
    /// Creates the result of a call that did not run; for one that ran, the caller adds what ran it and how long it
    /// took.
    pub fn of(
        call: ToolCallId,
        name: impl Into<Arc<str>>,
        index: CallIndex,
        outcome: ToolOutcome,
    ) -> Self {
        let status = ToolStatus::of(&outcome);
        let ToolOutcome { output, failure } = outcome;
        Self {
            tool_call_id: call,
            name: name.into(),
            index,
            effect_id: None,
            attempt: None,
            status,
            value: output.value,
            failure,
            summary: output.summary,
            keep: output.keep,
            media: output.media,
            metadata: output.metadata,
            signal: output.signal,
            sources: output.sources,
            untrusted: false,
            rewritten: output.rewritten,
            agents_at_limit: Vec::new(),
            duration: None,
            by: None,
        }
    }

    /// Returns the outcome of the call.
    #[must_use]
    pub fn outcome(&self) -> ToolOutcome {
        let output = ToolOutput {
            value: self.value.clone(),
            keep: self.keep,
            summary: self.summary.clone(),
            media: self.media.clone(),
            metadata: self.metadata.clone(),
            signal: self.signal.clone(),
            sources: self.sources.clone(),
            rewritten: self.rewritten,
        };
        ToolOutcome {
            output,
            failure: self.failure,
        }
    }

    /// Returns the question that the call asks the user, if any.
    #[must_use]
    pub fn question(&self) -> Option<&str> {
        match &self.signal {
            Some(ToolSignal::Clarify { question }) if self.failure.is_none() => Some(question),
            _ => None,
        }
    }

    fn input(&self) -> Option<ToolFinished> {
        Some(ToolFinished {
            effect_id: self.effect_id?,
            attempt: self.attempt.unwrap_or(Attempt(1)),
            outcome: self.outcome(),
            duration: self.duration.unwrap_or_default(),
            by: self.by.clone(),
        })
    }
}

impl ToolStatus {
    /// Returns the status of a call with this outcome.
    #[must_use]
    pub const fn of(outcome: &ToolOutcome) -> Self {
        if outcome.is_done() {
            Self::Done
        } else {
            Self::Error
        }
    }
}
