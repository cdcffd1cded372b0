//! `cargo xtask test`: provisions what the tests need, then runs them all.
//!
//! If a required provision cannot be installed, the tests marked `#[ignore = "needs …"]` are left out, and the table at
//! the end says so. On CI this fails the run. If an optional provision is missing, only its own tests are left out;
//! this fails the run only on CI, and only if it could have been installed there.

use std::process::{Command, ExitCode};

use anyhow::bail;

use crate::cargo::{cargo, succeeds};
use crate::provision::{self, Missing, Optional};
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
        suffices(&missing, Place::from_environment())
    });
    for Missing { name, reason, .. } in &missing {
        stages.skip(format!("tests that need {name}"), reason.to_string());
    }
    let extent = Extent::without(&missing);
    if succeeds(cargo("nextest --version")) {
        stages.command("tests", nextest(&extent));
    } else {
        println!("\ncargo-nextest is not installed; running the tests with cargo's own runner.");
        stages.command("tests", cargo_test(&extent));
    }
    let mut doc_tests = cargo("test --workspace --doc --no-fail-fast");
    if extent != Extent::NothingIgnored {
        // Documentation pages about databases then use a real server; otherwise they use a file.
        doc_tests.envs(provision::variables());
    }
    stages.command("doc-tests", doc_tests);
}

/// Where the tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On a developer's machine, which may lack what the tests need.
    Workstation,
    /// On CI, where skipped tests would go unnoticed.
    Ci,
}

impl Place {
    fn from_environment() -> Self {
        match std::env::var("CI") {
            Ok(value) if value == "true" => Self::Ci,
            _ => Self::Workstation,
        }
    }
}

/// Which tests run, depending on what could be provisioned.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Extent {
    /// All tests whose names contain none of these, with the variables to find what they need.
    AllBut(Vec<&'static str>),
    /// Only tests that need nothing.
    NothingIgnored,
}

impl Extent {
    fn without(missing: &[Missing]) -> Self {
        let tests = missing.iter().map(|it| {
            let Optional(tests, _) = it.optional?;
            Some(tests)
        });
        let tests: Option<Vec<_>> = tests.collect();
        tests.map_or(Self::NothingIgnored, Self::AllBut)
    }
}

fn suffices(missing: &[Missing], place: Place) -> anyhow::Result<()> {
    let required = missing.iter().filter(|it| {
        let optional = it.optional;
        optional.is_none_or(|Optional(_, is_excused)| !is_excused())
    });
    let names: Vec<_> = required.map(|it| it.name).collect();
    match place {
        Place::Ci if !names.is_empty() => {
            bail!("all tests must run on CI; missing: {}", names.join(", "))
        }
        _ => Ok(()),
    }
}

/// The variable that enables the tests of real providers.
const REAL_PROVIDERS: &str = "NEURAXIS_TEST_REAL_PROVIDERS";

/// Tests that only measure and print something, and run only when requested by name. With their modules, because
/// cargo's own runner skips every test whose name contains one of these.
const MEASURING: [&str; 2] = ["finding::figures", "fleet_figures::figures"];

fn nextest(extent: &Extent) -> Command {
    let mut command = cargo("nextest run --workspace --no-fail-fast");
    if let Extent::AllBut(left_out) = extent {
        command
            .args(["--run-ignored", "all"])
            .envs(provision::variables());
        let mut left_out: Vec<String> = left_out.iter().map(|it| format!("test({it})")).collect();
        // Tests of real providers need a key and an explicit request; otherwise they are reported as skipped.
        if std::env::var_os(REAL_PROVIDERS).is_none() {
            left_out.push("binary(real_provider)".to_owned());
        }
        left_out.extend(MEASURING.iter().map(|it| format!("test(={it})")));
        command.args(["--filterset", &format!("not ({})", left_out.join(" or "))]);
    }
    command
}

fn cargo_test(extent: &Extent) -> Command {
    let mut command = cargo("test --workspace --lib --bins --tests --examples --no-fail-fast");
    if let Extent::AllBut(left_out) = extent {
        command
            .args(["--", "--include-ignored"])
            .args(
                MEASURING
                    .iter()
                    .chain(left_out)
                    .flat_map(|it| ["--skip", it]),
            )
            .envs(provision::variables());
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_provision_is_an_error_only_on_ci() {
        let missing = |optional| Missing {
            name: "a model server",
            reason: anyhow::anyhow!("no network"),
            optional,
        };
        let excused = Some(Optional("its", || true));
        let optional = Some(Optional("others", || false));
        let error = suffices(&[missing(None)], Place::Ci).unwrap_err();
        assert_eq!(
            error.to_string(),
            "all tests must run on CI; missing: a model server"
        );
        assert!(suffices(&[missing(None)], Place::Workstation).is_ok());
        assert!(suffices(&[missing(excused)], Place::Ci).is_ok());
        // Only its tests are left out elsewhere; on CI that would go unnoticed.
        assert!(suffices(&[missing(optional)], Place::Ci).is_err());
        assert!(suffices(&[missing(optional)], Place::Workstation).is_ok());
        assert!(suffices(&[], Place::Ci).is_ok());
        let one = [missing(excused)];
        assert_eq!(Extent::without(&one), Extent::AllBut(vec!["its"]));
        let both = [missing(excused), missing(None)];
        assert_eq!(Extent::without(&both), Extent::NothingIgnored);
    }

    #[test]
    fn cargo_test_skips_only_the_measuring_tests() {
        let command = cargo_test(&Extent::AllBut(Vec::new()));
        let arguments = command.get_args().map(|it| it.to_str().unwrap());
        let arguments: Vec<_> = arguments.collect();
        let is_left_out = |test: &str| {
            let mut pairs = arguments.windows(2);
            pairs.any(|pair| pair[0] == "--skip" && test.contains(pair[1]))
        };
        assert!(is_left_out("finding::figures"));
        assert!(is_left_out("fleet_figures::figures"));
        for test in [
            "metrics::tests::the_figures_are_for_programs_on_this_machine",
            "operations::the_figures_count_requests_problems_runs_and_tokens",
            "command::stats::tests::figures_fit_into_sixty_columns",
            "stats::figures_are_those_of_the_runs_that_are_listed",
        ] {
            assert!(!is_left_out(test), "{test}");
        }
    }

    /// A test-specific setting of the default profile takes precedence over a general setting of another profile,
    /// unless that is an override too.
    #[test]
    fn the_rounds_profile_allows_hours_per_test() {
        let file = crate::cargo::workspace_root().join(".config/nextest.toml");
        let config = std::fs::read_to_string(file).unwrap();
        let rounds = "[[profile.rounds.overrides]]\nfilter = \"all()\"\n\
                      slow-timeout = { period = \"60s\", terminate-after = 600 }\n";
        assert!(config.contains(rounds), "{config}");
    }

    #[test]
    fn ignored_tests_run_only_when_everything_they_need_is_provided() {
        for runner in [nextest, cargo_test] {
            let arguments = |extent| -> String {
                let command = runner(&extent);
                let arguments = command.get_args().map(|it| it.to_string_lossy());
                arguments.collect::<Vec<_>>().join(" ")
            };
            assert!(arguments(Extent::AllBut(Vec::new())).contains("ignored"));
            assert!(!arguments(Extent::NothingIgnored).contains("ignored"));
            assert!(arguments(Extent::AllBut(vec!["real_thing"])).contains("real_thing"));
            let has_variable = runner(&Extent::AllBut(Vec::new()))
                .get_envs()
                .any(|(name, _)| name == "TEST_NEURAXIS_GGUF");
            assert!(has_variable);
        }
    }
}
