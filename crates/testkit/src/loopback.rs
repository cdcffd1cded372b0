//! A scripted server on loopback, with scripted faults, that records its requests. The adapters of model servers are
//! tested against it.
//!
//! ```
//! use neuraxis_testkit::loopback::{Act, Answer, Loopback};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let server = Loopback::start(|seen| match seen.body.contains("\"stream\":true") {
//!     true => Answer::open_events([&b"data: {}\n\n"[..]]).then(Act::Stall),
//!     false => Answer::json("{}"),
//! })
//! .await;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert!(server.seen().is_empty());
//! # }
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails if its server does not start or receives invalid HTTP"
)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A server on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct Loopback {
    address: SocketAddr,
    log: Arc<Log>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Log {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    hang_ups: watch::Sender<usize>,
}

/// A received request.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Method and path.
    pub line: String,
    /// The headers as received, in lower case.
    pub headers: String,
    /// The body.
    pub body: String,
}

/// What the server does with a request: acts, in order.
#[derive(Debug, Clone)]
pub struct Answer(Vec<Act>);

/// One act of the server on a connection.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes repeatedly, until the client disconnects.
    Forever(&'static [u8]),
    /// Sends nothing more, until the client disconnects.
    Stall,
    /// Resets the connection.
    Reset,
    /// Closes the connection.
    Close,
}

impl Answer {
    /// Creates an answer with a status and a whole body. `headers` is one or more lines without the last line break;
    /// the content length is added.
    pub fn whole(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        let text =
            format!("HTTP/1.1 {status} x\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{body}");
        Self(vec![Act::Send(text.into_bytes())])
    }

    /// Creates an answer without acts.
    #[must_use]
    pub fn nothing() -> Self {
        Self(Vec::new())
    }

    /// Creates an answer with a whole JSON document.
    pub fn json(body: &str) -> Self {
        Self::whole(200, "content-type: application/json", body)
    }

    /// Creates an answer with a stream of events in pieces, which ends properly.
    pub fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self::open_events(pieces).then(Act::Send(b"0\r\n\r\n".to_vec()))
    }

    /// Creates an answer with the beginning of a stream of events.
    pub fn open_events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let pieces = pieces.into_iter().map(|piece| {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            Act::Send(chunk)
        });
        Self(
            [Act::Send(head.to_vec())]
                .into_iter()
                .chain(pieces)
                .collect(),
        )
    }

    /// Adds the next act.
    #[must_use]
    pub fn then(mut self, act: Act) -> Self {
        self.0.push(act);
        self
    }
}

impl Loopback {
    /// Starts a server on its own port that answers every request with the result of `answer`.
    pub async fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Log {
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            hang_ups: watch::Sender::new(0),
        });
        let answer: Arc<dyn Fn(&Seen) -> Answer + Send + Sync> = Arc::new(answer);
        let task = tokio::spawn(accept(listener, Arc::clone(&log), answer));
        Self { address, log, task }
    }

    /// Returns its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests that were read completely so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.log.seen.lock().unwrap().clone()
    }

    /// Returns how many connections were opened so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }

    /// Waits until a client disconnects in the middle of an answer, for at most ten seconds.
    pub async fn hung_up(&self) {
        let mut hang_ups = self.log.hang_ups.subscribe();
        let waiting = hang_ups.wait_for(|count| *count > 0);
        let waited = tokio::time::timeout(Duration::from_secs(10), waiting).await;
        waited.expect("the client keeps the connection").unwrap();
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    log: Arc<Log>,
    answer: Arc<dyn Fn(&Seen) -> Answer + Send + Sync>,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        log.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve(stream, Arc::clone(&log), Arc::clone(&answer)));
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Log>,
    answer: Arc<dyn Fn(&Seen) -> Answer + Send + Sync>,
) {
    while let Some(seen) = read_request(&mut stream).await {
        let answer = answer(&seen);
        log.seen.lock().unwrap().push(seen);
        for act in answer.0 {
            if !perform(&mut stream, act, &log).await {
                return;
            }
        }
    }
}

/// Performs one act; returns `false` if the connection has ended.
async fn perform(stream: &mut TcpStream, act: Act, log: &Log) -> bool {
    match act {
        Act::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
        Act::Forever(bytes) => {
            while stream.write_all(bytes).await.is_ok() {
                tokio::task::yield_now().await;
            }
            log.hang_ups.send_modify(|count| *count += 1);
            false
        }
        Act::Stall => {
            let mut rest = [0; 64];
            while matches!(stream.read(&mut rest).await, Ok(1..)) {}
            log.hang_ups.send_modify(|count| *count += 1);
            false
        }
        Act::Reset => {
            stream.set_zero_linger().unwrap();
            false
        }
        Act::Close => false,
    }
}

/// Reads a request; `None` if the client is done or does not speak HTTP.
async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        // 0x16 is the first byte of TLS.
        if bytes.first() == Some(&0x16) || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let (line, headers) = text.split_once("\r\n")?;
    let headers = headers.to_ascii_lowercase();
    let length = headers
        .lines()
        .find_map(|header| header.strip_prefix("content-length:"))
        .map_or(0, |length| length.trim().parse().unwrap());
    while bytes.len() < head + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(Seen {
        line: line.trim_end_matches(" HTTP/1.1").to_owned(),
        headers,
        body: String::from_utf8_lossy(&bytes[head + 4..]).into_owned(),
    })
}
