//! `cargo xtask fuzz`: runs the fuzz targets of the parsers, starting with the inputs that the tests replay.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use crate::cargo::{program, run_command, succeeds, workspace_root};

/// The package of the targets that parse a model server's output. The fuzz packages are not part of the workspace.
const WIRE: &str = "crates/adapters/wire/fuzz";

/// The package of the targets that parse files and model output.
const APP: &str = "crates/app/fuzz";

/// The maximum length of an input, in bytes: enough for the longest one that the tests replay.
const MAX_LENGTH: usize = 16 * 1024;

/// Which targets to run, and how long.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The target. By default, all run in sequence.
    target: Option<Target>,
    /// How long to run each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

impl Options {
    /// All targets, each for this many seconds.
    pub(crate) const fn all(seconds: u32) -> Self {
        Self {
            target: None,
            seconds,
        }
    }
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
    /// Streams of Anthropic's Messages API.
    Messages,
    /// Error bodies.
    Errors,
    /// Tool calls that a DeepSeek model wrote into its text.
    Markup,
    /// Configuration files.
    Config,
    /// Files of cases.
    Eval,
    /// Messages of MCP servers.
    Frames,
    /// Patches of files.
    Patch,
    /// Logs of runs.
    Record,
    /// Exported sessions.
    Archive,
    /// Answers whose citations are checked.
    Citations,
    /// Command lines.
    Command,
    /// URLs from a model or a redirect.
    Url,
}

impl Target {
    /// The name of the target in its package and on the command line.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The package of the target, and the folder beneath `crates` whose tests replay its inputs.
    const fn home(self) -> (&'static str, &'static str) {
        match self {
            Self::Sse | Self::Chat | Self::Errors => (WIRE, "adapters/wire"),
            Self::Markup => (WIRE, "adapters/deepseek"),
            Self::Responses => (WIRE, "adapters/openai"),
            Self::Messages => (WIRE, "adapters/anthropic"),
            Self::Command => (APP, "brainstem"),
            Self::Citations
            | Self::Config
            | Self::Eval
            | Self::Frames
            | Self::Patch
            | Self::Record
            | Self::Archive
            | Self::Url => (APP, "app"),
        }
    }

    /// The folder of the inputs that the tests replay.
    fn seeds(self) -> PathBuf {
        let (_, owner) = self.home();
        let crates = workspace_root().join("crates");
        crates.join(owner).join("tests/corpus").join(self.name())
    }
}

/// Returns what the machine lacks for fuzzing and how to install it, or `None` if nothing is missing.
pub(crate) fn missing() -> Option<&'static str> {
    if !succeeds(nightly_cargo("--version")) {
        return Some("a nightly toolchain: rustup toolchain install nightly");
    }
    let is_there = succeeds(nightly_cargo("fuzz --version"));
    (!is_there).then_some("cargo-fuzz: cargo install cargo-fuzz")
}

/// Runs targets in sequence, stopping at the first failure.
pub(crate) fn fuzz(options: &Options) -> anyhow::Result<()> {
    if let Some(missing) = missing() {
        bail!("fuzzing needs {missing}");
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

/// Runs a target. New inputs are stored in a folder that is not checked in, next to the ones that are.
fn run_target(target: Target, seconds: u32) -> anyhow::Result<()> {
    let (name, (package, _)) = (target.name(), target.home());
    let kept = workspace_root().join(package).join("corpus").join(&name);
    std::fs::create_dir_all(&kept).with_context(|| format!("cannot create {}", kept.display()))?;
    let mut command = nightly_cargo(&format!("fuzz run --fuzz-dir {package} {name}"));
    command.arg(kept).arg(target.seeds()).arg("--").args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={MAX_LENGTH}"),
    ]);
    run_command(command)
        .with_context(|| format!("failing inputs are stored in {package}/artifacts/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(package: &str) -> String {
        let manifest = workspace_root().join(package).join("Cargo.toml");
        std::fs::read_to_string(manifest).unwrap()
    }

    #[test]
    fn every_target_has_inputs_and_is_in_the_manifest() {
        let targets = Target::value_variants();
        for package in [WIRE, APP] {
            let manifest = manifest(package);
            let targets = targets.iter().filter(|target| target.home().0 == package);
            assert_eq!(manifest.matches("[[bin]]").count(), targets.count());
        }
        for target in targets {
            let manifest = manifest(target.home().0);
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
