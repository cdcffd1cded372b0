//! Who may decide about calls that wait: whoever shows the token that stands in a file of the user's alone.
//!
//! A program that a model had run reaches a server on loopback, too, and must not approve its own calls. Reading, asking and
//! ending runs need no token until there are keys.

use axum::http::{HeaderMap, header};
use neuraxis::core::ContentHash;

use crate::problem::{NO_DECISIONS, Problem, TOKEN_NEEDED};

/// What a decision has to show. Only its hash is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionToken(ContentHash);

impl DecisionToken {
    /// Lets whoever shows this text decide.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(ContentHash::of(token.as_bytes()))
    }
}

/// Refuses who does not show the token, once and in the header `Authorization: Bearer TOKEN`.
pub(crate) fn check(token: Option<DecisionToken>, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(token) = token else {
        let detail = "this server takes no decisions: use `neuraxis approvals` on its machine";
        return Err(Problem::new(&NO_DECISIONS, detail));
    };
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (shown.next(), shown.next());
    let text = first.and_then(|value| value.to_str().ok());
    let bearer = text.and_then(|text| text.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    // Hashes are compared: how long that takes says nothing of the token.
    let fits = bearer.is_some_and(|(_, text)| DecisionToken::new(text.trim()) == token);
    if fits && second.is_none() {
        return Ok(());
    }
    let detail = "a decision needs the header Authorization: Bearer with the token of this server; its log names the file \
                  that holds it";
    Err(Problem::new(&TOKEN_NEEDED, detail))
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
        check(Some(DecisionToken::new("t0ken")), &headers).is_ok()
    }

    #[test]
    fn the_token_is_shown_once_and_as_a_bearer() {
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
    fn without_a_token_of_its_own_a_server_takes_no_decisions() {
        let problem = check(None, &HeaderMap::new()).unwrap_err();
        assert!(format!("{problem:?}").contains("no-decisions"));
    }
}
