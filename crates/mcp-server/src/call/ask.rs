//! Puts the questions of a run to the user at the client, in the way that the client's era supports.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::RunView;
use neuraxis_core::{ApprovalDecision, RunId, Seq};
use neuraxis_engine::{SystemClock, WaitingApproval};
use neuraxis_ports::{Clock, QuestionReply, StoreError};
use rmcp::ServiceError;
use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, InputRequest,
    InputRequests, InputRequiredResult, PingRequest, RequestId, ServerRequest,
};
use rmcp::service::PeerRequestOptions;
use tokio::time::sleep;

use super::{Call, FollowError, elicitation};
use crate::offers::OfferedTool;
use crate::question;
use crate::shown::one_line;

/// How long to wait beyond a question's expiry, so that it has expired by every clock.
const AFTER_EXPIRY: Duration = Duration::from_millis(500);

/// How often to check whether the question has been settled elsewhere.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// How often to ping a client while a user decides.
const PING_EVERY: Duration = Duration::from_secs(20 * 60);

/// The time limit on the client's reply to a ping: its machine may sleep while the user is away, and its session is
/// kept for an hour.
const PING_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The result of asking the questions of a run.
pub(super) enum AskOutcome {
    /// They are decided. Holds the last record before the last decision, if any decision was needed.
    Settled(Option<Seq>),
    /// They go to the client, which sends the answers with its next call.
    ByClient(InputRequiredResult),
}

/// The result of putting one question to the user.
enum QuestionOutcome {
    /// The user answered, or no answer will come.
    Answered(ApprovalDecision),
    /// The question was settled elsewhere.
    Settled,
    /// The server is stopping, or its engine was replaced. The question stays open.
    Left,
}

