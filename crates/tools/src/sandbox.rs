//! What the kernel lets a command do: run and read what the user may, write in a few places only, reach nothing else.
//!
//! A command is run by a helper process: this program, started again ([`helper`]). The helper is two processes. The
//! **supervisor** ([`supervise`]) stays outside; it ends everything that the command started, and removes its temporary
//! folder, as soon as the command ends or this program lets go of it, however that happens. The process **inside**
//! ([`inside`]) shuts itself in and starts the command:
//!
//! - namespaces: no process of others is seen, the file system cannot be changed but in the project and the temporary
//!   folder ([`mounts`]), shared memory is private, and the network is a loopback of its own;
//! - Landlock: no file is opened for writing elsewhere, and this program's secrets and what it keeps not for reading either ([`files`]);
//! - the privileges of the superuser are given up but for two ([`privileges`]);
//! - seccomp: Unix sockets and what opens other ways out are closed ([`system_calls`]).
//!
//! Landlock is always needed. What else a kernel has is found out once ([`features`]). All of it is Linux: elsewhere there
//! is no sandbox.
//! It does not keep a command from reading what the user may read, nor bound its memory and processor time.

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
pub(crate) use helper::{Running, Wanted, start};

/// What was found of a command when nothing of it ran any more, by paths from the project's top.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Aftermath {
    /// What it made that is protected: it was given other names.
    pub(crate) set_aside: Vec<String>,
    /// What appeared where the configuration of a repository names something, or symlinks on the way to that which are others: so
    /// were these.
    pub(crate) named: Vec<String>,
    /// What the configuration of a repository names and, with access to git, is not what it was.
    pub(crate) changed: Vec<String>,
}

impl Aftermath {
    /// All that was given other names.
    pub(crate) fn renamed(&self) -> Vec<String> {
        self.set_aside.iter().chain(&self.named).cloned().collect()
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// Nothing if it was ended by a signal.
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) aftermath: Aftermath,
    /// Whether something that it had started was still running, and was ended with it. Only a sandbox knows.
    pub(crate) left_running: bool,
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
