//! Stages: named pieces of work that run in sequence, each timed, with a table at the end.

use std::fmt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::cargo;

/// The stages that have run so far.
#[derive(Debug, Default)]
pub(crate) struct Stages(Vec<Stage>);

#[derive(Debug)]
struct Stage {
    name: String,
    outcome: Outcome,
    duration: Duration,
}

/// The outcome of a stage.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It ended without an error.
    Passed,
    /// It ended with an error, which was printed when it occurred.
    Failed,
    /// It did not run.
    Skipped(String),
}

impl Stages {
    /// Runs a stage. A failure is printed and remembered, so one run shows all problems.
    pub(crate) fn run(&mut self, name: &'static str, work: impl FnOnce() -> anyhow::Result<()>) {
        println!("\n== {name}");
        let started = Instant::now();
        let result = work();
        let duration = started.elapsed();
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                println!("{error:#}");
                Outcome::Failed
            }
        };
        println!("== {name}: {outcome} after {}", Seconds(duration));
        self.0.push(Stage {
            name: name.to_owned(),
            outcome,
            duration,
        });
    }

    /// Runs a stage that is one command.
    pub(crate) fn command(&mut self, name: &'static str, command: Command) {
        self.run(name, || cargo::run_command(command));
    }

    /// Skips a stage and records the reason.
    pub(crate) fn skip(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        let (name, outcome) = (name.into(), Outcome::Skipped(reason.into()));
        println!("\n== {name}: {outcome}");
        self.0.push(Stage {
            name,
            outcome,
            duration: Duration::ZERO,
        });
    }

    /// Prints the table and returns the exit code: success if no stage failed.
    pub(crate) fn close(self) -> ExitCode {
        println!("\n{self}");
        if self.has_failed() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    fn has_failed(&self) -> bool {
        self.0.iter().any(|stage| stage.outcome == Outcome::Failed)
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .0
            .iter()
            .map(|stage| stage.name.len())
            .max()
            .unwrap_or_default();
        for Stage {
            name,
            outcome,
            duration,
        } in &self.0
        {
            writeln!(
                f,
                "{name:width$}  {:>8}  {outcome}",
                Seconds(*duration).to_string()
            )?;
        }
        let total = self.0.iter().map(|stage| stage.duration).sum();
        let all = if self.has_failed() {
            "failed"
        } else {
            "passed"
        };
        write!(
            f,
            "{:width$}  {:>8}  {all}",
            "all",
            Seconds(total).to_string()
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed => f.write_str("failed"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
        }
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn one_failed_stage_fails_the_whole_and_later_ones_still_run() {
        let mut stages = Stages::default();
        stages.run("first", || Err(anyhow!("no")));
        stages.run("second", || Ok(()));
        let outcomes: Vec<_> = stages.0.iter().map(|stage| &stage.outcome).collect();
        assert_eq!(outcomes, [&Outcome::Failed, &Outcome::Passed]);
        assert!(stages.has_failed());
    }

    #[test]
    fn a_skipped_stage_fails_nothing_and_shows_its_reason() {
        let mut stages = Stages::default();
        stages.skip("spelling", "not installed");
        assert!(!stages.has_failed());
        let table = "spelling     0.0 s  skipped: not installed\nall          0.0 s  passed";
        assert_eq!(stages.to_string(), table);
    }
}
