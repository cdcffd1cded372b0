//! `cargo xtask test`: provisions what the tests need, then runs them all.
//!
//! Where something cannot be provisioned, the tests marked `#[ignore = "needs …"]` are left out, and the table at the end
//! says so. On CI that fails the run.

use std::process::{Command, ExitCode};

use anyhow::bail;

use crate::cargo::{cargo, succeeds};
use crate::provision::{self, Missing};
use crate::stages::Stages;

/// Runs the subcommand.
pub(crate) fn run() -> ExitCode {
    let mut stages = Stages::default();
    add_stages(&mut stages);
    stages.close()
}

/// Adds the stages that test the workspace.
pub(crate) fn add_stages(stages: &mut Stages) {
    let mut missing = Vec::new();
    stages.run("provision", || {
        missing = provision::all();
        suffices(&missing, Place::here())
    });
    for Missing { name, reason } in &missing {
        stages.skip(format!("tests that need {name}"), reason.to_string());
    }
    let extent = if missing.is_empty() {
        Extent::All
    } else {
        Extent::NothingIgnored
    };
    if succeeds(cargo("nextest --version")) {
        stages.command("tests", nextest(extent));
    } else {
        println!("\ncargo-nextest is not installed: the tests run through cargo's own runner.");
        stages.command("tests", cargo_test(extent));
    }
    let mut doc_tests = cargo("test --workspace --doc --no-fail-fast");
    if extent == Extent::All {
        // Pages about databases then run on a real server, and on a file elsewhere.
        doc_tests.envs(provision::variables());
    }
    stages.command("doc-tests", doc_tests);
}

/// Where the tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On somebody's machine, which may lack what the tests need.
    Workstation,
    /// Where nobody would notice that tests are left out.
    Ci,
}

impl Place {
    fn here() -> Self {
        match std::env::var("CI") {
            Ok(value) if value == "true" => Self::Ci,
            _ => Self::Workstation,
        }
    }
}

/// Which tests run: by what could be provisioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All, and they are told where to find what they need.
    All,
    /// Those that need nothing.
    NothingIgnored,
}

fn suffices(missing: &[Missing], place: Place) -> anyhow::Result<()> {
    let names: Vec<_> = missing.iter().map(|it| it.name).collect();
    match place {
        Place::Ci if !names.is_empty() => {
            bail!("on CI all tests have to run; missing: {}", names.join(", "))
        }
        _ => Ok(()),
    }
}

/// The variable that asks for the tests of real providers.
const REAL_PROVIDERS: &str = "NEURAXIS_TEST_REAL_PROVIDERS";

fn nextest(extent: Extent) -> Command {
    let mut command = cargo("nextest run --workspace --no-fail-fast");
    if extent == Extent::All {
        command
            .args(["--run-ignored", "all"])
            .envs(provision::variables());
        // Tests of real providers need a key and somebody who wants them to: without, they count as skipped.
        if std::env::var_os(REAL_PROVIDERS).is_none() {
            command.args(["--filterset", "not binary(real_provider)"]);
        }
    }
    command
}

fn cargo_test(extent: Extent) -> Command {
    let mut command = cargo("test --workspace --lib --bins --tests --examples --no-fail-fast");
    if extent == Extent::All {
        command
            .args(["--", "--include-ignored"])
            .envs(provision::variables());
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_missing_is_an_error_on_ci_only() {
        let missing = || Missing {
            name: "a model server",
            reason: anyhow::anyhow!("no network"),
        };
        let error = suffices(&[missing()], Place::Ci).unwrap_err();
        assert_eq!(
            error.to_string(),
            "on CI all tests have to run; missing: a model server"
        );
        assert!(suffices(&[missing()], Place::Workstation).is_ok());
        assert!(suffices(&[], Place::Ci).is_ok());
    }

    #[test]
    fn ignored_tests_run_only_with_the_variables_they_need() {
        for runner in [nextest, cargo_test] {
            let mentions_ignored = |extent| {
                let command = runner(extent);
                let mut arguments = command.get_args();
                arguments.any(|it| it.to_string_lossy().contains("ignored"))
            };
            assert!(mentions_ignored(Extent::All));
            assert!(!mentions_ignored(Extent::NothingIgnored));
            let has_variable = runner(Extent::All)
                .get_envs()
                .any(|(name, _)| name == "TEST_NEURAXIS_GGUF");
            assert!(has_variable);
        }
    }
}
