//! The file that remembers what was typed.

use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};

use neuraxis_app::Environment;

/// How many messages are remembered.
pub(super) const MAX_ENTRIES: usize = 1_000;

/// The most bytes of a message that is remembered; a longer one was pasted.
pub(super) const MAX_ENTRY_BYTES: usize = 8 * 1024;

/// Returns where the file stands, or is to stand; nothing for a user without a home.
pub(super) fn file() -> Option<PathBuf> {
    Environment::of_process().ok()?.chat_history()
}

/// Makes the folder of the file, for its owner alone.
pub(super) fn make_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
