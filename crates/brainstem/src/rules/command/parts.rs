//! The simple commands that a command line runs.
//!
//! A part that is not plain is marked as unclear, so that no rule can allow it; what is recognizable in it is still
//! checked against the rules that ask and deny. The same applies to the words of a program that runs others: words that
//! are command lines themselves are also split.

use std::borrow::Cow;

use super::git::{GIT_READS, git_runs};
use super::programs::{Kind, Program, base_name, program};
use super::split::{Simple, split};

/// The maximum number of bytes of a command that is split.
const MAX_BYTES: usize = 8 * 1024;

/// The maximum number of bytes that are examined of a text that is not split.
const MAX_EXAMINED_BYTES: usize = 64 * 1024;

/// The number of levels down to which command lines inside words of command lines are split.
const MAX_SCRIPTS: usize = 3;

/// The maximum number of bytes of words that are split for one call, whatever they contain. Bounds time and memory.
const MAX_SCRIPT_BYTES: usize = 4 * MAX_BYTES;

/// One simple command of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Part {
    /// Its words, without quotes. The last ones are the targets of its redirections.
    pub(crate) words: Vec<String>,
    /// The source text; empty if there is none.
    source: String,
    /// What was not understood; `None` if the part is plain.
    pub(crate) unclear: Option<&'static str>,
    /// Whether its program runs what its arguments say, so that each of its words may be a program.
    pub(crate) runs_others: bool,
    /// The parts that the words of a program that runs others are split into.
    pub(crate) inner: Vec<Self>,
}

impl Part {
    pub(crate) fn unclear(why: &'static str) -> Self {
        Self {
            unclear: Some(why),
            ..Self::default()
        }
    }

    /// Treats each run of characters that may form a name as a word, and each word as a program.
    fn roughly(text: &str, unclear: Option<&'static str>) -> Self {
        let is_of_name = |letter: char| letter.is_alphanumeric() || "_./-+%~".contains(letter);
        let words = examined_part(text).split(|letter| !is_of_name(letter));
        Self {
            words: words
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
            unclear,
            runs_others: true,
            ..Self::default()
        }
    }

    /// Returns the command as users read it: the source text, or its words, quoted if necessary.
    pub(crate) fn shown(&self) -> String {
        if !self.source.is_empty() {
            return self.source.clone();
        }
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }

    /// Returns the folder that it changes to for later parts, if it is a shell command that changes the folder; `~`,
    /// which stands for an unknown place, if only the shell knows the folder.
    pub(crate) fn folder_change(&self) -> Option<&str> {
        let is_option = |word: &String| word.starts_with('-') && word.len() > 1;
        let runs_next = |word: &&String| RUN_NEXT.contains(&word.as_str()) || is_option(word);
        let before = self.words.iter().take_while(runs_next).count();
        let (command, arguments) = self.words.get(before..)?.split_first()?;
        if !changes_folder(command) {
            return None;
        }
        let mut folders = arguments.iter().filter(|word| !is_option(word));
        let known = match (folders.next(), folders.next()) {
            (Some(folder), None) if command != "popd" && !is_of_shell(folder) => {
                Some(folder.as_str())
            }
            _ => None,
        };
        known.or(Some("~"))
    }

    pub(crate) fn mark(&mut self, why: &'static str) {
        self.unclear.get_or_insert(why);
    }

    /// Adds the words of an unsplit text to its words.
    pub(crate) fn add_roughly(&mut self, text: &str) {
        self.inner.push(Self::roughly(text, None));
    }
}

/// Quotes a word that a shell would not read as a single word.
fn quoted(word: &str) -> Cow<'_, str> {
    if !word.is_empty() && is_one_name(word) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Shell commands that run the words after them.
const RUN_NEXT: [&str; 4] = ["command", "builtin", "eval", "time"];

/// Returns whether the shell expands a folder: the previous one, one on its stack, or those that match a pattern.
fn is_of_shell(folder: &str) -> bool {
    folder == "-" || folder.starts_with('+') || folder.contains(['*', '?', '[', '{', '`'])
}

/// Returns whether a word is a shell command after which later commands run in another folder.
pub(super) fn changes_folder(word: &str) -> bool {
    ["cd", "chdir", "pushd", "popd"].contains(&word)
}

/// Builds the part that runs a program with the given words, without a shell.
pub(crate) fn of_words(words: &[&str]) -> Part {
    let words = words.iter().map(ToString::to_string).collect();
    let command = Simple {
        words,
        ..Simple::default()
    };
    let mut part = Reader::default().part(command, 0);
    if part.words.first().is_none_or(String::is_empty) {
        part.mark("it names no program");
    }
    part
}

/// Splits a command line. Returns at least one part.
pub(crate) fn parts(command: &str) -> Vec<Part> {
    let mut parts = Reader::default().parts(command, 0);
    if parts.is_empty() {
        parts.push(Part::unclear("it names no program"));
    }
    parts
}

