//! The files under `deploy/` for several servers, held against the schemas of those who read them, and against our own
//! configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use neuraxis_app::{Config, DriverKind, Environment, Sources};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// Runs one of the linters that are provisioned.
fn passes(linter: &str, arguments: &[&str], file: &str) {
    let linters = std::env::var_os("TEST_NEURAXIS_DEPLOY_LINTERS").unwrap();
    let mut linter = Command::new(Path::new(&linters).join(linter));
    let output = linter.args(arguments).arg(deploy(file)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

#[test]
#[ignore = "needs linters: run by cargo xtask test"]
fn lint_the_compose_file_is_one() {
    let schema = ["--builtin-schema", "vendor.compose-spec"];
    passes("check-jsonschema", &schema, "restate.compose.yaml");
}

#[test]
#[ignore = "needs linters: run by cargo xtask test"]
fn lint_the_objects_are_ones_of_kubernetes() {
    passes(
        "kubernetes-validate",
        &["--strict"],
        "restate.kubernetes.yaml",
    );
}

#[test]
fn the_configuration_for_kubernetes_is_one() {
    let text = fs::read_to_string(deploy("restate.kubernetes.yaml")).unwrap();
    let (_, rest) = text.split_once("neuraxis.toml: |\n").unwrap();
    let lines = rest.lines().take_while(|line| *line != "---");
    let lines: Vec<_> = lines.map(str::trim_start).collect();
    let config = loaded(&lines.join("\n"), &[]);
    assert_eq!(config.driver().kind, DriverKind::Restate);
    config.driver().restate.check().unwrap();
}

#[test]
fn the_variables_of_the_compose_file_are_a_configuration() {
    let text = fs::read_to_string(deploy("restate.compose.yaml")).unwrap();
    let variables = text.lines().filter_map(|line| {
        let (name, value) = line.trim_start().split_once(": ")?;
        let value = value.trim_matches('"');
        name.starts_with("NEURAXIS_").then_some((name, value))
    });
    let variables: Vec<_> = variables.collect();
    assert!(variables.len() >= 10, "{variables:?}");
    let config = loaded("", &variables);
    assert_eq!(config.driver().kind, DriverKind::Restate);
    config.driver().restate.check().unwrap();
}

fn loaded(text: &str, variables: &[(&str, &str)]) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("neuraxis.toml");
    fs::write(&file, text).unwrap();
    let environment = Environment::new(folder.path());
    let with = |environment: Environment, (name, value): &(&str, &str)| {
        environment.with_variable(*name, *value)
    };
    let environment = variables.iter().fold(environment, with);
    Config::load(&environment, &Sources::default().with_file(file)).unwrap()
}
