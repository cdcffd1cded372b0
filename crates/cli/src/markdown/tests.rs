//! Tests of Markdown on a terminal.

use proptest::prelude::*;

use super::*;

const TEXT: &str = "\
# The state of things

All is *well*, **really**, says `uptime`.
See [the page](https://example.org/a) or <https://example.org>.

1. first
2. second
   - inner ~~gone~~
   - [x] done

   a paragraph of the second
3. third

> quoted
> twice

```rust
fn main() {

    println!(\"&amp;\");
}
```

| name | size |
| :--- | ---: |
| a | 1 |
| größer | 1000 |

---
The end";

fn whole(text: &str) -> String {
    let mut markdown = Markdown::default();
    markdown.push(text) + &markdown.end()
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn each_kind_of_block_is_rendered() {
    insta::assert_snapshot!(plain(&whole(TEXT)));
}

#[test]
fn without_styles_markdown_marks_remain_and_nothing_is_printed_twice() {
    let text = "# Part two\n\nRun ~~make dist~~ `make all`, **not** *yet*:\n\n```sh\nmake all\n```\n\n```\nb\n```\nSee [`a.md`](a.md), [**b**](c)\n\n````md\n```\nc\n```\n````\n";
    let mut markdown = Markdown::with_marks();
    let mut letters = [0; 4];
    let mut shown: String = text
        .chars()
        .map(|letter| markdown.push(letter.encode_utf8(&mut letters)))
        .collect();
    shown.push_str(&markdown.end());
    assert_eq!(
        plain(&shown),
        "# Part two\n\nRun ~~make dist~~ `make all`, **not** *yet*:\n\n```sh\nmake all\n```\n\n```\nb\n```\nSee `a.md`, **b** <c>\n\n````md\n```\nc\n```\n````\n"
    );
}

#[test]
fn code_at_the_start_of_a_list_item_is_next_to_its_bullet() {
    assert_eq!(plain(&whole("- ```\n  a\n  b\n  ```\n")), "• a\n  b\n");
}

#[test]
fn styles_are_reset_at_the_end_of_their_text() {
    assert_eq!(
        whole("a **b *c* d** `e`\n"),
        "a \u{1b}[1mb \u{1b}[0m\u{1b}[1m\u{1b}[3mc\u{1b}[0m\u{1b}[1m d\u{1b}[0m \u{1b}[36me\u{1b}[0m\n"
    );
}

#[test]
fn text_is_shown_word_by_word_and_code_line_by_line() {
    let mut markdown = Markdown::default();
    let mut shown = |text: &str| plain(&markdown.push(text));
    assert_eq!(shown("# Tit"), "");
    assert_eq!(shown("le\n"), "Title\n");
    assert_eq!(shown("one tw"), "one");
    assert_eq!(shown("o thr"), " two");
    assert_eq!(shown("ee\nfo"), " three");
    assert_eq!(shown("ur\n\n"), "\nfour");
    assert_eq!(shown("- a"), "\n");
    assert_eq!(shown(" b\n"), "\n• a b");
    assert_eq!(shown("- b\n"), "\n• b");
    assert_eq!(shown("```\ncode\n\nmo"), "\ncode\n");
    assert_eq!(shown("re\n"), "\nmore");
    assert_eq!(shown("```\n"), "\n");
}

#[test]
fn ambiguous_text_is_held_back_until_its_meaning_is_known() {
    let mut markdown = Markdown::default();
    markdown.set_columns(200);
    let mut shown = |text: &str| plain(&markdown.push(text));
    assert_eq!(shown("a **bold word "), "a");
    assert_eq!(shown("and** more "), " bold word and more");
    assert_eq!(shown("see [the page](https://exa"), " see");
    assert_eq!(
        shown("mple.org) [1] 2 * 3 "),
        " the page <https://example.org> [1] 2 * 3"
    );
    assert_eq!(shown("snake_case `co"), " snake_case");
    assert_eq!(shown("de` ends "), " code ends");
    assert_eq!(shown("\n\n| a | b |\n"), "\n");
    assert_eq!(shown("| - | - |\n| 1 | 2 |\n"), "");
    assert_eq!(shown("\nEnd "), "\na │ b\n──┼──\n1 │ 2\n\nEnd");
}

#[test]
fn text_underlined_after_it_was_shown_stays_text() {
    let mut markdown = Markdown::default();
    let shown =
        plain(&(markdown.push("one two\n") + &markdown.push("---\nthree ") + &markdown.end()));
    assert_eq!(shown, "one two\n────────────────────\n\nthree\n");
}

#[test]
fn a_block_below_the_text_of_a_list_item_starts_on_its_own_line() {
    for (text, expected) in [
        (
            "1. Install it:\n   ```bash\n   cargo install x\n   ```\n2. Run it.\n",
            "1. Install it:\n   bash\n   cargo install x\n2. Run it.\n",
        ),
        ("- Run it:\n  ```\n  x run\n  ```\n", "• Run it:\n  x run\n"),
        ("- It says:\n  > quoted\n", "• It says:\n  │ quoted\n"),
        ("- [x] Part\n  ## Head\n", "• [x] Part\n  Head\n"),
        // What an item begins with comes after its sign.
        ("- ## Head\n", "• Head\n"),
    ] {
        let mut markdown = Markdown::default();
        let letters = text
            .chars()
            .map(|letter| markdown.push(letter.encode_utf8(&mut [0; 4])));
        let streamed = letters.collect::<String>() + &markdown.end();
        assert_eq!(plain(&streamed), expected, "{text:?}");
        assert_eq!(plain(&whole(text)), expected, "{text:?}");
    }
}

#[test]
fn control_characters_are_made_visible_in_every_spelling() {
    for text in [
        "\u{1b}[31mred\n",
        "&#27;[31mred &#x9b;2J &#x202e;\n",
        "`\u{1b}]0;title\u{7}`\n",
        "```\u{1b}[2J\n\u{1b}[2J\n```\n",
        "[a](https://x/\u{1b}[2J)\n",
        "[a](<https://x/&#27;[2J>)\n",
        "| \u{1b}[2J |\n| --- |\n| &#27;[2J |\n",
        "<b \u{1b}[2J>\n",
        "![i](x&#27;)\n",
    ] {
        let ours = whole(text);
        assert!(
            !plain(&ours).contains(['\u{1b}', '\u{9b}', '\u{7}', '\u{202e}']),
            "{text:?}"
        );
        for place in ours.match_indices('\u{1b}').map(|(place, _)| place) {
            let rest = &ours[place..];
            let style = ["[0m", "[1m", "[2m", "[3m", "[4m", "[9m", "[36m"];
            assert!(
                style.iter().any(|style| rest[1..].starts_with(style)),
                "{text:?} gives {ours:?}"
            );
        }
    }
}

#[test]
fn the_target_of_a_link_is_always_shown() {
    assert_eq!(
        plain(&whole("[https://bank.example](https://evil.example)\n")),
        "https://bank.example <https://evil.example>\n"
    );
}

#[test]
fn an_open_code_block_is_parsed_again_only_after_a_complete_line() {
    let mut blocks = Blocks::default();
    blocks.push("```\none\n");
    assert!(blocks.open().is_some());
    blocks.push("tw");
    assert_eq!(blocks.open(), None);
    blocks.push("o\n");
    assert!(blocks.open().is_some());
}

#[test]
fn a_trailing_space_of_a_code_span_is_held_back_until_the_line_continues() {
    let text = "see `a `  - b and c&nbsp; d";
    let mut markdown = Markdown::default();
    let letters = text
        .chars()
        .map(|letter| markdown.push(letter.encode_utf8(&mut [0; 4])));
    let shown = letters.collect::<String>() + &markdown.end();
    assert_eq!(shown, whole(text));
}

proptest! {
    #[test]
    fn any_split_of_the_text_renders_the_same(cuts in prop::collection::vec(0..TEXT.len(), 0..20)) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| TEXT.is_char_boundary(*cut)).collect();
        cuts.sort_unstable();
        let mut markdown = Markdown::default();
        let mut shown = String::new();
        let mut start = 0;
        for cut in cuts {
            shown += &markdown.push(&TEXT[start..cut]);
            start = cut;
        }
        shown += &markdown.push(&TEXT[start..]);
        shown += &markdown.end();
        prop_assert_eq!(shown, whole(TEXT));
    }

    #[test]
    fn text_streamed_letter_by_letter_renders_as_in_one_piece(
        pieces in prop::collection::vec(
            "[a-z]{1,4}| |\n|\n\n|- |1\\. |> |\\*|\\*\\*|_|`|~~|\\[a\\]\\(b\\)|\\[|\\]|<|&amp;|&nbsp;|# |\n```\n|---\n|!|  ",
            0..30,
        ),
    ) {
        let text = pieces.concat();
        let mut markdown = Markdown::default();
        let letters = text.chars().map(|letter| markdown.push(letter.encode_utf8(&mut [0; 4])));
        let shown = letters.collect::<String>() + &markdown.end();
        prop_assert_eq!(shown, whole(&text));
    }

    #[test]
    fn rendering_loses_no_words(words in prop::collection::vec("[a-z]{1,6}|- |# |\n|\n\n|```|> |  ", 0..40)) {
        let text = words.concat();
        let shown = plain(&whole(&text));
        let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).collect::<String>();
        prop_assert_eq!(letters(&shown), letters(&text));
    }
}