/// Splits command lines, and the command lines in their words, within one budget.
#[derive(Debug, Default)]
struct Reader {
    /// The number of bytes of words split so far.
    read: usize,
}

impl Reader {
    fn parts(&mut self, text: &str, depth: usize) -> Vec<Part> {
        if text.len() > MAX_BYTES {
            return vec![Part::roughly(text, Some("it is too long"))];
        }
        let split = split(text);
        let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
        let flaw = if text.contains(is_control) {
            Some("it contains control characters")
        } else {
            split.flaw
        };
        let mut parts = Vec::with_capacity(split.commands.len());
        for command in split.commands {
            let unclear = command.unclear;
            let mut part = self.part(command, depth);
            part.unclear = unclear.or(part.unclear);
            parts.push(part);
        }
        if flaw.is_some() || split.may_hide {
            parts.push(Part::roughly(text, flaw));
        }
        parts
    }

    fn part(&mut self, command: Simple, depth: usize) -> Part {
        let words = command.words;
        // A script that starts with an option, as for `env -S`, is passed to a program that runs others.
        let runs = |word: &String| {
            word.starts_with('-')
                || program(word).is_some_and(|program| program.runs_others_by(&words))
        };
        let runs_others =
            command.runs_others || words.first().is_some_and(runs) || git_runs(&words);
        // A program that parses its words again, or passes them on through an option, may read quoted text as a quote
        // or an escape.
        let is_quoted = |word: &String| word.contains(['\'', '"', '\\']);
        let own = words.first().and_then(|word| program(word));
        let passes_words_on = |own: &Program| {
            let mut each = words.iter().enumerate();
            each.any(|(at, word)| {
                own.has_option(word) && words.iter().skip(at).take(2).any(is_quoted)
            })
        };
        let is_reparsed =
            command.has_inner_quotes && (runs_others || own.is_some_and(passes_words_on));
        let mut part = Part {
            words,
            source: command.source,
            unclear: is_reparsed.then_some("it has quotes or escapes within quotes"),
            runs_others,
            ..Part::default()
        };
        if runs_others {
            self.split_scripts(&mut part, command.has_escapes, depth);
        }
        part
    }

    /// Splits the words of a program that runs others. In words with escapes, it is unknown where a command starts.
    fn split_scripts(&mut self, part: &mut Part, has_escapes: bool, depth: usize) {
        let kinds: Vec<Kind> = programs_in(part).map(|program| program.kind).collect();
        let is_code = kinds
            .iter()
            .any(|kind| matches!(kind, Kind::Code | Kind::Tasks))
            || part.words.iter().any(|word| is_debugger(word));
        if let Some(why) = reads_on(&part.words) {
            part.mark(why);
        }
        let flags = script_flags(&part.words);
        let words = part.words.iter().skip(1);
        let scripts = words.flat_map(|word| scripts(word, &flags));
        let mut inner = Vec::new();
        let mut unclear = None;
        for script in scripts.filter(|script| !is_one_name(script)) {
            if is_code || has_escapes {
                inner.push(Part::roughly(script, None));
            }
            self.read += script.len();
            if depth >= MAX_SCRIPTS || self.read > MAX_SCRIPT_BYTES {
                unclear = Some("it is nested too deeply");
                break;
            }
            inner.extend(self.parts(script, depth + 1));
        }
        if kinds.contains(&Kind::Shell) {
            unclear = unclear.or_else(|| inner.iter().find_map(|part| part.unclear));
        }
        part.unclear = part.unclear.or(unclear);
        part.inner = inner;
    }
}

/// Returns what is known about the programs that a part names: its own, and all its words if it runs others.
pub(super) fn programs_in(part: &Part) -> impl Iterator<Item = &'static Program> {
    let all = if part.runs_others {
        part.words.len()
    } else {
        1
    };
    let words = part.words.iter().take(all).enumerate();
    // A dot is a program only at the start of a command; elsewhere, it is a folder.
    let words = words.filter(|(index, word)| *index == 0 || *word != ".");
    words.filter_map(|(_, word)| program(word))
}

/// Returns why it is unknown what runs, if that depends on input read at run time.
fn reads_on(words: &[String]) -> Option<&'static str> {
    const READS: &str = "what it runs is read from its input";
    let passes_words_on = |word: &String| matches!(base_name(word), "xargs" | "parallel");
    if words.iter().any(passes_words_on) {
        return Some(READS);
    }
    let is_shell = |word: &String| program(word).is_some_and(Program::is_shell);
    let first = words.iter().position(is_shell)?;
    let last = words.iter().rposition(is_shell).unwrap_or(first);
    let is_operand = |word: &String| !word.starts_with(['-', '+']);
    let is_input = |word: &String| matches!(word.as_str(), "-" | "-s" | "/dev/stdin");
    let has_operand = words.iter().skip(last + 1).any(is_operand);
    let reads_input = words.iter().skip(first + 1).any(is_input);
    (!has_operand || reads_input).then_some(READS)
}

