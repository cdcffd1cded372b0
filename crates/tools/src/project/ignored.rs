//! What the project's `.gitignore` files (and `.git/info/exclude`) leave out.
//!
//! They are read through the handles of the folders they stand in, like every other file. Where the project is a part of a
//! repository, those of the folders above it are read as well, up to the repository's top: they only leave out. The user's
//! own ignore file is not read.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::root::open_regular;

/// The most bytes of an ignore file that count.
const MAX_IGNORE_FILE_BYTES: u64 = 1024 * 1024;

/// The ignore files of a folder and of those above it, the top's first.
#[derive(Debug)]
pub(super) struct IgnoreFiles {
    files: Vec<Gitignore>,
    /// The path of the project from the top of the repository that it is a part of; empty where it is the whole.
    project: PathBuf,
}

impl IgnoreFiles {
    /// Begins at the top of the project, whose absolute path is given where it is known.
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

    /// Reads the ignore files above the project, if it is a part of a repository. Where they leave out the project itself,
    /// who works in it does not mean them.
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

    /// Goes into a folder, whose path from the top is given.
    pub(super) fn enter(&mut self, dir: &Dir, path: &Path) {
        self.files
            .push(read(dir, ".gitignore", &self.project.join(path)));
    }

    /// Leaves the folder that was entered last.
    pub(super) fn leave(&mut self) {
        self.files.pop();
    }

    /// Tells whether something directly in the folder entered last is left out. Git's own folder always is.
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

/// Reads an ignore file. Without one, or with one that cannot be read, nothing is ignored; a broken line is passed over.
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
        // Git, too, goes on after a line that it cannot understand.
        let _ = rules.add_line(None, line);
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}
