//! `cargo xtask readmes`: writes the README of each crate that other teams may add from the front page of its
//! documentation, so that both say the same.
//!
//! A README ends where the front page's first example or heading begins: the rest is for readers of the documentation.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use cargo_metadata::Package;

use crate::packages::packages;

const CLOSING: &str = "Part of Neuraxis, which runs governed, tool-using conversations with language models; the crate \
                       `neuraxis` combines its parts.\nLicensed under MIT or Apache-2.0, at your option.\n";

/// Writes all of them.
pub(crate) fn write() -> anyhow::Result<()> {
    readmes()?.iter().try_for_each(Readme::write)
}

/// Checks that each README matches the front page of its crate.
pub(crate) fn check() -> anyhow::Result<()> {
    let readmes = readmes()?;
    let stale = readmes
        .iter()
        .filter(|readme| !readme.is_current())
        .inspect(|readme| {
            println!(
                "{} differs from the front page of its crate's documentation",
                readme.file.display()
            );
        });
    match stale.count() {
        0 => Ok(()),
        _ => bail!("run `cargo xtask readmes`"),
    }
}

struct Readme {
    file: PathBuf,
    text: String,
}

impl Readme {
    fn of(package: &Package) -> anyhow::Result<Option<Self>> {
        let Some(file) = package.readme() else {
            return Ok(None);
        };
        let file = file.into_std_path_buf();
        let sources = file.with_file_name("src");
        let root = ["lib.rs", "main.rs"].map(|name| sources.join(name));
        let root = root.into_iter().find(|root| root.is_file());
        let root = root.with_context(|| format!("{} has no crate root", sources.display()))?;
        let source = fs::read_to_string(&root).with_context(|| format!("{}", root.display()))?;
        let text = format!("# {}\n\n{}\n{CLOSING}", package.name, front_page(&source));
        Ok(Some(Self { file, text }))
    }

    fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|text| text == self.text)
    }

    fn write(&self) -> anyhow::Result<()> {
        fs::write(&self.file, &self.text).with_context(|| format!("{}", self.file.display()))
    }
}

/// Returns the READMEs of all crates whose manifest names one.
fn readmes() -> anyhow::Result<Vec<Readme>> {
    let packages = packages()?;
    let named = packages.iter().map(Readme::of);
    named.filter_map(Result::transpose).collect()
}

/// Returns the front page up to its first example or heading, as Markdown with one sentence per line.
fn front_page(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let mut page = String::new();
    let mut paragraph = String::new();
    for line in lines.take_while(|line| !line.starts_with("```") && !line.starts_with("# ")) {
        if line.is_empty() || line.starts_with("- ") {
            close(&mut paragraph, &mut page);
        }
        if line.is_empty() {
            page.push('\n');
            continue;
        }
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
        paragraph.push_str(line.trim());
    }
    close(&mut paragraph, &mut page);
    format!("{}\n", page.trim_end())
}

/// Adds a paragraph, or a list item, which stays on one line.
fn close(paragraph: &mut String, page: &mut String) {
    let text = without_links(&std::mem::take(paragraph));
    if text.is_empty() {
        return;
    }
    let is_item = text.starts_with("- ");
    let mut rest = text.as_str();
    while let Some(end) = sentence_end(rest).filter(|_| !is_item) {
        let (sentence, more) = rest.split_at(end);
        page.push_str(sentence);
        page.push('\n');
        rest = more.trim_start();
    }
    page.push_str(rest);
    page.push('\n');
}

/// Returns where the first sentence ends, if another one follows.
fn sentence_end(text: &str) -> Option<usize> {
    let begins = |rest: &str| rest.starts_with(|first: char| first.is_uppercase() || first == '`');
    let ends = text.match_indices(". ").map(|(place, _)| place + 1);
    ends.into_iter()
        .find(|end| text.get(end + 1..).is_some_and(begins))
}

/// Replaces links to items of the documentation by their names, because outside of it they lead nowhere.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else {
            break;
        };
        plain.push_str(before);
        plain.push('`');
        plain.push_str(name);
        plain.push('`');
        let target = after.strip_prefix('(');
        rest = target
            .and_then(|target| target.split_once(')'))
            .map_or(after, |(_, after)| after);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_page_becomes_plain_markdown_up_to_its_first_example() {
        let source = "//! Reads a thing. Writes\n//! [`Other`](crate::Other) things, e.g. this one.\n//!\n//! - an item\n\
                      //!   of [`two`] lines. Really.\n//!\n//! ```\n//! code();\n//! ```\n\nfn code() {}\n";
        assert_eq!(
            front_page(source),
            "Reads a thing.\nWrites `Other` things, e.g. this one.\n\n- an item of `two` lines. Really.\n"
        );
    }
}
