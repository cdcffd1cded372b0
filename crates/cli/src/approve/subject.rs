//! The subject of a call, as far as its arguments show it: the change to a file, the command, or the address.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use neuraxis::tools::{content_as_written, patch_as_applied};
use serde_json::{Map, Value};
use similar::TextDiff;
use url::Url;

use super::arguments::faithful;
use crate::call::command_line;
use crate::rows::{Mark, Row, under};

/// The maximum size in bytes of a file that a change is compared with.
const MAX_COMPARED: u64 = 1024 * 1024;

/// The number of context lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// Shown for a change in another folder, whose files may differ.
const ELSEWHERE: &str = ", in the folder of its run, which is not this one:";

/// Shown for a patch in the form the model wrote it.
const MISFIT: &str = " this, but the patch does not fit the current files:";

/// The arguments that name a call's subject, each with its title.
const TARGETS: [(&str, &str); 8] = [
    ("url", "address"),
    ("uri", "address"),
    ("path", "path"),
    ("file", "path"),
    ("from", "from"),
    ("to", "to"),
    ("query", "query"),
    ("pattern", "pattern"),
];

/// The subject of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Subject {
    /// The lines that show the subject. Empty if the arguments do not show one, or can be read in two ways.
    pub(super) rows: Vec<Row>,
    /// The arguments that those lines do not show, as JSON; `None` if they show all.
    pub(super) rest: Option<String>,
}

/// Returns the subject of a call. Without a project folder it is not compared with any file.
pub(super) fn of(tool: &str, arguments: &str, project: Option<&Path>) -> Subject {
    let Some(Value::Object(mut arguments)) = faithful(arguments) else {
        return Subject::default();
    };
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    // Lines of a multi-line address could be taken for lines of the program, so it is quoted with the other arguments.
    let is_forged = |title, target: &str| title == "address" && target.contains(char::is_control);
    let targets = || {
        let named = TARGETS
            .iter()
            .filter_map(|(name, title)| Some((*name, *title, text(name)?)));
        named.filter(|(_, title, target)| !is_forged(*title, target))
    };
    let (rows, shown) = if let (Some(path), Some(content)) = (text("path"), text("content")) {
        (
            change_rows(tool, path, content, project),
            vec!["path", "content"],
        )
    } else if let Some(patch) = text("patch") {
        (patch_rows(tool, patch, project), vec!["patch"])
    } else if let Some(patch) = text("diff") {
        (patch_rows(tool, patch, project), vec!["diff"])
    } else if let Some(command) = command_line(&arguments) {
        command_rows(&command, &arguments)
    } else {
        let rows = targets().flat_map(|(_, title, target)| {
            let rows = titled(&format!("{title}:"), target, Mark::Plain).into_iter();
            let host = real_host(target).filter(|_| title == "address");
            let host = host.map(|host| titled("its host is:", &host, Mark::Place));
            rows.chain(host.unwrap_or_default())
        });
        (rows.collect(), targets().map(|(name, ..)| name).collect())
    };
    arguments.retain(|name, _| !shown.contains(&name.as_str()));
    let rest = (!arguments.is_empty()).then(|| Value::Object(arguments).to_string());
    Subject { rows, rest }
}

/// Returns the host that an address leads to if it is written in another form: in look-alike letters or as a number.
fn real_host(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let host = url.host_str()?;
    let written = address.split_once("://").map_or("", |(_, rest)| rest);
    let written = written.split(['/', '?', '#', '\\']).next();
    let written = written.and_then(|written| written.rsplit('@').next());
    let is_as_written = written.is_some_and(|it| it.to_ascii_lowercase().starts_with(host));
    (!is_as_written).then(|| host.to_owned())
}

