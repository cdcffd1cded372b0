//! `cargo xtask bench`: what the runtime costs compared to a hand-written loop. The table is stored in
//! `target/bench.md`.
//!
//! - `--store`: what a database costs compared to the in-memory store.
//! - `--loop`: the cost of the turn loop itself.
//! - `--wire`: the cost of reading a streamed reply, and the delay it adds.
//! - `--tracing`: what tracing costs a run.
//!
//! `cargo xtask bench server`: what the server adds to a stream, compared to a plain axum server. The table is stored
//! in `target/bench-server.md`.
//!
//! - `--turns`: turns per second on each store, stored in `target/bench-turns.md`.
//! - `--soak`: whether memory and descriptors are released after minutes of load, stored in `target/bench-soak.md`.
//!
//! `cargo xtask bench fleet`: the cost of a step with each driver; the table is kept in `docs/performance.md`.
//!
//! `cargo xtask bench research`: the cost of researchers that work concurrently.

use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};

use crate::cargo::{cargo, run_command};
use crate::provision;

/// What to measure: by default, the facade compared to a hand-written loop.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A named measurement to run instead.
    #[arg(conflicts_with_all = ["store", "turn_loop", "wire", "tracing"])]
    what: Option<What>,
    /// The numbers of streams open at the same time, one per round (server; default 1,100,1000).
    #[arg(long, requires = "what")]
    streams: Option<String>,
    /// The duration of each round in seconds (server; default 20).
    #[arg(long, requires = "what")]
    seconds: Option<u32>,
    /// Measure turns per second on each store instead of streams (server).
    #[arg(long, requires = "what", conflicts_with = "streams")]
    turns: bool,
    /// Measure how long runs take to resume after a kill (fleet).
    #[arg(long, requires = "what", conflicts_with_all = ["streams", "turns"])]
    kills: bool,
    /// Measure how the cost of a Postgres store grows with its number of sessions, up to a million (fleet).
    #[arg(long, requires = "what", conflicts_with_all = ["streams", "turns", "kills"])]
    sessions: bool,
    /// Put load on a server for this many minutes instead, at least two, and check whether memory and descriptors are
    /// released (server).
    #[arg(long, requires = "what", value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(2..),
          conflicts_with_all = ["streams", "turns"])]
    soak: Option<u32>,
    /// The APIs to measure (server; default own,chat,responses,agui).
    #[arg(long, requires = "what", conflicts_with_all = ["turns", "soak"])]
    apis: Option<String>,
    /// Build without optimizations, to try the benchmark out; the results then mean little.
    #[arg(long, requires = "what")]
    dev: bool,
    /// Measure the stores instead: SQLite, and Postgres if `cargo xtask test` has provisioned it.
    #[arg(long)]
    store: bool,
    /// Measure the turn loop instead: a step, a delta, a waiting run, a long run.
    #[arg(long = "loop", conflicts_with = "store")]
    turn_loop: bool,
    /// Measure streamed replies instead: the cost of reading one beyond reading its bytes, and the delay added.
    #[arg(long, conflicts_with_all = ["store", "turn_loop"])]
    wire: bool,
    /// Measure the cost of tracing a run instead: disabled, sampled out, and exported.
    #[arg(long, conflicts_with_all = ["store", "turn_loop", "wire"])]
    tracing: bool,
}

/// A named measurement.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// What the server adds to a stream.
    Server,
    /// The cost of a step with each driver: one process, several on a Postgres, workers of Restate. With `--kills`: how
    /// long runs take to resume after a kill. Needs what `cargo xtask test` has provisioned.
    Fleet,
    /// The cost of researchers that work concurrently.
    Research,
}

impl Options {
    const fn profile(&self) -> &'static str {
        if self.dev { "dev" } else { "bench" }
    }

    fn server(&self) -> Command {
        let mut command = cargo("bench --package neuraxis-server --bench server");
        command.args(["--profile", self.profile()]);
        let [seconds, soak] =
            [self.seconds, self.soak].map(|number| number.map(|number| number.to_string()));
        for (name, value) in [
            ("NEURAXIS_BENCH_STREAMS", &self.streams),
            ("NEURAXIS_BENCH_SECONDS", &seconds),
            ("NEURAXIS_BENCH_APIS", &self.apis),
            ("NEURAXIS_BENCH_SOAK", &soak),
        ] {
            command.envs(value.as_ref().map(|value| (name, value)));
        }
        if self.turns {
            command.env("NEURAXIS_BENCH_TURNS", "1");
            command.envs(provided());
        }
        command
    }

    fn fleet(&self) -> Command {
        let mut command = match (self.kills, self.sessions) {
            (true, _) => cargo("test --package neuraxis-server --test survival"),
            (_, true) => cargo("bench --package neuraxis-sql --bench sessions"),
            _ => cargo("bench --package neuraxis-restate --bench steps"),
        };
        command.args(["--profile", self.profile()]);
        if self.kills {
            command.args([
                "--",
                "--ignored",
                "--exact",
                "fleet_figures::figures",
                "--nocapture",
            ]);
        }
        command.envs(provided());
        command
    }

    fn research(&self) -> Command {
        let mut command = cargo("bench --package neuraxis --bench research");
        command.args(["--profile", self.profile()]);
        command
    }

    fn command(&self) -> Command {
        match self.what {
            Some(What::Server) => return self.server(),
            Some(What::Fleet) => return self.fleet(),
            Some(What::Research) => return self.research(),
            None => {}
        }
        if self.turn_loop {
            return cargo("bench --package neuraxis --bench loop");
        }
        if self.wire {
            return cargo("bench --package neuraxis --bench stream");
        }
        if self.tracing {
            return cargo("bench --package neuraxis --bench tracing");
        }
        if !self.store {
            return cargo("bench --package neuraxis --bench overhead");
        }
        let mut command = cargo("bench --package neuraxis-sql --bench store");
        command.envs(provided());
        command
    }
}

/// Returns the provisioned parts, as environment variables.
fn provided() -> impl Iterator<Item = (&'static str, PathBuf)> {
    let there = provision::variables().into_iter();
    there.filter(|(_, path)| path.exists())
}

/// Runs the measurement.
pub(crate) fn measure(options: &Options) -> anyhow::Result<()> {
    run_command(options.command())
}
