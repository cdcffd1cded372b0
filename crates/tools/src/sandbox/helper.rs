//! Starts the helper process and communicates with it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use cap_std::fs::{Dir, MetadataExt};
use neuraxis_core::Access;
use neuraxis_ports::ToolError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::time::timeout;

use super::channel::Channel;
use super::features::{SandboxFeature, sandbox_features};
use super::order::{Identity, Order, Reply, Run};
use super::{Aftermath, Ended, inside, supervise};

/// This program, even if its file was moved or replaced.
pub(super) const PROGRAM: &str = "/proc/self/exe";

/// The arguments that tell a process that it is one of the helpers.
const SUPERVISOR: &str = "--neuraxis-sandbox=supervisor";
pub(super) const INSIDE: &str = "--neuraxis-sandbox=inside";

/// How long to wait for the supervisor after it was told to end everything.
const MAX_ENDING: Duration = Duration::from_secs(5);
/// How long determining the machine's features may take.
const MAX_PROBE: Duration = Duration::from_secs(10);
/// The maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

static HELPER: OnceLock<PathBuf> = OnceLock::new();

/// Runs the sandbox's helper process and returns its exit code if this process was started for that.
///
/// A second instance of the program runs the commands. For this, `main` must call this function before anything else,
/// in particular before it starts a thread, and return the exit code if there is one.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(code) = neuraxis_tools::run_sandbox_helper() {
///         return code;
///     }
///     // The program's actual work.
///     ExitCode::SUCCESS
/// }
/// ```
pub fn run_sandbox_helper() -> Option<ExitCode> {
    let argument = env::args_os().nth(1);
    if argument.as_deref() == Some(OsStr::new(SUPERVISOR)) {
        return Some(supervise::main());
    }
    if argument.as_deref() == Some(OsStr::new(INSIDE)) {
        return Some(inside::main());
    }
    let _named_before = HELPER.set(PathBuf::from(PROGRAM));
    None
}

/// Sets another program for running commands, for programs whose `main` cannot call [`run_sandbox_helper`], such as
/// tests. That program should do nothing but call it, like `neuraxis-sandbox` of this crate. Only the first call has an
/// effect.
pub fn use_sandbox_helper(program: impl Into<PathBuf>) {
    let _named_before = HELPER.set(program.into());
}

pub(super) fn program() -> Result<PathBuf, String> {
    let named = HELPER.get().cloned();
    named.ok_or_else(|| {
        "this program does not call neuraxis_tools::run_sandbox_helper first in its main, so commands cannot be confined"
            .to_owned()
    })
}

/// Determines what this machine supports.
pub(super) fn probe(program: &PathBuf) -> io::Result<Reply> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(MAX_PROBE))?;
    let mut supervisor = Command::new(program)
        .arg(SUPERVISOR)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut channel = Channel::new(ours);
    let order = Order {
        features: SandboxFeature::ALL.into(),
        temporary: env::temp_dir().into_os_string(),
        run: None,
    };
    let answer = channel.write(&order).and_then(|()| channel.read());
    // The supervisor exits when this end is closed.
    drop(channel);
    supervisor.wait()?;
    answer?.ok_or_else(|| io::Error::other("it ended without an answer"))
}

/// A command to run.
#[derive(Debug)]
pub(crate) struct CommandRequest<'a> {
    pub(crate) command: &'a str,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) project: &'a Dir,
    /// The folder to run it in, as a path from the project root and as a handle.
    pub(crate) folder: (PathBuf, &'a Dir),
    /// The access that the command requested and is granted.
    pub(crate) access: BTreeSet<Access>,
    /// Files that the command must not read, by absolute path.
    pub(crate) unreadable: Vec<PathBuf>,
    /// Files in the project that the command must neither read nor change, by path from the project root.
    pub(crate) unreachable: Vec<PathBuf>,
    /// Files in the project that the command must not change, by path from the project root.
    pub(crate) read_only: Vec<PathBuf>,
}

/// A running command. Dropping it ends the command and everything it started.
#[derive(Debug)]
pub(crate) struct Running {
    supervisor: Child,
    channel: tokio::net::UnixStream,
}

