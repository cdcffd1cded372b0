//! A path in the project to be written: found and checked first, then written in one step.
//!
//! A file appears under its name only when it is complete: it is written without a name or under another one, synced to
//! disk, and then replaces the previous file.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, Permissions};
use cap_tempfile::TempFile;

use super::failure::{FileError, shown};
use super::git;
use super::program_files::leads_to;
use super::root::{Located, LocatedFile, ProjectRoot, Secrecy};
use super::secret::{is_protected, is_secret, is_spelling};

/// Entries that, next to a `HEAD`, turn a folder into a repository for git, even without `.git`.
const OF_REPOSITORY: [&str; 3] = ["objects", "refs", "commondir"];

/// Entries of such a folder that say which programs git runs.
const RUN_BY_GIT: [&str; 3] = ["config", "config.worktree", "hooks"];

/// Whether missing folders are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folders {
    Create,
    MustExist,
}

/// A file that may be written, whether it exists or not. Its path is free of symlinks and `..`.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) existing: Option<Existing>,
}

/// The existing file.
#[derive(Debug)]
pub(super) struct Existing {
    pub(super) file: LocatedFile,
    pub(super) bytes: u64,
    pub(super) permissions: Permissions,
}

impl Target {
    /// Finds the target for a path that a model wrote, and checks that it may be written. Changes nothing.
    pub(super) fn find(
        root: &ProjectRoot,
        requested: &str,
        folders: Folders,
    ) -> Result<Self, FileError> {
        check_name(requested)?;
        match root.locate(requested) {
            Ok(Located::File(file)) => Self::existing(root, file),
            Ok(Located::Folder(folder)) => Err(FileError::IsFolder {
                path: shown(&folder.path),
            }),
            Err(FileError::NotFound { .. }) => Self::new(root, requested, folders),
            Err(error) => Err(error),
        }
    }

    fn existing(root: &ProjectRoot, file: LocatedFile) -> Result<Self, FileError> {
        let path = file.path.clone();
        if is_protected(&path) {
            return Err(FileError::Protected { path: shown(&path) });
        }
        if file.secrecy == Secrecy::Secret {
            return Err(FileError::SecretTarget { path: shown(&path) });
        }
        let metadata = root.dir().symlink_metadata(&path);
        let metadata = metadata.map_err(|error| FileError::from_io(&path, error))?;
        if file.secrecy == Secrecy::OfProgram
            || root.program_files().by_identity(&metadata).is_some()
        {
            return Err(FileError::OfProgram { path: shown(&path) });
        }
        let permissions = metadata.permissions();
        // A file could be replaced although it is not writable: only the folder's permissions decide that. A read-only
        // mode is respected even if the user, like root, could write anyway.
        if permissions.readonly() || !may_write(root, &path) {
            return Err(FileError::NotWritable { path: shown(&path) });
        }
        let existing = Existing {
            file,
            bytes: metadata.len(),
            permissions,
        };
        Self {
            path,
            existing: Some(existing),
        }
        .checked(root)
    }

    fn new(root: &ProjectRoot, requested: &str, folders: Folders) -> Result<Self, FileError> {
        let wanted = root.relative(requested)?;
        let invalid = |why| FileError::InvalidPath {
            path: shown(&wanted),
            why,
        };
        let (Some(name), Some(parent)) = (wanted.file_name(), wanted.parent()) else {
            return Err(invalid("names no file"));
        };
        if is_protected(&wanted) {
            return Err(FileError::Protected {
                path: shown(&wanted),
            });
        }
        if is_secret(&wanted) {
            return Err(FileError::SecretTarget {
                path: shown(&wanted),
            });
        }
        let (existing, missing) = split(root, parent)?;
        if let Some(first) = missing.components().next() {
            if folders == Folders::MustExist {
                return Err(FileError::NoFolder {
                    path: shown(parent),
                });
            }
            if !matches!(first, Component::Normal(_)) || has_dots(&missing) {
                return Err(invalid("uses `..` below a folder that does not exist"));
            }
        }
        let dir =
            open(root, &existing).map_err(|error| match FileError::from_io(&existing, error) {
                FileError::NotFound { path, .. } => FileError::NotFolder { path },
                other => other,
            })?;
        let next = missing
            .components()
            .next()
            .map_or(name, |first| first.as_os_str());
        if dir.symlink_metadata(next).is_ok() {
            return Err(invalid("leads through a broken symlink"));
        }
        Self {
            path: existing.join(missing).join(name),
            existing: None,
        }
        .checked(root)
    }

