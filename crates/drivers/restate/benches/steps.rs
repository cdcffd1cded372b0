//! Measures in one go what a step of a run costs with each driver: driven in the process where it begins, by one of
//! three servers on one Postgres, and by workers of a real Restate, with the store in memory and on a real Postgres.
//! Run by `cargo xtask bench fleet`; the table is kept in `docs/performance.md`.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{Message, Mode, Role, RunStatus};
use neuraxis_engine::{ApprovalKey, DecideLater, Orchestrator, OrchestratorBuilder, UserRequest};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::SessionStore;
use neuraxis_restate::{RestateConfig, RestateDispatcher, Worker};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::{Act, Postgres, Restate, ScriptedModel, ScriptedTool, reply, spec};
use tokio::task::JoinHandle;

/// Tool calls in a run, each with the model call that requests it.
const TURNS: usize = 25;

/// Steps of a run that are awaited: the model calls, the tool calls, and the answer.
const STEPS: usize = 2 * TURNS + 1;

/// Numbers of runs in progress at the same time.
const AT_ONCE: [usize; 3] = [1, 20, 100];

/// Numbers of runs that wait for approval.
const WAITING: [usize; 3] = [0, 1_000, 10_000];

/// How many of those are created at the same time: each takes a moment until its server learns that it waits.
const LANES: usize = 200;

/// Ticks of processor time per second, a number that Linux has always reported to programs.
const TICKS: f64 = 100.0;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    println!(
        "| driver | store | runs at once | mean step of a run, p50 of runs | mean step of a run, p99 of runs | CPU of a step | of that ours | steps/s |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let restate = Restate::start();
    let postgres = Postgres::start();
    for at_once in AT_ONCE {
        let memory: Arc<dyn SessionStore> = Arc::new(MemoryStore::new());
        let sql = SqlStore::open(&SqlConfig::new(postgres.url())).await;
        let sql: Arc<dyn SessionStore> = Arc::new(sql.unwrap());
        for (name, store) in [("memory", memory), ("Postgres", sql)] {
            let local = builder(&store).build().unwrap();
            runs("local", name, at_once, &[local]).await;
            if name == "Postgres" {
                let mut servers = Vec::new();
                for _ in 0..3 {
                    let sql = SqlStore::open(&SqlConfig::new(postgres.url())).await;
                    let sql: Arc<dyn SessionStore> = Arc::new(sql.unwrap());
                    servers.push(builder(&sql).build().unwrap());
                }
                runs("three servers", name, at_once, &servers).await;
            }
            by_restate(&restate, name, at_once, &store).await;
        }
    }
    waiting(&restate, &postgres).await;
}

async fn by_restate(restate: &Restate, name: &str, at_once: usize, store: &Arc<dyn SessionStore>) {
    let (server, working) = fleet(restate, || builder(store)).await;
    runs("Restate", name, at_once, &[server]).await;
    working.abort();
}

/// Starts a worker, and builds a server that hands its runs over.
async fn fleet(
    restate: &Restate,
    builder: impl Fn() -> OrchestratorBuilder,
) -> (Orchestrator, JoinHandle<()>) {
    let mut config = RestateConfig::default();
    config.ingress = restate.ingress();
    config.admin = restate.admin();
    config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    // Restate holds a thousand invocations that keep a connection at a time, and lets the next ones wait.
    config.inactivity_ms = 2_000;
    let worker = builder().build().unwrap();
    let worker = Worker::bind(&config, worker.runs()).await.unwrap();
    let address = format!("http://{}", worker.address());
    let working = tokio::spawn(worker.serve(std::future::pending()));
    let admin = neuraxis_restate::Restate::new(&config).unwrap();
    admin.register(&address).await.unwrap();
    let dispatcher = RestateDispatcher::new(&config).unwrap();
    let server = builder().dispatcher(Arc::new(dispatcher));
    (server.build().unwrap(), working)
}

/// Lets many runs wait for approval, and prints how much memory that takes.
async fn waiting(restate: &Restate, postgres: &Postgres) {
    let store = SqlStore::open(&SqlConfig::new(postgres.url())).await;
    let store: Arc<dyn SessionStore> = Arc::new(store.unwrap());
    let asking = || {
        let model = ScriptedModel::answering(|_| reply::calls([("pay", "{}")]));
        let pay = ScriptedTool::always(spec("pay"), Act::value("1"));
        Orchestrator::builder()
            .model(Role::REASONING, Arc::new(model))
            .tool(Arc::new(pay))
            .approver(Arc::new(DecideLater))
            .store(Arc::clone(&store))
            .approval_key(ApprovalKey::new([7; ApprovalKey::BYTES]))
    };
    println!("\n| runs that wait for approval | servers and workers | Restate |");
    println!("| ---: | ---: | ---: |");
    let (server, working) = fleet(restate, asking).await;
    let mut made = 0;
    for many in WAITING {
        let lanes = (0..LANES).map(|lane| {
            let server = server.clone();
            tokio::spawn(async move {
                for number in (made..many).skip(lane).step_by(LANES) {
                    let session = format!("waits-{number}").parse().unwrap();
                    let request = UserRequest::new(session, "go").mode(Mode::MODERATE);
                    let result = server.handle(request).await.unwrap();
                    assert_eq!(result.status, RunStatus::Waiting);
                }
            })
        });
        for lane in lanes.collect::<Vec<_>>() {
            lane.await.unwrap();
        }
        made = many;
        let (ours, restate) = (resident("steps"), resident("restate-server"));
        println!("| {many} | {ours:.0} MiB | {restate:.0} MiB |");
    }
    working.abort();
}

