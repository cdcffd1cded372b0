//! A command under way, with a sandbox around it or without.

use std::collections::BTreeSet;

use neuraxis_core::{Access, TraceContext};
use neuraxis_ports::ToolError;
use tokio::process::{ChildStderr, ChildStdout};

use super::environment::{of_trace, unconfined_environment};
use super::unconfined::{self, Unconfined};
use crate::project::root::{LocatedFolder, ProjectRoot};
use crate::sandbox::{Aftermath, Ended};

/// What is around a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confinement {
    /// The sandbox.
    Sandbox,
    /// Nothing.
    None,
}

impl Confinement {
    /// Starts a command in a folder of the project, with these variables besides the usual ones.
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
                "invalid_access: nothing confines a command on this machine, so that `access` has to name all there is: \
                 [\"network\", \"git\"]",
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

    let own = root.own();
    let mut environment = super::environment::environment(std::env::vars_os(), variables);
    environment.extend(trace.into_iter().flat_map(of_trace));
    // To install packages does not fail because of hooks that are closed, and do not run.
    environment.push(("HUSKY".into(), "0".into()));
    let owned = |path: &Path| -> PathBuf { path.to_owned() };
    let running = crate::sandbox::start(crate::sandbox::Wanted {
        command,
        environment,
        project: root.dir(),
        folder: (folder.path.clone(), &folder.dir),
        access,
        unreadable: own.unreadable(),
        unreachable: own.unchangeable().map(owned).collect(),
        governing: own.sealed().map(owned).collect(),
    });
    running.map(Running::Sandboxed)
}

/// There is none, so that there is no such tool either.
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
        "no_sandbox: commands cannot be confined here, so none is run; go on without it",
    ))
}

/// A command under way. Dropped, it is ended.
#[derive(Debug)]
pub(super) enum Running {
    #[cfg(target_os = "linux")]
    Sandboxed(crate::sandbox::Running),
    Unconfined(Unconfined),
}

impl Running {
    /// Returns what it writes to its two outputs; nothing the second time.
    pub(super) fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Sandboxed(running) => running.output(),
            Self::Unconfined(running) => running.output(),
        }
    }

    /// Waits until it has ended by itself.
    pub(super) async fn wait(&mut self) -> Result<Ended, ToolError> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Sandboxed(running) => running.wait().await,
            Self::Unconfined(running) => running.wait().await,
        }
    }

    /// Ends it. Returns what was found of it afterwards.
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
