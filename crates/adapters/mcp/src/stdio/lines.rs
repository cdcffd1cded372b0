//! Messages as lines over the standard input and output of a server.
//!
//! Each line is checked for its shape before the protocol library sees it: a line that is not a message is dropped with
//! a warning, and an invalid answer fails its call. The number and the size of bad lines are bounded.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::time::timeout_at;

use super::discovery::{Discovery, DiscoveryLate};
use crate::error::unread;
use crate::notices::Notices;
use crate::text::one_line;

/// The maximum size of a message in bytes, including its images in base64.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// The number of bytes kept from each end of a longer line, where the id of the answered request is found.
const END: usize = 1024;

/// The maximum number of consecutive bad lines that are tolerated.
const MAX_BAD_LINES: u32 = 1_000;

/// The maximum number of characters of a bad line that are shown.
const MAX_SHOWN: usize = 120;

/// A transport of lines.
pub(crate) struct Lines {
    notices: Notices,
    stdout: BufReader<ChildStdout>,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    /// The request for the server's protocol versions, if its answer has a time limit.
    discovery: Option<Discovery>,
    /// The part of the line that was read so far. Kept when a read is cancelled.
    line: Vec<u8>,
    /// Whether the line is too long, so only its two ends are kept.
    is_skipping: bool,
    /// The number of bad lines since the last good one.
    bad_lines: u32,
}

/// The fields that any message may have.
#[derive(Deserialize)]
struct Shape {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(default)]
    method: Option<IgnoredAny>,
    #[serde(default)]
    result: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

impl Lines {
    pub(crate) fn new(notices: Notices, stdout: ChildStdout, stdin: ChildStdin) -> Self {
        Self {
            notices,
            stdout: BufReader::new(stdout),
            stdin: Arc::new(Mutex::new(Some(stdin))),
            discovery: None,
            line: Vec::new(),
            is_skipping: false,
            bad_lines: 0,
        }
    }

    /// Limits how long the server may take to say which versions it speaks.
    pub(crate) fn limit_discovery(&mut self, limit: Duration) -> DiscoveryLate {
        let (discovery, late) = Discovery::within(limit);
        self.discovery = Some(discovery);
        late
    }

