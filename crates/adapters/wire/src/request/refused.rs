//! Earlier reasoning that a service refuses to accept back.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use neuraxis_core::{LlmError, LlmErrorKind, Message, Part};

/// The maximum number of remembered conversations whose reasoning was refused.
const MOST_REFUSED: usize = 64;

/// The conversations whose reasoning a service refused: it is not sent again, and the conversation continues without
/// it.
///
/// They are identified by their last message at that time. Later reasoning was written for the service in its current
/// state, and is sent back as usual.
#[derive(Debug)]
pub struct RefusedReasoning {
    /// Words with which the service refuses it, in lower case.
    words: &'static [&'static str],
    refused: Mutex<Vec<Weak<Message>>>,
}

impl RefusedReasoning {
    /// Creates an empty list. A refusal contains one of these words, which are in lower case.
    #[must_use]
    pub const fn new(words: &'static [&'static str]) -> Self {
        Self {
            words,
            refused: Mutex::new(Vec::new()),
        }
    }

    /// Returns for how many of these messages, from the first on, reasoning is omitted.
    #[must_use]
    pub fn without_until(&self, messages: &[Arc<Message>]) -> usize {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_empty() {
            return 0;
        }
        let is_refused = |message: &Arc<Message>| {
            refused
                .iter()
                .any(|old| old.as_ptr() == Arc::as_ptr(message))
        };
        messages.iter().rposition(is_refused).map_or(0, |at| at + 1)
    }

    /// Records a refusal. The caller then immediately sends the same request again without reasoning: the model was not
    /// called, so the refusal does not count as an attempt and says nothing about the model's health.
    ///
    /// # Errors
    ///
    /// Any other error, and a second refusal.
    pub fn record(&self, error: LlmError, messages: &[Arc<Message>]) -> Result<(), LlmError> {
        let said = error.message.to_ascii_lowercase();
        let is_refusal = error.kind == LlmErrorKind::BadRequest
            && self.words.iter().any(|words| said.contains(words));
        let sent = messages.get(self.without_until(messages)..);
        let last = messages.last();
        let (true, Some(last)) = (is_refusal && sent.is_some_and(has_reasoning), last) else {
            return Err(error);
        };
        // Without the service's message, which may quote the conversation: it is unknown here whether that may be
        // logged.
        tracing::warn!(
            error = %error.kind,
            "the service refuses earlier reasoning: the conversation continues without it"
        );
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|message| message.strong_count() > 0);
        if refused.len() >= MOST_REFUSED {
            refused.remove(0);
        }
        refused.push(Arc::downgrade(last));
        Ok(())
    }
}

fn has_reasoning(messages: &[Arc<Message>]) -> bool {
    messages.iter().any(|message| match &**message {
        Message::Assistant(message) => message
            .parts
            .iter()
            .any(|part| matches!(part, Part::Reasoning(_))),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use neuraxis_core::{AssistantMessage, ReasoningPart, Transcript};

    use super::*;

    fn refused() -> RefusedReasoning {
        RefusedReasoning::new(&["cannot be verified"])
    }

    fn conversation() -> Transcript {
        let thought = Message::Assistant(AssistantMessage {
            parts: vec![Part::Reasoning(ReasoningPart::default())],
            model: None,
        });
        [Message::user("a"), thought, Message::user("b")]
            .into_iter()
            .collect()
    }

    fn refusal() -> LlmError {
        let said = "What was thought cannot be VERIFIED";
        LlmError::new(LlmErrorKind::BadRequest, said)
    }

    #[test]
    fn a_refusal_is_learned_once_and_only_for_its_conversation() {
        let (refused, one, other) = (refused(), conversation(), conversation());
        assert_eq!(refused.record(refusal(), one.messages()), Ok(()));
        assert_eq!(refused.without_until(one.messages()), 3);
        assert_eq!(refused.without_until(other.messages()), 0);
        assert_eq!(refused.record(refusal(), one.messages()), Err(refusal()));
        let mut longer = one.clone();
        for message in other.messages() {
            longer.push(Arc::clone(message));
        }
        assert_eq!(refused.without_until(longer.messages()), 3);
        assert_eq!(refused.record(refusal(), longer.messages()), Ok(()));
        assert_eq!(refused.without_until(longer.messages()), 6);
    }

    #[test]
    fn other_errors_are_returned_unchanged() {
        let refused = refused();
        let other = LlmError::new(LlmErrorKind::BadRequest, "too many tokens");
        let messages = conversation();
        let learned = refused.record(other.clone(), messages.messages());
        assert_eq!(learned, Err(other));
        let nothing_thought: Transcript = [Message::user("a")].into_iter().collect();
        assert_eq!(
            refused.record(refusal(), nothing_thought.messages()),
            Err(refusal())
        );
        assert_eq!(refused.without_until(messages.messages()), 0);
    }
}
