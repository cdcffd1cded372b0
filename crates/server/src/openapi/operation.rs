//! What one route does: what it accepts, what it answers, and what can go wrong.

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

/// The problems that any request can get.
const OF_ALL: Problems = &[&INVALID_HOST, &FOREIGN_HOST, &FOREIGN_ORIGIN, &INTERNAL];

/// The problems that a request can get because of its key.
const OF_KEYS: Problems = &[&KEY_NEEDED, &SCOPE_NEEDED, &TOO_MANY_REQUESTS];

/// The problems of request bodies.
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

/// The problems of a failing store.
const OF_THE_STORE: Problems = &[&STORE_FAILED, &STORE_UNAVAILABLE];

/// The problems of a caller that may not decide.
const OF_DECISIONS: Problems = &[&TOKEN_NEEDED, &NO_DECISIONS];

/// Parameters of an operation, and their locations in an answer.
pub(crate) type Pointers = &'static [(&'static str, &'static str)];

/// Returns a schema, after adding the schemas that it refers to.
pub(super) type SchemaOf = fn(&mut Schemas) -> Value;

/// The subject of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Sessions,
    Runs,
    Approvals,
    /// A listing of what the server offers.
    Introspection,
    /// Requests by clients of third-party protocols.
    Protocols,
    /// The server itself.
    Server,
}

impl Tag {
    /// Each tag with its description.
    pub(super) const ALL: [(Self, &'static str); 6] = [
        (Self::Sessions, "Conversations and their turns."),
        (
            Self::Runs,
            "The handling of one user message from start to end: its result, its events, and what can be sent to it \
             while it runs.",
        ),
        (
            Self::Approvals,
            "Calls that wait for approval, decisions about them, and questions that tools ask.",
        ),
        (
            Self::Introspection,
            "What is available, and what the policy decides about a request. These routes call no model and no tool.",
        ),
        (
            Self::Protocols,
            "OpenAI's API, AG-UI and the Model Context Protocol, for existing clients. See their own documentation \
             for the meaning of each field; fields not described here are ignored.",
        ),
        (Self::Server, "The server itself."),
    ];
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The description of a route.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(super) id: &'static str,
    pub(super) tag: Tag,
    pub(super) summary: &'static str,
    pub(super) description: Option<&'static str>,
    pub(super) parameters: Vec<Parameter>,
    /// A type whose fields are query parameters.
    pub(super) query: Option<SchemaOf>,
    pub(super) body: Option<RequestContent>,
    pub(super) answer: Answer,
    pub(super) problems: Vec<&'static Kind>,
    /// The form of problems.
    pub(super) form: ProblemForm,
    /// Further answers whose content another protocol defines: statuses, such as `202` or `4XX`, with their meaning.
    pub(super) others: Vec<(&'static str, &'static str)>,
    pub(super) is_decision: bool,
}

/// The form of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProblemForm {
    /// Documents of RFC 9457.
    Document,
    /// In the form that OpenAI's clients expect.
    OpenAi,
    /// Documents of RFC 9457 if the server refuses a request, and the protocol's own form if the protocol does.
    Either,
}

/// A parameter of a request apart from its body and its query.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) location: &'static str,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) schema: SchemaOf,
}

/// The body of a request.
#[derive(Debug)]
pub(super) struct RequestContent {
    pub(super) is_required: bool,
    pub(super) schema: SchemaOf,
    /// JSON text.
    pub(super) example: &'static str,
}

