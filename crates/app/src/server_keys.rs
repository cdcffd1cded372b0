//! The keys of the clients of `neuraxis-server`, in one file that several servers may share.
//!
//! A key is shown once, when it is made; the file holds its SHA-256 alone, and what the key allows. A key is 256 random bits,
//! so that nothing is gained by hashing it slowly. The file is replaced whole, and never believed if others can change it.
//!
//! Not for looking at requests: the server does that.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{AgentName, Channel, ContentHash, Mode, PlanName};
use serde::{Deserialize, Serialize};

use crate::approval_key::{make_folder, write_private};
use crate::config::Config;
use crate::environment::Environment;
use crate::trust::{Links, open_regular};

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "server-keys.json";

/// The form of the file. One of a later form is refused: what it limits would not be seen.
const VERSION: u32 = 1;

/// The most bytes of the file: some ten thousand keys.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// How many random bytes an id has. It is no secret.
const ID_BYTES: usize = 6;

/// How many random bytes the secret part of a key has.
const SECRET_BYTES: usize = 32;

/// What a key lets its holder do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Make sessions, take turns, steer and end runs, and delete sessions.
    Turns,
    /// See sessions, runs and what there is to be used.
    Read,
    /// Decide about calls that wait for a person.
    Approve,
    /// All of that, for the sessions of all owners.
    Admin,
}

impl Scope {
    /// All scopes, the least first.
    pub const ALL: [Self; 4] = [Self::Turns, Self::Read, Self::Approve, Self::Admin];

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Read => "read",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no scope; there are turns, read, approve and admin")]
#[non_exhaustive]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let mut all = Self::ALL.into_iter();
        all.find(|scope| scope.as_str() == text).ok_or(UnknownScope)
    }
}

/// A key as the file holds it: whose it is, what it allows, and the hash by which it is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerKey {
    /// What people call the key by: 12 hexadecimal digits, no secret.
    pub id: String,
    /// The SHA-256 of the whole key.
    pub hash: ContentHash,
    /// Whose sessions it makes and sees.
    pub owner: String,
    /// What it is for, in somebody's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it lets its holder do.
    pub scopes: BTreeSet<Scope>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused; never if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The freest mode it may choose; the server's own limit holds besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mode: Option<Mode>,
    /// The modes it may choose; all of the server's if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<Mode>>,
    /// The channels it may use; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<Channel>>,
    /// The agents that may answer it, those of channels included; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentName>>,
    /// The plan that limits its requests, in place of the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanName>,
    /// How many requests a minute each server takes with it; any number if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
}

impl ServerKey {
    /// Makes a key of an owner, and the text that its holder shows: `nxk_ID_SECRET`. The text is nowhere else.
    ///
    /// # Errors
    ///
    /// When the system gives no randomness.
    pub fn make(
        owner: impl Into<String>,
        scopes: impl IntoIterator<Item = Scope>,
        now: Timestamp,
    ) -> io::Result<(Self, String)> {
        let mut bytes = [0; ID_BYTES + SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        let (id, secret) = bytes.split_at(ID_BYTES);
        let id = hex::encode(id);
        let text = format!("nxk_{id}_{}", hex::encode(secret));
        let key = Self {
            id,
            hash: ContentHash::of(text.as_bytes()),
            owner: owner.into(),
            name: None,
            scopes: scopes.into_iter().collect(),
            created_at: now,
            expires_at: None,
            revoked_at: None,
            max_mode: None,
            modes: None,
            channels: None,
            agents: None,
            plan: None,
            requests_per_minute: None,
        };
        Ok((key, text))
    }

    /// Returns why the key is refused at a time; `None` if it is taken.
    #[must_use]
    pub fn refused_at(&self, now: Timestamp) -> Option<&'static str> {
        if self.revoked_at.is_some() {
            return Some("revoked");
        }
        let is_over = self.expires_at.is_some_and(|at| at <= now);
        is_over.then_some("expired")
    }
}

/// Why the file of keys cannot be used. Never holds a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerKeysError {
    /// It cannot be read or written.
    #[error("the keys in {} cannot be read or written", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Others can change it.
    #[error(
        "other users can change {}, and so could let themselves in: make it yours alone (chmod 600), and look through \
         `neuraxis-server keys list`",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// It does not hold keys, or some of a later version.
    #[error("{} holds no keys that this version can read: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No key has this id.
    #[error("no key has this id; `neuraxis-server keys list` shows those there are")]
    NoSuchKey,
}

