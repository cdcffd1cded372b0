//! Files that are named on the command line.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::Context;

use crate::error::CommandError;

/// Opens a file for reading. One that is not there or cannot be read, such as a folder, was named wrongly.
pub(crate) fn open_file(path: &Path) -> Result<File, CommandError> {
    let opened = File::open(path).and_then(|file| {
        if file.metadata()?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok(file)
    });
    let opened = opened.with_context(|| format!("cannot read {}", path.display()));
    opened.map_err(|error| CommandError::usage(error).hint("check the path"))
}
