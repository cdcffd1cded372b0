//! The size of a conversation and of its tool definitions, in tokens: as measured by the provider, plus an estimate of
//! what is new since then.

use std::ops::Range;
use std::sync::Arc;

use crate::message::{Message, Part};
use crate::spec::AgentSpec;
use crate::transcript::{Transcript, last_user_message};

/// Assumed bytes per token until a provider reports otherwise: English text in common tokenizers.
const BYTES_PER_TOKEN: u64 = 4;

/// Overhead of every message beside its text: role and separators.
const TOKENS_PER_MESSAGE: u64 = 4;

/// Assumed tokens of an image or a file until a provider reports otherwise.
const TOKENS_PER_MEDIA: u64 = 1_000;

/// Measures a conversation, estimating only what is new since the provider last reported its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::run) struct Gauge {
    /// The tokens of the first `messages` messages.
    tokens: u64,
    messages: usize,
    /// The bytes of these messages.
    bytes: u64,
    /// The number of images and files in these messages.
    media: u64,
    /// The size of the tool definitions at the provider's last report, in tokens and in bytes.
    definitions: (u64, u64),
    /// The ratio of tokens to bytes at the last report about text alone, including definitions; zero before any report.
    learned: (u64, u64),
    /// The ratio of tokens to images and files at the last report that included some; zero before that.
    learned_media: (u64, u64),
    /// Whether reasoning before the last user message is not sent.
    drops_reasoning: bool,
}

impl Gauge {
    /// Creates a gauge that knows only what the agent's models are sent.
    pub(in crate::run) fn of(spec: &AgentSpec) -> Self {
        Self {
            drops_reasoning: spec.drops_reasoning,
            ..Self::default()
        }
    }

    /// Notes a provider's report on the current conversation together with definitions of this many bytes.
    pub(in crate::run) fn note_measured(
        &mut self,
        tokens: u64,
        definitions: u64,
        transcript: &Transcript,
    ) {
        self.count(transcript);
        // Both get a share by their bytes. Attributing everything to the conversation would make a short one look far
        // too large.
        let bytes = self.bytes.saturating_add(definitions);
        if self.media == 0 {
            self.learned = (tokens, bytes);
        } else {
            // The estimate for text stays as learned. Including the tokens of images would make all text look far too
            // large.
            let text = self.tokens_of_bytes(bytes);
            self.learned_media = (tokens.saturating_sub(text), self.media);
        }
        let share = self.tokens_of_bytes(definitions).min(tokens);
        self.definitions = (share, definitions);
        self.tokens = tokens.saturating_sub(share);
    }

    /// Notes that a provider reported nothing: the current messages are not estimated again.
    pub(in crate::run) fn note_estimated(&mut self, transcript: &Transcript) {
        self.tokens = self.estimate(transcript);
        self.count(transcript);
    }

    /// Notes that the conversation was cut: from now on, all of it is estimated with the learned ratios.
    pub(super) fn note_cut(&mut self, transcript: &Transcript) {
        self.tokens = self.tokens_of(transcript.messages());
        (self.messages, self.bytes, self.media) = (0, 0, 0);
        self.count(transcript);
    }

    /// Estimates the tokens of the current conversation, without the tool definitions.
    pub(in crate::run) fn estimate(&self, transcript: &Transcript) -> u64 {
        let new = self.messages..transcript.len();
        self.tokens
            .saturating_add(self.tokens_of_part(transcript.messages(), new))
    }

    /// Estimates the tokens of definitions of this many bytes.
    pub(in crate::run) fn tokens_of_definitions(&self, bytes: u64) -> u64 {
        let (tokens, had) = self.definitions;
        tokens.saturating_add(self.tokens_of_bytes(bytes.saturating_sub(had)))
    }

    /// Estimates the tokens of messages.
    pub(in crate::run) fn tokens_of(&self, messages: &[Arc<Message>]) -> u64 {
        self.tokens_of_part(messages, 0..messages.len())
    }

    /// Estimates the tokens of some messages of a conversation.
    pub(super) fn tokens_of_part(&self, conversation: &[Arc<Message>], part: Range<usize>) -> u64 {
        let Range { start, end } = part;
        let messages = self.bytes_from(conversation, start);
        let messages = messages.take(end.saturating_sub(start));
        let tokens = messages.map(|(message, bytes)| {
            self.tokens_of_bytes(bytes)
                .saturating_add(TOKENS_PER_MESSAGE)
                .saturating_add(self.tokens_of_media(media(message)))
        });
        tokens.fold(0, u64::saturating_add)
    }

