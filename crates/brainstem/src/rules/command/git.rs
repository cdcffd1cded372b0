//! Reads a git command line: which git command it is, what it runs, and what it writes.

use super::programs::{Program, program};

/// The git commands that only read.
pub(super) const GIT_READS: [&str; 9] = [
    "blame",
    "describe",
    "diff",
    "log",
    "ls-files",
    "rev-parse",
    "shortlog",
    "show",
    "status",
];

/// The everyday commands: wildcards match their words, except those listed below. Any other command, including an alias
/// or an extension, may run or write what its words name.
const KNOWN: [&str; 61] = [
    "add",
    "am",
    "apply",
    "archive",
    "bisect",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "checkout",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "config",
    "count-objects",
    "diff-files",
    "diff-index",
    "diff-tree",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "hook",
    "init",
    "ls-remote",
    "ls-tree",
    "merge",
    "merge-base",
    "merge-tree",
    "mv",
    "name-rev",
    "notes",
    "prune",
    "pull",
    "push",
    "range-diff",
    "rebase",
    "reflog",
    "remote",
    "reset",
    "restore",
    "rev-list",
    "revert",
    "rm",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stash",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "worktree",
];

/// Options before the command that take their value as a separate word.
const WITH_VALUE: [&str; 9] = [
    "-C",
    "-c",
    "--attr-source",
    "--config-env",
    "--git-dir",
    "--namespace",
    "--shallow-file",
    "--super-prefix",
    "--work-tree",
];

/// Commands whose words determine what runs, now or later, or which file is written: from the given word on, or all
/// words.
const HANDS_OVER: [(&str, Option<&str>); 6] = [
    ("bisect", Some("run")),
    ("bundle", Some("create")),
    ("config", None),
    ("filter-branch", None),
    ("hook", Some("run")),
    ("submodule", Some("foreach")),
];

/// First words with which `git config` only reads, after options for the source and the format.
const CONFIG_READS: [&str; 7] = [
    "--get",
    "--get-all",
    "--get-regexp",
    "--list",
    "-l",
    "get",
    "list",
];

/// The options that may precede those words.
const CONFIG_OPTIONS: [&str; 8] = [
    "--global",
    "--local",
    "--null",
    "--show-origin",
    "--show-scope",
    "--system",
    "--worktree",
    "-z",
];

/// Flags of a command whose value is run or written. For other commands, the same letters are harmless.
const FLAGS: [(&str, char); 5] = [
    ("archive", 'o'),
    ("clone", 'u'),
    ("difftool", 'x'),
    ("format-patch", 'o'),
    ("rebase", 'x'),
];

/// Options whose value is a program that runs.
const TAKES_PROGRAM: [&str; 4] = ["--exec", "--extcmd", "--receive-pack", "--upload-pack"];

/// Commands for which text attached to `-S` and `-G` is a search string.
const SEARCHES: [&str; 4] = ["diff", "log", "shortlog", "show"];

/// Commands for which text attached to `-L` is a range of lines, with their file.
const RANGES: [&str; 3] = ["blame", "log", "show"];

/// Options of `git push` that remove or overwrite branches.
const OVERWRITES: [&str; 5] = ["delete", "force", "force-with-lease", "mirror", "prune"];

/// What `git push` does with the words that no wildcard matches, worded as the end of a sentence.
const PUSHES: &str = "it removes or overwrites branches, or names another branch to write";

/// Commands for which the word after `-m` or `--message`, or the text attached to it, is a message. The same is true of
/// `stash push`, but `stash list` and `stash show` take the `-m` of `log`, and options after it.
const WITH_MESSAGE: [&str; 4] = ["commit", "merge", "notes", "tag"];

/// Options of these commands that take no value, so a `-m` after them is not their value.
const WITHOUT_VALUE: [&str; 8] = [
    "--all",
    "--allow-empty",
    "--amend",
    "--annotate",
    "--no-ff",
    "--no-verify",
    "--quiet",
    "--signoff",
];

/// Returns whether git runs what its words say: through a setting, an alias or one of the options for it.
pub(super) fn git_runs(words: &[String]) -> bool {
    let runs = |word: &String| {
        let name = word.split('=').next().unwrap_or_default();
        let is_setting =
            word.starts_with("-c") || ["config", "--config-env", "--config"].contains(&name);
        is_setting
            || ["run", "foreach", "filter-branch", "-x"].contains(&name)
            || name == "--exec-path"
            || TAKES_PROGRAM.contains(&name)
    };
    let Some(command) = GitCommand::of(words) else {
        return false;
    };
    let takes_program = |word: &String| flags_in(word).contains('u');
    words.iter().skip(1).any(runs) || command.name == "clone" && words.iter().any(takes_program)
}

/// A git command, with all words of its command line.
#[derive(Debug, Clone, Copy)]
pub(super) struct GitCommand<'a> {
    words: &'a [String],
    /// Its name; empty if there is none.
    name: &'a str,
    /// The index of the word that is its name, or would be.
    at: usize,
    /// The index of the first word that determines what is run or written.
    hands_over: Option<usize>,
}

