//! The questions of a run, and their outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis::core::{ApprovalDecision, Record, RecordBody, RunId, Seq, ToolCallId};

use super::input::Resume;
use crate::problem::{NOT_ASKED, Problem, QUESTION_EXPIRED};

/// The questions of a run, from its records.
#[derive(Debug)]
pub(super) struct Questions<'a> {
    /// The call that each question is about, by the question's name.
    calls: BTreeMap<String, &'a ToolCallId>,
    /// The decision about each call, and its record.
    decided: BTreeMap<&'a ToolCallId, (Seq, &'a ApprovalDecision)>,
    /// The record with which the run ended.
    end: Option<Seq>,
}

impl<'a> Questions<'a> {
    pub(super) fn of(run: RunId, records: &'a [Arc<Record>]) -> Self {
        let mut questions = Self {
            calls: BTreeMap::new(),
            decided: BTreeMap::new(),
            end: None,
        };
        for record in records {
            match &record.body {
                RecordBody::ApprovalRequested(request) => {
                    let question = request.question(run);
                    questions.calls.insert(question, &request.tool_call_id);
                }
                RecordBody::ApprovalDecided(decided) => {
                    let first = questions.decided.entry(&decided.tool_call_id);
                    first.or_insert((record.seq, &decided.decision));
                }
                _ if record.ends_the_run() => questions.end = Some(record.seq),
                _ => {}
            }
        }
        questions
    }

    /// Returns whether one of these questions was asked.
    pub(super) fn contains_any<'q>(&self, mut names: impl Iterator<Item = &'q str>) -> bool {
        names.any(|name| self.calls.contains_key(name))
    }

    /// Returns whether the run has ended.
    pub(super) const fn has_run_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the record that settled a question. An answer must be the same as the recorded decision. A client that
    /// cancels a settled question accepts any outcome, because it can do nothing else.
    pub(super) fn settled(
        &self,
        answer: &Resume,
        decision: &ApprovalDecision,
    ) -> Result<Seq, Problem> {
        let call = self.calls.get(&answer.interrupt_id).ok_or_else(not_asked)?;
        match self.decided.get(call).copied() {
            Some((seq, taken)) if answer.is_cancelled() || taken == decision => Ok(seq),
            Some((_, ApprovalDecision::Expired)) => {
                let detail = "the interrupt was not answered in time, and the run continued without the call; send it \
                              with status cancelled to see how";
                Err(Problem::new(&QUESTION_EXPIRED, detail))
            }
            Some(_) => {
                let detail = "resume: the interrupt already has a different answer; send it with status cancelled to \
                              see the outcome";
                Err(Problem::new(&NOT_ASKED, detail))
            }
            // The run ended while the question was open.
            None if answer.is_cancelled() => self.end.ok_or_else(not_asked),
            None => Err(not_asked()),
        }
    }
}

pub(super) fn not_asked() -> Problem {
    let detail = "resume: this thread has no such open interrupt";
    Problem::new(&NOT_ASKED, detail)
}
