//! Makes text of what was fetched: Markdown of a web page, plain text of a PDF, and texts as they are.
//!
//! What strangers wrote can crash a parser, keep it busy for hours or make it take all memory. So pages and PDFs are read by a
//! process of their own, this program started a second time, which is ended when its time is over.

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

/// What a document says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readable {
    pub(crate) title: Option<String>,
    /// Markdown, or the text itself.
    pub(crate) content: String,
    /// The document goes on, and no more of it is read.
    pub(crate) is_cut: bool,
}

/// What is to be read how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) kind: Kind,
    /// What links of a page count from.
    pub(crate) base: String,
    /// How it is encoded, by its content type.
    pub(crate) charset: Option<String>,
    /// How long it may take, in whole seconds of computing.
    pub(crate) seconds: u64,
}

/// Why no text could be made of a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// It takes too long.
    #[error(
        "convert_timeout: the document was not read within {}; use another source",
        neuraxis_core::duration_text::text(within)
    )]
    Timeout {
        /// How long it was waited for.
        within: Duration,
    },
    /// What reads it crashed, or took more memory than it may have.
    #[error("unreadable: what reads {kind} failed at this document; use another source")]
    Crashed {
        /// What kind of document it is.
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
        "no_converter: PDF is read by a process of its own, and this program does not call neuraxis_web::run_convert_helper first \
         in its main; go on without the document"
    )]
    NoHelper,
    /// The process that reads it cannot be started.
    #[error("no_converter: the process that reads documents cannot be started: {why}")]
    NotStarted {
        /// What the operating system said.
        why: String,
    },
}

/// Reads a document here and now.
pub(crate) fn convert(order: &Order, bytes: &[u8]) -> Result<Readable, String> {
    let charset = order.charset.as_deref();
    match order.kind {
        Kind::Html => {
            let base = Url::parse(&order.base).map_err(|error| error.to_string())?;
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

/// Takes out what no reader sees and a model reads all the same, by which texts are hidden in texts. What ends a line otherwise
/// than by a line feed ends it by one.
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
    fn letters_that_nobody_sees_are_taken_out() {
        let hidden = "a\u{1b}[31m\u{e0041}\u{e0042}\r\n\tb\u{feff}\u{0}é";
        assert_eq!(clean(hidden), "a[31m\n\tbé");
    }

    #[test]
    fn every_end_of_a_line_stays_one() {
        let lines = "a\rb\r\nc\u{b}d\u{c}e\u{85}f\r\r\ng\r";
        assert_eq!(clean(lines), "a\nb\nc\nd\ne\nf\n\ng\n");
    }
}
