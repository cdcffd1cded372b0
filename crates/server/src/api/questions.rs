//! `/api/v1/runs/{id}/questions`: what a run's tool asks in the middle of its call, and the user's answer.
//!
//! Such a question lives in the process that drives the run, and no longer than the call. Calls that wait for approval
//! are stored instead; see `approvals.rs`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use neuraxis::Orchestrator;
use neuraxis::core::{InvalidAnswer, JsonText, OpenQuestion, QuestionId, RunId, with_causes};
use neuraxis::engine::AnswerQuestionError;
use neuraxis::ports::{QuestionReply, RunSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::runs::unended_run;
use crate::body;
use crate::caller::Caller;
use crate::limits::ServerState;
use crate::problem::{AT_WORK_ELSEWHERE, INVALID_FIELD, NO_SUCH_QUESTION, Problem};
use crate::refusal::{RETRY_AFTER, internal, no_such_run};
use crate::request_body::{self, RequestBody};

/// A client's answer to a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(
    rename = "AnswerOfPerson",
    extend("anyOf" = [
        { "required": ["action"], "properties": { "action": { "const": "accept" } } },
        { "properties": { "content": { "type": "null" } } },
    ])
)]
#[serde(deny_unknown_fields, expecting = "an object with the field action")]
pub(crate) struct Answer {
    /// Whether the question is answered.
    action: Action,
    /// The question's fields that are filled in; none by default. Only with `accept`.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    content: Option<Box<RawValue>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "AnswerAction")]
#[serde(rename_all = "snake_case")]
enum Action {
    /// The tool receives `content`.
    Accept,
    /// The tool learns that the user does not want to answer.
    Decline,
    /// The tool learns that the user dismissed the question.
    Cancel,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl RequestBody for Answer {
    const FIELDS: &'static [&'static str] = &["action", "content"];
}

impl Answer {
    fn reply(self) -> Result<QuestionReply, Problem> {
        match (self.action, self.content) {
            (Action::Accept, content) => {
                let content = content.as_ref().map_or("{}", |content| content.get());
                Ok(QuestionReply::Answered(JsonText::from_text(content)))
            }
            (_, Some(_)) => {
                let why = "allowed only if action is accept";
                Err(Problem::invalid("content", why))
            }
            (Action::Decline, None) => Ok(QuestionReply::Declined),
            (Action::Cancel, None) => Ok(QuestionReply::Cancelled),
        }
    }
}

/// What was answered. The tool continues with the answer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AnsweredQuestion")]
pub(crate) struct Answered {
    /// The run.
    run_id: RunId,
    /// The question.
    question_id: QuestionId,
}

/// `POST /api/v1/runs/{id}/questions/{question_id}`
pub(crate) async fn answer(
    State(state): State<ServerState>,
    caller: Caller,
    ids: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Answered>), Problem> {
    caller.check_may_decide(&state)?;
    let orchestrator = state.orchestrator();
    let (run_id, question_id) = question_of(ids)?;
    let body: Answer = request_body::parse(&body::json(&headers, body).await?)?;
    let action = body.action.as_str();
    let reply = body.reply()?;
    let run = unended_run(orchestrator, &caller, run_id).await?;
    let answered = orchestrator
        .runs()
        .answer_question(run_id, &question_id, reply);
    answered.map_err(|error| not_taken(&error, &run))?;
    // Logged because no record holds it, and the answer may have been a user's consent. The content is for the tool
    // alone.
    let by = caller.name();
    tracing::info!(
        run = %run_id, question = question_id.as_str(), action, by,
        "a tool's question was answered"
    );
    let answered = Answered {
        run_id,
        question_id,
    };
    Ok((StatusCode::ACCEPTED, Json(answered)))
}

/// Returns what a run's tools ask, as far as this process knows.
pub(super) fn open(orchestrator: &Orchestrator, run: RunId) -> Vec<Arc<OpenQuestion>> {
    orchestrator.runs().questions(run).unwrap_or_default()
}

/// Parses the ids of a run and of one of its questions from the address.
fn question_of(
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<(RunId, QuestionId), Problem> {
    let Ok(Path((run, question))) = ids else {
        return Err(no_such_run());
    };
    let run = run.parse().map(RunId).map_err(|_| no_such_run())?;
    Ok((run, QuestionId::from_text(question)))
}

fn not_taken(error: &AnswerQuestionError, run: &RunSummary) -> Problem {
    let not_open = || {
        let detail = "this run has no such open question";
        Problem::new(&NO_SUCH_QUESTION, detail)
    };
    match error {
        AnswerQuestionError::NotOpen { .. } => not_open(),
        AnswerQuestionError::Invalid(fault) => unfit(fault),
        // If no process drives the run, no tool waits for an answer.
        AnswerQuestionError::NotHere(_) if run.leased_until.is_none() => not_open(),
        AnswerQuestionError::NotHere(_) => {
            let detail = "another server drives this run, or drove it until it died, and only that server knows the \
                          questions of its tools; if it died, the questions are gone, and the run is resumed soon";
            Problem::new(&AT_WORK_ELSEWHERE, detail)
                .with("run_id", run.run_id.to_string())
                .retry_after(RETRY_AFTER)
        }
        other => internal(&with_causes(other)),
    }
}

fn unfit(fault: &InvalidAnswer) -> Problem {
    let field = match fault.field() {
        Some(field) => format!("content.{field}"),
        None => "content".to_owned(),
    };
    Problem::new(&INVALID_FIELD, format!("content: {fault}")).with("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(json: &str) -> Result<QuestionReply, Problem> {
        request_body::parse::<Answer>(json.as_bytes()).and_then(Answer::reply)
    }

    #[test]
    fn only_an_answer_has_content() {
        let answered = |text: &str| QuestionReply::Answered(JsonText::from_text(text));
        for (json, expected) in [
            (
                r#"{"action":"accept","content":{"a":1.0}}"#,
                answered(r#"{"a":1.0}"#),
            ),
            (r#"{"action":"accept"}"#, answered("{}")),
            (r#"{"action":"accept","content":null}"#, answered("{}")),
            (r#"{"action":"decline"}"#, QuestionReply::Declined),
            (r#"{"action":"cancel"}"#, QuestionReply::Cancelled),
        ] {
            assert_eq!(reply(json).unwrap(), expected, "{json}");
        }
        for (json, field) in [
            (r#"{"action":"decline","content":{}}"#, "content"),
            (r#"{"action":"cancel","content":{}}"#, "content"),
            (r#"{"action":"approve"}"#, "action"),
        ] {
            let problem = format!("{:?}", reply(json).unwrap_err());
            assert!(problem.contains("invalid-field"), "{json}: {problem}");
            assert!(problem.contains(field), "{json}: {problem}");
        }
    }
}
