//! `/api/v1/approvals`: the calls that wait for a user's decision, and the decisions.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use neuraxis::core::{ApprovalDecision, ApprovalRequested, JsonText, RunId};
use neuraxis::engine::{DecideError, Decided, WaitingApproval};
use neuraxis::ports::{RequestContext, RunFilter, RunSummary};
use neuraxis::{Orchestrator, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::call_of;
use super::repeats::Settled;
use super::runs::check_unended;
use super::sessions::page_size;
use crate::access::detached;
use crate::body;
use crate::caller::Caller;
use crate::limits::ServerState;
use crate::problem::{NOT_ASKED, OTHER_QUESTION, Problem, QUESTION_ALTERED};
use crate::query::Parameters;
use crate::request_body::{self, RequestBody};

/// The questions to return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalsQuery {
    /// Only questions of this session.
    session: Option<SessionId>,
    /// Only questions of this owner.
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    owner: Option<String>,
    /// The maximum number of runs whose questions are returned; 50 by default.
    #[schemars(range(min = 1, max = RunFilter::MAX_LIMIT - 1))]
    limit: Option<usize>,
    /// Only questions of runs after this one, the last of the previous page.
    after: Option<RunId>,
}

/// A page of open questions, those of the oldest run first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Approvals")]
pub(crate) struct ApprovalsPage {
    /// The questions.
    approvals: Vec<NamedQuestion>,
    /// The value of `after` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<RunId>,
}

/// A question with its name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Approval")]
struct NamedQuestion {
    /// The name that a decision must give to decide exactly this question.
    question: String,
    #[serde(flatten)]
    waiting: WaitingApproval,
}

/// `GET /api/v1/approvals`
pub(crate) async fn list(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    Parameters(query): Parameters<ApprovalsQuery>,
) -> Result<Json<ApprovalsPage>, Problem> {
    let most = page_size(query.limit, RunFilter::MAX_LIMIT)?;
    let seen = RequestContext::default().owned_by(caller.list_owner_for(query.owner)?);
    let approvals = orchestrator.approvals().with_context(seen);
    let mut found = match &query.session {
        // At most one of its runs waits.
        Some(session) => approvals.find_in(session).await?,
        None => approvals.page(query.after, most).await?,
    };
    let is_later = |run: RunId| query.after.is_none_or(|after| run > after);
    found.waiting.retain(|waiting| is_later(waiting.run_id));
    // An expired question cannot be answered, even if its run has not noticed yet.
    let open = found
        .waiting
        .into_iter()
        .filter(|waiting| approvals.expired(waiting).is_none());
    let questions = open.map(|waiting| NamedQuestion {
        question: waiting.question(),
        waiting,
    });
    Ok(Json(ApprovalsPage {
        approvals: questions.collect(),
        next: found.next,
    }))
}

/// The body of a decision about a call.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "DecisionOfPerson")]
#[serde(
    deny_unknown_fields,
    expecting = "an object with the fields decision and question"
)]
pub(crate) struct DecisionBody {
    /// Whether the call may run.
    decision: Verb,
    /// Why the call may not run, for the model.
    reason: Option<String>,
    /// Different arguments to run the call with.
    #[schemars(with = "Option<Value>")]
    arguments: Option<Box<RawValue>>,
    /// The name of the question that is answered, as given by `/api/v1/approvals` and the `pending` of a turn. The
    /// decision applies to no other question.
    question: String,
    /// The index of the offered choice to remember, starting at 0.
    #[serde(default, deserialize_with = "request_body::whole_number_if_any")]
    #[schemars(range(max = request_body::MAX_WHOLE_NUMBER))]
    remember: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verb {
    /// The call runs.
    Approve,
    /// The call does not run, and the model is told the reason.
    Deny,
}

impl RequestBody for DecisionBody {
    const FIELDS: &'static [&'static str] =
        &["decision", "question", "reason", "arguments", "remember"];
}

/// The question that was decided. The decision is stored.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Decided")]
pub(crate) struct DecisionAccepted {
    /// The run, which resumes.
    run_id: RunId,
    /// The name of the question that was answered.
    question: String,
}

