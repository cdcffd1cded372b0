//! Splits a long document into pages where a reader would: between paragraphs, else between lines, else between words.

/// Returns the byte ranges of a text's pages. Each page has at most `most_chars` characters. An empty text has one
/// empty page.
pub(crate) fn pages(text: &str, most_chars: usize) -> Vec<(usize, usize)> {
    let mut pages = Vec::new();
    let mut begin = 0;
    loop {
        let rest = text.get(begin..).unwrap_or_default();
        let most = rest.char_indices().nth(most_chars.max(1));
        let Some((most, _)) = most else {
            pages.push((begin, text.len()));
            return pages;
        };
        let end = begin + cut(rest.get(..most).unwrap_or_default());
        pages.push((begin, end));
        begin = end;
    }
}

/// Returns where to cut a text that continues: in its second half, unless there is no place to cut.
fn cut(text: &str) -> usize {
    let half = text.len() / 2;
    let ends = ["\n\n", "\n", " "].into_iter().filter_map(|end| {
        let at = text.rfind(end)? + end.len();
        (at > half).then_some(at)
    });
    ends.into_iter().next().unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_document_is_cut_between_paragraphs_lines_or_words() {
        let cut_of = |text: &str| {
            let pages = pages(text, 10);
            let (begin, end) = pages[0];
            text[begin..end].to_owned()
        };
        assert_eq!(cut_of("aaaaaa\n\nbb\ncccc"), "aaaaaa\n\n");
        assert_eq!(cut_of("a\n\nbbb\nccc dd dd"), "a\n\nbbb\n");
        assert_eq!(cut_of("aaa bbb ccc ddd"), "aaa bbb ");
        assert_eq!(cut_of("aaaaaaaaaaaaaaa"), "aaaaaaaaaa");
        assert_eq!(pages("", 10), [(0, 0)]);
    }

    proptest! {
        #[test]
        fn pages_add_up_to_the_whole_document_and_none_is_too_long(text in "[aé𝟏 \n]{0,200}", most in 1_usize..50) {
            let pages = pages(&text, most);
            let mut whole = String::new();
            for (begin, end) in pages {
                let page = &text[begin..end];
                prop_assert!(page.chars().count() <= most);
                whole.push_str(page);
            }
            prop_assert_eq!(whole, text);
        }
    }
}
