//! Converts a server's error response to an [`LlmError`].
//!
//! Servers agree on little: `error` is an object or a string, `code` a number or a word, a gateway forwards the error
//! of the server behind it, and a proxy in between answers with a page. All of it is untrusted, so texts are truncated
//! and made safe before they are displayed.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use neuraxis_core::{LlmError, LlmErrorKind};
use serde_json::Value;

use super::retry_after::{limits_reset, retry_after, should_retry, wait_in_body};
use super::{ServerErrors, clean, rules};

/// Phrases that precede the size of the context.
const LIMIT_FOLLOWS: [&str; 19] = [
    "maximum context length is ",
    "maximum context length of ",
    "context length of only ",
    "context length is only ",
    "available context size (",
    "context length (",
    "n_ctx: ",
    "n_ctx (",
    "maximum prompt length is ",
    "model token limit: ",
    "tokens allowed (",
    "exceeds the limit of ",
    "input length should be [1, ",
    "maximum allowed input length of ",
    "Max size: ",
    "): Limit ",
    "`max_new_tokens` must be <= ",
    "`inputs` must have less than ",
    " > ",
];

/// Phrases that precede the number of tokens that the request needed. If a server counts the prompt and the reply
/// separately, the prompt comes first.
const NEEDED_FOLLOWS: [&str; 22] = [
    "prompt contains at least ",
    "prompt contains ",
    "You passed ",
    "your request has ",
    "requested ",
    "requested about ",
    "requested a total of ",
    "requested: ",
    "resulted in ",
    "keep the first ",
    "request (",
    "The input (",
    "n_keep: ",
    "n_keep (",
    "request contains ",
    "token count (",
    "token count of ",
    "prompt is too long: ",
    "context limit: ",
    "Input length ",
    ", Requested ",
    ". Given: ",
];

/// Phrases that follow the part of that number taken by the reply.
const REPLY_PRECEDES: [&str; 4] = [
    " in the completion",
    " tokens for the completion",
    " for the completion",
    " in the output",
];

/// The headers with which servers identify a request; DeepSeek has two of its own, either of which may be absent.
const REQUEST_IDS: [&str; 4] = [
    "x-request-id",
    "request-id",
    "x-deepseek-request-id",
    "x-ds-trace-id",
];

/// A server's report of a failure.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    /// The HTTP status; the one in the body if the failure came inside a stream.
    pub(crate) status: Option<u16>,
    /// The field `type`.
    pub(crate) kind: String,
    /// The field `code`.
    pub(crate) code: String,
    /// The field `param`: which part of the request is wrong.
    pub(crate) param: String,
    /// The message, as the server wrote it.
    pub(crate) message: String,
    /// The context size, in tokens.
    pub(crate) limit: Option<u64>,
    /// What the request needed, in tokens, without the reply if the server reports both separately.
    pub(crate) needed: Option<u64>,
    /// How long the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// The server's id for the request, for questions to the provider's support.
    pub(crate) request: String,
    /// Whether the server states that a retry can help, or cannot.
    pub(crate) should_retry: Option<bool>,
}

impl Failure {
    /// Reads a response whose status is not a success.
    pub(crate) fn of_response(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut failure = match serde_json::from_slice(body) {
            Ok(body) => Self::of_json(&body),
            Err(_) => Self {
                message: words_of(headers, body),
                ..Self::default()
            },
        };
        failure.status = Some(status.as_u16());
        let mut wait = retry_after(headers);
        if status == StatusCode::TOO_MANY_REQUESTS {
            wait = wait.or_else(|| limits_reset(headers));
        }
        failure.retry_after = wait.or(failure.retry_after);
        failure.should_retry = should_retry(headers);
        let request = REQUEST_IDS.iter().find_map(|name| headers.get(*name));
        let request = request.map(HeaderValue::to_str).and_then(Result::ok);
        request.unwrap_or_default().clone_into(&mut failure.request);
        failure
    }

