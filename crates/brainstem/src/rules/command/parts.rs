//! Splits a command line into the simple commands that it runs.
//!
//! Only what is plain is understood: words that stand for themselves, joined by `&&`, `||`, `;`, `|`, `&` and line
//! breaks. Everything else a shell may do (expansions, redirections, compound statements, assignments) is not followed:
//! such a part is marked as unclear, so that no rule can allow it, and what can be seen of it is still held against the
//! rules that ask or deny.

use brush_parser::{Token, TokenizerOptions, uncached_tokenize_str, unquote_str};

/// Longer commands are not looked into.
const MAX_BYTES: usize = 8 * 1024;

/// Substitutions nested deeper than this are not looked into.
const MAX_DEPTH: usize = 6;

/// More parts than this are not told apart.
const MAX_PARTS: usize = 64;

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Part {
    /// Its words, without quotes.
    pub(crate) words: Vec<String>,
    /// What of it is not understood; nothing if it is plain.
    pub(crate) unclear: Option<&'static str>,
    /// Whether its program runs what its arguments say.
    pub(crate) runs_others: bool,
}

/// Programs that run what their arguments say.
const RUNNERS: [&str; 32] = [
    "sudo", "doas", "su", "env", "xargs", "nohup", "nice", "ionice", "timeout", "command", "exec",
    "builtin", "eval", "sh", "bash", "zsh", "dash", "ksh", "fish", "busybox", "find", "fd",
    "parallel", "watch", "setsid", "stdbuf", "time", "strace", "script", "ssh", "chroot",
    "unshare",
];

impl Part {
    pub(crate) const fn unclear(why: &'static str) -> Self {
        Self {
            words: Vec::new(),
            unclear: Some(why),
            runs_others: false,
        }
    }

    fn of(words: Vec<String>) -> Self {
        let program = words.first().map(|word| base_name(word).to_lowercase());
        Self {
            runs_others: program.is_some_and(|program| RUNNERS.contains(&program.as_str())),
            unclear: None,
            words,
        }
    }

    fn mark(&mut self, why: &'static str) {
        self.unclear.get_or_insert(why);
    }
}

/// Makes the part that runs a program with the given words, without a shell.
pub(crate) fn of_words(words: &[&str]) -> Part {
    let mut part = Part::of(words.iter().map(ToString::to_string).collect());
    if part.words.first().is_none_or(String::is_empty) {
        part.mark("it names no program");
    }
    part
}

pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Splits a command line. There always is at least one part.
pub(crate) fn parts(command: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    split(command, 0, &mut parts);
    if parts.is_empty() {
        parts.push(Part::unclear("it names no program"));
    }
    parts
}

fn split(command: &str, depth: usize, parts: &mut Vec<Part>) {
    if command.len() > MAX_BYTES {
        parts.push(Part::unclear("it is too long"));
        return;
    }
    if depth > MAX_DEPTH || nesting(command) > MAX_DEPTH {
        parts.push(Part::unclear("it is nested too deeply"));
        return;
    }
    if command.contains(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t')) {
        parts.push(Part::unclear("it holds control characters"));
        return;
    }
    let Ok(tokens) = uncached_tokenize_str(command, &TokenizerOptions::default()) else {
        parts.push(Part::unclear("it is not complete"));
        return;
    };
    let mut part = Part::default();
    for token in &tokens {
        match token {
            Token::Operator(operator, _) => operate(operator, &mut part, parts),
            Token::Word(word, _) => add_word(word, depth, &mut part, parts),
        }
        if parts.len() > MAX_PARTS {
            parts.push(Part::unclear("it has too many parts"));
            return;
        }
    }
    finish(part, parts);
}

