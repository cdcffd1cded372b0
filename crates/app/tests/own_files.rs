//! The tools cannot access the program's own files, wherever the configuration puts them.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::fs;
use std::path::Path;

use neuraxis_app::{App, CassetteUse, Config, Environment, Sources};
use neuraxis_core::uuid::Uuid;
use neuraxis_core::{AgentId, EffectId, JsonText, RunId, ToolCallId, Turn};
use neuraxis_ports::{ToolContext, ToolError, TurnContext};
use serde_json::{Value, json};
use tempfile::TempDir;

const CONFIG: &str = "store.url = 'sqlite://sessions.db'
store.log.folder = 'logs'
store.keep = '90d'
store.archive = 'archive'
discovery.local_servers = false
models.coding.provider = 'openai'
models.coding.model = 'm'
models.coding.base_url = 'http://127.0.0.1:9'
models.coding.api_key_file = 'key'
server.tls.certificate = 'tls-cert'
server.tls.key = 'tls-key'
";

/// A project that contains the program's own files, except the data folder.
async fn project() -> (App, TempDir) {
    project_with(|environment| environment).await
}

async fn project_with(set: impl FnOnce(Environment) -> Environment) -> (App, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("logs")).unwrap();
    fs::create_dir(at("src")).unwrap();
    fs::create_dir(at("archive")).unwrap();
    fs::write(at("archive/session.jsonl"), "sk-hunter2").unwrap();
    fs::write(at("src/a.txt"), "free").unwrap();
    fs::write(at("key"), "sk-hunter2").unwrap();
    fs::write(at("tls-key"), "sk-hunter2").unwrap();
    fs::write(at("own.toml"), CONFIG).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let environment = set(Environment::new(folder.path()));
    let database = format!("sqlite://{}", at("sessions.db").display());
    let sources = Sources::default()
        .with_file("own.toml")
        .with_flag("--set", "store.url", database)
        .with_flag(
            "--set",
            "store.log.folder",
            at("logs").display().to_string(),
        );
    let config = Config::load(&environment, &sources).unwrap();
    let app = App::builder(&config, &environment).build().await.unwrap();
    (app, folder)
}

async fn call(app: &App, tool: &str, arguments: Value) -> Result<String, ToolError> {
    let run = RunId(Uuid::nil());
    let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
    let call = ToolCallId::from_text("call_1");
    let context = ToolContext::new(turn, call, EffectId { run, number: 1 });
    let tools = app.orchestrator.tools();
    let tool = tools.tool(&tool.parse().unwrap());
    let arguments = JsonText::from_text(arguments.to_string());
    let output = tool.unwrap().call(arguments, context).await?;
    Ok(output.value.as_str().to_owned())
}

async fn is_refused(app: &App, tool: &str, arguments: Value) {
    let error = call(app, tool, arguments.clone()).await.unwrap_err();
    let refusal = error.message.starts_with("out_of_reach: ");
    assert!(refusal, "{tool} {arguments}: {}", error.message);
}

fn content(folder: &Path, name: &str) -> Option<Vec<u8>> {
    fs::read(folder.join(name)).ok()
}

#[tokio::test]
async fn no_file_tool_writes_to_a_store_log_key_or_configuration_file() {
    let (app, folder) = project().await;
    for path in [
        "sessions.db",
        "src/../sessions.db",
        "sessions.db-wal",
        "sessions.db-shm",
        "sessions.db-journal",
        "logs/records.jsonl",
        "logs/new/x",
        "archive/new.jsonl",
        "key",
        "own.toml",
    ] {
        let before = content(folder.path(), path);
        let write = json!({ "path": path, "content": "x", "create_folders": true });
        is_refused(&app, "write_file", write).await;
        let patch = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
        let patched = call(&app, "apply_patch", json!({ "patch": patch })).await;
        assert!(patched.is_err(), "{path}: {patched:?}");
        assert_eq!(content(folder.path(), path), before, "{path}");
    }
    let free = json!({ "path": "src/b.txt", "content": "x" });
    call(&app, "write_file", free).await.unwrap();
}

#[tokio::test]
async fn no_file_tool_reads_a_key_or_the_store_under_any_name() {
    let (app, folder) = project().await;
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../key", folder.path().join("src/soft")).unwrap();
        fs::hard_link(folder.path().join("key"), folder.path().join("src/hard")).unwrap();
        for path in ["src/soft", "src/hard"] {
            is_refused(&app, "read_file", json!({ "path": path })).await;
        }
    }
    let absolute = folder.path().join("key").display().to_string();
    for path in [
        "key",
        "src/../key",
        &absolute,
        "sessions.db",
        "tls-key",
        "archive/session.jsonl",
    ] {
        is_refused(&app, "read_file", json!({ "path": path })).await;
        is_refused(
            &app,
            "search_files",
            json!({ "path": path, "pattern": "s" }),
        )
        .await;
    }
    let found = call(&app, "search_files", json!({ "pattern": "hunter2" })).await;
    assert!(!found.unwrap().contains("sk-hunter2"));
    let found = call(&app, "search_files", json!({ "pattern": "free" })).await;
    let found: Value = serde_json::from_str(&found.unwrap()).unwrap();
    assert_eq!(found.get("total_hits"), Some(&json!(1)));
}

