//! Which parts of the sandbox this machine's kernel supports.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first version of Landlock under which a command cannot truncate files that it may not write.
#[cfg(target_os = "linux")]
pub(super) const LANDLOCK_WITH_TRUNCATE: u32 = 3;
/// The first version of Landlock under which a command cannot signal processes outside.
const LANDLOCK_WITH_SIGNALS: u32 = 6;

/// A part of the sandbox that not every machine supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SandboxFeature {
    /// A command sees only its own processes, and all of them end with it (a pid namespace).
    Processes,
    /// The file system is read-only outside the project, and `.git` and `neuraxis.toml` are closed individually (a
    /// mount namespace).
    Files,
    /// Shared memory is private to the command (an ipc namespace).
    SharedMemory,
    /// The network is a loopback of the command's own (a network namespace).
    Network,
    /// Unix sockets and other ways out are blocked (seccomp).
    SystemCalls,
}

impl SandboxFeature {
    /// All parts, in the order in which they take effect.
    pub const ALL: [Self; 5] = [
        Self::Processes,
        Self::Files,
        Self::SharedMemory,
        Self::Network,
        Self::SystemCalls,
    ];

    /// Returns what a command can do, or cannot be used for, if this part is missing.
    #[must_use]
    pub const fn without(self) -> &'static str {
        match self {
            Self::Processes => "commands can see other processes",
            Self::Files => {
                "commands can change permissions, owners and times of the user's files outside the project; to protect \
                 `.git` and `neuraxis.toml`, commands cannot create, rename or remove anything directly in their \
                 folders; and access to git is refused"
            }
            Self::SharedMemory => "commands have no System V shared memory",
            Self::Network => {
                "commands have no loopback: without access to the network, they have no sockets at all"
            }
            Self::SystemCalls => {
                "commands can connect to Unix sockets, such as those of Docker or a desktop session, and start programs \
                 outside the sandbox through them; without a network namespace, they also reach the network"
            }
        }
    }
}

/// Writes the kernel's term for the required feature.
impl fmt::Display for SandboxFeature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Processes => "pid namespace",
            Self::Files => "mount namespace",
            Self::SharedMemory => "ipc namespace",
            Self::Network => "network namespace",
            Self::SystemCalls => "seccomp",
        })
    }
}

/// The parts of the sandbox that this machine supports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxFeatures {
    /// The version of Landlock that both the kernel and this program support.
    pub landlock: u32,
    /// The missing parts, each with the reason.
    pub missing: Vec<(SandboxFeature, String)>,
}

impl SandboxFeatures {
    /// Returns whether a part is in force for every command.
    #[must_use]
    pub fn has(&self, feature: SandboxFeature) -> bool {
        self.missing.iter().all(|(missing, _)| *missing != feature)
    }

    /// Returns what commands can do here that the complete sandbox would prevent, as parts of a sentence.
    pub fn gaps(&self) -> impl Iterator<Item = &'static str> {
        let signals = (self.landlock < LANDLOCK_WITH_SIGNALS
            && !self.has(SandboxFeature::Processes))
        .then_some("commands can send signals to the user's other processes");
        let missing = self.missing.iter().map(|(feature, _)| feature.without());
        missing.chain(signals)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn in_force(&self) -> impl Iterator<Item = SandboxFeature> {
        let all = SandboxFeature::ALL.into_iter();
        all.filter(|feature| self.has(*feature))
    }
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSandbox {
    /// This machine has none.
    #[error("{0}")]
    Missing(String),
    /// A sandbox may exist, but it could not be tried.
    #[error("{0}")]
    Failed(String),
}

/// Determines which parts of the sandbox this machine supports: once, by trying them.
///
/// # Errors
///
/// Why commands cannot be confined here.
pub fn sandbox_features() -> Result<&'static SandboxFeatures, NoSandbox> {
    detect()
}

#[cfg(target_os = "linux")]
fn detect() -> Result<&'static SandboxFeatures, NoSandbox> {
    use std::io;
    use std::path::Path;
    use std::sync::OnceLock;

    use super::helper;
    use super::order::Reply;

    static FOUND: OnceLock<Result<SandboxFeatures, NoSandbox>> = OnceLock::new();
    let program = helper::program().map_err(NoSandbox::Failed)?;
    let failed = |why: String| Err(NoSandbox::Failed(why));
    let found = FOUND.get_or_init(|| match helper::probe(&program) {
        Ok(Reply::Found { landlock, missing }) => Ok(SandboxFeatures { landlock, missing }),
        Ok(Reply::Refused(why)) => Err(NoSandbox::Missing(why)),
        Ok(Reply::Failed(why)) => failed(why),
        Ok(Reply::Ended(_) | Reply::NoShell) => {
            failed("the sandbox helper gave an unexpected answer".to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !Path::new("/proc/self").exists() => failed(
            "cannot start the sandbox helper: /proc is not mounted, where this program finds itself".to_owned(),
        ),
        Err(error) => failed(format!("cannot start the sandbox helper: {error}")),
    });
    found.as_ref().map_err(Clone::clone)
}

#[cfg(not(target_os = "linux"))]
fn detect() -> Result<&'static SandboxFeatures, NoSandbox> {
    let system = std::env::consts::OS;
    Err(NoSandbox::Missing(format!(
        "the sandbox needs Linux, and this is {system}"
    )))
}
