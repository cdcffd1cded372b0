//! What one route does: what it takes, what it answers, and what may go wrong.

use std::fmt;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde_json::Value;

use super::schemas::Schemas;
use crate::problem::{
    BODY_TIMEOUT, BODY_TOO_LARGE, ENCODED_BODY, FOREIGN_HOST, FOREIGN_ORIGIN, INTERNAL,
    INVALID_BODY, INVALID_FIELD, INVALID_HOST, INVALID_JSON, KEY_NEEDED, Kind, NO_DECISIONS,
    NOT_JSON, SCOPE_NEEDED, STORE_FAILED, STORE_UNAVAILABLE, TOKEN_NEEDED, TOO_MANY_REQUESTS,
    UNKNOWN_FIELD,
};

/// Kinds of problems that a route can answer with.
pub(crate) type Problems = &'static [&'static Kind];

/// What any request may be refused for.
const OF_ALL: Problems = &[&INVALID_HOST, &FOREIGN_HOST, &FOREIGN_ORIGIN, &INTERNAL];

/// What a request may be refused for where it needs a key.
const OF_KEYS: Problems = &[&KEY_NEEDED, &SCOPE_NEEDED, &TOO_MANY_REQUESTS];

/// What may be wrong with a body.
const OF_BODIES: Problems = &[
    &INVALID_BODY,
    &INVALID_JSON,
    &UNKNOWN_FIELD,
    &INVALID_FIELD,
    &BODY_TIMEOUT,
    &BODY_TOO_LARGE,
    &NOT_JSON,
    &ENCODED_BODY,
];

/// What may keep the store from answering.
const OF_THE_STORE: Problems = &[&STORE_FAILED, &STORE_UNAVAILABLE];

/// What may be wrong with who decides.
const OF_DECISIONS: Problems = &[&TOKEN_NEEDED, &NO_DECISIONS];

/// Parameters of an operation, and where in an answer they are.
pub(crate) type Pointers = &'static [(&'static str, &'static str)];

/// Writes a schema down, with all that it names.
pub(super) type SchemaOf = fn(&mut Schemas) -> Value;

/// What an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Sessions,
    Runs,
    Approvals,
    /// What there is to be used.
    Introspection,
    /// What clients of other people's protocols ask.
    Protocols,
    /// The server itself.
    Server,
}

impl Tag {
    /// Each, with what it is about.
    pub(super) const ALL: [(Self, &'static str); 6] = [
        (Self::Sessions, "Conversations, and the turns in them."),
        (
            Self::Runs,
            "One user message handled end to end each: what it came to, its events, and what reaches it at work.",
        ),
        (
            Self::Approvals,
            "Calls that wait for a person, what the person decides, and what tools ask.",
        ),
        (
            Self::Introspection,
            "What there is to be used, and what the policy makes of a request. Nothing here calls a model or a tool.",
        ),
        (
            Self::Protocols,
            "OpenAI's API, AG-UI and the Model Context Protocol, for clients that were written for them. Their own documents \
             say what each field means; fields that are not described here are left alone.",
        ),
        (Self::Server, "The server itself."),
    ];
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a route does.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(super) id: &'static str,
    pub(super) tag: Tag,
    pub(super) summary: &'static str,
    pub(super) description: Option<&'static str>,
    pub(super) parameters: Vec<Parameter>,
    /// The fields of a type, each of which is a parameter.
    pub(super) query: Option<SchemaOf>,
    pub(super) body: Option<Taken>,
    pub(super) answer: Answer,
    pub(super) problems: Vec<&'static Kind>,
    /// In which form problems are answered.
    pub(super) form: ProblemForm,
    /// What else it can be answered with in words that are somebody else's: statuses, such as `202` or `4XX`, with what they
    /// mean.
    pub(super) others: Vec<(&'static str, &'static str)>,
    pub(super) is_decision: bool,
}

/// The form of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProblemForm {
    /// Documents of RFC 9457.
    Document,
    /// As OpenAI's clients expect them.
    OpenAi,
    /// Documents of RFC 9457 where the server refuses a request, and somebody else's words where their protocol does.
    Either,
}

/// Something that a request says beside its body and its query.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) place: &'static str,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) schema: SchemaOf,
}

/// The body of a request.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) is_required: bool,
    pub(super) schema: SchemaOf,
    /// As JSON text.
    pub(super) example: &'static str,
}

