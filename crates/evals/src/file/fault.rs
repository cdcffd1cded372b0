//! Why a file of cases cannot be used.

use std::io;

use neuraxis_core::NotUtf8;

/// Why a file of cases cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Io(#[source] io::Error),
    /// The file is too large.
    #[error("it is larger than {most} bytes: split it")]
    TooLarge {
        /// The maximum size in bytes.
        most: u64,
    },
    /// The file is not text.
    #[error("{0}; save it as UTF-8")]
    NotText(NotUtf8),
    /// The file has no cases.
    #[error("it has no [[case]]: write one, or add one from a stored run")]
    Empty,
    /// Something in the file cannot be used.
    #[error("line {line}: {message}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong on that line.
        message: String,
    },
}

impl FileFault {
    /// Returns the fault for an error of the TOML parser or of the types that the file is read into.
    pub(super) fn syntax(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start);
        // The parser's message may continue with the line and the position in it.
        let message = error.message().trim().replace('\n', " ");
        Self::Line {
            line: line_of(text, start),
            message,
        }
    }
}

/// Returns the line that contains a byte, from 1.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