    /// Estimates the tokens of a message's reasoning, as far as it is sent.
    pub(super) fn tokens_of_reasoning(&self, conversation: &[Arc<Message>], place: usize) -> u64 {
        let is_dropped = self.drops_reasoning
            && last_user_message(conversation).is_some_and(|user| place < user);
        let message = conversation.get(place).filter(|_| !is_dropped);
        self.tokens_of_bytes(message.map_or(0, |message| reasoning_bytes(message)))
    }

    /// Estimates the tokens of a user message with one text part.
    pub(in crate::run) fn tokens_of_user(&self, text: &str) -> u64 {
        self.tokens_of_text(text).saturating_add(TOKENS_PER_MESSAGE)
    }

    /// Estimates the tokens of this many bytes without any report by a provider.
    pub(in crate::run) fn tokens_of_new(bytes: usize) -> u64 {
        u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .div_ceil(BYTES_PER_TOKEN)
    }

    pub(super) fn tokens_of_text(&self, text: &str) -> u64 {
        self.tokens_of_bytes(length(text))
    }

    fn tokens_of_bytes(&self, bytes: u64) -> u64 {
        let (tokens, had) = self.learned;
        if tokens == 0 || had == 0 {
            return bytes.div_ceil(BYTES_PER_TOKEN);
        }
        // Between 1 and 8 bytes per token, whatever a provider claims.
        let tokens = tokens.clamp(had / 8 + 1, had);
        bytes.saturating_mul(tokens).div_ceil(had)
    }

    const fn tokens_of_media(&self, count: u64) -> u64 {
        let (tokens, had) = self.learned_media;
        if tokens == 0 || had == 0 {
            return count.saturating_mul(TOKENS_PER_MEDIA);
        }
        count.saturating_mul(tokens).div_ceil(had)
    }

    /// Counts bytes, images and files of the new messages.
    fn count(&mut self, transcript: &Transcript) {
        for (message, bytes) in self.bytes_from(transcript.messages(), self.messages) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.media = self.media.saturating_add(media(message));
        }
        self.messages = transcript.len();
    }

    /// Returns the messages of a conversation from an index on, with the bytes of each that are sent.
    fn bytes_from<'a>(
        &self,
        conversation: &'a [Arc<Message>],
        start: usize,
    ) -> impl Iterator<Item = (&'a Message, u64)> + use<'a> {
        let dropped = match self.drops_reasoning {
            true => last_user_message(conversation).unwrap_or(0),
            false => 0,
        };
        let messages = conversation.iter().enumerate().skip(start);
        messages.map(move |(place, message)| {
            let unsent = match place < dropped {
                true => reasoning_bytes(message),
                false => 0,
            };
            (message.as_ref(), bytes(message).saturating_sub(unsent))
        })
    }
}

fn bytes(message: &Message) -> u64 {
    match message {
        Message::System { text } => length(text),
        Message::User { parts } => parts.iter().map(part_bytes).sum(),
        Message::Assistant(assistant) => assistant.parts.iter().map(part_bytes).sum(),
        Message::Tool(tool) => length(tool.content.as_str()),
    }
}

fn reasoning_bytes(message: &Message) -> u64 {
    let Message::Assistant(assistant) = message else {
        return 0;
    };
    let is_reasoning = |part: &&Part| matches!(part, Part::Reasoning(_));
    let reasoning = assistant.parts.iter().filter(is_reasoning);
    reasoning.map(part_bytes).sum()
}

fn part_bytes(part: &Part) -> u64 {
    match part {
        Part::Text(part) => length(&part.text),
        Part::Reasoning(part) => length(&part.text),
        Part::ToolCall(call) => length(&call.name).saturating_add(length(call.arguments.as_str())),
        Part::Media(_) => 0,
    }
}

