//! Puts the questions of a run to the person at the client, in the way of the client's era.

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

use super::{Call, Stopped, person};
use crate::offers::Offer;
use crate::question;
use crate::shown::words;

/// How long after a question expired it is still waited for: then it has expired by every clock.
const AFTER_EXPIRY: Duration = Duration::from_millis(500);

/// How often it is looked whether somebody else has settled a question that the client was asked.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often a client is asked whether it is there while a person decides.
const PING_EVERY: Duration = Duration::from_secs(20 * 60);

/// How long it may take to say so: it may sleep as the person does, and its session is kept for an hour.
const PING_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// What became of the questions of a run.
pub(super) enum Asked {
    /// They are decided: the last record before the last decision, if any decision was needed.
    Settled(Option<Seq>),
    /// They go to the client, which brings the answers with its next call.
    ByClient(InputRequiredResult),
}

/// What became of a question that was put to the person.
enum Put {
    /// The person answered, or nobody will.
    Answered(ApprovalDecision),
    /// Somebody else has settled it.
    Settled,
    /// The server stops, or its engine was replaced: it stays open.
    Left,
}

impl Call<'_> {
    /// Writes the questions as the result of the call. What cannot be asked is decided at once.
    pub(super) async fn in_result(
        &self,
        offer: &Offer,
        run: RunId,
        open: &[WaitingApproval],
    ) -> Result<Asked, Stopped> {
        let mut questions: InputRequests = BTreeMap::new();
        let mut last = None;
        for waiting in open {
            match question::form(waiting) {
                Ok(form) => {
                    let asked = InputRequest::Elicitation(ElicitRequest::new(form));
                    questions.insert(waiting.question(), asked);
                }
                Err(decision) => {
                    let decided = self.decide(run, waiting, decision).await;
                    last = last.max(decided.map_err(Stopped::Failed)?);
                }
            }
        }
        if questions.is_empty() {
            return Ok(Asked::Settled(last));
        }
        let asks = self.with_state(offer, run, questions);
        asks.map(Asked::ByClient).map_err(Stopped::Failed)
    }

    /// Writes what the tools of a run ask as the result of the call, while they wait. What cannot be asked is declined.
    pub(super) async fn questions_in_result(
        &self,
        offer: &Offer,
        run: RunId,
    ) -> Result<Asked, Stopped> {
        let runs = self.runs();
        let mut questions: InputRequests = BTreeMap::new();
        for open in runs.questions(run).unwrap_or_default() {
            let id = &open.question_id;
            if let Some(form) = person::form(&open.question) {
                let asked = InputRequest::Elicitation(ElicitRequest::new(form));
                questions.insert(id.to_string(), asked);
            } else {
                // One that was settled meanwhile needs no answer.
                let _ = runs.answer_question(run, id, QuestionReply::Declined);
            }
        }
        if questions.is_empty() {
            let last = self.newest(run).await.map_err(Stopped::Failed)?;
            return Ok(Asked::Settled(Some(last)));
        }
        let asks = self.with_state(offer, run, questions);
        asks.map(Asked::ByClient).map_err(Stopped::Failed)
    }

    /// Puts questions with what the client brings back with its answers.
    fn with_state(
        &self,
        offer: &Offer,
        run: RunId,
        questions: InputRequests,
    ) -> Result<InputRequiredResult, String> {
        let owner = self.server.owner.as_deref();
        let state = self.server.states.seal(run, &offer.tool.name, owner);
        let state = state.ok_or(
            "this machine gives no random bytes, so that an answer could not be told from a forged one",
        )?;
        Ok(InputRequiredResult::new(Some(questions), Some(state)))
    }

    /// Asks one question after the other, and decides as the answers say, until somebody else settles one: what is open then is
    /// looked at anew. `None` once the server stops or its engine was replaced, which leaves them open.
    pub(super) async fn by_request(
        &self,
        run: RunId,
        open: &[WaitingApproval],
    ) -> Result<Option<Asked>, Stopped> {
        let before = self.newest(run).await.map_err(Stopped::Failed)?;
        let mut last = None;
        for waiting in open {
            let decision = match question::form(waiting) {
                Ok(form) => match self.put(waiting, form).await? {
                    Put::Answered(decision) => decision,
                    Put::Settled => return Ok(Some(Asked::Settled(last.max(Some(before))))),
                    Put::Left => return Ok(None),
                },
                Err(decision) => decision,
            };
            let decided = self.decide(run, waiting, decision).await;
            last = last.max(decided.map_err(Stopped::Failed)?);
        }
        Ok(Some(Asked::Settled(last)))
    }

    /// Puts one question to the person, for as long as it is open.
    async fn put(
        &self,
        waiting: &WaitingApproval,
        form: ElicitRequestParams,
    ) -> Result<Put, Stopped> {
        if self.server.asked_until().is_cancelled() {
            return Ok(Put::Left);
        }
        let options = match waiting.request.expires_at {
            Some(at) => PeerRequestOptions::with_timeout(left_until(at)),
            None => PeerRequestOptions::no_options(),
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let asked = self.peer.send_request_with_option(request, options).await;
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => return unanswered(&error).map(Put::Answered),
        };
        let id = asked.id.clone();
        let answered = tokio::select! {
            answered = asked.await_response() => answered,
            () = self.given_up.cancelled() => {
                self.withdraw(id, "the call is cancelled").await;
                return Err(Stopped::GivenUp);
            }
            () = self.settled(waiting) => {
                self.withdraw(id, "it was decided elsewhere").await;
                return Ok(Put::Settled);
            }
            () = self.server.asked_until().cancelled() => {
                let why = "its engine was replaced, or the server stops";
                self.withdraw(id, why).await;
                return Ok(Put::Left);
            }
            never = self.ping() => match never {},
        };
        let decision = match answered {
            Ok(ClientResult::ElicitResult(answer)) => question::decision(&answer),
            Ok(_) => question::denied("the client's answer cannot be read".to_owned()),
            Err(error) => unanswered(&error)?,
        };
        Ok(Put::Answered(decision))
    }

    /// Asks the client now and then whether it is there, until it does not say so. Over HTTP its session is forgotten without a
    /// message, and the call with it.
    async fn ping(&self) -> Infallible {
        loop {
            sleep(PING_EVERY).await;
            let ping = ServerRequest::PingRequest(PingRequest::default());
            let options = PeerRequestOptions::with_timeout(PING_TIMEOUT);
            let answered = match self.peer.send_request_with_option(ping, options).await {
                Ok(asked) => asked.await_response().await,
                Err(error) => Err(error),
            };
            // Who knows no such request is there as well.
            if !matches!(answered, Ok(_) | Err(ServiceError::McpError(_))) {
                return pending().await;
            }
        }
    }

    /// Tells the client that a question is not asked any more. Over HTTP on the stream of what belongs to no call, which a client
    /// need not have: unlike a request, a notification cannot be bound to one.
    async fn withdraw(&self, question: RequestId, why: &str) {
        let withdrawn = CancelledNotificationParam::new(Some(question), Some(why.to_owned()));
        // Who does not hear of it answers a question that nobody asks any more.
        let _ = self.peer.notify_cancelled(withdrawn).await;
    }

    /// Waits until a question is open no more: somebody else decided, its time is over, or its run is.
    async fn settled(&self, waiting: &WaitingApproval) {
        loop {
            match self.is_open(waiting).await {
                Ok(true) => {}
                Err(error) if error.is_retryable() => {}
                // Whoever follows the run says what is wrong with it.
                Ok(false) | Err(_) => return,
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Tells whether a question has no answer yet.
    async fn is_open(&self, waiting: &WaitingApproval) -> Result<bool, StoreError> {
        let sessions = self.server.orchestrator.sessions();
        let run = sessions.run(waiting.run_id).await?;
        if run.ended_at.is_some() {
            return Ok(false);
        }
        let asked = waiting.request.effect_id;
        if run.pending.iter().any(|it| it.effect_id == asked) {
            return Ok(true);
        }
        // A run that goes on with another decision is not said to wait, and its questions stay open all the same.
        let records = sessions.records(waiting.run_id).await?;
        let view = RunView::of(&records);
        let mut open = view.open_approvals();
        Ok(open.any(|it| it.request.effect_id == asked))
    }
}

/// Says what it means that a client gives no answer.
fn unanswered(error: &ServiceError) -> Result<ApprovalDecision, Stopped> {
    match error {
        ServiceError::TransportClosed => Err(Stopped::GivenUp),
        error => {
            let why = words(&error.to_string());
            Ok(question::denied(format!(
                "the client did not ask the person: {why}"
            )))
        }
    }
}

fn left_until(at: Timestamp) -> Duration {
    let left = at.duration_since(SystemClock.now());
    Duration::try_from(left).unwrap_or_default() + AFTER_EXPIRY
}
