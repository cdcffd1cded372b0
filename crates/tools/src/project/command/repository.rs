//! Where the git repository of a folder is: commands write none outside of the project, whatever access they have.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The most bytes that are read of a `.git` that is a file.
const MAX_LINK_BYTES: u64 = 4096;

/// Returns the repository of a folder of the project, if it is outside of the project: the project is a linked working tree, a
/// submodule or a part of what the repository holds.
pub(super) fn outside(root: &Path, folder: &Path) -> Option<PathBuf> {
    let root = root.canonicalize().ok()?;
    let folder = root.join(folder);
    let repository = folder.ancestors().find_map(repository_in)?;
    (!repository.starts_with(&root)).then_some(repository)
}

fn repository_in(folder: &Path) -> Option<PathBuf> {
    let place = folder.join(".git");
    let found = fs::symlink_metadata(&place).ok()?;
    if found.is_file() {
        return linked(&place);
    }
    place.join("HEAD").is_file().then_some(place)
}

/// Returns the repository that a `.git` names which is a file.
fn linked(link: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    let file = File::open(link).ok()?;
    file.take(MAX_LINK_BYTES).read_to_string(&mut text).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    link.parent()?.join(named).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_that_counts_is_that_of_the_nearest_folder() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let root = top.join("repository/project");
        fs::create_dir_all(top.join("repository/.git")).unwrap();
        fs::write(top.join("repository/.git/HEAD"), "").unwrap();
        fs::create_dir_all(root.join("own/.git")).unwrap();
        fs::write(root.join("own/.git/HEAD"), "").unwrap();
        fs::create_dir_all(root.join("linked")).unwrap();
        fs::write(root.join("linked/.git"), "gitdir: ../../.git\n").unwrap();
        let above = Some(top.join("repository/.git"));
        assert_eq!(outside(&root, Path::new("")), above);
        assert_eq!(outside(&root, Path::new("linked")), above);
        assert_eq!(outside(&root, Path::new("own")), None);
    }
}
