use super::*;

fn read() -> Vec<Source> {
    vec![
        Source::new("https://a.example/one").titled("One"),
        Source::new("https://b.example/two_2?q=1").titled("Two [of] two"),
        Source::new("https://c.example"),
    ]
}

fn check(answer: &str) -> String {
    let cited = cite(answer, &read());
    let once = cited.text.split("\n\n*1 ").next().unwrap_or_default();
    assert_eq!(cite(once, &read()).text, once, "once is enough");
    cited.text
}

const ONE: &str = "\n\n**Sources**\n\n1. [One](https://a.example/one)";

#[test]
fn a_link_to_a_read_page_becomes_a_number_into_the_list_of_sources() {
    let forms = [
        (
            "It is [growing](https://a.example/one).",
            "It is growing [1].",
        ),
        (
            "It is growing [1](https://a.example/one).",
            "It is growing [1].",
        ),
        (
            "It is growing (https://A.example/one/).",
            "It is growing [1].",
        ),
        (
            "It is growing <https://a.example/one#part>.",
            "It is growing [1].",
        ),
        (
            "It is growing: https://a.example/one, and more.",
            "It is growing: [1], and more.",
        ),
        (
            "It is [*growing*](https://a.example/one \"a title\").",
            "It is *growing* [1].",
        ),
    ];
    for (answer, expected) in forms {
        assert_eq!(check(answer), format!("{expected}{ONE}"), "{answer}");
    }
}

#[test]
fn a_link_to_an_unread_page_is_removed_and_reported() {
    let note = "\n\n*1 citation was removed: its page was not read.*";
    let forms = [
        ("It is [growing](https://x.example/y).", "It is growing."),
        ("It is growing [2](https://x.example).", "It is growing."),
        ("It is growing (https://x.example).", "It is growing."),
        (
            "It is growing https://x.example/a_b_c?d=(e).",
            "It is growing.",
        ),
        ("It is growing <https://x.example>.", "It is growing."),
        ("![chart](https://x.example/c.png)", "chart"),
        ("It is growing [1].", "It is growing."),
    ];
    for (answer, expected) in forms {
        assert_eq!(check(answer), format!("{expected}{note}"), "{answer}");
    }
    let cited = cite("See https://x.example and [y](http://y.example/).", &read());
    assert_eq!(cited.removed, ["https://x.example", "http://y.example/"]);
    assert_eq!(
        cited.text,
        "See and y.\n\n*2 citations were removed: their pages were not read.*"
    );
}

#[test]
fn citation_numbers_are_reassigned_in_the_order_of_the_text() {
    let answer = "First [2], then [1][3] and [1, 2].\n\n## Quellen\n\n[1] One, https://a.example/one\n[2]: Two\n  https://b.example/two_2?q=1\n[3] Made up https://x.example\n";
    let cited = cite(answer, &read());
    assert_eq!(
        cited.text,
        "First [1], then [2] and [2][1].\n\n## Quellen\n\n1. [Two \\[of\\] two](https://b.example/two_2?q=1)\n2. [One](https://a.example/one)\n\n*1 citation was removed: its page was not read.*"
    );
    assert_eq!(cited.removed, ["https://x.example"]);
    assert_eq!(cited.sources.len(), 2);
}

#[test]
fn a_source_list_without_numbers_in_the_text_keeps_only_read_pages() {
    let answer = "All is well.\n\nSources:\n- [One](https://a.example/one)\n- https://x.example\n- https://c.example/";
    assert_eq!(
        check(answer),
        "All is well.\n\nSources:\n\n1. [One](https://a.example/one)\n2. [https://c.example](https://c.example)\n\n*1 citation was removed: its page was not read.*"
    );
}

#[test]
fn a_list_that_is_the_answer_itself_remains() {
    let answer = "The best libraries:\n1. [One](https://a.example/one) is quick\n2. [Other](https://x.example) is small";
    assert_eq!(
        check(answer),
        format!(
            "The best libraries:\n1. One [1] is quick\n2. Other is small{ONE}\n\n*1 citation was removed: its page was not read.*"
        )
    );
}

#[test]
fn code_and_text_without_links_are_unchanged() {
    for text in [
        "",
        "Nothing to cite.",
        "`curl https://x.example`",
        "```sh\ncurl https://x.example\n```",
        "[further down](#part) and [mail](mailto:a@b.example) or <a@b.example>",
        "<a href='#part'>down</a> and <br/> a < b > c",
        "1. one\n2. two",
        "a [word] and [^note]",
    ] {
        assert_eq!(check(text), text);
    }
}

#[test]
fn a_third_party_title_is_escaped_to_plain_text() {
    let evil =
        Source::new("https://a.example/(x)").titled("a](https://x.example) ![b](c)\n# d\u{7}");
    let evil = evil.normalized().unwrap();
    let cited = cite("See https://a.example/(x)", &[evil]);
    assert!(
        cited
            .text
            .ends_with(r"1. [a\](https://x.example) \!\[b\](c) \# d](<https://a.example/(x)>)"),
        "{}",
        cited.text
    );
    assert_eq!(Source::new("file:///etc/passwd").normalized(), None);
    assert_eq!(Source::new("https://a.example/\nb").normalized(), None);
}