/// Formats a command, and returns the names of the arguments that this shows.
fn command_rows(command: &str, arguments: &Map<String, Value>) -> (Vec<Row>, Vec<&'static str>) {
    let mut rows = titled("runs:", command, Mark::Place);
    // A list of words is quoted for a shell here; the exact words are shown below.
    let is_line =
        arguments.get("command").is_some_and(Value::is_string) && !arguments.contains_key("args");
    let mut shown = if is_line { vec!["command"] } else { Vec::new() };
    let folders = [
        "cwd",
        "folder",
        "working_dir",
        "working_directory",
        "workdir",
        "directory",
        "dir",
    ];
    let mut folders = folders
        .into_iter()
        .filter_map(|name| Some((name, arguments.get(name)?.as_str()?)));
    if let Some((name, folder)) = folders.next() {
        shown.push(name);
        rows.extend(titled("in:", folder, Mark::Plain));
    }
    if let Some(access) = arguments.get("access").and_then(Value::as_array) {
        let named: Vec<&str> = access.iter().filter_map(Value::as_str).collect();
        if named.len() == access.len() {
            shown.push("access");
        }
        let access = named;
        if !access.is_empty() {
            rows.extend(titled("with access to:", &access.join(", "), Mark::Place));
        }
    }
    (rows, shown)
}

/// Formats a patch. A patch of the built-in tool is fitted to the current files, since the line numbers that a model
/// writes may be wrong.
fn patch_rows(tool: &str, patch: &str, project: Option<&Path>) -> Vec<Row> {
    let (title, applied) = match (tool, project) {
        (_, None) => (format!("{tool} would change{ELSEWHERE}"), None),
        ("apply_patch", Some(project)) => match patch_as_applied(project, patch) {
            None => (format!("{tool} would change{MISFIT}"), None),
            applied => (format!("{tool} would change:"), applied),
        },
        _ => (format!("{tool} would change:"), None),
    };
    let patch = applied.as_deref().unwrap_or(patch);
    under(title, patch.lines().map(Row::of_diff))
}

fn titled(title: &str, text: &str, mark: Mark) -> Vec<Row> {
    under(title, text.split('\n').map(|line| Row::new(mark, line)))
}

/// Formats the change from the current file to the content to be written.
fn change_rows(tool: &str, path: &str, content: &str, project: Option<&Path>) -> Vec<Row> {
    let Some(project) = project else {
        return titled_lines(format!("the content for {path}{ELSEWHERE}"), content);
    };
    let old = match current_content(path, project) {
        CurrentContent::Text(old) => old,
        CurrentContent::Nothing => return titled_lines(format!("the new file {path}:"), content),
        CurrentContent::Unreadable => {
            let title = format!("{path}, replacing content that cannot be compared:");
            return titled_lines(title, content);
        }
    };
    let content = match tool {
        "write_file" => content_as_written(old.as_bytes(), content),
        _ => Cow::Borrowed(content),
    };
    if old == content {
        return titled("no change to:", path, Mark::Plain);
    }
    let diff = TextDiff::from_lines(old.as_str(), &*content);
    let diff = diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .to_string();
    let title = format!("the change to {path} as it is now:");
    // With mixed line endings, a line may differ only in its ending, so the ending must be visible.
    let count = |ends: &str| old.matches(ends).count() + content.matches(ends).count();
    let lines: Vec<&str> = match [0, count("\n")].contains(&count("\r\n")) {
        true => diff.lines().collect(),
        false => diff.split_terminator('\n').collect(),
    };
    under(title, lines.into_iter().map(Row::of_diff))
}

fn titled_lines(title: String, content: &str) -> Vec<Row> {
    let added = |line: &str| Row::new(Mark::Added, format!("+{line}"));
    // A new file has no other lines to compare with, so its line endings are visible.
    under(title, content.split_terminator('\n').map(added))
}

/// What a path currently holds.
enum CurrentContent {
    Text(String),
    Nothing,
    Unreadable,
}

/// Reads what a path below the project folder holds. Only for display: the tool itself checks again.
fn current_content(path: &str, project: &Path) -> CurrentContent {
    let full = project.join(path);
    let (Ok(root), Ok(full)) = (project.canonicalize(), full.canonicalize()) else {
        return if is_free(&full) {
            CurrentContent::Nothing
        } else {
            CurrentContent::Unreadable
        };
    };
    if !full.starts_with(&root) {
        return CurrentContent::Unreadable;
    }
    text_of(full).map_or(CurrentContent::Unreadable, CurrentContent::Text)
}

