//! A table, its columns as wide as their widest cells.

use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

/// The cells of a table.
#[derive(Debug)]
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
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
            row.push(String::new());
        }
    }

    /// Adds text to the last cell.
    pub(super) fn write(&mut self, text: &str) {
        let cell = self.rows.last_mut().and_then(|row| row.last_mut());
        if let Some(cell) = cell {
            cell.push_str(text);
        }
    }

    /// Lays the table out: the head, a line, and the rows.
    pub(super) fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.alignments.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.width()).max().unwrap_or_default()
            })
            .collect();
        let mut lines: Vec<String> = self
            .rows
            .iter()
            .map(|row| self.line(row, &widths))
            .collect();
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        lines.insert(1.min(lines.len()), rule.join("─┼─"));
        lines
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let columns = self.alignments.iter().zip(widths).enumerate();
        let cells = columns.map(|(column, (alignment, width))| {
            let cell = row.get(column).map_or("", String::as_str);
            let room = width.saturating_sub(cell.width());
            let (left, right) = match alignment {
                Alignment::Right => (room, 0),
                Alignment::Center => (room / 2, room - room / 2),
                Alignment::Left | Alignment::None => (0, room),
            };
            format!("{}{cell}{}", " ".repeat(left), " ".repeat(right))
        });
        let line: Vec<String> = cells.collect();
        line.join(" │ ").trim_end().to_owned()
    }
}
