//! Prompts that a user stores: text to use repeatedly, with placeholders for what differs.
//!
//! They are sections `[prompts.NAME]` of the configuration, and files `prompts/NAME.md` in the user's configuration
//! folder. Prompts in a project's `neuraxis.toml` apply once the user trusts that file, like its other settings.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use icu_normalizer::ComposingNormalizerBorrowed;
use neuraxis_core::{clip, escaped, is_mark};
use serde::Deserialize;

use crate::config::Config;
use crate::environment::Environment;
use crate::names::shown;

/// The folder with files of prompts, in the user's configuration folder.
const FOLDER: &str = "prompts";

/// The extension of such a file.
const EXTENSION: &str = "md";

/// The maximum size of a file in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// The maximum number of characters that a list shows of a prompt without a description.
const MAX_ABOUT: usize = 60;

/// The placeholder for all arguments.
const ALL: &str = "ARGUMENTS";

/// `[prompts.NAME]`: text that can be used by its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PromptConfig {
    /// The text. `$ARGUMENTS` stands for everything after the name, `$1` to `$9` for single words of it, `$$` for a
    /// dollar sign. If the text has no placeholders, what follows the name is added as a separate paragraph.
    pub text: String,
    /// Its purpose, as shown in lists of prompts. Defaults to the beginning of its text.
    #[serde(default)]
    pub about: Option<String>,
}

/// The available prompts, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompts {
    known: BTreeMap<String, PromptConfig>,
    /// Why some files cannot be used, a sentence each.
    pub faults: Vec<String>,
}

impl Prompts {
    /// Reads the prompts of the configuration and of the user's folder. A section takes precedence over a file.
    #[must_use]
    pub fn read(config: &Config, environment: &Environment) -> Self {
        let mut prompts = Self::default();
        if let Some(folder) = environment.config_dir() {
            prompts.read_folder(&folder.join(FOLDER));
        }
        let configured = config.prompts().iter();
        let configured = configured.map(|(name, prompt)| (name.clone(), prompt.clone()));
        prompts.known.extend(configured);
        prompts
    }

    /// Returns a prompt, even if the accents in its name are encoded differently, as in files from a Mac.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&PromptConfig> {
        let composer = ComposingNormalizerBorrowed::new_nfc();
        let is_same = |known: &str| composer.normalize(known) == composer.normalize(name);
        let mut known = self.known.iter();
        let same = || known.find_map(|(known, prompt)| is_same(known).then_some(prompt));
        self.known.get(name).or_else(same)
    }

    /// Returns whether a name is valid for a prompt: letters with their marks, digits, `_` and `-`.
    #[must_use]
    pub fn is_valid_name(name: &str) -> bool {
        is_name(name)
    }

    /// Returns the names in alphabetical order, each with a one-line description.
    pub fn list(&self) -> impl Iterator<Item = (&str, String)> {
        let known = self.known.iter();
        known.map(|(name, prompt)| (name.as_str(), prompt.about()))
    }

    fn read_folder(&mut self, folder: &Path) {
        // A folder that does not exist or is not accessible contains no prompts.
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let is_prompt = path.extension().is_some_and(|it| it == EXTENSION);
            let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else {
                continue;
            };
            if !is_prompt || !is_name(name) {
                continue;
            }
            match read_text(&path) {
                Ok(text) => {
                    let prompt = PromptConfig { text, about: None };
                    self.known.insert(name.to_owned(), prompt);
                }
                Err(error) => {
                    let path = path.display();
                    self.faults
                        .push(format!("{path} cannot be used as a prompt: {error}"));
                }
            }
        }
        self.faults.sort_unstable();
    }
}

