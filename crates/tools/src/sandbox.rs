//! What the kernel lets a command do: run and read what the user may, write in a few places only, and reach nothing
//! else.
//!
//! A helper process runs the command: this program, started again ([`helper`]). The helper consists of two processes.
//! The **supervisor** ([`supervise`]) stays outside the sandbox; it kills everything that the command started, and
//! removes its temporary folder, as soon as the command ends or this program gives it up, however that happens. The
//! process **inside** ([`inside`]) confines itself and starts the command:
//!
//! - namespaces: other processes are invisible, the file system is read-only except for the project and the temporary
//!   folder ([`mounts`]), shared memory is private, and the network is a separate loopback;
//! - Landlock: no file elsewhere can be opened for writing, and this program's secrets and stored data cannot be opened
//!   for reading either ([`files`]);
//! - all superuser privileges except two are dropped ([`privileges`]);
//! - seccomp: Unix sockets and system calls that open other ways out are blocked ([`system_calls`]).
//!
//! Landlock is always required. Which other features the kernel has is determined once ([`features`]). All of this is
//! Linux only: on other systems there is no sandbox. The sandbox does not keep a command from reading what the user can
//! read, nor does it limit memory and processor time.

#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod closed;
mod features;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod order;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod repository;
#[cfg(target_os = "linux")]
mod supervise;
#[cfg(target_os = "linux")]
mod system_calls;

use serde::{Deserialize, Serialize};

pub use features::{NoSandbox, SandboxFeature, SandboxFeatures, sandbox_features};
#[cfg(target_os = "linux")]
pub use helper::{run_sandbox_helper, use_sandbox_helper};

#[cfg(target_os = "linux")]
pub(crate) use helper::{CommandRequest, Running, start};

/// What was found after a command and all its processes had ended. Paths are relative to the project root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Aftermath {
    /// Protected files and folders that the command created: they were renamed.
    pub(crate) set_aside: Vec<String>,
    /// Entries that appeared where a repository's configuration names something, or symlinks on the way there that now
    /// lead elsewhere: they were renamed as well.
    pub(crate) named: Vec<String>,
    /// Files that a repository's configuration names and that changed while the command had access to git.
    pub(crate) changed: Vec<String>,
}

impl Aftermath {
    /// Returns everything that was renamed.
    pub(crate) fn renamed(&self) -> Vec<String> {
        self.set_aside.iter().chain(&self.named).cloned().collect()
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// `None` if the command was ended by a signal or by this program.
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) aftermath: Aftermath,
    /// Whether something that the command had started was still running, and was ended with it. Only a sandbox can
    /// tell.
    pub(crate) left_running: bool,
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
