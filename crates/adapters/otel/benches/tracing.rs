//! What tracing costs a run in processor time, over all threads: none, all runs sampled out, and all exported to a receiver on
//! loopback that takes everything. A run is three turns with two tool calls each, and an answer.
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
use criterion::{Criterion, criterion_group, criterion_main};
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

fn tracing(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let url = receiver();
    let mut group = criterion.benchmark_group("cpu per run");
    group.measurement_time(Duration::from_secs(10));
    for (name, ratio) in [
        ("off", None),
        ("sampled out", Some(0.0)),
        ("full", Some(1.0)),
    ] {
        let otel = ratio.map(|ratio| {
            let mut config = OtlpConfig::default();
            config.endpoint = Some(url.parse().expect("an address"));
            config.sampling = Sampling {
                ratio,
                ..Sampling::default()
            };
            Otel::start(&config).expect("an exporter")
        });
        let orchestrator = orchestrator(otel.as_ref());
        let mut number = 0_u64;
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|runs| {
                let began = ProcessTime::now();
                for _ in 0..runs {
                    number += 1;
                    let session: SessionId = format!("s{number}").parse().expect("an id");
                    let request = UserRequest::new(session, "What do you see?");
                    runtime
                        .block_on(orchestrator.handle(request))
                        .expect("a result");
                }
                began.elapsed()
            });
        });
        if let Some(otel) = otel {
            runtime.block_on(otel.close(Duration::from_secs(10)));
        }
    }
    group.finish();
}

criterion_group!(benches, tracing);
criterion_main!(benches);
