//! Starts a command, confined, as the leader of a process group.

use std::io;
use std::os::fd::AsRawFd;
use std::process::{ExitStatus, Stdio};
use std::thread;

use cap_std::fs::Dir;
use neuraxis_ports::ToolError;
use tempfile::TempDir;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;

use super::environment::environment;
use super::processes::{MARK, Processes};
use super::sandbox;
use crate::project::root::ProjectRoot;

/// Runs the command that is its first argument, and sees to it that the process group ends when this program does, however that
/// happens: its standard input is a pipe that this program holds open, and reading from it ends when nobody holds it any
/// more. The reader is nobody's child, so that commands which wait for all their children do not wait for it.
const SCRIPT: &str = "exec 3<&0 </dev/null
( { read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 & )
exec 3<&-
exec /bin/sh -c \"$1\"";

/// A command under way. Dropped, it is ended with everything it started.
#[derive(Debug)]
pub(super) struct Running {
    processes: Processes,
    child: Child,
    /// As long as it is open, this program lives.
    _lifeline: Option<ChildStdin>,
    /// Removed once nobody uses it any more, so after the processes.
    _temporary: TempDir,
}

impl Running {
    /// Returns what it writes to its two outputs; nothing the second time.
    pub(super) fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        Some((self.child.stdout.take()?, self.child.stderr.take()?))
    }

    /// Waits until it has ended by itself.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends it, with everything it started.
    pub(super) fn end(&mut self) {
        self.processes.end();
    }
}

/// Starts a command in a folder of the project. May block for as long as it takes to start a process.
pub(super) fn start(command: &str, root: &ProjectRoot, folder: &Dir) -> Result<Running, ToolError> {
    let temporary = TempDir::with_prefix("neuraxis-").map_err(failed)?;
    let mut processes = Processes::new();
    let mut shell = Command::new("/bin/sh");
    // The folder by its handle: its path may lead elsewhere by now.
    let folder = format!("/proc/self/fd/{}", folder.as_raw_fd());
    shell
        .args(["-c", SCRIPT, "sh", command])
        .current_dir(folder)
        .env_clear()
        .envs(environment(std::env::vars_os(), temporary.path()))
        .env(MARK, processes.mark())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let runtime = Handle::current();
    let place = temporary.path();
    // Confining cannot be undone, so it takes a thread that does nothing else.
    let child = thread::scope(|scope| {
        let starting = move || {
            let _inside = runtime.enter();
            sandbox::confine(root, place)?;
            shell.spawn().map_err(failed)
        };
        let thread = thread::Builder::new().name("run_command".to_owned());
        let started = thread.spawn_scoped(scope, starting).map_err(failed)?;
        let gone = || ToolError::new("the command could not be started");
        started.join().map_err(|_| gone())?
    });
    let mut child = child?;
    processes.led_by(child.id());
    Ok(Running {
        _lifeline: child.stdin.take(),
        processes,
        child,
        _temporary: temporary,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "map_err hands it over")]
fn failed(error: io::Error) -> ToolError {
    ToolError::temporary(format!(
        "start_failed: the command cannot be started: {error}"
    ))
}
