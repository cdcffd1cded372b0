//! Refusals in the protocol's own form: JSON-RPC errors that say what to do. The protocol library answers most of them
//! in plain text.
//!
//! The cause is determined from the request and the status, not from the library's text. The errors have no id, as the
//! protocol wants it for requests that are refused before they are read (streamable HTTP, "Sending Messages").

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::model::{ErrorCode, ProtocolVersion};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{MAX_BODY_BYTES, SESSION};

/// The header that names the version of the protocol.
const VERSION: &str = "mcp-protocol-version";

/// A response of this service.
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What is wrong with a request, as far as the request itself shows it.
#[derive(Debug)]
pub(super) struct Asked {
    method: Method,
    has_session: bool,
    is_declared_json: bool,
    is_json: bool,
    /// The version that the client names, if it is not a known one.
    unknown_version: Option<String>,
}

impl Asked {
    pub(super) fn of(request: &Request<Bytes>) -> Self {
        let headers = request.headers();
        let text = |name| headers.get(name).map(HeaderValue::to_str);
        let declared = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let version = text(VERSION).map(Result::unwrap_or_default);
        let is_known = |version: &&str| {
            let mut known = ProtocolVersion::KNOWN_VERSIONS.iter();
            known.any(|known| known.as_str() == *version)
        };
        Self {
            method: request.method().clone(),
            has_session: matches!(text(SESSION), Some(Ok(_))),
            is_declared_json: declared.is_some_and(is_json),
            is_json: serde_json::from_slice::<IgnoredAny>(request.body()).is_ok(),
            unknown_version: version.filter(|it| !is_known(it)).map(str::to_owned),
        }
    }

    /// Puts a refusal in plain text in the protocol's form. Returns any other response as it is.
    pub(super) fn in_protocol_form(&self, response: Answer) -> Answer {
        let status = response.status();
        let content = response.headers().get(CONTENT_TYPE);
        let is_refusal = status.is_client_error() || status.is_server_error();
        if !is_refusal || content.is_some_and(|it| is_json(it.as_bytes())) {
            return response;
        }
        let allow = response.headers().get(ALLOW).cloned();
        let error = self.error(status, allow.as_ref());
        let mut refused = refused(status, &error);
        if let Some(allow) = allow {
            refused.headers_mut().insert(ALLOW, allow);
        }
        refused
    }

    fn error(&self, status: StatusCode, allow: Option<&HeaderValue>) -> Value {
        let invalid = |message: &str| error(ErrorCode::INVALID_REQUEST, message);
        match status {
            StatusCode::BAD_REQUEST => self.bad_request(),
            StatusCode::FORBIDDEN => invalid(
                "the headers Host and Origin must name this machine, as in http://127.0.0.1:8787",
            ),
            StatusCode::NOT_FOUND => invalid(
                "session not found: it has ended, or belongs to another server; send initialize without the header \
                 Mcp-Session-Id to start another",
            ),
            StatusCode::METHOD_NOT_ALLOWED => {
                let allowed = allow.and_then(|allow| allow.to_str().ok());
                let allowed = allowed.unwrap_or("POST");
                invalid(&format!(
                    "{} is not supported here; use {allowed}",
                    self.method
                ))
            }
            StatusCode::NOT_ACCEPTABLE if self.method == Method::GET => {
                invalid("the header Accept must name text/event-stream")
            }
            StatusCode::NOT_ACCEPTABLE => {
                invalid("the header Accept must name both application/json and text/event-stream")
            }
            StatusCode::PAYLOAD_TOO_LARGE => {
                invalid(&format!("the body has more than {MAX_BODY_BYTES} bytes"))
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE if !self.is_declared_json => {
                invalid("the header Content-Type must be application/json")
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE if !self.is_json => {
                error(ErrorCode::PARSE_ERROR, "the body is not JSON")
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE => invalid(
                "the body is not a message of this protocol: expected one JSON-RPC 2.0 object, not a batch, with the \
                 parameters that its method needs",
            ),
            // The library logs the cause.
            status if status.is_server_error() => error(
                ErrorCode::INTERNAL_ERROR,
                "internal error; see the server's log",
            ),
            _ => invalid("the request was refused; see the protocol, modelcontextprotocol.io"),
        }
    }

    fn bad_request(&self) -> Value {
        if let Some(requested) = &self.unknown_version {
            let supported = ProtocolVersion::KNOWN_VERSIONS.iter();
            let supported: Vec<&str> = supported.map(ProtocolVersion::as_str).collect();
            let message = format!(
                "the header MCP-Protocol-Version must name a supported version: {}",
                supported.join(", ")
            );
            return json!({
                "code": ErrorCode::UNSUPPORTED_PROTOCOL_VERSION.0,
                "message": message,
                "data": { "supported": supported, "requested": requested },
            });
        }
        if !self.has_session {
            let message = "the header Mcp-Session-Id is missing; send initialize first, and then the id that its \
                           answer has in this header";
            return error(ErrorCode::INVALID_REQUEST, message);
        }
        error(
            ErrorCode::INVALID_REQUEST,
            "the header Host is missing or invalid",
        )
    }
}

/// Returns whether a media type is JSON, whatever its parameters.
fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next();
    essence.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(b"application/json"))
}

/// Creates a JSON-RPC error.
pub(super) fn error(code: ErrorCode, message: &str) -> Value {
    json!({ "code": code.0, "message": message })
}

/// Refuses a request with a JSON-RPC error.
pub(super) fn refused(status: StatusCode, error: &Value) -> Answer {
    answer(status, &json!({ "jsonrpc": "2.0", "error": error }))
}

/// Creates a response that holds a message.
pub(super) fn answer(status: StatusCode, message: &Value) -> Answer {
    let body = Full::new(Bytes::from(message.to_string()));
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
