//! What the helper is asked to do, and what it answers.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use neuraxis_core::Access;
use serde::{Deserialize, Serialize};

use super::Ended;
use super::features::SandboxFeature;

/// What the supervisor, and then the process inside, has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// What has to be in force; what is to be tried if nothing is run.
    pub(super) features: BTreeSet<SandboxFeature>,
    /// The folder for the temporary folder; from the supervisor on the temporary folder itself. Absolute.
    pub(super) temporary: OsString,
    /// What to run. Nothing to find out which features there are.
    pub(super) run: Option<Run>,
}

/// A command, and what it may do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) command: String,
    /// The folder of the project, which is the helper's working directory.
    pub(super) project: Identity,
    /// The folder to run it in, relative to the top of the project.
    pub(super) folder: OsString,
    pub(super) folder_identity: Identity,
    /// What is open to it; all else is closed.
    pub(super) access: BTreeSet<Access>,
    /// Files that it must not read, by their absolute paths.
    pub(super) unreadable: Vec<OsString>,
    /// Files in the project that it must neither read nor change, by their paths from its top.
    pub(super) unreachable: Vec<OsString>,
    /// Files in the project that it must not change, by their paths from its top.
    pub(super) governing: Vec<OsString>,
    /// What else is protected in the project, by its paths from the top: the supervisor finds it.
    pub(super) protected: Vec<OsString>,
}

/// Which folder is meant, whatever its path leads to by now.
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

/// What the helper answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The command, and all it had started, has ended.
    Ended(Ended),
    /// What is in force if nothing is run: the version of Landlock, and what is missing with the reason.
    Found {
        landlock: u32,
        missing: Vec<(SandboxFeature, String)>,
    },
    /// Commands cannot be confined as they have to be, so none was run.
    Refused(String),
    /// The command could not be started.
    Failed(String),
    /// There is nothing that could run a command.
    NoShell,
}
