//! The words of a text in the form in which they are compared: without case, endings and stop words, and with words of
//! similar meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use neuraxis_core::is_mark;
use rust_stemmers::{Algorithm, Stemmer};

/// Stop words: most sentences contain them, and no tool is searched by them.
const EMPTY: &str = "a an and any are as at be been but by can could did do does for from had has have he her here him his \
    how i if in into is it its just let me my no not of off on or our out please she should so some that the their them then \
    there these they this those to up us was we were what when where which who whom whose why will with would you your am t s \
    m d re ve ll about want need like don doesn didn isn got get give make put take tell";

/// Groups of words that match each other, as used in users' requests and in descriptions of tools.
const ALIKE: [&str; 32] = [
    "create add new make open start begin register raise insert set",
    "delete remove erase drop clear trash discard throw purge clean",
    "cancel abort stop end kill terminate",
    "update change edit modify rename adjust alter",
    "list show all which enumerate see display view",
    "get read fetch show retrieve see view look",
    "search find look locate query where",
    "send post write notify message share",
    "mail email letter",
    "message chat ping",
    "meeting event appointment schedule calendar",
    "person people user member colleague",
    "customer client buyer shopper",
    "ticket issue bug task",
    "error exception crash failure",
    "pr pull merge",
    "file document doc",
    "picture image photo",
    "folder directory",
    "copy duplicate clone",
    "move transfer",
    "approve accept confirm sign",
    "reject decline refuse",
    "pay charge payment money",
    "vacation holiday absence leave",
    "salary wage payslip",
    "job position role opening",
    "song track music",
    "light lamp",
    "report statistics analytics figures",
    "database sql",
    "password secret credential token",
];

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

static EMPTY_WORDS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| EMPTY.split_whitespace().collect());

static RELATED: LazyLock<BTreeMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let mut related = BTreeMap::<String, BTreeSet<String>>::new();
    for group in ALIKE {
        let stems: BTreeSet<String> = group.split_whitespace().map(stem).collect();
        for one in &stems {
            let others = stems.iter().filter(|other| *other != one);
            related
                .entry(one.clone())
                .or_default()
                .extend(others.cloned());
        }
    }
    related
});

/// Returns the meaningful words of a text, in order, each without its ending. `getFile` and `get_file` are two words
/// each. In scripts without spaces between words, each pair of adjacent characters is treated as a word.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for piece in text.split(|letter: char| !is_of_word(letter)) {
        if piece.is_ascii() {
            add_cased(piece.chars(), &mut found);
            continue;
        }
        let letters: Vec<char> = piece.chars().collect();
        let is_alike = |one: &char, other: &char| has_no_blanks(*one) == has_no_blanks(*other);
        for run in letters.chunk_by(is_alike) {
            match run {
                [first, _, ..] if has_no_blanks(*first) => {
                    found.extend(run.windows(2).map(String::from_iter));
                }
                _ => add_cased(run.iter().copied(), &mut found),
            }
        }
    }
    found.retain(|word| !word.is_empty() && !EMPTY_WORDS.contains(word.as_str()));
    found.iter().map(|word| stem(word)).collect()
}

/// Adds the words of a sequence of letters, in which a capital letter may start a new word.
fn add_cased(letters: impl Iterator<Item = char>, found: &mut Vec<String>) {
    let mut word = String::new();
    let mut was_small = false;
    for letter in letters {
        if letter.is_uppercase() && was_small {
            found.push(std::mem::take(&mut word));
        }
        was_small = letter.is_lowercase() || letter.is_numeric();
        word.extend(letter.to_lowercase());
    }
    found.push(word);
}

/// Returns `true` if a character is part of a word. This includes marks that some scripts cannot be read without, such
/// as a virama.
fn is_of_word(letter: char) -> bool {
    let is_accent = || matches!(letter, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}');
    letter.is_alphanumeric() || is_mark(letter) && !is_accent()
}

/// Returns `true` if a letter belongs to a script without spaces between words, or, like Hangul, one that attaches
/// further parts to words.
const fn has_no_blanks(letter: char) -> bool {
    matches!(
        letter,
        // Thai and Lao, Myanmar, Hangul letters, Khmer
        '\u{e00}'..='\u{eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1100}'..='\u{11ff}'
            | '\u{1780}'..='\u{17ff}'
            // Kana, Bopomofo, Hangul and Han, the last also outside the basic plane
            | '\u{3005}'..='\u{3007}'
            | '\u{3041}'..='\u{318f}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ff9f}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

/// Returns the words with a meaning similar to that of a word without its ending.
pub(super) fn related(stem: &str) -> impl Iterator<Item = &'static String> {
    RELATED.get(stem).into_iter().flatten()
}

fn stem(word: &str) -> String {
    STEMMER.stem(word).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_without_case_endings_and_stop_words() {
        assert_eq!(words("list_the-Issues"), words("listing issue"));
        assert_eq!(words("getPullRequest2"), ["pull", "request2"]);
        assert_eq!(words("the of, to!"), [""; 0]);
        assert_eq!(
            words("Grüße über Änderungen"),
            ["grüße", "über", "änderungen"]
        );
    }

    #[test]
    fn letter_pairs_are_words_in_scripts_without_spaces() {
        for (text, expected) in [
            (
                "天気予報を。API 雨",
                &["天気", "気予", "予報", "報を", "api", "雨"][..],
            ),
            ("株価API2", &["株価", "api2"]),
            ("날씨", &["날씨"]),
            ("ที่อยู่", &["ที", "ี่", "่อ", "อย", "ยู", "ู่"]),
            ("हिन्दी में", &["हिन्दी", "में"]),
            ("u\u{308}b Grüße", &["u", "b", "grüße"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn synonyms_are_found_from_any_word_form() {
        let of = |word: &str| related(&words(word)[0]).cloned().collect::<Vec<_>>();
        assert!(of("removing").contains(&"delet".to_owned()));
        assert!(of("deletes").contains(&"remov".to_owned()));
        assert!(of("xylophone").is_empty());
    }
}
