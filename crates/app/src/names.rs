//! Names in messages: escapes hostile names, and suggests corrections for misspelled ones.

use std::fmt::{self, Display};

use neuraxis_brainstem::nearest;
use neuraxis_core::escaped;

/// The maximum number of characters of a given name that a message repeats.
const MAX_SHOWN_CHARS: usize = 64;

/// Makes a given string safe to display: truncates it, and escapes everything that a terminal might interpret.
pub(crate) fn shown(given: &str) -> String {
    let mut text = escaped(given.chars().take(MAX_SHOWN_CHARS), &['"', '\'']);
    if !is_shown_whole(given) {
        text.push('…');
    }
    text
}

/// Returns whether a given string is [`shown`] without truncation.
pub(crate) fn is_shown_whole(given: &str) -> bool {
    given.chars().nth(MAX_SHOWN_CHARS).is_none()
}

/// The end of a message about an unknown name: the likely name, and all known names.
pub(crate) struct Choices<'a> {
    pub(crate) given: &'a str,
    pub(crate) known: &'a [&'a str],
}

impl Display for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = nearest(self.given, self.known.iter().copied()) {
            write!(f, " (did you mean {name}?)")?;
        }
        write!(f, "; known: {}", self.known.join(", "))
    }
}

/// Returns whether a message names a path with a part `~`: a shell would have replaced it by the home folder, and
/// settings do not.
#[must_use]
pub fn names_tilde(message: &str) -> bool {
    let is_around = |letter: char| letter.is_whitespace() || "\"'`:,;()".contains(letter);
    let words = message.split(is_around);
    words
        .flat_map(|word| word.split('/'))
        .any(|part| part == "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_long_names_are_cut() {
        assert_eq!(shown("a\u{1b}[2J\"\n"), r#"a\u{1b}[2J"\n"#);
        assert_eq!(shown("हिन्दी\u{200d}"), r"हिन्दी\u{200d}");
        assert_eq!(shown(&"x".repeat(1_000)), format!("{}…", "x".repeat(64)));
    }

    #[test]
    fn only_a_close_name_is_suggested() {
        let choices = |given| {
            let known = &["models", "modes"];
            Choices { given, known }.to_string()
        };
        assert_eq!(
            choices("modles"),
            " (did you mean models?); known: models, modes"
        );
        assert_eq!(choices("zzz"), "; known: models, modes");
    }

    #[test]
    fn a_tilde_is_found_as_a_part_of_a_path_alone() {
        for message in [
            "store.url: there is no folder ~/data",
            "tools.root: \"~\" is not a folder",
            "ca_file /project/~/ca.pem cannot be used",
        ] {
            assert!(names_tilde(message), "{message}");
        }
        for message in ["C:/PROGRA~1/x", "notes.txt~ is missing", "about ~5 s"] {
            assert!(!names_tilde(message), "{message}");
        }
    }
}
