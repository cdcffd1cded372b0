//! The key of this installation, which makes approvals valid: a file in the user's data folder that is created when
//! first needed, or one that the configuration names.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use neuraxis_engine::ApprovalKey;

use crate::config::{Config, StoreConfig};
use crate::environment::Environment;
use crate::private_file::{Links, is_accessible_to_others, open, write_private};

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "approval.key";

/// The maximum size of the file in bytes: the digits of a key, and what an editor adds.
const MAX_BYTES: u64 = 256;

/// Why there is no key. Never contains one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalKeyError {
    /// The file cannot be read or created.
    #[error("{} cannot be read or created", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Other users can read or write the file.
    #[error(
        "other users can read or change {}; restrict it to its owner (chmod 600), or remove it if they may already \
         know the key",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file contains no key.
    #[error("{} holds no key: it must contain {} hexadecimal digits", path.display(), 2 * ApprovalKey::BYTES)]
    NoKey {
        /// The file.
        path: PathBuf,
    },
}

/// Returns the key of this installation; `None` if there is no place for one.
pub(crate) fn read(
    config: &Config,
    environment: &Environment,
) -> Result<Option<ApprovalKey>, ApprovalKeyError> {
    if let Some(named) = &config.store().approval_key_file {
        return read_file(&environment.working_dir().join(named), Links::Followed).map(Some);
    }
    let Some(folder) = environment.data_dir() else {
        return Ok(None);
    };
    let path = folder.join(FILE_NAME);
    match read_file(&path, Links::Refused) {
        Err(ApprovalKeyError::Unusable { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            make(folder, &path).map_err(|source| unusable(&path, source))?;
            // Another process may have created it first; then that key is used.
            read_file(&path, Links::Refused).map(Some)
        }
        read => read.map(Some),
    }
}

/// Where the approval key is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalKeyPlace {
    /// In a file that exists and can be used.
    File(PathBuf),
    /// In a file that is created when first needed.
    ToBeMade(PathBuf),
    /// In no file: the key ends with the process, because the sessions do, or because there is no data folder.
    Process,
}

