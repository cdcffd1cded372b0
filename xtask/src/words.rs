//! `cargo xtask words`: finds comments that say nothing, and files that are too small.
//!
//! It cannot tell a good comment from a bad one; it finds only what is never good.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cargo::workspace_root;

/// A file with fewer lines must be merged into another, unless it is the root of a module or a crate, or a port or
/// suite with a name of its own ([`is_one_named_thing`]).
const MIN_LINES: usize = 45;

/// The first words of short comments, of up to three words, that only repeat the name.
const FILLERS: [&str; 7] = ["Where", "Why", "What", "Which", "It", "They", "All"];

/// Checks the sources of all crates and prints the violations.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        rust_files(&workspace_root().join(folder), &mut files)?;
    }
    files.sort();
    let mut found = 0;
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
        let shown = file.strip_prefix(workspace_root()).unwrap_or(file);
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_filler(line)) {
            println!("{}:{}: {}", shown.display(), number + 1, line.trim());
            found += 1;
        }
        let lines = text.lines().count();
        if lines < MIN_LINES && !is_root(file) && !is_one_named_thing(&text) {
            println!("{}: {lines} lines and no module's root", shown.display());
            found += 1;
        }
    }
    match found {
        0 => Ok(()),
        found => bail!("{found} places to be mended: see the section Words of CONTRIBUTING.md"),
    }
}

/// Returns whether a line is a whole comment that says nothing.
fn is_filler(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("/// ");
    comment.is_some_and(|comment| {
        let words: Vec<&str> = comment.split(' ').collect();
        comment.ends_with('.')
            && words.len() <= 3
            && FILLERS.contains(&words.first().map_or("", |word| word.trim_end_matches('.')))
    })
}

/// Returns whether a file is the root of a crate or a module.
fn is_root(file: &Path) -> bool {
    let name = file.file_stem().and_then(|name| name.to_str());
    matches!(name, Some("lib" | "main")) || file.with_extension("").is_dir()
}

/// Returns whether a file holds exactly one public trait or one exported macro: a port or a suite, which readers look
/// up by name.
fn is_one_named_thing(text: &str) -> bool {
    let is_named = |line: &&str| line.starts_with("pub trait ") || *line == "#[macro_export]";
    text.lines().filter(is_named).count() == 1
}

/// Adds the production code files beneath a folder.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_dir() {
            let is_production = !matches!(
                name,
                Some("tests" | "benches" | "examples" | "fuzz" | "target")
            );
            if is_production {
                rust_files(&path, found)?;
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{is_filler, is_one_named_thing};

    #[test]
    fn comments_that_say_nothing_are_found() {
        for line in [
            "    /// Where.",
            "/// Why not.",
            "/// It is.",
            "/// All there are.",
        ] {
            assert!(is_filler(line), "{line}");
        }
        for line in [
            "/// Where the file is, from the top of the project.",
            "/// A timeout, in seconds.",
            "/// it there.",
            "//! Why.",
            "let where_ = 1;",
        ] {
            assert!(!is_filler(line), "{line}");
        }
    }

    #[test]
    fn one_port_or_one_suite_may_have_a_small_file() {
        assert!(is_one_named_thing("pub trait Clock {}\npub struct Tick;"));
        assert!(is_one_named_thing("#[macro_export]\nmacro_rules! suite {}"));
        assert!(!is_one_named_thing("pub struct Clock;"));
        assert!(!is_one_named_thing("pub trait Clock {}\npub trait Ids {}"));
    }
}
