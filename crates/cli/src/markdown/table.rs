//! A table with columns as wide as their widest cells, or as the screen allows.

use anstyle::Style;
use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

use super::lines::Line;

use crate::glyphs::{CROSS, Glyph, LINE};

/// The separator between two columns.
const GAP: Glyph = Glyph::new(" │ ", " | ");

/// The minimum width of a column: a narrower one cannot be read.
const LEAST: usize = 12;

/// The width at which text is easy to read. A wider column shrinks to this before words in a column next to it are
/// broken.
const ENOUGH: usize = 24;

/// The cells of a table.
#[derive(Debug)]
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Line>>,
}

impl Table {
    pub(super) const fn new(alignments: Vec<Alignment>) -> Self {
        Self {
            alignments,
            rows: Vec::new(),
        }
    }

    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn begin_cell(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.push(Line::default());
        }
    }

    /// Adds text to the last cell, in a style. A cell has one line, so all whitespace becomes spaces.
    pub(super) fn write(&mut self, style: Style, text: &str) {
        let cell = self.rows.last_mut().and_then(|row| row.last_mut());
        if let Some(cell) = cell {
            cell.push(style, &text.replace(char::is_whitespace, " "));
        }
    }

    /// Lays out the table in this many columns: the head, a line, and the rows. If not even narrow columns fit side by
    /// side, each cell is on a separate line, after the name of its column.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let widths = self.widest(Line::width);
        let words = self.widest(Line::longest_word);
        let gaps = GAP.as_str().width() * widths.len().saturating_sub(1);
        let Some(widths) = shrunk(widths, &words, columns.saturating_sub(gaps)) else {
            return self.as_list(columns);
        };
        let rule: Vec<String> = widths
            .iter()
            .map(|width| LINE.as_str().repeat(*width))
            .collect();
        let rule = rule.join(CROSS.as_str());
        let mut lines = Vec::new();
        for (place, row) in self.rows.iter().enumerate() {
            lines.extend(self.row(row, &widths));
            if place == 0 {
                lines.push(rule.clone());
            }
        }
        lines
    }

    /// Returns the width of the widest cell of each column.
    fn widest(&self, width: fn(&Line) -> usize) -> Vec<usize> {
        let columns = 0..self.alignments.len();
        let of_column = columns.map(|column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(width).max().unwrap_or_default()
        });
        of_column.collect()
    }

    fn row(&self, row: &[Line], widths: &[usize]) -> Vec<String> {
        let cells: Vec<Vec<(String, usize)>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                let cell = row.get(column);
                cell.map_or_else(Vec::new, |cell| cell.parts(*width))
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        let line = |height: usize| {
            let columns = self.alignments.iter().zip(widths).zip(&cells);
            let cells = columns.map(|((alignment, width), cell)| {
                let (cell, used) = cell
                    .get(height)
                    .map_or(("", 0), |(text, used)| (text, *used));
                aligned(cell, width.saturating_sub(used), *alignment)
            });
            let line: Vec<String> = cells.collect();
            line.join(GAP.as_str()).trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }

    fn as_list(&self, columns: usize) -> Vec<String> {
        let head = self.rows.first().map(Vec::as_slice).unwrap_or_default();
        let mut lines = Vec::new();
        for row in self.rows.iter().skip(1) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            for (name, cell) in head.iter().zip(row) {
                let mut line = name.clone();
                line.push(Style::new(), ": ");
                line.append(cell);
                let broken = line.broken(columns, "  ");
                lines.extend(broken.split('\n').map(str::to_owned));
            }
        }
        lines
    }
}

/// Pads a cell according to its alignment.
fn aligned(cell: &str, room: usize, alignment: Alignment) -> String {
    let (left, right) = match alignment {
        Alignment::Right => (room, 0),
        Alignment::Center => (room / 2, room - room / 2),
        Alignment::Left | Alignment::None => (0, room),
    };
    format!("{}{cell}{}", " ".repeat(left), " ".repeat(right))
}

/// Shrinks the widest columns until all fit, and breaks their longest words only as a last resort. Returns `None` if
/// not even narrow columns fit.
fn shrunk(mut widths: Vec<usize>, words: &[usize], room: usize) -> Option<Vec<usize>> {
    let least: usize = widths.iter().map(|width| (*width).min(LEAST)).sum();
    if least > room {
        return None;
    }
    while widths.iter().sum::<usize>() > room {
        let columns = widths.iter_mut().zip(words);
        let spare = columns.filter(|(width, word)| **width > (**word).max(ENOUGH));
        let widest = match spare.map(|(width, _)| width).max() {
            Some(width) => width,
            None => widths.iter_mut().max()?,
        };
        *widest -= 1;
    }
    Some(widths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![Alignment::Left, Alignment::Right, Alignment::None]);
        for row in [
            ["Name", "Value", "Description"],
            ["alpha", "1", "the first of them"],
            ["gamma", "333", "the third, with a rather long description"],
        ] {
            table.begin_row();
            for cell in row {
                table.begin_cell();
                table.write(Style::new(), cell);
            }
        }
        table
    }

    #[test]
    fn a_table_shrinks_to_the_screen_width() {
        assert_eq!(
            table().lines(40),
            [
                "Name  │ Value │ Description",
                "──────┼───────┼─────────────────────────",
                "alpha │     1 │ the first of them",
                "gamma │   333 │ the third, with a rather",
                "      │       │ long description",
            ]
        );
        assert!(table().lines(80).iter().all(|line| line.width() <= 80));
    }

    #[test]
    fn a_name_is_not_wrapped_while_the_text_next_to_it_stays_readable() {
        let mut table = Table::new(vec![Alignment::None; 2]);
        let text = "the time until the head of the answer was sent";
        for row in [["Name", "Help"], ["http_request_duration_seconds", text]] {
            table.begin_row();
            for cell in row {
                table.begin_cell();
                table.write(Style::new(), cell);
            }
        }
        assert_eq!(
            table.lines(56)[2..],
            [
                "http_request_duration_seconds │ the time until the head",
                "                              │ of the answer was sent",
            ]
        );
        assert!(table.lines(50).iter().all(|line| line.width() <= 50));
    }

    #[test]
    fn ligatures_count_one_column_per_letter() {
        let mut table = Table::new(vec![Alignment::None; 2]);
        for row in [["لا", "a"], ["abc", "b"]] {
            table.begin_row();
            for cell in row {
                table.begin_cell();
                table.write(Style::new(), cell);
            }
        }
        assert_eq!(table.lines(40), ["لا  │ a", "────┼──", "abc │ b"]);
    }

    #[test]
    fn a_table_that_cannot_shrink_enough_becomes_a_list() {
        let lines = table().lines(20);
        assert_eq!(lines[..3], ["Name: alpha", "Value: 1", "Description: the"]);
    }
}
