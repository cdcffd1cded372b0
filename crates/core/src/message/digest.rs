//! Hashes messages field by field, without encoding them first.

use sha2::{Digest, Sha256};

use super::{
    AssistantMessage, MediaPart, MediaSource, Message, ModelRef, Part, ReasoningPart, TextPart,
    ToolCall, ToolMessage,
};
use crate::json::{ContentHash, JsonText};

impl Message {
    /// Returns the hash of a conversation that had the hash `before` and continues with this message.
    ///
    /// It is the SHA-256 of the previous hash and of the message's fields in order. A string is hashed as its length in
    /// bytes (64 bits, little-endian) and its bytes; a list as its length and its items; an enum as the number of the
    /// variant, from 0, in one byte; an optional value as one byte 0, or one byte 1 and the value. So no two messages
    /// have the same encoding.
    pub(crate) fn hash_after(&self, before: ContentHash) -> ContentHash {
        let mut fields = Fields(Sha256::new_with_prefix(before.as_bytes()));
        fields.message(self);
        ContentHash::from_digest(fields.0.finalize().into())
    }
}

struct Fields(Sha256);

impl Fields {
    fn choice(&mut self, option: u8) {
        self.0.update([option]);
    }

    fn length(&mut self, length: usize) {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.0.update(length.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.update(text);
    }

    fn optional(&mut self, text: Option<&str>) {
        self.choice(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::System { text } => {
                self.choice(0);
                self.text(text);
            }
            Message::User { parts } => {
                self.choice(1);
                self.parts(parts);
            }
            Message::Assistant(AssistantMessage { parts, model }) => {
                self.choice(2);
                self.parts(parts);
                self.choice(u8::from(model.is_some()));
                if let Some(ModelRef { provider, model }) = model {
                    self.text(provider);
                    self.text(model);
                }
            }
            Message::Tool(ToolMessage {
                tool_call_id,
                name,
                content,
                media,
            }) => {
                self.choice(3);
                self.text(tool_call_id.as_str());
                self.text(name);
                self.text(content.as_str());
                // Most messages have no media, and their hashes must not change from before media existed.
                if !media.is_empty() {
                    self.length(media.len());
                    media.iter().for_each(|part| self.media(part));
                }
            }
        }
    }

    fn parts(&mut self, parts: &[Part]) {
        self.length(parts.len());
        for part in parts {
            match part {
                Part::Text(TextPart { text, state }) => {
                    self.choice(0);
                    self.text(text);
                    self.optional(state.as_ref().map(JsonText::as_str));
                }
                Part::Reasoning(reasoning) => {
                    self.choice(1);
                    self.reasoning(reasoning);
                }
                Part::ToolCall(call) => {
                    self.choice(2);
                    self.call(call);
                }
                Part::Media(part) => {
                    self.choice(3);
                    self.media(part);
                }
            }
        }
    }

    fn media(&mut self, MediaPart { media_type, source }: &MediaPart) {
        self.text(media_type);
        let (option, text) = match source {
            MediaSource::Base64(content) => (0, content.as_ref()),
            MediaSource::Url(address) => (1, address.as_str()),
        };
        self.choice(option);
        self.text(text);
    }

    fn reasoning(&mut self, reasoning: &ReasoningPart) {
        let ReasoningPart {
            index,
            text,
            id,
            signature,
            state,
        } = reasoning;
        self.0.update(index.0.to_le_bytes());
        self.text(text);
        self.optional(id.as_deref());
        self.optional(signature.as_deref());
        self.optional(state.as_ref().map(JsonText::as_str));
    }

    fn call(&mut self, call: &ToolCall) {
        let ToolCall {
            id,
            name,
            arguments,
            provider_id,
            state,
        } = call;
        self.text(id.as_str());
        self.text(name);
        self.text(arguments.as_str());
        self.optional(provider_id.as_deref());
        self.optional(state.as_ref().map(JsonText::as_str));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ids::{BlockIndex, ToolCallId};

    fn hash(message: &Message) -> [u8; 32] {
        *message.hash_after(ContentHash::EMPTY).as_bytes()
    }

    fn assistant(parts: Vec<Part>) -> Message {
        let model = None;
        Message::Assistant(AssistantMessage { parts, model })
    }

    fn plain() -> Vec<Message> {
        let texts = ["a", "ab"];
        let messages = texts.map(|text| {
            [
                Message::system(text),
                Message::user(text),
                Message::assistant(text),
            ]
        });
        messages.concat()
    }

    fn assistants() -> Vec<Message> {
        let by = |provider: &str, model: &str| {
            let model = Some(ModelRef::new(provider, model));
            let parts = Vec::new();
            Message::Assistant(AssistantMessage { parts, model })
        };
        let (text, state) = ("a".to_owned(), Some(JsonText::from_text("1")));
        vec![
            assistant(vec![]),
            assistant(vec![Part::text("a"), Part::text("b")]),
            assistant(vec![Part::text("ab"), Part::text("")]),
            assistant(vec![Part::Text(TextPart { text, state })]),
            by("a", "b"),
            by("ab", ""),
        ]
    }

    fn thoughts() -> Vec<Message> {
        let mut thoughts = vec![ReasoningPart::default(); 6];
        thoughts[1].index = BlockIndex(1);
        thoughts[2].text = "x".to_owned();
        thoughts[3].id = Some("x".to_owned());
        thoughts[4].signature = Some("x".to_owned());
        thoughts[5].state = Some(JsonText::from_text("x"));
        let messages = thoughts.into_iter();
        messages
            .map(|thought| assistant(vec![Part::Reasoning(thought)]))
            .collect()
    }

    fn calls() -> Vec<Message> {
        let call = ToolCall {
            id: ToolCallId::from_text("c"),
            name: "n".into(),
            arguments: JsonText::from_text("{}"),
            provider_id: None,
            state: None,
        };
        let mut calls = vec![call; 6];
        calls[1].id = ToolCallId::from_text("d");
        calls[2].name = "m".into();
        calls[3].arguments = JsonText::from_text("[]");
        calls[4].provider_id = Some("x".into());
        calls[5].state = Some(JsonText::from_text("x"));
        let messages = calls.into_iter();
        messages
            .map(|call| assistant(vec![Part::ToolCall(call)]))
            .collect()
    }

    fn others() -> Vec<Message> {
        let media = |media_type: &str, source| {
            let media_type = media_type.to_owned();
            assistant(vec![Part::Media(MediaPart { media_type, source })])
        };
        let tool_with = |id: &str, name: &str, content: &str, media| {
            Message::Tool(ToolMessage {
                tool_call_id: ToolCallId::from_text(id),
                name: name.into(),
                content: JsonText::from_text(content),
                media,
            })
        };
        let tool = |id, name, content| tool_with(id, name, content, Vec::new());
        let image = |content: &str| MediaPart::embedded("image/png", content);
        vec![
            media("a", MediaSource::Url("u".to_owned())),
            media("b", MediaSource::Url("u".to_owned())),
            media("a", MediaSource::Base64("u".into())),
            tool("c", "n", "{}"),
            tool("d", "n", "{}"),
            tool("c", "m", "{}"),
            tool_with("c", "n", "{}", vec![image("u")]),
            tool_with("c", "n", "{}", vec![image("v")]),
            tool_with("c", "n", "{}", vec![image("u"), image("v")]),
            tool("c", "n", "[]"),
        ]
    }

    #[test]
    fn every_field_of_a_message_changes_its_hash() {
        let messages = [plain(), assistants(), thoughts(), calls(), others()].concat();
        let hashes: BTreeSet<_> = messages.iter().map(hash).collect();
        assert_eq!(hashes.len(), messages.len());
    }

    #[test]
    fn the_previous_hash_changes_the_next_one() {
        let message = Message::user("a");
        let once = message.hash_after(ContentHash::EMPTY);
        assert_ne!(message.hash_after(once), once);
    }

    #[test]
    fn the_hash_is_computed_as_documented() {
        let mut bytes = ContentHash::EMPTY.as_bytes().to_vec();
        bytes.extend([0]);
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend(b"hi");
        let expected = ContentHash::of(&bytes);
        assert_eq!(
            Message::system("hi").hash_after(ContentHash::EMPTY),
            expected
        );
    }
}
