//! Tool results that are too long for a model's context: which part a model reads, and what is kept beside the run.
//!
//! A model reads the beginning and the end, around a marker that says how much is cut out and how to read it. In a JSON
//! value, only the long strings are cut, so everything else stays in place. A value that is long without long strings
//! is cut as plain text. Not for cuts by a profile's result rules, which come later and are recorded in full.

mod cut;
mod json;
pub(crate) mod reach;
pub(crate) mod read_output;
mod search;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use neuraxis_core::{JsonText, READ_OUTPUT, ToolCallId};

use cut::{Gap, shortened};

/// The minimum number of bytes for a string that is cut: it must hold the marker, and some text around it.
const LEAST_PIECE: usize = 768;

/// The maximum number of strings that are cut in one value. A value with more is cut as a whole.
const MAX_PIECES: usize = 8;

/// Limits on tool results: how much of one a model reads, and how much of one is kept.
///
/// ```
/// use neuraxis_engine::ResultBounds;
///
/// let bounds = ResultBounds::default();
/// assert_eq!(bounds.max_bytes(), 64 * 1024);
/// let small = ResultBounds::new(8 * 1024, 1024 * 1024);
/// assert_eq!((small.max_bytes(), small.max_kept_bytes()), (8 * 1024, 1024 * 1024));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultBounds {
    max_bytes: usize,
    max_kept_bytes: usize,
}

impl ResultBounds {
    /// The minimum for the first limit: 4 KiB. A model with a small context still gets less of a result.
    pub const MIN_BYTES: usize = 4 * 1024;

    /// Sets both limits. The first is raised to at least [`MIN_BYTES`](Self::MIN_BYTES), the second to at least the
    /// first.
    #[must_use]
    pub fn new(max_bytes: usize, max_kept_bytes: usize) -> Self {
        let max_bytes = max_bytes.max(Self::MIN_BYTES);
        Self {
            max_bytes,
            max_kept_bytes: max_kept_bytes.max(max_bytes),
        }
    }

    /// Returns the maximum size in bytes of a result, as JSON, that a model reads and a record holds. The default is 64
    /// KiB, about 16,000 tokens: an eighth of the smallest context of current models. Together, the results of one
    /// reply's calls have at most one byte per token of context that instructions and tools leave free in their agent's
    /// model, which is about a quarter of that space. They share it equally.
    #[must_use]
    pub const fn max_bytes(self) -> usize {
        self.max_bytes
    }

    /// Returns the maximum size in bytes of a result that is kept beside its run. Of a longer result, the beginning and
    /// the end are kept. The default is 8 MiB: enough for the output of a build or a test, and small enough to be held
    /// in memory while it is stored.
    #[must_use]
    pub const fn max_kept_bytes(self) -> usize {
        self.max_kept_bytes
    }

    /// Returns how many bytes one of a reply's `results` results may have, if the agent's model has `tokens` tokens of
    /// context left. If those are too few for a marker, returns the size of a marker.
    pub(crate) fn for_context(self, tokens: Option<u64>, results: usize) -> usize {
        let all = tokens.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
        let most = all / results.max(1);
        self.max_bytes.min(most).max(LEAST_PIECE)
    }
}

impl Default for ResultBounds {
    fn default() -> Self {
        Self::new(64 * 1024, 8 * 1024 * 1024)
    }
}

/// What happened to the part that is cut out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The part is kept, and the model can read it.
    Readable,
    /// The part is kept, but the model is offered no tool that reads it.
    Kept,
    /// The part is lost, for this reason.
    Gone(&'static str),
}

/// A value that is too long.
#[derive(Debug)]
pub(crate) struct LongResult {
    value: JsonText,
    pieces: Vec<Piece>,
    /// The text to be kept.
    whole: Arc<str>,
    /// The part of it that is not kept.
    dropped: Option<Dropped>,
}

/// A string in a value that is cut.
#[derive(Debug)]
struct Piece {
    /// Its position in the value.
    place: Range<usize>,
    text: String,
    /// Its position in the whole.
    start: usize,
    /// The maximum number of bytes of its replacement.
    most: usize,
}

/// The middle of a whole that is too long to be kept.
#[derive(Debug, Clone, Copy)]
struct Dropped {
    from: usize,
    bytes: usize,
    /// The length of the line that marks the gap.
    note: usize,
}