/// `POST /api/v1/runs/{id}/approvals/{call_id}`
pub(crate) async fn decide(
    State(state): State<ServerState>,
    caller: Caller,
    ids: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<DecisionAccepted>), Problem> {
    caller.check_may_decide(&state)?;
    let orchestrator = state.orchestrator().clone();
    let (run, call) = call_of(ids)?;
    let body: DecisionBody = request_body::parse(&body::json(&headers, body).await?)?;
    let summary = caller.run(&orchestrator, run).await?;
    let open = match summary.ended_at {
        Some(_) => Vec::new(),
        None => orchestrator.approvals().of_run(&summary).await?,
    };
    let is_it = |waiting: &WaitingApproval| waiting.request.tool_call_id == call;
    let Some(waiting) = open.into_iter().find(is_it) else {
        let records = orchestrator.sessions().records(run).await?;
        let question = body.decided_before(&summary, Settled::of(&records, &call))?;
        return Ok(accepted(run, question));
    };
    let question = waiting.question();
    if body.question != question {
        let detail = "this is not the question that the call waits with (it may have changed); review the call, then \
                      decide with its current question";
        return Err(Problem::new(&OTHER_QUESTION, detail).with("question", question));
    }
    if waiting.altered.is_some() && body.decision == Verb::Approve {
        let detail = "the stored question is not the one that was asked, so it cannot be approved";
        return Err(Problem::new(&QUESTION_ALTERED, detail));
    }
    let decision = body.decision(&waiting.request)?;
    let by = caller.name();
    let context = caller.resume_context(&state, &summary.session).await?;
    // If the client disconnects halfway, the run must not be left without a driver.
    let decided = detached(async move {
        let approvals = orchestrator.approvals().with_context(context);
        let in_time = approvals.check_time(&waiting).await;
        in_time.map_err(DecideError::Resume)?;
        approvals.decide_and_resume(&waiting, decision, by).await
    });
    let (Decided::Continues(_) | Decided::LeftToHolder) = decided.await??;
    Ok(accepted(run, question))
}

fn accepted(run_id: RunId, question: String) -> (StatusCode, Json<DecisionAccepted>) {
    (
        StatusCode::ACCEPTED,
        Json(DecisionAccepted { run_id, question }),
    )
}

impl DecisionBody {
    /// Accepts a decision about a call that does not wait if it is the one that was made before: it changes nothing,
    /// so its sender is told the same. Refuses any other, with the earlier one. Returns the name of the question.
    fn decided_before(
        self,
        run: &RunSummary,
        settled: Option<Settled<'_>>,
    ) -> Result<String, Problem> {
        let earlier = settled.map(Settled::name);
        if let Some(Settled { request, decision }) = settled {
            let question = request.question(run.run_id);
            if self.question == question && self.decision(request)? == *decision {
                return Ok(question);
            }
        }
        let problem = match check_unended(run) {
            Err(ended) => ended,
            Ok(()) => {
                let detail = "this run has no such call waiting for a decision";
                Problem::new(&NOT_ASKED, detail)
            }
        };
        Err(match earlier {
            Some(name) => problem
                .advising("the call was decided before, see decided")
                .with("decided", name),
            None => problem,
        })
    }

    fn decision(self, request: &ApprovalRequested) -> Result<ApprovalDecision, Problem> {
        if self.decision == Verb::Deny {
            if self.arguments.is_some() || self.remember.is_some() {
                let why = "arguments and remember cannot be combined with deny";
                return Err(Problem::invalid("decision", why));
            }
            return Ok(ApprovalDecision::Deny {
                reason: self.reason.filter(|reason| !reason.trim().is_empty()),
            });
        }
        if self.reason.is_some_and(|reason| !reason.trim().is_empty()) {
            let why = "a reason can only be given with deny; approvals do not record one";
            return Err(Problem::invalid("reason", why));
        }
        let choices = &request.choices;
        let remember = match self.remember {
            None => None,
            Some(_) if self.arguments.is_some() => {
                let why = "an approval with edited arguments cannot be remembered";
                return Err(Problem::invalid("remember", why));
            }
            Some(at) => Some(
                usize::try_from(at)
                    .ok()
                    .and_then(|at| choices.get(at))
                    .cloned()
                    .ok_or_else(|| {
                        let count = choices.len();
                        let why = match count {
                            0 => "the question offers no choices to remember".to_owned(),
                            1 => "expected 0, the index of the question's only choice".to_owned(),
                            _ => format!("expected the index, from 0, of one of the {count} choices of the question"),
                        };
                        Problem::invalid("remember", why)
                    })?,
            ),
        };
        let arguments = self.arguments.map(|text| JsonText::from_text(text.get()));
        Ok(ApprovalDecision::Approve {
            arguments,
            remember,
        })
    }
}
