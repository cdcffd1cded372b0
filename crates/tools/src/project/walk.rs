//! Walks through the folders of a project, without following symlinks and without ignored entries.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, FileType};
use serde::Serialize;

use super::failure::FileError;
use super::glob::PathGlob;
use super::ignored::IgnoreFiles;
use super::root::{LocatedFolder, ProjectRoot, names};
use crate::blocking::Stop;

/// The maximum number of files and folders that one call visits.
pub(super) const WALK_MAX_ENTRIES: u64 = 100_000;
/// The maximum depth of folders that a call visits, counted from its starting point.
pub(super) const WALK_MAX_DEPTH: u32 = 64;

/// An entry found during the walk.
#[derive(Debug)]
pub(super) struct FoundEntry<'a> {
    /// The folder it is in.
    pub(super) folder: &'a Dir,
    pub(super) name: &'a OsStr,
    /// Its path from the project root.
    pub(super) path: &'a Path,
    pub(super) kind: Kind,
}

/// The type of an entry in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    File,
    Folder,
    /// Listed, but not followed.
    Symlink,
    /// A pipe, socket or device.
    Other,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        if kind.is_file() {
            Self::File
        } else if kind.is_dir() {
            Self::Folder
        } else if kind.is_symlink() {
            Self::Symlink
        } else {
            Self::Other
        }
    }
}

/// What was skipped during the walk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct PassedOver {
    /// Files and folders that ignore files name.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) ignored: u64,
    /// Folders that cannot be opened.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) unreadable_folders: u64,
    /// Folders deeper than [`WALK_MAX_DEPTH`].
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) too_deep_folders: u64,
    /// Whether the walk ended early because of [`WALK_MAX_ENTRIES`].
    #[serde(skip_serializing_if = "is_false")]
    pub(super) stopped_early: bool,
}

pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

pub(super) fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The limits of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The maximum number of levels of folders; 1 is the folder itself.
    pub(super) depth: u32,
    /// The maximum number of files and folders.
    pub(super) entries: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            depth: WALK_MAX_DEPTH,
            entries: WALK_MAX_ENTRIES,
        }
    }
}

/// Visits the entries in a folder and its subfolders that match a glob, in the order of their names.
pub(super) fn walk<Visit>(
    root: &ProjectRoot,
    start: &LocatedFolder,
    glob: &PathGlob,
    bounds: Bounds,
    stop: &Stop,
    visit: Visit,
) -> Result<PassedOver, FileError>
where
    Visit: FnMut(&FoundEntry<'_>) -> Result<(), FileError>,
{
    let names = names(&start.dir, most_names(bounds.entries))
        .map_err(|e| FileError::from_io(&start.path, e))?;
    let mut walk = Walk {
        start: &start.path,
        glob,
        ignored: ignore_files_above(root, &start.path),
        deepest: bounds.depth.min(WALK_MAX_DEPTH),
        left: bounds.entries,
        passed_over: PassedOver::default(),
        stop,
        visit,
    };
    // The skipped entries say whether everything was visited.
    let _ = walk.folder(&start.dir, &start.path, 1, &names)?;
    Ok(walk.passed_over)
}

/// Returns one more than the remaining number, so that a surplus is noticed.
fn most_names(left: u64) -> usize {
    usize::try_from(left)
        .unwrap_or(usize::MAX)
        .saturating_add(1)
}

/// Returns the ignore files above a folder, which also apply inside it.
fn ignore_files_above(root: &ProjectRoot, folder: &Path) -> IgnoreFiles {
    let path = root.known_as().last().map(PathBuf::as_path);
    let mut ignored = IgnoreFiles::at_top(root.dir(), path);
    let mut above = PathBuf::new();
    for part in folder {
        let path = if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &above
        };
        if let Ok(dir) = root.dir().open_dir(path) {
            ignored.enter(&dir, &above);
        }
        above.push(part);
    }
    ignored
}

struct Walk<'a, Visit> {
    start: &'a Path,
    glob: &'a PathGlob,
    ignored: IgnoreFiles,
    deepest: u32,
    left: u64,
    passed_over: PassedOver,
    stop: &'a Stop,
    visit: Visit,
}