/// The answer to a successful request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) description: &'static str,
    /// By media type.
    pub(super) content: Vec<(&'static str, SchemaOf)>,
    /// JSON text of an actual answer.
    pub(super) example: Option<&'static str>,
    /// Headers: name, description, schema.
    pub(super) headers: Vec<(&'static str, &'static str, SchemaOf)>,
    /// Follow-up operations: each with its parameters and their locations in this answer.
    pub(super) links: Vec<(&'static str, Pointers)>,
}

/// Describes a route. `id` must never change: client generators derive names from it.
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
    /// Adds a description to the summary.
    pub(crate) const fn description(mut self, text: &'static str) -> Self {
        self.description = Some(text);
        self
    }

    /// Declares a path parameter.
    pub(crate) fn path<T: JsonSchema>(self, name: &'static str, description: &'static str) -> Self {
        self.parameter::<T>("path", name, description)
    }

    /// Declares an optional header.
    pub(crate) fn header<T: JsonSchema>(
        self,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        self.parameter::<T>("header", name, description)
    }

    fn parameter<T: JsonSchema>(
        mut self,
        location: &'static str,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        self.parameters.push(Parameter {
            location,
            name,
            description,
            schema: Schemas::of_request::<T>,
        });
        self
    }

    /// Declares the fields of a type as query parameters.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(Schemas::fields::<T>);
        self.problems(&[&crate::problem::INVALID_QUERY])
    }

    /// Declares a required body, with an example.
    pub(crate) fn body<T: JsonSchema>(mut self, example: &'static str) -> Self {
        self.body = Some(RequestContent {
            is_required: true,
            schema: Schemas::of_request::<T>,
            example,
        });
        self.problems(OF_BODIES)
    }

    /// Declares an optional body, with an example.
    pub(crate) fn body_if_any<T: JsonSchema>(self, example: &'static str) -> Self {
        let mut operation = self.body::<T>(example);
        if let Some(body) = &mut operation.body {
            body.is_required = false;
        }
        operation
    }

    /// Answers with 200 and JSON.
    pub(crate) fn answers<T: JsonSchema>(self, description: &'static str) -> Self {
        self.content("application/json", Schemas::of_response::<T>, description)
    }

    /// Answers with the events of a run, possibly as an alternative to JSON.
    pub(crate) fn answers_events(self, description: &'static str) -> Self {
        self.content("text/event-stream", Schemas::events, description)
    }

    /// Answers with 200 and text of this type.
    pub(crate) fn answers_text(self, media_type: &'static str, description: &'static str) -> Self {
        self.content(media_type, Schemas::text, description)
    }

    /// Answers with events of a third-party protocol, possibly as an alternative to JSON.
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

    /// Declares a further status, whose content the protocol itself defines.
    pub(crate) fn also_answers(mut self, status: &'static str, description: &'static str) -> Self {
        self.others.push((status, description));
        self
    }

    /// Reports problems in the form that OpenAI's clients expect.
    pub(crate) const fn in_openais_form(mut self) -> Self {
        self.form = ProblemForm::OpenAi;
        self
    }

    /// Reports problems as documents or in a third-party protocol's own form.
    pub(crate) const fn in_either_form(mut self) -> Self {
        self.form = ProblemForm::Either;
        self
    }

    /// Sets a status other than 200.
    pub(crate) const fn status(mut self, status: StatusCode) -> Self {
        self.answer.status = status;
        self
    }

    /// Adds an actual answer as an example.
    pub(crate) const fn example(mut self, json: &'static str) -> Self {
        self.answer.example = Some(json);
        self
    }

    /// Declares a header of the answer.
    pub(crate) fn sends<T: JsonSchema>(
        mut self,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        let schema: SchemaOf = Schemas::of_response::<T>;
        self.answer.headers.push((name, description, schema));
        self
    }

    /// Declares a follow-up operation.
    pub(crate) fn leads_to(mut self, operation: &'static str, parameters: Pointers) -> Self {
        self.answer.links.push((operation, parameters));
        self
    }

    /// Declares the problems that the route can return.
    pub(crate) fn problems(mut self, problems: Problems) -> Self {
        self.problems.extend(problems);
        self
    }

    /// Needs no key, even if there are keys.
    pub(super) fn needs_no_key(mut self) -> Self {
        self.problems
            .retain(|kind| OF_KEYS.iter().all(|of_keys| of_keys.name != kind.name));
        self
    }

    /// Reads or writes the store.
    pub(crate) fn uses_store(self) -> Self {
        self.problems(OF_THE_STORE)
    }

    /// Requires the decision token.
    pub(crate) fn decides(mut self) -> Self {
        self.is_decision = true;
        self.problems(OF_DECISIONS)
    }
}