impl<'a> GitCommand<'a> {
    /// Reads the words of git; `None` if they belong to another program.
    pub(super) fn of(words: &'a [String]) -> Option<Self> {
        words
            .first()
            .filter(|word| program(word).is_some_and(Program::is_git))?;
        let mut at = 1;
        while let Some(option) = words.get(at).filter(|word| word.starts_with('-')) {
            let has_value = WITH_VALUE.contains(&option.as_str());
            at += if has_value { 2 } else { 1 };
        }
        let name = words.get(at).map(String::as_str).unwrap_or_default();
        let only_reads = name == "config" && only_reads_config(words.get(at + 1..));
        let is_known = name.is_empty() || KNOWN.contains(&name) || GIT_READS.contains(&name);
        let handing_over = HANDS_OVER.iter().find(|(command, _)| *command == name);
        let hands_over = match handing_over.filter(|_| !only_reads) {
            Some((_, Some(from))) => words.iter().skip(at).position(|word| word == from),
            Some((_, None)) => Some(0),
            None if is_known => None,
            None => Some(0),
        };
        Some(Self {
            words,
            name,
            at,
            hands_over: hands_over.map(|after| at + after),
        })
    }

    /// Returns whether the word at `place` determines what git runs or writes, not counting the options that all its
    /// commands share.
    pub(super) fn determines_effect(&self, place: usize) -> bool {
        let word = |place: Option<usize>| {
            let word = place.and_then(|place| self.words.get(place));
            word.map(String::as_str).unwrap_or_default()
        };
        let (word, before) = (word(Some(place)), word(place.checked_sub(1)));
        let is_setting = place < self.at && ["-c", "--config-env"].contains(&before);
        let is_flag = |(command, flag): &(&str, char)| {
            let says = flags_in(word).contains(*flag) || flags_in(before).ends_with(*flag);
            *command == self.name && says
        };
        self.hands_over.is_some_and(|from| place >= from)
            || is_setting
            || TAKES_PROGRAM.contains(&before)
            || FLAGS.iter().any(is_flag)
    }

    /// Returns whether the word at `place` is a message, whatever it says.
    fn is_message(&self, place: usize) -> bool {
        let Some(before) = self.words.get(self.at + 1..place) else {
            return false;
        };
        // None of these flags takes a value, which the `m` would otherwise be.
        let are_free = |flags: &str| flags.chars().all(|it| "aenpqsv".contains(it));
        let is_flag = |word: &String| {
            word == "--message" || flags_in(word).strip_suffix('m').is_some_and(are_free)
        };
        // Such a flag with its message attached.
        let is_glued = |word: &String| {
            let glued = flags_in(word).split_once('m');
            word.starts_with("--message=")
                || glued.is_some_and(|(flags, text)| are_free(flags) && !text.is_empty())
        };
        // After an option that takes a value, the flag is that value, and the word is a file or an option.
        let is_value = |before: &[String]| {
            before.last().is_some_and(|word| {
                let is_known = WITHOUT_VALUE.contains(&word.as_str()) || is_glued(word);
                let flags = word.strip_prefix('-').filter(|_| !is_known);
                flags.is_some_and(|flags| !are_free(flags))
            })
        };
        let is_behind = before
            .split_last()
            .is_some_and(|(flag, before)| is_flag(flag) && !is_value(before));
        let has_it_glued = self.words.get(place).is_some_and(is_glued) && !is_value(before);
        let ends_options = |word: &String| word == "--" || word == "--end-of-options";
        let takes_message = WITH_MESSAGE.contains(&self.name)
            || self.name == "stash" && before.first().is_some_and(|word| word == "push");
        takes_message && (is_behind || has_it_glued) && !before.iter().any(ends_options)
    }

    /// Returns what else no wildcard of such a pattern matches, worded as the end of a list.
    pub(super) fn more(&self) -> &'static str {
        if self.name == "push" {
            ", nor for what removes or overwrites branches or names another branch: +BRANCH, :BRANCH, FROM:TO, -d, -f, \
             --delete, --force, --force-with-lease, --mirror, --prune"
        } else {
            ""
        }
    }

    /// Returns why no wildcard matches this word of `git push`: it removes or overwrites a branch, like `:main`,
    /// `+main` and `--force`, or names the branch that is written. `None` if the pattern with the wildcard says the
    /// same itself.
    pub(super) fn pushes(&self, word: &str, pattern: &str) -> Option<&'static str> {
        if self.name != "push" {
            return None;
        }
        let marks: [fn(&str) -> bool; 3] = [
            |word| word.starts_with('+'),
            |word| word.starts_with(':'),
            |word| word.contains(':') && !word.starts_with('-'),
        ];
        let is_marked = marks.iter().any(|has| has(word) && !has(pattern));
        // What is attached to `-o` is its value.
        let flags = flags_in(word).split('o').next().unwrap_or_default();
        let name = word.strip_prefix("--").unwrap_or_default();
        let name = name.split('=').next().unwrap_or_default();
        let overwrites = OVERWRITES.iter().any(|known| known.starts_with(name));
        let is_option = !name.is_empty() && overwrites;
        (is_marked || is_option || flags.contains(['d', 'f'])).then_some(PUSHES)
    }

    /// Returns whether the word at `place` is the value of `git push -o`. After another option, the `-o` may itself be
    /// a value.
    pub(super) fn is_push_option(&self, place: usize) -> bool {
        let [.., before, flag] = self.words.get(..place).unwrap_or_default() else {
            return false;
        };
        ["-o", "--push-option"].contains(&flag.as_str()) && !before.starts_with('-')
    }

    /// Returns the part of the word at `place` that may contain options, and the part that may name a file.
    pub(super) fn split<'w>(&self, place: usize, word: &'w str) -> (&'w str, &'w str) {
        if self.is_message(place) {
            return ("", "");
        }
        match word.split_at_checked(2) {
            Some((flag @ ("-S" | "-G"), _)) if SEARCHES.contains(&self.name) => (flag, flag),
            Some((flag @ "-L", range)) if RANGES.contains(&self.name) => (flag, range),
            _ => (word, word),
        }
    }
}

