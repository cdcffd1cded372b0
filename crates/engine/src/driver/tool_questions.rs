//! Questions that a tool asks during a call. A question goes to the approver, or is listed with the run's questions
//! until it is answered, its time is up, or the call ends. While the user is asked, the call releases its permit to
//! run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use neuraxis_core::{AskApproval, LiveBody, OpenQuestion, Question, QuestionId};
use neuraxis_ports::{Approver, ApproverReply, QuestionReply, TurnContext, async_trait};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::driver::tool_call::Reports;
use crate::engine::Engine;

/// Asks the user the questions of one call.
#[derive(Debug)]
pub(super) struct Asking {
    engine: Arc<Engine>,
    reports: Arc<Reports>,
    answerer: Answerer,
    /// Cancelled once the call has ended, however it ends.
    cancellation: CancellationToken,
    place: Mutex<Place>,
}

/// Who answers questions.
#[derive(Debug)]
pub(super) enum Answerer {
    /// The followers of the run, for this long.
    Followers(Duration),
    /// An approver, for as long as it takes.
    Approver(Arc<dyn Approver>),
}

/// The call's permit to run. It is released while the user is asked, so that other tools may use it.
#[derive(Debug, Default)]
struct Place {
    permit: Option<OwnedSemaphorePermit>,
    is_over: bool,
}

impl Asking {
    pub(super) fn new(
        engine: &Arc<Engine>,
        reports: &Arc<Reports>,
        answerer: Answerer,
        cancellation: CancellationToken,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            reports: Arc::clone(reports),
            answerer,
            cancellation,
            place: Mutex::default(),
        }
    }

    /// Takes over the call's permit, until the returned value is dropped.
    pub(super) fn hold(&self, permit: OwnedSemaphorePermit) -> Held<'_> {
        self.place().permit = Some(permit);
        Held(self)
    }

    /// Marks the call as ended: no more questions are asked, and open ones are withdrawn before the result is shown.
    fn end(&self) {
        {
            let mut place = self.place();
            place.is_over = true;
            place.permit = None;
        }
        let call = self.reports.call.effect_id;
        for question in self.reports.feed.questions.of_call(call) {
            self.settle(&question);
        }
    }

    /// Waits for a permit again; the call may have ended by then.
    async fn regain_permit(&self) {
        if self.place().permit.is_some() {
            return;
        }
        // The semaphore is never closed.
        let permits: Arc<Semaphore> = Arc::clone(&self.engine.tool_permits);
        let permit = permits.acquire_owned().await.ok();
        let mut place = self.place();
        if !place.is_over && place.permit.is_none() {
            place.permit = permit;
        }
    }

    /// Asks the followers of the run.
    async fn ask_followers(&self, question: &Question, open_for: Duration) -> QuestionReply {
        let question_id = QuestionId::from_text(self.engine.ids.new_id().to_string());
        let call = self.reports.tool_call_id.clone();
        let now = self.engine.clock.now();
        let expires_at = now.saturating_add(open_for).unwrap_or(now);
        let open = OpenQuestion::new(question_id.clone(), call, expires_at, question.clone());
        let open = Arc::new(open);
        let questions = &self.reports.feed.questions;
        let Some(mut answer) = questions.open(Arc::clone(&open), self.reports.call.effect_id)
        else {
            tracing::warn!(call = %self.reports.tool_call_id, "a tool asked too many questions, or too large a one; declined");
            return QuestionReply::Declined;
        };
        let shown = Shown {
            asking: self,
            question: &question_id,
        };
        self.reports.show(LiveBody::Question(open));
        self.place().permit = None;
        let reply = match timeout(open_for, &mut answer).await {
            Ok(reply) => reply.ok(),
            Err(_) => {
                questions.expire(&question_id);
                // An answer may have come in the meantime.
                answer.try_recv().ok()
            }
        };
        drop(shown);
        self.regain_permit().await;
        reply.unwrap_or(QuestionReply::Cancelled)
    }

    /// Asks an approver, for as long as the call lasts. The asking code may outlive the call itself.
    async fn ask_approver(&self, question: &Question, approver: &dyn Approver) -> QuestionReply {
        let mut answering = approver.answer(question);
        // An immediate answer needs no waiting, so the permit is kept.
        if let Poll::Ready(reply) = futures_util::poll!(&mut answering) {
            return reply;
        }
        let open = self.reports.feed.questions.open_elsewhere();
        self.place().permit = None;
        let reply = self.cancellation.run_until_cancelled(answering).await;
        drop(open);
        self.regain_permit().await;
        reply.unwrap_or(QuestionReply::Cancelled)
    }

    /// Withdraws a question, and shows its outcome.
    fn settle(&self, question_id: &QuestionId) {
        let Some(outcome) = self.reports.feed.questions.settle(question_id) else {
            return;
        };
        self.reports.show(LiveBody::QuestionSettled {
            question_id: question_id.clone(),
            tool_call_id: self.reports.tool_call_id.clone(),
            outcome,
        });
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Approver for Asking {
    /// Calls are not approved through this type.
    async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
        ApproverReply::Nobody
    }

    async fn answer(&self, question: &Question) -> QuestionReply {
        if self.place().is_over {
            return QuestionReply::Declined;
        }
        match &self.answerer {
            Answerer::Followers(open_for) => self.ask_followers(question, *open_for).await,
            Answerer::Approver(approver) => self.ask_approver(question, approver.as_ref()).await,
        }
    }
}

/// A call's permit to run, until this is dropped.
pub(super) struct Held<'a>(&'a Asking);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A question that is shown until this is dropped, however the asking ends.
struct Shown<'a> {
    asking: &'a Asking,
    question: &'a QuestionId,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.asking.settle(self.question);
    }
}
