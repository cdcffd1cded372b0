//! Where the answer is written: as the model wrote it, or its Markdown rendered.

use std::io;

use crate::markdown::Markdown;
use crate::output::Output;
use crate::progress::Progress;

/// The place of the answer.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) output: Output,
    /// What renders it, if anything does.
    markdown: Option<Markdown>,
}

impl Page {
    /// Writes the text as it is.
    pub(super) fn source(output: Output) -> Self {
        Self {
            output,
            markdown: None,
        }
    }

    /// Renders Markdown where a terminal shows it, and otherwise writes the text as it is.
    pub(super) fn rendered(output: Output) -> Self {
        let markdown = output.lays_out().then(|| output.empty_page());
        Self { output, markdown }
    }

    /// Writes text, in pieces as it comes. What can only be judged with what follows waits for that.
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
            // A spinner has its line for itself.
            if !text.trim().is_empty() && !markdown.is_in_line() {
                progress.activity("writing");
            }
            return Ok(());
        }
        progress.hide();
        self.output.painted(&shown)
    }

    /// Writes what waits for the rest of its block, because something else comes now.
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
