//! The user at a client, whom a tool can ask in the middle of a call: a question from an MCP server connected here is
//! forwarded to the client.
//!
//! Clients of the `initialize` era are asked by a request from the server, as they are for approvals. Clients of
//! 2026-07-28 are asked in the result of their call, while the tool waits for the next one; `ask.rs` does that.

use neuraxis_core::{AskApproval, JsonText};
use neuraxis_engine::DecideLater;
use neuraxis_ports::{
    Approver, ApproverReply, CancellationToken, Field, FieldChoice, FieldKind, Question,
    QuestionReply, Required, TurnContext, async_trait,
};
use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, GetExtensions as _, RequestId, ServerRequest,
};
use rmcp::service::{OriginatingRequestId, PeerRequestOptions};
use rmcp::{Peer, RoleServer, ServiceError};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::QUESTION_TIMEOUT;
use crate::shown::{one_line, quoted_lines};

/// How many times a question is put; if the last answer does not fit either, the question is declined.
const ATTEMPTS: usize = 2;

/// The user at the client of a call, while the call is in progress.
#[derive(Debug)]
pub(super) struct ClientApprover {
    pub(super) peer: Peer<RoleServer>,
    /// The client's id for its request.
    pub(super) call: RequestId,
    /// Cancelled when the call no longer waits.
    pub(super) call_ended: CancellationToken,
    /// Cancelled when clients must not be asked any more.
    pub(super) asking_ended: CancellationToken,
}

#[async_trait]
impl Approver for ClientApprover {
    async fn decide(&self, ask: &AskApproval, turn: &TurnContext) -> ApproverReply {
        // This suspends the run, and the client is asked then.
        DecideLater.decide(ask, turn).await
    }

    async fn answer(&self, question: &Question) -> QuestionReply {
        let is_unreachable = self.call_ended.is_cancelled() || self.asking_ended.is_cancelled();
        let Some(form) = form(question).filter(|_| !is_unreachable) else {
            return QuestionReply::Declined;
        };
        let deadline = Instant::now() + QUESTION_TIMEOUT;
        for _ in 0..ATTEMPTS {
            let reply = self.ask(form.clone(), deadline).await;
            let fits = match &reply {
                QuestionReply::Answered(answer) => question.check(answer).is_ok(),
                _ => true,
            };
            if fits {
                return reply;
            }
        }
        QuestionReply::Declined
    }
}

impl ClientApprover {
    /// Puts a question to the user once, and waits for the answer until the given time.
    async fn ask(&self, form: ElicitRequestParams, deadline: Instant) -> QuestionReply {
        let mut request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        // The protocol library associates the two automatically only within the task of a call, and this is the run's
        // task. Over HTTP, a message that belongs to no call goes to a stream that a client may not have open.
        let call = OriginatingRequestId(self.call.clone());
        request.extensions_mut().insert(call);
        let options = PeerRequestOptions::with_timeout(deadline.duration_since(Instant::now()));
        let peer = self.peer.clone();
        // In a separate task: when an MCP server asks, the current task belongs to that server's request, which the
        // protocol library would use instead of the call.
        let sending = async move { peer.send_request_with_option(request, options).await };
        let sending = AbortOnDropHandle::new(tokio::spawn(sending));
        let Ok(Ok(handle)) = sending.await else {
            return QuestionReply::Declined;
        };
        let withdrawal = WithdrawOnDrop(Some((self.peer.clone(), handle.id.clone())));
        tokio::select! {
            answered = handle.await_response() => {
                withdrawal.disarm();
                match answered {
                    Ok(ClientResult::ElicitResult(answer)) => reply(answer),
                    Err(ServiceError::Timeout { .. }) => QuestionReply::Cancelled,
                    _ => QuestionReply::Declined,
                }
            }
            () = self.call_ended.cancelled() => QuestionReply::Cancelled,
            () = self.asking_ended.cancelled() => QuestionReply::Cancelled,
        }
    }
}

/// Tells the client on drop that a question has been withdrawn; over HTTP, on the stream for messages that belong to no
/// call.
struct WithdrawOnDrop(Option<(Peer<RoleServer>, RequestId)>);

impl WithdrawOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        // Outside a runtime, no client is connected.
        let (Some((peer, id)), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            let reason = Some("the answer is no longer needed".to_owned());
            let withdrawn = CancelledNotificationParam::new(Some(id), reason);
            // A client that does not receive it sends an answer that is no longer expected.
            let _ = peer.notify_cancelled(withdrawn).await;
        });
    }
}

/// Parses an answer that arrived as arbitrary JSON.
pub(super) fn reply_in(answer: Value) -> QuestionReply {
    serde_json::from_value(answer).map_or(QuestionReply::Declined, reply)
}

fn reply(answer: ElicitResult) -> QuestionReply {
    match answer.action {
        ElicitationAction::Accept => {
            let content = answer.content.unwrap_or_else(|| json!({}));
            let is_form = content.is_object();
            let text = is_form.then(|| JsonText::encode(&content).ok()).flatten();
            text.map_or(QuestionReply::Declined, QuestionReply::Answered)
        }
        ElicitationAction::Cancel => QuestionReply::Cancelled,
        _ => QuestionReply::Declined,
    }
}