/// Starts a confined command. May block for as long as starting a process takes.
pub(crate) fn start(request: CommandRequest<'_>) -> Result<Running, ToolError> {
    let features = sandbox_features().map_err(|why| refused(&why.to_string()))?;
    start_with(features.in_force().collect(), request)
}

/// Starts a command with these parts of the sandbox.
pub(super) fn start_with(
    features: BTreeSet<SandboxFeature>,
    request: CommandRequest<'_>,
) -> Result<Running, ToolError> {
    let program = program().map_err(|why| refused(&why))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed(&error))?;
    // The folder is given by its handle, because its path may lead elsewhere by now.
    let top = format!("/proc/self/fd/{}", request.project.as_raw_fd());
    let mut supervisor = Command::new(program);
    supervisor
        .arg(SUPERVISOR)
        .env_clear()
        .envs(request.environment.clone())
        .current_dir(top)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let supervisor = tokio::process::Command::from(supervisor).spawn();
    let supervisor = supervisor.map_err(|error| failed(&error))?;
    let order = Order {
        features,
        temporary: env::temp_dir().into_os_string(),
        run: Some(run(request).map_err(|error| failed(&error))?),
    };
    let channel = Channel::new(ours);
    let channel = channel.write(&order).and_then(|()| channel.into_async());
    let channel = channel.map_err(|error| failed(&error))?;
    Ok(Running {
        supervisor,
        channel,
    })
}

fn run(request: CommandRequest<'_>) -> io::Result<Run> {
    let bytes = |paths: Vec<PathBuf>| paths.into_iter().map(PathBuf::into_os_string).collect();
    let (folder, handle) = request.folder;
    Ok(Run {
        command: request.command.to_owned(),
        project: identity(request.project)?,
        folder: folder.into_os_string(),
        folder_identity: identity(handle)?,
        access: request.access,
        unreadable: bytes(request.unreadable),
        unreachable: bytes(request.unreachable),
        read_only: bytes(request.read_only),
        protected: Vec::new(),
    })
}

fn identity(folder: &Dir) -> io::Result<Identity> {
    let found = folder.dir_metadata()?;
    Ok(Identity::new(found.dev(), found.ino()))
}

impl Running {
    /// Returns the command's two outputs; `None` the second time.
    pub(crate) fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        Some((
            self.supervisor.stdout.take()?,
            self.supervisor.stderr.take()?,
        ))
    }

    /// Waits until the command and everything it started have ended.
    pub(crate) async fn wait(&mut self) -> Result<Ended, ToolError> {
        let mut answer = Vec::new();
        let mut channel = (&mut self.channel).take(MAX_ANSWER_BYTES);
        let read = channel.read_to_end(&mut answer).await;
        read.map_err(|error| failed(&error))?;
        let _status = self.supervisor.wait().await;
        match serde_json::from_slice(&answer) {
            Ok(Reply::Ended(ended)) => Ok(ended),
            Ok(Reply::Refused(why)) => Err(refused(&why)),
            Ok(Reply::Failed(why)) => Err(failed(&io::Error::other(why))),
            Ok(Reply::NoShell) => Err(ToolError::permanent(format!(
                "no_shell: there is no {} here to run commands with; continue without commands",
                inside::SHELL
            ))),
            Ok(Reply::Found { .. }) | Err(_) => {
                Err(ToolError::new("the command was lost: its supervisor ended"))
            }
        }
    }

    /// Ends the command and everything it started. Returns what was found afterwards.
    pub(crate) async fn end(&mut self) -> Aftermath {
        let _gone = self.channel.shutdown().await;
        match timeout(MAX_ENDING, self.wait()).await {
            Ok(Ok(ended)) => ended.aftermath,
            Ok(Err(_)) | Err(_) => Aftermath::default(),
        }
    }
}

fn refused(why: &str) -> ToolError {
    ToolError::permanent(format!(
        "no_sandbox: commands cannot be confined here, so none run: {why}; continue without commands"
    ))
}

fn failed(error: &io::Error) -> ToolError {
    ToolError::temporary(format!(
        "start_failed: the command cannot be started: {error}"
    ))
}
