//! The questions of a run's tools that are open: shown in its events, and answered from outside.
//!
//! They live in the process that drives the run, and no longer than their calls: whoever could use an answer is there, and
//! waits. Not for calls that wait for approval, which are kept in the store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::{
    EffectId, InvalidAnswer, JsonText, OpenQuestion, QuestionId, QuestionOutcome, RunId,
};
use neuraxis_ports::QuestionReply;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::runs::{Reached, Runs};

/// The most questions of a run that may be open at the same time. What its tools ask beyond is declined.
const MAX_OPEN: usize = 20;

/// The most questions that the tools of a run may ask, and the most bytes of one as JSON: its events are kept as long as the
/// call is under way. What they ask beyond is declined.
const MAX_ASKED: u32 = 100;
const MAX_BYTES: usize = 64 * 1024;

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerQuestionError {
    /// There never was one of this id, or it is settled: answered, declined, too old, or nobody waits for it any more.
    #[error("no question {question} of run {run} is open: it never was, or it is settled")]
    NotOpen {
        /// The run.
        run: RunId,
        /// The question.
        question: QuestionId,
    },
    /// The run is not at work in this process, which therefore knows nothing of its questions.
    #[error("run {0} is not at work in this process: its questions are answered where it is")]
    NotHere(RunId),
    /// The answer is none to the question, which stays open.
    #[error(transparent)]
    Invalid(#[from] InvalidAnswer),
}

/// The open questions of one run, and for how long a person is asked.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    asked: u32,
    open: Vec<Waiting>,
    /// How many an approver is asked, which nobody else can answer.
    elsewhere: u32,
    /// Since when a person is asked any, and for how long one was before.
    since: Option<Instant>,
    before: Duration,
}

/// A question whose tool waits.
#[derive(Debug)]
struct Waiting {
    question: Arc<OpenQuestion>,
    call: EffectId,
    /// The way back; none once it is answered or too old.
    reply: Option<oneshot::Sender<QuestionReply>>,
    outcome: QuestionOutcome,
}

impl State {
    /// Stops the clock once nobody is asked any more.
    fn stop_unless_asked(&mut self) {
        if self.open.is_empty()
            && self.elsewhere == 0
            && let Some(since) = self.since.take()
        {
            self.before += since.elapsed();
        }
    }
}

/// A question that an approver is asked until this is dropped.
pub(crate) struct AskedElsewhere<'a>(&'a Questions);

impl Drop for AskedElsewhere<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.elsewhere = state.elsewhere.saturating_sub(1);
        state.stop_unless_asked();
    }
}

impl Questions {
    /// Opens a question of a call, and returns where its answer arrives; `None` if there are too many, or it is too long.
    pub(crate) fn open(
        &self,
        question: Arc<OpenQuestion>,
        call: EffectId,
    ) -> Option<oneshot::Receiver<QuestionReply>> {
        let size = JsonText::encode(question.as_ref()).map_or(usize::MAX, |it| it.as_str().len());
        let mut state = self.lock();
        let has_room = state.asked < MAX_ASKED && state.open.len() < MAX_OPEN;
        if !has_room || size > MAX_BYTES {
            return None;
        }
        state.asked += 1;
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

    /// Returns those that can be answered, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<OpenQuestion>> {
        let state = self.lock();
        let waiting = state.open.iter().filter(|it| it.reply.is_some());
        waiting.map(|it| Arc::clone(&it.question)).collect()
    }

    /// Lets nobody answer a question any more, unless somebody did.
    pub(crate) fn expire(&self, id: &QuestionId) {
        let mut state = self.lock();
        let mut open = state.open.iter_mut();
        let waiting = open.find(|it| it.question.question_id == *id);
        if let Some(waiting) = waiting.filter(|it| it.reply.is_some()) {
            waiting.reply = None;
            waiting.outcome = QuestionOutcome::Expired;
        }
    }

    /// Takes a question out, and returns what became of it; `None` if it was taken out before.
    pub(crate) fn settle(&self, id: &QuestionId) -> Option<QuestionOutcome> {
        let mut state = self.lock();
        let mut open = state.open.iter();
        let at = open.position(|it| it.question.question_id == *id)?;
        let settled = state.open.remove(at);
        state.stop_unless_asked();
        Some(settled.outcome)
    }

    /// Notes that an approver is asked, until what is returned is dropped.
    pub(crate) fn ask_elsewhere(&self) -> AskedElsewhere<'_> {
        let mut state = self.lock();
        state.elsewhere = state.elsewhere.saturating_add(1);
        state.since.get_or_insert_with(Instant::now);
        AskedElsewhere(self)
    }

    /// Returns for how long a person was asked anything until now.
    pub(crate) fn asked_for(&self) -> Duration {
        let state = self.lock();
        let open = state.since.map(|since| since.elapsed());
        state.before + open.unwrap_or_default()
    }

    /// Tells whether a person is asked anything.
    pub(crate) fn is_any_open(&self) -> bool {
        self.lock().since.is_some()
    }

    /// Returns the questions that a call has left open.
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
        // A tool that has just left hears of nothing: it is as if there was no question any more.
        waiting.reply.take()?.send(reply).ok()?;
        waiting.outcome = outcome;
        Some(Ok(()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held can only have come from running out of memory; the state is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runs {
    /// Returns what the tools of a run ask a person at this moment, the oldest first; `None` where the run is not at work in
    /// this process, which alone would know. Only an engine whose
    /// [questions are open](crate::OrchestratorBuilder::questions_open_for) has any.
    ///
    /// Whoever may see the run may see them: that is for the caller to check, as with [`answer_question`](Self::answer_question).
    #[must_use]
    pub fn questions(&self, run: RunId) -> Option<Vec<Arc<OpenQuestion>>> {
        match self.reach(run) {
            Reached::Here(handle) => Some(handle.link.feed.questions.list()),
            // What has just begun asked nothing yet.
            Reached::Soon => Some(Vec::new()),
            Reached::No => None,
        }
    }

    /// Answers a question of a run's tool, which goes on with that. Of several answers the first one counts.
    ///
    /// # Errors
    ///
    /// An [`AnswerQuestionError`]: there is no such question, or the answer is none to it.
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
            Reached::Here(handle) => {
                let questions = &handle.link.feed.questions;
                let answered = questions.answer(question, reply);
                answered.ok_or_else(not_open)??;
                Ok(())
            }
            Reached::Soon => Err(not_open()),
            Reached::No => Err(AnswerQuestionError::NotHere(run)),
        }
    }
}
