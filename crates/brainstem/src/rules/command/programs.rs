//! What is known about programs that run others, and about options that write or read elsewhere.
//!
//! One table serves all purposes: what a rule that asks or denies looks into, what a wildcard does not match, what
//! users are offered to remember, and what `policy check` warns about. It can never be complete, and need not be: it
//! guards against mistakes, while the sandbox is the boundary.

mod options;
mod runners;
mod tasks;
mod writers;

use std::collections::HashMap;
use std::sync::LazyLock;

use options::OPTIONS;
use runners::RUNNERS;
use tasks::TASKS;
use writers::WRITERS;

/// The table, in parts by what the programs do with their words.
const PROGRAMS: [&[Program]; 4] = [RUNNERS, TASKS, OPTIONS, WRITERS];

/// What is known about some programs.
#[derive(Debug)]
pub(crate) struct Program {
    names: &'static [&'static str],
    pub(super) kind: Kind,
    /// Options that no wildcard matches; `=` stands for any word that sets something.
    pub(super) options: &'static [&'static str],
    /// The reason, worded as the end of a sentence; it starts with "it".
    pub(crate) why: &'static str,
}

/// What a program does with its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Runs the program that its words name.
    Words,
    /// Passes words to a shell.
    Shell,
    /// Runs code in a language of its own.
    Code,
    /// Runs what files and options specify, such as tasks and hooks.
    Tasks,
    /// Writes or removes what its words name.
    Writes,
    /// Does none of this except through some options.
    Options,
}

impl Program {
    const fn runs_others(&self) -> bool {
        matches!(
            self.kind,
            Kind::Words | Kind::Shell | Kind::Code | Kind::Tasks
        )
    }

    /// Returns whether it runs others with these words: some programs do so only after one of their own commands.
    pub(super) fn runs_others_by(&self, words: &[String]) -> bool {
        let is_run = |word: &String| RUNS.contains(&word.as_str());
        self.runs_others() && (!self.names.contains(&"conda") || words.iter().any(is_run))
    }

    /// Returns whether it is a shell, which reads commands from its input if no argument names any.
    pub(super) fn is_shell(&self) -> bool {
        self.names.contains(&"bash")
    }

    pub(super) fn is_git(&self) -> bool {
        self.names.contains(&"git")
    }

    pub(super) fn is_cargo(&self) -> bool {
        self.names.contains(&"cargo")
    }

    fn is_compiler(&self) -> bool {
        self.names.contains(&"gcc")
    }

    pub(super) fn is_fd(&self) -> bool {
        self.names.contains(&"fd")
    }

    /// Returns whether a word is one of the options that no wildcard matches, also abbreviated or in a bundle.
    pub(super) fn has_option(&self, word: &str) -> bool {
        if self.has_whole_flags() {
            let mut known = self.options.iter().filter_map(|option| whole_flag(option));
            return whole_flag(word).is_some_and(|flag| known.any(|known| known == flag));
        }
        let tells_the_linker = self.is_compiler() && tells_linker(word);
        tells_the_linker || self.options.iter().any(|option| self.fits(option, word))
    }

    /// Like [`Self::has_option`], for a word whose neighbors determine what it does.
    pub(super) fn has_option_among(&self, words: &[String], place: usize, word: &str) -> bool {
        let next = words.get(place + 1).map(String::as_str);
        let next = next.unwrap_or_default();
        // This only disables a plugin.
        if self.names.contains(&"pytest") && word == "-p" && next.starts_with("no:") {
            return false;
        }
        let is_bisect = |word: &String| word.len() > 1 && "bisect".starts_with(word.as_str());
        let bisects = self.names.contains(&"hg") && words.iter().any(is_bisect);
        bisects && self.fits("-c", word) || self.has_option(word)
    }

    fn fits(&self, option: &str, word: &str) -> bool {
        match option {
            "=" => return word.contains('=') && !word.starts_with('-'),
            "@" => return word.starts_with('@'),
            ".lua" | r"\u" => return word.contains(option),
            "load(" => return loads(word),
            _ => {}
        }
        if let Some(name) = option.strip_prefix("--") {
            let given = word.strip_prefix("--").unwrap_or_default();
            let given = given.split('=').next().unwrap_or_default();
            let is_whole = WHOLE
                .iter()
                .any(|(program, whole)| *whole == given && self.names.contains(program));
            // Programs accept any unambiguous prefix of an option name, but a prefix that is itself an option name
            // means that option.
            return !given.is_empty() && name.starts_with(given) && !is_whole;
        }
        let Some(flag) = option
            .strip_prefix('-')
            .filter(|flag| flag.chars().count() == 1)
        else {
            return word.split('=').next() == Some(option);
        };
        // The flags of compilers are words, and a value may be attached to them.
        if self.is_compiler() {
            return word.starts_with(option);
        }
        let word = self.without_value(word);
        word.starts_with('-') && !word.starts_with("--") && word.contains(flag)
    }

