//! Lists of any length: written one item at a time, as lines of text or as one JSON array.

use std::io;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::glyphs::CUT;
use crate::harmless::one_line;
use crate::invocation::again;
use crate::output::Output;
use crate::progress;
use crate::wrap::{broken, first_piece, width};

/// The default maximum number of items on a page.
pub(crate) const PAGE: usize = 30;

/// The output format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable text
    Text,
    /// JSON
    Json,
}

/// Which part of a list is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct Paging {
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = at_least_one)]
    pub(crate) limit: usize,

    /// Show the page after the one that ended with this id
    #[arg(long, alias = "before", value_name = "ID")]
    pub(crate) after: Option<String>,

    /// What to print: a table, or a JSON array
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

impl Paging {
    /// Writes below a page that there is more, or that the list is empty. Names the last item by its id.
    pub(crate) fn write_rest(
        &self,
        what: &str,
        last: Option<String>,
        (is_more, is_narrowed): (bool, bool),
    ) {
        match last {
            Some(last) if is_more => {
                progress::notice(&format!("there are more: add --after {last}"));
            }
            Some(_) => {}
            None if self.after.is_some() => {
                progress::notice(&format!("there are no more {what}"));
            }
            None if is_narrowed => progress::notice(&format!("there are no such {what}")),
            None => {
                let none = format!("there are no {what} yet: `neuraxis chat` starts one");
                progress::notice(&again(&none));
            }
        }
    }
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, &'static str> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or("it must be a number of at least 1")
}

/// The columns of a full id, and of its end, which identifies it as well.
const ID: usize = 36;
const END_OF_ID: usize = 12;

/// The gap between columns.
const GAP: &str = "  ";

/// The minimum number of columns for the text that says what an item is about.
const LEAST_ABOUT: usize = 24;

/// The maximum number of lines for that text.
const LINES_ABOUT: usize = 2;

/// A list item with an id and a text that says what it is about.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) id: String,
    /// The middle columns, each padded to the width of its heading; they may have colors.
    pub(crate) middle: Vec<String>,
    /// What the item is about: quoted text.
    pub(crate) about: String,
}

/// The layout of the lines of a list, chosen so that the text of each item can be read at every width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// On one line, however long: for files and programs.
    Whole,
    /// In columns, with the text wrapped in its own column.
    Beside {
        /// The columns of the id; fewer than its length if only its end is shown.
        id: usize,
        columns: usize,
    },
    /// The text on lines of its own, below the other columns.
    Below { columns: usize },
}

impl Layout {
    /// Chooses a layout for a terminal of this many columns, `middle` of which are needed between the id and the text.
    /// Without a terminal, chooses the layout for files.
    pub(crate) const fn of(columns: Option<usize>, middle: usize) -> Self {
        let Some(columns) = columns else {
            return Self::Whole;
        };
        let room = columns.saturating_sub(middle + 4);
        if room >= ID + LEAST_ABOUT {
            return Self::Beside { id: ID, columns };
        }
        if room >= END_OF_ID + LEAST_ABOUT {
            let id = END_OF_ID;
            return Self::Beside { id, columns };
        }
        Self::Below { columns }
    }

    /// Formats an item, without a trailing line break.
    pub(crate) fn item(self, item: &Item) -> String {
        let Item { id, middle, about } = item;
        let about = one_line(about);
        let whole = middle.join(GAP);
        let text = match self {
            Self::Whole => format!("{id:<ID$}{GAP}{whole}{GAP}{about}"),
            Self::Beside { id: room, columns } => {
                let id = short(id, room);
                let before = format!("{id:<room$}{GAP}{whole}{GAP}");
                let margin = width(&before).min(columns / 2);
                let about = cut(&about, columns.saturating_sub(width(&before)) * LINES_ABOUT);
                broken(&format!("{before}{about}"), columns, &" ".repeat(margin))
            }
            Self::Below { columns } => {
                let (line, below) = above(short(id, END_OF_ID), middle, columns);
                let before: String = below.iter().map(|cell| format!("{cell}{GAP}")).collect();
                let room = (columns.saturating_sub(GAP.len()) * LINES_ABOUT)
                    .saturating_sub(width(&before));
                let about = cut(&about, room);
                let line = broken(&line, columns, "    ");
                let about = broken(&format!("{GAP}{before}{about}"), columns, GAP);
                format!("{}\n{}", line.trim_end(), about.trim_end())
            }
        };
        text.trim_end().to_owned()
    }

    /// Formats the column headings.
    pub(crate) fn heading(self, id: &str, middle: &[&str]) -> String {
        let id = match self {
            Self::Whole => format!("{id:<ID$}"),
            Self::Beside { id: room, .. } => format!("{id:<room$}"),
            Self::Below { columns } => {
                let (line, below) = above(id, middle, columns);
                let below = match below.as_slice() {
                    [] => String::new(),
                    below => format!("\n{GAP}{}{GAP}ABOUT", below.join(GAP)),
                };
                return line + &below;
            }
        };
        format!("{id}{GAP}{}{GAP}ABOUT", middle.join(GAP))
    }
}

/// Formats the line above an item's text: as many columns as fit, each under its heading. Returns the other columns, to
/// be put before the text.
fn above<'a>(id: &str, middle: &'a [impl AsRef<str>], columns: usize) -> (String, Vec<&'a str>) {
    let mut line = format!("{id:<END_OF_ID$}");
    let mut below = Vec::new();
    for column in middle.iter().map(AsRef::as_ref) {
        if below.is_empty() && width(&line) + GAP.len() + width(column) <= columns {
            line.push_str(GAP);
            line.push_str(column);
        } else {
            below.push(column.trim());
        }
    }
    below.retain(|column| !column.is_empty());
    (line.trim_end().to_owned(), below)
}

