//! The messages that processes exchange about live events: short JSON texts.
//!
//! A process of another version may not know all of them: what cannot be read is skipped.

use neuraxis_core::{LiveBody, LiveEvent, RunId};
use serde::{Deserialize, Serialize};

/// A message from one process to others, as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Message {
    /// A process follows runs.
    Wants {
        /// The address of that process.
        reader: String,
        runs: Vec<RunId>,
        /// Whether it must be sent what calls in progress have shown so far.
        anew: bool,
    },
    /// Live events of runs that the sender drives.
    Pieces { pieces: Vec<Piece> },
}

/// A piece of what a call shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The token of the lease under which the run is driven.
    pub(crate) lease: u64,
    /// How much of the call a reader must know already: the bytes of its texts, plus one for each item that begins,
    /// whether text or something else.
    pub(crate) at: u64,
    /// Whether an item begins with it; otherwise it continues the last one.
    pub(crate) begins: bool,
    pub(crate) event: LiveEvent,
}

impl Piece {
    /// Returns how much of the call a reader knows after it.
    pub(crate) fn end(&self) -> u64 {
        let text = text_of(&self.event.body).map_or(0, str::len);
        let text = u64::try_from(text).unwrap_or(u64::MAX);
        self.at
            .saturating_add(u64::from(self.begins))
            .saturating_add(text)
    }
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// The reason why this version does not know it.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// The text before and after the pieces of a message.
const PIECES: (&str, &str) = (r#"{"kind":"pieces","pieces":["#, "]}");

/// The space for the rest of a `Wants` message, without the runs and the reader's address.
const WANTS_BYTES: usize = 64;

/// The space for the id of a run in a message.
const RUN_BYTES: usize = 39;

/// Writes that a process follows runs, in as many messages as needed.
pub(super) fn wants(
    reader: &str,
    runs: &[RunId],
    anew: bool,
    most: usize,
) -> impl Iterator<Item = String> {
    let room = most.saturating_sub(WANTS_BYTES + reader.len());
    let messages = runs.chunks((room / RUN_BYTES).max(1)).map(move |runs| {
        let (reader, runs) = (reader.to_owned(), runs.to_vec());
        serde_json::to_string(&Message::Wants { reader, runs, anew })
    });
    // All of it can be serialized as JSON.
    messages.filter_map(Result::ok)
}

/// Packs pieces into messages, with as many in each as fit.
#[derive(Debug, Default)]
pub(super) struct Batch {
    whole: Vec<String>,
    open: String,
    /// The total size of all pieces in bytes.
    pub(super) bytes: usize,
}

impl Batch {
    /// Adds a piece, cut into several if it is too long. A piece that cannot be cut, which can only be a name of
    /// several kilobytes, is left out; returns `false` then.
    pub(super) fn add(&mut self, piece: Piece, most: usize) -> bool {
        let room = most.saturating_sub(PIECES.0.len() + PIECES.1.len());
        let Ok(text) = serde_json::to_string(&piece) else {
            return false;
        };
        if text.len() <= room {
            self.push(&text, room);
            return true;
        }
        let Some((first, rest)) = halves(piece) else {
            return false;
        };
        self.add(first, most) && self.add(rest, most)
    }

    fn push(&mut self, piece: &str, room: usize) {
        self.bytes += piece.len();
        if !self.open.is_empty() {
            if self.open.len() + 1 + piece.len() <= room {
                self.open.push(',');
                self.open.push_str(piece);
                return;
            }
            self.close();
        }
        self.open.push_str(piece);
    }

    fn close(&mut self) {
        let (before, after) = PIECES;
        let pieces = std::mem::take(&mut self.open);
        self.whole.push(format!("{before}{pieces}{after}"));
    }

    /// Returns the messages, in order.
    pub(super) fn into_messages(mut self) -> Vec<String> {
        if !self.open.is_empty() {
            self.close();
        }
        self.whole
    }
}

/// Cuts a piece of text in two; `None` if it cannot be cut.
fn halves(piece: Piece) -> Option<(Piece, Piece)> {
    let mut first = piece;
    let text = text_mut(&mut first.event.body)?;
    let middle = text.len() / 2;
    let middle = (middle..text.len()).find(|place| text.is_char_boundary(*place))?;
    if middle == 0 {
        return None;
    }
    let rest = text.split_off(middle);
    let mut second = first.clone();
    (second.at, second.begins) = (first.end(), false);
    let offset = u64::try_from(middle).unwrap_or(u64::MAX);
    second.event.offset = second.event.offset.saturating_add(offset);
    if let LiveBody::ToolCallDelta { name, .. } = &mut second.event.body {
        *name = None;
    }
    *text_mut(&mut second.event.body)? = rest;
    Some((first, second))
}

fn text_of(body: &LiveBody) -> Option<&str> {
    match body {
        LiveBody::ReasoningDelta { text }
        | LiveBody::TextDelta { text }
        | LiveBody::ToolOutput { text, .. } => Some(text),
        LiveBody::ToolCallDelta { arguments, .. } => Some(arguments),
        _ => None,
    }
}

fn text_mut(body: &mut LiveBody) -> Option<&mut String> {
    match body {
        LiveBody::ReasoningDelta { text }
        | LiveBody::TextDelta { text }
        | LiveBody::ToolOutput { text, .. } => Some(text),
        LiveBody::ToolCallDelta { arguments, .. } => Some(arguments),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::uuid::Uuid;
    use neuraxis_core::{AgentId, Attempt, BlockIndex, ContentIndex, EffectId, Seq};

    use super::*;

    const RUN: RunId = RunId(Uuid::nil());

    fn piece(body: LiveBody) -> Piece {
        Piece {
            lease: u64::MAX,
            at: 100,
            begins: true,
            event: LiveEvent {
                after: Seq(7),
                content_index: ContentIndex(1),
                run_id: RUN,
                agent: AgentId::ROOT,
                call: EffectId {
                    run: RUN,
                    number: 2,
                },
                attempt: Attempt(1),
                block: BlockIndex(0),
                offset: 10,
                body,
            },
        }
    }

    fn text(text: impl Into<String>) -> Piece {
        let text = text.into();
        piece(LiveBody::TextDelta { text })
    }

    fn read(messages: &[String]) -> Vec<Piece> {
        let read = messages.iter().map(|message| match Message::read(message) {
            Ok(Message::Pieces { pieces }) => pieces,
            other => panic!("{other:?}"),
        });
        read.flatten().collect()
    }

    #[test]
    fn pieces_share_a_message_while_they_fit_and_are_read_back_unchanged() {
        let name = Some("look".into());
        let arguments = "{}".to_owned();
        let pieces = [
            text("one"),
            piece(LiveBody::ToolCallDelta { name, arguments }),
            piece(LiveBody::TextRetracted),
            text("\"\n\u{1}🙂"),
        ];
        for (most, expected) in [(7_900, 1..=1), (700, 2..=4)] {
            let mut batch = Batch::default();
            assert!(pieces.iter().all(|piece| batch.add(piece.clone(), most)));
            let messages = batch.into_messages();
            assert!(expected.contains(&messages.len()), "{messages:?}");
            assert!(messages.iter().all(|message| message.len() <= most));
            assert_eq!(read(&messages), pieces);
        }
    }

    #[test]
    fn long_text_is_split_between_characters_with_continuous_offsets() {
        let long = "é\u{1}🙂".repeat(2_000);
        let mut batch = Batch::default();
        assert!(batch.add(text(long.as_str()), 1_024));
        let messages = batch.into_messages();
        assert!(messages.iter().all(|message| message.len() <= 1_024));
        let mut together = String::new();
        let mut known = 100;
        for piece in read(&messages) {
            assert_eq!(piece.at, known);
            assert_eq!(piece.begins, known == 100);
            known = piece.end();
            assert_eq!(
                piece.event.offset,
                10 + u64::try_from(together.len()).unwrap()
            );
            match piece.event.body {
                LiveBody::TextDelta { text } => together.push_str(&text),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(together, long);
        assert_eq!(known, text(long).end());
    }

    #[test]
    fn a_piece_that_cannot_be_split_is_left_out() {
        let mut batch = Batch::default();
        let name = "x".repeat(2_000);
        let tool_call_id = neuraxis_core::ToolCallId::from_text("c");
        let progress = LiveBody::ToolProgress {
            tool_call_id,
            name,
            icon: None,
            steps: None,
        };
        assert!(!batch.add(piece(progress), 1_024));
        assert!(batch.into_messages().is_empty());
    }

    #[test]
    fn requests_for_many_runs_are_split_into_several_messages() {
        let runs: Vec<RunId> = (0..1_000).map(|id| RunId(Uuid::from_u128(id))).collect();
        let mut read = Vec::new();
        for message in wants("me", &runs, true, 1_024) {
            assert!(message.len() <= 1_024, "{}", message.len());
            match Message::read(&message) {
                Ok(Message::Wants {
                    reader,
                    runs,
                    anew: true,
                }) if reader == "me" => read.extend(runs),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(read, runs);
        assert!(Message::read(r#"{"kind":"of a later version"}"#).is_err());
    }
}
