//! The files that go with a question. Only those that are named are read, each of them whole, and nothing else on the disk.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::Part;
use neuraxis::engine::{MAX_MEDIA_BYTES, attachment};

use crate::error::CommandError;

pub(super) const HINT: &str = "an image, a sound or a PDF of at most 7 MiB can be attached, or a text in UTF-8 of at most 1 MiB";

/// What to do about a pipe, such as that of `<(COMMAND)`.
const PIPED: &str = "pipe what a command prints into this one, and it goes with the question: COMMAND | neuraxis \"QUESTION\"";

/// The files that go with a question.
#[derive(Debug, Args)]
pub(super) struct AttachArguments {
    /// A file that goes with the question: an image, a sound, a PDF or a text, told by its content. Can be given more than
    /// once
    #[arg(long, short = 'f', visible_alias = "file", value_name = "FILE")]
    attach: Vec<PathBuf>,
}

impl AttachArguments {
    /// Reads the files.
    pub(super) fn read(&self) -> Result<Vec<Part>, CommandError> {
        self.attach.iter().map(|file| attached(file)).collect()
    }
}

/// Reads a file that goes with a question.
pub(in crate::command) fn attached(file: &Path) -> Result<Part, CommandError> {
    part(file).map_err(|error| {
        let error = error.context(format!("cannot attach {}", file.display()));
        CommandError::usage(error).hint(match file.metadata() {
            Ok(metadata) if metadata.is_file() => HINT,
            Ok(metadata) if metadata.is_dir() => "name a file in it",
            Ok(_) => PIPED,
            Err(_) => "check the path",
        })
    })
}

fn part(file: &Path) -> anyhow::Result<Part> {
    // Of a pipe or a device nobody knows whether it ever ends.
    if !file.metadata()?.is_file() {
        return Err(anyhow!("it is not a file"));
    }
    let most = u64::try_from(MAX_MEDIA_BYTES).unwrap_or(u64::MAX);
    let mut content = Vec::new();
    File::open(file)?
        .take(most.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() > MAX_MEDIA_BYTES {
        return Err(anyhow!("it has more than {MAX_MEDIA_BYTES} bytes"));
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Ok(attachment(&name, &content)?)
}