/// Returns an id, or only its end if there is no room for all of it. A user-chosen id is never shortened.
fn short(id: &str, room: usize) -> &str {
    let is_made = id.len() == ID
        && id
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match is_made {
        true => id.get(ID.saturating_sub(room)..).unwrap_or(id),
        false => id,
    }
}

/// Cuts the end of a text that needs more columns than there are. Allows some room for breaking between words.
fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let most = columns.saturating_sub(LEAST_ABOUT / 2);
    format!("{}{CUT}", first_piece(text, most).trim_end())
}

/// A list being written to standard output.
#[derive(Debug)]
pub(crate) struct Listing {
    output: Output,
    format: Format,
    heading: String,
    /// The number of items written.
    pub(crate) count: usize,
}

impl Listing {
    /// Chooses the layout for standard output, with this many columns between the id and the text of an item.
    pub(crate) fn layout(middle: usize) -> Layout {
        let output = Output::new();
        Layout::of(output.columns(), middle)
    }

    /// Starts a list. The heading is printed above the lines of text, if there are any.
    pub(crate) fn new(format: Format, heading: impl Into<String>) -> Self {
        Self {
            output: Output::new(),
            format,
            heading: heading.into(),
            count: 0,
        }
    }

    /// Writes an item: a line of text in which every untrusted part is already harmless, or a JSON value.
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

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: &str = "What is the time in Tokyo, in New York and in Kathmandu, and which of them is it summer in now, please?";

    fn item() -> Item {
        Item {
            id: "01a204b4-8e56-7abc-8def-0123456789ab".to_owned(),
            middle: vec![
                "2026-11-22 19:18:09".to_owned(),
                format!("{:>4}", 3),
                format!("{:<11}", "done"),
            ],
            about: ABOUT.to_owned(),
        }
    }

    #[test]
    fn the_subject_of_an_item_is_shown_at_every_width() {
        let middle = width(&item().middle.join(GAP));
        let shown = |columns| Layout::of(Some(columns), middle).item(&item());
        assert_eq!(shown(60).lines().count(), 3);
        assert!(shown(80).starts_with("0123456789ab  2026-11-22 19:18:09"));
        assert!(shown(140).starts_with("01a204b4-8e56-7abc-8def-0123456789ab  2026"));
        for columns in 40..160 {
            let shown = shown(columns);
            let wide = shown.lines().find(|line| width(line) > columns);
            assert_eq!(wide, None, "{columns}");
            assert!(shown.contains("What is the time"), "{columns}: {shown}");
        }
    }

    #[test]
    fn column_names_are_aligned_with_their_columns() {
        let mut item = item();
        item.middle.push(format!("{:>11}", "$0.01"));
        let names = ["BEGUN              ", "RUNS", "STATUS     ", "       COST"];
        for columns in [60, 66, 70, 80, 100, 120, 140] {
            let layout = Layout::of(Some(columns), width(&item.middle.join(GAP)));
            let (heading, shown) = (layout.heading("RUN", &names), layout.item(&item));
            let wide = heading.lines().find(|line| width(line) > columns);
            assert_eq!(wide, None, "{columns}");
            for (name, value) in [("BEGUN", "2026-11-22 19:18:09"), ("STATUS", "done")] {
                assert_eq!(
                    heading.find(name),
                    shown.find(value),
                    "{columns}: {heading}\n{shown}"
                );
            }
        }
    }

    #[test]
    fn a_column_without_room_stands_before_the_text_and_so_does_its_name() {
        let mut item = item();
        item.about = "Hi".to_owned();
        item.middle.push(format!("{:>11}", "$0.01"));
        let names = ["BEGUN              ", "RUNS", "STATUS     ", "       COST"];
        let layout = Layout::of(Some(60), width(&item.middle.join(GAP)));
        assert_eq!(
            layout.heading("RUN", &names),
            "RUN           BEGUN                RUNS  STATUS\n  COST  ABOUT"
        );
        assert_eq!(
            layout.item(&item),
            "0123456789ab  2026-11-22 19:18:09     3  done\n  $0.01  Hi"
        );
    }

    #[test]
    fn without_a_terminal_lines_and_ids_are_complete() {
        let item = item();
        let line = Layout::of(None, 38).item(&item);
        assert_eq!(
            line,
            format!("{}  {}  {ABOUT}", item.id, item.middle.join(GAP))
        );
    }

    #[test]
    fn a_long_text_of_wide_letters_takes_no_more_lines_than_another() {
        let mut item = item();
        item.about = "🗾".repeat(200);
        for columns in [60, 80, 120] {
            let middle = width(&item.middle.join(GAP));
            let shown = Layout::of(Some(columns), middle).item(&item);
            let lines = shown.lines().filter(|line| line.contains('🗾'));
            assert!(lines.count() <= LINES_ABOUT, "{columns}: {shown}");
            let wide = shown.lines().find(|line| width(line) > columns);
            assert_eq!(wide, None, "{columns}");
        }
    }

    #[test]
    fn a_user_chosen_id_is_never_truncated() {
        assert_eq!(
            short("a-trip-to-the-other-end-of-the-world", END_OF_ID).len(),
            36
        );
    }
}
