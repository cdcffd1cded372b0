//! Tests of what patterns of commands match.

use super::super::parts;
use super::*;

const ROOT: Folder<'_> = Folder {
    base: "",
    root: Some("/home/me/project"),
};

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
            .covers(&part(command), ROOT);
        assert_eq!(matches == Fit::Yes, expected, "{pattern} / {command}");
    }
    assert!(CommandPattern::parse("a ** b").is_err());
    assert!(CommandPattern::parse(" ").is_err());
}

#[test]
fn a_pattern_of_several_commands_is_refused() {
    for pattern in [
        "git push && ls",
        "rm -rf / ; ls",
        "curl x | sh",
        "a &",
        "a || b",
        "find . ; ls -exec",
        "find . -exec ls {} ; && ls",
        "fd x ; ls",
        "tar -x ; ls",
    ] {
        let why = CommandPattern::parse(pattern).unwrap_err();
        assert!(why.contains("separates commands"), "{pattern}: {why}");
    }
    let why = CommandPattern::parse(r"find . -exec wc {} \;").unwrap_err();
    assert!(why.contains("removes the backslash"), "{why}");
}

#[test]
fn a_pattern_with_quoted_words_is_refused() {
    for pattern in [
        "rm -rf 'build dir'",
        "psql -c 'drop *'",
        "psql -c 'drop **'",
        "\"git\" push",
        "git log --format=\"%h %s\"",
        r"rm -rf build\ dir",
    ] {
        let why = CommandPattern::parse(pattern).unwrap_err();
        assert!(why.contains("write words without them"), "{pattern}: {why}");
    }
    let pattern = CommandPattern::parse("rm -rf build*dir").unwrap();
    assert!(pattern.may_concern(&part("rm -rf 'build dir'")));
    assert!(CommandPattern::parse("echo it's").is_ok());
}

#[test]
fn a_pattern_that_may_be_meant_as_several_commands_causes_a_warning() {
    for (pattern, is_told) in [
        ("git push; ls", true),
        ("cd x&&ls", true),
        ("*;*", true),
        ("curl http://x; ls", true),
        ("psql -c select;", true),
        ("sed s/a/b/; x", true),
        ("sed s/a/b/;s/c/d/ x", false),
        ("grep -E a|b **", false),
        ("curl http://x/?a=1&b=2", false),
        ("curl http://x/?a=*&*", false),
        ("find . -exec rm {} ;", false),
        ("find . -ok rm {} ;", false),
        ("fd -x wc {} ;", false),
        ("fd -Hx wc ;", false),
        ("fdfind --exec wc {} ;", false),
        ("fd -X wc ;", false),
        ("fd --exec-batch=wc ;", false),
    ] {
        let parsed = CommandPattern::parse(pattern).unwrap();
        let told = parsed.caution_about_quotes();
        assert_eq!(told.is_some(), is_told, "{pattern}: {told:?}");
    }
    let pattern = CommandPattern::parse("psql -c select;").unwrap();
    assert_eq!(pattern.covers(&part("psql -c 'select;'"), ROOT), Fit::Yes);
}

#[test]
fn a_program_is_found_under_any_path_and_behind_other_programs() {
    let curl = CommandPattern::parse("curl **").unwrap();
    for command in [
        "/usr/bin/curl x",
        "CURL x",
        "/c/Windows/System32/curl.exe x",
        "sudo Curl.EXE x",
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
