//! Whether command lines are run on this machine: in a sandbox, without one, or not at all.

use serde::{Deserialize, Serialize};

#[cfg(feature = "commands")]
use crate::sandbox::{NoSandbox, sandbox_features};

/// Whether commands may run if nothing can confine them: on systems other than Linux, and on kernels that lack what the
/// sandbox needs.
///
/// If there is a sandbox, commands always run in it. If a sandbox may exist but cannot be tried, no commands are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Commands {
    /// They may not: without a sandbox, there is no tool `run_command`.
    #[default]
    Sandboxed,
    /// They may. Without a sandbox, a command can do whatever the user of this program can: read keys, write anywhere,
    /// and reach the network. Each call states this by requesting `access` to everything, so rules and remembered
    /// grants that allow less than that don't let it run.
    Unconfined,
}

/// How commands are run on this machine.
#[cfg(feature = "commands")]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandAvailability {
    /// In the sandbox.
    Sandboxed,
    /// Without a sandbox.
    Unconfined {
        /// Why there is no sandbox.
        why: String,
    },
    /// Not at all: there is no tool `run_command`.
    Refused {
        /// Why there is no sandbox.
        why: String,
    },
}

#[cfg(feature = "commands")]
impl Commands {
    /// Returns how commands are run on this machine. Whether there is a sandbox is determined once, by trying it.
    #[must_use]
    pub fn availability(self) -> CommandAvailability {
        match (sandbox_features(), self) {
            (Ok(_), _) => CommandAvailability::Sandboxed,
            (Err(NoSandbox::Missing(why)), Self::Unconfined) => {
                CommandAvailability::Unconfined { why }
            }
            (Err(why), _) => CommandAvailability::Refused {
                why: why.to_string(),
            },
        }
    }
}
