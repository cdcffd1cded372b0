//! Why a file holds no cases.

use std::io;

/// Why a file holds no cases.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Io(#[source] io::Error),
    /// The file is too large.
    #[error("it is larger than {most} bytes: split it")]
    TooLarge {
        /// The most bytes that a file may have.
        most: u64,
    },
    /// The file is no text.
    #[error("it is not UTF-8 text")]
    NotText,
    /// There is no case in it.
    #[error("it has no [[case]]: write one, or add one from a stored run")]
    Empty,
    /// Something in it cannot be used.
    #[error("line {line}: {message}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
}

impl FileFault {
    /// Something that TOML refuses, or the types that it is read as.
    pub(super) fn syntax(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start);
        // What the parser says may go on with the line and where in it.
        let message = error.message().trim().replace('\n', " ");
        Self::Line {
            line: line_of(text, start),
            message,
        }
    }
}

/// Returns the line in which a byte stands, from 1.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