    /// Reads a JSON error body: the object or string in `error`, or the whole body. Gemini sends a list of one.
    pub(crate) fn of_json(body: &Value) -> Self {
        let body = body.get(0).unwrap_or(body);
        match body.get("error") {
            Some(error) if !error.is_null() => Self::of_error(error),
            _ => Self::of_error(body),
        }
    }

    /// Reads the value of `error`.
    pub(crate) fn of_error(error: &Value) -> Self {
        let text = |field: &str| error.get(field).map(written).unwrap_or_default();
        let reason = |field: &str| error.get(field).map(reason).unwrap_or_default();
        let count = |field: &str| error.get(field).and_then(Value::as_u64);
        let message = match error {
            Value::String(message) => message.clone(),
            _ => [reason("message"), reason("detail")].concat(),
        };
        let mut code = text("code");
        if code.is_empty() {
            let code_of_details = error.pointer("/details/error_code");
            code = code_of_details.map(written).unwrap_or_default();
        }
        let failure = Self {
            status: code
                .parse()
                .ok()
                .filter(|status| (400..600).contains(status)),
            kind: text("type"),
            param: text("param"),
            limit: count("n_ctx").or_else(|| number_after(&message, &LIMIT_FOLLOWS)),
            needed: count("n_prompt_tokens").or_else(|| needed(&message)),
            retry_after: wait_in_body(error, &message),
            message,
            code,
            request: String::new(),
            should_retry: None,
        };
        // OpenRouter forwards here what the server behind it reported.
        match error.pointer("/metadata/raw") {
            Some(raw) => failure.because_of(Self::of_raw(raw)),
            None => failure,
        }
    }

    /// Reads what a gateway forwards: an error body, as JSON or as a string of JSON, or plain text.
    fn of_raw(raw: &Value) -> Self {
        let Value::String(text) = raw else {
            return Self::of_json(raw);
        };
        match serde_json::from_str(text) {
            Ok(body @ (Value::Object(_) | Value::Array(_))) => Self::of_json(&body),
            _ => Self::of_error(raw),
        }
    }

    /// Adds the error of the server behind a gateway. Its code is used if the gateway has only a status.
    fn because_of(mut self, behind: Self) -> Self {
        if !self.message.is_empty() && !behind.message.is_empty() {
            self.message.push_str(": ");
        }
        self.message.push_str(&behind.message);
        let says_nothing = self.code.is_empty() || self.code.parse::<u64>().is_ok();
        if says_nothing && behind.status.is_none() && !behind.code.is_empty() {
            self.code = behind.code;
        }
        if self.kind.is_empty() {
            self.kind = behind.kind;
        }
        if self.param.is_empty() {
            self.param = behind.param;
        }
        self.limit = self.limit.or(behind.limit);
        self.needed = self.needed.or(behind.needed);
        self.retry_after = self.retry_after.or(behind.retry_after);
        self
    }

    /// Converts the failure by the first matching rule; see [`ServerErrors`].
    pub(crate) fn into_error(self, errors: &ServerErrors) -> LlmError {
        let kind = self.apply_retry_hint(rules::meaning(&self, errors.rules).kind(&self));
        let tidy = |text: &str| errors.tidy(text);
        let status = self.status.map(|status| status.to_string());
        let mut notes = Vec::new();
        // For a server failure, the kind itself shows the status.
        let is_included = matches!(
            kind,
            LlmErrorKind::Server {
                status: Some(_),
                ..
            }
        );
        if let Some(status) = status.as_ref().filter(|_| !is_included) {
            notes.push(format!("status {status}"));
        }
        if !self.kind.is_empty() {
            notes.push(format!("type {}", tidy(&self.kind)));
        }
        if !self.param.is_empty() {
            notes.push(format!("param {}", tidy(&self.param)));
        }
        if !self.code.is_empty() && Some(&self.code) != status.as_ref() {
            notes.push(format!("code {}", tidy(&self.code)));
        }
        if !self.request.is_empty() {
            notes.push(format!("request {}", tidy(&self.request)));
        }
        let mut said = tidy(&self.message);
        if said.is_empty() {
            "the server gave no reason".clone_into(&mut said);
        }
        if !notes.is_empty() {
            said = format!("{said} ({})", notes.join(", "));
        }
        if kind == LlmErrorKind::BadRequest && matches!(self.status, Some(404 | 405)) {
            said.push_str("; check that base_url points to a model server");
        }
        if kind == LlmErrorKind::BadRequest {
            said.push_str(self.of_proxy());
        }
        LlmError::new(kind, said)
    }
}

