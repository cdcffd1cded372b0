//! What commands must not change in a project: the names that [`PROTECTED_NAMES`](crate::PROTECTED_NAMES) lists,
//! wherever they are.
//!
//! With access to git, a repository is open except for what decides which programs git runs: hooks and configuration.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use neuraxis_core::Access;

use super::order::Run;
use crate::project::is_protected_name;

/// The parts of a repository that stay closed. `commondir` could replace the whole repository by another folder.
const OF_REPOSITORY: [&str; 4] = ["hooks", "config", "config.worktree", "commondir"];

/// The maximum number of names in a project that are examined. In a project with more, no commands are run.
const MAX_ENTRIES: usize = 1_000_000;

/// The depth to which submodule repositories are searched within the project's repository.
const MAX_MODULE_DEPTH: usize = 4;

/// Paths in a project, relative to its root.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// Entries that must not be changed.
    pub(super) sealed: Vec<PathBuf>,
    /// Folders that must not be moved, because something below them is sealed: another entry could replace it.
    pub(super) held: BTreeSet<PathBuf>,
}

impl Closed {
    /// Returns what a command must not change in the project in the working directory.
    pub(super) fn of(run: &Run) -> Self {
        let mut closed = Self::default();
        for path in run.protected.iter().map(PathBuf::from) {
            closed.held.extend(folders_above(&path));
            if run.access.contains(&Access::Git) && path.is_dir() {
                for repository in repositories(path) {
                    let parts = OF_REPOSITORY.map(|name| repository.join(name));
                    let parts = parts.into_iter().filter(|part| part.exists());
                    closed.sealed.extend(parts);
                    closed.held.extend(folders_above(&repository));
                    closed.held.insert(repository);
                }
            } else {
                closed.sealed.push(path);
            }
        }
        let read_only = run.read_only.iter().map(PathBuf::from);
        for path in read_only.filter(|path| path.exists()) {
            closed.held.extend(folders_above(&path));
            closed.sealed.push(path);
        }
        closed
    }
}

/// Returns the folders of the project above a path, without the project root.
fn folders_above(path: &Path) -> impl Iterator<Item = PathBuf> {
    let above = path.ancestors().skip(1);
    above
        .take_while(|folder| !["", "."].map(Path::new).contains(folder))
        .map(Path::to_owned)
}

/// Returns the entries that a command with access to git must not change and that don't exist yet.
pub(super) fn absent(protected: &[PathBuf]) -> Vec<PathBuf> {
    let folders = protected.iter().filter(|path| path.is_dir()).cloned();
    let repositories = folders.flat_map(repositories);
    let parts = repositories.flat_map(|repository| OF_REPOSITORY.map(|name| repository.join(name)));
    parts
        .filter(|part| part.symlink_metadata().is_err())
        .collect()
}

/// Finds the files and folders with protected names in the project in the working directory.
///
/// # Errors
///
/// An error if the project has too many names to examine: a protected one could be hidden among them.
pub(super) fn protected() -> Result<ProtectedEntries, String> {
    let (found, looked_at) = find(Path::new("."), MAX_ENTRIES);
    if looked_at > MAX_ENTRIES {
        return Err(format!(
            "the project has more than {MAX_ENTRIES} files and folders, too many to search for repositories; set \
             tools.root to a folder inside it"
        ));
    }
    Ok(found)
}

/// Like [`protected`], but without a limit: a command must not be able to hide what it created among many other names.
pub(super) fn all_protected() -> ProtectedEntries {
    find(Path::new("."), usize::MAX).0
}

/// What was found in a project.
#[derive(Debug, Default)]
pub(super) struct ProtectedEntries {
    /// The files and folders with protected names.
    pub(super) protected: Vec<PathBuf>,
    /// The `HEAD` of each repository without `.git`: git also uses such repositories, and runs what they say.
    pub(super) heads: Vec<PathBuf>,
}

/// Finds protected entries below a folder, and stops after examining more than `most` names. Also returns the number of
/// names that were examined.
fn find(top: &Path, most: usize) -> (ProtectedEntries, usize) {
    let mut found = ProtectedEntries::default();
    let mut open = VecDeque::from([top.to_owned()]);
    let mut looked_at = 0;
    while let Some(folder) = open.pop_front() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > most {
                return (found, looked_at);
            }
            let path = folder.join(entry.file_name());
            if is_protected_name(&entry.file_name().to_string_lossy()) {
                found.protected.push(path);
            } else if entry.file_type().is_ok_and(|kind: FileType| kind.is_dir()) {
                open.push_back(path);
            } else if entry.file_name() == "HEAD" && is_repository(&folder) {
                found.heads.push(path);
            }
        }
    }
    (found, looked_at)
}

/// Returns whether git treats a folder with a `HEAD` as a repository.
fn is_repository(folder: &Path) -> bool {
    let has = |part: &str| folder.join(part).exists();
    has("objects") && has("refs") || has("commondir")
}

/// Returns a repository with those of its submodules and linked working trees.
fn repositories(top: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(top.join("modules"), 0), (top.join("worktrees"), 0)];
    found.push(top);
    while let Some((folder, depth)) = open.pop() {
        for entry in folders(&folder) {
            if entry.join("HEAD").exists() {
                open.push((entry.join("modules"), depth + 1));
                found.push(entry);
            } else if depth < MAX_MODULE_DEPTH {
                open.push((entry, depth + 1));
            }
        }
    }
    found
}

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .map(|entry| entry.path())
        .filter(|path| path.file_name() != Some(OsStr::new("objects")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_names_stop_the_scan_before_a_command_but_not_the_one_after() {
        let project = tempfile::tempdir().unwrap();
        let repository = project.path().join("sub/.git");
        fs::create_dir_all(&repository).unwrap();
        for number in 0..9 {
            fs::write(project.path().join(number.to_string()), "").unwrap();
        }
        let (_, looked_at) = find(project.path(), 10);
        assert_eq!(looked_at, 11);
        let (found, looked_at) = find(project.path(), usize::MAX);
        assert_eq!((found.protected, looked_at), (vec![repository], 11));
    }
}
