//! How long after a server sent a delta it is received.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::reader::Reader;
use crate::server;
use crate::shape::{Protocol, Shape, chunk, words};

const DELTAS: usize = 1_500;

/// The number of deltas at the start that are left out, because caches are cold.
const COLD: usize = 100;

/// The interval between two deltas, in milliseconds: as fast as listeners are woken, and as fast as a fast model
/// writes.
pub(crate) const PACES: [u64; 2] = [1, 5];

/// When each delta was sent.
type Sent = Arc<Mutex<Vec<Instant>>>;

/// Prints the rows of a protocol at a pace.
pub(crate) async fn measure(protocol: Protocol, pace: u64) {
    let sent = Sent::default();
    let url = {
        let (sent, shape) = (Arc::clone(&sent), Shape::new(protocol, DELTAS));
        server::start(move |stream| trickle(stream, &shape, pace, &sent))
    };
    let shape = Shape::new(protocol, DELTAS);
    let start = server::HEAD.len() + chunk(&shape.before).len();
    let framed = ends(start, shape.deltas.iter().map(|delta| chunk(delta).len()));
    let bytes = ends(shape.before.len(), shape.deltas.iter().map(String::len));
    let text = ends(0, words(DELTAS).map(str::len));

    let arrivals = socket(&url).await;
    let print = |name, late| row(protocol, pace, name, late);
    print("a bare socket", lateness(&arrivals, &framed, &sent));
    for (reader, ends) in [
        (Reader::body(&url), &bytes),
        (Reader::client(&url, protocol), &text),
        (Reader::listener(&url, protocol), &text),
    ] {
        let arrivals = record_arrivals(&reader).await;
        print(reader.name(), lateness(&arrivals, ends, &sent));
    }
}

/// Returns where each delta ends, in the unit that its reader counts.
fn ends(start: usize, lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut end = start;
    lengths
        .map(|length| {
            end += length;
            end
        })
        .collect()
}

/// How much was received, and when.
type Arrivals = Vec<(usize, Instant)>;

async fn record_arrivals(reader: &Reader) -> Arrivals {
    let (mut arrivals, mut total) = (Vec::with_capacity(2 * DELTAS), 0);
    let listen = |more| {
        total += more;
        arrivals.push((total, Instant::now()));
    };
    reader.read(listen).await;
    arrivals
}

/// Reads the data from a plain socket.
async fn socket(url: &str) -> Arrivals {
    let address = url.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let (mut arrivals, mut total) = (Vec::with_capacity(2 * DELTAS), 0);
    let mut piece = vec![0; 64 * 1024];
    loop {
        let size = stream.read(&mut piece).await.unwrap();
        total += size;
        arrivals.push((total, Instant::now()));
        if piece[..size].ends_with(b"\r\n0\r\n\r\n") {
            return arrivals;
        }
    }
}

/// Returns how late each delta was received, except the first ones, for which caches are cold.
fn lateness(arrivals: &Arrivals, ends: &[usize], sent: &Sent) -> Vec<Duration> {
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), ends.len(), "not every delta was sent");
    let mut arrivals = arrivals.iter();
    let (mut total, mut at) = (0, Instant::now());
    let late = ends.iter().zip(&*sent).map(|(end, sent)| {
        while total < *end {
            (total, at) = *arrivals.next().unwrap();
        }
        at.saturating_duration_since(*sent)
    });
    late.skip(COLD).collect()
}

fn row(protocol: Protocol, pace: u64, name: &str, mut late: Vec<Duration>) {
    late.sort_unstable();
    let micros = |place: usize| late[place].as_secs_f64() * 1e6;
    println!(
        "| {} | {pace} ms | {name} | {:.0} | {:.0} |",
        protocol.name(),
        micros(late.len() / 2),
        micros(late.len() * 99 / 100),
    );
}

/// Sends one delta at a time, each in one write.
fn trickle(stream: &mut TcpStream, shape: &Shape, pace: u64, sent: &Sent) {
    let pause = || std::thread::sleep(Duration::from_millis(pace));
    sent.lock().unwrap().clear();
    server::send(stream, server::HEAD);
    server::send(stream, chunk(&shape.before).as_bytes());
    for delta in &shape.deltas {
        let bytes = chunk(delta);
        pause();
        sent.lock().unwrap().push(Instant::now());
        server::send(stream, bytes.as_bytes());
    }
    pause();
    let end = chunk(&shape.after) + "0\r\n\r\n";
    server::send(stream, end.as_bytes());
}
