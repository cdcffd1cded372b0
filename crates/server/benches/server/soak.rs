//! Load for some minutes that must leave nothing behind: turns, streams that are read and streams that are abandoned,
//! on SQLite. Once no requests arrive any more, memory and descriptors must be back to the level after the first
//! minute.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::RATE;
use crate::listen::{Api, ask, listen};
use crate::process::{Measured, Used};
use crate::turns::Client;

/// The head of the table.
pub(crate) const HEAD: &str = "\
| minute | turns | MiB | descriptors |
| ---: | ---: | ---: | ---: |
";

/// The duration of a streamed answer, in seconds.
pub(crate) const SECONDS: u64 = 2;

/// Streams per wave: this many per API are read, and as many are abandoned halfway.
const STREAMS: usize = 10;

/// Turns per wave that are answered in one piece.
const TURNS: usize = 20;

/// How long to stay idle before measuring: kept connections are closed after 30 seconds.
const IDLE: Duration = Duration::from_secs(40);

/// How much more memory than after the first minute may remain: what a database and an allocator keep for reuse.
const MOST_BYTES: u64 = 24 * 1024 * 1024;
const MOST_DESCRIPTORS: usize = 6;

/// Loads a server for this many minutes, and returns the rows.
///
/// # Panics
///
/// Panics if memory or descriptors are not released, if something was refused or lost, or if there are too few minutes
/// to compare.
pub(crate) async fn rows(upstream: &Measured, minutes: u64) -> Vec<String> {
    assert!(
        minutes >= 2,
        "the last minute is compared with the first: ask for 2 at least"
    );
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("soak.db").display());
    let client = Client::of(Measured::server(&upstream.url, &store).await);
    let mut rows = Vec::new();
    let mut turns = 0;
    let mut first = None;
    for minute in 1..=minutes {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            turns += wave(&client, turns).await;
        }
        // One-time allocations have happened by the end of the first minute.
        if minute == 1 || minute == minutes {
            sleep(IDLE).await;
        }
        let used = client.server.used();
        first.get_or_insert(used);
        rows.push(row(minute, turns, used));
    }
    let (first, last) = (first.unwrap(), client.server.used());
    assert!(
        last.bytes <= first.bytes + MOST_BYTES,
        "{} bytes after the first minute, {} at the end",
        first.bytes,
        last.bytes
    );
    assert!(
        last.descriptors <= first.descriptors + MOST_DESCRIPTORS,
        "{} descriptors after the first minute, {} at the end",
        first.descriptors,
        last.descriptors
    );
    let refused = client.refused.load(Ordering::Relaxed);
    assert_eq!(refused, 0, "turns were refused");
    rows
}

/// Sends all requests of a wave at the same time, waits for those that are read, and returns the number of turns.
async fn wave(client: &Client, begun: usize) -> usize {
    let address = client.server.url.strip_prefix("http://").unwrap();
    let apis = [Api::Own, Api::Chat, Api::Responses, Api::AgUi];
    let mut asking = JoinSet::new();
    for number in 0..STREAMS * apis.len() {
        let (api, address) = (apis[number % apis.len()], address.to_owned());
        // Apart from the sessions of the turns, which count from 0.
        let session = 1_000_000 + begun + number;
        asking.spawn(async move {
            let received = listen(&address, api, session, &AtomicU64::new(0)).await;
            let received = u64::try_from(received.len()).unwrap();
            assert_eq!(received, SECONDS * RATE, "deltas by {api:?}");
        });
        let address = client
            .server
            .url
            .strip_prefix("http://")
            .unwrap()
            .to_owned();
        asking.spawn(async move {
            let mut stream = ask(&address, api, 2_000_000 + session).await;
            let mut some = [0; 256];
            let size = stream.read(&mut some).await.unwrap();
            // The stream has started, and is now abandoned.
            assert!(some[..size].starts_with(b"HTTP/1.1 200 "), "{api:?}");
        });
    }
    let turns = client.clone();
    asking.spawn(async move { turns.at_once(TURNS).await });
    asking.join_all().await;
    2 * STREAMS * apis.len() + TURNS
}

fn row(minute: u64, turns: usize, used: Used) -> String {
    let mib = used.bytes / 1_024 / 1_024;
    let row = format!("| {minute} | {turns} | {mib} | {} |", used.descriptors);
    println!("{row}");
    row
}
