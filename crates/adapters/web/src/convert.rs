//! Converts fetched documents to text: web pages to Markdown, PDFs to plain text, and text documents unchanged.
//!
//! An untrusted document can crash a parser, keep it busy for hours or exhaust memory. Pages and PDFs are therefore
//! read in a separate process, a second instance of this program, which is killed when its time is up.

mod helper;
mod html;
mod kind;
mod pdf;
mod text;

use std::time::Duration;

use neuraxis_core::is_invisible;
use serde::{Deserialize, Serialize};
use url::Url;

pub(crate) use helper::convert_apart;
pub use helper::{run_convert_helper, use_convert_helper};
pub(crate) use kind::Kind;

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readable {
    pub(crate) title: Option<String>,
    /// Markdown, or the text itself.
    pub(crate) content: String,
    /// Whether the document is longer than what was read.
    pub(crate) is_cut: bool,
}

/// What to read, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ConvertRequest {
    pub(crate) kind: Kind,
    /// The address to which a page's relative links refer.
    pub(crate) base: String,
    /// The encoding according to the content type.
    pub(crate) charset: Option<String>,
    /// The limit on computing time, in whole seconds.
    pub(crate) seconds: u64,
}

/// Why a document could not be converted to text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// It takes too long.
    #[error(
        "convert_timeout: the document could not be read within {}; use another source",
        neuraxis_core::duration_text::text(within)
    )]
    Timeout {
        /// The time limit.
        within: Duration,
    },
    /// The reader crashed or exceeded its memory limit.
    #[error("unreadable: the reader of {kind} failed on this document; use another source")]
    Crashed {
        /// The kind of document.
        kind: &'static str,
    },
    /// The document is damaged, encrypted or empty.
    #[error("unreadable: {why}; use another source")]
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
    /// This program cannot read such documents safely.
    #[error(
        "no_converter: PDF is read in a separate process, but this program does not call \
         neuraxis_web::run_convert_helper first in its main; continue without the document"
    )]
    NoHelper,
    /// The process that reads documents cannot be started.
    #[error("no_converter: the process that reads documents cannot be started: {why}")]
    NotStarted {
        /// The operating system's error.
        why: String,
    },
}

/// Reads a document in the current process.
pub(crate) fn convert(request: &ConvertRequest, bytes: &[u8]) -> Result<Readable, String> {
    let charset = request.charset.as_deref();
    match request.kind {
        Kind::Html => {
            let base = Url::parse(&request.base).map_err(|error| error.to_string())?;
            Ok(html::read(&text::decode(bytes, charset, true), &base))
        }
        Kind::Pdf => pdf::read(bytes),
        Kind::Text => Ok(Readable {
            title: None,
            content: clean(&text::decode(bytes, charset, false)),
            is_cut: false,
        }),
    }
}

/// Removes characters that are invisible to readers but not to models, which are used to hide text within text.
/// Converts all line endings to line feeds.
fn clean(text: &str) -> String {
    let is_visible = |letter: &char| {
        matches!(letter, '\n' | '\t') || !(letter.is_control() || is_invisible(*letter))
    };
    let text = text.replace("\r\n", "\n");
    let letters = text.chars().map(|letter| match letter {
        '\r' | '\u{b}' | '\u{c}' | '\u{85}' => '\n',
        letter => letter,
    });
    letters.filter(is_visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_removed() {
        let hidden = "a\u{1b}[31m\u{e0041}\u{e0042}\r\n\tb\u{feff}\u{0}é";
        assert_eq!(clean(hidden), "a[31m\n\tbé");
    }

    #[test]
    fn every_kind_of_line_ending_becomes_one_newline() {
        let lines = "a\rb\r\nc\u{b}d\u{c}e\u{85}f\r\r\ng\r";
        assert_eq!(clean(lines), "a\nb\nc\nd\ne\nf\n\ng\n");
    }
}
