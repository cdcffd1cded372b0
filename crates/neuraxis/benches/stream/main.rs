//! The cost of reading a streamed reply beyond the reading of its body, and how much later a delta is received because
//! of it. Run it with `cargo xtask bench --wire`; the tables are kept in `docs/wire.md`.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark"
)]

mod cost;
mod latency;
mod reader;
mod server;
mod shape;

use crate::shape::Protocol;

const PROTOCOLS: [Protocol; 2] = [Protocol::Chat, Protocol::Responses];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!(
        "| protocol | read by | CPU per delta, µs | CPU per MB, ms | beyond the body, per delta, µs | beyond the body, per MB, ms |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for protocol in PROTOCOLS {
        runtime.block_on(cost::measure(protocol));
    }
    println!("\n| protocol | a delta every | heard by | median, µs | p99, µs |");
    println!("| --- | --- | --- | ---: | ---: |");
    for protocol in PROTOCOLS {
        for pace in latency::PACES {
            runtime.block_on(latency::measure(protocol, pace));
        }
    }
}
