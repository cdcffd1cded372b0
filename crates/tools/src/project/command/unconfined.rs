//! An unconfined command, for machines without a sandbox whose user allowed it.
//!
//! It can do whatever the user can. On Unix, everything that stayed in its process group is killed with it, also when
//! the call is cancelled. Processes that left the group keep running, as do its child processes on other systems, and
//! everything if this program is killed.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use neuraxis_ports::ToolError;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::sandbox::{Aftermath, Ended};

/// Found in the command's own search path, which contains no relative folders, and so none of the project's.
const SHELL: &str = "sh";

/// A running command. Dropping it ends the command.
#[derive(Debug)]
pub(super) struct Unconfined {
    child: Child,
    /// Its process id, which is also its process group id.
    #[cfg(unix)]
    group: Option<rustix::process::Pid>,
}

/// Starts a command in a folder.
pub(super) fn start(
    command: &str,
    folder: &Path,
    environment: Vec<(OsString, OsString)>,
) -> Result<Unconfined, ToolError> {
    let mut shell = Command::new(SHELL);
    shell
        .args(["-c", command])
        .env_clear()
        .envs(environment)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    shell.process_group(0);
    let child = shell.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ToolError::permanent(
            "no_shell: there is no `sh` in PATH (on Windows, Git for Windows includes one); continue without commands",
        ),
        _ => failed(&error),
    })?;
    Ok(Unconfined {
        #[cfg(unix)]
        group: child
            .id()
            .and_then(|number| rustix::process::Pid::from_raw(i32::try_from(number).ok()?)),
        child,
    })
}

impl Unconfined {
    pub(super) fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        Some((self.child.stdout.take()?, self.child.stderr.take()?))
    }

    pub(super) async fn wait(&mut self) -> Result<Ended, ToolError> {
        let status = self.child.wait().await.map_err(|error| failed(&error))?;
        // Kills processes that it left behind.
        self.kill();
        Ok(Ended {
            exit_code: status.code(),
            signal: signal(status),
            aftermath: Aftermath::default(),
            left_running: false,
        })
    }

    pub(super) async fn end(&mut self) {
        self.kill();
        let _ended = self.child.wait().await;
    }

    #[cfg(unix)]
    fn kill(&mut self) {
        // Only once: the id may later belong to another process group.
        if let Some(group) = self.group.take() {
            let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn kill(&mut self) {
        // It may have ended in the meantime.
        let _gone = self.child.start_kill();
    }
}

impl Drop for Unconfined {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
const fn signal(_: ExitStatus) -> Option<i32> {
    None
}

fn failed(error: &io::Error) -> ToolError {
    ToolError::temporary(format!(
        "start_failed: the command cannot be started: {error}"
    ))
}
