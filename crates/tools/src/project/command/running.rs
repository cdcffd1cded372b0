//! A running command, in a sandbox or without one.

use std::collections::BTreeSet;

use neuraxis_core::{Access, TraceContext};
use neuraxis_ports::ToolError;
use tokio::process::{ChildStderr, ChildStdout};

use super::environment::{of_trace, unconfined_environment};
use super::unconfined::{self, Unconfined};
use crate::project::root::{LocatedFolder, ProjectRoot};
use crate::sandbox::{Aftermath, Ended};

/// What confines a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confinement {
    /// The sandbox.
    Sandbox,
    /// Nothing.
    None,
}

impl Confinement {
    /// Starts a command in a project folder, with these variables in addition to the usual ones.
    pub(super) fn start(
        self,
        command: &str,
        root: &ProjectRoot,
        folder: &LocatedFolder,
        access: BTreeSet<Access>,
        trace: Option<&TraceContext>,
        variables: &[String],
    ) -> Result<Running, ToolError> {
        match self {
            Self::Sandbox => sandboxed(command, root, folder, access, trace, variables),
            Self::None if access.len() < Access::ALL.len() => Err(ToolError::permanent(
                "invalid_access: nothing confines commands on this machine, so `access` must be [\"network\", \"git\"]",
            )),
            Self::None => {
                let folder = root.path().join(&folder.path);
                let mut environment = unconfined_environment(std::env::vars_os(), variables);
                environment.extend(trace.into_iter().flat_map(of_trace));
                unconfined::start(command, &folder, environment).map(Running::Unconfined)
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn sandboxed(
    command: &str,
    root: &ProjectRoot,
    folder: &LocatedFolder,
    access: BTreeSet<Access>,
    trace: Option<&TraceContext>,
    variables: &[String],
) -> Result<Running, ToolError> {
    use std::path::{Path, PathBuf};

    let program_files = root.program_files();
    let mut environment = super::environment::environment(std::env::vars_os(), variables);
    environment.extend(trace.into_iter().flat_map(of_trace));
    // Keeps package installation from failing because of hooks, which are closed and do not run.
    environment.push(("HUSKY".into(), "0".into()));
    let owned = |path: &Path| -> PathBuf { path.to_owned() };
    let running = crate::sandbox::start(crate::sandbox::CommandRequest {
        command,
        environment,
        project: root.dir(),
        folder: (folder.path.clone(), &folder.dir),
        access,
        unreadable: program_files.unreadable(),
        unreachable: program_files.unreachable().map(owned).collect(),
        read_only: program_files.read_only().map(owned).collect(),
    });
    running.map(Running::Sandboxed)
}

/// There is no sandbox, so there is no such tool either.
#[cfg(not(target_os = "linux"))]
fn sandboxed(
    _: &str,
    _: &ProjectRoot,
    _: &LocatedFolder,
    _: BTreeSet<Access>,
    _: Option<&TraceContext>,
    _: &[String],
) -> Result<Running, ToolError> {
    Err(ToolError::permanent(
        "no_sandbox: commands cannot be confined here, so none run; continue without commands",
    ))
}

/// A running command. Dropping it ends the command.
#[derive(Debug)]
pub(super) enum Running {
    #[cfg(target_os = "linux")]
    Sandboxed(crate::sandbox::Running),
    Unconfined(Unconfined),
}

impl Running {
    /// Returns the command's two outputs; `None` the second time.
    pub(super) fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Sandboxed(running) => running.output(),
            Self::Unconfined(running) => running.output(),
        }
    }

    /// Waits until the command has ended.
    pub(super) async fn wait(&mut self) -> Result<Ended, ToolError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Sandboxed(running) => running.wait().await,
            Self::Unconfined(running) => running.wait().await,
        }
    }

    /// Ends the command. Returns what was found afterwards.
    pub(super) async fn end(&mut self) -> Aftermath {
        match self {
            #[cfg(target_os = "linux")]
            Self::Sandboxed(running) => running.end().await,
            Self::Unconfined(running) => {
                running.end().await;
                Aftermath::default()
            }
        }
    }
}