    fn checked(self, root: &ProjectRoot) -> Result<Self, FileError> {
        let path = || shown(&self.path);
        if is_protected(&self.path) {
            return Err(FileError::Protected { path: path() });
        }
        if root.program_files().by_path(&self.path).is_some() {
            return Err(FileError::OfProgram { path: path() });
        }
        self.check_named_by_git(root)?;
        self.check_repository(root)?;
        Ok(self)
    }

    /// Checks that the configuration of no repository names the file: its own repository, one further up, or one just
    /// below the project root.
    fn check_named_by_git(&self, root: &ProjectRoot) -> Result<(), FileError> {
        let Some(top) = root.known_as().last() else {
            return Ok(());
        };
        let folder = top.join(self.parent());
        let below = git::folders_below(top);
        let mut folders = folder.ancestors().chain(below.iter().map(PathBuf::as_path));
        let is_named = folders.any(|folder| {
            let named = git::named_by_git(top, folder);
            let mut all = named.paths.iter().chain(&named.links);
            all.any(|named| leads_to(&self.path, named))
        });
        match is_named {
            true => Err(FileError::NamedByGit {
                path: shown(&self.path),
            }),
            false => Ok(()),
        }
    }

    /// Checks that the file does not turn a folder above it into a repository without `.git`, and is not part of one.
    /// Git also uses such repositories, even when a user only looks into the folder.
    pub(super) fn check_repository(&self, root: &ProjectRoot) -> Result<(), FileError> {
        let is_part = self.path.ancestors().any(|part| {
            let name = part.file_name().unwrap_or_default().to_string_lossy();
            let is = |known: &str| is_spelling(&name, known);
            let is_beside = |known: &str| {
                let beside = part.with_file_name(known);
                root.dir().symlink_metadata(beside).is_ok()
            };
            if is("HEAD") {
                OF_REPOSITORY.into_iter().any(is_beside)
            } else {
                let mut parts = OF_REPOSITORY.into_iter().chain(RUN_BY_GIT);
                parts.any(is) && is_beside("HEAD")
            }
        });
        match is_part {
            true => Err(FileError::PartOfRepository {
                path: shown(&self.path),
            }),
            false => Ok(()),
        }
    }

    fn name(&self) -> OsString {
        self.path
            .file_name()
            .map(OsString::from)
            .unwrap_or_default()
    }

    fn parent(&self) -> &Path {
        self.path.parent().unwrap_or_else(|| Path::new(""))
    }