/// Returns the memory of the processes with a name, in mebibytes.
fn resident(name: &str) -> f64 {
    let mut pages = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read =
            |what: &str| std::fs::read_to_string(entry.path().join(what)).unwrap_or_default();
        if read("comm").starts_with(name) {
            let statm = read("statm");
            pages += statm
                .split(' ')
                .nth(1)
                .unwrap_or_default()
                .parse()
                .unwrap_or(0_u32);
        }
    }
    f64::from(pages) * 4096.0 / 1_048_576.0
}

fn builder(store: &Arc<dyn SessionStore>) -> OrchestratorBuilder {
    let model = ScriptedModel::answering(|request| {
        let results = request.messages.messages().iter();
        let results = results.filter(|message| matches!(***message, Message::Tool(_)));
        match results.count() {
            TURNS.. => reply::text("done"),
            // Repeating the same call would be treated as a loop.
            step => reply::calls([("note", format!(r#"{{"step":{step}}}"#).as_str())]),
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

/// Performs runs, `at_once` of them at the same time, and prints what they cost.
async fn runs(driver: &str, store: &str, at_once: usize, servers: &[Orchestrator]) {
    let rounds = match at_once {
        1 => 10,
        20 => 5,
        _ => 1,
    };
    let (began, ours, all) = (
        Instant::now(),
        processor_time(CpuScope::ThisProcess),
        processor_time(CpuScope::AllProcesses),
    );
    let lanes = (0..at_once).map(|lane| {
        let orchestrator = servers[lane % servers.len()].clone();
        let name = format!("{}-{store}-{at_once}-{lane}", driver.replace(' ', "-"));
        tokio::spawn(async move { lane_of(&orchestrator, &name, rounds).await })
    });
    let lanes: Vec<_> = lanes.collect();
    let mut took = Vec::new();
    for lane in lanes {
        took.extend(lane.await.unwrap());
    }
    let whole = began.elapsed();
    let (ours, all) = (
        processor_time(CpuScope::ThisProcess) - ours,
        processor_time(CpuScope::AllProcesses) - all,
    );
    took.sort_unstable();
    // Percentiles of runs, each with the mean of its steps: the time of single steps is not measured.
    let at = |part: usize| {
        let place = took.len() * part / 100;
        let run = took.get(place).copied().unwrap_or_default();
        run.as_secs_f64() * 1e3 / f64::from(u32::try_from(STEPS).unwrap())
    };
    let steps = f64::from(u32::try_from(took.len() * STEPS).unwrap());
    println!(
        "| {driver} | {store} | {at_once} | {:.2} ms | {:.2} ms | {:.2} ms | {:.2} ms | {:.0} |",
        at(50),
        at(99),
        all * 1e3 / steps,
        ours * 1e3 / steps,
        steps / whole.as_secs_f64()
    );
}

/// The processes whose time is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CpuScope {
    /// This program.
    ThisProcess,
    /// This program and the processes that it started: Postgres and Restate. Processes that have already ended are not
    /// counted.
    AllProcesses,
}

/// Returns the processor time used so far, in seconds.
fn processor_time(scope: CpuScope) -> f64 {
    let own = std::process::id();
    let mut processes = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name of the program is in parentheses, and may contain spaces.
        let Some((head, tail)) = stat.rsplit_once(") ") else {
            continue;
        };
        let id: u32 = head.split(' ').next().unwrap().parse().unwrap_or_default();
        let fields: Vec<u64> = tail
            .split(' ')
            .map(|it| it.parse().unwrap_or_default())
            .collect();
        if let [_, parent, ..] = fields[..] {
            processes.insert(id, (parent, fields[11] + fields[12]));
        }
    }
    let is_ours = |id: u32| {
        let mut id = id;
        while id != own {
            match processes.get(&id) {
                Some((parent, _)) if *parent > 1 => id = u32::try_from(*parent).unwrap(),
                _ => return false,
            }
        }
        true
    };
    let counted = processes.iter().filter(|(id, _)| match scope {
        CpuScope::ThisProcess => **id == own,
        CpuScope::AllProcesses => is_ours(**id),
    });
    let ticks: u64 = counted.map(|(_, (_, ticks))| ticks).sum();
    f64::from(u32::try_from(ticks).unwrap()) / TICKS
}

/// Performs runs one after the other, and returns how long each took.
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
