//! Guards the protected entries of a project from outside the sandbox, before and after a command.
//!
//! Existing entries are sealed inside the sandbox ([`Closed`](super::closed::Closed)), but missing ones cannot be.
//! Where possible, they are created empty beforehand; otherwise, whatever has appeared is removed or renamed after all
//! of the command's processes have ended. Entries of the working tree that a repository's configuration names are open
//! to a command with access to git, since a checkout writes all of the tree or leaves it half done: their changes are
//! reported afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Permissions, PermissionsExt};
use neuraxis_core::Access;

use super::Aftermath;
use super::closed;
use super::order::Run;
use crate::project::{NamedByGit, is_protected, named_by_git};

/// The suffix for entries that appeared while a command without access to git ran, and that it must not create. They
/// are renamed, not deleted, since another process may have created them in the meantime.
const SET_ASIDE: &str = ".set-aside";

/// The maximum total length in bytes of the names that are reported, since the answer that contains them is bounded.
const MAX_REPORTED_BYTES: usize = 4 << 10;

/// The maximum number of files and folders that are compared below a path that a configuration names.
const MAX_COMPARED: usize = 10_000;

/// The guarded entries.
#[derive(Debug)]
pub(super) struct Guard {
    project: Dir,
    access: BTreeSet<Access>,
    /// The entries that existed before.
    protected: BTreeSet<PathBuf>,
    /// The entries that were created so that they could be sealed.
    made: Vec<PathBuf>,
    /// The entries that must not exist afterwards.
    absent: Vec<PathBuf>,
    /// Missing entries that a repository's configuration names: git would run or read them.
    named: BTreeSet<PathBuf>,
    /// The symlinks through which git finds what the configuration names.
    links: BTreeMap<PathBuf, Link>,
    /// Named entries that a command with access to git can change, with the files there.
    open: BTreeMap<PathBuf, Option<Files>>,
}

/// The state of a symlink.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    target: PathBuf,
    leads_nowhere: bool,
}

impl Link {
    fn at(path: &Path) -> Option<Self> {
        Some(Self {
            target: fs::read_link(path).ok()?,
            leads_nowhere: !path.exists(),
        })
    }

    /// Returns whether what is there now leads elsewhere.
    fn is_other(&self, path: &Path) -> bool {
        let is_same = fs::read_link(path).is_ok_and(|target| target == self.target);
        !is_same || self.leads_nowhere && path.exists()
    }
}

/// Files and symlinks, by their paths from the project root.
type Files = BTreeMap<PathBuf, Stamp>;

/// What is known about a file without reading it. The change time is used because it cannot be set.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
    link: Option<Link>,
}

impl Guard {
    /// Examines the project in the working directory, and tells the process inside what is protected in it.
    pub(super) fn before(run: &mut Run) -> Result<Self, String> {
        let project = Dir::open_ambient_dir(".", ambient_authority())
            .map_err(|error| format!("the project cannot be opened: {error}"))?;
        let found = closed::protected()?;
        let named = named(&found.protected)?;
        let has_git = run.access.contains(&Access::Git);
        let parts = match has_git {
            true => closed::absent(&found.protected),
            false => Vec::new(),
        };
        let (made, absent) = parts
            .into_iter()
            .partition(|part| make_empty(&project, part).is_ok());
        let is_closed = |path: &PathBuf| !has_git || is_protected(path);
        let (closed, mut open): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
            named.paths.into_iter().partition(is_closed);
        let (there, mut absent_named): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) = closed
            .into_iter()
            .partition(|path| project.symlink_metadata(path).is_ok());
        absent_named.retain(|path| !is_protected(path));
        let mut links = BTreeMap::new();
        if has_git {
            open.extend(named.links);
        } else {
            let link = |path: PathBuf| Link::at(&path).map(|link| (path, link));
            links.extend(named.links.into_iter().filter_map(link));
        }
        let with_files = |path: PathBuf| {
            let files = files(&path);
            (path, files)
        };
        let there = there.into_iter().map(PathBuf::into_os_string);
        run.read_only.extend(there);
        run.protected = found
            .protected
            .iter()
            .map(|path| OsString::from(path.as_os_str()))
            .collect();
        Ok(Self {
            project,
            access: run.access.clone(),
            protected: found.protected.into_iter().chain(found.heads).collect(),
            made,
            absent,
            named: absent_named,
            links,
            open: open.into_iter().map(with_files).collect(),
        })
    }

    /// Removes or renames what must not exist. Returns what was renamed, and what has changed.
    pub(super) fn after(self) -> Aftermath {
        for path in &self.made {
            // Whatever another process has put there in the meantime stays.
            let _in_use = remove_empty(&self.project, path);
        }
        for path in &self.absent {
            let _not_there = self.project.remove_file(path);
            let _not_there = self.project.remove_dir_all(path);
        }
        if self.access.contains(&Access::Git) {
            let changed = self.changed().into_iter();
            return Aftermath {
                changed: reported_names(changed.map(|path| path.display().to_string())),
                ..Aftermath::default()
            };
        }
        let now = closed::all_protected();
        let now = now.protected.iter().chain(&now.heads);
        let new = now.filter(|path| !self.protected.contains(*path));
        let set_aside = reported_names(new.map(|path| self.set_aside(path)));
        let links = self.links.iter();
        let turned = links.filter(|(path, link)| link.is_other(path));
        let named = self.named.iter().chain(turned.map(|(path, _)| path));
        let named = named.filter_map(|path| self.appeared(path));
        Aftermath {
            set_aside,
            named: reported_names(named.map(|path| self.set_aside(path))),
            changed: Vec::new(),
        }
    }

    /// Returns the changed entries among those that a repository's configuration names. For a folder that has too many
    /// files to compare, either now or before, returns the folder itself; if both now and before, nothing.
    fn changed(&self) -> BTreeSet<PathBuf> {
        let mut changed = BTreeSet::new();
        for (path, before) in &self.open {
            match (before, files(path)) {
                (Some(before), Some(now)) => {
                    let all = before.keys().chain(now.keys());
                    let other = all.filter(|file| before.get(*file) != now.get(*file));
                    changed.extend(other.cloned());
                }
                (None, None) => {}
                _ => {
                    changed.insert(path.clone());
                }
            }
        }
        changed
    }

    /// Returns what appeared at a path where nothing was: the entry itself, or a symlink along the path that git
    /// follows but the project's handle does not, because it is absolute.
    fn appeared<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        if self.project.symlink_metadata(path).is_ok() {
            return Some(path);
        }
        path.symlink_metadata().ok()?;
        path.ancestors().find(|part| {
            let found = self.project.symlink_metadata(part);
            found.is_ok_and(|found| found.is_symlink())
        })
    }

    fn set_aside(&self, path: &Path) -> String {
        let shown = path.strip_prefix(".").unwrap_or(path).display();
        match self.rename(path).or_else(|| self.rename_in_open(path)) {
            Some(()) => shown.to_string(),
            None => format!("{shown} (still there, because it cannot be renamed)"),
        }
    }

    /// Like `rename`, for a folder whose write permission the command removed.
    fn rename_in_open(&self, path: &Path) -> Option<()> {
        let open = Permissions::from_mode(0o755);
        self.project.set_permissions(path.parent()?, open).ok()?;
        self.rename(path)
    }

    fn rename(&self, path: &Path) -> Option<()> {
        let named = |ending: String| {
            let mut name = path.as_os_str().to_owned();
            name.push(SET_ASIDE);
            name.push(ending);
            PathBuf::from(name)
        };
        let endings =
            std::iter::once(String::new()).chain((2..100).map(|number| number.to_string()));
        let mut free = endings
            .map(named)
            .filter(|name| self.project.symlink_metadata(name).is_err());
        let renamed = self.project.rename(path, &self.project, free.next()?);
        renamed.ok()
    }
}

