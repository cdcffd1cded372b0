//! What of a project commands must not change: the names that [`PROTECTED_NAMES`](crate::PROTECTED_NAMES) lists, wherever
//! they are.
//!
//! With access to git, a repository is open but for what decides which programs git runs: hooks and configuration.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use neuraxis_core::Access;

use super::order::Run;
use crate::project::is_protected_name;

/// What of a repository stays closed. `commondir` would name another folder for all of it.
const OF_REPOSITORY: [&str; 4] = ["hooks", "config", "config.worktree", "commondir"];

/// How many names of a project are looked at. In one that has more, no command is run.
const MAX_ENTRIES: usize = 1_000_000;

/// How deep repositories of submodules are looked for in that of their project.
const MAX_MODULE_DEPTH: usize = 4;

/// Paths in a project, from its top.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// They must not be changed.
    pub(super) sealed: Vec<PathBuf>,
    /// They must stay where they are, since something beneath them is sealed: another one could take their place.
    pub(super) held: BTreeSet<PathBuf>,
}

impl Closed {
    /// Returns what a command must not change in the project that is the working directory.
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
        let governing = run.governing.iter().map(PathBuf::from);
        for path in governing.filter(|path| path.exists()) {
            closed.held.extend(folders_above(&path));
            closed.sealed.push(path);
        }
        closed
    }
}

/// The folders of the project that a path is beneath, without the project itself.
fn folders_above(path: &Path) -> impl Iterator<Item = PathBuf> {
    let above = path.ancestors().skip(1);
    above
        .take_while(|folder| !["", "."].map(Path::new).contains(folder))
        .map(Path::to_owned)
}

/// Finds what is not there yet of that which a command with access to git must not change.
pub(super) fn absent(protected: &[PathBuf]) -> Vec<PathBuf> {
    let folders = protected.iter().filter(|path| path.is_dir()).cloned();
    let repositories = folders.flat_map(repositories);
    let parts = repositories.flat_map(|repository| OF_REPOSITORY.map(|name| repository.join(name)));
    parts
        .filter(|part| part.symlink_metadata().is_err())
        .collect()
}

/// Finds the files and folders of protected names in the project that is the working directory.
///
/// # Errors
///
/// When it has too many names to look at them all: behind a crowd of them one could be hidden.
pub(super) fn protected() -> Result<Found, String> {
    let (found, looked_at) = find(Path::new("."), MAX_ENTRIES);
    if looked_at > MAX_ENTRIES {
        return Err(format!(
            "the project has more than {MAX_ENTRIES} files and folders, too many to find its repositories; name a folder \
             within it as tools.root"
        ));
    }
    Ok(found)
}

/// As [`protected`], however many names there are: a crowd of them that a command made must not hide what else it made.
pub(super) fn all_protected() -> Found {
    find(Path::new("."), usize::MAX).0
}

/// What is found in a project.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The files and folders of protected names.
    pub(super) protected: Vec<PathBuf>,
    /// The `HEAD` of each repository without `.git`: git enters those as well, and runs what they say.
    pub(super) heads: Vec<PathBuf>,
}

/// Finds what is protected beneath a folder, and stops once it has looked at more names than asked for. Returns how many
/// those were, too.
fn find(top: &Path, most: usize) -> (Found, usize) {
    let mut found = Found::default();
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

/// Tells whether git takes a folder with a `HEAD` for a repository.
fn is_repository(folder: &Path) -> bool {
    let has = |part: &str| folder.join(part).exists();
    has("objects") && has("refs") || has("commondir")
}

/// A repository with those of its submodules and linked working trees.
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
    fn a_crowd_of_names_stops_a_command_but_not_the_look_afterwards() {
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
