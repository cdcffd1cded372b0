//! The person at a client, as a tool in the middle of a call can ask: a question of an MCP server here goes on to the client.
//!
//! Clients of the era of `initialize` are asked by a request of ours, as they are about calls that need approval. One of
//! 2026-07-28 is asked by the result of its call, while the tool waits for the next one: that is in `ask.rs`.

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

use super::QUESTION;
use crate::shown::{quoted_lines, words};

/// How often a question is put before an answer that does not fit it declines it.
const ATTEMPTS: usize = 2;

/// The person at the client of a call, for as long as the call is under way.
#[derive(Debug)]
pub(super) struct PersonAtClient {
    pub(super) peer: Peer<RoleServer>,
    /// What the client calls its request.
    pub(super) call: RequestId,
    /// Cancelled when nobody waits for the call any more.
    pub(super) over: CancellationToken,
    /// Cancelled when nobody is asked any more.
    pub(super) until: CancellationToken,
}

#[async_trait]
impl Approver for PersonAtClient {
    async fn decide(&self, ask: &AskApproval, turn: &TurnContext) -> ApproverReply {
        // The run is put aside with it, and the client is asked then.
        DecideLater.decide(ask, turn).await
    }

    async fn answer(&self, question: &Question) -> QuestionReply {
        let is_nobody_there = self.over.is_cancelled() || self.until.is_cancelled();
        let Some(form) = form(question).filter(|_| !is_nobody_there) else {
            return QuestionReply::Declined;
        };
        let until = Instant::now() + QUESTION;
        for _ in 0..ATTEMPTS {
            let reply = self.put(form.clone(), until).await;
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

impl PersonAtClient {
    /// Puts a question to the person once, and waits for the answer until then.
    async fn put(&self, form: ElicitRequestParams, until: Instant) -> QuestionReply {
        let mut request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        // The protocol knows by itself only in the task of a call, and this is the run's. Over HTTP what belongs to no call goes
        // to a stream that a client need not have.
        let call = OriginatingRequestId(self.call.clone());
        request.extensions_mut().insert(call);
        let options = PeerRequestOptions::with_timeout(until.duration_since(Instant::now()));
        let peer = self.peer.clone();
        // In a task of its own: where an MCP server asks, this is the one of its request, which the protocol would put in the
        // place of the call.
        let sending = async move { peer.send_request_with_option(request, options).await };
        let sending = AbortOnDropHandle::new(tokio::spawn(sending));
        let Ok(Ok(asked)) = sending.await else {
            return QuestionReply::Declined;
        };
        let withdrawal = WithdrawOnDrop(Some((self.peer.clone(), asked.id.clone())));
        tokio::select! {
            answered = asked.await_response() => {
                withdrawal.disarm();
                match answered {
                    Ok(ClientResult::ElicitResult(answer)) => reply(answer),
                    Err(ServiceError::Timeout { .. }) => QuestionReply::Cancelled,
                    _ => QuestionReply::Declined,
                }
            }
            () = self.over.cancelled() => QuestionReply::Cancelled,
            () = self.until.cancelled() => QuestionReply::Cancelled,
        }
    }
}

/// Tells the client that a question is not asked any more; over HTTP on the stream of what belongs to no call.
struct WithdrawOnDrop(Option<(Peer<RoleServer>, RequestId)>);

impl WithdrawOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        // Outside of a runtime there is no client any more.
        let (Some((peer, id)), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            let reason = Some("nobody waits for the answer any more".to_owned());
            let withdrawn = CancelledNotificationParam::new(Some(id), reason);
            // Who does not hear of it answers a question that nobody asks any more.
            let _ = peer.notify_cancelled(withdrawn).await;
        });
    }
}

/// Reads an answer that came as any JSON.
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

/// Writes a question as a form; none if it has no form that a client could show.
pub(super) fn form(question: &Question) -> Option<ElicitRequestParams> {
    let message = format!(
        "{} asks you, in the middle of a tool call of an agent of Neuraxis:\n\n{}\n\nWhat you answer goes to it.",
        words(&question.from),
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
            .map(|it| json!({"const": it.value, "title": words(&it.title)}))
            .collect()
    };
    let mut schema = match &field.kind {
        FieldKind::Text { min, max, format } => {
            // A form has no others, and would be none with one.
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
        // A kind that is added one day can be answered by yes or no at least.
        _ => json!({"type": "boolean"}),
    };
    if let Some(members) = schema.as_object_mut() {
        let mut add = |name: &str, value: Option<Value>| {
            members.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("title", field.title.as_deref().map(|it| words(it).into()));
        let description = field.description.as_deref();
        add("description", description.map(|it| words(it).into()));
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
    fn every_kind_of_field_becomes_a_part_of_a_form() {
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
    fn a_long_question_is_put_whole() {
        let question = Question::new("shop", format!("Which one?\n{}Or none?", "x ".repeat(900)));
        let form = form(&question);
        let Some(ElicitRequestParams::FormElicitationParams { message, .. }) = form else {
            panic!("it is a form")
        };
        assert!(
            message.contains("x Or none?\n\nWhat you answer"),
            "{message}"
        );
    }

    #[test]
    fn a_format_that_no_form_has_is_left_to_whoever_asks() {
        let time = FieldKind::Text {
            min: None,
            max: None,
            format: Some("time".to_owned()),
        };
        let question = Question::new("shop", "When?").field(Field::new("at", time));
        assert!(form(&question).is_some());
    }
}
