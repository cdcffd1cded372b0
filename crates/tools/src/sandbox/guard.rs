//! Looks after what is protected in a project from outside, before and after a command.
//!
//! What is there is sealed inside ([`Closed`](super::closed::Closed)). What is not there cannot be: where that is possible
//! it is made before, empty, and else what appeared is taken away afterwards, when nothing of the command runs any more.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use neuraxis_core::Access;

use super::closed;
use super::order::Run;

/// What is appended to the name of what a command made and must not make. Nothing is deleted: somebody else may have made
/// it meanwhile.
const SET_ASIDE: &str = ".set-aside";

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
}

impl Guard {
    /// Looks at the project that is the working directory, and tells the process inside what is protected in it.
    pub(super) fn before(run: &mut Run) -> Result<Self, String> {
        let project = Dir::open_ambient_dir(".", ambient_authority())
            .map_err(|error| format!("the project cannot be opened: {error}"))?;
        let protected = closed::protected()?;
        let parts = match run.access.contains(&Access::Git) {
            true => closed::absent(&protected),
            false => Vec::new(),
        };
        let (made, absent) = parts
            .into_iter()
            .partition(|part| make_empty(&project, part).is_ok());
        run.protected = protected
            .iter()
            .map(|path| OsString::from(path.as_os_str()))
            .collect();
        Ok(Self {
            project,
            access: run.access.clone(),
            protected: protected.into_iter().collect(),
            made,
            absent,
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
        let now = closed::protected().unwrap_or_default();
        let new = now.iter().filter(|path| !self.protected.contains(*path));
        new.filter_map(|path| self.set_aside(path)).collect()
    }

    fn set_aside(&self, path: &Path) -> Option<String> {
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
        self.project
            .rename(path, &self.project, free.next()?)
            .ok()?;
        let shown = path.strip_prefix(".").unwrap_or(path);
        Some(shown.display().to_string())
    }
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
