//! Patterns of commands, word by word.

use super::Part;
use super::parts::base_name;

/// A pattern: words that may hold `*`, and at the end `**` for any words, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    words: Vec<String>,
    has_rest: bool,
}

impl CommandPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let has_rest = words.last().is_some_and(|word| word == "**");
        if has_rest {
            words.pop();
        }
        if words.iter().any(|word| word.contains("**")) {
            return Err("** stands for any words, and only at the end".to_owned());
        }
        if words.is_empty() && !has_rest {
            return Err("it is empty".to_owned());
        }
        Ok(Self { words, has_rest })
    }

    /// Tells whether a part is exactly what the pattern describes.
    pub(crate) fn matches(&self, part: &Part) -> bool {
        self.matches_words(&part.words)
    }

    /// Tells whether a part may run what the pattern describes, with whatever words after it: also by another path to
    /// the program, or by a program that runs others.
    pub(crate) fn may_concern(&self, part: &Part) -> bool {
        if part.words.is_empty() {
            return false;
        }
        if self.concerns_words(&part.words) {
            return true;
        }
        if !part.runs_others {
            return false;
        }
        let tails = (1..part.words.len()).filter_map(|start| part.words.get(start..));
        tails
            .into_iter()
            .any(|words| self.concerns_words(words) || self.concerns_script(words))
    }

    /// Looks into a word that is a command line itself, as after `sh -c`.
    fn concerns_script(&self, words: &[String]) -> bool {
        let Some(script) = words
            .first()
            .filter(|word| word.contains(char::is_whitespace))
        else {
            return false;
        };
        let inner: Vec<String> = script.split_whitespace().map(str::to_owned).collect();
        (0..inner.len()).any(|start| {
            inner
                .get(start..)
                .is_some_and(|words| self.concerns_words(words))
        })
    }

    fn concerns_words(&self, words: &[String]) -> bool {
        let (Some(program), Some((pattern, rest))) = (words.first(), self.words.split_first())
        else {
            return self.words.is_empty();
        };
        let is_program = fits(pattern, program) || fits_program(pattern, base_name(program));
        is_program
            && words.len() > rest.len()
            && rest
                .iter()
                .zip(words.iter().skip(1))
                .all(|(pattern, word)| fits(pattern, word))
    }

    fn matches_words(&self, words: &[String]) -> bool {
        let enough = if self.has_rest {
            words.len() >= self.words.len()
        } else {
            words.len() == self.words.len()
        };
        enough
            && self
                .words
                .iter()
                .zip(words)
                .all(|(pattern, word)| fits(pattern, word))
    }
}

/// As [`fits`], with upper and lower case the same: they are on some file systems.
fn fits_program(pattern: &str, program: &str) -> bool {
    if !pattern.contains('*') {
        return pattern.eq_ignore_ascii_case(program);
    }
    fits(&pattern.to_lowercase(), &program.to_lowercase())
}

/// Tells whether a word fits a pattern in which `*` stands for any letters, or none.
fn fits(pattern: &str, word: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = word.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::super::parts;
    use super::*;

    fn part(command: &str) -> Part {
        parts(command).remove(0)
    }

    #[test]
    fn a_pattern_matches_word_by_word() {
        for (pattern, command, expected) in [
            ("git status", "git status", true),
            ("git status", "git status -s", false),
            ("git status **", "git status", true),
            ("git status **", "git status -s x", true),
            ("git status **", "git statusx", false),
            ("git *", "git log", true),
            ("git *", "git log -1", false),
            ("cargo --*=*", "cargo --color=never", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxc", false),
            ("a*a", "a", false),
            ("**", "anything at all", true),
        ] {
            let matches = CommandPattern::parse(pattern)
                .unwrap()
                .matches(&part(command));
            assert_eq!(matches, expected, "{pattern} / {command}");
        }
        assert!(CommandPattern::parse("a ** b").is_err());
        assert!(CommandPattern::parse(" ").is_err());
    }

    #[test]
    fn a_program_is_found_by_any_path_and_behind_others() {
        let curl = CommandPattern::parse("curl **").unwrap();
        for command in [
            "/usr/bin/curl x",
            "CURL x",
            "sudo -u me curl x",
            "sh -c 'cd y; curl x'",
            "xargs curl",
            "env A=1 curl x",
            "find . -exec curl x",
        ] {
            assert!(curl.may_concern(&part(command)), "{command}");
        }
        for command in ["echo curl x", "git commit -m 'use curl now'", "curly x"] {
            assert!(!curl.may_concern(&part(command)), "{command}");
        }
    }
}
