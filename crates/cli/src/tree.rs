//! Draws a tree in text.

use unicode_width::UnicodeWidthStr;

use crate::glyphs::Glyphs;
use crate::output::Output;
use crate::rows::{LongLines, Row};
use crate::wrap::{USUAL_WIDTH, broken, width};

/// A line and its children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Node {
    /// The text of the line. Every untrusted part is already harmless; it may have colors.
    pub(crate) line: String,
    pub(crate) children: Vec<Node>,
    /// Quoted lines, shown below the line.
    pub(crate) rows: Vec<Row>,
    /// The text at the far left, before all branches. Has the same width in all lines, or is empty.
    pub(crate) gutter: String,
}

/// The characters that branches are drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branches {
    /// Box-drawing characters.
    Lines,
    /// ASCII characters, which every terminal has.
    Ascii,
}

impl Branches {
    /// Chooses what the reader of standard output can show: lines for files and programs, and what a terminal supports.
    pub(crate) fn of(output: &Output) -> Self {
        match Glyphs::here() {
            Glyphs::Ascii if output.is_terminal() => Self::Ascii,
            _ => Self::Lines,
        }
    }

    /// Returns the prefix of a line, and that of the lines below it.
    const fn before(self, is_last: bool) -> (&'static str, &'static str) {
        match (self, is_last) {
            (Self::Lines, false) => ("├─ ", "│  "),
            (Self::Lines, true) => ("└─ ", "   "),
            (Self::Ascii, false) => ("|- ", "|  "),
            (Self::Ascii, true) => ("`- ", "   "),
        }
    }
}

impl Node {
    /// Creates a line without children.
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            ..Self::default()
        }
    }
}

/// Draws trees one below the other. Lines longer than the terminal is wide continue below themselves.
pub(crate) fn draw(nodes: &[Node], branches: Branches, columns: Option<usize>) -> String {
    let mut text = String::new();
    // Recursion is safe because runs are shallow: nesting of agents is limited.
    add(&mut text, nodes, branches, columns, "");
    text
}

fn add(
    text: &mut String,
    nodes: &[Node],
    branches: Branches,
    columns: Option<usize>,
    indent: &str,
) {
    for (place, node) in nodes.iter().enumerate() {
        let (before, below) = branches.before(place + 1 == nodes.len());
        let inner = format!("{indent}{below}");
        let margin = " ".repeat(width(&node.gutter));
        let margin = match node.children.is_empty() {
            true => format!("{margin}{inner}  "),
            false => format!("{margin}{inner}{}", branches.before(false).1),
        };
        let line = format!("{}{indent}{before}{}", node.gutter, node.line);
        let line = broken(&line, columns.unwrap_or(usize::MAX), &margin);
        text.push_str(&format!("{line}\n"));
        let margin = margin.strip_suffix("  ").unwrap_or(&margin);
        let room = columns.unwrap_or(USUAL_WIDTH);
        let room = room.saturating_sub(margin.width());
        for row in &node.rows {
            let row = match columns {
                Some(_) => row.below(room, LongLines::Broken),
                None => row.whole(),
            };
            text.extend(row.lines().map(|line| format!("{margin}{line}\n")));
        }
        add(text, &node.children, branches, columns, &inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_connect_parents_and_children() {
        let turn = |line: &str, calls: &[&str]| Node {
            line: line.to_owned(),
            children: calls.iter().map(|call| Node::new(*call)).collect(),
            ..Node::default()
        };
        let nodes = [
            turn("turn 1", &["model", "tool"]),
            turn("turn 2", &["model"]),
        ];
        let lines = "├─ turn 1\n│  ├─ model\n│  └─ tool\n└─ turn 2\n   └─ model\n";
        assert_eq!(draw(&nodes, Branches::Lines, None), lines);
        let ascii = "|- turn 1\n|  |- model\n|  `- tool\n`- turn 2\n   `- model\n";
        assert_eq!(draw(&nodes, Branches::Ascii, None), ascii);
    }
    #[test]
    fn a_long_line_continues_below_itself() {
        let nodes = [
            Node {
                line: "x".repeat(20),
                children: vec![Node::new("y".repeat(20))],
                ..Node::default()
            },
            Node::new("z"),
        ];
        let text = draw(&nodes, Branches::Ascii, Some(18));
        let expected =
            "|- xxxxxxxxxxxxxxx\n|  |  xxxxx\n|  `- yyyyyyyyyyyy\n|       yyyyyyyy\n`- z\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_gutter_on_the_left_keeps_its_columns() {
        let mut node = Node::new("x".repeat(20));
        node.gutter = "## ".to_owned();
        let text = draw(&[node], Branches::Ascii, Some(18));
        assert_eq!(text, "## `- xxxxxxxxxxxx\n        xxxxxxxx\n");

        // Colors take no columns.
        let mut node = Node::new("x".repeat(20));
        node.gutter = "\u{1b}[2m##\u{1b}[0m ".to_owned();
        let text = draw(&[node], Branches::Ascii, Some(18));
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(text, "## `- xxxxxxxxxxxx\n        xxxxxxxx\n");
    }
}
