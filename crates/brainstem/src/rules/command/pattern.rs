//! Patterns of commands, word by word.
//!
//! A rule that allows must be exact: a wildcard matches words, but not those that make a program do something that the
//! author of the rule did not intend. What a rule asks about or denies is found wherever it may be.

use super::git::GitCommand;
use super::parts::{Part, changes_folder, programs_in, script_flags, scripts};
use super::programs::{Kind, Program, base_name, program};
use super::redirection::is_redirection;
use super::words::{Folder, why_unmatchable};
use crate::names;
use crate::rules::path::composed;
use crate::rules::rule::Fit;

/// A pattern: words that may contain `*`, and at the end `**` for any number of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    words: Vec<String>,
    has_rest: bool,
}

impl CommandPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        // The shell removes quotes and backslashes, so this would match nothing, and a rule that denies would let
        // through what it names.
        let is_quoted = |word: &str| word.starts_with(QUOTES) || word.ends_with(QUOTES);
        let is_meant = |word: &&String| is_quoted(word) || word.ends_with('\\');
        if let Some(word) = words.iter().find(is_meant) {
            let has = if is_quoted(word) {
                "quotes"
            } else {
                "backslashes"
            };
            return Err(format!(
                "{} has {has}, which the shell removes: write words without them; * also matches spaces",
                names::shown(word)
            ));
        }
        let has_rest = words.last().is_some_and(|word| word == "**");
        if has_rest {
            words.pop();
        }
        if words.iter().any(|word| word.contains("**")) {
            return Err("** matches any words and may only be at the end".to_owned());
        }
        if words.is_empty() && !has_rest {
            return Err("it is empty".to_owned());
        }
        // This would match nothing, and a rule that denies would let through what it was written against.
        if let Some(word) = words.iter().find(|word| is_redirection(word)) {
            let shown = names::shown(word);
            return Err(format!(
                "{shown} is a redirection, which rules do not look at: omit it"
            ));
        }
        for (index, word) in words.iter().enumerate() {
            if word == "\\;" {
                let why = "the shell removes the backslash before ;: omit it";
                return Err(why.to_owned());
            }
            let before = words.get(..index).unwrap_or_default();
            if OPERATORS.contains(&word.as_str()) && !(word == ";" && begins_list(before)) {
                return Err(format!(
                    "{word} separates commands, each of which is judged on its own: write a pattern for each"
                ));
            }
        }
        Ok(Self { words, has_rest })
    }

    /// Returns whether a part is exactly what the pattern describes, and its wildcards match nothing that asks.
    pub(crate) fn covers(&self, part: &Part, folder: Folder<'_>) -> Fit {
        if !self.matches_words(&part.words) {
            return Fit::No;
        }
        let why = part.unclear.or_else(|| self.exceeds(part, folder));
        why.map_or(Fit::Yes, Fit::Unclear)
    }

    /// Returns why the wildcards do not match the words that they would need to match.
    fn exceeds(&self, part: &Part, folder: Folder<'_>) -> Option<&'static str> {
        let is_wild = |index: usize| self.words.get(index).is_none_or(|word| word.contains('*'));
        let mut wild = part
            .words
            .iter()
            .enumerate()
            .filter(|(index, _)| is_wild(*index));
        let (first, _) = wild.clone().next()?;
        let own = part.words.first().and_then(|word| program(word));
        if let Some(own) = own
            && (first == 0 && part.runs_others || !self.may_vary(own))
        {
            return Some(own.why);
        }
        let mut programs: Vec<&Program> = Vec::new();
        for program in programs_in(part) {
            if !programs.iter().any(|known| std::ptr::eq(*known, program)) {
                programs.push(program);
            }
        }
        let git = GitCommand::of(&part.words);
        wild.find_map(|(index, word)| {
            if let (Some(own), Some(git)) = (own, &git)
                && git.determines_effect(index)
            {
                return Some(own.why);
            }
            let pattern = self.words.get(index).map(String::as_str);
            let pushes = git
                .filter(|git| !git.is_push_option(index))
                .and_then(|git| git.pushes(word, pattern.unwrap_or_default()));
            if pushes.is_some() {
                return pushes;
            }
            let (option, path) = match (&git, own) {
                (Some(git), _) => git.split(index, word),
                (None, Some(own)) => (word.as_str(), own.value_in(word)),
                (None, None) => (word.as_str(), word.as_str()),
            };
            let mut programs = programs.iter();
            let optional =
                programs.find(|program| program.has_option_among(&part.words, index, option));
            optional
                .map(|program| program.why)
                .or_else(|| why_unmatchable(path, folder))
        })
    }

    /// Returns whether wildcards may match words of a program at all. For a program that runs others, only after the
    /// script or task has been named.
    fn may_vary(&self, program: &Program) -> bool {
        names_task(program, &self.words)
    }

    /// Returns a warning for the author of a rule, whatever it answers, about a word that is only a word if quoted.
    pub(crate) fn caution_about_quotes(&self) -> Option<String> {
        let is_part = |word: &&String| !OPERATORS.contains(&word.as_str());
        let mut words = self.words.iter().filter(is_part);
        let word = names::shown(words.find(|word| joins_commands(word))?);
        Some(format!(
            "{word} is one word only if it is quoted; without quotes, each command is judged on its own and needs its \
             own pattern"
        ))
    }

    /// Returns a warning for the author of a rule that allows such commands.
    pub(crate) fn caution(&self) -> Option<String> {
        let Some(first) = self.words.first().filter(|word| !word.contains('*')) else {
            return Some("it allows every program; name those that are needed".to_owned());
        };
        if changes_folder(first) {
            let why = "the commands after it run in another folder, but a rule that allows applies only in the root, or \
                       in the folders that its `cwd` names";
            return Some(why.to_owned());
        }
        let known = program(first)?;
        let is_wild = self.has_rest || self.words.iter().any(|word| word.contains('*'));
        if is_wild && !self.may_vary(known) {
            return Some(format!(
                "{}: wildcards match none of its words, so such commands still ask; write out what may run",
                known.about(first)
            ));
        }
        let git = GitCommand::of(&self.words);
        let mut words = self.words.iter().enumerate().skip(1);
        let named = words.find(|(index, word)| {
            known.has_option(word) || git.is_some_and(|git| git.determines_effect(*index))
        });
        if let Some((_, word)) = named {
            return Some(format!("with {word}, {}", known.about(first)));
        }
        if !is_wild {
            return None;
        }
        let why = known.about(first);
        match known.kind {
            Kind::Writes => Some(format!("{why}; write out what it may do")),
            _ => Some(format!(
                "with some options, {why}: wildcards do not stand for {}{}",
                known.options(),
                git.map_or("", |git| git.more())
            )),
        }
    }

    /// Returns whether a part may run what the pattern describes, with any words after it: also through another path to
    /// the program, with options between its words, or through a program that runs others.
    pub(crate) fn may_concern(&self, part: &Part) -> bool {
        if part.inner.iter().any(|inner| self.may_concern(inner)) {
            return true;
        }
        if part.words.is_empty() {
            return false;
        }
        let Some((pattern, rest)) = self.words.split_first() else {
            return true;
        };
        let starts = if part.runs_others {
            part.words.len()
        } else {
            1
        };
        let flags = if part.runs_others {
            script_flags(&part.words)
        } else {
            Vec::new()
        };
        let words = part.words.iter().take(starts).enumerate();
        let mut places = words.filter(|(index, word)| match index {
            0 => may_fit(pattern, word) || fits_program(pattern, base_name(word)),
            _ => may_be_program(pattern, word, &flags),
        });
        if rest.is_empty() {
            return places.next().is_some();
        }
        let after: Vec<usize> = places.map(|(index, _)| index + 1).collect();
        !after.is_empty() && follow(base_name(pattern), rest, &part.words, &after)
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

/// Returns whether the words of a program name what it runs, so that further words may vary. A Python module is named
/// by `-m`, and may itself be a program that runs others.
fn names_task(known: &Program, words: &[String]) -> bool {
    match (known.kind, words) {
        (Kind::Writes | Kind::Options, _) => true,
        (Kind::Words, _) => false,
        (_, [python, flag, module @ ..]) if flag == "-m" && is_python(python) => {
            let Some(name) = module.first().filter(|name| is_whole(name)) else {
                return false;
            };
            program(name).is_none_or(|known| names_task(known, module))
        }
        (_, words) => words.get(1).is_some_and(|word| is_whole(word)),
    }
}

/// Returns whether a word of a pattern names something and is not an option.
fn is_whole(word: &str) -> bool {
    !word.contains('*') && !word.starts_with('-')
}

fn is_python(word: &str) -> bool {
    let name = base_name(word).to_lowercase();
    name.starts_with("python") || name.starts_with("pypy")
}

const QUOTES: [char; 2] = ['\'', '"'];

/// Words that separate two commands.
const OPERATORS: [&str; 5] = ["&&", "||", "|", ";", "&"];

/// Returns whether words start a list that a `;` ends, like `find -exec` and `fd -x`. The `;` is an ordinary word after
/// the shell has removed its backslash or quotes.
fn begins_list(words: &[String]) -> bool {
    let of_find = |word: &String| word.starts_with("-exec") || word.starts_with("-ok");
    let mut programs = words.iter().filter_map(|word| program(word));
    let fd = programs.find(|program| program.is_fd());
    words.iter().any(of_find) || fd.is_some_and(|fd| words.iter().any(|word| fd.has_option(word)))
}

/// Returns whether a word of a pattern contains an operator between two commands, like `push;` or `x&&ls`. Inside a
/// word, a single such character may be quoted text, as in `s/a/b/;s/c/d/`; in an address, it may also be next to a
/// wildcard.
fn joins_commands(word: &str) -> bool {
    const LETTERS: [char; 3] = ['&', '|', ';'];
    let is_address = word.contains("://");
    let word = if is_address {
        word
    } else {
        word.trim_matches('*')
    };
    word.starts_with(LETTERS)
        || word.ends_with(LETTERS)
        || word.contains("&&")
        || word.contains("||")
}

/// Returns whether a word of a program that runs others names a program: also after `=`, or attached to an option, or
/// to a bundle that ends with one of the flags.
fn may_be_program(pattern: &str, word: &str, flags: &[char]) -> bool {
    scripts(word, flags)
        .any(|name| fits_program(pattern, base_name(name)) || may_fit(pattern, name))
}

/// Returns whether words occur in this order after one of the given places, with nothing between them except options,
/// what may be their values, and toolchains such as `+nightly`. Options that the pattern names may occur anywhere after
/// it.
fn follow(program: &str, patterns: &[String], words: &[String], after: &[usize]) -> bool {
    let mut open = vec![false; words.len() + 1];
    for index in after {
        if let Some(place) = open.get_mut(*index) {
            *place = true;
        }
    }
    for pattern in patterns {
        let mut next = vec![false; words.len() + 1];
        // Whether the pattern may match at the current word, and whether it could have matched at an earlier one.
        let (mut is_open, mut was_open, mut is_found) = (false, false, false);
        let mut missing = flags(program, pattern).map(str::to_owned);
        for (index, word) in words.iter().enumerate() {
            is_open |= open.get(index).copied().unwrap_or_default();
            was_open |= is_open;
            if pattern.starts_with('-') {
                is_found |= was_open && finds_option(program, pattern, &mut missing, word);
                continue;
            }
            if is_open && may_fit(pattern, word) {
                is_found = true;
                if let Some(place) = next.get_mut(index + 1) {
                    *place = true;
                }
            }
            let before = index.checked_sub(1).and_then(|before| words.get(before));
            let may_be_value = before.is_some_and(|before| before.starts_with('-'));
            is_open &= word.starts_with(['-', '+']) || may_be_value;
        }
        if !is_found {
            return false;
        }
        // Options are not tied to a place: what follows them in the pattern is matched from where the options were
        // searched.
        if !pattern.starts_with('-') {
            open = next;
        }
    }
    true
}

/// Flags that mean the same as each other and as a long option, by program.
const SYNONYMS: [(&[&str], &str, &str); 3] = [
    (&["rm", "cp"], "--recursive", "rR"),
    (&["chmod", "chown", "chgrp"], "--recursive", "R"),
    (&["rm", "cp", "mv", "git"], "--force", "f"),
];

/// Returns the letters of a pattern that is a bundle of short options, such as `-rf`, or a long option that is
/// equivalent to a letter.
fn flags<'a>(program: &str, pattern: &'a str) -> Option<&'a str> {
    let synonym = SYNONYMS
        .iter()
        .find(|(names, long, _)| names.contains(&program) && *long == pattern);
    if let Some((_, _, letters)) = synonym {
        return letters.get(..1);
    }
    let letters = pattern.strip_prefix('-')?;
    let is_bundle =
        (1..=4).contains(&letters.len()) && letters.chars().all(|it| it.is_ascii_alphabetic());
    is_bundle.then_some(letters)
}

