//! The keys of the clients of `neuraxis-server`, in one file that several servers can share.
//!
//! A key is displayed once, when it is created; the file contains only its SHA-256, and what the key allows. A key has
//! 256 random bits, so a slow hash would gain nothing. The file is replaced as a whole, and never trusted if others can
//! change it.
//!
//! Does not check requests; the server does that.

mod key;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use neuraxis_core::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::environment::Environment;
use crate::private_file::{
    Links, is_accessible_to_others, make_folder, open_regular, write_private,
};

pub use key::{Scope, ServerKey, UnknownScope};

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "server-keys.json";

/// The version of the file format. A later version is refused: its restrictions would be overlooked.
const VERSION: u32 = 1;

/// The maximum size of the file in bytes, enough for about ten thousand keys.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Why the key file cannot be used. Never contains a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerKeysError {
    /// It cannot be read or written.
    #[error("the keys in {} cannot be read or written", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The configured file does not exist.
    #[error(
        "there is no file {}, which [server] keys names: if it existed before, restore it first, because a server \
         that has read it still accepts its keys and a new file holds none of them; otherwise `neuraxis-server keys \
         create --owner NAME` creates it with a first key",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file does not exist, so no key in it can be revoked.
    #[error(
        "there is no file {}, so no key in it can be revoked: restore it first, because a server that has read it \
         still accepts its keys",
        path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// Other users can change it.
    #[error(
        "other users can change {} and so could give themselves access: restrict it to its owner (chmod 600), and \
         review `neuraxis-server keys list`",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// It contains no keys, or keys of a later version.
    #[error(
        "{} is not a key file that this version can read ({reason}): restore it from a copy; or stop the server, \
         delete the file and create new keys with `neuraxis-server keys create --owner NAME` before starting it again \
         (all old keys stop working)",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No key has this id.
    #[error("no key has this id; `neuraxis-server keys list` shows all keys")]
    NoSuchKey,
}

/// The file in its written form.
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
    /// Creates a handle to a file that may not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the configured file, or else the one in the user's data folder; `None` if there is neither.
    #[must_use]
    pub fn of(config: &Config, environment: &Environment) -> Option<Self> {
        let named = config.server().keys.as_ref();
        let named = named.map(|named| environment.working_dir().join(named));
        let usual = || Some(environment.data_dir()?.join(FILE_NAME));
        named.or_else(usual).map(Self::new)
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file exists, or once did: its lock file remains next to it.
    #[must_use]
    pub fn has_existed(&self) -> bool {
        let is_there = |path: &Path| match path.symlink_metadata() {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        is_there(&self.path) || is_there(&lock_of(&self.path))
    }

    /// Reads the keys; none if there is no file.
    ///
    /// # Errors
    ///
    /// A [`ServerKeysError`].
    pub fn read(&self) -> Result<Vec<ServerKey>, ServerKeysError> {
        match self.read_present() {
            Err(ServerKeysError::Missing { .. }) => Ok(Vec::new()),
            read => read,
        }
    }

    /// Reads the keys of a file that must exist.
    ///
    /// # Errors
    ///
    /// [`ServerKeysError::Missing`] if it does not; otherwise the same as [`read`](Self::read).
    pub fn read_present(&self) -> Result<Vec<ServerKey>, ServerKeysError> {
        // Links are followed, because secrets are mounted as links.
        let file = match open_regular(&self.path, Links::Followed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = self.path.clone();
                return Err(ServerKeysError::Missing { path });
            }
            opened => opened.map_err(|source| self.unusable(source))?,
        };
        let metadata = file.metadata().map_err(|source| self.unusable(source))?;
        // Others may read it, since it contains no usable key.
        if is_accessible_to_others(&metadata, 0o022) {
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
            other => Err(self.malformed(format!("it has version {other}, not {VERSION}"))),
        }
    }

    /// Adds a key. Creates the file and its folder if needed.
    ///
    /// # Errors
    ///
    /// A [`ServerKeysError`]; the file is then unchanged.
    pub fn add(&self, key: ServerKey) -> Result<(), ServerKeysError> {
        self.change(|keys| {
            keys.push(key);
            Ok(())
        })
    }

    /// Revokes a key, and returns it as it was before. A key that is already revoked is left unchanged.
    ///
    /// # Errors
    ///
    /// [`ServerKeysError::NoSuchKey`], [`ServerKeysError::Gone`], or why the file cannot be read or written.
    pub fn revoke(&self, id: &str, now: Timestamp) -> Result<ServerKey, ServerKeysError> {
        if let Err(ServerKeysError::Missing { path }) = self.read_present() {
            return Err(ServerKeysError::Gone { path });
        }
        self.change(|keys| {
            let key = keys.iter_mut().find(|key| key.id == id);
            let key = key.ok_or(ServerKeysError::NoSuchKey)?;
            let before = key.clone();
            key.revoked_at.get_or_insert(now);
            Ok(before)
        })
    }

    /// Changes the keys, one process at a time, and writes all of them or nothing.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<ServerKey>) -> Result<T, ServerKeysError>,
    ) -> Result<T, ServerKeysError> {
        let failed = |source| self.unusable(source);
        // Replaces the target of a link, not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        make_folder(folder).map_err(failed)?;
        let lock = open_lock(&lock_of(&path)).map_err(failed)?;
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

/// Opens the file that is locked while the keys are changed. Only its owner can lock it, and so delay a change.
fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns the file that is locked while the keys are changed.
fn lock_of(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

#[cfg(test)]
mod tests;