/// Enables the sandbox for commands, with the helper that is built with the tools' own tests, next to this test.
#[cfg(target_os = "linux")]
fn use_sandbox() {
    let tests = std::env::current_exe().unwrap();
    let helper = tests.ancestors().nth(2).unwrap().join("neuraxis-sandbox");
    assert!(helper.exists(), "{} is not there", helper.display());
    neuraxis_tools::use_sandbox_helper(helper);
}

#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "needs the program neuraxis-sandbox, which the tests of neuraxis-tools build"]
async fn commands_read_no_key_and_write_to_no_store() {
    use_sandbox();
    let data = tempfile::tempdir().unwrap();
    for name in ["server.token", "sessions.db"] {
        fs::write(data.path().join(name), "sk-hunter2").unwrap();
    }
    let (app, folder) = project_with(|it| it.with_data_dir(data.path())).await;
    let before = content(folder.path(), "sessions.db");
    let run = async |command: &str| {
        let ran = call(&app, "run_command", json!({ "command": command })).await;
        serde_json::from_str::<Value>(&ran.unwrap()).unwrap()
    };
    for command in [
        "cat key",
        "cat < key",
        "cp key src/copy",
        "ln key src/link",
        "mv key src/moved",
        "sh -c 'cat key'",
        "dd if=key",
        "cat tls-key",
        "cat archive/session.jsonl",
        "cat \"$DATA\"/server.token",
        "cat \"$DATA\"/sessions.db",
    ] {
        let command = command.replace("$DATA", &data.path().display().to_string());

        let ran = run(&command).await;
        assert_ne!(ran.get("exit_code"), Some(&json!(0)), "{command}: {ran}");
        assert!(!ran.to_string().contains("sk-hunter2"), "{command}");
    }
    for command in [
        "echo x > sessions.db",
        "rm -f sessions.db",
        "mv sessions.db src/moved.db",
        "mv src/a.txt sessions.db",
        "truncate -s 0 sessions.db",
        "touch sessions.db-journal",
        "echo x > logs/records.jsonl",
        "rm logs/*",
        "echo x >> archive/session.jsonl",
    ] {
        let ran = run(command).await;
        assert_ne!(ran.get("exit_code"), Some(&json!(0)), "{command}: {ran}");
    }
    assert_eq!(content(folder.path(), "sessions.db"), before);
    assert!(content(folder.path(), "key").is_some());
    let ran =
        run("cat src/a.txt && mkdir src/new && echo y > src/new/b && cat src/new/b && ls").await;
    assert_eq!(ran.get("exit_code"), Some(&json!(0)), "{ran}");
}