impl<Visit: FnMut(&FoundEntry<'_>) -> Result<(), FileError>> Walk<'_, Visit> {
    fn folder(
        &mut self,
        dir: &Dir,
        path: &Path,
        level: u32,
        names: &[(OsString, FileType)],
    ) -> Result<ControlFlow<()>, FileError> {
        self.ignored.enter(dir, path);
        let mut flow = ControlFlow::Continue(());
        for (name, kind) in names {
            self.stop.check()?;
            flow = self.entry(dir, name, &path.join(name), (*kind).into(), level)?;
            if flow.is_break() {
                break;
            }
        }
        self.ignored.leave();
        Ok(flow)
    }

    fn entry(
        &mut self,
        folder: &Dir,
        name: &OsStr,
        path: &Path,
        kind: Kind,
        level: u32,
    ) -> Result<ControlFlow<()>, FileError> {
        if self.left == 0 {
            self.passed_over.stopped_early = true;
            return Ok(ControlFlow::Break(()));
        }
        self.left -= 1;
        if self.ignored.leave_out(name, path, kind == Kind::Folder) {
            self.passed_over.ignored += u64::from(name != ".git");
            return Ok(ControlFlow::Continue(()));
        }
        let from_start = path.strip_prefix(self.start).unwrap_or(path);
        if self.glob.matches(path, from_start) {
            (self.visit)(&FoundEntry {
                folder,
                name,
                path,
                kind,
            })?;
        }
        if kind != Kind::Folder || !self.glob.leads_into(path, from_start) {
            return Ok(ControlFlow::Continue(()));
        }
        self.descend(folder, name, path, level)
    }

    fn descend(
        &mut self,
        folder: &Dir,
        name: &OsStr,
        path: &Path,
        level: u32,
    ) -> Result<ControlFlow<()>, FileError> {
        if level >= self.deepest {
            self.passed_over.too_deep_folders += u64::from(level == WALK_MAX_DEPTH);
            return Ok(ControlFlow::Continue(()));
        }
        let opened = folder.open_dir_nofollow(name).and_then(|dir| {
            let names = names(&dir, most_names(self.left))?;
            Ok((dir, names))
        });
        let Ok((dir, names)) = opened else {
            self.passed_over.unreadable_folders += 1;
            return Ok(ControlFlow::Continue(()));
        };
        self.folder(&dir, path, level + 1, &names)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::super::program_files::ProgramFiles;
    use super::super::root::Located;
    use super::*;

    fn seen(folders: &[&str], glob: Option<&str>, bounds: Bounds) -> (Vec<String>, PassedOver) {
        let top = TempDir::new().unwrap();
        for folder in folders {
            fs::create_dir_all(top.path().join(folder)).unwrap();
        }
        let root = ProjectRoot::open(top.path(), &ProgramFiles::default()).unwrap();
        let Located::Folder(start) = root.locate("").unwrap() else {
            panic!("the top is a folder")
        };
        let mut seen = Vec::new();
        let glob = PathGlob::parse(glob, &[]).unwrap();
        let passed_over = walk(&root, &start, &glob, bounds, &Stop::never(), |met| {
            seen.push(met.path.display().to_string());
            Ok(())
        });
        (seen, passed_over.unwrap())
    }

    #[test]
    fn a_walk_stops_after_the_entry_limit_and_reports_it() {
        let three = Bounds {
            entries: 3,
            ..Bounds::default()
        };
        let (met, passed_over) = seen(&["a", "b", "c"], None, three);
        assert_eq!((met.len(), passed_over.stopped_early), (3, false));
        let (met, passed_over) = seen(&["a", "b", "c", "d"], None, three);
        assert_eq!((met.len(), passed_over.stopped_early), (3, true));
        let (met, passed_over) = seen(&["a/b/c/d"], None, three);
        assert_eq!((met.len(), passed_over.stopped_early), (3, true));
    }

    #[test]
    fn folders_below_the_requested_depth_are_not_entered_nor_reported_as_too_deep() {
        let (met, passed_over) = seen(
            &["a/b/c"],
            None,
            Bounds {
                depth: 2,
                ..Bounds::default()
            },
        );
        assert_eq!((met.len(), passed_over), (2, PassedOver::default()));
    }

    #[test]
    fn a_walk_only_enters_folders_that_match_the_start_of_a_glob() {
        let three = Bounds {
            entries: 3,
            ..Bounds::default()
        };
        let (met, passed_over) = seen(&["a/b/c", "a/d", "z/e"], Some("z/*"), three);
        assert_eq!(
            (met, passed_over.stopped_early),
            (vec!["z/e".to_owned()], false)
        );
    }
}