    /// Returns the folders that [`folder`](Self::folder) would create, outermost first.
    pub(super) fn missing_folders(&self, root: &ProjectRoot) -> Vec<PathBuf> {
        if self.existing.is_some() {
            return Vec::new();
        }
        let is_missing = |folder: &&Path| {
            let found = root.dir().symlink_metadata(folder);
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let above = self.parent().ancestors();
        let above = above.filter(|folder| !folder.as_os_str().is_empty());
        let mut missing: Vec<_> = above.take_while(is_missing).map(Path::to_owned).collect();
        missing.reverse();
        missing
    }

    /// Creates the missing folders of the file, and opens the innermost.
    pub(super) fn folder(&self, root: &ProjectRoot) -> Result<Dir, FileError> {
        let failed = |error| FileError::from_write(&self.path, error);
        if self.existing.is_none() && !self.parent().as_os_str().is_empty() {
            root.dir().create_dir_all(self.parent()).map_err(failed)?;
        }
        open(root, self.parent()).map_err(failed)
    }

    /// Writes the content next to the target, ready to replace it.
    pub(super) fn prepare<'d>(
        &self,
        folder: &'d Dir,
        content: &[u8],
        permissions: Option<Permissions>,
    ) -> Result<UnnamedFile<'d>, FileError> {
        let existing = self.existing.as_ref().map(|file| file.permissions.clone());
        // If nothing can be created, it is the folder that is not writable. The name of the project's own folder, `.`,
        // would say nothing.
        let named = match self.parent() {
            parent if parent.as_os_str().is_empty() => self.path.as_path(),
            parent => parent,
        };
        let made = TempFile::new(folder);
        let mut file = made.map_err(|error| FileError::from_write(named, error))?;
        let fill = || {
            file.as_file_mut().write_all(content)?;
            if let Some(permissions) = permissions.or(existing) {
                file.as_file().set_permissions(permissions)?;
            }
            file.as_file().sync_data()
        };
        fill().map_err(|error| FileError::from_write(&self.path, error))?;
        Ok(UnnamedFile {
            file,
            name: self.name(),
            path: self.path.clone(),
        })
    }

    /// Removes the existing file.
    pub(super) fn remove(&self, root: &ProjectRoot) -> Result<(), FileError> {
        let removed = open(root, self.parent()).and_then(|dir| dir.remove_file(self.name()));
        removed.map_err(|error| FileError::from_write(&self.path, error))
    }
}

/// Content that is on disk and has no name yet. Dropping it deletes it.
#[derive(Debug)]
pub(super) struct UnnamedFile<'d> {
    file: TempFile<'d>,
    name: OsString,
    path: PathBuf,
}

impl UnnamedFile<'_> {
    /// Replaces the previous file.
    pub(super) fn commit(self) -> Result<(), FileError> {
        let Self { file, name, path } = self;
        file.replace(name)
            .map_err(|error| FileError::from_write(&path, error))
    }
}

/// Returns whether the user who runs this program may write a file. If that cannot be determined, writing it will show.
#[cfg(unix)]
fn may_write(root: &ProjectRoot, file: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, accessat};
    use rustix::io::Errno;

    let folder = open(root, file.parent().unwrap_or_else(|| Path::new("")));
    let (Ok(folder), Some(name)) = (folder, file.file_name()) else {
        return true;
    };
    accessat(&folder, name, Access::WRITE_OK, AtFlags::EACCESS) != Err(Errno::ACCESS)
}

#[cfg(not(unix))]
const fn may_write(_: &ProjectRoot, _: &Path) -> bool {
    true
}

fn open(root: &ProjectRoot, folder: &Path) -> io::Result<Dir> {
    if folder.as_os_str().is_empty() {
        root.dir().try_clone()
    } else {
        root.dir().open_dir(folder)
    }
}

/// Splits the path of a folder into its existing part, free of symlinks, and its missing part.
fn split(root: &ProjectRoot, folder: &Path) -> Result<(PathBuf, PathBuf), FileError> {
    for there in folder.ancestors() {
        if there.as_os_str().is_empty() {
            break;
        }
        match root.dir().canonicalize(there) {
            Ok(found) => {
                let missing = folder.strip_prefix(there).unwrap_or(folder).to_owned();
                let found = if found == Path::new(".") {
                    PathBuf::new()
                } else {
                    found
                };
                return Ok((found, missing));
            }
            Err(error) => match FileError::from_io(there, error) {
                FileError::NotFound { .. } => {}
                other => return Err(other),
            },
        }
    }
    Ok((PathBuf::new(), folder.to_owned()))
}

fn has_dots(path: &Path) -> bool {
    path.components()
        .any(|part| !matches!(part, Component::Normal(_)))
}

/// Refuses names that would mislead a reader.
fn check_name(requested: &str) -> Result<(), FileError> {
    let invalid = |why| FileError::InvalidPath {
        path: requested.to_owned(),
        why,
    };
    if requested.chars().any(char::is_control) {
        return Err(invalid("contains control characters"));
    }
    if requested.trim() != requested {
        return Err(invalid("begins or ends with whitespace"));
    }
    if requested.ends_with('/') {
        return Err(invalid("ends with `/`, like a folder; name a file"));
    }
    Ok(())
}