impl Call<'_> {
    /// Returns the questions as the result of the call. A question that cannot be asked is decided immediately.
    pub(super) async fn ask_in_result(
        &self,
        offer: &OfferedTool,
        run: RunId,
        open: &[WaitingApproval],
    ) -> Result<AskOutcome, FollowError> {
        let mut questions: InputRequests = BTreeMap::new();
        let mut last = None;
        for waiting in open {
            match question::form(waiting) {
                Ok(form) => {
                    let request = InputRequest::Elicitation(ElicitRequest::new(form));
                    questions.insert(waiting.question(), request);
                }
                Err(decision) => {
                    let decided = self.decide(run, waiting, decision).await;
                    last = last.max(decided.map_err(FollowError::Failed)?);
                }
            }
        }
        if questions.is_empty() {
            return Ok(AskOutcome::Settled(last));
        }
        let asks = self.with_state(offer, run, questions);
        asks.map(AskOutcome::ByClient).map_err(FollowError::Failed)
    }

    /// Returns what the run's tools ask as the result of the call, while the tools wait. A question that cannot be
    /// asked is declined.
    pub(super) async fn ask_questions_in_result(
        &self,
        offer: &OfferedTool,
        run: RunId,
    ) -> Result<AskOutcome, FollowError> {
        let runs = self.runs();
        let mut questions: InputRequests = BTreeMap::new();
        for open in runs.questions(run).unwrap_or_default() {
            let id = &open.question_id;
            if let Some(form) = elicitation::form(&open.question) {
                let request = InputRequest::Elicitation(ElicitRequest::new(form));
                questions.insert(id.to_string(), request);
            } else {
                // A question settled meanwhile needs no answer.
                let _ = runs.answer_question(run, id, QuestionReply::Declined);
            }
        }
        if questions.is_empty() {
            let last = self.newest(run).await.map_err(FollowError::Failed)?;
            return Ok(AskOutcome::Settled(Some(last)));
        }
        let asks = self.with_state(offer, run, questions);
        asks.map(AskOutcome::ByClient).map_err(FollowError::Failed)
    }

    /// Bundles the questions with the state that the client sends back with its answers.
    fn with_state(
        &self,
        offer: &OfferedTool,
        run: RunId,
        questions: InputRequests,
    ) -> Result<InputRequiredResult, String> {
        let owner = self.server.owner.as_deref();
        let state = self.server.states.seal(run, &offer.tool.name, owner);
        let state = state.ok_or(
            "no random bytes are available on this machine, so a forged answer could not be detected",
        )?;
        Ok(InputRequiredResult::new(Some(questions), Some(state)))
    }

    /// Asks the questions in turn and records each decision, until one is settled elsewhere; the open questions are
    /// then read again. Returns `None` if the server stops or its engine is replaced, which leaves the questions open.
    pub(super) async fn ask_by_request(
        &self,
        run: RunId,
        open: &[WaitingApproval],
    ) -> Result<Option<AskOutcome>, FollowError> {
        let before = self.newest(run).await.map_err(FollowError::Failed)?;
        let mut last = None;
        for waiting in open {
            let decision = match question::form(waiting) {
                Ok(form) => match self.ask(waiting, form).await? {
                    QuestionOutcome::Answered(decision) => decision,
                    QuestionOutcome::Settled => {
                        return Ok(Some(AskOutcome::Settled(last.max(Some(before)))));
                    }
                    QuestionOutcome::Left => return Ok(None),
                },
                Err(decision) => decision,
            };
            let decided = self.decide(run, waiting, decision).await;
            last = last.max(decided.map_err(FollowError::Failed)?);
        }
        Ok(Some(AskOutcome::Settled(last)))
    }

    /// Puts one question to the user, for as long as it is open.
    async fn ask(
        &self,
        waiting: &WaitingApproval,
        form: ElicitRequestParams,
    ) -> Result<QuestionOutcome, FollowError> {
        if self.server.asking_ended().is_cancelled() {
            return Ok(QuestionOutcome::Left);
        }
        let options = match waiting.request.expires_at {
            Some(at) => PeerRequestOptions::with_timeout(left_until(at)),
            None => PeerRequestOptions::no_options(),
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let handle = self.peer.send_request_with_option(request, options).await;
        let handle = match handle {
            Ok(handle) => handle,
            Err(error) => return unanswered(&error).map(QuestionOutcome::Answered),
        };
        let id = handle.id.clone();
        let answered = tokio::select! {
            answered = handle.await_response() => answered,
            () = self.given_up.cancelled() => {
                self.withdraw(id, "the call was cancelled").await;
                return Err(FollowError::Cancelled);
            }
            () = self.settled(waiting) => {
                self.withdraw(id, "decided elsewhere").await;
                return Ok(QuestionOutcome::Settled);
            }
            () = self.server.asking_ended().cancelled() => {
                let why = "the engine was replaced, or the server is stopping";
                self.withdraw(id, why).await;
                return Ok(QuestionOutcome::Left);
            }
            never = self.ping() => match never {},
        };
        let decision = match answered {
            Ok(ClientResult::ElicitResult(answer)) => question::decision(&answer),
            Ok(_) => question::denied("the client's answer is invalid".to_owned()),
            Err(error) => unanswered(&error)?,
        };
        Ok(QuestionOutcome::Answered(decision))
    }

    /// Pings the client from time to time until it stops replying. Over HTTP, a client's session is dropped after too
    /// long without a message, and the call with it.
    async fn ping(&self) -> Infallible {
        loop {
            sleep(PING_EVERY).await;
            let ping = ServerRequest::PingRequest(PingRequest::default());
            let options = PeerRequestOptions::with_timeout(PING_TIMEOUT);
            let answered = match self.peer.send_request_with_option(ping, options).await {
                Ok(handle) => handle.await_response().await,
                Err(error) => Err(error),
            };
            // An error reply also shows that the client is present.
            if !matches!(answered, Ok(_) | Err(ServiceError::McpError(_))) {
                return pending().await;
            }
        }
    }

    /// Tells the client that a question has been withdrawn. Over HTTP this goes on the stream for messages that belong
    /// to no call, which a client may not have open: a notification, unlike a request, cannot be bound to a call.
    async fn withdraw(&self, question: RequestId, why: &str) {
        let withdrawn = CancelledNotificationParam::new(Some(question), Some(why.to_owned()));
        // A client that does not receive it sends an answer that is no longer expected.
        let _ = self.peer.notify_cancelled(withdrawn).await;
    }

    /// Waits until a question is no longer open: it was decided elsewhere, it expired, or its run ended.
    async fn settled(&self, waiting: &WaitingApproval) {
        loop {
            match self.is_open(waiting).await {
                Ok(true) => {}
                Err(error) if error.is_retryable() => {}
                // The code that follows the run reports the error.
                Ok(false) | Err(_) => return,
            }
            sleep(CHECK_EVERY).await;
        }
    }

    /// Returns whether a question has no answer yet.
    async fn is_open(&self, waiting: &WaitingApproval) -> Result<bool, StoreError> {
        let sessions = self.server.orchestrator.sessions();
        let run = sessions.run(waiting.run_id).await?;
        if run.ended_at.is_some() {
            return Ok(false);
        }
        let effect = waiting.request.effect_id;
        if run.pending.iter().any(|it| it.effect_id == effect) {
            return Ok(true);
        }
        // A run that another decision has resumed is not reported as waiting, but its other questions stay open.
        let records = sessions.records(waiting.run_id).await?;
        let view = RunView::of(&records);
        let mut open = view.open_approvals();
        Ok(open.any(|it| it.request.effect_id == effect))
    }
}

/// Interprets the lack of an answer from a client.
fn unanswered(error: &ServiceError) -> Result<ApprovalDecision, FollowError> {
    match error {
        ServiceError::TransportClosed => Err(FollowError::Cancelled),
        error => {
            let why = one_line(&error.to_string());
            Ok(question::denied(format!(
                "the client did not ask the user: {why}"
            )))
        }
    }
}

fn left_until(at: Timestamp) -> Duration {
    let left = at.duration_since(SystemClock.now());
    Duration::try_from(left).unwrap_or_default() + AFTER_EXPIRY
}
