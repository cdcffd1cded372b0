//! Accepts any HTTP request, answers with success and discards it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anyhow::Result;

/// Starts the receiver, and returns its address.
pub(crate) fn start() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || swallow(stream));
        }
    });
    Ok(format!("http://{address}"))
}

fn swallow(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    let mut taken = Vec::new();
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            return;
        }
        taken.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let Some(length) = whole(&taken) else {
            continue;
        };
        taken.drain(..length);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// Returns the length of a request, once it is complete.
fn whole(request: &[u8]) -> Option<usize> {
    let end = request.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(request.get(..end)?).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length?.trim().parse().ok()?;
    (request.len() >= end + length).then_some(end + length)
}
