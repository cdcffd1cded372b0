//! Problem documents (RFC 9457): what went wrong, for users and for programs.

mod members;
mod page;

use std::borrow::Cow;
use std::fmt::Display;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use neuraxis_app::without_secrets;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use page::{described, show};

use crate::request_id::RequestId;

/// A kind of problem. Clients distinguish problems by its name, which never changes.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    status: StatusCode,
    title: &'static str,
    /// Its documentation, in Markdown.
    page: &'static str,
}

impl Kind {
    /// Returns the name that clients see: the address of its documentation page.
    pub(crate) fn page_path(&self) -> String {
        format!("/errors/{}", self.name)
    }

    /// Returns its status code.
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns its title, for users.
    pub(crate) const fn title(&self) -> &'static str {
        self.title
    }
}

/// Defines the kinds: constant, name, status, title.
macro_rules! kinds {
    ($($constant:ident = $name:literal, $status:ident, $title:literal;)*) => {$(
        pub(crate) const $constant: Kind = Kind {
            name: $name,
            status: StatusCode::$status,
            title: $title,
            page: include_str!(concat!("../errors/", $name, ".md")),
        };
    )*
        /// Every kind.
        const ALL: &[Kind] = &[$($constant),*];
    };
}

kinds! {
    INVALID_HOST = "invalid-host", BAD_REQUEST, "Invalid host";
    INVALID_SESSION_ID = "invalid-session-id", BAD_REQUEST, "Invalid session id";
    INVALID_IDEMPOTENCY_KEY = "invalid-idempotency-key", BAD_REQUEST, "Invalid idempotency key";
    INVALID_LAST_EVENT_ID = "invalid-last-event-id", BAD_REQUEST, "Invalid last event id";
    INVALID_QUERY = "invalid-query", BAD_REQUEST, "Invalid query";
    INVALID_BODY = "invalid-body", BAD_REQUEST, "Unreadable body";
    INVALID_JSON = "invalid-json", BAD_REQUEST, "Invalid JSON";
    UNKNOWN_FIELD = "unknown-field", BAD_REQUEST, "Unknown field";
    INVALID_FIELD = "invalid-field", BAD_REQUEST, "Invalid field";
    UNKNOWN_MODE = "unknown-mode", BAD_REQUEST, "Unknown mode";
    UNKNOWN_CHANNEL = "unknown-channel", BAD_REQUEST, "Unknown channel";
    KEY_NEEDED = "key-needed", UNAUTHORIZED, "Key required";
    TOKEN_NEEDED = "token-needed", UNAUTHORIZED, "Token required";
    NO_DECISIONS = "no-decisions", FORBIDDEN, "Decisions not accepted";
    FOREIGN_HOST = "foreign-host", FORBIDDEN, "Host not allowed";
    FOREIGN_ORIGIN = "foreign-origin", FORBIDDEN, "Origin not allowed";
    NOT_LOCAL = "not-local", FORBIDDEN, "Local access only";
    MODE_NOT_ALLOWED = "mode-not-allowed", FORBIDDEN, "Mode not allowed";
    SCOPE_NEEDED = "scope-needed", FORBIDDEN, "Missing scope";
    CHANNEL_NOT_ALLOWED = "channel-not-allowed", FORBIDDEN, "Channel not allowed";
    AGENT_NOT_ALLOWED = "agent-not-allowed", FORBIDDEN, "Agent not allowed";
    REFUSED = "refused", FORBIDDEN, "Refused by policy";
    NOT_FOUND = "not-found", NOT_FOUND, "Not found";
    NO_SUCH_SESSION = "no-such-session", NOT_FOUND, "No such session";
    NO_SUCH_MODEL = "no-such-model", NOT_FOUND, "No such model";
    NO_SUCH_RESPONSE = "no-such-response", NOT_FOUND, "No such response";
    NO_SUCH_RUN = "no-such-run", NOT_FOUND, "No such run";
    NO_SUCH_QUESTION = "no-such-question", NOT_FOUND, "No such question";
    METHOD_NOT_ALLOWED = "method-not-allowed", METHOD_NOT_ALLOWED, "Method not allowed";
    BODY_TIMEOUT = "body-timeout", REQUEST_TIMEOUT, "Body timeout";
    SESSION_BUSY = "session-busy", CONFLICT, "Session busy";
    SESSION_ALTERED = "session-altered", CONFLICT, "Session altered";
    SESSION_EXISTS = "session-exists", CONFLICT, "Session already exists";
    RUN_ENDED = "run-ended", CONFLICT, "The run has ended";
    NOT_ASKED = "not-asked", CONFLICT, "No open question";
    OTHER_QUESTION = "other-question", CONFLICT, "Question changed";
    QUESTION_ALTERED = "question-altered", CONFLICT, "Question altered";
    QUESTION_EXPIRED = "question-expired", CONFLICT, "Question expired";
    NOT_WAITING = "not-waiting", CONFLICT, "Not waiting";
    CANNOT_GO_ON = "cannot-go-on", CONFLICT, "Run cannot be resumed";
    AT_WORK_ELSEWHERE = "at-work-elsewhere", CONFLICT, "Run in progress elsewhere";
    NO_SUCH_EVENT = "no-such-event", GONE, "No such event";
    BODY_TOO_LARGE = "body-too-large", PAYLOAD_TOO_LARGE, "Body too large";
    NOT_JSON = "not-json", UNSUPPORTED_MEDIA_TYPE, "Not JSON";
    ENCODED_BODY = "encoded-body", UNSUPPORTED_MEDIA_TYPE, "Unsupported body encoding";
    IDEMPOTENCY_KEY_REUSED = "idempotency-key-reused", UNPROCESSABLE_ENTITY, "Idempotency key reused";
    TOO_MANY_REQUESTS = "too-many-requests", TOO_MANY_REQUESTS, "Too many requests";
    TOO_MANY_OWN_RUNS = "too-many-own-runs", TOO_MANY_REQUESTS, "Too many runs for this owner";
    INTERNAL = "internal", INTERNAL_SERVER_ERROR, "Internal error";
    STORE_FAILED = "store-failed", INTERNAL_SERVER_ERROR, "Store failed";
    STORE_UNAVAILABLE = "store-unavailable", SERVICE_UNAVAILABLE, "Store unavailable";
    RUN_UNRECORDED = "run-unrecorded", SERVICE_UNAVAILABLE, "Run not recorded";
    TOO_MANY_RUNS = "too-many-runs", SERVICE_UNAVAILABLE, "Too many runs";
    NO_MODEL = "no-model", SERVICE_UNAVAILABLE, "No model";
    SHUTTING_DOWN = "shutting-down", SERVICE_UNAVAILABLE, "Shutting down";
}

