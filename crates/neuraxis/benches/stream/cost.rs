//! The CPU time that the reading thread spends on a long stream.

use std::time::Duration;

use bytes::Bytes;
use cpu_time::ThreadTime;
use neuraxis_wire::SseDecoder;

use crate::reader::Reader;
use crate::server;
use crate::shape::{Protocol, Shape, words};

const DELTAS: usize = 20_000;

/// How many times each reader reads, alternating; the median is used.
const ROUNDS: usize = 21;

/// The size of the pieces in which the decoder alone receives the stream from memory.
const PIECE: usize = 16 * 1024;

/// Prints the rows of a protocol.
pub(crate) async fn measure(protocol: Protocol) {
    let shape = Shape::new(protocol, DELTAS);
    let chunked = shape.chunked();
    let url = server::start(move |stream| {
        server::send(stream, server::HEAD);
        server::send(stream, &chunked);
    });
    let readers = [Reader::body(&url), Reader::client(&url, protocol)];
    let mut times = [const { Vec::new() }; 2];
    let mut decoding = Vec::new();
    let whole = Bytes::from(
        [
            shape.before.clone(),
            shape.deltas.concat(),
            shape.after.clone(),
        ]
        .concat(),
    );
    // The first round connects and warms up.
    for round in 0..=ROUNDS {
        for (reader, times) in readers.iter().zip(&mut times) {
            let time = read(reader).await;
            if round > 0 {
                times.push(time);
            }
        }
        decoding.push(decode(&whole));
    }
    let bare = median(&mut times[0]);
    let megabytes = shape.bytes() as f64 / 1e6;
    for (reader, times) in readers.iter().zip(&mut times) {
        row(protocol, reader.name(), median(times), bare, megabytes);
    }
    let alone = bare + median(&mut decoding);
    let name = "the same and the event decoder, from memory";
    row(protocol, name, alone, bare, megabytes);
}

async fn read(reader: &Reader) -> Duration {
    let started = ThreadTime::now();
    let mut received = 0_usize;
    reader.read(|more| received += more).await;
    let time = started.elapsed();
    let said = words(DELTAS).map(str::len).sum::<usize>();
    let all = matches!(reader, Reader::Body(..)) || received == said;
    assert!(all, "{received} of {said} bytes of text were heard");
    time
}

fn decode(whole: &Bytes) -> Duration {
    let started = ThreadTime::now();
    let mut decoder = SseDecoder::new();
    let mut rest = whole.clone();
    while !rest.is_empty() {
        decoder.push(rest.split_to(PIECE.min(rest.len())));
        while let Some(event) = decoder.next_event().unwrap() {
            std::hint::black_box(event);
        }
    }
    started.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn row(protocol: Protocol, name: &str, time: Duration, bare: Duration, megabytes: f64) {
    let per_delta = |time: Duration| time.as_secs_f64() * 1e6 / DELTAS as f64;
    let per_megabyte = |time: Duration| time.as_secs_f64() * 1e3 / megabytes;
    let beyond = time.saturating_sub(bare);
    println!(
        "| {}, {megabytes:.2} MB | {name} | {:.2} | {:.2} | {:.2} | {:.2} |",
        protocol.name(),
        per_delta(time),
        per_megabyte(time),
        per_delta(beyond),
        per_megabyte(beyond),
    );
}
