//! The token with which users of this machine make decisions through a server that listens here: a file that only the
//! user can read.
//!
//! Any program on the machine can reach a server on loopback, including a command that a model ran. Only someone who
//! can read the user's own files may approve its calls: no tool can access the data folder.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use neuraxis_core::ContentHash;
use neuraxis_engine::ApprovalKey;

use crate::approval_key::{self, ApprovalKeyError};
use crate::config::Config;
use crate::environment::Environment;
use crate::private_file::{Links, is_accessible_to_others, open_regular, write_private};

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "server.token";

/// The purpose that the token is derived for. The key cannot be computed from the token.
const PURPOSE: &[u8] = b"neuraxis: decisions through a server on loopback";

/// The maximum number of bytes that are read of the file: the digits of a token, and what an editor adds.
const MAX_BYTES: u64 = 256;

/// Why there is no token. Never contains one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerTokenError {
    /// The key that it is derived from is unavailable.
    #[error(transparent)]
    Key(#[from] ApprovalKeyError),
    /// The system provides no random bytes for it.
    #[error("cannot get random bytes")]
    Random(#[source] io::Error),
    /// Its file cannot be written.
    #[error("{} cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The token, and its file.
pub struct ServerToken {
    /// The file: in the user's data folder, readable only by the user.
    pub path: PathBuf,
    token: String,
}

impl ServerToken {
    /// Writes the token of this installation, unless its file already contains it. The token is the same for all
    /// servers that share approvals. `None` if there is no data folder.
    ///
    /// # Errors
    ///
    /// Why the file cannot be written, or the approval key is unavailable.
    pub fn write(
        config: &Config,
        environment: &Environment,
    ) -> Result<Option<Self>, ServerTokenError> {
        let Some(folder) = environment.data_dir() else {
            return Ok(None);
        };
        let key = match config.store().is_in_memory() {
            true => None,
            false => approval_key::read(config, environment)?,
        };
        let key = match key {
            Some(key) => key,
            None => ApprovalKey::random().map_err(ServerTokenError::Random)?,
        };
        let hash = ContentHash::of(PURPOSE).chain(ContentHash::of(key.as_bytes()));
        let token = hash.to_string();
        let path = folder.join(FILE_NAME);
        match write_token(folder, &path, &token) {
            Ok(()) => Ok(Some(Self { path, token })),
            Err(source) => Err(ServerTokenError::Unwritable { path, source }),
        }
    }

    /// Returns the token. Do not display it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.token
    }
}

/// Writes a file that only the user can read, unless it already contains the token: the folder may then be read-only.
fn write_token(folder: &Path, path: &Path, token: &str) -> io::Result<()> {
    if holds(path, token) {
        return Ok(());
    }
    let file = write_private(folder, token)?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// Returns whether a file that only the user can read contains the token.
fn holds(path: &Path, token: &str) -> bool {
    let Ok(file) = open_regular(path, Links::Refused) else {
        return false;
    };
    let metadata = file.metadata();
    let is_private = metadata.is_ok_and(|metadata| !is_accessible_to_others(&metadata, 0o077));
    let mut text = String::new();
    let read = file.take(MAX_BYTES).read_to_string(&mut text);
    is_private && read.is_ok() && text.trim() == token
}

impl std::fmt::Debug for ServerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.path;
        f.debug_struct("ServerToken")
            .field("path", path)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn a_token_file_is_left_unchanged_if_it_already_holds_the_token_privately() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let kept = |token: &str| {
            write_token(folder.path(), &path, token).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{token}\n"));
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
            // Held open, so that no other file gets its inode number.
            (metadata.ino(), fs::File::open(&path).unwrap())
        };
        let first = kept("one");
        assert_eq!(kept("one").0, first.0);
        let second = kept("two");
        assert_ne!(second.0, first.0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_ne!(kept("two").0, second.0);
    }
}
