//! What the helper is asked to do, and what it answers.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use neuraxis_core::Access;
use serde::{Deserialize, Serialize};

use super::Ended;
use super::features::SandboxFeature;

/// The order for the supervisor, and then for the process inside.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The parts that must be in force, or that are tried if nothing is run.
    pub(super) features: BTreeSet<SandboxFeature>,
    /// The folder in which the supervisor creates the temporary folder; in the order that the supervisor passes on, the
    /// temporary folder itself. Absolute.
    pub(super) temporary: OsString,
    /// The command to run. `None` to determine the available features.
    pub(super) run: Option<Run>,
}

/// A command and its permissions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) command: String,
    /// The folder of the project, which is the helper's working directory.
    pub(super) project: Identity,
    /// The folder to run it in, relative to the project root.
    pub(super) folder: OsString,
    pub(super) folder_identity: Identity,
    /// What is open to the command; everything else is closed.
    pub(super) access: BTreeSet<Access>,
    /// Files that the command must not read, by absolute path.
    pub(super) unreadable: Vec<OsString>,
    /// Files in the project that the command must neither read nor change, by path from the project root.
    pub(super) unreachable: Vec<OsString>,
    /// Files in the project that the command must not change, by path from the project root.
    pub(super) read_only: Vec<OsString>,
    /// Further protected entries in the project, by path from the project root: the supervisor finds them.
    pub(super) protected: Vec<OsString>,
}

/// The identity of a folder, wherever its path leads by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) const fn new(device: u64, inode: u64) -> Self {
        Self { device, inode }
    }
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self::new(metadata.dev(), metadata.ino())
    }
}

/// The helper's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The command and everything it had started have ended.
    Ended(Ended),
    /// What is available if nothing is run: the version of Landlock, and the missing parts with reasons.
    Found {
        landlock: u32,
        missing: Vec<(SandboxFeature, String)>,
    },
    /// Commands cannot be confined as required, so none was run.
    Refused(String),
    /// The command could not be started.
    Failed(String),
    /// There is no shell to run a command.
    NoShell,
}