    /// Reads to the end of a line. Returns `false` at the end of the stream. Only the ends of an overlong line are
    /// kept.
    async fn next_line(&mut self) -> bool {
        loop {
            let Ok(buffer) = self.stdout.fill_buf().await else {
                return false;
            };
            if buffer.is_empty() {
                return false;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let piece = buffer
                .get(..end.unwrap_or(buffer.len()))
                .unwrap_or_default();
            self.line.extend_from_slice(piece);
            self.is_skipping |= self.line.len() > MAX_MESSAGE;
            if self.is_skipping {
                let last = self.line.len().saturating_sub(END).max(END);
                self.line.drain(END..last);
            }
            let taken = piece.len() + usize::from(end.is_some());
            self.stdout.consume(taken);
            if end.is_some() {
                return true;
            }
        }
    }

    /// Parses the line into a message. Returns `None` if it is not one.
    fn message(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if std::mem::take(&mut self.is_skipping) {
            let fault = format!("more than {MAX_MESSAGE} bytes at once");
            self.warn(&format!("it sent {fault}"));
            return Some(failure(answered(&self.line)?, &fault));
        }
        let line = self.line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        let Ok(shape) = serde_json::from_slice::<Shape>(line) else {
            // Redact before cutting: a secret that is cut in two is no longer found.
            let shown = self.notices.secrets.text(&String::from_utf8_lossy(line));
            let shown = one_line(&shown, MAX_SHOWN);
            self.warn(&format!(
                "it wrote something that is not a message of the protocol: {shown}"
            ));
            return None;
        };
        let is_answer = shape.method.is_none();
        let fault = match (shape.result.is_some(), shape.error.is_some()) {
            (true, true) if is_answer => Some("an answer with both a result and an error"),
            (false, false) if is_answer => Some("an answer with neither a result nor an error"),
            _ => None,
        };
        let fault = match fault {
            Some(fault) => fault.to_owned(),
            None => match read(line) {
                Ok(message) => {
                    self.bad_lines = 0;
                    return Some(message);
                }
                Err(error) => format!("a malformed message ({error})"),
            },
        };
        self.warn(&format!("it sent {fault}"));
        // The caller that waits for this answer gets the error.
        let id = shape.id.filter(|_| is_answer)?;
        Some(failure(id, &fault))
    }

    /// Warns of the first bad line, and then less and less often.
    fn warn(&mut self, what: &str) {
        self.bad_lines = self.bad_lines.saturating_add(1);
        if self.bad_lines == 1 {
            self.notices.misbehaves(what);
        } else if self.bad_lines.is_power_of_two() {
            tracing::warn!(server = %self.notices.server, "{}", self.notices.secrets.text(what));
        }
    }
}

/// Parses a message. Lone surrogates, which JavaScript programs produce when they cut a string within a character
/// beyond 16 bits, are invalid elsewhere: each is replaced by U+FFFD.
fn read(line: &[u8]) -> serde_json::Result<RxJsonRpcMessage<RoleClient>> {
    serde_json::from_slice(line).or_else(|error| match without_halves(line) {
        Some(whole) => serde_json::from_slice(&whole),
        None => Err(error),
    })
}

/// Returns JSON with each lone surrogate replaced by `\ufffd`. Returns `None` if there is none.
fn without_halves(json: &[u8]) -> Option<Vec<u8>> {
    let unit_at = |at: usize| {
        let escape = json.get(at..at + 6)?.strip_prefix(br"\u")?;
        u16::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()
    };
    let mut whole = Vec::with_capacity(json.len());
    let (mut at, mut has_any) = (0, false);
    while let Some(byte) = json.get(at) {
        let taken = match unit_at(at) {
            Some(0xd800..=0xdbff) if matches!(unit_at(at + 6), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                whole.extend_from_slice(br"\ufffd");
                has_any = true;
                at += 6;
                continue;
            }
            // Skip the escaped character as well, which may be another backslash.
            _ if *byte == b'\\' => 2,
            _ => 1,
        };
        let end = json.len().min(at + taken);
        whole.extend_from_slice(json.get(at..end).unwrap_or_default());
        at = end;
    }
    has_any.then_some(whole)
}

/// Creates the error that the caller gets for an unusable answer.
fn failure(id: RequestId, fault: &str) -> RxJsonRpcMessage<RoleClient> {
    let fault = format!("the server sent {}", one_line(fault, MAX_SHOWN));
    JsonRpcMessage::error(unread(fault), Some(id))
}

/// Returns the id of the request that an overlong line answers, from the line's two ends: the id comes before or after
/// the result.
fn answered(ends: &[u8]) -> Option<RequestId> {
    let (begin, end) = ends.split_at_checked(END)?;
    let (begin, end) = (String::from_utf8_lossy(begin), String::from_utf8_lossy(end));
    // A match inside a nested value or a string does not form a complete object.
    let before = |key: &str| -> Option<Shape> {
        let (before, _) = begin.split_once(key)?;
        let before = before.trim_end().trim_end_matches(',');
        serde_json::from_str(&format!("{before}}}")).ok()
    };
    let before = before(r#""result":"#).or_else(|| before(r#""error":"#))?;
    if before.method.is_some() {
        return None;
    }
    before.id.or_else(|| {
        let behind = end.get(end.rfind(r#""id":"#)?..)?;
        let behind: Shape = serde_json::from_str(&format!("{{{behind}")).ok()?;
        behind.id
    })
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        if let Some(discovery) = &mut self.discovery {
            discovery.send(&item);
        }
        let stdin = Arc::clone(&self.stdin);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            let Some(stdin) = stdin.as_mut() else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let read = match self.discovery.as_ref().and_then(Discovery::until) {
                Some(until) => timeout_at(until, self.next_line()).await.ok(),
                None => Some(self.next_line().await),
            };
            match read {
                Some(true) => {}
                Some(false) => return None,
                None => return self.discovery.as_mut().and_then(Discovery::refuse),
            }
            let message = self.message();
            self.line.clear();
            let message = message.filter(|message| {
                let discovery = self.discovery.as_mut();
                discovery.is_none_or(|discovery| discovery.accepts(message))
            });
            if message.is_some() {
                return message;
            }
            if self.bad_lines >= MAX_BAD_LINES {
                tracing::warn!(server = %self.notices.server, "it wrote {MAX_BAD_LINES} bad lines in a row: its connection ends");
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        drop(self.stdin.lock().await.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(begin: &str, end: &str) -> Option<RequestId> {
        answered(format!("{begin:x<END$}{end:x>END$}").as_bytes())
    }

    #[test]
    fn the_id_of_an_oversized_answer_is_found_at_either_end() {
        let five = Some(RequestId::Number(5));
        let begun = r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":""#;
        assert_eq!(of(begun, r#""}]}}"#), five);
        let begun = r#" { "id": 5, "error":{"code":1,"data":{"result":""#;
        assert_eq!(of(begun, r#""}}}"#), five);
        let begun = r#"{"result":{"content":[{"type":"text","text":""#;
        assert_eq!(of(begun, r#""}]},"jsonrpc":"2.0","id":5}"#), five);
        assert_eq!(of(begun, r#""}]},"id":5,"jsonrpc":"2.0"}"#), five);
        let of_text = Some(RequestId::String("a".into()));
        assert_eq!(of(begun, r#""}]},"id":"a"}"#), of_text);
    }

    #[test]
    fn only_unpaired_surrogates_are_replaced() {
        let without = |json: &str| {
            let whole = without_halves(json.as_bytes())?;
            Some(String::from_utf8(whole).unwrap())
        };
        for (json, expected) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (
                r#""\uDE00 \ud83d\ud83d\ude00""#,
                r#""\ufffd \ufffd\ud83d\ude00""#,
            ),
            (r#""\\\ud83d\u0041""#, r#""\\\ufffd\u0041""#),
        ] {
            assert_eq!(without(json).as_deref(), Some(expected));
        }
        for whole in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u00e9 é""#, r"\"] {
            assert_eq!(without(whole), None, "{whole}");
        }
    }

    #[test]
    fn an_id_nested_inside_an_answer_is_not_mistaken_for_its_own() {
        let begun = r#"{"result":{"structuredContent":{"id":7,"a":""#;
        assert_eq!(of(begun, r#"","id":7}}}"#), None);
        assert_eq!(of(begun, r#" \"id\":7}"}}}"#), None);
        assert_eq!(of(r#"{"params":{"id":7,"result":""#, r#""}}"#), None);
        let question = r#"{"id":7,"method":"sampling/createMessage","result":""#;
        assert_eq!(of(question, r#""}"#), None);
        assert_eq!(of("noise ", ""), None);
        assert_eq!(answered(b"short"), None);
    }
}