/// Creates a key the way Kubernetes mounts a secret, and makes it point to another version.
#[cfg(unix)]
fn mount(folder: &Path, version: &str) {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let at = |name: &str| folder.join("mounted").join(name);
    fs::create_dir_all(at(version)).unwrap();
    let file = at(version).join("key");
    fs::write(&file, format!("sk-hunter2 of {version}")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(version, at("..new")).unwrap();
    fs::rename(at("..new"), at("..data")).unwrap();
    if !at("key").exists() {
        symlink("..data/key", at("key")).unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
#[ignore = "needs the program neuraxis-sandbox, which the tests of neuraxis-tools build"]
async fn a_key_replaced_behind_its_symlink_is_protected_immediately() {
    #[cfg(target_os = "linux")]
    use_sandbox();
    let folder = tempfile::tempdir().unwrap();
    mount(folder.path(), "..1");
    let environment = Environment::new(folder.path());
    let sources = Sources::default()
        .with_flag("--set", "store.url", "memory:")
        .with_flag("--set", "discovery.local_servers", "false")
        .with_flag("--set", "models.coding.provider", "openai")
        .with_flag("--set", "models.coding.model", "m")
        .with_flag("--set", "models.coding.base_url", "http://127.0.0.1:9")
        .with_flag("--set", "models.coding.api_key_file", "mounted/key");
    let config = Config::load(&environment, &sources).unwrap();
    let app = App::builder(&config, &environment).build().await.unwrap();
    mount(folder.path(), "..2");

    for path in ["mounted/key", "mounted/..1/key", "mounted/..2/key"] {
        is_refused(&app, "read_file", json!({ "path": path })).await;
        let write = json!({ "path": path, "content": "x" });
        is_refused(&app, "write_file", write).await;
    }
    let found = call(&app, "search_files", json!({ "pattern": "hunter2" })).await;
    assert!(!found.unwrap().contains("sk-hunter2"));
    let tools = app.orchestrator.tools();
    // Commands cannot be confined everywhere.
    if tools.tool(&"run_command".parse().unwrap()).is_some() {
        for command in ["cat mounted/key", "cat mounted/..1/key mounted/..2/key"] {
            let ran = call(&app, "run_command", json!({ "command": command })).await;
            let ran = ran.unwrap();
            assert!(!ran.contains("sk-hunter2"), "{command}: {ran}");
        }
    }
}

#[tokio::test]
async fn a_recording_changes_no_tool_description_and_is_out_of_reach_of_file_tools() {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment::new(folder.path());
    let sources = Sources::default()
        .with_flag("--set", "store.url", "memory:")
        .with_flag("--set", "models.reasoning.provider", "offline");
    let config = Config::load(&environment, &sources).unwrap();
    let build = async |cassette: CassetteUse| {
        let app = App::builder(&config, &environment).cassette(cassette);
        app.build().await.unwrap()
    };
    let told = |app: &App| -> Vec<String> {
        let tools = app.orchestrator.tools();
        let told = tools.specs().map(|spec| spec.description.to_string());
        told.collect()
    };
    let without = told(&build(CassetteUse::Off).await);
    let recording = build(CassetteUse::Record(folder.path().join("it.cassette"))).await;
    assert_eq!(told(&recording), without);
    is_refused(&recording, "read_file", json!({ "path": "it.cassette" })).await;
    let write = json!({ "path": "it.cassette", "content": "x" });
    is_refused(&recording, "write_file", write).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "needs the program neuraxis-sandbox, which the tests of neuraxis-tools build"]
async fn a_command_cannot_replace_a_folder_that_contains_the_recording() {
    use std::os::unix::fs::MetadataExt;

    use_sandbox();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("recorded/first")).unwrap();
    let environment = Environment::new(folder.path());
    let sources = Sources::default()
        .with_flag("--set", "store.url", "memory:")
        .with_flag("--set", "models.reasoning.provider", "offline");
    let config = Config::load(&environment, &sources).unwrap();
    let recording = CassetteUse::Record(at("recorded/first/it.cassette"));
    let app = App::builder(&config, &environment).cassette(recording);
    let app = app.build().await.unwrap();
    let number = |name: &str| fs::metadata(at(name)).unwrap().ino();
    for moved in ["recorded", "recorded/first"] {
        let before = number(moved);
        // If `mv` cannot move, it copies, which does no harm.
        let command = format!("mv {moved} other; mkdir -p recorded/first");
        let ran = call(&app, "run_command", json!({ "command": command })).await;
        assert_eq!(number(moved), before, "{moved}: {ran:?}");
    }
}

#[tokio::test]
async fn files_named_by_either_of_two_configurations_are_protected_in_both_engines() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["old", "new"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("keys"), "hunter2").unwrap();
    }
    let environment = Environment::new(folder.path());
    let config = |name: &str| {
        let sources = Sources::default()
            .with_flag("--set", "store.url", "memory:")
            .with_flag("--set", "models.reasoning.provider", "offline")
            .with_flag("--set", "server.keys", format!("{name}/keys"));
        Config::load(&environment, &sources).unwrap()
    };
    let (before, after) = (config("old"), config("new"));
    let former = App::builder(&before, &environment).build().await.unwrap();
    let new = App::builder(&after, &environment).store(former.open_store());
    let new = new.protecting_files_of(&former).build().await.unwrap();
    for app in [&former, &new] {
        for path in ["old/keys", "new/keys"] {
            is_refused(app, "read_file", json!({ "path": path })).await;
        }
    }
}

#[tokio::test]
async fn stored_user_data_is_out_of_reach_of_file_tools() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, content) in [("data/trust.toml", ""), ("state/chat-history", "hunter2")] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), content).unwrap();
    }
    let environment = Environment::new(folder.path())
        .with_data_dir(at("data"))
        .with_state_dir(at("state"));
    let sources = Sources::default()
        .with_flag("--set", "store.url", "memory:")
        .with_flag("--set", "models.reasoning.provider", "offline");
    let config = Config::load(&environment, &sources).unwrap();
    let cassette = CassetteUse::Record("under-way.cassette".into());
    let app = App::builder(&config, &environment)
        .cassette(cassette)
        .build()
        .await
        .unwrap();
    for file in [
        "data/trust.toml",
        "state/chat-history",
        "under-way.cassette",
    ] {
        is_refused(&app, "read_file", json!({ "path": file })).await;
        let write = json!({ "path": file, "content": "x", "create_folders": true });
        is_refused(&app, "write_file", write).await;
    }
    let planted = json!({ "path": "data/sessions.db", "content": "x" });
    is_refused(&app, "write_file", planted).await;
}