    /// Returns a word without the value attached to its first flag: the letters of the value are not flags.
    fn without_value<'a>(&self, word: &'a str) -> &'a str {
        let flag = word.strip_prefix('-').and_then(|rest| rest.chars().next());
        let takes_value = |flag: char| {
            GLUED
                .iter()
                .any(|(name, flags)| self.names.contains(name) && flags.contains(flag))
        };
        match word.get(..2) {
            Some(first) if flag.is_some_and(takes_value) => first,
            _ => word,
        }
    }

    /// Returns the part of a word that may name a file. Nothing is attached to a flag that is a whole word.
    pub(super) fn value_in<'a>(&self, word: &'a str) -> &'a str {
        let is_flag = self.has_whole_flags() && word.starts_with('-');
        match word.split_once('=') {
            Some((_, value)) if is_flag => value,
            _ => word,
        }
    }

    fn has_whole_flags(&self) -> bool {
        self.names.iter().any(|name| WHOLE_FLAGS.contains(name))
    }

    /// Returns the reason with the name of the program instead of "it".
    pub(super) fn about(&self, name: &str) -> String {
        let why = self.why.strip_prefix("it ").unwrap_or(self.why);
        format!("{name} {why}")
    }

    pub(super) fn options(&self) -> String {
        self.options.join(", ")
    }
}

/// Returns whether a word of a compiler passes the linker, or another of its programs, an option to load code, read
/// options or write elsewhere.
fn tells_linker(word: &str) -> bool {
    let mut flags = ["-Wl,", "-Wa,", "-Wp,"].iter();
    let options = flags.find_map(|flag| word.strip_prefix(flag));
    let mut options = options.unwrap_or_default().split(',');
    options.any(|option| LINKER.iter().any(|known| option.starts_with(known)))
}

/// Returns whether an expression of `yq` reads a file with one of its functions, such as `load_str(…)`.
fn loads(expression: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut after = expression.split("load").skip(1);
    after.any(|rest| {
        let rest = rest.trim_start_matches(is_of_name).trim_start();
        rest.starts_with('(')
    })
}

/// Returns the name of a flag that is a whole word, with one dash or two. For `go test`, each also has a longer name.
fn whole_flag(word: &str) -> Option<&str> {
    let flag = word.strip_prefix('-')?;
    let flag = flag.strip_prefix('-').unwrap_or(flag);
    let flag = flag.strip_prefix("test.").unwrap_or(flag);
    flag.split('=').next()
}

/// Returns what is known about a program, whatever the path and version in its name.
pub(crate) fn program(word: &str) -> Option<&'static Program> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static Program>> = LazyLock::new(|| {
        let named =
            |program: &'static Program| program.names.iter().map(move |name| (*name, program));
        PROGRAMS.into_iter().flatten().flat_map(named).collect()
    });
    let name = base_name(word);
    if name.is_empty() || name.len() > 40 {
        return None;
    }
    let name = name.to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    if ["ld-linux", "ld-musl", "ld.so", "ld64.so"]
        .iter()
        .any(|start| name.starts_with(start))
    {
        return BY_NAME.get("ld.so").copied();
    }
    let unversioned =
        name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let unversioned = unversioned.trim_end_matches('-');
    let found = BY_NAME.get(name).or_else(|| BY_NAME.get(unversioned));
    found.copied()
}

pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Flags that take a value in all commands of their program, so that what is attached to them is that value. `-G` of
/// git is not one: `git grep` has it without a value.
const GLUED: [(&str, &str); 7] = [
    ("git", "S"),
    ("cargo", "pjF"),
    ("rustc", "ADFWLl"),
    ("pandoc", "frtwMV"),
    ("pytest", "Wkmnr"),
    ("rspec", "feEtP"),
    ("iconv", "ft"),
];

/// Prefixes of linker options that load code, read options or write elsewhere.
const LINKER: [&str; 8] = [
    "-o",
    "-T",
    "-plugin",
    "--plugin",
    "--load-pass-plugin",
    "-mllvm",
    "--ou",
    "@",
];

