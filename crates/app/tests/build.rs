//! Builds engines from configurations.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[cfg(target_os = "linux")]
#[path = "stand_in/sandbox.rs"]
mod sandbox;

use std::error::Error;

use neuraxis_app::{App, BuildError, Choice, Config, Environment, OpenStore, Sources, discover};
use neuraxis_core::{Channel, Mode, Role, RunStatus, SessionId};
use tempfile::TempDir;

/// Disables the search for servers on the machine that runs the tests.
fn alone() -> Sources {
    Sources::default()
        .with_flag("--set", "discovery.local_servers", "false")
        .with_flag("--set", "store.url", "memory:")
}

fn config(settings: &[(&str, &str)]) -> (Config, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let sources = settings.iter().fold(alone(), |sources, (key, value)| {
        sources.with_flag("--set", *key, *value)
    });
    let config = Config::load(&Environment::new(folder.path()), &sources).unwrap();
    (config, folder)
}

/// An environment without any variable.
fn environment() -> Environment {
    Environment::new(std::env::temp_dir())
}

async fn build(settings: &[(&str, &str)]) -> Result<App, BuildError> {
    let (config, _folder) = config(settings);
    App::builder(&config, &environment()).build().await
}

#[tokio::test]
async fn without_configuration_the_offline_model_answers_and_a_notice_says_so() {
    let app = build(&[]).await.unwrap();
    assert_eq!(
        app.notices,
        [
            "no model configured: answering offline, by rules (export OPENAI_API_KEY, DEEPSEEK_API_KEY or ANTHROPIC_API_KEY, or run `neuraxis setup`)"
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
async fn a_configured_model_needs_no_notice() {
    let (config, _folder) = config(&[("models.coding.provider", "offline")]);
    let discovery = discover(&config, &environment()).await;
    assert_eq!(discovery.choice, Choice::Configured);
    assert!(discovery.endpoints.keys().eq([&Role::CODING]));
    assert!(
        App::builder(&config, &environment())
            .build()
            .await
            .unwrap()
            .notices
            .is_empty()
    );
}

#[tokio::test]
async fn ignored_settings_of_the_project_file_cause_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[modes.moderate]\nmax_turns = 30\n";
    std::fs::write(folder.path().join("neuraxis.toml"), text).unwrap();
    let surroundings = Environment::new(folder.path());
    let config = Config::load(&surroundings, &alone()).unwrap();
    let app = App::builder(&config, &surroundings).build().await.unwrap();
    let expected =
        "./neuraxis.toml is not trusted; ignored: modes.moderate.max_turns (neuraxis trust show)";
    assert!(
        app.notices.iter().any(|notice| notice == expected),
        "{:?}",
        app.notices
    );
}

#[tokio::test]
async fn this_build_offers_all_its_tools() {
    #[cfg(target_os = "linux")]
    sandbox::has_sandbox();
    let app = build(&[]).await.unwrap();
    let tools = app.orchestrator.tools();
    let names: Vec<&str> = tools.specs().map(|spec| spec.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "current_time",
            "calculate",
            "ask_user",
            "update_plan",
            "system_health",
            "web_fetch",
            "list_files",
            "read_file",
            "search_files",
            "write_file",
            "apply_patch",
            "run_command",
            "research",
            "read_output"
        ]
    );
}

#[tokio::test]
async fn an_unsupported_store_is_refused_with_the_supported_ones() {
    for (key, value, expected) in [
        (
            "store.url",
            "mongodb://me:hunter2@host/db",
            "--set: store.url: this build has no store for mongodb:; supported: memory:, sqlite://PATH, postgres://USER@HOST/DATABASE",
        ),
        (
            "store.url",
            "hunter2",
            "--set: store.url: not a URL; supported: memory:, sqlite://PATH, postgres://USER@HOST/DATABASE",
        ),
        (
            "store.url",
            "memory://host",
            "--set: store.url: a store in memory has no address; supported: memory:, sqlite://PATH, postgres://USER@HOST/DATABASE",
        ),
    ] {
        let error = build(&[(key, value)]).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn handing_runs_to_workers_requires_a_shared_store_and_valid_addresses() {
    let handed_over = async |settings: &[(&str, &str)]| {
        let (config, _folder) = config(settings);
        let environment = environment();
        let app = App::builder(&config, &environment).driven_as_configured();
        app.build().await.unwrap_err().to_string()
    };
    let restate = ("driver.kind", "restate");
    let error = handed_over(&[restate, ("store.url", "memory:")]).await;
    assert!(
        error.starts_with("--set: driver.kind: workers resume runs from a shared store"),
        "{error}"
    );
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("s.db").display());
    let address = ("driver.restate.ingress", "restate:8080");
    let error = handed_over(&[restate, ("store.url", &url), address]).await;
    assert_eq!(
        error,
        "--set: driver.restate.ingress: \"restate:8080\" is not a valid address; expected, for example, http://127.0.0.1:8080"
    );
    // The section does not apply to a program that drives its own runs.
    build(&[restate, ("store.url", "memory:")]).await.unwrap();
}

#[tokio::test]
async fn a_missing_project_folder_is_named_with_its_origin() {
    let error = build(&[("tools.root", "no/such/folder")])
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "--set: tools.root cannot be used");
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("no/such/folder"), "{cause}");
}

