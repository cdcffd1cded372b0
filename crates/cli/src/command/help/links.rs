//! The links of a document when it is shown here: links to other documents become the command that shows them, with the
//! heading they lead to.

use super::topics::{self, Topic};
use super::{PRICES, rules};

/// Returns the text of a document with links that work here. Code blocks are unchanged, except that lines of Rust that
/// rustdoc hides are removed.
pub(super) fn resolved(topic: &Topic) -> String {
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
            false => push_line(&mut shown, line, topic),
        }
    }
    shown
}

/// Returns whether rustdoc compiles a line of an example but does not show it.
fn is_hidden(line: &str) -> bool {
    let line = line.trim();
    line == "#" || line.starts_with("# ")
}

fn push_line(shown: &mut String, line: &str, page: &Topic) {
    let mut rest = line;
    while let Some((before, text, target, after)) = next_link(rest) {
        shown.push_str(before);
        match replacement(text, target, page) {
            Some(replaced) => shown.push_str(&replaced),
            None => shown.push_str(&format!("[{text}]({target})")),
        }
        rest = after;
    }
    shown.push_str(rest);
}

/// Splits a line at its first link: the text before, the link's text, its target, and the text after.
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

/// Returns the replacement for a link of a page. `None` if it leads to the web.
fn replacement(text: &str, target: &str, page: &Topic) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let mut shipped = [rules::NAME, PRICES].into_iter();
    if let Some(name) = shipped.find(|name| file.ends_with(*name)) {
        return Some(format!("{text} (`neuraxis help {name}`)"));
    }
    if file.is_empty() {
        let heading = heading(page.text, anchor).filter(|_| anchor_of(text) != anchor);
        return Some(match heading {
            Some(heading) => format!("{text} (*{heading}*)"),
            None => text.to_owned(),
        });
    }
    let folder = page.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let Some(topic) = topics::find(&beneath_docs(file, folder)) else {
        // A file of the source code.
        return Some(text.to_owned());
    };
    let command = match heading(topic.text, anchor) {
        Some(heading) => format!("`neuraxis help {}`, *{heading}*", topic.name),
        None => format!("`neuraxis help {}`", topic.name),
    };
    Some(match text.ends_with(".md") {
        true => command,
        false => format!("{text} ({command})"),
    })
}

/// Returns the heading of a document that an anchor leads to.
fn heading<'a>(text: &'a str, anchor: &str) -> Option<&'a str> {
    let mut is_code = false;
    text.lines().find_map(|line| {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.strip_prefix('#')?.trim_start_matches('#').trim();
        (!is_code && anchor_of(heading) == anchor).then_some(heading)
    })
}

/// Returns the anchor of a heading, as code hosts generate it.
fn anchor_of(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let kept = heading.chars().filter_map(|it| match it {
        ' ' => Some('-'),
        '-' | '_' => Some(it),
        it => it.is_alphanumeric().then_some(it),
    });
    kept.collect()
}

/// Returns the path of a linked file relative to `docs`.
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

    fn page(file: &'static str, text: &'static str) -> Topic {
        Topic {
            name: "t",
            about: "",
            file,
            text,
        }
    }

    #[test]
    fn a_link_becomes_a_help_command_with_its_heading() {
        let text = "# T\n\n```sh\n# its page\n```\n\n## The page's `keys`\n";
        for (line, file, expected) in [
            (
                "See [policy.md](policy.md#remembered-answers), or not.",
                "t.md",
                "See `neuraxis help policy`, *Remembered answers*, or not.",
            ),
            (
                "[keys](server.md#keys), [its page](#its-page) and [below](#the-pages-keys)",
                "t.md",
                "keys (`neuraxis help server`, *Keys*), its page and below (*The page's `keys`*)",
            ),
            (
                "[the page's keys](#the-pages-keys)",
                "t.md",
                "the page's keys",
            ),
            (
                "[agents.md](../agents.md) [tools](tools.md)",
                "embedding/t.md",
                "`neuraxis help agents` tools (`neuraxis help embedding/tools`)",
            ),
            (
                "[a server](https://example.com) [adr/0043](../adr/0043-x.md) [no link]",
                "t.md",
                "[a server](https://example.com) adr/0043 [no link]",
            ),
        ] {
            let mut shown = String::new();
            push_line(&mut shown, line, &page(file, text));
            assert_eq!(shown, expected, "{line}");
        }
    }

    #[test]
    fn hidden_rustdoc_lines_are_removed_and_comments_of_other_languages_stay() {
        let text = "```rust,no_run\n# use a::B;\n#\n#[tool]\nfn f() {}\n```\n\n```sh\n# a comment\n```\n# A title\n";
        let topic = page("t.md", text);
        let expected =
            "```rust,no_run\n#[tool]\nfn f() {}\n```\n\n```sh\n# a comment\n```\n# A title\n";
        assert_eq!(resolved(&topic), expected);
    }

    #[test]
    fn no_document_shows_a_link_to_a_markdown_file() {
        for topic in TOPICS.iter().chain(&PAGES) {
            let shown = resolved(topic);
            assert!(!shown.contains(".md)"), "{}", topic.name);
        }
    }
}
