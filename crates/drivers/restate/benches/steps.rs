//! What a step of a run takes with each driver, in one go: driven where it begins, and by workers of a real Restate, with the
//! store in memory and on a real Postgres. With the variables of `cargo xtask env` set:
//! `cargo bench --package neuraxis-restate`. The table is kept in `docs/scale.md`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{Message, Mode, Role};
use neuraxis_engine::{ApprovalKey, Orchestrator, OrchestratorBuilder, UserRequest};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::SessionStore;
use neuraxis_restate::{RestateConfig, RestateDispatcher, Worker};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::{Act, Postgres, Restate, ScriptedModel, ScriptedTool, reply, spec};

/// Tool calls of a run, each with the model call that asks for it.
const TURNS: usize = 25;

/// Steps of a run that are waited for: the calls of the model and of the tool, and the answer.
const STEPS: usize = 2 * TURNS + 1;

/// Runs that are at work at the same time.
const AT_ONCE: [usize; 2] = [1, 20];

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    println!("| driver | store | runs at once | p50 of a run | p99 of a run | steps/s |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    let restate = Restate::start();
    let postgres = Postgres::start();
    for at_once in AT_ONCE {
        let memory: Arc<dyn SessionStore> = Arc::new(MemoryStore::new());
        let sql = SqlStore::open(&SqlConfig::new(postgres.url())).await;
        let sql: Arc<dyn SessionStore> = Arc::new(sql.unwrap());
        for (name, store) in [("memory", memory), ("Postgres", sql)] {
            let local = builder(&store).build().unwrap();
            runs("local", name, at_once, &local).await;
            by_restate(&restate, name, at_once, &store).await;
        }
    }
}

async fn by_restate(restate: &Restate, name: &str, at_once: usize, store: &Arc<dyn SessionStore>) {
    let mut config = RestateConfig::default();
    config.ingress = restate.ingress();
    config.admin = restate.admin();
    config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let worker = builder(store).build().unwrap();
    let worker = Worker::bind(&config, worker.runs()).await.unwrap();
    let uri = format!("http://{}", worker.address());
    let working = tokio::spawn(worker.serve(std::future::pending()));
    let admin = neuraxis_restate::Restate::new(&config).unwrap();
    admin.register(&uri).await.unwrap();
    let dispatcher = RestateDispatcher::new(&config).unwrap();
    let server = builder(store).dispatcher(Arc::new(dispatcher));
    runs("Restate", name, at_once, &server.build().unwrap()).await;
    working.abort();
}

fn builder(store: &Arc<dyn SessionStore>) -> OrchestratorBuilder {
    let model = ScriptedModel::answering(|request| {
        let results = request.messages.messages().iter();
        let results = results.filter(|message| matches!(***message, Message::Tool(_)));
        match results.count() {
            TURNS.. => reply::text("done"),
            _ => reply::calls([("note", "{}")]),
        }
    });
    let note = ScriptedTool::always(spec("note").idempotent(), Act::value("1"));
    let policy = "modes.exploratory.max_turns = 100\nchannels.chat.simple_role = 'reasoning'\n";
    let policy = Policy::layered(PolicyConfig::from_toml(policy).unwrap());
    Orchestrator::builder()
        .policy(policy.unwrap())
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::new(note))
        .store(Arc::clone(store))
        .approval_key(ApprovalKey::new([7; ApprovalKey::BYTES]))
}

/// Makes runs, so many at once, and prints what they took.
async fn runs(driver: &str, store: &str, at_once: usize, orchestrator: &Orchestrator) {
    let began = Instant::now();
    let rounds = if at_once == 1 { 10 } else { 5 };
    let lanes = (0..at_once).map(|lane| {
        let orchestrator = orchestrator.clone();
        let name = format!("{driver}-{store}-{at_once}-{lane}");
        tokio::spawn(async move { lane_of(&orchestrator, &name, rounds).await })
    });
    let lanes: Vec<_> = lanes.collect();
    let mut took = Vec::new();
    for lane in lanes {
        took.extend(lane.await.unwrap());
    }
    let all = began.elapsed();
    took.sort_unstable();
    let at = |part: usize| {
        let place = took.len() * part / 100;
        took.get(place).copied().unwrap_or_default()
    };
    let steps = u32::try_from(took.len() * STEPS).unwrap();
    let per_second = f64::from(steps) / all.as_secs_f64();
    let (half, most) = (at(50), at(99));
    println!("| {driver} | {store} | {at_once} | {half:.1?} | {most:.1?} | {per_second:.0} |");
}

/// Makes runs one after the other, and returns what each took.
async fn lane_of(orchestrator: &Orchestrator, name: &str, rounds: usize) -> Vec<Duration> {
    let mut took = Vec::new();
    for round in 0..rounds {
        let session = format!("{name}-{round}").parse().unwrap();
        let request = UserRequest::new(session, "go").mode(Mode::EXPLORATORY);
        let began = Instant::now();
        let result = orchestrator.handle(request).await.unwrap();
        assert_eq!(result.reply, "done", "{:?}", result.finish_reason);
        took.push(began.elapsed());
    }
    took
}