fn is_free(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn text_of(file: PathBuf) -> Option<String> {
    // Opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(&file).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_COMPARED {
        return None;
    }
    let mut text = String::new();
    let file = std::fs::File::open(file).ok()?;
    file.take(MAX_COMPARED).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(tool: &str, arguments: &str, project: &Path) -> Vec<String> {
        let rows = of(tool, arguments, Some(project)).rows;
        rows.into_iter().map(|row| row.text).collect()
    }

    #[test]
    fn a_change_is_shown_as_a_diff_against_the_current_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), "one\ntwo\n").unwrap();
        let arguments = r#"{"path":"notes.txt","content":"one\nthree\n"}"#;
        assert_eq!(
            seen("write_file", arguments, folder.path()),
            [
                "the change to notes.txt as it is now:",
                "@@ -1,2 +1,2 @@",
                " one",
                "-two",
                "+three",
            ]
        );
    }

    #[test]
    fn a_multi_line_address_cannot_imitate_other_rows() {
        let forged = r#"{"url":"https://\u0445.example/\nits host is:\nexample.com"}"#;
        let subject = of("web_fetch", forged, None);
        assert!(subject.rows.is_empty(), "{:?}", subject.rows);
        let rest = subject.rest.unwrap();
        assert!(rest.contains(r"\nits host is:\n"), "{rest}");
    }

    #[test]
    fn a_byte_order_mark_and_line_endings_that_write_file_keeps_are_no_change() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), "\u{feff}one\r\ntwo\r\n").unwrap();
        let arguments = r#"{"path":"notes.txt","content":"one\nthree\n"}"#;
        assert_eq!(
            seen("write_file", arguments, folder.path())[2..],
            [" \u{feff}one", "-two", "+three"]
        );
        // Other tools write the content unchanged.
        assert_eq!(
            seen("fs__write", arguments, folder.path())[2..],
            ["-\u{feff}one\r", "-two\r", "+one", "+three"]
        );
    }

    #[test]
    fn differing_line_endings_are_shown_when_a_file_mixes_them() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), "one\r\ntwo\n").unwrap();
        let arguments = r#"{"path":"notes.txt","content":"one\ntwo\n"}"#;
        assert_eq!(
            seen("write_file", arguments, folder.path())[2..],
            ["-one\r", "+one", " two"]
        );
    }

    #[test]
    fn the_line_endings_of_a_new_file_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = r##"{"path":"new.sh","content":"#!/bin/sh\r\nls\n\n"}"##;
        assert_eq!(
            seen("write_file", arguments, folder.path())[1..],
            ["+#!/bin/sh\r", "+ls", "+"]
        );
    }

    #[test]
    fn a_file_outside_the_project_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(folder.path().join("secret"), "hunter2\n").unwrap();
        let arguments = r#"{"path":"../secret","content":"x"}"#;
        assert_eq!(
            seen("write_file", arguments, &project),
            [
                "../secret, replacing content that cannot be compared:",
                "+x"
            ]
        );
    }

    #[test]
    fn a_patch_is_shown_with_the_line_numbers_where_it_applies() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "one\ntwo\nthree\nfour\n").unwrap();
        let shown = |tool: &str, lines: &str| {
            let patch = format!("--- a/a.txt\n+++ b/a.txt\n{lines}");
            let arguments = serde_json::json!({ "patch": patch }).to_string();
            seen(tool, &arguments, folder.path())[3..].join("\n")
        };
        let wrong = "@@ -40,7 +41,9 @@ fn f() {\n two\n+2\n@@\n-four";
        assert_eq!(
            shown("apply_patch", wrong),
            "@@ -2 +2,2 @@\n two\n+2\n@@ -4 +4,0 @@\n-four"
        );
        let v4a = "*** Begin Patch\n*** Update File: a.txt\n two\n+2\n*** End Patch\n";
        let arguments = serde_json::json!({ "patch": v4a }).to_string();
        assert_eq!(
            seen("apply_patch", &arguments, folder.path())[1..].join("\n"),
            "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -2 +2,2 @@\n two\n+2"
        );
        // A patch of another tool, or one that does not fit, is shown unchanged.
        assert_eq!(shown("fs__patch", wrong), wrong);
        let misfit = "@@ -1 +1 @@\n-five\n+5";
        assert_eq!(shown("apply_patch", misfit), misfit);
    }

    #[test]
    fn a_patch_that_does_not_fit_is_labelled_as_such() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "one\n").unwrap();
        let title = |old: &str| {
            let patch = format!("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-{old}\n+1\n");
            let arguments = serde_json::json!({ "patch": patch }).to_string();
            seen("apply_patch", &arguments, folder.path()).swap_remove(0)
        };
        assert_eq!(title("one"), "apply_patch would change:");
        assert!(title("five").ends_with("this, but the patch does not fit the current files:"));
    }

    #[test]
    fn a_change_in_another_folder_is_not_compared_with_any_file() {
        for (tool, arguments, expected) in [
            (
                "write_file",
                r#"{"path":"a.txt","content":"b"}"#,
                "the content for a.txt, in the folder of its run, which is not this one:",
            ),
            (
                "apply_patch",
                r#"{"patch":"+b"}"#,
                "apply_patch would change, in the folder of its run, which is not this one:",
            ),
        ] {
            let rows = of(tool, arguments, None).rows.into_iter();
            let texts: Vec<String> = rows.map(|row| row.text).collect();
            assert_eq!(texts, [expected, "+b"]);
        }
    }

    #[test]
    fn a_command_given_as_a_list_is_quoted_when_arguments_contain_spaces() {
        let arguments = r#"{"command":"git","args":["commit","-m","a b; c"],"cwd":"src"}"#;
        assert_eq!(
            seen("run_command", arguments, Path::new("/")),
            ["runs:", "git commit -m 'a b; c'", "in:", "src"]
        );
    }

    #[test]
    fn a_host_that_differs_from_its_spelling_in_the_address_is_named() {
        for (address, host) in [
            ("https://Example.com:8080/a", None),
            ("https://ex\u{430}mple.com/a", Some("xn--exmple-4nf.com")),
            (
                "https://xn--exmple-4nf.com@ex\u{430}mple.com/?xn--exmple-4nf.com",
                Some("xn--exmple-4nf.com"),
            ),
            ("http://2130706433/", Some("127.0.0.1")),
        ] {
            let arguments = serde_json::json!({ "url": address }).to_string();
            let expected = ["address:", address].into_iter();
            let expected = expected.chain(host.map(|_| "its host is:")).chain(host);
            assert_eq!(
                seen("web_fetch", &arguments, Path::new("/")),
                expected.collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn arguments_with_duplicate_keys_have_no_subject() {
        let arguments = r#"{"command":"ls","command":"rm -rf /"}"#;
        assert_eq!(of("run_command", arguments, None), Subject::default());
    }

    #[test]
    fn arguments_that_no_row_shows_are_left_for_the_rest() {
        let rest = |arguments| of("tool", arguments, None).rest;
        assert_eq!(
            rest(r#"{"command":"ls","cwd":"src","access":["git"]}"#),
            None
        );
        assert_eq!(rest(r#"{"command":"ls","directory":"src"}"#), None);
        let more = r#"{"timeout_seconds":600,"wait":true}"#;
        assert_eq!(
            rest(r#"{"command":"ls","timeout_seconds":600,"wait":true}"#).as_deref(),
            Some(more)
        );
        assert!(rest(r#"{"command":["rm","-rf","a b"]}"#).is_some());
        assert!(rest(r#"{"command":"ls","access":["git",7]}"#).is_some());
        assert_eq!(rest(r#"{"path":"a","content":"b"}"#), None);
        assert!(rest(r#"{"path":"a","content":"b","create_folders":true}"#).is_some());
        assert!(rest(r#"{"patch":"x","diff":"y"}"#).is_some());
    }
}