/// The file as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    keys: Vec<ServerKey>,
}

/// The file of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerKeyFile {
    path: PathBuf,
}

impl ServerKeyFile {
    /// Takes a file that may not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the file that the configuration names, or else the one in the user's data folder; `None` where there is neither.
    #[must_use]
    pub fn of(config: &Config, environment: &Environment) -> Option<Self> {
        let named = config.server().keys.as_ref();
        let named = named.map(|named| environment.working_dir().join(named));
        let usual = || Some(environment.data_dir()?.join(FILE_NAME));
        named.or_else(usual).map(Self::new)
    }

    /// Returns where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the keys; none if there is no file.
    ///
    /// # Errors
    ///
    /// A [`ServerKeysError`].
    pub fn read(&self) -> Result<Vec<ServerKey>, ServerKeysError> {
        // A link is followed: secrets are mounted so.
        let file = match open_regular(&self.path, Links::Followed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.map_err(|source| self.unusable(source))?,
        };
        let metadata = file.metadata().map_err(|source| self.unusable(source))?;
        if is_exposed(&metadata) {
            let path = self.path.clone();
            return Err(ServerKeysError::Exposed { path });
        }
        let mut bytes = Vec::new();
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        let length = read.map_err(|source| self.unusable(source))?;
        if u64::try_from(length).is_ok_and(|length| length > MAX_BYTES) {
            return Err(self.malformed(format!("it has more than {MAX_BYTES} bytes")));
        }
        let written: Written =
            serde_json::from_slice(&bytes).map_err(|error| self.malformed(error.to_string()))?;
        match written.version {
            VERSION => Ok(written.keys),
            other => Err(self.malformed(format!("it is of version {other}, not {VERSION}"))),
        }
    }

    /// Adds a key. The file and its folder are made if need be.
    ///
    /// # Errors
    ///
    /// A [`ServerKeysError`]; the file is as it was then.
    pub fn add(&self, key: ServerKey) -> Result<(), ServerKeysError> {
        self.change(|keys| {
            keys.push(key);
            Ok(())
        })
    }

    /// Revokes a key, and returns it as it was before. One that was revoked stays as it is.
    ///
    /// # Errors
    ///
    /// [`ServerKeysError::NoSuchKey`], and whatever keeps the file from being read or written.
    pub fn revoke(&self, id: &str, now: Timestamp) -> Result<ServerKey, ServerKeysError> {
        self.change(|keys| {
            let key = keys.iter_mut().find(|key| key.id == id);
            let key = key.ok_or(ServerKeysError::NoSuchKey)?;
            let before = key.clone();
            key.revoked_at.get_or_insert(now);
            Ok(before)
        })
    }

    /// Changes the keys, one process at a time, and writes them whole or not at all.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<ServerKey>) -> Result<T, ServerKeysError>,
    ) -> Result<T, ServerKeysError> {
        let failed = |source| self.unusable(source);
        // What a link leads to is replaced, and not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        make_folder(folder).map_err(failed)?;
        let lock = File::create(path.with_extension("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut keys = self.read()?;
        let changed = change(&mut keys)?;
        let written = Written {
            version: VERSION,
            keys,
        };
        let text = serde_json::to_string_pretty(&written);
        let text = text.map_err(|error| self.malformed(error.to_string()))?;
        let file = write_private(folder, &text).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(changed)
    }

    fn unusable(&self, source: io::Error) -> ServerKeysError {
        let path = self.path.clone();
        ServerKeysError::Unusable { path, source }
    }

    fn malformed(&self, reason: String) -> ServerKeysError {
        let path = self.path.clone();
        ServerKeysError::Malformed { path, reason }
    }
}

/// Tells whether others can change the file. That they read it tells them no key.
#[cfg(unix)]
fn is_exposed(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    /// The user to whom the system belongs.
    const ROOT: u32 = 0;
    let us = rustix::process::geteuid().as_raw();
    metadata.mode() & 0o022 != 0 || (metadata.uid() != us && metadata.uid() != ROOT)
}

#[cfg(not(unix))]
fn is_exposed(_metadata: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests;
