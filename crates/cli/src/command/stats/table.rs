//! A table of figures with a bar at the end of each line. A narrow terminal gets fewer columns, never longer lines.

use neuraxis::core::log::StatsRow;
use unicode_width::UnicodeWidthStr;

use crate::bars::bar;
use crate::glyphs::CUT;
use crate::harmless::one_line;
use crate::quantities::{brief_millis, money, tokens};
use crate::tree::Branches;
use crate::wrap::pieces;

/// The minimum and maximum number of columns of a bar.
const BAR: (usize, usize) = (6, 30);

/// The minimum width of names that are shortened.
const LEAST_NAME: usize = 12;

const GAP: &str = "  ";

/// What the rows count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Runs of a day.
    Runs,
    /// Model calls or agents, which have tokens.
    Calls,
    /// Tool calls, which have no tokens.
    ToolCalls,
}

/// A column: its heading, its cells, and its rank. If there is no room, the column with the smallest rank is left out
/// first.
struct Column {
    heading: &'static str,
    cells: Vec<String>,
    left_out: u8,
}

/// Draws a table. Lines fit this many columns, however few they are.
pub(super) fn draw(
    heading: &'static str,
    rows: &[StatsRow],
    unit: Unit,
    drawn_with: Branches,
    most: Option<usize>,
) -> String {
    let column = |heading, left_out, cell: &dyn Fn(&StatsRow) -> String| Column {
        heading,
        cells: rows.iter().map(cell).collect(),
        left_out,
    };
    let millis = |millis: Option<u64>| millis.map(brief_millis).unwrap_or_default();
    let mut columns = vec![column("RUNS", 2, &|row| row.runs.to_string())];
    if unit != Unit::Runs {
        columns.push(column("CALLS", 3, &|row| row.calls.to_string()));
    }
    columns.push(column("FAILED", 4, &|row| row.failures.to_string()));
    if unit != Unit::ToolCalls {
        columns.push(column("TOKENS", 6, &|row| tokens(row.usage.total)));
        columns.push(column("COST", 7, &|row| {
            money(row.cost).unwrap_or_default()
        }));
    }
    columns.push(column("P50", 1, &|row| millis(row.latency.p50_ms)));
    columns.push(column("P95", 5, &|row| millis(row.latency.p95_ms)));
    let names: Vec<String> = rows.iter().map(|row| one_line(&row.name)).collect();
    let name_width = widest(&names).max(heading.len());
    let least = name_width.min(LEAST_NAME);
    while let Some(most) = most
        && least + width(&columns) > most
        && let Some(place) =
            (0..columns.len()).min_by_key(|at| columns.get(*at).map(|it| it.left_out))
    {
        columns.remove(place);
    }
    let rest = most.map(|most| most.saturating_sub(width(&columns)));
    let name_width = rest.map_or(name_width, |rest| name_width.min(rest));
    let bar_width = rest.map_or(BAR.1, |rest| {
        rest.saturating_sub(name_width + GAP.len()).min(BAR.1)
    });
    let bar_width = if bar_width < BAR.0 { 0 } else { bar_width };
    let size = measure(rows, unit);
    let largest = rows.iter().map(&size).max().unwrap_or_default();
    let mut text = line(heading, name_width, &columns, |column| {
        column.heading.to_owned()
    });
    text.push('\n');
    for (place, (row, name)) in rows.iter().zip(&names).enumerate() {
        let cell = |column: &Column| column.cells.get(place).cloned().unwrap_or_default();
        text.push_str(&line(name, name_width, &columns, cell));
        if bar_width > 0 {
            let bar = bar(size(row), largest, bar_width, drawn_with);
            text.push_str(&format!("{GAP}{bar}"));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Returns the value that bars show: the cost if that of any row is known, otherwise tokens if any row has some,
/// otherwise the number of runs or calls. For tool calls, which have neither, it is always the number of calls.
fn measure(rows: &[StatsRow], unit: Unit) -> impl Fn(&StatsRow) -> u64 {
    let has_cost = rows.iter().any(|row| row.cost.amount.0 > 0);
    let has_tokens = rows.iter().any(|row| row.usage.total.tokens > 0);
    move |row| match unit {
        Unit::Runs | Unit::Calls if has_cost => row.cost.amount.0,
        Unit::Runs | Unit::Calls if has_tokens => row.usage.total.tokens,
        Unit::Runs => row.runs,
        Unit::Calls | Unit::ToolCalls => row.calls,
    }
}

fn line(
    name: &str,
    name_width: usize,
    columns: &[Column],
    cell: impl Fn(&Column) -> String,
) -> String {
    let name = shortened(name, name_width);
    let mut line = format!("{name}{}", blanks(name_width, &name));
    for column in columns {
        let cell = cell(column);
        let blanks = blanks(column.width(), &cell);
        line.push_str(&format!("{GAP}{blanks}{cell}"));
    }
    line
}

fn shortened(name: &str, most: usize) -> String {
    if name.width() <= most {
        return name.to_owned();
    }
    let first = pieces(name, most.saturating_sub(1)).first().copied();
    let first = first.unwrap_or_default();
    let fits = first.width() < most;
    match fits {
        true => format!("{first}{CUT}"),
        false => name.chars().take(most).collect(),
    }
}

fn blanks(width: usize, text: &str) -> String {
    " ".repeat(width.saturating_sub(text.width()))
}

fn width(columns: &[Column]) -> usize {
    columns
        .iter()
        .map(|column| GAP.len() + column.width())
        .sum()
}

fn widest(cells: &[String]) -> usize {
    cells
        .iter()
        .map(|cell| cell.width())
        .max()
        .unwrap_or_default()
}

impl Column {
    fn width(&self) -> usize {
        widest(&self.cells).max(self.heading.len())
    }
}