/// What went wrong with one request.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: &'static Kind,
    detail: String,
    members: Map<String, Value>,
    /// After how many seconds the client may retry.
    retry_after: Option<u32>,
}

impl Problem {
    /// Creates a problem. `detail` says what to do, and repeats nothing long or secret.
    pub(crate) fn new(kind: &'static Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            members: Map::new(),
            retry_after: None,
        }
    }

    /// Refuses the value of a field.
    pub(crate) fn invalid(field: &str, why: impl Display) -> Self {
        Self::new(&INVALID_FIELD, format!("{field}: {why}")).with("field", field)
    }

    /// Returns whether it is of this kind.
    pub(crate) fn is(&self, kind: &Kind) -> bool {
        self.kind.name == kind.name
    }

    /// Sets after how many seconds the client may retry.
    #[must_use]
    pub(crate) const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Adds what to do to the detail.
    #[must_use]
    pub(crate) fn advising(mut self, advice: &str) -> Self {
        self.detail.push_str("; ");
        self.detail.push_str(advice);
        self
    }

    /// Adds a member for programs.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }
}

/// The details of a problem, for layers that convert the answer to another form.
#[derive(Debug, Clone)]
pub(crate) struct Details {
    /// The name of its kind.
    pub(crate) name: &'static str,
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    pub(crate) members: Map<String, Value>,
}

/// What went wrong (RFC 9457). Which of the optional members a kind has is on its page.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem", extend("additionalProperties" = true))]
pub(crate) struct Document {
    /// The kind of problem, which never changes: the address of its documentation page.
    #[serde(rename = "type")]
    kind: String,
    /// The kind, for users.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What was wrong, where, and what to do.
    detail: String,
    #[serde(flatten)]
    #[schemars(with = "members::Members")]
    members: Map<String, Value>,
}

impl Problem {
    /// Returns its details, with secrets removed.
    pub(crate) fn details(&self) -> Details {
        let mut members = self.members.clone();
        clean_members(&mut members);
        Details {
            name: self.kind.name,
            status: self.kind.status,
            detail: without_secrets(&self.detail).into_owned(),
            members,
        }
    }
}

/// Removes secrets from the strings of an object.
fn clean_members(members: &mut Map<String, Value>) {
    for value in members.values_mut() {
        if let Value::String(text) = value
            && let Cow::Owned(clean) = without_secrets(text)
        {
            *text = clean;
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let details = self.details();
        let Self {
            kind, retry_after, ..
        } = self;
        let mut members = details.members.clone();
        if let Some(id) = RequestId::current() {
            members.insert("request_id".to_owned(), id.as_str().into());
        }
        let document = Document {
            kind: kind.page_path(),
            title: kind.title,
            status: kind.status.as_u16(),
            detail: details.detail.clone(),
            members,
        };
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (kind.status, content_type, Json(document)).into_response();
        if kind.status == StatusCode::UNAUTHORIZED {
            // This status requires the header (RFC 9110, 15.5.2).
            let bearer = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, bearer);
        }
        if kind.name == ENCODED_BODY.name {
            // With this status, the header names the accepted encodings (RFC 9110, 15.5.16).
            let identity = HeaderValue::from_static("identity");
            let headers = response.headers_mut();
            headers.insert(header::ACCEPT_ENCODING, identity);
        }
        if let Some(seconds) = retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(details);
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_problem_kind_has_a_page_with_its_title_and_status_and_no_page_is_extra() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
        for kind in ALL {
            let page = kind.page;
            let begin = format!(
                "# {}\n\n`type`: `/errors/{}` · status {}\n",
                kind.title,
                kind.name,
                kind.status.as_u16()
            );
            assert!(page.starts_with(&begin), "{}: {page}", kind.name);
            assert!(page.contains("\n## What to do\n"), "{}", kind.name);
        }
        let known: BTreeSet<String> = ALL.iter().map(|kind| format!("{}.md", kind.name)).collect();
        let pages = fs::read_dir(folder).unwrap();
        let pages = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
        let pages: BTreeSet<String> = pages.filter(|page| page != "README.md").collect();
        assert_eq!(pages, known);
    }
}
