//! A conversation as a shared, append-only list of messages.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::json::ContentHash;
use crate::message::{Message, Part};
use crate::texts::SUMMARY_HEADING;

/// A list of messages that is cheap to clone: a model request shares the run's own list instead of copying it.
///
/// Appending copies the list of pointers only if another clone still exists, and never copies the messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Transcript(Arc<Vec<Arc<Message>>>);

impl Transcript {
    /// Adds a message at the end.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        Arc::make_mut(&mut self.0).push(message.into());
    }

    /// Returns the messages, oldest first.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.0
    }

    /// Returns the messages from the given index on.
    #[must_use]
    pub fn since(&self, start: usize) -> &[Arc<Message>] {
        self.0.get(start..).unwrap_or_default()
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text of the last user message, not counting summaries of earlier ones; empty if there is none.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let user = last_of_user(&self.0);
        user.map(|message| message.text()).unwrap_or_default()
    }

    /// Replaces the text of the last user message, not counting summaries of earlier ones; its images and files stay.
    /// Returns its index; if there is no user message, returns `None` and changes nothing.
    pub fn replace_user_text(&mut self, text: &str) -> Option<usize> {
        let place = last_user_message(&self.0)?;
        let message = Arc::make_mut(&mut self.0).get_mut(place)?;
        let media = message.media().cloned().map(Part::Media);
        let parts = std::iter::once(Part::text(text)).chain(media).collect();
        *message = Arc::new(Message::User { parts });
        Some(place)
    }

    /// Removes and returns the messages from the given index on, oldest first.
    pub(crate) fn split_off(&mut self, start: usize) -> Vec<Arc<Message>> {
        if start >= self.0.len() {
            return Vec::new();
        }
        Arc::make_mut(&mut self.0).split_off(start)
    }

    /// Returns count and chained hash of the first messages.
    pub(crate) fn digest_of_first(&self, count: usize) -> PrefixDigest {
        let messages = self.0.iter().take(count);
        messages.fold(PrefixDigest::default(), |digest, message| {
            digest.with(message)
        })
    }

    /// Returns count and chained hash of all messages, which identify the history that a log belongs to.
    #[must_use]
    pub fn digest(&self) -> PrefixDigest {
        self.digest_of_first(self.0.len())
    }
}

impl<M: Into<Arc<Message>>> FromIterator<M> for Transcript {
    fn from_iter<I: IntoIterator<Item = M>>(messages: I) -> Self {
        Self(Arc::new(messages.into_iter().map(Into::into).collect()))
    }
}

/// Returns the last user message, not counting summaries of earlier ones unless there is no other.
#[must_use]
pub fn last_of_user(messages: &[Arc<Message>]) -> Option<&Arc<Message>> {
    messages.get(last_user_message(messages)?)
}

/// Returns the index of the last user message. A summary that replaces messages may come after the question being
/// worked on, so it does not count unless there is no other user message.
pub(crate) fn last_user_message(messages: &[Arc<Message>]) -> Option<usize> {
    let is_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
    let is_own = |message: &Arc<Message>| is_user(message) && !is_summary(message);
    let last = messages.iter().rposition(is_own);
    last.or_else(|| messages.iter().rposition(is_user))
}

/// Returns whether a message is a summary that replaces other messages.
pub(crate) fn is_summary(message: &Message) -> bool {
    let Message::User { parts } = message else {
        return false;
    };
    matches!(parts.first(), Some(Part::Text(part)) if part.text.starts_with(SUMMARY_HEADING))
}

/// Count and chained hash of a sequence of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrefixDigest {
    /// The number of messages.
    pub count: u64,
    /// Their hashes, chained in order.
    pub hash: ContentHash,
}

impl Default for PrefixDigest {
    fn default() -> Self {
        Self {
            count: 0,
            hash: ContentHash::EMPTY,
        }
    }
}

impl PrefixDigest {
    /// Returns the digest after another message.
    #[must_use]
    pub fn with(self, message: &Message) -> Self {
        Self {
            count: self.count.saturating_add(1),
            hash: message.hash_after(self.hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_not_taken_as_the_user_text_unless_nothing_else_exists() {
        let summary = Message::user(format!("{SUMMARY_HEADING}Much was read."));
        let mut transcript: Transcript = [
            Message::user("Is it blue?"),
            summary.clone(),
            Message::assistant("Let me look."),
        ]
        .into_iter()
        .collect();
        assert_eq!(transcript.last_user_text(), "Is it blue?");
        assert_eq!(transcript.replace_user_text("Is it red?"), Some(0));
        assert_eq!(transcript.messages()[0].text(), "Is it red?");
        assert_eq!(*transcript.messages()[1], summary);
        let mut alone: Transcript = [summary.clone()].into_iter().collect();
        assert_eq!(alone.last_user_text(), summary.text());
        assert_eq!(alone.replace_user_text("Is it red?"), Some(0));
    }
}
