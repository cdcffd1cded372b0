//! Where the answer is written: as the model wrote it, or with its Markdown rendered.

use std::io;

use crate::markdown::Markdown;
use crate::output::Output;
use crate::progress::Progress;

/// The destination of the answer.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) output: Output,
    /// The Markdown renderer, if used.
    markdown: Option<Markdown>,
}

impl Page {
    /// Writes the text unchanged.
    pub(super) fn source(output: Output) -> Self {
        Self {
            output,
            markdown: None,
        }
    }

    /// Renders Markdown on a terminal, and writes the text unchanged otherwise.
    pub(super) fn rendered(output: Output) -> Self {
        let markdown = output.lays_out().then(|| output.empty_page());
        Self { output, markdown }
    }

    /// Writes text as it arrives. Text that depends on what comes next is held back.
    pub(super) fn write(&mut self, text: &str, progress: &Progress) -> io::Result<()> {
        let Some(markdown) = &mut self.markdown else {
            if !text.is_empty() {
                progress.hide();
            }
            return self.output.text(text);
        };
        markdown.set_columns(self.output.width());
        let shown = markdown.push(text);
        if shown.is_empty() {
            // The status line must not share a line with text.
            if !text.trim().is_empty() && !markdown.is_in_line() {
                progress.activity("writing");
            }
            return Ok(());
        }
        progress.hide();
        self.output.painted(&shown)
    }

    /// Writes the rest of an incomplete block, because something else comes next.
    pub(super) fn flush(&mut self, progress: &Progress) -> io::Result<()> {
        let rest = self.markdown.as_mut().map(Markdown::end);
        match rest {
            Some(rest) if !rest.is_empty() => {
                progress.hide();
                self.output.painted(&rest)
            }
            _ => Ok(()),
        }
    }
}
