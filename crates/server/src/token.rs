//! The token that authorizes decisions about waiting calls. It is in a file that only the user can read.
//!
//! A program that a model started can reach a server on loopback too, but must not approve its own calls. Reading,
//! asking and ending runs need no token as long as there are no keys.

use axum::http::{HeaderMap, header};
use neuraxis::core::ContentHash;

use crate::problem::{NO_DECISIONS, Problem, TOKEN_NEEDED};

/// The token that a decision must present. Only its hash is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionToken(ContentHash);

impl DecisionToken {
    /// Authorizes clients that present this text.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(ContentHash::of(token.as_bytes()))
    }
}

/// Returns whether a request presents the token.
pub(crate) fn is_presented(token: Option<DecisionToken>, headers: &HeaderMap) -> bool {
    // Hashes are compared, so the time this takes reveals nothing about the token.
    let fits = |text| Some(DecisionToken::new(text)) == token;
    bearer(headers).is_some_and(fits)
}

/// Returns the value of the header `Authorization: Bearer`, if it is present exactly once.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (shown.next()?, shown.next());
    let (scheme, text) = first.to_str().ok()?.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && second.is_none();
    is_bearer.then(|| text.trim())
}

/// Reports that a decision needs the token, or that there is no token to present.
pub(crate) fn needed(token: Option<DecisionToken>) -> Problem {
    if token.is_none() {
        let detail = "this server accepts no decisions; use `neuraxis approvals` on its machine, with its \
                      configuration";
        return Problem::new(&NO_DECISIONS, detail);
    }
    // No word may follow "Bearer ": it would be masked as if it were a token.
    let detail = "a decision needs this server's token, in the header Authorization with the scheme Bearer; the \
                  server's log names the file that contains it";
    Problem::new(&TOKEN_NEEDED, detail)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_let_in(values: &[&'static str]) -> bool {
        let values = values.iter().map(|value| HeaderValue::from_static(value));
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value);
        }
        is_presented(Some(DecisionToken::new("t0ken")), &headers)
    }

    #[test]
    fn the_token_must_be_sent_once_as_a_bearer_token() {
        assert!(is_let_in(&["Bearer t0ken"]));
        assert!(is_let_in(&["bearer  t0ken "]));
        for values in [
            &[][..],
            &["t0ken"],
            &["Bearer"],
            &["Bearer "],
            &["Bearer T0KEN"],
            &["Basic t0ken"],
            &["Bearer t0ken", "Bearer t0ken"],
        ] {
            assert!(!is_let_in(values), "{values:?}");
        }
    }

    #[test]
    fn a_server_without_a_token_accepts_no_decisions() {
        let problem = needed(None);
        assert!(!is_presented(None, &HeaderMap::new()));
        assert!(format!("{problem:?}").contains("no-decisions"));
    }
}
