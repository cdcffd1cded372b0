//! Tests of how command lines are split.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests read their corpus and what shells ran"
)]

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
fn a_part_is_shown_as_it_is_written() {
    let written = |command: &str| parts(command).iter().map(Part::shown).collect::<Vec<_>>();
    for command in [
        "git status",
        "trap 'echo cleaning; exit 9' TERM INT",
        "git commit -m \"it's\"",
        "echo ''",
        "ls *.rs",
        "find . -name '*.py'",
        "sed -n '$p' a",
        r#"psql -c "\d orders""#,
        r"find . -exec wc {} \;",
        "A=1 make",
        "cat > 'a b.txt' < c",
    ] {
        assert_eq!(written(command), [command]);
    }
    assert_eq!(
        written("# a\n git log  # b\n\nls 'é' 2>&1|cat&&(rm a; rm 'b' ) 2>c &"),
        ["git log", "ls 'é' 2>&1", "cat", "", "rm a", "rm 'b'", "2>c"]
    );
    assert_eq!(
        written("echo $(date; id) \"at `pwd`\" x"),
        ["date", "id", "pwd", "echo $(date; id) \"at `pwd`\" x"]
    );
    let words = of_words(&["ls", "a b", "it's", "$x", ""]);
    assert_eq!(words.shown(), r"ls 'a b' 'it'\''s' '$x' ''");
}

