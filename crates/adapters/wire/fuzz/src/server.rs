//! A loopback server that returns the most recently set answer. It keeps no requests, so it can run for days.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A loopback server that lives as long as the process.
pub(crate) struct Server {
    answer: Arc<Mutex<Vec<Vec<u8>>>>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(Mutex::new(Vec::new()));
        let given = Arc::clone(&answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let given = Arc::clone(&given);
                std::thread::spawn(move || serve(stream, &given));
            }
        });
        Self { answer, url }
    }

    /// Answers with a stream of events in pieces.
    pub(crate) fn events<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut writes = vec![head.to_vec()];
        writes.extend(pieces.map(|piece| {
            let size = format!("{:x}\r\n", piece.len());
            [size.as_bytes(), piece, b"\r\n"].concat()
        }));
        writes.push(b"0\r\n\r\n".to_vec());
        *self.answer.lock().unwrap() = writes;
    }

    /// Answers with a whole body, under a status and with extra headers, each including its line ending.
    pub(crate) fn whole(&self, status: u16, headers: &str, body: &[u8]) {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\n\r\n");
        *self.answer.lock().unwrap() = vec![[head.as_bytes(), body].concat()];
    }
}

/// Answers the requests of a connection until it ends.
fn serve(mut stream: TcpStream, answer: &Mutex<Vec<Vec<u8>>>) {
    let _ = stream.set_nodelay(true);
    while request(&mut stream).is_some() {
        let writes = answer.lock().unwrap().clone();
        if writes.iter().any(|bytes| stream.write_all(bytes).is_err()) {
            return;
        }
    }
}

/// Reads a request; `None` once the client is done.
fn request(stream: &mut TcpStream) -> Option<()> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let size = stream.read(&mut piece).ok().filter(|size| *size > 0)?;
        bytes.extend_from_slice(&piece[..size]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map_or(0, |length| length.trim().parse().unwrap());
        if bytes.len() >= end + 4 + length {
            return Some(());
        }
    }
}
