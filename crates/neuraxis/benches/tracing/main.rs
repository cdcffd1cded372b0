//! The cost of tracing a run in processor time, over all threads of the process: without a sink, with all runs sampled
//! out, and with all exported to a loopback receiver that accepts everything, with and without conversation content. A
//! run is three turns with two tool calls each, and an answer. Run it with `cargo xtask bench --tracing`.
//!
//! It is measured as the programs run it, with a model over HTTP and the log in SQLite, and with both in memory, which
//! leaves almost nothing but the engine. The model server is a separate process; the receiver is part of this one.
//!
//! `tracing WORLD KIND` only performs runs of one kind, for a profiler.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../overhead/model_server.rs"]
mod model_server;
mod receiver;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cpu_time::ProcessTime;
use neuraxis::core::RunStatus;
use neuraxis::engine::{Delivery, UserRequest};
use neuraxis::memory::MemoryStore;
use neuraxis::otel::{Otel, OtlpConfig, Sampling};
use neuraxis::ports::SessionStore;
use neuraxis::sql::{SqlConfig, SqlStore};
use neuraxis::{Orchestrator, Role};
use neuraxis_llama::{LlamaClient, LlamaConfig};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::model_server::ModelServer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of runs per round, and the number of rounds of each kind.
const RUNS: u32 = 200;
const ROUNDS: usize = 21;

/// The engine's environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum World {
    /// A model over HTTP and a database in a file, as in the programs.
    Programs,
    /// Model and store in memory.
    Memory,
}

const WORLDS: [(World, &str); 2] = [(World::Programs, "programs"), (World::Memory, "memory")];

/// How a run is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tracing {
    None,
    SampledOut,
    Full,
    WithContent,
}

const KINDS: [(Tracing, &str); 4] = [
    (Tracing::None, "none"),
    (Tracing::SampledOut, "attached, sampled out"),
    (Tracing::Full, "all exported"),
    (Tracing::WithContent, "all exported, with content"),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo passes this argument to every benchmark.
    let arguments = arguments.iter().filter(|argument| *argument != "--bench");
    let arguments: Vec<&str> = arguments.map(String::as_str).collect();
    match arguments.as_slice() {
        [model_server::SERVE] => model_server::serve(),
        [world, kind] => one_kind(world, kind),
        _ => {
            for (world, name) in WORLDS {
                println!("{name}:\n");
                measure(world)?;
                println!();
            }
            Ok(())
        }
    }
}

/// An engine with the resources it needs while in use.
struct Traced {
    orchestrator: Orchestrator,
    otel: Option<Otel>,
    _folder: TempDir,
}

impl Traced {
    fn new(
        world: World,
        how: Tracing,
        model: &ModelServer,
        url: &str,
        runtime: &Runtime,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let builder =
            Orchestrator::builder().tool(Arc::new(ScriptedTool::echoing(spec("add").read_only())));
        let mut builder = match world {
            World::Programs => {
                let client = LlamaClient::new(LlamaConfig::new(model.url("turns/3/2")))?;
                builder.model(Role::REASONING, Arc::new(client))
            }
            World::Memory => builder.model(Role::REASONING, Arc::new(in_memory())),
        };
        let store: Arc<dyn SessionStore> = match world {
            World::Programs => {
                let file = folder.path().join("sessions.db");
                let config = SqlConfig::new(format!("sqlite://{}", file.display()));
                Arc::new(runtime.block_on(SqlStore::open(&config))?)
            }
            World::Memory => Arc::new(MemoryStore::new()),
        };
        builder = builder.store(store);
        let otel = runtime.block_on(async { exporter(url, how) })?;
        if let Some(otel) = &otel {
            builder = builder.trace_sink(otel.sink());
        }
        Ok(Self {
            orchestrator: builder.build()?,
            otel,
            _folder: folder,
        })
    }

    /// Returns the processor time of one run, over all threads, including that of export in the meantime.
    fn round(&self, runtime: &Runtime, number: &mut u64) -> Result<Duration> {
        let began = ProcessTime::now();
        for _ in 0..RUNS {
            *number += 1;
            let request = UserRequest::new(format!("s{number}").parse()?, "What do you see?");
            let handled = self.orchestrator.handle(request.delivery(Delivery::Whole));
            let result = runtime.block_on(handled)?;
            ensure!(result.status == RunStatus::Done, "{}", result.reply);
        }
        Ok(began.elapsed() / RUNS)
    }
}

fn in_memory() -> ScriptedModel {
    ScriptedModel::answering(|request| {
        let is_result = |message: &&Arc<_>| matches!(***message, neuraxis::core::Message::Tool(_));
        let results = request.messages.messages().iter().filter(is_result).count();
        match results % 6 {
            0 if results > 0 => reply::text("Done."),
            _ => reply::calls([("add", r#"{"a":1,"b":2}"#), ("add", r#"{"a":3,"b":4}"#)]),
        }
    })
}

fn exporter(url: &str, how: Tracing) -> Result<Option<Otel>> {
    if how == Tracing::None {
        return Ok(None);
    }
    let mut config = OtlpConfig::default();
    config.endpoint = Some(url.parse()?);
    config.content = how == Tracing::WithContent;
    config.sampling = Sampling {
        ratio: if how == Tracing::SampledOut { 0.0 } else { 1.0 },
        ..Sampling::default()
    };
    Ok(Some(Otel::start(&config)?))
}

/// Measures the kinds alternately, so that other load on the machine affects all equally. The first round is a warm-up.
fn measure(world: World) -> Result<()> {
    let (runtime, model, url) = (Runtime::new()?, ModelServer::start()?, receiver::start()?);
    let mut traced = Vec::new();
    for (how, name) in KINDS {
        traced.push((
            Traced::new(world, how, &model, &url, &runtime)?,
            name,
            Vec::new(),
        ));
    }
    let mut number = 0;
    for warm in 0..=ROUNDS {
        for (traced, _, times) in &mut traced {
            let took = traced.round(&runtime, &mut number)?;
            times.extend((warm > 0).then_some(took));
        }
    }
    println!("| tracing | processor time of a run | against none | spans lost |");
    println!("| --- | ---: | ---: | ---: |");
    let mut none = None;
    for (traced, name, mut times) in traced {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let none = *none.get_or_insert(median);
        let ratio = median.as_secs_f64() / none.as_secs_f64();
        let lost = traced.otel.map(|otel| {
            let (spans, _) = runtime.block_on(otel.close(Duration::from_secs(10)));
            spans.dropped.to_string()
        });
        let (micros, lost) = (median.as_micros(), lost.unwrap_or_default());
        println!("| {name} | {micros} µs | {ratio:.2} | {lost} |");
    }
    Ok(())
}

/// Performs only runs of one kind.
fn one_kind(world: &str, kind: &str) -> Result<()> {
    let mut worlds = WORLDS.into_iter();
    let world = worlds
        .find(|(_, name)| *name == world)
        .context("no such world")?
        .0;
    let mut kinds = KINDS.into_iter();
    let how = kinds
        .find(|(_, name)| *name == kind)
        .context("no such kind")?
        .0;
    let (runtime, model, url) = (Runtime::new()?, ModelServer::start()?, receiver::start()?);
    let traced = Traced::new(world, how, &model, &url, &runtime)?;
    let mut number = 0;
    for _ in 0..ROUNDS {
        traced.round(&runtime, &mut number)?;
    }
    Ok(())
}