#[test]
fn a_link_of_any_kind_is_removed_if_its_target_was_not_read() {
    let note = "\n\n*1 citation was removed: its page was not read.*";
    for link in [
        "[words](//x.example/y)",
        "[words](www.x.example/y)",
        "[words](/\\x.example/y)",
        "[words](../b.md)",
        "[words](javascript:alert)",
        "[words](ftp://x.example/y)",
        "[words][r]\n\n[r]: //x.example/y 'title'",
        "<a href=\"//x.example/y\">words</a>",
        "<a href=https://x.example/y>words</a>",
        "<a href=https://x.example/?q=1 class=b>words</a>",
        "<A\nHREF='www.x.example'>words</A>",
        "<a href=/y>words</a>",
        "words <img src=//x.example/y.png>",
        "words <img src=//x.example/y.png alt='>'>",
        "words ftp://x.example/y",
        "words www.x.example/y",
        "words (doi:10.1000/182)",
        "words 10.1000/182",
        "words `https://x.example/y`",
        "words `www.x.example/y`",
        "words https\\://x.example/y",
        "words https:&#47;&#47;x.example/y",
        "words <ftp://x.example/y>",
        "![words](data:image/png;base64,AA==)",
    ] {
        let cited = cite(link, &read());
        assert_eq!(cited.text, format!("words{note}"), "{link}");
        assert_eq!(cited.removed.len(), 1, "{link}: {:?}", cited.removed);
    }
}

#[test]
fn a_read_page_is_cited_however_its_address_is_written() {
    for link in [
        "It is [growing](//a.example/one).",
        "It is <a href=\"https://a.example/one\">growing</a>.",
        "It is <a href=//a.example/one>growing</a>.",
        "It is growing `https://a.example/one`.",
        "It is [growing][r].\n\n[r]: https://a.example/one",
        "It is <a href='https://a.example/one'>growing</a> https://a.example/one.",
    ] {
        let cited = cite(link, &read());
        assert!(cited.text.starts_with("It is growing [1]"), "{cited:?}");
        assert!(cited.text.ends_with(ONE), "{cited:?}");
        assert!(cited.removed.is_empty(), "{cited:?}");
    }
    let inside = "<a href=https://a.example/one>https://a.example/one</a>";
    assert_eq!(check(inside), format!("[1]{ONE}"));
}

#[test]
fn content_inside_a_link_is_also_checked() {
    let image = "[![chart](https://x.example/c.png)](https://a.example/one)";
    assert_eq!(
        check(image),
        format!("chart [1]{ONE}\n\n*1 citation was removed: its page was not read.*")
    );
    let address = "[see https://x.example/y](https://a.example/one)";
    assert!(check(address).starts_with("see [1]"), "{}", check(address));
}

mod any_text {
    use super::*;
    use proptest::prelude::*;

    fn part() -> impl Strategy<Value = String> {
        let pieces = [
            "https://a.example/one",
            "https://x.example/y_z",
            "[1]",
            "[words](https://x.example)",
            "[words](//x.example)",
            "![",
            "](",
            "](//x.example)",
            "<a href=//x.example?a=1>",
            "<a href='#a'>",
            "</a>",
            "<img src=\"/x\">",
            "www.x.example",
            "//",
            "https\\:",
            "&#47;",
            "[r]",
            "\n\n[r]: //x.example\n\n",
            "\n\n<div>\n",
            "10.1000/182",
            "`",
            "\n\n## Sources\n[1] https://a.example/one\n[2] http://x.example",
            "\n- ",
            "\n> ",
        ];
        prop_oneof![
            "[ a-z.,()\\[\\]*_<>!`\n\\\\\"'=&/-]{0,8}",
            proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn a_checked_answer_never_links_to_an_unread_page(parts in proptest::collection::vec(part(), 0..12)) {
            let cited = cite(&parts.concat(), &read());
            let left = leads_elsewhere(&cited.text, &read());
            prop_assert!(left.is_none(), "{left:?} in {:?}", cited.text);
        }
    }

    /// Returns a link in the text that leads to a page that was not read. Links are found in the rendered Markdown,
    /// independently of how the code under test finds them.
    fn leads_elsewhere(text: &str, read: &[Source]) -> Option<String> {
        use pulldown_cmark::{Event, Parser, Tag};
        let is_fine = |url: &str| {
            url.is_empty()
                || url.starts_with('#')
                || url.starts_with("mailto:")
                || read.iter().any(|it| it.is_at(url))
        };
        let parser = Parser::new(text);
        let definitions = parser.reference_definitions().iter();
        let defined = definitions
            .map(|(_, it)| it.dest.to_string())
            .find(|url| !is_fine(url));
        if defined.is_some() {
            return defined;
        }
        let (mut links, mut code) = (0, false);
        for event in parser {
            let found = match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links += 1;
                    (!is_fine(&dest_url)).then(|| dest_url.to_string())
                }
                Event::End(pulldown_cmark::TagEnd::Link | pulldown_cmark::TagEnd::Image) => {
                    links -= 1;
                    None
                }
                Event::Start(Tag::CodeBlock(_)) => {
                    code = true;
                    None
                }
                Event::End(pulldown_cmark::TagEnd::CodeBlock) => {
                    code = false;
                    None
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    let html = html.to_ascii_lowercase();
                    let places = html.matches("href=").count() - html.matches("href='#a'").count();
                    (places > 0 || html.contains("src=") || html.contains("://x"))
                        .then(|| html.clone())
                }
                Event::Text(text) if links == 0 && !code => {
                    let is_left = ["http://x", "https://x", "ftp://x", " www.x"]
                        .iter()
                        .any(|it| text.contains(it));
                    is_left.then(|| text.to_string())
                }
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }
}