impl Failure {
    /// Returns a hint if a refused request may never have reached the server.
    fn of_proxy(&self) -> &'static str {
        match self.status {
            Some(403) if self.message.starts_with(rules::PAGE) => {
                "; a proxy or a firewall may have answered instead of the server"
            }
            Some(407) => {
                "; the proxy requires a user name and a password, which are allowed only in the variable that names it"
            }
            _ => "",
        }
    }

    /// Applies the server's statement about a retry, but only if nothing else is known: a wrong key stays one, whatever
    /// the server states.
    fn apply_retry_hint(&self, kind: LlmErrorKind) -> LlmErrorKind {
        match (self.should_retry, kind) {
            (Some(false), LlmErrorKind::RateLimited { .. }) => LlmErrorKind::QuotaExhausted,
            (Some(false), LlmErrorKind::Server { .. } | LlmErrorKind::Timeout) => {
                LlmErrorKind::BadRequest
            }
            (Some(true), LlmErrorKind::BadRequest) => LlmErrorKind::Server {
                status: self.status,
                retry_after: self.retry_after,
            },
            (_, kind) => kind,
        }
    }
}

/// Returns a string or a number as it is written; an empty string for anything else.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Returns a reason: a string, or the first entry of FastAPI's list of what is wrong with a request, with its position
/// in the request. Mistral puts that list in its message.
fn reason(value: &Value) -> String {
    let list = value.get("detail").unwrap_or(value);
    let first = list.get(0).unwrap_or(list);
    let Some(said) = first.get("msg") else {
        return written(first);
    };
    let place = first.get("loc").and_then(Value::as_array);
    let place: Vec<String> = place.into_iter().flatten().map(written).collect();
    match place.is_empty() {
        true => written(said),
        false => format!("{}: {}", place.join("."), written(said)),
    }
}

/// Describes a body that is not JSON. An HTML page is not quoted: its beginning says nothing.
fn words_of(headers: &HeaderMap, body: &[u8]) -> String {
    let words = String::from_utf8_lossy(body);
    match content_type(headers) {
        Some(kind) if kind.contains("html") => format!("the answer is {kind}, not JSON"),
        Some(kind) if !words.trim().is_empty() && !kind.contains("json") => {
            format!("the answer is {kind}, not JSON: {words}")
        }
        _ => words.into_owned(),
    }
}

/// Returns the type that a response declares, without parameters, in lower case and safe to display.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or_default();
    Some(clean(&kind.to_ascii_lowercase(), 60)).filter(|kind| !kind.is_empty())
}

/// Returns the number of tokens that a request needed according to a message, without the reply.
fn needed(text: &str) -> Option<u64> {
    let in_all = number_after(text, &NEEDED_FOLLOWS)?;
    let reply = number_before(text, &REPLY_PRECEDES).unwrap_or_default();
    Some(in_all.saturating_sub(reply))
}

/// Returns the number before the first of the phrases found in a message.
fn number_before(text: &str, phrases: &[&str]) -> Option<u64> {
    let digits = |phrase: &&str| {
        let (rest, _) = text.split_once(*phrase)?;
        let before = rest.trim_end_matches(|letter: char| letter.is_ascii_digit());
        rest.get(before.len()..)?.parse().ok()
    };
    phrases.iter().find_map(digits)
}

/// Returns the number after the first of the phrases found in a message.
fn number_after(text: &str, phrases: &[&str]) -> Option<u64> {
    let digits = |phrase: &&str| {
        let (_, rest) = text.split_once(*phrase)?;
        let end = rest
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    phrases.iter().find_map(digits)
}

#[cfg(test)]
mod tests;
