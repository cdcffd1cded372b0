//! `cargo xtask comparison`: counts the lines of the programs on the embedding pages, and stores the counts in the
//! table of `docs/comparison.md`, so that they always match the compiled code.
//!
//! Counted are the code blocks that follow `<!-- counted -->`. A line counts if a reader must write it for the task: it
//! is not blank, not a comment, not a `use`, not hidden from the page (`# …`, which holds stand-ins for a provider, and
//! checks), and not part of the frame of every async program (`#[tokio::main]`, `async fn main`, its `Ok(())` and its
//! brace).

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};

use crate::cargo::workspace_root;

/// Precedes each counted block.
const MARK: &str = "<!-- counted -->";

/// The maximum length of a counted line, in characters: the same as in the programs compared with.
const MAX_WIDTH: usize = 120;

/// Writes the counts.
pub(crate) fn write() -> anyhow::Result<()> {
    let (file, _, counted) = current()?;
    fs::write(&file, counted).with_context(|| format!("{}", file.display()))
}

/// Checks that the table matches the counts.
pub(crate) fn check() -> anyhow::Result<()> {
    let (file, text, counted) = current()?;
    ensure!(
        text == counted,
        "{} is out of date; run `cargo xtask comparison`",
        file.display()
    );
    Ok(())
}

/// Returns the page with the table, its text, and the expected text.
fn current() -> anyhow::Result<(PathBuf, String, String)> {
    let docs = workspace_root().join("docs");
    let file = docs.join("comparison.md");
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file);
        text.with_context(|| format!("{}", file.display()))
    };
    let text = read(&file)?;
    let mut rows = 0;
    let counted = rewrite(&text, |page| {
        rows += 1;
        let page = docs.join("embedding").join(page);
        counts(&read(&page)?).with_context(|| format!("{}", page.display()))
    })?;
    ensure!(rows > 0, "{} has no table of jobs", file.display());
    Ok((file, text, counted))
}

/// In each row of a table that links to a page, replaces the second cell by the result of `count` for that page.
fn rewrite(
    text: &str,
    mut count: impl FnMut(&str) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let mut rewritten = String::new();
    for line in text.lines() {
        let mut cells: Vec<&str> = line.split('|').collect();
        let page = cells.get(1).and_then(|job| linked_page(job));
        let counted = page.map(&mut count).transpose()?;
        let counted = counted.map(|counted| format!(" {counted} "));
        if let (Some(counted), Some(cell)) = (&counted, cells.get_mut(2)) {
            *cell = counted;
        }
        rewritten.push_str(&cells.join("|"));
        rewritten.push('\n');
    }
    Ok(rewritten)
}

fn linked_page(cell: &str) -> Option<&str> {
    let (_, link) = cell.split_once("](embedding/")?;
    link.split_once(')').map(|(page, _)| page)
}

/// Counts the marked blocks of a page; several blocks are counted separately.
fn counts(page: &str) -> anyhow::Result<String> {
    let mut lines = page.lines();
    let mut counts = Vec::new();
    while lines.any(|line| line == MARK) {
        let fence = lines.next().unwrap_or_default();
        ensure!(fence.starts_with("```"), "no code follows {MARK}");
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        counts.push(count(&block)?.to_string());
    }
    if counts.is_empty() {
        bail!("no code block is marked with {MARK}");
    }
    Ok(counts.join(" + "))
}

fn count(block: &[&str]) -> anyhow::Result<usize> {
    let mut counted = 0;
    let mut is_in_main = false;
    for line in block {
        let code = line.trim();
        let is_hidden = code == "#" || code.starts_with("# ");
        let is_frame = match *line {
            "#[tokio::main]" => true,
            line if line.starts_with("async fn main(") => {
                is_in_main = true;
                true
            }
            "    Ok(())" => is_in_main,
            "}" if is_in_main => {
                is_in_main = false;
                true
            }
            _ => false,
        };
        let is_said = code.is_empty() || code.starts_with("//") || code.starts_with("use ");
        if is_hidden || is_frame || is_said {
            continue;
        }
        ensure!(
            line.chars().count() <= MAX_WIDTH,
            "longer than {MAX_WIDTH} characters: {line}"
        );
        counted += 1;
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A job\n\n```rust\nnot_counted();\n```\n\n<!-- counted -->\n```rust\nuse std::sync::Arc;\n# use hidden;\n\n\
        /// Says why.\n#[derive(Debug)]\nstruct Job {\n    // A comment.\n    done: bool,\n}\n\n#[tokio::main]\n\
        async fn main() -> Result<(), Error> {\n#   let hidden = 1;\n    let job = work()?;\n    Ok(())\n}\n#\n# fn end() {}\n```\n";

    #[test]
    fn only_code_that_a_reader_writes_for_the_job_is_counted() {
        assert_eq!(counts(PAGE).unwrap(), "5");
        let two = format!("{PAGE}\n<!-- counted -->\n```js\nshow(piece);\n```\n");
        assert_eq!(counts(&two).unwrap(), "5 + 1");
    }

    #[test]
    fn a_page_without_a_counted_program_or_with_an_overlong_line_is_refused() {
        assert!(counts("```rust\nlet a = 1;\n```\n").is_err());
        assert!(counts("<!-- counted -->\nlet a = 1;\n").is_err());
        let long = format!("<!-- counted -->\n```rust\n{}\n```\n", "x".repeat(121));
        assert!(counts(&long).is_err());
    }

    #[test]
    fn the_count_is_written_into_the_second_cell_of_rows_that_link_to_a_page() {
        let table = "| job | ours | rig |\n| --- | ---: | ---: |\n| [1 hello](embedding/hello.md) | 9 | 2 |\n| none | 9 | 2 |\n";
        let said = rewrite(table, |page| Ok(format!("{page}!"))).unwrap();
        assert_eq!(said, table.replacen("| 9 |", "| hello.md! |", 1));
    }
}
