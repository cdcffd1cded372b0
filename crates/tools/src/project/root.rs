//! The project's folder, as a handle through which everything else is opened.
//!
//! `cap-std` resolves every path below the handle (on Linux with the kernel's `openat2`), so a path can never lead out
//! of the folder, not even for a moment between a check and the use.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};

use super::ProjectError;
use super::failure::{FileError, shown};
use super::program_files::{ProgramFiles, ProgramFilesInProject};
use super::secret::{is_protected, is_secret};
use crate::suggest::nearest;

/// The maximum number of names in a folder that are compared with a name that does not exist.
const MAX_COMPARED_NAMES: usize = 10_000;

#[derive(Debug)]
pub(super) struct ProjectRoot {
    dir: Dir,
    /// The absolute path at which it was opened. Not resolved, since on Windows some programs don't start in a resolved
    /// path.
    #[cfg(feature = "commands")]
    path: PathBuf,
    /// The absolute paths by which the folder is known, so that absolute paths into it are understood.
    known_as: Vec<PathBuf>,
    program_files: ProgramFiles,
}

/// An entry of the project, with a path that is free of symlinks and `..`.
#[derive(Debug)]
pub(super) enum Located {
    File(LocatedFile),
    Folder(LocatedFolder),
}

#[derive(Debug)]
pub(super) struct LocatedFile {
    pub(super) path: PathBuf,
    /// Whether the requested path or the file's own path has a name used for secrets.
    pub(super) secrecy: Secrecy,
}

#[derive(Debug)]
pub(super) struct LocatedFolder {
    pub(super) path: PathBuf,
    pub(super) dir: Dir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Secret,
    /// A file of this program itself.
    OfProgram,
    Open,
}

impl ProjectRoot {
    /// Opens a folder, unless it is protected or inside a protected one: protected entries are recognized by their
    /// names below the root, and those names would be missing there.
    pub(super) fn open(path: &Path, program_files: &ProgramFiles) -> Result<Self, ProjectError> {
        let failed = |source| ProjectError::Root {
            path: path.to_owned(),
            source,
        };
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(failed)?;
        let known_as: Vec<PathBuf> = [std::path::absolute(path), path.canonicalize()]
            .into_iter()
            .flatten()
            .collect();
        // The last path is free of symlinks and `..`, if that could be determined.
        if known_as.last().is_some_and(|real| is_protected(real)) {
            return Err(ProjectError::Protected {
                path: path.to_owned(),
            });
        }
        Ok(Self {
            dir,
            #[cfg(feature = "commands")]
            path: std::path::absolute(path).map_err(failed)?,
            known_as,
            program_files: program_files.clone(),
        })
    }

    /// Returns its path, which may lead elsewhere by now.
    #[cfg(feature = "commands")]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its handle.
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the files of this program itself, as they are found now.
    pub(super) fn program_files(&self) -> ProgramFilesInProject {
        self.program_files.in_project(&self.known_as)
    }

    /// Returns the absolute paths by which the folder is known; the last one is free of symlinks if that could be
    /// determined.
    pub(super) fn known_as(&self) -> &[PathBuf] {
        &self.known_as
    }

