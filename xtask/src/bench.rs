//! `cargo xtask bench`: what the runtime costs against a hand-written loop. The table is kept in `target/bench.md`.
//! With `--store`: what a database adds to the store in memory. With `--loop`: what the turn loop itself takes. With
//! `--wire`: what reading a streamed reply costs, and how late it is heard. With `--tracing`: what tracing costs a run.
//! `cargo xtask bench server`: what the server adds to a stream, beside a bare axum server; that table is kept in
//! `target/bench-server.md`. With `--turns`: how many turns it takes a second on each store, kept in `target/bench-turns.md`.
//! With `--soak`: whether memory and descriptors come back after minutes of load, kept in `target/bench-soak.md`.
//! `cargo xtask bench fleet`: what a step costs with each driver, kept in `docs/performance.md`.
//! `cargo xtask bench research`: what researchers that work at the same time cost.

use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};

use crate::cargo::{cargo, succeed};
use crate::provision;

/// What to measure: the facade against a loop by hand, unless an option names something else.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What to measure by its name.
    #[arg(conflicts_with_all = ["store", "turn_loop", "wire", "tracing"])]
    what: Option<What>,
    /// How many streams are open at a time, round by round (server; 1,100,1000 if left out).
    #[arg(long, requires = "what")]
    streams: Option<String>,
    /// How long each round takes (server; 20 if left out).
    #[arg(long, requires = "what")]
    seconds: Option<u32>,
    /// Measure turns a second on each store instead of streams (server).
    #[arg(long, requires = "what", conflicts_with = "streams")]
    turns: bool,
    /// Measure how long it takes until runs go on after a kill (fleet).
    #[arg(long, requires = "what", conflicts_with_all = ["streams", "turns"])]
    kills: bool,
    /// Measure how the cost of a Postgres store grows with the sessions in it, up to a million (fleet).
    #[arg(long, requires = "what", conflicts_with_all = ["streams", "turns", "kills"])]
    sessions: bool,
    /// Put load on a server for so many minutes instead, two or more, and look whether memory and descriptors come back (server).
    #[arg(long, requires = "what", value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(2..),
          conflicts_with_all = ["streams", "turns"])]
    soak: Option<u32>,
    /// Which APIs are measured (server; own,chat,responses,agui if left out).
    #[arg(long, requires = "what", conflicts_with_all = ["turns", "soak"])]
    apis: Option<String>,
    /// Build without optimizations, to try the program out: what it measures then means little.
    #[arg(long, requires = "what")]
    dev: bool,
    /// Measure the stores instead: SQLite, and Postgres where `cargo xtask test` has provisioned it.
    #[arg(long)]
    store: bool,
    /// Measure the turn loop instead: a step, a delta, a waiting run, a long run.
    #[arg(long = "loop", conflicts_with = "store")]
    turn_loop: bool,
    /// Measure streamed replies instead: what reading one costs beyond reading its bytes, and how late it is heard.
    #[arg(long, conflicts_with_all = ["store", "turn_loop"])]
    wire: bool,
    /// Measure what tracing costs a run instead: without it, sampled out, and exported.
    #[arg(long, conflicts_with_all = ["store", "turn_loop", "wire"])]
    tracing: bool,
}

/// What can be measured by its name.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// What the server adds to a stream.
    Server,
    /// What a step costs with each driver: one process, several on a Postgres, workers of Restate. With `--kills`: how long it
    /// takes until runs go on after a kill. Needs what `cargo xtask test` has provisioned.
    Fleet,
    /// What researchers that work at the same time cost.
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

/// The parts that `cargo xtask test` has provisioned, as variables.
fn provided() -> impl Iterator<Item = (&'static str, PathBuf)> {
    let there = provision::variables().into_iter();
    there.filter(|(_, path)| path.exists())
}

/// Measures it.
pub(crate) fn measure(options: &Options) -> anyhow::Result<()> {
    succeed(options.command())
}