impl PromptConfig {
    /// Replaces the placeholders in the text: with `all`, which is the text after the name as it was typed, or with
    /// single words of it.
    #[must_use]
    pub fn filled(&self, all: &str, words: &[String]) -> String {
        let mut filled = String::with_capacity(self.text.len() + all.len());
        let mut has_places = false;
        let mut rest = self.text.as_str();
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            rest = after;
            let mut next = after.chars();
            match next.next() {
                _ if after.starts_with(ALL) => {
                    filled.push_str(all);
                    rest = after.get(ALL.len()..).unwrap_or_default();
                    has_places = true;
                }
                Some(digit @ '1'..='9') => {
                    let place = "123456789".find(digit).unwrap_or_default();
                    filled.push_str(words.get(place).map_or("", String::as_str));
                    rest = next.as_str();
                    has_places = true;
                }
                Some('$') => {
                    filled.push('$');
                    rest = next.as_str();
                }
                _ => filled.push('$'),
            }
        }
        filled.push_str(rest);
        let filled = filled.trim();
        match has_places || all.is_empty() {
            true => filled.to_owned(),
            false => format!("{filled}\n\n{all}"),
        }
    }

    fn about(&self) -> String {
        let about = self.about.as_deref().unwrap_or(&self.text);
        let line = about.lines().find(|line| !line.trim().is_empty());
        let line = line.unwrap_or_default().trim_start_matches(['#', ' ']);
        clip(line, MAX_ABOUT)
    }
}

/// Returns whether a name is valid for a prompt: it can be typed after a slash, and hides nothing.
fn is_name(name: &str) -> bool {
    let is_letter =
        |letter: char| letter.is_alphanumeric() || is_mark(letter) || matches!(letter, '-' | '_');
    !name.is_empty() && name.chars().all(is_letter) && escaped(name.chars(), &[]) == name
}

/// Returns the first invalid prompt name in the configuration, for display.
pub(crate) fn invalid_name<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<String> {
    names.find(|name| !is_name(name)).map(|name| shown(name))
}

fn read_text(path: &Path) -> io::Result<String> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 256 KiB");
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        let error = "it is not a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    match metadata.len() > MAX_BYTES {
        true => Err(too_large()),
        false => fs::read_to_string(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, words: &[&str]) -> String {
        let prompt = PromptConfig {
            text: text.to_owned(),
            about: None,
        };
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        prompt.filled(&words.join(" "), &words)
    }

    #[test]
    fn the_full_input_is_inserted_verbatim() {
        let all = "fix #12 in C:\\src\n  \"as is\"";
        let words = ["fix".to_owned()];
        for (text, expected) in [
            ("$1: $ARGUMENTS", format!("fix: {all}")),
            ("Look.", format!("Look.\n\n{all}")),
        ] {
            let prompt = PromptConfig {
                text: text.to_owned(),
                about: None,
            };
            assert_eq!(prompt.filled(all, &words), expected);
        }
    }

    #[test]
    fn words_replace_placeholders_or_are_appended() {
        for (text, words, expected) in [
            (
                "Review $1 as $2.",
                &["a.rs", "a novice"][..],
                "Review a.rs as a novice.",
            ),
            ("Explain: $ARGUMENTS", &["the", "loop"], "Explain: the loop"),
            (
                "Review this.\n",
                &["only", "errors"],
                "Review this.\n\nonly errors",
            ),
            ("Review this.", &[], "Review this."),
            ("$3 is missing", &["one"], "is missing"),
            ("It costs $$5 or $x", &[], "It costs $5 or $x"),
            ("$1", &["$2 $ARGUMENTS"], "$2 $ARGUMENTS"),
        ] {
            assert_eq!(filled(text, words), expected, "{text}");
        }
    }

    #[test]
    fn files_in_the_folder_are_prompts_and_unreadable_ones_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        file("review.md", "# Review\nLook for errors.");
        file("notes.txt", "none");
        file("two words.md", "none");
        for name in ["e\u{301}", "हिन्दी", "ที่อยู่", "தமிழ்"] {
            file(&format!("{name}.md"), "Review");
        }
        for hidden in ["\u{301}a", "a\u{200d}b", "a\u{3164}", "a\u{336}"] {
            file(&format!("{hidden}.md"), "none");
        }
        fs::write(folder.path().join("binary.md"), [0xff, 0xfe]).unwrap();
        let mut prompts = Prompts::default();
        prompts.read_folder(folder.path());
        let list: Vec<_> = prompts.list().collect();
        let names = ["e\u{301}", "review", "हिन्दी", "தமிழ்", "ที่อยู่"];
        assert_eq!(list, names.map(|name| (name, "Review".to_owned())));
        assert!(prompts.find("\u{e9}").is_some() && prompts.find("e").is_none());
        assert_eq!(prompts.faults.len(), 1, "{:?}", prompts.faults);
        prompts.read_folder(&folder.path().join("missing"));
    }
}
