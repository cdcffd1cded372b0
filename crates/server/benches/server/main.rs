//! What the server adds to a stream: latency per delta, processor time and memory, compared to a plain axum server that
//! passes on the same stream from the same model server. `cargo xtask bench server` runs it; the table is stored in
//! `target/bench-server.md`. Everything runs on loopback, in separate processes, and ends automatically.
//!
//! It reads `/proc`, so it works only on Linux.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark"
)]

mod listen;
mod pass_through;
mod process;
mod report;
mod round;
mod soak;
mod turns;
mod upstream;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use listen::Api;
use process::Measured;
use report::Row;
use round::Round;

/// The numbers of streams open at the same time, one per round, unless `NEURAXIS_BENCH_STREAMS` is set.
const STREAMS: &str = "1,100,1000";

/// The duration of each round in seconds, unless `NEURAXIS_BENCH_SECONDS` is set.
const SECONDS: &str = "20";

/// The APIs to measure, unless `NEURAXIS_BENCH_APIS` is set.
const APIS: &str = "own,chat,responses,agui";

/// Deltas per second in each stream.
pub(crate) const RATE: u64 = 20;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["upstream", seconds] => runtime.block_on(upstream::serve(seconds.parse().unwrap())),
        ["pass-through", url] => runtime.block_on(pass_through::serve(url)),
        _ if !Path::new("/proc/self/stat").exists() => println!("skipped: there is no /proc"),
        _ => runtime.block_on(measure()),
    }
}

async fn measure() {
    let setting =
        |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let streams = setting("NEURAXIS_BENCH_STREAMS", STREAMS);
    let seconds: u64 = setting("NEURAXIS_BENCH_SECONDS", SECONDS).parse().unwrap();
    if setting("NEURAXIS_BENCH_TURNS", "") == "1" {
        let upstream = Measured::upstream(0).await;
        print!("{}", turns::HEAD);
        let rows = turns::rows(&upstream, Duration::from_secs(seconds)).await;
        return save(
            "bench-turns.md",
            &format!("{}{}\n", turns::HEAD, rows.join("\n")),
        );
    }
    if let Ok(minutes) = setting("NEURAXIS_BENCH_SOAK", "").parse() {
        let upstream = Measured::upstream(soak::SECONDS).await;
        print!("{}", soak::HEAD);
        let rows = soak::rows(&upstream, minutes).await;
        let table = format!("{}{}\n", soak::HEAD, rows.join("\n"));
        return save("bench-soak.md", &table);
    }
    let apis = setting("NEURAXIS_BENCH_APIS", APIS);
    let mut table = String::from(report::HEAD);
    print!("{table}");
    for streams in streams.split(',') {
        let round = Round {
            streams: streams.trim().parse().unwrap(),
            duration: Duration::from_secs(seconds),
        };
        let upstream = Measured::upstream(seconds).await;
        let bare = Measured::pass_through(&upstream.url).await;
        let bare = round.run(&bare, Api::Own).await;
        let mut tell = |row: Row| {
            println!("{row}");
            writeln!(table, "{row}").unwrap();
        };
        tell(Row::of("axum passes on", &round, &bare, None));
        for api in apis.split(',').map(|name| Api::named(name.trim())) {
            let ours = Measured::server(&upstream.url, "memory:").await;
            let ours = round.run(&ours, api).await;
            tell(Row::of(api.name(), &round, &ours, Some(&bare)));
        }
    }
    save("bench-server.md", &table);
}

/// Stores a table beneath `target`.
fn save(name: &str, table: &str) {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::fs::write(target.join(name), table).unwrap();
}
