//! Converts lines to exchanges.

mod block;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use neuraxis_core::{Message, NotUtf8, ToolSpec};
use serde::Deserialize;

use self::block::Block;
use super::line::{ExchangeLine, Line};
use super::{VERSION, most_shared};
use crate::error::CassetteError;
use crate::exchange::{Ended, Exchange, Header};
use crate::redact::Redactor;

/// The error for a line of an exchange that has not begun.
const NO_EXCHANGE: &str = "expected the start of an exchange before this line";

/// The beginnings of lines that version control inserts for merge conflicts.
const CONFLICT_MARKS: [&[u8]; 4] = [b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>"];

/// The byte order mark of UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The error for such a line.
const CONFLICT: &str = "unresolved merge conflict";

/// The maximum number of characters of a parser's error that are repeated.
const MAX_REASON_CHARS: usize = 200;

/// Reads a file's bytes. The exchanges are returned in the order in which they began.
pub(crate) fn read(
    file: &Path,
    bytes: &[u8],
    max_bytes: u64,
) -> Result<(Header, Vec<Exchange>), CassetteError> {
    let mut reader = Reader {
        file: file.to_owned(),
        line: 0,
        block: None,
        exchanges: Vec::new(),
        numbers: BTreeSet::new(),
        requests: BTreeMap::new(),
        left: most_shared(max_bytes),
    };
    // Some editors begin a file with a byte order mark, which is not valid JSON.
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let header = reader.header(lines.next().unwrap_or_default())?;
    reader.lines(lines)?;
    let mut exchanges = reader.exchanges;
    exchanges.sort_by_key(|exchange| exchange.number);
    Ok((header, exchanges))
}

/// The beginning of the first line, in a form that every version of the format keeps.
#[derive(Deserialize)]
struct AnyVersion {
    cassette: AnyHeader,
}

#[derive(Deserialize)]
struct AnyHeader {
    version: u32,
}

/// The request of an exchange that was read, for later ones that share parts of it.
struct ReadRequest {
    messages: Vec<SizedMessage>,
    tools: Arc<[ToolSpec]>,
}

/// A message and the number of bytes it adds each time it is shared.
#[derive(Clone)]
struct SizedMessage {
    message: Arc<Message>,
    bytes: usize,
}

struct Reader {
    file: PathBuf,
    line: usize,
    block: Option<Block>,
    exchanges: Vec<Exchange>,
    numbers: BTreeSet<u32>,
    requests: BTreeMap<u32, ReadRequest>,
    /// How many more bytes may be shared.
    left: usize,
}

impl Reader {
    fn header(&mut self, line: &[u8]) -> Result<Header, CassetteError> {
        self.line = 1;
        if is_conflict(line) {
            return Err(self.malformed(CONFLICT));
        }
        if let Some(other) = NotUtf8::by_mark(line) {
            return Err(self.malformed(&format!("{other}; save it as UTF-8")));
        }
        let file = self.file.clone();
        let any: AnyVersion =
            serde_json::from_slice(line).map_err(|_| CassetteError::NotACassette { file })?;
        let found = any.cassette.version;
        if found > VERSION {
            return Err(CassetteError::NewerVersion {
                file: self.file.clone(),
                found,
                ours: VERSION,
            });
        }
        match serde_json::from_slice(line).map_err(|error| self.unreadable(&error))? {
            Line::Cassette {
                recorded_at,
                recorded_by,
                not_captured,
                ..
            } => Ok(Header {
                recorded_at,
                recorded_by,
                not_captured,
            }),
            _ => Err(CassetteError::NotACassette {
                file: self.file.clone(),
            }),
        }
    }

    fn lines<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> Result<(), CassetteError> {
        for text in lines {
            self.line += 1;
            if text.trim_ascii().is_empty() {
                continue;
            }
            let line = match serde_json::from_slice(text) {
                Ok(line) => line,
                Err(_) if is_conflict(text) => return Err(self.malformed(CONFLICT)),
                // Only the last line can lack a line break, and only in a file that was truncated or edited by hand.
                Err(_) if !text.ends_with(b"\n") => return Err(self.truncated()),
                Err(error) => return Err(self.unreadable(&error)),
            };
            self.process_line(line, text.len())?;
        }
        match self.block {
            Some(_) => Err(self.truncated()),
            None => Ok(()),
        }
    }

    fn process_line(&mut self, line: Line, bytes: usize) -> Result<(), CassetteError> {
        match line {
            Line::Cassette { .. } => Err(self.malformed("duplicate first line")),
            Line::Exchange(head) => self.begin(head),
            Line::Done { ms, how } => self.end(ms, how),
            line => {
                let Some(block) = &mut self.block else {
                    return Err(self.malformed(NO_EXCHANGE));
                };
                let taken = block.process_line(line, bytes);
                taken.map_err(|reason| self.malformed(reason))
            }
        }
    }

    fn begin(&mut self, head: ExchangeLine) -> Result<(), CassetteError> {
        if self.block.is_some() {
            let reason = format!(
                "exchange {} begins before the previous one is done",
                head.number
            );
            return Err(self.malformed(&reason));
        }
        if !self.numbers.insert(head.number) {
            return Err(self.malformed(&format!("duplicate exchange {}", head.number)));
        }
        let mut messages = Vec::new();
        if let Some(shared) = &head.messages_from {
            let known = self.requests.get(&shared.exchange);
            let known = known.and_then(|known| known.messages.get(..shared.count));
            let Some(known) = known else {
                let (from, count) = (shared.exchange, shared.count);
                return Err(self.malformed(&format!(
                    "exchange {from} with at least {count} messages does not exist above"
                )));
            };
            let bytes = known.iter().map(|weighed| weighed.bytes).sum();
            let Some(left) = self.left.checked_sub(bytes) else {
                return Err(self.malformed(
                    "the requests up to here are too large, counting the content they share",
                ));
            };
            messages = known.to_vec();
            self.left = left;
        }
        let mut tools = None;
        if let Some(from) = head.tools_from {
            let Some(known) = self.requests.get(&from) else {
                return Err(self.malformed(&format!("exchange {from} does not exist above")));
            };
            tools = Some(Arc::clone(&known.tools));
        }
        self.block = Some(Block::new(self.line, head, messages, tools));
        Ok(())
    }

    fn end(&mut self, ms: u64, how: Ended) -> Result<(), CassetteError> {
        let Some(block) = self.block.take() else {
            return Err(self.malformed(NO_EXCHANGE));
        };
        let number = block.number();
        let finished = block.into_exchange(ms, how);
        let (exchange, messages) =
            finished.map_err(|reason| self.malformed_in(Some(number), reason))?;
        let tools = Arc::clone(&exchange.request.tools);
        self.requests
            .insert(number, ReadRequest { messages, tools });
        self.exchanges.push(exchange);
        Ok(())
    }

    fn truncated(&self) -> CassetteError {
        let last = self.exchanges.last().map_or(0, |exchange| exchange.number);
        let exchange = self
            .block
            .as_ref()
            .map_or(last.saturating_add(1), Block::number);
        CassetteError::Truncated {
            file: self.file.clone(),
            line: self.line,
            exchange,
        }
    }

    /// Describes why a line is not JSON of the format. The parser saw only this line, so its line number is replaced by
    /// the file's.
    fn unreadable(&self, error: &serde_json::Error) -> CassetteError {
        let reason = error.to_string();
        self.malformed(&reason.replace(" at line 1 column ", " at column "))
    }

    fn malformed(&self, reason: &str) -> CassetteError {
        self.malformed_in(self.block.as_ref().map(Block::number), reason)
    }

    fn malformed_in(&self, exchange: Option<u32>, reason: &str) -> CassetteError {
        // A parser's error may quote the line.
        let reason = Redactor::default().text(reason).into_owned();
        CassetteError::Malformed {
            file: self.file.clone(),
            line: self.line,
            exchange,
            reason: reason.chars().take(MAX_REASON_CHARS).collect(),
        }
    }
}

fn is_conflict(line: &[u8]) -> bool {
    CONFLICT_MARKS.iter().any(|mark| line.starts_with(mark))
}