/// Subcommands after which unknown programs usually run what their next words name.
const RUN_WORDS: [&str; 17] = [
    "run", "exec", "shell", "sh", "bash", "enter", "watch", "ssh", "dlx", "x", "eval", "develop",
    "runner", "do", "start", "call", "ns",
];

/// Subcommands that belong to cargo or ship with it, except those that install or publish, and a few with options that
/// name a program. Any other subcommand is a separate program.
const OF_CARGO: [&str; 29] = [
    "add",
    "audit",
    "bench",
    "build",
    "check",
    "clean",
    "clippy",
    "deny",
    "doc",
    "fetch",
    "fix",
    "fmt",
    "generate-lockfile",
    "help",
    "info",
    "init",
    "machete",
    "metadata",
    "new",
    "outdated",
    "package",
    "pkgid",
    "remove",
    "run",
    "search",
    "test",
    "tree",
    "update",
    "version",
];

/// Returns the pattern that a user may be offered to remember for a part: its program and subcommand, with any words
/// after them. `None` for a program whose words name what runs or what is written.
pub(crate) fn rememberable(part: &Part) -> Option<String> {
    let [first, second, ..] = part.words.as_slice() else {
        return None;
    };
    let is_name = |word: &str| {
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "_-:".contains(letter);
        word.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && word.chars().all(is_of_name)
    };
    let is_known = match program(first) {
        // A linter's `run` command runs its checks.
        None if first.ends_with("lint") && second == "run" => true,
        None => {
            let mut words = second.split(['-', ':']);
            !words.any(|word| RUN_WORDS.contains(&word))
        }
        Some(program) if program.is_git() => GIT_READS.contains(&second.as_str()),
        Some(program) if program.is_cargo() => OF_CARGO.contains(&second.as_str()),
        Some(program) => program.kind == Kind::Options,
    };
    let offers = part.unclear.is_none() && !part.runs_others && is_known;
    (offers && is_name(first) && is_name(second)).then(|| format!("{first} {second} **"))
}

/// Flags, by program, that what runs may be attached to.
const SCRIPT_FLAGS: [(&str, char); 10] = [
    ("env", 'S'),
    ("su", 'c'),
    ("runuser", 'c'),
    ("script", 'c'),
    ("flock", 'c'),
    ("rsync", 'e'),
    ("tar", 'I'),
    ("bsdtar", 'I'),
    ("gtar", 'I'),
    ("fd", 'x'),
];

/// Returns the flags that what runs may be attached to, for all programs that the words of a program that runs others
/// name.
pub(super) fn script_flags(words: &[String]) -> Vec<char> {
    let of_word = |word: &String| {
        let name = base_name(word);
        let of_name = |(program, _): &&(&str, char)| name.eq_ignore_ascii_case(program);
        SCRIPT_FLAGS.iter().find(of_name).map(|(_, flag)| *flag)
    };
    let mut flags: Vec<char> = words.iter().filter_map(of_word).collect();
    flags.sort_unstable();
    flags.dedup();
    flags
}

/// Returns the substrings of a word that may be a command line or the name of a program: the word itself, the value it
/// sets, and what is attached to an option, or to a bundle of flags that ends with one of the given flags.
pub(super) fn scripts<'a>(
    word: &'a str,
    flags: &[char],
) -> impl Iterator<Item = &'a str> + use<'a> {
    let set = word.split_once('=').map(|(_, value)| value);
    let glued = word.starts_with('-').then(|| word.get(2..)).flatten();
    [Some(word), set, glued, bundled(word, flags)]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
}

/// Returns what is attached to a bundle of several flags, the last of which is one of the given flags.
fn bundled<'a>(word: &'a str, flags: &[char]) -> Option<&'a str> {
    let (before, glued) = word.strip_prefix('-')?.split_once(flags)?;
    let is_bundle = !before.is_empty() && before.chars().all(|flag| flag.is_ascii_alphanumeric());
    is_bundle.then_some(glued)
}

/// Returns whether a program takes its own commands that run other programs.
fn is_debugger(word: &str) -> bool {
    matches!(base_name(word), "gdb" | "lldb")
}

/// Returns whether a shell also reads the text as a single word, so that there is nothing to split.
fn is_one_name(text: &str) -> bool {
    text.chars()
        .all(|letter| letter.is_alphanumeric() || "_./-+%:@,=".contains(letter))
}

/// Returns the beginning of a text that is examined.
fn examined_part(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_EXAMINED_BYTES))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests;