/// Loads the configuration without a configured store.
fn unnamed_store(environment: &Environment) -> Config {
    let sources = Sources::default().with_flag("--set", "discovery.local_servers", "false");
    Config::load(environment, &sources).unwrap()
}

#[tokio::test]
async fn sessions_are_stored_in_the_data_folder_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data/neuraxis");
    let surroundings = environment().with_data_dir(&data);
    let config = unnamed_store(&surroundings);
    let session: SessionId = "kept".parse().unwrap();
    let app = App::builder(&config, &surroundings).build().await.unwrap();
    let asked = app.orchestrator.handle_user_request(
        &session,
        "What time is it?",
        Mode::MODERATE,
        Channel::CHAT,
    );
    assert_eq!(asked.await.unwrap().status, RunStatus::Done);
    app.close().await;

    assert!(data.join("sessions.db").is_file());
    let again = OpenStore::open(&config, &surroundings).await.unwrap();
    let history = again.sessions().history(&session).await.unwrap();
    assert!(!history.is_empty());
    again.close().await;
}

#[tokio::test]
async fn without_a_data_folder_sessions_are_in_memory_and_a_notice_says_so() {
    let config = unnamed_store(&environment());
    let app = App::builder(&config, &environment()).build().await.unwrap();
    let last = app.notices.last().unwrap();
    assert!(last.contains("sessions end with the program"), "{last}");
}

#[tokio::test]
async fn sessions_in_a_read_only_data_folder_are_mentioned_in_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.db");
    std::fs::write(&file, "what was kept").unwrap();
    let surroundings = environment().with_data_dir(folder.path());
    let surroundings = surroundings.with_read_only_data();
    let config = unnamed_store(&surroundings);
    let told = neuraxis_app::no_store_warning(&config, &surroundings).unwrap();
    let expected = format!(
        "{} exists but cannot be opened for writing, so its contents are not shown",
        file.display()
    );
    assert!(told.starts_with(&expected), "{told}");
    assert!(told.contains("sessions end with the program"), "{told}");
}

#[tokio::test]
async fn commands_about_sessions_read_the_usual_file_of_a_read_only_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let surroundings = environment().with_data_dir(folder.path());
    let config = unnamed_store(&surroundings);
    let store = OpenStore::open(&config, &surroundings).await.unwrap();
    store.close().await;
    let surroundings = surroundings.with_read_only_data();
    let config = unnamed_store(&surroundings);
    let store = OpenStore::open(&config, &surroundings).await.unwrap();
    assert!(!store.is_persistent(), "a question stores nothing there");
    let store = OpenStore::open_to_read(&config, &surroundings).await;
    let store = store.unwrap();
    assert!(store.is_persistent());
    store.close().await;
}

#[tokio::test]
async fn a_data_folder_that_cannot_be_created_is_named_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let surroundings = environment().with_data_dir(file.join("neuraxis"));
    let config = unnamed_store(&surroundings);
    let error = App::builder(&config, &surroundings)
        .build()
        .await
        .unwrap_err();
    let expected = "default: store.url: the database cannot be opened; set store.url to another file, or to memory: to store nothing";
    assert_eq!(error.to_string(), expected);
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains(&file.display().to_string()), "{cause}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_error_for_an_unusable_database_suggests_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink(folder.path(), data.join("sessions.db")).unwrap();
    let surroundings = environment().with_data_dir(data);
    let config = unnamed_store(&surroundings);
    let error = OpenStore::open(&config, &surroundings).await.unwrap_err();
    let expected = "default: store.url: the database cannot be opened";
    assert_eq!(error.to_string(), expected);
}

/// Returns which model serves in the given environment without configuration, and the messages to the user.
async fn found(variables: &[(&str, &str)], settings: &[(&str, &str)]) -> (String, String) {
    let (config, _folder) = config(settings);
    let environment = variables.iter().fold(environment(), |all, (name, value)| {
        all.with_variable(*name, *value)
    });
    let discovery = discover(&config, &environment).await;
    let endpoint = discovery.endpoints.get(&Role::REASONING).unwrap();
    let endpoint = endpoint.as_ref().unwrap();
    let debug = format!("{discovery:?}");
    assert!(!debug.contains("canary"), "{debug}");
    let notice = discovery.choice.notice().unwrap();
    (endpoint.info().model.to_string(), notice)
}

#[tokio::test]
async fn without_configuration_a_key_in_its_usual_variable_is_used_and_not_shown() {
    let openai = ("OPENAI_API_KEY", "sk-canary-1");
    let deepseek = ("DEEPSEEK_API_KEY", "sk-canary-2");
    let (model, notice) = found(&[openai, deepseek], &[]).await;
    assert_eq!(model, "openai/gpt-5.4-mini");
    let expected = "no model configured: using openai/gpt-5.4-mini with the key in OPENAI_API_KEY";
    assert_eq!(notice, expected);
    let (model, notice) = found(&[("OPENAI_API_KEY", " "), deepseek], &[]).await;
    assert_eq!(model, "deepseek/deepseek-flash");
    assert!(
        notice.ends_with("with the key in DEEPSEEK_API_KEY"),
        "{notice}"
    );
}

