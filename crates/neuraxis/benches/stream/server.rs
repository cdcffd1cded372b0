//! A loopback server, on a separate thread, that gives each request the same answer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

pub(crate) const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Starts a server that lives as long as the process, and returns its address.
pub(crate) fn start(answer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), Arc::clone(&answer));
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                while request(&mut stream) {
                    answer(&mut stream);
                }
            });
        }
    });
    address
}

/// Sends bytes to a client that stays connected.
pub(crate) fn send(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
}

/// Reads a request. Returns false once the client is done.
fn request(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let Ok(size @ 1..) = stream.read(&mut piece) else {
            return false;
        };
        bytes.extend_from_slice(&piece[..size]);
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some((head, _)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        if bytes.len() >= head.len() + 4 + length {
            return true;
        }
    }
}