fn media(message: &Message) -> u64 {
    u64::try_from(message.media().count()).unwrap_or(u64::MAX)
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{MediaPart, MediaSource};

    /// An image beside a text of 400 bytes.
    fn image() -> Message {
        let image = MediaPart {
            media_type: "image/png".to_owned(),
            source: MediaSource::Base64("AAAA".into()),
        };
        let parts = vec![Part::text("x".repeat(400)), Part::Media(image)];
        Message::User { parts }
    }

    fn conversation(messages: usize) -> Transcript {
        let text = "x".repeat(400);
        (0..messages)
            .map(|_| Message::user(text.as_str()))
            .collect()
    }

    #[test]
    fn only_messages_since_the_last_measurement_are_estimated() {
        let mut gauge = Gauge::default();
        assert_eq!(gauge.estimate(&conversation(2)), 2 * 104);
        gauge.note_measured(300, 0, &conversation(2));
        assert_eq!(gauge.estimate(&conversation(2)), 300);
        // 800 bytes were 300 tokens, so the next 400 are 150, plus the overhead of a message.
        assert_eq!(gauge.estimate(&conversation(3)), 300 + 154);
    }

    #[test]
    fn without_measurements_all_messages_are_estimated() {
        let mut gauge = Gauge::default();
        gauge.note_estimated(&conversation(2));
        assert_eq!(gauge.messages, 2);
        assert_eq!(gauge.estimate(&conversation(2)), 2 * 104);
        assert_eq!(gauge.estimate(&conversation(3)), 3 * 104);
        gauge.note_measured(800, 0, &conversation(2));
        assert_eq!(gauge.estimate(&conversation(3)), 800 + 404);
    }

    #[test]
    fn an_impossible_measurement_does_not_distort_the_estimate() {
        let mut gauge = Gauge::default();
        gauge.note_measured(1, 0, &conversation(2));
        assert!(gauge.estimate(&conversation(3)) >= 50);
        gauge.note_measured(u64::MAX, 0, &conversation(2));
        assert_eq!(gauge.estimate(&conversation(3)), u64::MAX);
        assert_eq!(gauge.tokens_of(conversation(1).messages()), 404);
    }

    #[test]
    fn tool_definitions_are_counted_separately_from_the_conversation() {
        let mut gauge = Gauge::default();
        assert_eq!(gauge.tokens_of_definitions(16_000), 4_000);
        assert_eq!(gauge.estimate(&conversation(2)), 2 * 104);
        // 16,800 bytes in all: four per token, as in the conversation.
        gauge.note_measured(4_200, 16_000, &conversation(2));
        assert_eq!(gauge.tokens_of_definitions(16_000), 4_000);
        assert_eq!(gauge.estimate(&conversation(2)), 200);
        assert_eq!(gauge.estimate(&conversation(3)), 200 + 104);
        assert_eq!(
            gauge.tokens_of_definitions(16_400),
            4_100,
            "those that joined since are estimated"
        );
        gauge.note_cut(&conversation(1));
        assert_eq!(gauge.tokens_of_definitions(16_000), 4_000);
        assert_eq!(gauge.estimate(&conversation(1)), 104);
    }

    #[test]
    fn the_two_estimates_add_up_to_the_measured_total() {
        let mut gauge = Gauge::default();
        for tokens in [1, 12, 777, 4_200, 90_000] {
            gauge.note_measured(tokens, 16_001, &conversation(3));
            let parts = gauge.estimate(&conversation(3)) + gauge.tokens_of_definitions(16_001);
            assert_eq!(parts, tokens);
        }
    }

    #[test]
    fn an_image_does_not_inflate_the_estimate_of_text() {
        let mut gauge = Gauge::default();
        let mut said = conversation(2);
        gauge.note_measured(160, 0, &said);
        said.push(image());
        // 1,200 bytes are 240 tokens: five bytes per token, as before the image.
        gauge.note_measured(2_240, 0, &said);
        assert_eq!(gauge.estimate(&said), 2_240);
        assert_eq!(gauge.tokens_of(conversation(1).messages()), 84);
        said.push(image());
        assert_eq!(
            gauge.estimate(&said),
            2_240 + 2_084,
            "another one is taken to be like it"
        );
        gauge.note_cut(&said);
        assert_eq!(gauge.estimate(&said), 4 * 84 + 2 * 2_000);
        gauge.note_cut(&conversation(2));
        gauge.note_measured(400, 0, &conversation(2));
        assert_eq!(gauge.tokens_of(conversation(1).messages()), 204);
    }

    #[test]
    fn an_image_present_from_the_start_leaves_text_estimated_as_usual() {
        let said: Transcript = [image()].into_iter().collect();
        let mut gauge = Gauge::default();
        assert_eq!(gauge.estimate(&said), 1_104);
        gauge.note_measured(1_700, 0, &said);
        assert_eq!(gauge.tokens_of(conversation(1).messages()), 104);
        assert_eq!(gauge.tokens_of(said.messages()), 1_704);
        // From a model that was sent a sentence instead of the image.
        gauge.note_measured(90, 0, &said);
        assert_eq!(gauge.tokens_of(said.messages()), 1_104);
    }

    #[test]
    fn the_learned_ratio_is_kept_when_the_conversation_is_trimmed() {
        let mut gauge = Gauge::default();
        gauge.note_measured(800, 0, &conversation(4));
        gauge.note_cut(&conversation(2));
        assert_eq!(gauge.estimate(&conversation(2)), 2 * 204);
        assert_eq!(gauge.tokens_of(conversation(1).messages()), 204);
    }
}