/// What a request that went well is answered with.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) description: &'static str,
    /// By media type.
    pub(super) content: Vec<(&'static str, SchemaOf)>,
    /// As it was really sent: JSON text.
    pub(super) example: Option<&'static str>,
    /// Headers: name, description, schema.
    pub(super) headers: Vec<(&'static str, &'static str, SchemaOf)>,
    /// What can be done next: an operation, and its parameters with where in this answer they are.
    pub(super) links: Vec<(&'static str, Pointers)>,
}

/// Describes a route. `id` never changes: clients are generated by it.
pub(crate) fn operation(id: &'static str, tag: Tag, summary: &'static str) -> Operation {
    Operation {
        id,
        tag,
        summary,
        description: None,
        parameters: Vec::new(),
        query: None,
        body: None,
        answer: Answer {
            status: StatusCode::NO_CONTENT,
            description: "Done.",
            content: Vec::new(),
            example: None,
            headers: Vec::new(),
            links: Vec::new(),
        },
        problems: [OF_ALL, OF_KEYS].concat(),
        form: ProblemForm::Document,
        others: Vec::new(),
        is_decision: false,
    }
}

impl Operation {
    /// Says more than the summary does.
    pub(crate) const fn description(mut self, text: &'static str) -> Self {
        self.description = Some(text);
        self
    }

    /// Takes a part of the path.
    pub(crate) fn path<T: JsonSchema>(self, name: &'static str, description: &'static str) -> Self {
        self.parameter::<T>("path", name, description)
    }

    /// Takes a header, if it is sent.
    pub(crate) fn header<T: JsonSchema>(
        self,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        self.parameter::<T>("header", name, description)
    }

    fn parameter<T: JsonSchema>(
        mut self,
        place: &'static str,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        self.parameters.push(Parameter {
            place,
            name,
            description,
            schema: Schemas::taken::<T>,
        });
        self
    }

    /// Takes the fields of a type behind the `?` of the address.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(Schemas::fields::<T>);
        self.problems(&[&crate::problem::INVALID_QUERY])
    }

    /// Needs a body, such as this one.
    pub(crate) fn body<T: JsonSchema>(mut self, example: &'static str) -> Self {
        self.body = Some(Taken {
            is_required: true,
            schema: Schemas::taken::<T>,
            example,
        });
        self.problems(OF_BODIES)
    }

    /// Takes a body, such as this one, or none.
    pub(crate) fn body_if_any<T: JsonSchema>(self, example: &'static str) -> Self {
        let mut operation = self.body::<T>(example);
        if let Some(body) = &mut operation.body {
            body.is_required = false;
        }
        operation
    }

    /// Answers with 200 and JSON.
    pub(crate) fn answers<T: JsonSchema>(self, description: &'static str) -> Self {
        self.content("application/json", Schemas::sent::<T>, description)
    }

    /// Answers, or can answer instead of JSON, with the events of a run.
    pub(crate) fn answers_events(self, description: &'static str) -> Self {
        self.content("text/event-stream", Schemas::events, description)
    }

    /// Answers with 200 and text of this type.
    pub(crate) fn answers_text(self, media_type: &'static str, description: &'static str) -> Self {
        self.content(media_type, Schemas::text, description)
    }

    /// Answers, or can answer instead of JSON, with events of somebody else's protocol.
    pub(crate) fn answers_their_events(self, description: &'static str) -> Self {
        self.content("text/event-stream", Schemas::their_events, description)
    }

    fn content(
        mut self,
        media_type: &'static str,
        schema: SchemaOf,
        description: &'static str,
    ) -> Self {
        self.answer.status = StatusCode::OK;
        self.answer.description = description;
        self.answer.content.push((media_type, schema));
        self
    }

    /// Can be answered with a status whose content the protocol itself describes.
    pub(crate) fn or(mut self, status: &'static str, description: &'static str) -> Self {
        self.others.push((status, description));
        self
    }

    /// Tells problems as OpenAI's clients expect them.
    pub(crate) const fn in_openais_form(mut self) -> Self {
        self.form = ProblemForm::OpenAi;
        self
    }

    /// Tells problems as documents, or in the words of somebody else's protocol.
    pub(crate) const fn in_either_form(mut self) -> Self {
        self.form = ProblemForm::Either;
        self
    }

    /// Answers with another status than 200.
    pub(crate) const fn status(mut self, status: StatusCode) -> Self {
        self.answer.status = status;
        self
    }

    /// Shows an answer as it was really sent.
    pub(crate) const fn example(mut self, json: &'static str) -> Self {
        self.answer.example = Some(json);
        self
    }

    /// Sends a header with the answer.
    pub(crate) fn sends<T: JsonSchema>(
        mut self,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        let schema: SchemaOf = Schemas::sent::<T>;
        self.answer.headers.push((name, description, schema));
        self
    }

    /// Names what can be done with the answer.
    pub(crate) fn leads_to(mut self, operation: &'static str, parameters: Pointers) -> Self {
        self.answer.links.push((operation, parameters));
        self
    }

    /// Can answer with these problems.
    pub(crate) fn problems(mut self, problems: Problems) -> Self {
        self.problems.extend(problems);
        self
    }

    /// Answers anybody, also where there are keys.
    pub(crate) fn needs_no_key(mut self) -> Self {
        self.problems
            .retain(|kind| OF_KEYS.iter().all(|of_keys| of_keys.name != kind.name));
        self
    }

    /// Reads or writes the store.
    pub(crate) fn stores(self) -> Self {
        self.problems(OF_THE_STORE)
    }

    /// Is for who shows the token of decisions.
    pub(crate) fn decides(mut self) -> Self {
        self.is_decision = true;
        self.problems(OF_DECISIONS)
    }
}
