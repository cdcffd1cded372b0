//! The open questions of a run's tools: shown in the run's events, and answered from outside.
//!
//! They exist in the process that drives the run, and no longer than their calls, because only a tool that is waiting
//! there can use an answer. Not for calls that wait for approval, which are kept in the store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::{
    EffectId, InvalidAnswer, JsonText, OpenQuestion, QuestionId, QuestionOutcome, RunId,
};
use neuraxis_ports::QuestionReply;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::runs::{Reachability, Runs};

/// The maximum number of open questions of a run. Further questions of its tools are declined.
const MAX_OPEN: usize = 20;

/// The maximum number of questions that the tools of a run may ask, and the maximum size of one in bytes as JSON. The
/// questions' events are kept as long as the call is in progress. Questions beyond these limits are declined.
const MAX_QUESTIONS: u32 = 100;
const MAX_BYTES: usize = 64 * 1024;

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerQuestionError {
    /// No such question was ever asked, or it is settled: answered, declined, expired, or no longer awaited.
    #[error(
        "question {question} of run {run} is not open: it was never asked, or is already settled"
    )]
    NotOpen {
        /// The run.
        run: RunId,
        /// The question.
        question: QuestionId,
    },
    /// This process is not driving the run, so it does not know the run's questions.
    #[error(
        "run {0} is not running in this process: answer its questions in the process that drives it"
    )]
    NotHere(RunId),
    /// The answer is not valid for the question, which stays open.
    #[error(transparent)]
    Invalid(#[from] InvalidAnswer),
}

/// The open questions of one run, and how long users have been asked.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of questions that the run's tools have asked so far.
    count: u32,
    open: Vec<Waiting>,
    /// The number of questions put to an approver, which only the approver can answer.
    elsewhere: u32,
    /// Since when any question has been open, and for how long any were open before.
    since: Option<Instant>,
    before: Duration,
}

/// A question that its tool is waiting for.
#[derive(Debug)]
struct Waiting {
    question: Arc<OpenQuestion>,
    call: EffectId,
    /// The channel for the answer; `None` once the question is answered or expired.
    reply: Option<oneshot::Sender<QuestionReply>>,
    outcome: QuestionOutcome,
}

impl State {
    /// Stops the clock once no question is open.
    fn stop_clock_unless_open(&mut self) {
        if self.open.is_empty()
            && self.elsewhere == 0
            && let Some(since) = self.since.take()
        {
            self.before += since.elapsed();
        }
    }
}

/// A question to an approver, open until this is dropped.
pub(crate) struct OpenElsewhere<'a>(&'a Questions);

impl Drop for OpenElsewhere<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.elsewhere = state.elsewhere.saturating_sub(1);
        state.stop_clock_unless_open();
    }
}

impl Questions {
    /// Opens a question of a call, and returns the receiver of its answer; `None` if there are too many questions, or
    /// this one is too long.
    pub(crate) fn open(
        &self,
        question: Arc<OpenQuestion>,
        call: EffectId,
    ) -> Option<oneshot::Receiver<QuestionReply>> {
        let size = JsonText::encode(question.as_ref()).map_or(usize::MAX, |it| it.as_str().len());
        let mut state = self.lock();
        let has_room = state.count < MAX_QUESTIONS && state.open.len() < MAX_OPEN;
        if !has_room || size > MAX_BYTES {
            return None;
        }
        state.count += 1;
        state.since.get_or_insert_with(Instant::now);
        let (reply, receiver) = oneshot::channel();
        state.open.push(Waiting {
            question,
            call,
            reply: Some(reply),
            outcome: QuestionOutcome::Withdrawn,
        });
        Some(receiver)
    }