/// Returns a question as a form, or `None` if a client could not show it as one.
pub(super) fn form(question: &Question) -> Option<ElicitRequestParams> {
    let message = format!(
        "{} asks you this during a tool call by a Neuraxis agent:\n\n{}\n\nYour answer goes to it.",
        one_line(&question.from),
        quoted_lines(&question.message),
    );
    let fields = question.fields.iter();
    let properties: Map<String, Value> = fields
        .clone()
        .map(|field| (field.name.clone(), schema_of(field)))
        .collect();
    let required = fields.filter(|field| field.required == Required::Yes);
    let required: Vec<&str> = required.map(|field| field.name.as_str()).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let Value::Object(schema) = schema else {
        return None;
    };
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: ElicitationSchema::from_json_schema(schema).ok()?,
    })
}

fn schema_of(field: &Field) -> Value {
    let choices = |choices: &[FieldChoice]| -> Vec<Value> {
        let choices = choices.iter();
        choices
            .map(|it| json!({"const": it.value, "title": one_line(&it.title)}))
            .collect()
    };
    let mut schema = match &field.kind {
        FieldKind::Text { min, max, format } => {
            // Forms support no other formats, and one with another format would be invalid.
            let formats = ["email", "uri", "date", "date-time"];
            let format = format.as_deref().filter(|it| formats.contains(it));
            json!({"type": "string", "minLength": min, "maxLength": max, "format": format})
        }
        FieldKind::Integer { min, max } => {
            json!({"type": "integer", "minimum": min, "maximum": max})
        }
        FieldKind::Number { min, max } => {
            json!({"type": "number", "minimum": min, "maximum": max})
        }
        FieldKind::OneOf { choices: values } => {
            json!({"type": "string", "oneOf": choices(values)})
        }
        FieldKind::AnyOf { choices: values } => {
            json!({"type": "array", "items": {"anyOf": choices(values)}})
        }
        // A kind added in the future can at least be answered with yes or no.
        _ => json!({"type": "boolean"}),
    };
    if let Some(members) = schema.as_object_mut() {
        let mut add = |name: &str, value: Option<Value>| {
            members.extend(value.map(|value| (name.to_owned(), value)));
        };
        add(
            "title",
            field.title.as_deref().map(|it| one_line(it).into()),
        );
        let description = field.description.as_deref();
        add("description", description.map(|it| one_line(it).into()));
        let default = field.default.as_ref();
        add("default", default.and_then(|it| it.decode().ok()));
        members.retain(|_, value| !value.is_null());
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_kind_becomes_a_form_property() {
        let choice = |value: &str| FieldChoice {
            value: value.to_owned(),
            title: value.to_uppercase(),
        };
        let kinds = [
            FieldKind::Text {
                min: None,
                max: Some(20),
                format: Some("email".to_owned()),
            },
            FieldKind::Integer {
                min: Some(1),
                max: None,
            },
            FieldKind::Number {
                min: None,
                max: Some(0.5),
            },
            FieldKind::Boolean,
            FieldKind::OneOf {
                choices: vec![choice("s"), choice("l")],
            },
            FieldKind::AnyOf {
                choices: vec![choice("r")],
            },
        ];
        let mut question = Question::new("shop", "Which\n\u{202e}one?");
        for (number, kind) in kinds.into_iter().enumerate() {
            let mut field = Field::new(format!("f{number}"), kind);
            field.title = Some("Title".to_owned());
            field.required = Required::Yes;
            question = question.field(field);
        }
        let Some(ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        }) = form(&question)
        else {
            panic!("it is a form")
        };
        assert!(message.starts_with("shop asks you"), "{message}");
        assert!(!message.contains('\u{202e}'), "{message}");
        let schema = serde_json::to_value(&requested_schema).unwrap();
        assert_eq!(schema["required"].as_array().unwrap().len(), 6);
        let properties = &schema["properties"];
        assert_eq!(properties["f0"]["format"], "email");
        assert_eq!(properties["f1"]["minimum"], 1);
        assert_eq!(properties["f3"]["type"], "boolean");
        assert!(
            properties["f4"].to_string().contains("\"l\""),
            "{properties}"
        );
        assert_eq!(properties["f5"]["type"], "array");
    }

    #[test]
    fn a_long_question_is_shown_in_full() {
        let question = Question::new("shop", format!("Which one?\n{}Or none?", "x ".repeat(900)));
        let form = form(&question);
        let Some(ElicitRequestParams::FormElicitationParams { message, .. }) = form else {
            panic!("it is a form")
        };
        assert!(
            message.contains("x Or none?\n\nYour answer goes to it."),
            "{message}"
        );
    }

    #[test]
    fn a_field_with_a_format_that_forms_lack_still_makes_a_form() {
        let time = FieldKind::Text {
            min: None,
            max: None,
            format: Some("time".to_owned()),
        };
        let question = Question::new("shop", "When?").field(Field::new("at", time));
        assert!(form(&question).is_some());
    }
}
