//! What a model thought, on its way back to it: whose it is, and what is done where the service takes it no longer.
//!
//! A block of thinking is signed, and goes back to the model that gave it exactly as it came, or not at all.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use neuraxis_core::{LlmError, LlmErrorKind, Message, ModelRef, Part, ProviderState};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Words by which the service refuses thinking in a conversation: its signature was made for another one, for example
/// since a prompt or the tools are not those of then. Or it misses some at the beginning of a turn, and wants it without any.
const REFUSALS: [&str; 5] = [
    "invalid `signature`",
    "invalid signature",
    "bound to a different conversation",
    "blocks in the latest assistant message cannot be modified",
    "expected `thinking`",
];

/// How many conversations are remembered whose thinking was refused.
const MOST_REFUSED: usize = 64;

/// Whether what a model thinks in its reply goes back to it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewThinking {
    /// With all later requests of the conversation, as the service wants it.
    GoesBack,
    /// It was thought about words that stand in that one request alone, and the service would refuse it.
    StaysOut,
}

/// What is kept beside a block: whose it is, and the block itself where it is nothing but sealed data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BlockState<'a> {
    provider: Cow<'a, str>,
    /// The model that was asked; what it calls itself may be longer.
    model: Cow<'a, str>,
    /// The block as it came and goes back, of a kind that has no text of its own.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<&'a RawValue>,
}

impl<'a> BlockState<'a> {
    pub(crate) fn new(model: &'a ModelRef, block: Option<&'a RawValue>) -> Self {
        Self {
            provider: (&*model.provider).into(),
            model: (&*model.model).into(),
            block,
        }
    }

    /// Reads what was kept beside a block, if this model gave it.
    pub(crate) fn read(state: &'a ProviderState, model: &ModelRef) -> Option<Self> {
        let state: Self = serde_json::from_str(state.as_str()).ok()?;
        let is_ours = *state.provider == *model.provider && *state.model == *model.model;
        is_ours.then_some(state)
    }

    /// Writes it down; nothing only if it cannot be written.
    pub(crate) fn written(&self) -> Option<ProviderState> {
        ProviderState::encode(self).ok()
    }
}

/// The conversations whose thinking the service refused: it is not sent again, and the conversation goes on without.
///
/// They are known by their last message that was sent then. What comes after it was thought about the conversation as it
/// stands, and goes back as ever.
#[derive(Debug, Default)]
pub(crate) struct RefusedThinking(Mutex<Vec<Weak<Message>>>);

impl RefusedThinking {
    /// Returns up to how many of these messages no thinking is sent.
    pub(crate) fn without_until(&self, messages: &[Arc<Message>]) -> usize {
        let refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Takes note of a refusal, and makes of it an error after which the same request may succeed: it will be sent without
    /// thinking. Any other error stays what it is, and so does a second refusal.
    pub(crate) fn learn(&self, error: LlmError, messages: &[Arc<Message>]) -> LlmError {
        let said = error.message.to_ascii_lowercase();
        let is_refusal = error.kind == LlmErrorKind::BadRequest
            && REFUSALS.iter().any(|words| said.contains(words));
        let sent = messages.get(self.without_until(messages)..);
        let last = messages.last();
        let (true, Some(last)) = (is_refusal && sent.is_some_and(has_thinking), last) else {
            return error;
        };
        tracing::warn!("the service refuses earlier thinking: the conversation goes on without it");
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|message| message.strong_count() > 0);
        if refused.len() >= MOST_REFUSED {
            refused.remove(0);
        }
        refused.push(Arc::downgrade(last));
        let said = format!(
            "the service refuses earlier thinking, which is left out from now on: {}",
            error.message
        );
        LlmError::new(LlmErrorKind::server(None), said)
    }
}

fn has_thinking(messages: &[Arc<Message>]) -> bool {
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

    #[test]
    fn what_another_model_gave_is_not_read() {
        let model = ModelRef::new("anthropic", "claude-opus-5-5");
        let state = BlockState::new(&model, None).written().unwrap();
        assert_eq!(
            state.as_str(),
            r#"{"provider":"anthropic","model":"claude-opus-5-5"}"#
        );
        assert!(BlockState::read(&state, &model).is_some());
        for other in [
            ModelRef::new("anthropic", "claude-opus-5"),
            ModelRef::new("openai", "claude-opus-5-5"),
        ] {
            assert!(BlockState::read(&state, &other).is_none(), "{other}");
        }
        let foreign = ProviderState::from_text("{\"item\":1}");
        assert!(BlockState::read(&foreign, &model).is_none());
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
        let said = "Invalid signature: bound to a different conversation";
        LlmError::new(LlmErrorKind::BadRequest, said)
    }

    #[test]
    fn a_refusal_is_learned_once_and_for_its_conversation_alone() {
        let (refused, one, other) = (RefusedThinking::default(), conversation(), conversation());
        let error = refused.learn(refusal(), one.messages());
        assert!(error.is_retryable(), "{error}");
        assert_eq!(refused.without_until(one.messages()), 3);
        assert_eq!(refused.without_until(other.messages()), 0);
        assert_eq!(refused.learn(refusal(), one.messages()), refusal());
        let mut longer = one.clone();
        for message in other.messages() {
            longer.push(Arc::clone(message));
        }
        assert_eq!(refused.without_until(longer.messages()), 3);
        assert!(refused.learn(refusal(), longer.messages()).is_retryable());
        assert_eq!(refused.without_until(longer.messages()), 6);
    }

    #[test]
    fn other_errors_stay_what_they_are() {
        let refused = RefusedThinking::default();
        let other = LlmError::new(LlmErrorKind::BadRequest, "max_tokens: too many");
        let messages = conversation();
        assert_eq!(refused.learn(other.clone(), messages.messages()), other);
        let no_thinking: Transcript = [Message::user("a")].into_iter().collect();
        assert_eq!(refused.learn(refusal(), no_thinking.messages()), refusal());
        assert_eq!(refused.without_until(messages.messages()), 0);
    }
}
