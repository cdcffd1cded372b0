//! Looks after what is protected in a project from outside, before and after a command.
//!
//! What is there is sealed inside ([`Closed`](super::closed::Closed)). What is not there cannot be: where that is possible
//! it is made before, empty, and else what appeared is taken away afterwards, when nothing of the command runs any more.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Permissions, PermissionsExt};
use neuraxis_core::Access;

use super::closed;
use super::order::Run;
use crate::project::{is_protected, named_by};

/// What is appended to the name of what appeared while a command ran and it must not make. Nothing is deleted: somebody else
/// may have made it meanwhile.
const SET_ASIDE: &str = ".set-aside";

/// How many bytes of names are told: the answer that they are part of is bounded.
const MAX_TOLD_BYTES: usize = 8 << 10;

/// What is looked after.
#[derive(Debug)]
pub(super) struct Guard {
    project: Dir,
    access: BTreeSet<Access>,
    /// What was there before.
    protected: BTreeSet<PathBuf>,
    /// What was made so that it could be sealed.
    made: Vec<PathBuf>,
    /// What must not be there afterwards.
    absent: Vec<PathBuf>,
    /// What is not there of that which the configuration of a repository names: git would run or read it.
    named: BTreeSet<PathBuf>,
}

impl Guard {
    /// Looks at the project that is the working directory, and tells the process inside what is protected in it.
    pub(super) fn before(run: &mut Run) -> Result<Self, String> {
        let project = Dir::open_ambient_dir(".", ambient_authority())
            .map_err(|error| format!("the project cannot be opened: {error}"))?;
        let found = closed::protected()?;
        let named = named(&found.protected)?;
        let parts = match run.access.contains(&Access::Git) {
            true => closed::absent(&found.protected),
            false => Vec::new(),
        };
        let (made, absent) = parts
            .into_iter()
            .partition(|part| make_empty(&project, part).is_ok());
        let (there, mut named): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) = named
            .into_iter()
            .partition(|path| project.symlink_metadata(path).is_ok());
        named.retain(|path| !is_protected(path));
        let there = there.into_iter().map(PathBuf::into_os_string);
        run.governing.extend(there);
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
            named,
        })
    }

    /// Takes away what must not be there. Returns what was given another name, from the project's top.
    pub(super) fn after(self) -> Vec<String> {
        for path in &self.made {
            // What somebody else put there meanwhile stays.
            let _in_use = remove_empty(&self.project, path);
        }
        for path in &self.absent {
            let _not_there = self.project.remove_file(path);
            let _not_there = self.project.remove_dir_all(path);
        }
        if self.access.contains(&Access::Git) {
            return Vec::new();
        }
        let now = closed::all_protected();
        let now = now.protected.iter().chain(&now.heads);
        let new = now.filter(|path| !self.protected.contains(*path));
        let new = new.map(PathBuf::as_path);
        let named = self.named.iter().filter_map(|path| self.appeared(path));
        told(new.chain(named).map(|path| self.set_aside(path)))
    }

    /// Returns what appeared at a path where nothing was: itself, or the symlink on the way that git follows and the handle of the
    /// project does not, since it is absolute.
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
            None => format!("{shown} (it is still there: it cannot be renamed)"),
        }
    }

    /// As `rename`, where the command took away the right to change what is in the folder.
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

/// Finds what the configuration of the repositories in the project, and of those that it lies in, names in it.
fn named(protected: &[PathBuf]) -> Result<BTreeSet<PathBuf>, String> {
    let top = env::current_dir().map_err(|error| format!("where is the project? {error}"))?;
    let within = protected.iter().filter_map(|path| path.parent());
    let within = within.map(|folder| top.join(folder));
    let work_trees: BTreeSet<PathBuf> = within.chain(top.ancestors().map(Path::to_owned)).collect();
    let named = work_trees.iter().flat_map(|folder| named_by(&top, folder));
    Ok(named.collect())
}

/// What is told of what was set aside: the first names, and how many more there are.
fn told(all: impl Iterator<Item = String>) -> Vec<String> {
    let (mut told, mut bytes, mut more) = (Vec::new(), 0, 0);
    for path in all {
        bytes += path.len();
        if bytes <= MAX_TOLD_BYTES {
            told.push(path);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told
}

/// Makes a part of a repository that may as well be empty.
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
    fn of_many_that_were_set_aside_the_first_are_told_and_the_others_counted() {
        let all = |number: usize| (0..number).map(|number| format!("{number:04}/.git"));
        assert_eq!(told(all(2)), ["0000/.git", "0001/.git"]);
        let told = told(all(5_000));
        assert_eq!(told.len(), MAX_TOLD_BYTES / 9 + 1);
        assert_eq!(told.last().unwrap(), "and 4090 more");
    }
}