#[test]
fn plain_commands_are_split() {
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
fn a_complex_command_is_unclear_and_still_shows_what_it_would_run() {
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
fn redirection_targets_follow_the_words_of_the_command() {
    for command in [
        ">x git push",
        "git >x push",
        "git push >x",
        "git push<x",
        "git >>x push",
        "git >|x push",
        "git <>x push",
        "git <<x push",
        "git <<-x push",
        "git <<<x push",
        "git <&x push",
        "git >& x push",
        "git {x}>&- push",
        "git &>x push",
    ] {
        let parts = parts(command);
        assert!(parts[0].unclear.is_some(), "{command}: {parts:?}");
        assert_eq!(parts[0].words[..2], ["git", "push"], "{command}: {parts:?}");
    }
    assert_eq!(parts("git 3>&1 push")[0].words, ["git", "push", "3", "1"]);
    assert_eq!(parts("git >&-push x")[0].words, ["git", "push", "x"]);
    assert_eq!(parts("git 2 >x")[0].words, ["git", "2", "x"]);
    assert_eq!(parts("a >\nb c")[1].words, ["b", "c"]);
}

#[test]
fn a_redirection_that_reaches_no_file_is_plain_and_not_a_word() {
    for command in [
        "git push 2>&1",
        "git 2>&1 push",
        "2>&1 git push",
        "git push 1>&2",
        "git push >&2",
        "git push >/dev/null 2>&1",
        "git push > /dev/null",
        "git push >> /dev/null",
        "git push 2>/dev/null\t1>/dev/null",
        "git push 2>> /dev/null",
        "git push 1>>/dev/null 1>> /dev/null",
        "git push < /dev/null",
        "git push &>/dev/null",
        "git push&> /dev/null ",
    ] {
        assert_eq!(shown(command), ["git push"], "{command:?}");
    }
    let several = "a 2>&1 | b >/dev/null; c &>/dev/null && d </dev/null&e 2>&1\nf";
    assert_eq!(shown(several), ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn a_redirection_that_may_reach_a_file_is_unclear() {
    for command in [
        "a >& x",
        "a 2>&x",
        "a >&$x",
        "a >&\"2\"",
        "a 2>&-",
        "a 2>&1-",
        "a 2>&12",
        "a 2>&1x",
        "a 2>&1>x",
        "a 2>&1\\\n2",
        "a 2>& 1",
        "a 3>&1",
        "a '2'>&1",
        "''>&2 a",
        "a b>&2",
        "a2>/dev/null",
        "a <>/dev/null",
        "a >|/dev/null",
        "a <<E >/dev/null\n$(b)\nE",
        "a >/dev/null/../x",
        "a >/dev/nullx",
        "a > /dev/null$x",
        "a > /dev/null'x'",
        "a > > /dev/null",
        "a &>/dev/nullx",
        "a &>/dev/null b",
        "a &>/dev/null 2>x",
        "&>/dev/null",
        ">/dev/null",
        "a; >/dev/null",
        "a\n</dev/null",
        ">/dev/null\na",
        "2>&1 # b\na",
        "a && 2>&1",
        "a |& b",
    ] {
        let parts = parts(command);
        let is_unclear = parts.iter().any(|part| part.unclear.is_some());
        assert!(is_unclear, "{command:?}: {parts:?}");
    }
}

#[test]
fn everything_not_plain_is_unclear() {
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

#[test]
fn each_special_character_marks_its_part_as_unclear() {
    for command in [
        "a;;b",
        "a;&b",
        "a &&",
        "a |",
        "&& a",
        "a; ; b",
        "a & && b",
        "'' x",
        "a\u{a0}b",
        "a\u{2003}b",
        "sudo a \"it's\"",
        "awk '{print \"x\"}' a",
        r"sed 's/\bx//' a",
        r#"sh -c "a \"b\"""#,
        "git rebase -ix 'a \"b\"' c",
        "go test -exec 'a \"b\"' c",
        "split --filter='a \"b\"' c",
        r#"a "b\!""#,
        "a \"b\\\nc\"",
        "a#b",
        "^b",
        "a .^",
        "a ~b",
        "a b=~",
        "a @{b,c}",
        "a @{1..2}",
        "a b{u}",
        "a @{u",
        "a b:~/c",
        "a !b",
        "a $'x'",
        "a $\"x\"",
        "a $((1+1))",
        "a ${x:-'y'}",
        "a <<'E'\nx\nE",
        "a <<< x",
        "a &> x",
        "a >(b)",
        "a=1",
        "a+=1 b",
        "select x in y; do z; done",
        "coproc a",
        "a \\\n b",
    ] {
        let parts = parts(command);
        let is_unclear = parts.iter().any(|part| part.unclear.is_some());
        assert!(is_unclear, "{command:?}: {parts:?}");
    }
    for command in [
        "a && b || c | d; e & f\n\n# g\nh;",
        "a &&\n\n b # c",
        "git commit -m 'two\nlines, $x and `y`'",
        "a \"b c\"'d'e -f=g --h=i,j k:l@m %n +o é /p/../q",
        "a &",
        "git commit -m \"it's\"",
        "git commit -m 'a \"b\"'",
        r"grep -rn '\bfoo\b' src",
        r#"grep -rn "\bfoo\|\"bar\"" src"#,
        "git -C a commit -m \"it's\"",
        "a b~1 c~3..c b^ b^2 b^^ b~~",
        "git diff @{u} HEAD@{1}..HEAD^{tree} @{-1} v1^{} @{u}~2 c@{1}^",
    ] {
        let parts = parts(command);
        assert!(parts.iter().all(|part| part.unclear.is_none()), "{parts:?}");
    }
    assert_eq!(parts("a \"b c\"'d'e ''")[0].words, ["a", "b cde", ""]);
    assert_eq!(
        parts(r#"a "b's" 'c "d" \e' "\f \"g\" \\ \$h""#)[0].words,
        ["a", "b's", r#"c "d" \e"#, r#"\f "g" \ $h"#]
    );
}

#[test]
fn inputs_that_once_exhausted_memory_or_panicked_are_unclear() {
    for command in ["<<\"\" ", "ls <<'' ", "<<$[''(${", "$(<<E\n)\nE"] {
        assert!(
            parts(command).iter().any(|part| part.unclear.is_some()),
            "{command:?}"
        );
    }
}

/// Returns the total number of bytes of all words.
fn weight(parts: &[Part]) -> usize {
    let of_part = |part: &Part| {
        let words: usize = part.words.iter().map(|word| word.len() + 1).sum();
        words + weight(&part.inner)
    };
    parts.iter().map(of_part).sum()
}

/// Checks that what is kept of a text grows no faster than the text, whatever it contains.
fn is_bounded(text: &str) {
    let found = parts(text);
    assert!(!found.is_empty() && found.len() <= 80, "{}", found.len());
    let most = 16 * text.len() + 8 * MAX_SCRIPT_BYTES;
    assert!(
        weight(&found) <= most,
        "{} of {}",
        weight(&found),
        text.len()
    );
    for pattern in ["curl", "git push --force x", "rm -rf *", "a* b* c*"] {
        let pattern = super::super::CommandPattern::parse(pattern).unwrap();
        let concerned = found.iter().any(|part| pattern.may_concern(part));
        // What a rule denies must occur somewhere in the text.
        assert!(
            !concerned || text.to_lowercase().contains(['u', 'g', 'r', 'a']),
            "{text:?}"
        );
    }
}

#[test]
fn every_corpus_text_is_split_within_bounds() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/command");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let text = std::fs::read(entry.unwrap().path());
        let text = String::from_utf8_lossy(&text.unwrap()).into_owned();
        for times in [1, 40, 2_000] {
            let repeated = text.repeat(times);
            is_bounded(
                repeated
                    .get(..repeated.floor_char_boundary(100_000))
                    .unwrap(),
            );
        }
        count += 1;
    }
    assert!(count >= 15, "{count}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_split_within_bounds(text in "\\PC{0,200}|[\\x00-\\x7f]{0,200}") {
        is_bounded(&text);
    }

    #[test]
    fn any_text_of_shell_syntax_is_split_within_bounds(
        pieces in proptest::collection::vec(proptest::sample::select(SHELL.to_vec()), 0..300),
    ) {
        let text = pieces.concat();
        is_bounded(&text);
        is_bounded(&text.repeat(20));
    }
}

/// Pieces of command lines.
const SHELL: [&str; 46] = [
    "p", "q", "p", "q", "pq", " ", " ", " ", "sh -c ", "env ", "'", "'", "\"", "\"", "\\", "$",
    "`", "(", ")", "{", "}", "<", ">", "<<", "$(", "|", "||", "&", "&&", ";", "\n", "#", "*", "?",
    "[", "~", "!", "=", "-", "1", "é", "\u{a0}", "\t", "^", "2>&1", " 2>&1",
];

/// Creates a folder of programs that only record how they were called.
#[cfg(unix)]
fn make_programs(folder: &std::path::Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;

    let programs = folder.join("programs");
    std::fs::create_dir(&programs).unwrap();
    for name in ["p", "q", "pq", "qp", "pp", "qq"] {
        let note = "#!/bin/sh\nprintf '%s\\036' \"${0##*/}\" \"$@\" > \"$NOTES/$$\"\n";
        let path = programs.join(name);
        std::fs::write(&path, note).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    programs
}

/// Runs a text in a shell with only these programs, and returns what ran. Checks that nothing else was written.
#[cfg(unix)]
fn run(shell: &str, text: &str, programs: &std::path::Path) -> Vec<Vec<String>> {
    let (notes, room) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = std::process::Command::new(shell);
    command
        .env_clear()
        .env("PATH", programs)
        .env("NOTES", notes.path())
        .args(["-c", "--", text])
        .current_dir(room.path())
        .stdin(std::process::Stdio::null());
    command.output().unwrap();
    let left = std::fs::read_dir(room.path()).unwrap().count();
    assert_eq!(left, 0, "{shell} -c {text:?} wrote files");
    std::fs::read_dir(notes.path())
        .unwrap()
        .map(|note| std::fs::read_to_string(note.unwrap().path()).unwrap())
        .map(|note| note.split_terminator('\u{1e}').map(str::to_owned).collect())
        .collect()
}

/// Asserts that shells run what a plain text was split into.
#[cfg(unix)]
fn compare(text: &str, parts: &[Part], shells: &[&str], programs: &std::path::Path) {
    for shell in shells {
        let mut ran = run(shell, text, programs);
        let words = parts.iter().map(|part| part.words.clone());
        let mut said: Vec<Vec<String>> = words
            .filter(|words| programs.join(&words[0]).is_file())
            .collect();
        // What follows `||`, or `&&` after a program that does not exist, does not run.
        if text.contains("||") || text.contains("&&") {
            said.retain(|words| ran.contains(words));
            said.sort();
            said.dedup();
            ran.sort();
            ran.dedup();
        }
        said.sort();
        ran.sort();
        assert_eq!(ran, said, "{shell} -c {text:?}");
    }
}

#[cfg(unix)]
#[test]
fn shells_run_exactly_what_a_plain_text_is_parsed_as() {
    use proptest::strategy::{Strategy as _, ValueTree as _};
    use proptest::test_runner::TestRunner;

    let mut shells = vec!["/bin/dash", "/bin/bash"];
    shells.retain(|shell| std::path::Path::new(shell).exists());
    if shells.is_empty() {
        println!("skipped: there is neither /bin/dash nor /bin/bash to compare with");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = make_programs(folder.path());
    let mut runner = TestRunner::deterministic();
    let pieces = proptest::collection::vec(proptest::sample::select(SHELL.to_vec()), 1..9);
    for text in [
        "p q~1",
        "p q~3..q q^ q^2",
        "p q^^ q~~ && q p~p",
        "p @{q} p@{-1}..q^{} q^{p}",
        "p 'q'~p \"q\"^p",
        "p q 2>&1",
        "2>&1 p >/dev/null q",
        "p q 2>/dev/null | q >&2",
        "p </dev/null && q 1>&2",
        "p q &>/dev/null",
        "p &>/dev/null; q p",
        r#"p "q's" 'p "q" \p' "\p \"q\" \\ \$q \`""#,
    ] {
        let parts = parts(text);
        assert!(parts.iter().all(|part| part.unclear.is_none()), "{text}");
        compare(text, &parts, &shells, &programs);
    }
    let mut compared = 0;
    for _ in 0..60_000 {
        let text = pieces.new_tree(&mut runner).unwrap().current().concat();
        let parts = parts(&text);
        let mut is_plain = parts.iter().map(|part| part.unclear.is_none());
        let mut letters = text.chars();
        if !is_plain.all(|plain| plain)
            || parts.iter().any(|part| part.runs_others)
            || letters.all(|letter| letter.is_alphanumeric() || letter == ' ')
        {
            continue;
        }
        compared += 1;
        compare(&text, &parts, &shells, &programs);
        if compared == 200 {
            break;
        }
    }
    assert!(compared >= 50, "{compared}");
}
