//! One client: asks for a stream, and notes how late each delta is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What stands before the time in a delta, and how many digits follow.
const MARK: u8 = b't';
const DIGITS: usize = 16;

/// Returns the time on the wall, which all processes share, in microseconds.
pub(crate) fn micros() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(time.as_micros()).unwrap()
}

/// Reads one stream to its end and returns how late each delta was, in microseconds.
pub(crate) async fn listen(address: &str, session: usize, heard: &AtomicU64) -> Vec<u64> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = "{\"message\": \"hello\"}";
    let request = format!(
        "POST /api/v1/sessions/s{session}/turns HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Accept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut late = Vec::new();
    let mut rest = Vec::new();
    let mut is_delta = true;
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
            // What is told again at the end, in records, was heard before.
            if line.starts_with(b"event: ") {
                is_delta = line.starts_with(b"event: text_delta");
            } else if line.starts_with(b"data: ") && is_delta {
                let before = late.len();
                late.extend(times(line).map(|sent| now.saturating_sub(sent)));
                heard.fetch_add((late.len() - before) as u64, Ordering::Relaxed);
            }
        }
    }
}

/// Finds the times in a line.
fn times(line: &[u8]) -> impl Iterator<Item = u64> {
    let marked = line.windows(DIGITS + 1).filter(|word| {
        let is_number = word[1..].iter().all(u8::is_ascii_digit);
        word[0] == MARK && is_number
    });
    marked.map(|word| std::str::from_utf8(&word[1..]).unwrap().parse().unwrap())
}
