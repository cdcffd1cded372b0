//! The known forms of secrets.
//!
//! These are the prefixes that providers publish for their own keys (OpenAI and compatible `sk-`, GitHub `ghp_` and
//! related, GitLab `glpat-`, Slack `xoxb-` and related, xAI `xai-`, AWS `AKIA`/`ASIA`, Google `AIza`, Hugging Face
//! `hf_`, Groq `gsk_`, Stripe `sk_live_`), JSON Web Tokens (RFC 7519), bearer and basic credentials (RFC 6750, RFC
//! 7617), the user information of URLs (RFC 3986) and private keys in PEM (RFC 7468).

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What may precede a secret with a distinctive prefix: a word boundary, or the letter of a JSON escape.
const EDGE: &str = r"(?:(?-u:\b)|\\[nrtbf])";

/// Secrets with a distinctive prefix.
const PREFIXED: [&str; 10] = [
    r"(sk-[A-Za-z0-9_-]{6,})",
    r"((?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,})",
    r"(glpat-[A-Za-z0-9_-]{16,})",
    r"(xox[abeoprs]-[A-Za-z0-9-]{10,})",
    r"(xai-[A-Za-z0-9]{20,})",
    r"((?:AKIA|ASIA)[A-Z0-9]{16})",
    r"(AIza[A-Za-z0-9_-]{30,})",
    r"((?:hf|gsk)_[A-Za-z0-9]{20,})",
    r"([sr]k_(?:live|test)_[A-Za-z0-9]{16,})",
    r"(eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*)",
];

/// Positions that only a secret takes.
const PLACED: [&str; 6] = [
    r#"(?i)authorization[\\"']{0,3}\s{0,3}[:=]\s{0,3}[\\"']{0,2}(?:bearer|basic|token)\s{1,3}([^\s"'\\,;{}\[\]]{4,})"#,
    r#"(?i)(?:api[_-]?key|(?:access|auth|refresh|id)[_-]token|client[_-]secret|secret[_-](?:access[_-])?key)[\\"']{0,3}\s{0,3}[:=]\s{0,3}[\\"']{0,2}([^\s"'\\,;{}\[\]&]*[0-9][^\s"'\\,;{}\[\]&]*)"#,
    r#"://[^\s/:@"'\\\[\]]{1,128}:([^\s/@"'\\\[\]]{1,256})@"#,
    r#"(?i)[?&](?:sig|signature|token|key|x-amz-signature|x-amz-security-token|x-goog-signature)=([^\s&"'\\\[\]#]{4,})"#,
    r"(-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[A-Za-z0-9+/=\s\\:,.-]*?-----END [A-Z ]{0,32}PRIVATE KEY-----)",
    r"(-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*)",
];

/// Positions that a secret or an ordinary word may take: after "bearer" and "basic", and in a header without a scheme.
const MAYBE: [&str; 2] = [
    r"(?i)(?:\b|\\[nrtbf])(?:bearer|basic)\s{1,3}([A-Za-z0-9._~+/-]*[A-Za-z0-9]=*)",
    r#"(?i)authorization[\\"']{0,3}\s{0,3}[:=]\s{0,3}[\\"']{0,2}([^\s"'\\,;{}\[\]]+)"#,
];

static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let prefixed = PREFIXED.iter().map(|shape| format!("{EDGE}{shape}"));
    let placed = PLACED.iter().map(|shape| (*shape).to_owned());
    compiled(prefixed.chain(placed))
});
static MAYBE_SECRETS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| compiled(MAYBE.iter().map(|shape| (*shape).to_owned())));

/// Finds everything in the form of a secret, unordered; ranges may overlap.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let secrets = SECRETS.iter().flat_map(|shape| shape.captures_iter(text));
    let secrets = secrets.filter_map(|found| secret_range(&found));
    let maybe = MAYBE_SECRETS.iter().flat_map(|shape| places(shape, text));
    secrets.chain(maybe).collect()
}

/// Finds the matches of a form that are not ordinary words.
fn places(shape: &Regex, text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(place) = shape
        .captures_at(text, at)
        .and_then(|found| secret_range(&found))
    {
        if text.get(place.clone()).is_some_and(is_ordinary_word) {
            // The word may itself introduce a secret.
            at = place.start;
        } else {
            at = place.end;
            found.push(place);
        }
    }
    found
}

fn secret_range(found: &Captures<'_>) -> Option<Range<usize>> {
    found.get(1).map(|secret| secret.range())
}

/// Returns whether a token is a word of prose, as in "bearer certificates", rather than a credential.
fn is_ordinary_word(token: &str) -> bool {
    let is_word = token.bytes().all(|byte| byte.is_ascii_alphabetic());
    token.len() < 8 || (is_word && token.len() < 20)
}

fn compiled(shapes: impl IntoIterator<Item = String>) -> Vec<Regex> {
    // Invalid expressions are dropped; a test checks that none is.
    let shapes = shapes.into_iter().map(|shape| Regex::new(&shape));
    shapes.filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_a_valid_expression() {
        assert_eq!(SECRETS.len(), PREFIXED.len() + PLACED.len());
        assert_eq!(MAYBE_SECRETS.len(), MAYBE.len());
    }
}
