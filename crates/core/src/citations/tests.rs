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
fn a_link_to_a_page_that_was_read_becomes_a_number_into_the_list_of_sources() {
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
fn a_link_to_a_page_that_was_not_read_is_taken_out_and_said() {
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
fn numbers_follow_the_models_own_list_and_are_given_anew_in_the_order_of_the_text() {
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
fn a_list_of_sources_without_numbers_in_the_text_keeps_what_was_read() {
    let answer = "All is well.\n\nSources:\n- [One](https://a.example/one)\n- https://x.example\n- https://c.example/";
    assert_eq!(
        check(answer),
        "All is well.\n\nSources:\n\n1. [One](https://a.example/one)\n2. [https://c.example](https://c.example)\n\n*1 citation was removed: its page was not read.*"
    );
}

#[test]
fn a_list_that_is_the_answer_stays() {
    let answer = "The best libraries:\n1. [One](https://a.example/one) is quick\n2. [Other](https://x.example) is small";
    assert_eq!(
        check(answer),
        format!(
            "The best libraries:\n1. One [1] is quick\n2. Other is small{ONE}\n\n*1 citation was removed: its page was not read.*"
        )
    );
}

#[test]
fn code_and_text_without_links_stay_as_they_are() {
    for text in [
        "",
        "Nothing to cite.",
        "`curl https://x.example`",
        "```sh\ncurl https://x.example\n```",
        "[a relative one](../b.md) and [mail](mailto:a@b.example)",
        "1. one\n2. two",
        "a [word] and [^note]",
    ] {
        assert_eq!(check(text), text);
    }
}

#[test]
fn a_title_of_a_stranger_is_nothing_but_text() {
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

mod any_text {
    use super::*;
    use proptest::prelude::*;

    fn part() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ a-z.,()\\[\\]*_<>!`\n-]{0,8}",
            Just("https://a.example/one".to_owned()),
            Just("https://x.example/y_z".to_owned()),
            Just("[1]".to_owned()),
            Just("[words](https://x.example)".to_owned()),
            Just("\n\n## Sources\n[1] https://a.example/one\n[2] http://x.example".to_owned()),
            Just("\n- ".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn no_link_of_a_checked_answer_leads_to_a_page_that_was_not_read(parts in proptest::collection::vec(part(), 0..12)) {
            let cited = cite(&parts.concat(), &read());
            for edit in edits(&cited.text, &OwnList::default()) {
                for target in edit.targets {
                    if let Target::Url(url) = target {
                        prop_assert!(read().iter().any(|source| source.is_at(&url)), "{url} in {:?}", cited.text);
                    }
                }
            }
        }
    }
}
