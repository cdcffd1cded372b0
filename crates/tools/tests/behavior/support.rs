//! The environment of a test: a context, a clock that stands still, and a project in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
#[cfg(unix)]
use std::thread::JoinHandle;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::uuid::Uuid;
use neuraxis_core::{AgentId, EffectId, JsonText, ProgressSteps, RunId, ToolCallId, Turn};
use neuraxis_ports::{Clock, ProgressSink, Tool, ToolContext, ToolError, TurnContext};
use neuraxis_tools::{Commands, ProgramFiles, project_files_without};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct FixedClock(pub(crate) Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

#[derive(Debug, Default)]
pub(crate) struct RecordedProgress(pub(crate) Mutex<Vec<(String, Option<ProgressSteps>)>>);

/// Stores the output that tools show, and notifies those who wait for it.
#[derive(Debug, Default)]
pub(crate) struct RecordedOutput {
    text: Mutex<String>,
    grown: Notify,
}

impl RecordedOutput {
    /// Waits until a text has been shown.
    pub(crate) async fn shows(&self, text: &str) {
        while !self.text().contains(text) {
            self.grown.notified().await;
        }
    }

    pub(crate) fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

impl ProgressSink for RecordedOutput {
    fn progress(&self, _name: &str, _icon: Option<&str>, _steps: Option<ProgressSteps>) {}

    fn output(&self, text: &str) {
        self.text.lock().unwrap().push_str(text);
        self.grown.notify_one();
    }
}

impl ProgressSink for RecordedProgress {
    fn progress(&self, name: &str, _icon: Option<&str>, steps: Option<ProgressSteps>) {
        self.0.lock().unwrap().push((name.to_owned(), steps));
    }

    fn output(&self, _text: &str) {}
}

pub(crate) fn context() -> ToolContext {
    let run = RunId(Uuid::nil());
    let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
    ToolContext::new(
        turn,
        ToolCallId::from_text("call_1"),
        EffectId { run, number: 1 },
    )
}

/// Calls a tool, as the engine does, with arguments that its schema must accept.
pub(crate) async fn call(
    tool: &dyn Tool,
    arguments: Value,
    ctx: ToolContext,
) -> Result<Value, ToolError> {
    assert!(
        accepts(tool, &arguments),
        "the schema of {} refuses {arguments}",
        tool.spec().name
    );
    let output = tool
        .call(JsonText::from_text(arguments.to_string()), ctx)
        .await?;
    Ok(output.value.decode().unwrap())
}

pub(crate) fn accepts(tool: &dyn Tool, arguments: &Value) -> bool {
    jsonschema::draft202012::is_valid(&schema(tool), arguments)
}

pub(crate) fn schema(tool: &dyn Tool) -> Value {
    tool.spec().parameters.decode().unwrap()
}

pub(crate) fn named<'a>(tools: &'a [Arc<dyn Tool>], name: &str) -> &'a dyn Tool {
    tools
        .iter()
        .find(|tool| tool.spec().name.as_str() == name)
        .unwrap()
        .as_ref()
}

/// A project in a folder, next to things that the tools must never reach.
#[derive(Debug)]
pub(crate) struct Project {
    world: TempDir,
    tools: Vec<Arc<dyn Tool>>,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self::naming(&[])
    }

    /// Like `new`, but commands also get these variables.
    pub(crate) fn naming(variables: &[String]) -> Self {
        #[cfg(target_os = "linux")]
        neuraxis_tools::use_sandbox_helper(env!("CARGO_BIN_EXE_neuraxis-sandbox"));
        let world = TempDir::new().unwrap();
        fs::create_dir(world.path().join("project")).unwrap();
        fs::write(world.path().join("outside.txt"), "SECRET outside\n").unwrap();
        let (root, own) = (world.path().join("project"), ProgramFiles::default());
        let tools = project_files_without(root, &own, Commands::default(), variables);
        let tools = tools.unwrap();
        Self { world, tools }
    }

    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let project = Self::new();
        for (path, content) in files {
            project.write(path, content);
        }
        project
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Repeatedly swaps `folder` for a link that leads out of the project until [`Swapping::stop`].
    #[cfg(unix)]
    pub(crate) fn swapping(&self) -> Swapping {
        std::os::unix::fs::symlink("..", self.path("link")).unwrap();
        let [folder, link, aside] = ["folder", "link", "aside"].map(|name| self.path(name));
        let done = Arc::new(AtomicBool::new(false));
        let is_done = Arc::clone(&done);
        let thread = std::thread::spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                for (from, to) in [
                    (&folder, &aside),
                    (&link, &folder),
                    (&folder, &link),
                    (&aside, &folder),
                ] {
                    fs::rename(from, to).unwrap();
                }
            }
        });
        Swapping { done, thread }
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.world.path().join("project").join(path)
    }

    pub(crate) fn tool(&self, name: &str) -> &dyn Tool {
        named(&self.tools, name)
    }

    /// Calls a tool that must succeed.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Value {
        call(self.tool(name), arguments, context()).await.unwrap()
    }

    /// Calls a tool that must fail, and returns its message.
    pub(crate) async fn fail(&self, name: &str, arguments: Value) -> String {
        call(self.tool(name), arguments, context())
            .await
            .unwrap_err()
            .message
    }
}

/// A folder that may be swapped for a link at any moment.
#[cfg(unix)]
pub(crate) struct Swapping {
    done: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

#[cfg(unix)]
impl Swapping {
    pub(crate) fn stop(self) {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}
