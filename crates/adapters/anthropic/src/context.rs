//! The context size of a model, if its name does not show it: the server is asked once, when it is first needed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use neuraxis_core::LlmErrorKind;
use neuraxis_wire::Endpoint;
use serde::Deserialize;

/// How long to wait for the server: a user is waiting for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The context size of a model, once it is known.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// In tokens; 0 until it is known.
    tokens: AtomicU64,
    was_asked: AtomicBool,
}

/// A server's information about a model.
#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    max_input_tokens: Option<u64>,
}

impl Context {
    pub(crate) fn new(known: Option<u64>) -> Self {
        Self {
            tokens: AtomicU64::new(known.unwrap_or_default()),
            was_asked: AtomicBool::new(false),
        }
    }

    pub(crate) fn known(&self) -> Option<u64> {
        Some(self.tokens.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
    }

    /// Asks the server, unless the size is known or the server was asked before. Does not ask about a name that would
    /// lead to a different path.
    pub(crate) async fn learn(&self, endpoint: &Endpoint, model: &str) {
        if self.known().is_some() {
            return;
        }
        let Some(segment) = path_segment(model) else {
            return;
        };
        if self.was_asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let route = endpoint.route(&format!("v1/models/{segment}"));
        let answer = endpoint.get(&route, ANSWER_TIMEOUT).await;
        let answer = answer.map(|body| serde_json::from_slice::<Model>(&body));
        match answer {
            Ok(Ok(Model {
                max_input_tokens: Some(tokens),
            })) => self.tokens.store(tokens, Ordering::Relaxed),
            // The server may answer once it is reachable.
            Err(error) if error.kind == LlmErrorKind::Connection => {
                self.was_asked.store(false, Ordering::Relaxed);
            }
            _ => tracing::debug!(model, "the server does not report the context size"),
        }
    }
}

/// Returns a model's name as one path segment, such as `anthropic%2Fclaude-sonnet-4.6`; `None` if a server might read
/// it as a different path.
fn path_segment(model: &str) -> Option<String> {
    let is_name = |letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ':' | '@')
    };
    // A server or a proxy may decode the path before it resolves `..` in it.
    let is_safe = |part: &str| {
        !part.is_empty()
            && part.chars().all(is_name)
            && part.chars().any(|letter| letter.is_ascii_alphanumeric())
    };
    let encoded = || {
        model
            .replace('/', "%2F")
            .replace(':', "%3A")
            .replace('@', "%40")
    };
    model.split('/').all(is_safe).then(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_name_becomes_one_path_segment_or_is_refused() {
        for (name, expected) in [
            ("claude-opus-4-8", "claude-opus-4-8"),
            (
                "anthropic/claude-sonnet-4.6",
                "anthropic%2Fclaude-sonnet-4.6",
            ),
            (
                "us.anthropic.claude-opus-4-6-v1:0",
                "us.anthropic.claude-opus-4-6-v1%3A0",
            ),
            ("claude-sonnet-4@20250514", "claude-sonnet-4%4020250514"),
        ] {
            assert_eq!(path_segment(name).as_deref(), Some(expected), "{name}");
        }
        for name in [
            "", ".", "..", "../x", "x/../y", "x/..", "/x", "x/", "x//y", "x?y", "x#y", "%2e%2e",
            "x y", "x\\y", "é",
        ] {
            assert_eq!(path_segment(name), None, "{name}");
        }
    }
}