/// Returns whether a word sets a flag of a program: by its letter, by an equivalent letter, or by its long name.
fn sets(program: &str, flag: char, word: &str) -> bool {
    let mut same = SYNONYMS
        .iter()
        .filter(|(names, _, letters)| names.contains(&program) && letters.contains(flag));
    if word.starts_with("--") {
        let name = word.split('=').next().unwrap_or_default();
        return name.len() > 2 && same.any(|(_, long, _)| long.starts_with(name));
    }
    let Some(bundle) = word.strip_prefix('-') else {
        return false;
    };
    bundle.contains(flag)
        || same.any(|(_, _, letters)| bundle.contains(|letter: char| letters.contains(letter)))
}

/// Returns whether a word is an option that a pattern names, also abbreviated or with a value, or sets the last of its
/// flags that are still missing.
fn finds_option(program: &str, pattern: &str, missing: &mut Option<String>, word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let is_shortened = name.len() > 2 && name.starts_with("--") && pattern.starts_with(name);
    if let Some(missing) = missing {
        missing.retain(|flag| !sets(program, flag, word));
    }
    may_fit(pattern, word)
        || may_fit(pattern, name)
        || is_shortened
        || missing.as_ref().is_some_and(String::is_empty)
}

/// Like [`may_fit`], but ignores case, as some file systems do, and ignores the `.exe` that may be omitted on Windows.
fn fits_program(pattern: &str, program: &str) -> bool {
    let is_it = |name: &str| {
        if name.is_ascii() && !pattern.contains('*') {
            return pattern.eq_ignore_ascii_case(name);
        }
        may_fit(&pattern.to_lowercase(), &name.to_lowercase())
    };
    is_it(program) || without_exe(program).is_some_and(is_it)
}

fn without_exe(program: &str) -> Option<&str> {
    let at = program.len().checked_sub(".exe".len())?;
    let (name, end) = program.split_at_checked(at)?;
    end.eq_ignore_ascii_case(".exe").then_some(name)
}

/// Like [`fits`], but ignores how accents are encoded.
fn may_fit(pattern: &str, word: &str) -> bool {
    fits(pattern, word) || !word.is_ascii() && fits(&composed(pattern), &composed(word))
}

/// Returns whether a word matches a pattern in which `*` stands for any characters, or none.
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
mod tests;