/// Returns whether `git config` with these words only reads. A name on its own also reads.
fn only_reads_config(words: Option<&[String]>) -> bool {
    let words = words.unwrap_or_default().iter().map(String::as_str);
    let mut words = words.skip_while(|word| CONFIG_OPTIONS.contains(word));
    match (words.next(), words.next()) {
        (Some(word), _) if CONFIG_READS.contains(&word) => true,
        // The names of settings contain a dot; those of subcommands, such as `edit`, do not.
        (Some(name), None) => !name.starts_with('-') && name.contains('.'),
        _ => false,
    }
}

/// Returns the letters of a word that is a flag or a bundle of flags.
fn flags_in(word: &str) -> &str {
    let letters = word.strip_prefix('-');
    let letters = letters.filter(|rest| !rest.starts_with('-'));
    letters.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_that_deletes_or_overwrites_is_detected_unless_the_pattern_states_it() {
        let words = ["git", "-C", "a", "push"].map(str::to_owned);
        let push = GitCommand::of(&words).unwrap();
        for (word, pattern) in [
            ("+main", "*"),
            (":main", ""),
            ("v9:prod", "v*"),
            (":refs/heads/ci/x", "*:refs/heads/ci/*"),
            ("+HEAD:ci", "*:ci"),
            ("git@host:x.git", ""),
            ("-d", ""),
            ("-uf", ""),
            ("--force", ""),
            ("--force-with-lease=main", ""),
            ("--del", ""),
            ("--mirror", ""),
            ("--prune", ""),
        ] {
            assert!(push.pushes(word, pattern).is_some(), "{word} {pattern}");
        }
        for (word, pattern) in [
            ("main", "*"),
            ("v9", "v*"),
            ("HEAD:refs/for/main", "HEAD:refs/for/*"),
            ("+a", "+*"),
            ("-u", ""),
            ("-ofd", ""),
            ("--tags", ""),
            ("--follow-tags", ""),
            ("--", ""),
        ] {
            assert_eq!(push.pushes(word, pattern), None, "{word} {pattern}");
        }
        let words = ["git", "log"].map(str::to_owned);
        assert_eq!(GitCommand::of(&words).unwrap().pushes(":x", ""), None);
    }

    #[test]
    fn the_word_that_determines_what_git_runs_or_writes_is_found() {
        for (line, expected) in [
            ("git submodule foreach x", Some(2)),
            ("git -C a --no-pager submodule --quiet foreach x", Some(6)),
            ("git --namespace submodule status foreach", None),
            ("git config core.pager x", Some(1)),
            ("git config --get core.pager", None),
            ("git config set core.pager get", Some(1)),
            ("git config --global --list", None),
            ("git config --show-origin -z --get x.y", None),
            ("git config --global core.pager", None),
            ("git config --global core.pager x", Some(1)),
            ("git config --global --unset core.pager", Some(1)),
            ("git config edit", Some(1)),
            ("git config --edit", Some(1)),
            ("git config", Some(1)),
            ("git archive -o x HEAD", Some(2)),
            ("git archive --format=tar -vo x HEAD", Some(3)),
            ("git ls-files -o", None),
            ("git clone -u x y", Some(2)),
            ("git push -u origin", None),
            ("git -C a send-email --to=b", Some(3)),
            ("git merge-index touch -a", Some(1)),
            ("git my-alias", Some(1)),
            ("git -c a=b log", Some(2)),
            ("git switch -c a", None),
            ("git add config", None),
            ("git", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let command = GitCommand::of(&words).unwrap();
            let first = (0..words.len()).find(|place| command.determines_effect(*place));
            assert_eq!(first, expected, "{line}");
        }
        for name in ["/usr/bin/git", "GIT", "git.exe"] {
            assert!(GitCommand::of(&[name.to_owned()]).is_some(), "{name}");
        }
        assert!(GitCommand::of(&["gitk".to_owned()]).is_none());
        assert!(GitCommand::of(&[]).is_none());
    }
}