/// Finds what is named in the project by the configurations of its repositories and of the repositories around it.
fn named(protected: &[PathBuf]) -> Result<NamedByGit, String> {
    let top = env::current_dir().map_err(|error| format!("cannot find the project: {error}"))?;
    let within = protected.iter().filter_map(|path| path.parent());
    let within = within.map(|folder| top.join(folder));
    let work_trees: BTreeSet<PathBuf> = within.chain(top.ancestors().map(Path::to_owned)).collect();
    let mut named = NamedByGit::default();
    for found in work_trees.iter().map(|folder| named_by_git(&top, folder)) {
        named.paths.extend(found.paths);
        named.links.extend(found.links);
    }
    Ok(named)
}

/// Returns the files and symlinks at or below a path, without repositories; `None` if there are too many to compare.
fn files(path: &Path) -> Option<Files> {
    let (mut found, mut open) = (Files::new(), vec![path.to_owned()]);
    let mut looked_at = 0;
    while let Some(path) = open.pop() {
        looked_at += 1;
        if looked_at > MAX_COMPARED {
            return None;
        }
        let Ok(file) = path.symlink_metadata() else {
            continue;
        };
        if file.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            let entries = entries.filter(|entry| entry.file_name() != ".git");
            open.extend(entries.map(|entry| entry.path()).take(MAX_COMPARED));
        } else {
            let stamp = Stamp {
                inode: file.ino(),
                bytes: file.len(),
                changed: (file.ctime(), file.ctime_nsec()),
                link: Link::at(&path),
            };
            found.insert(path, stamp);
        }
    }
    Some(found)
}

/// Returns the names to report: the first ones, and how many more there are.
fn reported_names(all: impl Iterator<Item = String>) -> Vec<String> {
    let (mut names, mut bytes, mut more) = (Vec::new(), 0, 0);
    for path in all {
        bytes += path.len();
        if bytes <= MAX_REPORTED_BYTES {
            names.push(path);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names
}

/// Creates a part of a repository that may be empty.
fn make_empty(project: &Dir, part: &Path) -> io::Result<()> {
    match part.file_name().and_then(|name| name.to_str()) {
        Some("hooks") => project.create_dir(part),
        Some("config.worktree") => project.create(part).map(drop),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn remove_empty(project: &Dir, part: &Path) -> io::Result<()> {
    let found = project.symlink_metadata(part)?;
    match found.is_dir() {
        true => project.remove_dir(part),
        false if found.len() == 0 => project.remove_file(part),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_many_renamed_repositories_are_named_and_the_rest_counted() {
        let all = |number: usize| (0..number).map(|number| format!("{number:04}/.git"));
        assert_eq!(reported_names(all(2)), ["0000/.git", "0001/.git"]);
        let told = reported_names(all(5_000));
        assert_eq!(told.len(), MAX_REPORTED_BYTES / 9 + 1);
        assert_eq!(told.last().unwrap(), "and 4545 more");
    }
}
