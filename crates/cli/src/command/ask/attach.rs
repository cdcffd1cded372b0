//! Files attached to a question. Only the named files are read, each as a whole, and nothing else on the disk.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::Part;
use neuraxis::core::log::describe::counted;
use neuraxis::engine::{AttachmentError, MAX_MEDIA_BYTES, attachment};

use crate::error::CommandError;
use crate::harmless::one_line;
use crate::progress;

pub(super) const HINT: &str =
    "an image, a sound or a PDF of at most 7 MiB can be attached, or UTF-8 text of at most 1 MiB";

/// What to do about a pipe, such as that of `<(COMMAND)`.
const PIPED: &str =
    "to send a command's output with the question, pipe it in: COMMAND | neuraxis \"QUESTION\"";

/// A text must have at least this many characters for each one that cannot be read.
const MIN_PER_REPLACED: usize = 8;

/// The files attached to a question.
#[derive(Debug, Args)]
pub(super) struct AttachArguments {
    /// A file to attach to the question: an image, a sound, a PDF or a text, detected by its content. May be given
    /// several times
    #[arg(long, short = 'f', visible_alias = "file", value_name = "FILE")]
    attach: Vec<PathBuf>,
}

impl AttachArguments {
    /// Reads the files.
    pub(super) fn read(&self) -> Result<Vec<Part>, CommandError> {
        self.attach.iter().map(|file| attached(file)).collect()
    }
}

/// Reads an attached file.
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
    // A pipe or a device may never end.
    if !file.metadata()?.is_file() {
        return Err(anyhow!("it is not a regular file"));
    }
    let most = u64::try_from(MAX_MEDIA_BYTES).unwrap_or(u64::MAX);
    let mut content = Vec::new();
    File::open(file)?
        .take(most.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() > MAX_MEDIA_BYTES {
        return Err(anyhow!("it is larger than {MAX_MEDIA_BYTES} bytes"));
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Ok(part_of(&name, &content)?)
}

/// Builds the message part for a file. Text with a few bytes that are not UTF-8 (such as a diff in an older encoding)
/// or that are control characters is sent without these, and a notice says so.
pub(super) fn part_of(name: &str, content: &[u8]) -> Result<Part, AttachmentError> {
    let refused = match attachment(name, content) {
        Err(refused @ AttachmentError::NotSendable { .. }) => refused,
        done => return done,
    };
    let text = String::from_utf8_lossy(content);
    let text: String = text.chars().map(readable).collect();
    let replaced = text.matches(char::REPLACEMENT_CHARACTER).count();
    // If too much is unreadable, the file is not text.
    if replaced == 0 || replaced > text.chars().count() / MIN_PER_REPLACED {
        return Err(refused);
    }
    let Ok(part) = attachment(name, text.as_bytes()) else {
        return Err(refused);
    };
    let what = one_line(name);
    let places = counted(replaced as u64, "place");
    progress::warn(&match std::str::from_utf8(content) {
        Ok(_) => format!("{what} contains control characters: they are replaced by � in {places}"),
        Err(_) => format!(
            "{what} contains invalid UTF-8: it is replaced by � in {places} (`iconv` converts files)"
        ),
    });
    Ok(part)
}

/// Returns a character as an attached text may contain it. NUL stays, since a file that contains it is not text.
fn readable(letter: char) -> char {
    match letter {
        '\0' | '\t' | '\n' | '\r' | '\x0c' | '\x1b' => letter,
        _ if letter.is_control() => char::REPLACEMENT_CHARACTER,
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bytes_in_attached_text_are_replaced_and_non_text_is_refused() {
        let part = part_of("a.diff", b"-gr\xfc\xdfe an alle hier\n+hello\n").unwrap();
        let Part::Text(text) = part else {
            panic!("{part:?}")
        };
        assert!(
            format!("{text:?}").contains("gr\u{fffd}\u{fffd}e an alle"),
            "{text:?}"
        );
        let part = part_of("mail", b"A bell \x07, DEL \x7f and a next line \xc2\x85.").unwrap();
        let expected = "A bell \u{fffd}, DEL \u{fffd} and a next line \u{fffd}.";
        assert!(
            matches!(&part, Part::Text(text) if text.text.contains(expected)),
            "{part:?}"
        );
        for content in [
            &b"\xe3\xe5\xe9\xe1 \xf3\xef\xf5"[..],
            b"PK\x03\x04 an archive\xff\0",
            b"\xff\xfea\0b\0",
        ] {
            assert!(part_of("x", content).is_err(), "{content:?}");
        }
    }
}