/// Finds out where the approval key is, without creating one.
///
/// # Errors
///
/// An [`ApprovalKeyError`] if a run would find no key.
pub fn approval_key_place(
    config: &Config,
    environment: &Environment,
) -> Result<ApprovalKeyPlace, ApprovalKeyError> {
    let Some(path) = file(config, environment).filter(|_| !config.store().is_in_memory()) else {
        return Ok(ApprovalKeyPlace::Process);
    };
    if config.store().approval_key_file.is_some() {
        return read_file(&path, Links::Followed).map(|_| ApprovalKeyPlace::File(path));
    }
    match read_file(&path, Links::Refused) {
        Err(ApprovalKeyError::Unusable { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            match check_can_create(&path) {
                Ok(()) => Ok(ApprovalKeyPlace::ToBeMade(path)),
                Err(source) => Err(unusable(&path, source)),
            }
        }
        Err(error) => Err(error),
        Ok(_) => Ok(ApprovalKeyPlace::File(path)),
    }
}

/// Checks whether a file could be created in its folder, or in the nearest existing folder above.
fn check_can_create(path: &Path) -> io::Result<()> {
    let mut folders = path.ancestors().skip(1);
    let Some(folder) = folders.find(|folder| folder.exists()) else {
        return Ok(());
    };
    if !folder.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    #[cfg(unix)]
    {
        use rustix::fs::{Access, access};

        access(folder, Access::WRITE_OK | Access::EXEC_OK)?;
    }
    Ok(())
}

/// Returns the file that contains the key, if it is in a file.
pub(crate) fn file(config: &Config, environment: &Environment) -> Option<PathBuf> {
    match &config.store().approval_key_file {
        Some(named) => Some(environment.working_dir().join(named)),
        None => environment.data_dir().map(|folder| folder.join(FILE_NAME)),
    }
}

/// Returns the file of the key as it is displayed: as configured, or else the one that is created. `None` if no file is
/// needed.
pub(crate) fn shown_file(store: &StoreConfig, environment: &Environment) -> Option<PathBuf> {
    match &store.approval_key_file {
        Some(named) => Some(named.clone()),
        None if store.is_in_memory() => None,
        None => environment.data_dir().map(|folder| folder.join(FILE_NAME)),
    }
}

fn unusable(path: &Path, source: io::Error) -> ApprovalKeyError {
    let path = path.to_owned();
    ApprovalKeyError::Unusable { path, source }
}

fn read_file(path: &Path, links: Links) -> Result<ApprovalKey, ApprovalKeyError> {
    let failed = |source| unusable(path, source);
    let file = open(path, links).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    // A configured file may be shared with a group that can only read it.
    let forbidden = match links {
        Links::Followed => 0o027,
        Links::Refused => 0o077,
    };
    if is_accessible_to_others(&metadata, forbidden) {
        let path = path.to_owned();
        return Err(ApprovalKeyError::Exposed { path });
    }
    let no_key = || ApprovalKeyError::NoKey {
        path: path.to_owned(),
    };
    if !metadata.is_file() {
        return Err(no_key());
    }
    let mut text = String::new();
    let read = file.take(MAX_BYTES).read_to_string(&mut text);
    read.map_err(failed)?;
    let mut bytes = [0; ApprovalKey::BYTES];
    hex::decode_to_slice(text.trim(), &mut bytes).map_err(|_| no_key())?;
    Ok(ApprovalKey::new(bytes))
}

/// Creates the file, completely or not at all. If it already exists, it is left alone.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let key = ApprovalKey::random()?;
    let file = write_private(folder, &hex::encode(key.as_bytes()))?;
    match file.persist_noclobber(path) {
        Err(failed) if failed.error.kind() != io::ErrorKind::AlreadyExists => Err(failed.error),
        _ => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[expect(clippy::unwrap_used, reason = "a test that cannot begin has failed")]
    fn installed(folder: &Path) -> Result<ApprovalKey, ApprovalKeyError> {
        let path = folder.join(FILE_NAME);
        match read_file(&path, Links::Refused) {
            Err(ApprovalKeyError::Unusable { .. }) => {
                make(folder, &path).unwrap();
                read_file(&path, Links::Refused)
            }
            read => read,
        }
    }

    #[test]
    fn the_key_file_is_created_once_and_readable_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("neuraxis");
        let first = installed(&inner).unwrap();
        assert_eq!(first.as_bytes(), installed(&inner).unwrap().as_bytes());
        make(&inner, &inner.join(FILE_NAME)).unwrap();
        assert_eq!(first.as_bytes(), installed(&inner).unwrap().as_bytes());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&inner), mode(&inner.join(FILE_NAME))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "nothing is left");
    }

    #[test]
    fn a_key_file_that_is_exposed_or_malformed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        installed(folder.path()).unwrap();
        for mode in [0o644, 0o640, 0o602] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = read_file(&path, Links::Refused);
            assert!(matches!(read, Err(ApprovalKeyError::Exposed { .. })));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(
            read_file(&path, Links::Followed).is_ok(),
            "a group reads it"
        );
        fs::write(&path, "zz").unwrap();
        let read = read_file(&path, Links::Followed);
        assert!(matches!(read, Err(ApprovalKeyError::NoKey { .. })));
    }

    #[test]
    fn a_symlinked_key_file_is_read_only_if_links_may_be_followed() {
        let folder = tempfile::tempdir().unwrap();
        installed(folder.path()).unwrap();
        let link = folder.path().join("link");
        symlink(folder.path().join(FILE_NAME), &link).unwrap();
        assert!(read_file(&link, Links::Followed).is_ok());
        assert!(read_file(&link, Links::Refused).is_err());
    }
}