/// How deep parentheses, braces and backquotes may be nested: an upper bound, so that nothing recurses far.
fn nesting(command: &str) -> usize {
    let backquotes = command.matches('`').count() / 2;
    let (mut depth, mut deepest) = (0_usize, 0);
    for letter in command.chars() {
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest + backquotes.min(MAX_DEPTH + 1)
}

fn operate(operator: &str, part: &mut Part, parts: &mut Vec<Part>) {
    match operator {
        "&&" | "||" | ";" | "|" | "&" | "\n" => finish(std::mem::take(part), parts),
        "|&" => {
            part.mark("it redirects");
            finish(std::mem::take(part), parts);
        }
        "(" | ")" | ";;" | ";&" | ";;&" => {
            part.mark("it groups commands");
            finish(std::mem::take(part), parts);
        }
        _ => part.mark("it redirects"),
    }
}

fn finish(part: Part, parts: &mut Vec<Part>) {
    if !part.words.is_empty() || part.unclear.is_some() {
        parts.push(Part {
            unclear: part.unclear,
            ..Part::of(part.words)
        });
    }
}

fn add_word(word: &str, depth: usize, part: &mut Part, parts: &mut Vec<Part>) {
    if let Some(why) = unclear(word) {
        part.mark(why);
        for inner in substitutions(word) {
            split(inner, depth + 1, parts);
        }
    }
    let text = unquote_str(word);
    if part.words.is_empty() {
        if RESERVED.contains(&text.as_str()) {
            part.mark("it is a compound statement");
            return;
        }
        if text.contains('=') {
            part.mark("it sets variables");
            return;
        }
    }
    part.words.push(text);
}

/// Words that a shell obeys where a command begins; the command follows them.
const RESERVED: [&str; 19] = [
    "!", "{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done",
    "case", "esac", "function", "select", "time", "coproc",
];

/// Says why a word does not stand for itself, if it does not.
fn unclear(word: &str) -> Option<&'static str> {
    let mut quote = None;
    for letter in word.chars() {
        match (quote, letter) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (_, '$' | '`') => return Some("it has expansions"),
            (_, '\\') => return Some("it has escapes"),
            (Some(_), '!') | (None, '*' | '?' | '[' | ']' | '{' | '}' | '~' | '!' | '#' | '^') => {
                return Some("it has patterns or expansions");
            }
            (None, '(' | ')' | '<' | '>' | '|' | '&' | ';') => {
                return Some("it has operators in words");
            }
            _ => {}
        }
    }
    quote.map(|_| "it is not complete")
}

/// Returns what stands inside `$(…)`, `<(…)`, `>(…)` and backquotes.
fn substitutions(word: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (start, _) in word.match_indices('(') {
        let inner = word.get(start + 1..).unwrap_or_default();
        found.push(inner.get(..closing(inner)).unwrap_or(inner));
    }
    let mut quoted = word.split('`');
    // What stands before the first backquote is outside, then inside and outside take turns.
    quoted.next();
    found.extend(quoted.step_by(2));
    found
}

fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(command: &str) -> Vec<String> {
        let show = |part: &Part| {
            let words = part.words.join(" ");
            match part.unclear {
                Some(why) => format!("{words} ({why})"),
                None => words,
            }
        };
        parts(command).iter().map(show).collect()
    }

    #[test]
    fn plain_commands_are_told_apart() {
        for command in [
            "git status && curl x",
            "git status || curl x",
            "git status; curl x",
            "git status | curl x",
            "git status & curl x",
            "git status\ncurl x",
            "git 'status' && \"curl\" x",
            "git status # and\ncurl x",
        ] {
            assert_eq!(shown(command), ["git status", "curl x"], "{command:?}");
        }
    }

    #[test]
    fn what_is_not_plain_is_unclear_and_still_shows_what_it_would_run() {
        for command in [
            "git status $(curl x)",
            "git status `curl x`",
            "git status \"$(curl x)\"",
            "diff <(curl x) y",
            "(curl x)",
            "if true; then curl x; fi",
            "A=1 curl x",
            "{ curl x; }",
            "! curl x",
            "echo $(echo $(curl x))",
            "time curl x",
        ] {
            let parts = parts(command);
            assert!(
                parts.iter().any(|part| part.unclear.is_some()),
                "{command}: {parts:?}"
            );
            let sees = |part: &Part| part.words.first().is_some_and(|word| word == "curl");
            assert!(parts.iter().any(sees), "{command}: {parts:?}");
        }
    }

    #[test]
    fn everything_else_is_unclear() {
        for command in [
            "",
            "  ",
            "# nothing",
            "$X y",
            "cu\\rl x",
            "cat < /etc/passwd",
            "echo x > y",
            "cat <<E\nx\nE",
            "'unfinished",
            "git \"st",
            "ls *",
            "ls ~",
            "ls {a,b}",
            "ls $'\\x63'",
            "a\rb",
            "a\0b",
            "git status |& cat",
            "${x}",
            "[[ -f x ]]",
            "f() { curl x; }",
            "!!",
        ] {
            let parts = parts(command);
            assert!(
                parts.iter().any(|part| part.unclear.is_some()),
                "{command:?}: {parts:?}"
            );
        }
        assert!(
            parts(&"(".repeat(5_000))
                .iter()
                .any(|part| part.unclear.is_some())
        );
        assert!(
            parts(&"$(".repeat(3_000))
                .iter()
                .any(|part| part.unclear.is_some())
        );
        assert!(
            parts(&"`".repeat(8_000))
                .iter()
                .any(|part| part.unclear.is_some())
        );
        assert!(
            parts(&"a;".repeat(4_000))
                .iter()
                .any(|part| part.unclear.is_some())
        );
        assert!(
            parts(&"x".repeat(MAX_BYTES + 1))
                .iter()
                .any(|part| part.unclear.is_some())
        );
    }
}