#[tokio::test]
async fn discovered_keys_accept_a_model_and_an_address_and_can_be_disabled() {
    let openai = ("OPENAI_API_KEY", "sk-canary-1");
    let url = ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let (model, notice) = found(&[openai, url], &[("discovery.openai_model", "mine")]).await;
    assert_eq!(model, "openai/mine");
    let expected = "no model configured: using openai/mine at http://127.0.0.1:9/v1 with the key in OPENAI_API_KEY";
    assert_eq!(notice, expected);
    let (model, _) = found(&[openai], &[("discovery.keys", "false")]).await;
    assert_eq!(model, "offline/rules");
}

#[tokio::test]
async fn an_invalid_address_in_a_variable_is_reported_with_the_variable() {
    let (config, _folder) = config(&[]);
    let environment = environment()
        .with_variable("OPENAI_API_KEY", "sk-canary-1")
        .with_variable("OPENAI_BASE_URL", "canary");
    let error = App::builder(&config, &environment)
        .build()
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with("OPENAI_BASE_URL: base_url is not a valid address"),
        "{said}"
    );
    assert!(!said.contains("canary"), "{said}");
}

#[test]
fn every_example_in_the_docs_is_a_valid_configuration() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut examples = 0;
    for page in ["README.md", "docs/models.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let (example, _) = block.split_once("```").unwrap();
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("neuraxis.toml"), example).unwrap();
            let named = alone().with_file("neuraxis.toml");
            let loaded = Config::load(&Environment::new(folder.path()), &named);
            assert!(loaded.is_ok(), "{page}: {example}{loaded:?}");
            examples += 1;
        }
    }
    assert_eq!(examples, 7);
}

#[tokio::test]
async fn a_session_in_a_file_continues_in_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("sessions.db").display());
    let session = "s".parse().unwrap();
    for question in ["What time is it?", "And in Tokyo?"] {
        let app = build(&[("store.url", &url)]).await.unwrap();
        let asked =
            app.orchestrator
                .handle_user_request(&session, question, Mode::MODERATE, Channel::CHAT);
        assert_eq!(asked.await.unwrap().status, RunStatus::Done);
        app.orchestrator.shutdown().await;
    }
    let store = neuraxis_sql::SqlStore::open(&neuraxis_sql::SqlConfig::new(&url))
        .await
        .unwrap();
    let runs = neuraxis_ports::SessionIndex::runs(&store, &session)
        .await
        .unwrap();
    let asked: Vec<_> = runs.iter().filter_map(|run| run.text.as_deref()).collect();
    assert_eq!(asked, ["What time is it?", "And in Tokyo?"]);
    let history = neuraxis_ports::SessionIndex::history(&store, &session)
        .await
        .unwrap();
    let said: Vec<_> = history
        .messages()
        .iter()
        .map(|message| message.text())
        .collect();
    assert_eq!(said.first().map(String::as_str), Some("What time is it?"));
    assert!(said.iter().any(|text| text == "And in Tokyo?"), "{said:?}");
}

#[tokio::test]
async fn web_fetch_is_always_offered_and_web_search_only_with_a_service() {
    let names = |app: &App| -> Vec<String> {
        let tools = app.orchestrator.tools();
        let specs = tools.specs();
        specs.map(|spec| spec.name.to_string()).collect()
    };
    let without = names(&build(&[]).await.unwrap());
    assert!(without.contains(&"web_fetch".to_owned()), "{without:?}");
    assert!(!without.contains(&"web_search".to_owned()), "{without:?}");
    let searxng = [
        ("web.search.provider", "searxng"),
        ("web.search.base_url", "http://127.0.0.1:1"),
    ];
    let with = names(&build(&searxng).await.unwrap());
    assert!(with.contains(&"web_search".to_owned()), "{with:?}");
}

#[tokio::test]
async fn an_incomplete_search_configuration_names_what_is_missing() {
    for (settings, said) in [
        (
            vec![("web.search.provider", "searxng")],
            "web.search: base_url is missing",
        ),
        (
            vec![("web.search.provider", "brave")],
            "web.search: api_key_env is missing: brave requires a key",
        ),
        (
            vec![("web.search.base_url", "https://a.example")],
            "web.search: provider is missing; known: searxng",
        ),
        (
            vec![
                ("web.search.provider", "tavily"),
                ("web.search.api_key_env", "NO_SUCH_KEY"),
            ],
            "the environment variable NO_SUCH_KEY that api_key_env names is not set",
        ),
        (
            vec![
                ("web.search.provider", "tavily"),
                ("web.search.api_key_env", "tvly-canary-1"),
            ],
            "the environment variable *** that",
        ),
    ] {
        let error = build(&settings).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
}
