//! The token by which people on this machine decide through a server that listens here: a file of the user's alone.
//!
//! Any program on the machine reaches a server on loopback, a command that a model had run included. Only who can read the
//! user's own files may approve its calls: no tool gets at what lies in the data folder.

use std::io;
use std::path::PathBuf;

use neuraxis_core::ContentHash;
use neuraxis_engine::ApprovalKey;

use crate::approval_key;
use crate::config::Config;
use crate::environment::Environment;
use crate::private_file::write_private;

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "server.token";

/// What the token is made for: whoever has it cannot tell the key.
const PURPOSE: &[u8] = b"neuraxis: decisions through a server on loopback";

/// The token, and the file that it stands in.
pub struct ServerToken {
    /// The file: in the user's data folder, readable by the user alone.
    pub path: PathBuf,
    token: String,
}

impl ServerToken {
    /// Writes the token of this installation, the same for each server that shares its approvals; `None` where there is no
    /// data folder.
    ///
    /// # Errors
    ///
    /// Why the file, or the key of approvals, cannot be read or written.
    pub fn write(config: &Config, environment: &Environment) -> io::Result<Option<Self>> {
        let Some(folder) = environment.data_dir() else {
            return Ok(None);
        };
        let key = match config.store().is_in_memory() {
            true => None,
            false => approval_key::read(config, environment).map_err(io::Error::other)?,
        };
        let key = match key {
            Some(key) => key,
            None => ApprovalKey::random()?,
        };
        let hash = ContentHash::of(PURPOSE).chain(ContentHash::of(key.as_bytes()));
        let token = hash.to_string();
        let path = folder.join(FILE_NAME);
        let file = write_private(folder, &token)?;
        file.persist(&path).map_err(|failed| failed.error)?;
        Ok(Some(Self { path, token }))
    }

    /// Returns the token. Not to be shown.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.token
    }
}

impl std::fmt::Debug for ServerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.path;
        f.debug_struct("ServerToken")
            .field("path", path)
            .finish_non_exhaustive()
    }
}