    /// Returns the questions that can be answered, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<OpenQuestion>> {
        let state = self.lock();
        let waiting = state.open.iter().filter(|it| it.reply.is_some());
        waiting.map(|it| Arc::clone(&it.question)).collect()
    }

    /// Expires a question, unless it has been answered.
    pub(crate) fn expire(&self, id: &QuestionId) {
        let mut state = self.lock();
        let mut open = state.open.iter_mut();
        let waiting = open.find(|it| it.question.question_id == *id);
        if let Some(waiting) = waiting.filter(|it| it.reply.is_some()) {
            waiting.reply = None;
            waiting.outcome = QuestionOutcome::Expired;
        }
    }

    /// Removes a question, and returns its outcome; `None` if it was removed before.
    pub(crate) fn settle(&self, id: &QuestionId) -> Option<QuestionOutcome> {
        let mut state = self.lock();
        let mut open = state.open.iter();
        let at = open.position(|it| it.question.question_id == *id)?;
        let settled = state.open.remove(at);
        state.stop_clock_unless_open();
        Some(settled.outcome)
    }

    /// Records that an approver is being asked, until the returned value is dropped.
    pub(crate) fn open_elsewhere(&self) -> OpenElsewhere<'_> {
        let mut state = self.lock();
        state.elsewhere = state.elsewhere.saturating_add(1);
        state.since.get_or_insert_with(Instant::now);
        OpenElsewhere(self)
    }

    /// Returns for how long questions have been open in total so far.
    pub(crate) fn time_asked(&self) -> Duration {
        let state = self.lock();
        let open = state.since.map(|since| since.elapsed());
        state.before + open.unwrap_or_default()
    }

    /// Returns `true` if any question is open.
    pub(crate) fn is_any_open(&self) -> bool {
        self.lock().since.is_some()
    }

    /// Returns the unsettled questions of a call.
    pub(crate) fn of_call(&self, call: EffectId) -> Vec<QuestionId> {
        let state = self.lock();
        let of_call = state.open.iter().filter(|it| it.call == call);
        of_call.map(|it| it.question.question_id.clone()).collect()
    }

    /// Answers a question; `None` if it is not open.
    fn answer(&self, id: &QuestionId, reply: QuestionReply) -> Option<Result<(), InvalidAnswer>> {
        let mut state = self.lock();
        let mut open = state.open.iter_mut();
        let waiting = open.find(|it| it.question.question_id == *id && it.reply.is_some())?;
        if let QuestionReply::Answered(answer) = &reply
            && let Err(fault) = waiting.question.question.check(answer)
        {
            return Some(Err(fault));
        }
        let outcome = match &reply {
            QuestionReply::Answered(_) => QuestionOutcome::Answered,
            QuestionReply::Cancelled => QuestionOutcome::Cancelled,
            _ => QuestionOutcome::Declined,
        };
        // If the tool has just gone, it does not receive the answer, and the question is treated as no longer open.
        waiting.reply.take()?.send(reply).ok()?;
        waiting.outcome = outcome;
        Some(Ok(()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held can only have come from running out of memory, and the state is still
        // consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runs {
    /// Returns the questions that the tools of a run are asking now, the oldest first; `None` if this process is not
    /// driving the run, since only the driving process knows them. Only an engine whose [questions are
    /// open](crate::OrchestratorBuilder::questions_open_for) has any.
    ///
    /// The caller must check that the user may see the run, as for [`answer_question`](Self::answer_question).
    #[must_use]
    pub fn questions(&self, run: RunId) -> Option<Vec<Arc<OpenQuestion>>> {
        match self.reach(run) {
            Reachability::Here(handle) => Some(handle.link.feed.questions.list()),
            // A run that is only being started has asked nothing yet.
            Reachability::Starting => Some(Vec::new()),
            Reachability::Absent => None,
        }
    }

    /// Answers a question of a run's tool, which then continues. If several answers are given, the first one counts.
    ///
    /// # Errors
    ///
    /// An [`AnswerQuestionError`] if the question is not open or the answer is not valid for it.
    pub fn answer_question(
        &self,
        run: RunId,
        question: &QuestionId,
        reply: QuestionReply,
    ) -> Result<(), AnswerQuestionError> {
        let not_open = || AnswerQuestionError::NotOpen {
            run,
            question: question.clone(),
        };
        match self.reach(run) {
            Reachability::Here(handle) => {
                let questions = &handle.link.feed.questions;
                let answered = questions.answer(question, reply);
                answered.ok_or_else(not_open)??;
                Ok(())
            }
            Reachability::Starting => Err(not_open()),
            Reachability::Absent => Err(AnswerQuestionError::NotHere(run)),
        }
    }
}
