//! Wiring an engine from a configuration.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::error::Error;

use neuraxis_app::{App, BuildError, Choice, Config, Environment, Sources, discover};
use neuraxis_core::{Channel, Mode, Role, RunStatus};
use tempfile::TempDir;

/// Whatever listens on the machine that runs the tests is not looked for.
fn alone() -> Sources {
    Sources::default().with_flag("--set", "discovery.local_servers", "false")
}

fn config(settings: &[(&str, &str)]) -> (Config, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let sources = settings.iter().fold(alone(), |sources, (key, value)| {
        sources.with_flag("--set", *key, *value)
    });
    let config = Config::load(&Environment::new(folder.path()), &sources).unwrap();
    (config, folder)
}

/// Surroundings with no variable at all.
fn environment() -> Environment {
    Environment::new(std::env::temp_dir())
}

async fn build(settings: &[(&str, &str)]) -> Result<App, BuildError> {
    let (config, _folder) = config(settings);
    App::build(&config, &environment()).await
}

#[tokio::test]
async fn with_nothing_configured_the_offline_model_answers_and_a_notice_says_so() {
    let app = build(&[]).await.unwrap();
    assert_eq!(
        app.notices,
        [
            "no model configured: answering offline, by rules (set [models.reasoning] in neuraxis.toml)"
        ]
    );
    let session = "s".parse().unwrap();
    let asked = app.orchestrator.handle_user_request(
        &session,
        "What time is it?",
        Mode::MODERATE,
        Channel::CHAT,
    );
    let result = asked.await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    assert!(result.reply.contains("UTC"), "{}", result.reply);
}

#[tokio::test]
async fn a_model_that_is_configured_needs_no_notice() {
    let (config, _folder) = config(&[("models.coding.provider", "offline")]);
    let discovery = discover(config.models(), config.discovery(), &environment())
        .await
        .unwrap();
    assert_eq!(discovery.choice, Choice::Configured);
    assert!(discovery.models.keys().eq([&Role::CODING]));
    assert!(
        App::build(&config, &environment())
            .await
            .unwrap()
            .notices
            .is_empty()
    );
}

#[tokio::test]
async fn all_tools_of_this_build_are_there() {
    let app = build(&[]).await.unwrap();
    let names: Vec<&str> = app
        .orchestrator
        .tools()
        .specs()
        .map(|spec| spec.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "current_time",
            "system_health",
            "list_files",
            "read_file",
            "search_files"
        ]
    );
}

#[tokio::test]
async fn what_this_build_does_not_have_is_refused_and_what_it_has_is_named() {
    for (key, value, expected) in [
        (
            "models.coding.provider",
            "openai",
            "--set: models.coding.provider: this build has no provider \"openai\"; known: llama, offline",
        ),
        (
            "models.coding.provider",
            "ofline",
            "--set: models.coding.provider: this build has no provider \"ofline\" (did you mean offline?); known: llama, offline",
        ),
        (
            "models.coding.model",
            "m",
            "--set: the key \"provider\" is missing in [models.coding]; supported: llama, offline",
        ),
        (
            "store.url",
            "postgres://me:hunter2@host/db",
            "--set: store.url: this build has no store for postgres:; supported: memory:",
        ),
        (
            "store.url",
            "hunter2",
            "--set: store.url: not a URL; supported: memory:",
        ),
        (
            "store.url",
            "memory://host",
            "--set: store.url: a store in memory has no address; supported: memory:",
        ),
    ] {
        let error = build(&[(key, value)]).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_project_folder_that_is_not_there_is_named_with_its_origin() {
    let error = build(&[("tools.root", "no/such/folder")])
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "--set: tools.root cannot be used");
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("no/such/folder"), "{cause}");
}
