//! The links of a document, where it is shown: those to other documents become the command that shows them.

use super::topics::{self, Topic};
use super::{PRICES, rules};

/// Returns the text of a document with links that lead somewhere from where it is shown. Blocks of code stay as they are, but for
/// the lines of Rust that rustdoc hides.
pub(super) fn resolved(topic: &Topic) -> String {
    let folder = topic.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut shown = String::with_capacity(topic.text.len());
    let (mut is_code, mut is_rust) = (false, false);
    for line in topic.text.split_inclusive('\n') {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_code = !is_code;
            is_rust = is_code && language.starts_with("rust");
        }
        match is_code {
            true if is_rust && is_hidden(line) => {}
            true => shown.push_str(line),
            false => push_line(&mut shown, line, folder),
        }
    }
    shown
}

/// Tells whether rustdoc compiles a line of an example and does not show it.
fn is_hidden(line: &str) -> bool {
    let line = line.trim();
    line == "#" || line.starts_with("# ")
}

fn push_line(shown: &mut String, line: &str, folder: &str) {
    let mut rest = line;
    while let Some((before, text, target, after)) = next_link(rest) {
        shown.push_str(before);
        match replacement(text, target, folder) {
            Some(replaced) => shown.push_str(&replaced),
            None => shown.push_str(&format!("[{text}]({target})")),
        }
        rest = after;
    }
    shown.push_str(rest);
}

/// Splits a line at its first link: what is before, its text, its target, and what follows.
fn next_link(line: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = line.find("](")?;
    let begin = line.get(..middle)?.rfind('[')?;
    let text = line.get(begin + 1..middle)?;
    let rest = line.get(middle + 2..)?;
    let end = rest.find(')')?;
    Some((
        line.get(..begin)?,
        text,
        rest.get(..end)?,
        rest.get(end + 1..)?,
    ))
}

/// Returns what stands for a link here; nothing where it leads to the web.
fn replacement(text: &str, target: &str, folder: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let file = target.split('#').next().unwrap_or_default();
    let mut shipped = [rules::NAME, PRICES].into_iter();
    if let Some(name) = shipped.find(|name| file.ends_with(*name)) {
        return Some(format!("{text} (`neuraxis help {name}`)"));
    }
    let topic = topics::find(&beneath_docs(file, folder));
    Some(match topic.map(|topic| topic.name) {
        // A place on this very page, or a file of the code.
        None => text.to_owned(),
        Some(name) if text.ends_with(".md") => format!("`neuraxis help {name}`"),
        Some(name) => format!("{text} (`neuraxis help {name}`)"),
    })
}

/// Returns a link's file as it is called beneath `docs`.
fn beneath_docs(file: &str, folder: &str) -> String {
    match (file.strip_prefix("../"), folder) {
        (Some(above), _) => above.to_owned(),
        (None, "") => file.to_owned(),
        (None, folder) => format!("{folder}/{file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::topics::{PAGES, TOPICS};
    use super::*;

    #[test]
    fn a_link_becomes_the_command_that_shows_its_document() {
        for (line, folder, expected) in [
            (
                "See [policy.md](policy.md#rules), or not.",
                "",
                "See `neuraxis help policy`, or not.",
            ),
            (
                "[keys](server.md#keys) and [its page](#the-page)",
                "",
                "keys (`neuraxis help server`) and its page",
            ),
            (
                "[agents.md](../agents.md) [tools](tools.md)",
                "embedding",
                "`neuraxis help agents` tools (`neuraxis help embedding/tools`)",
            ),
            (
                "[a server](https://example.com) [adr/0043](../adr/0043-x.md) [no link]",
                "",
                "[a server](https://example.com) adr/0043 [no link]",
            ),
        ] {
            let mut shown = String::new();
            push_line(&mut shown, line, folder);
            assert_eq!(shown, expected, "{line}");
        }
    }

    #[test]
    fn lines_of_rust_that_rustdoc_hides_are_not_shown_and_comments_of_other_languages_are() {
        let text = "```rust,no_run\n# use a::B;\n#\n#[tool]\nfn f() {}\n```\n\n```sh\n# a comment\n```\n# A title\n";
        let topic = Topic {
            name: "t",
            about: "",
            file: "t.md",
            text,
        };
        let expected =
            "```rust,no_run\n#[tool]\nfn f() {}\n```\n\n```sh\n# a comment\n```\n# A title\n";
        assert_eq!(resolved(&topic), expected);
    }

    #[test]
    fn no_document_shows_a_link_to_a_file() {
        for topic in TOPICS.iter().chain(&PAGES) {
            let shown = resolved(topic);
            assert!(!shown.contains(".md)"), "{}", topic.name);
        }
    }
}
