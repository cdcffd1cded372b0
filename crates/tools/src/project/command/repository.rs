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
