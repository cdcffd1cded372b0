//! `cargo xtask words`: finds comments that say nothing, phrases that are not plain English, files that are too small, and
//! names that several crates give to public types.
//!
//! It cannot tell a good comment from a bad one; it finds only what is never good.

mod type_names;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cargo::workspace_root;
use type_names::TypeNames;

/// A file with fewer lines must be merged into another, unless it is the root of a module or a crate, or a port or
/// suite with a name of its own ([`is_one_named_thing`]).
const MIN_LINES: usize = 45;

/// The first words of short comments, of up to three words, that only repeat the name.
const FILLERS: [&str; 7] = ["Where", "Why", "What", "Which", "It", "They", "All"];

/// Phrases that comments and documents must not use, and what to write instead.
const PHRASES: [(&str, &str); 7] = [
    ("an own", "its own, a separate"),
    ("anew", "again"),
    ("at the least", "at least"),
    ("at the most", "at most"),
    ("somebody else's", "another user's, another process's"),
    ("tells whether", "returns whether"),
    ("whoever", "the user, the caller, the client, …"),
];

/// Checks the sources and the documents and prints the violations.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut found = 0;
    let mut names = TypeNames::default();
    for folder in ["crates", "xtask"] {
        found += check_below(folder, "rs", |shown, file, text| {
            names.add(shown, text);
            check_source(shown, file, text)
        })?;
    }
    found += names.print_violations();
    for folder in ["README.md", "CONTRIBUTING.md", "docs"] {
        found += check_below(folder, "md", |document, _, text| {
            print_phrases(document, &prose(text))
        })?;
    }
    match found {
        0 => Ok(()),
        found => bail!("{found} places to fix; see the section Words in CONTRIBUTING.md"),
    }
}

/// Checks the files with an extension at or below a path of the workspace, and returns the number of violations.
fn check_below(
    path: &str,
    extension: &str,
    mut check: impl FnMut(&Path, &Path, &str) -> usize,
) -> anyhow::Result<usize> {
    let mut files = Vec::new();
    add_files(&workspace_root().join(path), extension, &mut files)?;
    files.sort();
    let mut found = 0;
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
        let shown = file.strip_prefix(workspace_root()).unwrap_or(file);
        found += check(shown, file, &text);
    }
    Ok(found)
}

/// Checks one file of Rust, prints its violations, and returns their number.
fn check_source(shown: &Path, file: &Path, text: &str) -> usize {
    let numbered = || (1..).zip(text.lines());
    let fillers: Vec<_> = numbered().filter(|(_, line)| is_filler(line)).collect();
    for (number, line) in &fillers {
        println!("{}:{number}: {}", shown.display(), line.trim());
    }
    let comments: Vec<_> = numbered()
        .filter(|(_, line)| line.trim_start().starts_with("//"))
        .collect();
    let lines = text.lines().count();
    let is_small = lines < MIN_LINES && !is_root(file) && !is_one_named_thing(text);
    if is_small {
        println!(
            "{}: {lines} lines and not the root of a module",
            shown.display()
        );
    }
    fillers.len() + print_phrases(shown, &comments) + usize::from(is_small)
}

/// Prints the phrases of numbered lines that are not plain English, and returns their number.
fn print_phrases(file: &Path, lines: &[(usize, &str)]) -> usize {
    let mut found = 0;
    for (number, line) in lines {
        if let Some((phrase, instead)) = phrase_in(line) {
            println!("{}:{number}: \"{phrase}\": write {instead}", file.display());
            found += 1;
        }
    }
    found
}

/// Returns the first phrase of [`PHRASES`] that a line contains as whole words.
fn phrase_in(line: &str) -> Option<(&'static str, &'static str)> {
    let line = line.to_lowercase();
    let is_part_of_word =
        |next: Option<char>| next.is_some_and(|next| next == '_' || next.is_alphanumeric());
    PHRASES.into_iter().find(|(phrase, _)| {
        line.match_indices(phrase).any(|(at, _)| {
            let (before, behind) = (&line[..at], &line[at + phrase.len()..]);
            !is_part_of_word(before.chars().next_back()) && !is_part_of_word(behind.chars().next())
        })
    })
}

/// Returns the numbered lines of a document without its code blocks.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let is_prose = |(_, line): &(usize, &str)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    (1..).zip(text.lines()).filter(is_prose).collect()
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

/// Adds the files with an extension at or beneath a path, except tests, benchmarks and the like.
fn add_files(path: &Path, extension: &str, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        if path.extension().is_some_and(|end| end == extension) {
            found.push(path.to_owned());
        }
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_production = !matches!(
            name,
            Some("tests" | "benches" | "examples" | "fuzz" | "target")
        );
        if is_production || path.is_file() {
            add_files(&path, extension, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{is_filler, is_one_named_thing, phrase_in, prose};

    #[test]
    fn filler_comments_are_found() {
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
    fn phrases_that_are_not_plain_english_are_found_outside_of_code() {
        for line in ["/// Tells whether", "It is made anew.", "- two at the most"] {
            assert!(phrase_in(line).is_some(), "{line}");
        }
        for line in [
            "The man eats in Anewton.",
            "Returns whether it is at most two.",
        ] {
            assert_eq!(phrase_in(line), None, "{line}");
        }
        let text = "anew\n```text\nanew\n```\nanew";
        assert_eq!(prose(text), [(1, "anew"), (5, "anew")]);
    }

    #[test]
    fn a_file_with_only_one_trait_or_one_macro_may_be_small() {
        assert!(is_one_named_thing("pub trait Clock {}\npub struct Tick;"));
        assert!(is_one_named_thing("#[macro_export]\nmacro_rules! suite {}"));
        assert!(!is_one_named_thing("pub struct Clock;"));
        assert!(!is_one_named_thing("pub trait Clock {}\npub trait Ids {}"));
    }
}
