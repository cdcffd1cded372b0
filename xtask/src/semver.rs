//! `cargo xtask semver`: reports which changes of the public interfaces would break embedding programs.
//!
//! Not part of `cargo xtask ci`: it builds the documentation of every crate twice, which takes minutes, and until 1.0 a
//! minor version may break an interface. Run it when writing the changelog of a version.

use std::process::Command;

use anyhow::{Context, bail};
use cargo_metadata::Target;
use clap::Args;

use crate::cargo::{cargo, program, run_command, succeeds};
use crate::packages;

/// What to compare the public interfaces with.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The commit or tag to compare with. The default is the last tag, or without tags the previous commit.
    #[arg(long, value_name = "REV")]
    since: Option<String>,

    /// Compare only these crates. By default, all crates with an interface; each takes minutes.
    #[arg(long = "package", short = 'p', value_name = "CRATE")]
    packages: Vec<String>,
}

/// Compares the interfaces.
pub(crate) fn compare(options: &Options) -> anyhow::Result<()> {
    if !succeeds(cargo("semver-checks --version")) {
        bail!("cargo-semver-checks is not installed: `cargo install --locked cargo-semver-checks`");
    }
    let since = match &options.since {
        Some(since) => since.clone(),
        None => baseline()?,
    };
    println!("compared with {since}");
    let mut crates = libraries()?;
    if let Some(unknown) = options.packages.iter().find(|name| !crates.contains(name)) {
        bail!(
            "{unknown} is not a library of this workspace; known: {}",
            crates.join(", ")
        );
    }
    crates.retain(|name| options.packages.is_empty() || options.packages.contains(name));
    run_command(comparison(&since, &crates))
}

/// Prepares the comparison of these crates. Each is named, because unpublished crates are left out otherwise.
fn comparison(since: &str, crates: &[String]) -> Command {
    let mut command = cargo("semver-checks check-release");
    command.args(["--baseline-rev", since]);
    command.args(crates.iter().flat_map(|name| ["--package", name]));
    command
}

/// Returns the crates with an interface for other programs.
fn libraries() -> anyhow::Result<Vec<String>> {
    let packages = packages::packages()?.into_iter();
    let libraries = packages
        .filter(|package| package.targets.iter().any(Target::is_lib) && package.readme.is_some());
    Ok(libraries.map(|package| package.name.to_string()).collect())
}

fn baseline() -> anyhow::Result<String> {
    let last_tag = printed_line(program("git", "describe --tags --abbrev=0"));
    let found = match last_tag {
        Some(tag) => Some(tag),
        None => printed_line(program("git", "rev-parse --short HEAD^")),
    };
    found.context("no earlier version to compare with; pass a commit with --since")
}

/// Returns the line that a program prints, if it succeeds.
fn printed_line(mut command: Command) -> Option<String> {
    let output = command.output().ok().filter(|it| it.status.success())?;
    let line = String::from_utf8(output.stdout).ok()?;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_compared_by_name_and_programs_are_left_out() {
        let libraries = libraries().unwrap();
        let command = comparison("v0.1.0", &libraries);
        let arguments: Vec<_> = command.get_args().map(|it| it.to_string_lossy()).collect();
        let has = |expected: &[&str]| arguments.windows(expected.len()).any(|it| it == expected);
        assert!(has(&["--baseline-rev", "v0.1.0"]));
        assert!(has(&["--package", "neuraxis"]) && has(&["--package", "neuraxis-core"]));
        assert!(!has(&["neuraxis-cli"]) && !has(&["neuraxis-tool-macro"]) && !has(&["xtask"]));
    }

    #[test]
    fn a_failing_program_prints_no_line() {
        assert_eq!(
            printed_line(program("git", "rev-parse no-such-commit")),
            None
        );
        assert!(printed_line(cargo("--version")).is_some_and(|line| line.starts_with("cargo")));
    }
}