#[test]
fn an_over_indented_fence_neither_opens_nor_closes_a_block() {
    let shown = plain(&whole("    ```\na```\n\na```\na```"));
    assert_eq!(shown.matches('a').count(), 3, "{shown}");
    let shown = plain(&whole("```\nfirst\n    ```\n*second*\n```\n*third*\n"));
    assert_eq!(shown, "first\n    ```\n*second*\nthird\n");
    let shown = plain(&whole(
        "1. text\n\n    ```\n    *code*\n    ```\n    *text*\n",
    ));
    assert!(
        shown.contains("*code*") && !shown.contains("*text*"),
        "{shown}"
    );
}

#[test]
fn a_heading_in_an_item_is_held_back_until_the_list_is_known_to_be_loose() {
    let shown = plain(&whole("- text\n  # head\n\n  more"));
    assert_eq!(shown.matches("text").count(), 1, "{shown}");
}

#[test]
fn code_bold_text_and_links_in_a_cell_keep_spaces_and_styles() {
    let table = "\
| what | how |
| --- | ---: |
| run `cargo test` in **all** crates | see [the page](https://a.org/b) or `x` |
";
    let shown = whole(table);
    let expected = "\
what                         │                                 how
─────────────────────────────┼────────────────────────────────────
run cargo test in all crates │ see the page <https://a.org/b> or x
";
    assert_eq!(plain(&shown).replace("  \n", "\n"), expected, "{shown}");
    for styled in ["\u{1b}[36mcargo test\u{1b}[0m", "\u{1b}[1mall\u{1b}[0m"] {
        assert!(shown.contains(styled), "{shown:?}");
    }
}

#[test]
fn a_long_cell_is_shown_in_full_at_every_width() {
    let long = "word ".repeat(400);
    let table =
        format!("- item\n\n  | a | b | c |\n  | --- | --- | --- |\n  | {long}end | `x` | y |\n");
    for columns in [20, 60, 80, 140] {
        let mut markdown = Markdown::default();
        markdown.set_columns(columns);
        let shown = plain(&(markdown.push(&table) + &markdown.end()));
        assert_eq!(shown.matches("word").count(), 400, "{columns}");
        assert!(shown.contains("end"), "{columns}");
        let mut lines = shown.lines();
        let too_wide = lines.find(|line| unicode_width::UnicodeWidthStr::width(*line) > columns);
        assert_eq!(too_wide, None);
    }
}

#[test]
fn a_streaming_answer_continues_in_the_width_of_a_resized_screen() {
    let words: Vec<String> = (100..160).map(|word| format!("w{word}")).collect();
    let text = words.join(" ");
    for (before, after) in [(60, 24), (24, 60), (80, 30)] {
        for place in [20, 77, 150] {
            let mut markdown = Markdown::default();
            markdown.set_columns(before);
            let first = markdown.push(&text[..place]);
            markdown.set_columns(after);
            let rest = markdown.push(&text[place..]) + &markdown.end();
            assert!(rest.starts_with('\n'), "{rest:?}");
            for line in rest.lines() {
                assert!(line.len() <= after, "{before} {after} {place}: {line:?}");
            }
            let seen = format!("{first}{rest}");
            let seen: Vec<&str> = seen.split_whitespace().collect();
            assert_eq!(seen, words, "{before} {after} {place}");
        }
    }
    // Bold text that was shown stays, and so does a quotation.
    for text in ["a **b c** d e f g h", "> a b c d e f g"] {
        let mut markdown = Markdown::default();
        let first = markdown.push(&text[..text.len() - 3]);
        markdown.set_columns(20);
        let whole = first + &markdown.push(&text[text.len() - 3..]) + &markdown.end();
        let words: String = plain(&whole).split_whitespace().collect();
        assert_eq!(words.matches('g').count(), 1, "{whole:?}");
    }
}