/// Programs whose flags are whole words: they cannot be bundled, and no letter can be omitted.
const WHOLE_FLAGS: [&str; 2] = ["go", "terraform"];

/// Commands of `conda`, `pdm` and similar programs that run the words after them.
const RUNS: [&str; 5] = ["run", "r", "exec", "x", "shell"];

/// Harmless options of programs, whose names are prefixes of other options.
const WHOLE: [(&str, &str); 9] = [
    ("curl", "cookie"),
    ("curl", "netrc"),
    ("git", "text"),
    ("hg", "debug"),
    ("install", "strip"),
    ("jq", "slurp"),
    ("pytest", "co"),
    ("pytest", "pdb"),
    ("svn", "diff"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_under_any_path_case_and_version_and_listed_once() {
        for (word, expected) in [
            ("/usr/bin/python3.12", "python"),
            ("PYTHON", "python"),
            ("perl5.36", "perl"),
            ("/lib64/ld-linux-x86-64.so.2", "ld.so"),
            (".", "."),
            ("sqlite3", "sqlite"),
        ] {
            assert!(program(word).unwrap().names.contains(&expected), "{word}");
        }
        assert!(program("pythonic").is_none() && program("").is_none() && program("3").is_none());
        let programs = PROGRAMS.into_iter().flatten();
        let mut names: Vec<_> = programs.flat_map(|program| program.names).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn an_option_is_recognized_when_shortened_bundled_or_given_a_value() {
        let git = program("git").unwrap();
        for word in [
            "--output",
            "--output=x",
            "--outp=x",
            "--o",
            "--no-index",
            "--no-i",
            "--textc",
            "--tex",
            "-GO",
            "-pSc",
            "-C",
            "-C.",
            "-c",
        ] {
            assert!(git.has_option(word), "{word}");
        }
        for word in [
            "--text",
            "-Sconfig",
            "-SOC",
            "--oneline",
            "-5",
            "--stat",
            "--no-merges",
            "HEAD",
            "output",
            "--",
            "-p",
            "--cached",
        ] {
            assert!(!git.has_option(word), "{word}");
        }
        let cargo = program("cargo").unwrap();
        assert!(!cargo.has_option("-pCore") && cargo.has_option("-qC"));
        let go = program("go").unwrap();
        for word in [
            "-exec",
            "-exec=sh",
            "--exec=sh",
            "--vettool=x",
            "-o=x",
            "--o",
            "-C",
            "-test.cpuprofile=x",
        ] {
            assert!(go.has_option(word), "{word}");
        }
        for word in [
            "-run=TestFoo",
            "-short",
            "-count=1",
            "-v",
            "./...",
            "exec",
            "-",
        ] {
            assert!(!go.has_option(word), "{word}");
        }
        assert!(program("sort").unwrap().has_option("-ro"));
        assert!(program("find").unwrap().has_option("-delete"));
        assert!(!program("find").unwrap().has_option("-depth"));
        assert!(program("make").unwrap().has_option("SHELL=/tmp/x"));
    }

    #[test]
    fn options_by_which_fetchers_and_pagers_write_or_run_are_known() {
        let has = |name: &str, word: &str| program(name).unwrap().has_option(word);
        for word in [
            "-e",
            "--execute=output_document=x",
            "--exec",
            "--use-askpass=./evil",
            "--output-document=src/main.rs",
            "-D",
            "--dump-header",
            "--trace-ascii=x",
            "--stderr",
            "--libcurl",
            "--etag-save",
            "--hsts",
            "--alt-svc",
            "--cookie-jar",
            "--cookie-j=x",
            "--netrc-file",
            "--engine",
            "--unix-socket",
            "--sh-exec",
        ] {
            assert!(has("wget", word), "{word}");
        }
        for word in [
            "-sS",
            "-fsSL",
            "-I",
            "-i",
            "-L",
            "--netrc",
            "--cookie",
            "--cookie=a=b",
            "--silent",
            "--fail",
            "--location",
            "--head",
            "--max-time",
            "https://x.example/-o",
        ] {
            assert!(!has("curl", word), "{word}");
        }
        assert!(has("less", "-kx") && has("less", "--lesskey-src=x") && has("man", "-Hsh"));
        assert!(has("man", "-C") && has("man", "--config-file=x"));
        assert!(!has("man", "-k") && !has("man", "-f"));
    }
}
