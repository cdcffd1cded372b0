//! The token by which people on this machine decide through a server that listens here: a file of the user's alone.
//!
//! Any program on the machine reaches a server on loopback, a command that a model had run included. Only who can read the
//! user's own files may approve its calls: no tool gets at what lies in the data folder.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use neuraxis_core::ContentHash;
use neuraxis_engine::ApprovalKey;

use crate::approval_key::{self, ApprovalKeyError};
use crate::config::Config;
use crate::environment::Environment;
use crate::private_file::{Links, open_regular, others_may, write_private};

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "server.token";

/// What the token is made for: whoever has it cannot tell the key.
const PURPOSE: &[u8] = b"neuraxis: decisions through a server on loopback";

/// The most bytes of the file that are read: the digits of a token, and what an editor adds.
const MAX_BYTES: u64 = 256;

/// Why there is no token. Never holds one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerTokenError {
    /// What it is made of cannot be had.
    #[error(transparent)]
    Key(#[from] ApprovalKeyError),
    /// The system has no random bytes to make it of.
    #[error("no random bytes can be had")]
    Random(#[source] io::Error),
    /// Its file cannot be written.
    #[error("{} cannot be written", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// The token, and the file that it stands in.
pub struct ServerToken {
    /// The file: in the user's data folder, readable by the user alone.
    pub path: PathBuf,
    token: String,
}

impl ServerToken {
    /// Writes the token of this installation, the same for each server that shares its approvals, unless its file holds it
    /// already; `None` where there is no data folder.
    ///
    /// # Errors
    ///
    /// Why the file cannot be written, or the key of approvals cannot be had.
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
        match keep(folder, &path, &token) {
            Ok(()) => Ok(Some(Self { path, token })),
            Err(source) => Err(ServerTokenError::Unwritable { path, source }),
        }
    }

    /// Returns the token. Not to be shown.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.token
    }
}

/// Writes a file of the user's alone, unless it holds the token already: then the folder may be one that is only read.
fn keep(folder: &Path, path: &Path, token: &str) -> io::Result<()> {
    if holds(path, token) {
        return Ok(());
    }
    let file = write_private(folder, token)?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// Tells whether a file of the user's alone holds the token.
fn holds(path: &Path, token: &str) -> bool {
    let Ok(file) = open_regular(path, Links::Refused) else {
        return false;
    };
    let metadata = file.metadata();
    let is_private = metadata.is_ok_and(|metadata| !others_may(&metadata, 0o077));
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
    fn a_file_is_left_as_it_is_where_it_holds_the_token_for_the_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let kept = |token: &str| {
            keep(folder.path(), &path, token).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{token}\n"));
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
            // Held open, so that no other file is given its number.
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
