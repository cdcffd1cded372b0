//! The project's folder, as a handle through which everything else is opened.
//!
//! `cap-std` resolves every path beneath the handle (on Linux the kernel does, with `openat2`), so that a path cannot
//! lead out of the folder, not even for the blink of an eye between a check and its use.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};

use super::ProjectError;
use super::failure::{FileError, shown};
use super::own::{OwnFiles, OwnInside};
use super::secret::{is_protected, is_secret};
use crate::suggest::nearest;

/// The most names of a folder that are compared with a name that does not exist.
const MAX_COMPARED_NAMES: usize = 10_000;

#[derive(Debug)]
pub(super) struct ProjectRoot {
    dir: Dir,
    /// Where it was when it was opened, absolute. On Windows not every program starts in a path that was resolved.
    #[cfg(feature = "commands")]
    path: PathBuf,
    /// The absolute paths by which the folder goes, so that absolute paths into it can be understood.
    known_as: Vec<PathBuf>,
    own: OwnFiles,
}

/// Something inside the project, its path free of symlinks and `..`.
#[derive(Debug)]
pub(super) enum Located {
    File(LocatedFile),
    Folder(LocatedFolder),
}

#[derive(Debug)]
pub(super) struct LocatedFile {
    pub(super) path: PathBuf,
    /// Whether it was asked for, or goes, by a name that secrets have.
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
    /// It is a file of this program itself.
    Own,
    Open,
}

impl ProjectRoot {
    /// Opens a folder, unless it is a protected one or lies in one: what is protected is found by its name beneath the
    /// root, and there its name would be gone.
    pub(super) fn open(path: &Path, own: &OwnFiles) -> Result<Self, ProjectError> {
        let failed = |source| ProjectError::Root {
            path: path.to_owned(),
            source,
        };
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(failed)?;
        let known_as: Vec<PathBuf> = [std::path::absolute(path), path.canonicalize()]
            .into_iter()
            .flatten()
            .collect();
        // The last is free of symlinks and `..`, where that can be found out.
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
            own: own.clone(),
        })
    }

    /// Its path, which may lead elsewhere by now.
    #[cfg(feature = "commands")]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its handle.
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The files of this program itself, as they are found now.
    pub(super) fn own(&self) -> OwnInside {
        self.own.beneath(&self.known_as)
    }

    /// The absolute paths by which the folder goes, the last one free of symlinks where that can be found out.
    pub(super) fn known_as(&self) -> &[PathBuf] {
        &self.known_as
    }

    /// Finds a file or folder by the path that a model wrote. Symlinks are followed inside the project.
    pub(super) fn locate(&self, asked: &str) -> Result<Located, FileError> {
        let wanted = self.relative(asked)?;
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
        let secrecy = if self.own().keeps(&path, &metadata) {
            Secrecy::Own
        } else if secret {
            Secrecy::Secret
        } else {
            Secrecy::Open
        };
        Ok(Located::File(LocatedFile { path, secrecy }))
    }

    /// Opens a file that was located before.
    pub(super) fn open_file(&self, file: &LocatedFile) -> Result<(File, u64), FileError> {
        let path = || shown(&file.path);
        match file.secrecy {
            Secrecy::Secret => return Err(FileError::Secret { path: path() }),
            Secrecy::Own => return Err(FileError::Own { path: path() }),
            Secrecy::Open => {}
        }
        open_regular(&self.dir, file.path.as_os_str(), &file.path)
    }

    /// Makes a path relative to the top of the project. An absolute path that leads into the project counts as relative.
    pub(super) fn relative(&self, asked: &str) -> Result<PathBuf, FileError> {
        if self.is_gone() {
            return Err(FileError::RootGone);
        }
        if asked.contains('\0') {
            return Err(FileError::InvalidPath {
                path: asked.to_owned(),
                why: "holds a NUL character",
            });
        }
        let path = Path::new(asked);
        let inside = self
            .known_as
            .iter()
            .find_map(|root| path.strip_prefix(root).ok())
            .unwrap_or(path);
        let absolute = |part| matches!(part, Component::RootDir | Component::Prefix(_));
        if inside.components().any(absolute) {
            return Err(FileError::OutsideRoot {
                path: asked.to_owned(),
            });
        }
        Ok(if inside.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            inside.to_owned()
        })
    }

    /// Tells whether the folder was deleted since it was opened: what may stand in its place is another one. A folder without links
    /// at which its path still leads is one of a file system that counts none.
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

    /// Nobody here can tell.
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

    /// Returns the nearest path that exists: the first part that does not is replaced by a sibling of a similar name.
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
            // A symlink that leads nowhere is there and yet not found.
            return (similar != shown(wanted)).then_some(similar);
        }
        None
    }
}

/// Opens a regular file for reading; `path` is its name in messages. The last part of the name is not followed if it is
/// a symlink, and opening a pipe or device does not block.
pub(super) fn open_regular(dir: &Dir, name: &OsStr, path: &Path) -> Result<(File, u64), FileError> {
    let failed = |error| FileError::from_io(path, error);
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    // Asked first, because merely opening a device may do something.
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

/// Tells whether a file is one that the kernel makes up, such as the one with this program's own environment.
#[cfg(target_os = "linux")]
fn is_of_kernel(file: &File) -> bool {
    /// `/proc` and `/sys`.
    const MADE_UP: [u64; 2] = [0x9fa0, 0x6265_6572];
    let system = rustix::fs::fstatfs(file).map(|system| system.f_type);
    // One that does not say what it is on is not read either.
    system.map_or(true, |kind| {
        u64::try_from(kind).is_ok_and(|kind| MADE_UP.contains(&kind))
    })
}

#[cfg(not(target_os = "linux"))]
const fn is_of_kernel(_: &File) -> bool {
    false
}

/// The names in a folder with what they stand for, sorted; at most `most` of them.
pub(super) fn names(dir: &Dir, most: usize) -> io::Result<Vec<(OsString, cap_std::fs::FileType)>> {
    let entries = dir.entries()?.flatten().take(most);
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?)))
        .collect();
    names.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(names)
}
