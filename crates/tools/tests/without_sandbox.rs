//! Commands on a machine where nothing can confine them: on Linux, a program replaces the sandbox's helper and reports
//! that.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has to fail"
)]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::uuid::Uuid;
use neuraxis_core::{AgentId, EffectId, JsonText, RunId, ToolCallId, ToolClass, Turn};
use neuraxis_ports::{Tool, ToolContext, ToolError, TurnContext};
use neuraxis_tools::{
    CommandAvailability, Commands, ProgramFiles, project_files, project_files_without,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The files of a project, and the tools for it.
struct Project {
    folder: TempDir,
    tools: Vec<Arc<dyn Tool>>,
}

impl Project {
    fn new(commands: Commands) -> Self {
        without_sandbox();
        let folder = tempfile::tempdir().unwrap();
        let tools = project_files_without(folder.path(), &ProgramFiles::default(), commands, &[]);
        let tools = tools.unwrap();
        Self { folder, tools }
    }

    fn run_command(&self) -> Option<&dyn Tool> {
        let mut tools = self.tools.iter();
        let tool = tools.find(|tool| tool.spec().name.as_str() == "run_command");
        tool.map(AsRef::as_ref)
    }

    async fn run(&self, arguments: Value, ctx: ToolContext) -> Result<Value, ToolError> {
        let tool = self.run_command().unwrap();
        let arguments = JsonText::from_text(arguments.to_string());
        let output = tool.call(arguments, ctx).await?;
        Ok(output.value.decode().unwrap())
    }
}

#[cfg(target_os = "linux")]
fn without_sandbox() {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::OnceLock;

    static HELPER: OnceLock<TempDir> = OnceLock::new();
    HELPER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let helper = folder.path().join("helper");
        let says = "#!/bin/sh\nread -r order\necho '{\"Refused\":\"there is no sandbox\"}' >&0\n";
        fs::write(&helper, says).unwrap();
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        neuraxis_tools::use_sandbox_helper(helper);
        assert!(neuraxis_tools::sandbox_features().is_err());
        folder
    });
}

#[cfg(not(target_os = "linux"))]
const fn without_sandbox() {}

fn context() -> ToolContext {
    let run = RunId(Uuid::nil());
    let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
    let call = ToolCallId::from_text("call_1");
    ToolContext::new(turn, call, EffectId { run, number: 1 })
}

fn everything(command: &str) -> Value {
    json!({ "command": command, "access": ["network", "git"] })
}

#[test]
fn without_a_sandbox_there_is_no_command_tool_and_the_reason_is_given() {
    let project = Project::new(Commands::default());
    assert!(project.run_command().is_none());
    assert_eq!(project.tools.len(), 5);
    assert_eq!(project_files(project.folder.path()).unwrap().len(), 5);
    let CommandAvailability::Refused { why } = Commands::Sandboxed.availability() else {
        panic!("commands are run here");
    };
    assert!(why.contains("sandbox"), "{why}");
    let unconfined = Commands::Unconfined.availability();
    assert_eq!(unconfined, CommandAvailability::Unconfined { why });
}

#[test]
fn an_unconfined_command_is_irreversible_and_must_declare_all_its_access() {
    let project = Project::new(Commands::Unconfined);
    let spec = project.run_command().unwrap().spec();
    assert_eq!(spec.class, ToolClass::Irreversible);
    assert!(spec.annotations.destructive && spec.annotations.open_world);
    assert!(
        spec.description.contains("Nothing confines"),
        "{}",
        spec.description
    );
    let schema: Value = spec.parameters.decode().unwrap();
    for (arguments, fits) in [
        (everything("true"), true),
        (json!({ "command": "true" }), false),
        (json!({ "command": "true", "access": ["network"] }), false),
        (
            json!({ "command": "true", "access": ["git", "git"] }),
            false,
        ),
    ] {
        let found = jsonschema::draft202012::is_valid(&schema, &arguments);
        assert_eq!(found, fits, "{arguments}");
    }
}

#[tokio::test]
async fn a_call_that_declares_less_access_than_it_has_runs_nothing() {
    let project = Project::new(Commands::Unconfined);
    let less = json!({ "command": "touch ran", "access": ["git"] });
    let refused = project.run(less, context()).await.unwrap_err();
    assert!(
        refused.message.starts_with("invalid_access: "),
        "{}",
        refused.message
    );
    assert!(!project.folder.path().join("ran").exists());
}

#[tokio::test]
async fn an_unconfined_command_runs_in_its_folder_without_secrets_from_the_environment() {
    let project = Project::new(Commands::Unconfined);
    fs::create_dir(project.folder.path().join("src")).unwrap();
    let command = "pwd; env | grep -c ^CARGO_PKG_NAME= ; echo problem >&2; echo x > made; exit 3";
    let mut arguments = everything(command);
    arguments["cwd"] = "src".into();
    let ran = project.run(arguments, context()).await.unwrap();
    let folder = project.folder.path().canonicalize().unwrap().join("src");
    let expected = format!("{}\n0\n", folder.display());
    assert_eq!(
        (&ran["exit_code"], &ran["stdout"], &ran["stderr"]),
        (&json!(3), &json!(expected), &json!("problem\n")),
        "{ran}"
    );
    assert!(folder.join("made").exists());
    let outside = json!({ "command": "true", "cwd": "..", "access": ["network", "git"] });
    let refused = project.run(outside, context()).await.unwrap_err();
    assert!(refused.message.contains("outside"), "{}", refused.message);
}

#[cfg(unix)]
#[tokio::test]
async fn an_unconfined_command_ends_with_its_children_on_timeout_or_cancellation() {
    let project = Project::new(Commands::Unconfined);
    let is_there = |pid: &str| {
        let pid = pid.trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::test_kill_process(pid).is_ok()
    };
    let child = project.folder.path().join("child");
    let command = "sleep 1000 & echo $! > new; mv new child; wait";
    let mut arguments = everything(command);
    arguments["timeout_seconds"] = 1.into();
    let ran = project.run(arguments, context()).await.unwrap();
    assert_eq!(ran["timed_out"], true, "{ran}");
    gone(|| is_there(&fs::read_to_string(&child).unwrap())).await;
    fs::remove_file(&child).unwrap();

    let ctx = context();
    let token = ctx.cancellation.clone();
    let cancelling = async {
        while !child.exists() {
            tokio::task::yield_now().await;
        }
        token.cancel();
    };
    let (ran, ()) = tokio::join!(project.run(everything(command), ctx), cancelling);
    assert!(ran.unwrap_err().message.starts_with("cancelled: "));
    gone(|| is_there(&fs::read_to_string(&child).unwrap())).await;
}

/// Waits until a process is gone: init still has to reap it.
#[cfg(unix)]
async fn gone(is_there: impl Fn() -> bool) {
    let waiting = async {
        while is_there() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting)
        .await
        .unwrap();
}

#[tokio::test]
async fn background_processes_of_an_unconfined_command_do_not_block_its_call() {
    let project = Project::new(Commands::Unconfined);
    let leaves = everything("sleep 1000 & echo done");
    let ran = project.run(leaves, context());
    let ran = tokio::time::timeout(Duration::from_secs(20), ran).await;
    assert_eq!(ran.unwrap().unwrap()["stdout"], "done\n");
}
