//! Citations: whatever a model writes, no link of a checked answer leads to a page that was not read, and checking
//! terminates.

use neuraxis_core::{Source, cite};
use pulldown_cmark::{Event, LinkType, Parser, Tag};

/// Checks a text, and examines its remaining links as Markdown parses them.
pub fn citations(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let read = [
        Source::new("https://a.example/one").titled("One"),
        Source::new("https://b.example/two_2?q=(1)"),
    ];
    let cited = cite(&text, &read);
    for source in &cited.sources {
        assert!(read.contains(source), "{source:?}");
    }
    let parser = Parser::new(&cited.text);
    for (_, definition) in parser.reference_definitions().iter() {
        assert_fine(&definition.dest, &read, &cited.text);
    }
    for event in parser {
        match event {
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                ..
            }) if link_type != LinkType::Email => assert_fine(&dest_url, &read, &cited.text),
            Event::Start(Tag::Image { dest_url, .. }) => {
                assert_fine(&dest_url, &read, &cited.text);
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let is_link = html.to_ascii_lowercase().contains("href=\"http");
                assert!(!is_link, "{html:?} in {:?}", cited.text);
            }
            _ => {}
        }
    }
}

fn assert_fine(url: &str, read: &[Source], text: &str) {
    let url = url.trim();
    let stays = url.is_empty() || url.starts_with('#');
    let is_mail = url.to_ascii_lowercase().starts_with("mailto:");
    let is_read = || read.iter().any(|source| source.is_at(url));
    assert!(stays || is_mail || is_read(), "{url:?} in {text:?}");
}
