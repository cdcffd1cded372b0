//! The id of a request, which links a client's request, the answer and the log lines.
//!
//! A client may supply its own in the header `X-Request-Id`. A malformed one is not repeated anywhere: the server
//! generates an id instead.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use neuraxis::engine::UuidV7;
use neuraxis::ports::Ids;

/// The header that carries it, in both directions.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of an id that a client supplies, in bytes.
const MAX_BYTES: usize = 128;

tokio::task_local! {
    /// The id of the request that this task answers.
    static CURRENT: RequestId;
}

/// The id of a request: letters, digits and `-_.:/+=`, which need no quoting in a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// Returns the id that a client supplies, if it is well formed, or generates one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(HEADER).iter();
        match (sent.next(), sent.next()) {
            (Some(id), None) if is_well_formed(id.as_bytes()) => Self(id.clone()),
            _ => Self::made(),
        }
    }

    fn made() -> Self {
        let id = HeaderValue::try_from(UuidV7.new_id().to_string());
        // A UUID is always a valid header value.
        Self(id.unwrap_or(HeaderValue::from_static("unknown")))
    }

    /// Returns the id as a header value.
    pub(crate) const fn header(&self) -> &HeaderValue {
        &self.0
    }

    /// Returns the id as text.
    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// Makes the id available while a request is answered.
    pub(crate) async fn scope<F: Future>(self, answering: F) -> F::Output {
        CURRENT.scope(self, answering).await
    }

    /// Returns the id of the request that this task answers, if there is one.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_well_formed(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    (1..=MAX_BYTES).contains(&id.len()) && id.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        RequestId::of(&headers).to_string()
    }

    #[test]
    fn a_well_formed_request_id_from_the_client_is_used() {
        let longest = "x".repeat(MAX_BYTES);
        for id in ["1", "Root=1-67891233:abc/def+0", &longest] {
            assert_eq!(of(&[id.as_bytes()]), id);
        }
    }

    #[test]
    fn an_ambiguous_request_id_is_replaced_by_a_generated_one() {
        let long = "x".repeat(MAX_BYTES + 1);
        for id in [
            "",
            "a b",
            "a\tb",
            "a\"b",
            "id}: status=200",
            "\u{1b}",
            long.as_str(),
        ] {
            let Ok(value) = HeaderValue::from_bytes(id.as_bytes()) else {
                continue;
            };
            let made = of(&[value.as_bytes()]);
            assert_ne!(made, id);
            assert_eq!(made.len(), 36, "{made}");
        }
        assert_eq!(of(&[b"\xff"]).len(), 36);
        assert_eq!(of(&[b"a", b"b"]).len(), 36);
        assert_ne!(of(&[]), of(&[]));
    }
}
