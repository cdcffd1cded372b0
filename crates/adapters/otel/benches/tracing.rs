//! What tracing costs a run in processor time, over all threads: without a sink, with all runs sampled out, and with all
//! exported to a receiver on loopback that takes everything, with and without what was said. A run is three turns with two tool
//! calls each, and an answer. `cargo xtask bench --tracing` runs it.
#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot set up its world has to fail"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cpu_time::ProcessTime;
use neuraxis_core::{Message, Role, SessionId};
use neuraxis_engine::{Orchestrator, UserRequest};
use neuraxis_memory::MemoryStore;
use neuraxis_otel::{Otel, OtlpConfig, Sampling};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
use tokio::runtime::Runtime;

/// Answers every request with success, and forgets it.
fn receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || swallow(stream));
        }
    });
    format!("http://{address}")
}

fn swallow(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    let mut head = Vec::new();
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            return;
        }
        head.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let Some(length) = whole(&head) else { continue };
        head.drain(..length);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// Returns how long a request is, once it is there whole.
fn whole(request: &[u8]) -> Option<usize> {
    let end = request.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(request.get(..end)?).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length?.trim().parse().ok()?;
    (request.len() >= end + length).then_some(end + length)
}

fn orchestrator(otel: Option<&Otel>) -> Orchestrator {
    let model = ScriptedModel::answering(|request| {
        let is_result = |message: &&Arc<Message>| matches!(***message, Message::Tool(_));
        let results = request.messages.messages().iter().filter(is_result).count();
        match results % 6 {
            0 if results > 0 => reply::text("Done."),
            _ => reply::calls([("look", r#"{"at":"sky"}"#), ("look", r#"{"at":"sea"}"#)]),
        }
    });
    let mut builder = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .store(Arc::new(MemoryStore::new()));
    if let Some(otel) = otel {
        builder = builder.trace_sink(otel.sink());
    }
    builder.build().expect("an engine")
}

/// How a run is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tracing {
    None,
    SampledOut,
    Full,
    WithContent,
}

const ALL: [(Tracing, &str); 4] = [
    (Tracing::None, "none"),
    (Tracing::SampledOut, "attached, sampled out"),
    (Tracing::Full, "all exported"),
    (Tracing::WithContent, "all exported, with content"),
];

/// How many runs a round has, and how many rounds there are of each kind.
const RUNS: u32 = 300;
const ROUNDS: usize = 21;

fn exporter(url: &str, how: Tracing) -> Option<Otel> {
    if how == Tracing::None {
        return None;
    }
    let mut config = OtlpConfig::default();
    config.endpoint = Some(url.parse().expect("an address"));
    config.content = how == Tracing::WithContent;
    config.sampling = Sampling {
        ratio: if how == Tracing::SampledOut { 0.0 } else { 1.0 },
        ..Sampling::default()
    };
    Some(Otel::start(&config).expect("an exporter"))
}

/// Returns the processor time of one run, of all threads, what is sent in the meantime included.
fn round(runtime: &Runtime, orchestrator: &Orchestrator, number: &mut u64) -> Duration {
    let began = ProcessTime::now();
    for _ in 0..RUNS {
        *number += 1;
        let session: SessionId = format!("s{number}").parse().expect("an id");
        let request = UserRequest::new(session, "What do you see?");
        runtime
            .block_on(orchestrator.handle(request))
            .expect("a result");
    }
    began.elapsed() / RUNS
}

#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn main() {
    let runtime = Runtime::new().expect("a runtime");
    let url = receiver();
    let engines = ALL.map(|(how, name)| {
        let otel = runtime.block_on(async { exporter(&url, how) });
        (orchestrator(otel.as_ref()), otel, name)
    });
    let mut number = 0;
    let mut times = ALL.map(|_| Vec::with_capacity(ROUNDS));
    // In turns, so that what else runs on the machine falls on all alike. The first round warms up.
    for warm in 0..=ROUNDS {
        for ((orchestrator, _, _), times) in engines.iter().zip(&mut times) {
            let took = round(&runtime, orchestrator, &mut number);
            times.extend((warm > 0).then_some(took));
        }
    }
    println!("| tracing | processor time of a run | against none | spans lost |");
    println!("| --- | ---: | ---: | ---: |");
    let mut none = None;
    for ((_, otel, name), times) in engines.iter().zip(&mut times) {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let none = *none.get_or_insert(median);
        let ratio = median.as_secs_f64() / none.as_secs_f64();
        let lost = otel.as_ref().map(|otel| {
            let (spans, _) = runtime.block_on(otel.close(Duration::from_secs(10)));
            spans.dropped.to_string()
        });
        let lost = lost.unwrap_or_default();
        let micros = median.as_micros();
        println!("| {name} | {micros} µs | {ratio:.2} | {lost} |");
    }
}
