//! A client that requests a stream through one of the server's APIs and records how late each delta is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The character before the time in a delta, and the number of digits that follow.
const MARK: u8 = b't';
const DIGITS: usize = 16;

/// Returns the wall-clock time, which all processes share, in microseconds.
pub(crate) fn micros() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(time.as_micros()).unwrap()
}

/// How a stream is requested, and which of its lines are deltas.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Api {
    /// The server's own API, which the reference server answers too.
    Own,
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/responses`.
    Responses,
    /// `/agui`.
    AgUi,
}

impl Api {
    /// Finds an API by name.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "own" => Self::Own,
            "chat" => Self::Chat,
            "responses" => Self::Responses,
            "agui" => Self::AgUi,
            other => panic!("there is no API {other:?}: own, chat, responses, agui"),
        }
    }

    /// Returns its name in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Own => "neuraxis-server",
            Self::Chat => "its `/v1/chat/completions`",
            Self::Responses => "its `/v1/responses`",
            Self::AgUi => "its `/agui`",
        }
    }

    fn path(self, session: usize) -> String {
        match self {
            Self::Own => format!("/api/v1/sessions/s{session}/turns"),
            Self::Chat => "/v1/chat/completions".to_owned(),
            Self::Responses => "/v1/responses".to_owned(),
            Self::AgUi => "/agui".to_owned(),
        }
    }

    fn body(self, session: usize) -> String {
        let said = serde_json::json!([{ "id": "m", "role": "user", "content": "hello" }]);
        let body = match self {
            Self::Own => serde_json::json!({ "message": "hello" }),
            Self::Chat => serde_json::json!({ "messages": said, "stream": true }),
            Self::Responses => serde_json::json!({ "input": "hello", "stream": true }),
            Self::AgUi => serde_json::json!({
                "threadId": format!("t{session}"), "runId": "r", "state": {}, "messages": said, "tools": [],
                "context": [], "forwardedProps": {}
            }),
        };
        body.to_string()
    }

    /// Returns whether a line of data is a delta. `event` is the preceding line that names the event, if there is one.
    /// Complete texts repeated at the end are not counted.
    fn is_delta(self, event: &[u8], line: &[u8]) -> bool {
        let holds = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
        match self {
            // The reference server names no events.
            Self::Own => event.is_empty() || event.starts_with(b"event: text_delta"),
            Self::Chat => holds(b"\"delta\":{\"content\""),
            Self::Responses => event.starts_with(b"event: response.output_text.delta"),
            Self::AgUi => holds(b"TEXT_MESSAGE_CONTENT"),
        }
    }
}

/// Requests a stream, and returns the connection before any of the answer is read.
pub(crate) async fn ask(address: &str, api: Api, session: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (path, body) = (api.path(session), api.body(session));
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Accept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads one stream to its end and returns how late each delta was, in microseconds.
pub(crate) async fn listen(
    address: &str,
    api: Api,
    session: usize,
    received: &AtomicU64,
) -> Vec<u64> {
    let mut stream = ask(address, api, session).await;
    let mut late = Vec::new();
    let mut rest = Vec::new();
    let mut event = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    loop {
        let size = stream.read(&mut piece).await.unwrap();
        if size == 0 {
            return late;
        }
        let now = micros();
        rest.extend_from_slice(&piece[..size]);
        let end = rest.iter().rposition(|byte| *byte == b'\n');
        let lines: Vec<u8> = rest.drain(..end.map_or(0, |end| end + 1)).collect();
        for line in lines.split(|byte| *byte == b'\n') {
            if line.starts_with(b"event: ") {
                event = line.to_vec();
            } else if line.starts_with(b"data: ") && api.is_delta(&event, line) {
                let before = late.len();
                late.extend(times(line).map(|sent| now.saturating_sub(sent)));
                received.fetch_add((late.len() - before) as u64, Ordering::Relaxed);
            }
        }
    }
}

/// Extracts the times from a line.
fn times(line: &[u8]) -> impl Iterator<Item = u64> {
    let marked = line.windows(DIGITS + 1).filter(|word| {
        let is_number = word[1..].iter().all(u8::is_ascii_digit);
        word[0] == MARK && is_number
    });
    marked.map(|word| std::str::from_utf8(&word[1..]).unwrap().parse().unwrap())
}
