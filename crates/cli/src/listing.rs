//! Lists of any length: written one item at a time, as lines for people or as one JSON array.

use std::io;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::output::Output;

/// How many items a page has at the most, where nobody says.
const PAGE: usize = 30;

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// JSON
    Json,
}

/// Which part of a list is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct Paging {
    /// Show so many at the most
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = at_least_one)]
    pub(crate) limit: usize,

    /// Show the page after the one that ended with this id
    #[arg(long, value_name = "ID")]
    pub(crate) before: Option<String>,

    /// What to print: a table for people, or a JSON array
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

fn at_least_one(text: &str) -> Result<usize, &'static str> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or("it must be a number from 1 on")
}

/// A list on its way to standard output.
#[derive(Debug)]
pub(crate) struct Listing {
    output: Output,
    format: Format,
    heading: &'static str,
    /// How many items were written.
    pub(crate) count: usize,
}

impl Listing {
    /// Begins a list; the heading stands over the lines for people, if there are any.
    pub(crate) fn new(format: Format, heading: &'static str) -> Self {
        Self {
            output: Output::new(),
            format,
            heading,
            count: 0,
        }
    }

    /// Writes an item: a line for people, of which every strange part was made harmless, or a JSON value.
    pub(crate) fn item(&mut self, line: &str, value: &Value) -> io::Result<()> {
        let is_first = self.count == 0;
        self.count += 1;
        match self.format {
            Format::Text => {
                if is_first {
                    self.output.painted(&format!("{}\n", self.heading))?;
                }
                self.output.painted(&format!("{line}\n"))
            }
            Format::Json => {
                let before = if is_first { "[\n" } else { ",\n" };
                self.output.text(&format!("{before}  {value}"))
            }
        }
    }

    /// Ends the list.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        match (self.format, self.count) {
            (Format::Text, _) => Ok(()),
            (Format::Json, 0) => self.output.line("[]"),
            (Format::Json, _) => self.output.line("\n]"),
        }
    }
}