impl LongResult {
    /// Checks a value; `None` if it is short enough.
    pub(crate) fn of(value: &JsonText, most: usize, most_kept: usize) -> Option<Self> {
        let json = value.as_str();
        if json.len() <= most {
            return None;
        }
        let mut pieces = cut_texts(json, most).unwrap_or_else(|| {
            vec![(
                String::new(),
                Piece {
                    place: 0..json.len(),
                    text: json::laid_out(json),
                    start: 0,
                    most,
                },
            )]
        });
        let are_many = pieces.len() > 1;
        let mut whole = String::new();
        for (path, piece) in &mut pieces {
            if are_many {
                let line = if whole.is_empty() { "" } else { "\n" };
                whole.push_str(&format!("{line}=== {path} ===\n"));
            }
            piece.start = whole.len();
            whole.push_str(&piece.text);
        }
        let dropped = drop_middle(&mut whole, most_kept);
        Some(Self {
            value: value.clone(),
            pieces: pieces.into_iter().map(|(_, piece)| piece).collect(),
            whole: whole.into(),
            dropped,
        })
    }

    /// Returns the text to be kept.
    pub(crate) fn whole(&self) -> Arc<str> {
        Arc::clone(&self.whole)
    }

    /// Returns the shortened value.
    pub(crate) fn value(&self, call: &ToolCallId, fate: Fate) -> JsonText {
        let json = self.value.as_str();
        let (mut text, mut copied) = (String::new(), 0);
        for piece in &self.pieces {
            text.push_str(json.get(copied..piece.place.start).unwrap_or_default());
            let marker = |gap: Gap| self.marker(call, fate, piece.start, gap);
            let shorter = shortened(&piece.text, piece.most, marker);
            text.push_str(JsonText::string(&shorter).as_str());
            copied = piece.place.end;
        }
        text.push_str(json.get(copied..).unwrap_or_default());
        JsonText::from_text(text)
    }

    fn marker(&self, call: &ToolCallId, fate: Fate, start: usize, gap: Gap) -> String {
        let Gap { from, bytes, lines } = gap;
        let what = format!("[{bytes} bytes ({lines} lines) are cut out here");
        let rest = match fate {
            Fate::Readable => {
                let offset = self.kept_at(start + from);
                format!(
                    "; read them with {READ_OUTPUT} {{\"call\":\"{call}\",\"offset\":{offset}}}"
                )
            }
            Fate::Kept => "; no tool here reads what is kept of them; ask for less".to_owned(),
            Fate::Gone(why) => format!(" and not kept, since {why}; ask for less"),
        };
        let dropped = match (fate, self.dropped) {
            (Fate::Gone(_), _) | (_, None) => String::new(),
            (_, Some(dropped)) => format!("; of the middle, {} bytes are not kept", dropped.bytes),
        };
        format!("{what}{rest}{dropped}]")
    }

    /// Converts a position in the whole to a position in what is kept.
    const fn kept_at(&self, place: usize) -> usize {
        match self.dropped {
            Some(dropped) if place >= dropped.from + dropped.bytes => {
                place - dropped.bytes + dropped.note
            }
            Some(dropped) if place > dropped.from => dropped.from,
            _ => place,
        }
    }
}

/// Chooses the strings of a value to cut so that the value has at most `most` bytes, each with its name; `None` if
/// cutting strings is not enough.
fn cut_texts(json: &str, most: usize) -> Option<Vec<(String, Piece)>> {
    let mut texts = json::texts(json, LEAST_PIECE);
    texts.sort_by_key(|text| text.place.len());
    let in_texts: usize = texts.iter().map(|text| text.place.len()).sum();
    let mut room = most.checked_sub(json.len() - in_texts)?;
    let mut left = texts.len();
    let mut pieces = Vec::new();
    for text in texts {
        // Shorter strings leave their unused share to longer ones.
        let share = room / left;
        left -= 1;
        if text.place.len() <= share {
            room -= text.place.len();
            continue;
        }
        room -= share;
        if share < LEAST_PIECE || pieces.len() == MAX_PIECES {
            return None;
        }
        let content = json.get(text.place.clone())?;
        pieces.push((
            text.path,
            Piece {
                text: serde_json::from_str(content).ok()?,
                place: text.place,
                start: 0,
                most: share,
            },
        ));
    }
    pieces.sort_by_key(|(_, piece)| piece.place.start);
    (!pieces.is_empty()).then_some(pieces)
}

/// Removes the middle of a text that is too long to be kept, and puts a line there that says so.
fn drop_middle(whole: &mut String, most: usize) -> Option<Dropped> {
    let too_many = whole.len().checked_sub(most).filter(|it| *it > 0)?;
    // Assumes the maximum number of digits, so the result fits.
    let longest = note(whole.len(), whole.len()).len();
    let from = whole.floor_char_boundary(most.saturating_sub(longest) / 2);
    let to = whole.ceil_char_boundary((from + too_many + longest).min(whole.len()));
    let middle = whole.get(from..to)?;
    let note = note(middle.len(), middle.matches('\n').count());
    whole.replace_range(from..to, &note);
    Some(Dropped {
        from,
        bytes: to - from,
        note: note.len(),
    })
}

fn note(bytes: usize, lines: usize) -> String {
    format!("\n[{bytes} bytes ({lines} lines) are not kept]\n")
}
