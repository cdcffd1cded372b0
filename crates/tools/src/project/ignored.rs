//! What the project's `.gitignore` files (and `.git/info/exclude`) leave out.
//!
//! They are read through the handles of their folders, like every other file. If the project is part of a repository,
//! the ignore files of the folders above it are read as well, up to the repository's root: all they can do is leave
//! files out. The user's own ignore file is not read.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::root::open_regular;

/// The maximum number of bytes of an ignore file that are used.
const MAX_IGNORE_FILE_BYTES: u64 = 1024 * 1024;

/// The ignore files of a folder and of those above it, starting with the root's.
#[derive(Debug)]
pub(super) struct IgnoreFiles {
    files: Vec<Gitignore>,
    /// The path of the project within the repository that it is part of; empty if it is the whole repository.
    project: PathBuf,
}

impl IgnoreFiles {
    /// Starts at the project root; `path` is its absolute path, if known.
    pub(super) fn at_top(top: &Dir, path: Option<&Path>) -> Self {
        let above = path.and_then(|path| Self::above(top, path));
        above.unwrap_or_else(|| Self::of_repository(top))
    }

    fn of_repository(top: &Dir) -> Self {
        let excluded = top.open_dir(".git/info").ok();
        let files = excluded.map(|info| read(&info, "exclude", Path::new("")));
        Self {
            files: files.into_iter().collect(),
            project: PathBuf::new(),
        }
    }

    /// Reads the ignore files above the project, if it is part of a repository. If they ignore the project itself, they
    /// are not used: they are not meant for work inside it.
    fn above(top: &Dir, path: &Path) -> Option<Self> {
        if top.symlink_metadata(".git").is_ok() {
            return None;
        }
        let repository = path
            .ancestors()
            .skip(1)
            .find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
        let open = |folder: &Path| {
            Dir::open_ambient_dir(repository.join(folder), ambient_authority()).ok()
        };
        let mut ignored = Self::of_repository(&open(Path::new(""))?);
        let mut folder = PathBuf::new();
        for name in path.strip_prefix(repository).ok()? {
            ignored.enter(&open(&folder)?, &folder);
            folder.push(name);
            if ignored.leave_out(name, &folder, true) {
                return None;
            }
        }
        ignored.project = folder;
        Some(ignored)
    }

    /// Enters a folder, given its path from the project root.
    pub(super) fn enter(&mut self, dir: &Dir, path: &Path) {
        self.files
            .push(read(dir, ".gitignore", &self.project.join(path)));
    }

    /// Leaves the folder that was entered last.
    pub(super) fn leave(&mut self) {
        self.files.pop();
    }

    /// Returns whether an entry directly in the last entered folder is left out. Git's own folder always is.
    pub(super) fn leave_out(&self, name: &OsStr, path: &Path, is_folder: bool) -> bool {
        let path = self.project.join(path);
        let verdict = self
            .files
            .iter()
            .rev()
            .map(|file| file.matched(&path, is_folder))
            .find(|verdict| !verdict.is_none());
        name == ".git" || verdict.is_some_and(|verdict| verdict.is_ignore())
    }
}

/// Reads an ignore file. If it is missing or unreadable, nothing is ignored; invalid lines are skipped.
fn read(dir: &Dir, name: &str, folder: &Path) -> Gitignore {
    let mut text = Vec::new();
    let Ok((file, _)) = open_regular(dir, OsStr::new(name), Path::new(name)) else {
        return Gitignore::empty();
    };
    if file
        .take(MAX_IGNORE_FILE_BYTES)
        .read_to_end(&mut text)
        .is_err()
    {
        return Gitignore::empty();
    }
    let mut rules = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(&text)
        .trim_start_matches('\u{feff}')
        .lines()
    {
        // Git also continues after an invalid line.
        let _ = rules.add_line(None, line);
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}