    /// Finds a file or folder by the path that a model wrote. Symlinks are followed within the project.
    pub(super) fn locate(&self, requested: &str) -> Result<Located, FileError> {
        let wanted = self.relative(requested)?;
        let failed = |error| self.explain(&wanted, error);
        let path = self.dir.canonicalize(&wanted).map_err(failed)?;
        let metadata = self.dir.symlink_metadata(&path).map_err(failed)?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            let dir = self.dir.open_dir(&path).map_err(failed)?;
            let path = if path == Path::new(".") {
                PathBuf::new()
            } else {
                path
            };
            return Ok(Located::Folder(LocatedFolder { path, dir }));
        }
        if !kind.is_file() {
            return Err(FileError::NotRegular {
                path: shown(&wanted),
            });
        }
        let secret = is_secret(&wanted) || is_secret(&path);
        let secrecy = if self.program_files().is_withheld(&path, &metadata) {
            Secrecy::OfProgram
        } else if secret {
            Secrecy::Secret
        } else {
            Secrecy::Open
        };
        Ok(Located::File(LocatedFile { path, secrecy }))
    }

    /// Opens a file that was located earlier.
    pub(super) fn open_file(&self, file: &LocatedFile) -> Result<(File, u64), FileError> {
        let path = || shown(&file.path);
        match file.secrecy {
            Secrecy::Secret => return Err(FileError::Secret { path: path() }),
            Secrecy::OfProgram => return Err(FileError::OfProgram { path: path() }),
            Secrecy::Open => {}
        }
        open_regular(&self.dir, file.path.as_os_str(), &file.path)
    }

    /// Makes a path relative to the project root. An absolute path into the project is accepted as well.
    pub(super) fn relative(&self, requested: &str) -> Result<PathBuf, FileError> {
        if self.is_gone() {
            return Err(FileError::RootGone);
        }
        if requested.contains('\0') {
            return Err(FileError::InvalidPath {
                path: requested.to_owned(),
                why: "contains a NUL character",
            });
        }
        let path = Path::new(requested);
        let inside = self
            .known_as
            .iter()
            .find_map(|root| path.strip_prefix(root).ok())
            .unwrap_or(path);
        let absolute = |part| matches!(part, Component::RootDir | Component::Prefix(_));
        if inside.components().any(absolute) {
            return Err(FileError::OutsideRoot {
                path: requested.to_owned(),
            });
        }
        Ok(if inside.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            inside.to_owned()
        })
    }

    /// Returns whether the folder was deleted after it was opened: anything at its path now is another folder. A folder
    /// with a link count of zero that its path still leads to is on a file system that does not count links.
    #[cfg(unix)]
    fn is_gone(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;

        use cap_std::fs::MetadataExt as _;

        let Ok(open) = self.dir.dir_metadata() else {
            return false;
        };
        let is_open = |path: &PathBuf| {
            let there = path.metadata();
            there.is_ok_and(|there| (there.dev(), there.ino()) == (open.dev(), open.ino()))
        };
        open.nlink() == 0 && !self.known_as.iter().any(is_open)
    }

    /// This cannot be determined here.
    #[cfg(not(unix))]
    const fn is_gone(&self) -> bool {
        false
    }

    fn explain(&self, wanted: &Path, error: io::Error) -> FileError {
        match FileError::from_io(wanted, error) {
            FileError::NotFound { path, .. } => FileError::NotFound {
                path,
                suggestion: self.similar(wanted),
            },
            other => other,
        }
    }

    /// Returns the nearest path that exists: the first part that is missing is replaced by a sibling with a similar
    /// name.
    fn similar(&self, wanted: &Path) -> Option<String> {
        let mut parent = PathBuf::new();
        for part in wanted.components() {
            let next = parent.join(part);
            if self.dir.metadata(&next).is_ok_and(|found| found.is_dir()) {
                parent = next;
                continue;
            }
            let folder = if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                &parent
            };
            let names = self
                .dir
                .read_dir(folder)
                .ok()?
                .take(MAX_COMPARED_NAMES)
                .flatten();
            let names = names.filter_map(|entry| entry.file_name().into_string().ok());
            let name = nearest(&part.as_os_str().to_string_lossy(), names)?;
            let similar = shown(&parent.join(name));
            // A symlink that leads nowhere exists, but its target is not found.
            return (similar != shown(wanted)).then_some(similar);
        }
        None
    }
}

/// Opens a regular file for reading; `path` is its name in messages. If the last part of the name is a symlink, it is
/// not followed, and opening a pipe or device does not block.
pub(super) fn open_regular(dir: &Dir, name: &OsStr, path: &Path) -> Result<(File, u64), FileError> {
    let failed = |error| FileError::from_io(path, error);
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    // Checked before opening, because opening a device may already have an effect.
    if !dir.symlink_metadata(name).map_err(failed)?.is_file() {
        return Err(FileError::NotRegular { path: shown(path) });
    }
    let file = dir.open_with(name, &options).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || is_of_kernel(&file) {
        return Err(FileError::NotRegular { path: shown(path) });
    }
    Ok((file, metadata.len()))
}

/// Returns whether the kernel generates the file's content, as for the file with this program's own environment.
#[cfg(target_os = "linux")]
fn is_of_kernel(file: &File) -> bool {
    /// `/proc` and `/sys`.
    const KERNEL_FILE_SYSTEMS: [u64; 2] = [0x9fa0, 0x6265_6572];
    let system = rustix::fs::fstatfs(file).map(|system| system.f_type);
    // A file on an unknown file system is not read either.
    system.map_or(true, |kind| {
        u64::try_from(kind).is_ok_and(|kind| KERNEL_FILE_SYSTEMS.contains(&kind))
    })
}

#[cfg(not(target_os = "linux"))]
const fn is_of_kernel(_: &File) -> bool {
    false
}

/// Returns the names in a folder with their types, sorted; at most `most` of them.
pub(super) fn names(dir: &Dir, most: usize) -> io::Result<Vec<(OsString, cap_std::fs::FileType)>> {
    let entries = dir.entries()?.flatten().take(most);
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?)))
        .collect();
    names.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(names)
}
