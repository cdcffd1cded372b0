//! What the project's `.gitignore` files (and `.git/info/exclude`) leave out.
//!
//! They are read through the handles of the folders they stand in, like every other file. The user's own ignore file is
//! outside of the project and not read.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::root::open_regular;

/// The most bytes of an ignore file that count.
const MAX_IGNORE_FILE_BYTES: u64 = 1024 * 1024;

/// The ignore files of a folder and of those above it, the top's first.
#[derive(Debug, Default)]
pub(super) struct IgnoreFiles(Vec<Gitignore>);

impl IgnoreFiles {
    /// Begins at the top of the project.
    pub(super) fn at_top(top: &Dir) -> Self {
        let excluded = top.open_dir(".git/info").ok();
        Self(
            excluded
                .map(|info| read(&info, "exclude", Path::new("")))
                .into_iter()
                .collect(),
        )
    }

    /// Goes into a folder, whose path from the top is given.
    pub(super) fn enter(&mut self, dir: &Dir, path: &Path) {
        self.0.push(read(dir, ".gitignore", path));
    }

    /// Leaves the folder that was entered last.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    /// Tells whether something directly in the folder entered last is left out. Git's own folder always is.
    pub(super) fn leave_out(&self, name: &OsStr, path: &Path, is_folder: bool) -> bool {
        let verdict = self
            .0
            .iter()
            .rev()
            .map(|file| file.matched(path, is_folder))
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
