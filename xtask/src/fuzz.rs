//! `cargo xtask fuzz`: runs the fuzz targets of the parsers, beginning with the inputs that the tests replay.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use crate::cargo::{program, succeed, succeeds, workspace_root};

/// The package of the targets, which is none of the workspace's.
const PACKAGE: &str = "crates/adapters/wire/fuzz";

/// The longest input that is tried, in bytes: room for the longest of those that the tests replay.
const MAX_LENGTH: usize = 16 * 1024;

/// Which targets to run, and how long.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The target; all of them one after the other, if left out.
    target: Option<Target>,
    /// How long to run each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// A parser that is fuzzed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Server-sent events.
    Sse,
    /// Streams of Chat Completions.
    Chat,
    /// Streams of Responses.
    Responses,
    /// Error bodies.
    Errors,
    /// Tool calls that a model of DeepSeek wrote into its text.
    Markup,
}

impl Target {
    /// The name of the target in the package.
    const fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Errors => "errors",
            Self::Markup => "markup",
        }
    }

    /// The folder of the inputs that the tests replay.
    fn seeds(self) -> PathBuf {
        let adapter = match self {
            Self::Markup => "deepseek",
            Self::Sse | Self::Chat | Self::Responses | Self::Errors => "wire",
        };
        let adapters = workspace_root().join("crates/adapters");
        adapters
            .join(adapter)
            .join("tests/corpus")
            .join(self.name())
    }
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> ExitCode {
    match fuzz(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz(options: &Options) -> anyhow::Result<()> {
    if !succeeds(nightly_cargo("--version")) {
        bail!("fuzzing needs a nightly toolchain: rustup toolchain install nightly");
    }
    if !succeeds(nightly_cargo("fuzz --version")) {
        bail!("fuzzing needs cargo-fuzz: cargo install cargo-fuzz");
    }
    let all = Target::value_variants();
    let targets = options.target.as_ref().map_or(all, std::slice::from_ref);
    for target in targets {
        run_target(*target, options.seconds)?;
    }
    Ok(())
}

fn nightly_cargo(arguments: &str) -> Command {
    program("rustup", &format!("run nightly cargo {arguments}"))
}

/// Runs a target. What it finds out it keeps in a folder that is not checked in, beside the inputs that are.
fn run_target(target: Target, seconds: u32) -> anyhow::Result<()> {
    let name = target.name();
    let kept = workspace_root().join(PACKAGE).join("corpus").join(name);
    std::fs::create_dir_all(&kept).with_context(|| format!("{} cannot be made", kept.display()))?;
    let mut command = nightly_cargo(&format!("fuzz run --fuzz-dir {PACKAGE} {name}"));
    command.arg(kept).arg(target.seeds()).arg("--").args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={MAX_LENGTH}"),
    ]);
    succeed(command)
        .with_context(|| format!("an input that fails is kept in {PACKAGE}/artifacts/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_inputs_and_stands_in_the_manifest() {
        let manifest = workspace_root().join(PACKAGE).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let targets = Target::value_variants();
        assert_eq!(manifest.matches("[[bin]]").count(), targets.len());
        for target in targets {
            let inputs = std::fs::read_dir(target.seeds()).unwrap();
            assert!(inputs.count() >= 15, "{}", target.name());
            assert!(
                manifest.contains(&format!("name = \"{}\"", target.name())),
                "{}",
                target.name()
            );
        }
    }
}
