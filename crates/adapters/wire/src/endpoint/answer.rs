//! The response to a request: refused, or read whole or as events.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap};
use http::response::Parts;
use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::CancellationToken;
use serde_json::Value;

use crate::body::{Body, TimeLimits};
use crate::endpoint::address;
use crate::errors::{Failure, ServerErrors, content_type};

/// The maximum number of bytes read of an error body, and how long to wait for it.
const MAX_ERROR_BODY: usize = 64 * 1024;
const ERROR_BODY_WITHIN: Duration = Duration::from_secs(10);

/// A response whose head has arrived. Always boxed: a waiting call holds no memory for it.
pub(super) struct HttpReply {
    head: Parts,
    body: Body,
}

impl HttpReply {
    pub(super) fn new(
        response: reqwest::Response,
        limits: TimeLimits,
        cancellation: CancellationToken,
        errors: Arc<ServerErrors>,
    ) -> Box<Self> {
        let response: http::Response<reqwest::Body> = response.into();
        let (head, body) = response.into_parts();
        let body = Body::new(body, limits, cancellation, errors);
        Box::new(Self { head, body })
    }

    /// Returns whether a program sent the response: whether its `server` header starts with `program`.
    pub(super) fn comes_from(&self, program: &str) -> bool {
        let name = self.head.headers.get(header::SERVER);
        name.is_some_and(|name| name.as_bytes().starts_with(program.as_bytes()))
    }

    /// Returns whether the response is a success and not compressed.
    pub(super) fn is_accepted(&self) -> bool {
        self.head.status.is_success() && encoding(&self.head.headers).is_none()
    }

    /// Returns the error of a response that was not accepted.
    pub(super) async fn refusal(&mut self) -> LlmError {
        let status = self.head.status;
        if status.is_redirection() {
            return self.redirected();
        }
        if !status.is_success() {
            let body = self.error_body().await;
            let failure = Failure::of_response(status, &self.head.headers, &body);
            return failure.into_error(self.errors());
        }
        // Bodies are never decompressed, so a small one cannot become a large one.
        let encoding = encoding(&self.head.headers).unwrap_or_default();
        let encoding = self.errors().tidy(&encoding);
        self.invalid(&format!(
            "sent a body in encoding {encoding}, which was not requested"
        ))
    }

    /// Returns `false` if the response declares a type other than JSON.
    pub(super) fn is_json(&self) -> bool {
        let headers = &self.head.headers;
        let plainly = headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind == "application/json");
        plainly || content_type(headers).is_none_or(|kind| kind.contains("json"))
    }

    /// Returns `false` if the response declares a type other than an event stream.
    pub(super) fn is_of_events(&self) -> bool {
        let kind = content_type(&self.head.headers);
        kind.is_none_or(|kind| kind == "text/event-stream")
    }

    pub(super) fn into_body(self: Box<Self>) -> Body {
        self.body
    }

    fn redirected(&self) -> LlmError {
        let errors = self.errors();
        let location = self.head.headers.get(header::LOCATION);
        let location = location.and_then(|value| value.to_str().ok());
        let target = errors.tidy(&address::redirect_target(errors.server(), location));
        let said = format!(
            "{} redirects to {target} (status {}): redirects are not followed; set base_url to the server's actual address",
            errors.server(),
            self.head.status.as_u16()
        );
        LlmError::new(LlmErrorKind::BadRequest, said)
    }

    /// Returns the error of a success that is not what was requested. If the body holds a JSON error, returns that
    /// error.
    pub(super) async fn unexpected(&mut self, wanted: &str) -> LlmError {
        let kind = content_type(&self.head.headers).unwrap_or_default();
        let body = self.error_body().await;
        match serde_json::from_slice::<Value>(&body) {
            Ok(json) if json.get("error").is_some_and(|error| !error.is_null()) => {
                Failure::of_json(&json).into_error(self.errors())
            }
            _ => self.invalid(&format!(
                "answered with {kind} instead of {wanted}; check that base_url points to a model server"
            )),
        }
    }

    /// Reads an error body as far as possible, within its own limits: a failure to read it is not worth another error.
    async fn error_body(&mut self) -> Bytes {
        self.body.end_within(ERROR_BODY_WITHIN);
        let mut collected = BytesMut::new();
        while let Some(Ok(piece)) = self.body.next().await {
            let room = MAX_ERROR_BODY.saturating_sub(collected.len());
            collected.extend_from_slice(piece.get(..room).unwrap_or(&piece));
            if collected.len() >= MAX_ERROR_BODY {
                break;
            }
        }
        collected.freeze()
    }

    /// Reads the whole body.
    pub(super) async fn read(&mut self, most: usize) -> Result<Bytes, LlmError> {
        // Most documents arrive in one piece, which needs no copy.
        let mut first = Bytes::new();
        let mut more = Vec::new();
        let mut size = 0;
        while let Some(piece) = self.body.next().await.transpose()? {
            size += piece.len();
            if size > most {
                return Err(self.invalid(&format!("sent a reply of more than {most} bytes")));
            }
            if first.is_empty() {
                first = piece;
            } else {
                more.push(piece);
            }
        }
        if more.is_empty() {
            return Ok(first);
        }
        more.insert(0, first);
        Ok(more.concat().into())
    }

    fn errors(&self) -> &ServerErrors {
        self.body.errors()
    }

    fn invalid(&self, complaint: &str) -> LlmError {
        let said = format!("{} {complaint}", self.errors().server());
        LlmError::new(LlmErrorKind::InvalidResponse, said)
    }
}

/// Returns the content encoding of a body, if it has one.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_ENCODING)?;
    let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
    (!value.eq_ignore_ascii_case("identity")).then_some(value)
}
