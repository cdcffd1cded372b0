//! The result of a call: a few words for its line, and the lines below it.

use neuraxis::core::log::describe::counted;
use neuraxis::core::{JsonText, ToolResult};
use serde_json::Value;

use crate::detail::Detail;
use crate::glyphs::{DOT, MINUS};
use crate::harmless::one_line_of;
use crate::rows::{Mark, Row, ends_of};

/// The number of lines shown by default from the beginning and the end of an output.
const FIRST_LINES: usize = 4;
const LAST_LINES: usize = 4;

/// How many lines of a change are shown by default.
const CHANGE_LINES: usize = 12;

/// The maximum number of lines shown for any call.
const MAX_LINES: usize = 500;

/// The maximum number of characters of a value on its call's line.
const MAX_VALUE_CHARS: usize = 60;

/// Describes a call's result in a few words: `12 lines`, `exit 101`, `+3 −1`. `None` if there is nothing to describe.
pub(crate) fn outcome(result: &ToolResult) -> Option<String> {
    outcome_of(&result.value, result.metadata.as_ref())
}

/// Same as [`outcome`], from a call's value and its tool's metadata.
pub(crate) fn outcome_of(value: &JsonText, metadata: Option<&JsonText>) -> Option<String> {
    let value: Value = serde_json::from_str(value.as_str()).ok()?;
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    if let Some(command_end) = command_end(&value) {
        return Some(command_end + &side_effects(&value));
    }
    if value.get("change").and_then(Value::as_str) == Some("unchanged") {
        return Some("unchanged".to_owned());
    }
    if let Some((added, removed)) = changed(&value, metadata) {
        return Some(format!("+{added} {MINUS}{removed}"));
    }
    if let (Some(first), Some(last)) = (number("start_line"), number("end_line")) {
        let shown = (last + 1).saturating_sub(first.max(1));
        return Some(match number("total_lines") {
            Some(all) if all > shown => format!("{shown} of {}", counted(all, "line")),
            _ => counted(shown, "line"),
        });
    }
    if let Some(total) = number("total_hits") {
        return Some(counted(total, "hit"));
    }
    if let Some(entries) = value.get("entries").and_then(Value::as_array) {
        return Some(match entries.len() {
            1 => "1 entry".to_owned(),
            entries => format!("{entries} entries"),
        });
    }
    described(&value)
}

/// Describes how a command ended. `None` if the value is not the result of a command.
fn command_end(value: &Value) -> Option<String> {
    if value.get("timed_out") == Some(&Value::Bool(true)) {
        return Some("timed out".to_owned());
    }
    if let Some(code) = value.get("exit_code").and_then(Value::as_i64) {
        return Some(format!("exit {code}"));
    }
    let signal = value.get("signal").and_then(Value::as_i64)?;
    Some(format!("signal {signal}"))
}

/// Describes what happened to a command and its files, which its own output cannot show.
fn side_effects(value: &Value) -> String {
    let mut words = String::new();
    if value.get("left_running") == Some(&Value::Bool(true)) {
        words.push_str(&format!("{DOT}the processes it left running were ended"));
    }
    let paths = |name: &str| {
        let paths = value.get(name).and_then(Value::as_array);
        let paths = paths.into_iter().flatten().filter_map(Value::as_str);
        let paths: Vec<&str> = paths.collect();
        (!paths.is_empty()).then(|| short(&paths.join(", ")))
    };
    if let Some(renamed) = paths("set_aside") {
        words.push_str(&format!(
            "{DOT}renamed with the suffix .set-aside: {renamed}"
        ));
    }
    if let Some(changed) = paths("changed_for_git") {
        words.push_str(&format!(
            "{DOT}changed what your git reads or runs: {changed}"
        ));
    }
    if let Some(repository) = value.get("repository_outside").and_then(Value::as_str) {
        let repository = short(repository);
        words.push_str(&format!(
            "{DOT}cannot write to {repository}, which is outside the project"
        ));
    }
    if let Some(what) = value.get("repository_runs_no").and_then(Value::as_str) {
        let what = short(what);
        words.push_str(&format!("{DOT}the repository's {what} did not run"));
    }
    words
}

/// Describes a value that has no known fields.
fn described(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => {
            let words = ["title", "summary"].into_iter();
            let mut words = words.filter_map(|name| fields.get(name)?.as_str());
            words.next().map(short)
        }
        Value::Array(items) => Some(counted(items.len() as u64, "item")),
        Value::String(text) => match text.trim().lines().count() {
            0 => None,
            1 => Some(short(text)),
            lines => Some(counted(lines as u64, "line")),
        },
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Returns the number of lines that a call added and removed.
fn changed(value: &Value, metadata: Option<&JsonText>) -> Option<(u64, u64)> {
    let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64);
    if let Some(files) = value.get("files").and_then(Value::as_array) {
        let sum = |name: &str| {
            files
                .iter()
                .map(|file| number(file, name))
                .sum::<Option<u64>>()
        };
        return Some((sum("added_lines")?, sum("removed_lines")?));
    }
    let metadata: Value = serde_json::from_str(metadata?.as_str()).ok()?;
    Some((
        number(&metadata, "added_lines")?,
        number(&metadata, "removed_lines")?,
    ))
}

/// Returns the lines that show what a call printed or changed.
pub(crate) fn rows(arguments: &str, result: &ToolResult, detail: Detail) -> Vec<Row> {
    let Ok(value) = serde_json::from_str::<Value>(result.value.as_str()) else {
        return Vec::new();
    };
    let is_verbose = detail == Detail::Verbose;
    if result.failure.is_some() {
        // What an interrupted call had printed.
        let printed = value.get("printed").and_then(Value::as_str);
        let rows = printed.map_or_else(Vec::new, |printed| lines_of(printed).collect());
        return match is_verbose {
            true => bounded(rows),
            false => ends_of(rows, FIRST_LINES, LAST_LINES),
        };
    }
    if command_end(&value).is_some() {
        let output = ["stdout", "stderr"].into_iter();
        let output = output.filter_map(|name| value.get(name)?.as_str());
        let rows = output.flat_map(lines_of).collect();
        return match is_verbose {
            true => bounded(rows),
            false => ends_of(rows, FIRST_LINES, LAST_LINES),
        };
    }
    if let Some(rows) = change(arguments, result) {
        return match is_verbose {
            true => bounded(rows),
            false => ends_of(rows, CHANGE_LINES, 0),
        };
    }
    if !is_verbose {
        return Vec::new();
    }
    let text = ["text", "content"].into_iter();
    let mut text = text.filter_map(|name| value.get(name)?.as_str());
    let shown = match text.next() {
        Some(text) => text.to_owned(),
        None => match &value {
            Value::String(text) => text.clone(),
            other => format!("{other:#}"),
        },
    };
    bounded(lines_of(&shown).collect())
}

/// Returns the change that a call made: as its tool reports it, or else the patch from its arguments. Line numbers of
/// the latter are left out, since the patch may have been applied elsewhere.
fn change(arguments: &str, result: &ToolResult) -> Option<Vec<Row>> {
    let of = |json: &str, name: &str| -> Option<String> {
        let value: Value = serde_json::from_str(json).ok()?;
        Some(value.get(name)?.as_str()?.to_owned())
    };
    let tool_metadata = result.metadata.as_ref();
    let diff = tool_metadata.and_then(|tool_metadata| of(tool_metadata.as_str(), "diff"));
    let diff = diff.or_else(|| Some(without_numbers(&of(arguments, "patch")?)))?;
    let is_head = |line: &&str| ["--- original", "+++ modified"].contains(line);
    let lines = diff.split_terminator('\n').filter(|line| !is_head(line));
    let mut rows: Vec<Row> = lines.map(Row::of_diff).collect();
    // With mixed line endings, a line may differ only in its ending, so the ending must be visible.
    let says_unended = |row: &Row| row.text.starts_with('\\');
    let is_unended = |index: usize| rows.get(index + 1).is_some_and(says_unended);
    let lines = rows.iter().enumerate();
    let lines = lines.filter(|(index, row)| row.mark != Mark::Place && !is_unended(*index));
    let lines = lines.filter(|(_, row)| !says_unended(row));
    let ends: Vec<bool> = lines.map(|(_, row)| row.text.ends_with('\r')).collect();
    let is_mixed = ends.contains(&true) && ends.contains(&false);
    let end = if is_mixed { "␍" } else { "" };
    for row in &mut rows {
        if let Some(line) = row.text.strip_suffix('\r') {
            row.text = format!("{line}{end}");
        }
    }
    Some(rows)
}

/// Returns a patch in which the first line of each hunk is only `@@`.
fn without_numbers(patch: &str) -> String {
    let lines = patch.lines().map(|line| match line.starts_with("@@") {
        true => "@@\n".to_owned(),
        false => format!("{line}\n"),
    });
    lines.collect()
}

/// Returns the lines of an output as a terminal would show them: without colors, and with only the last state of a line
/// that overwrites itself.
pub(crate) fn lines_of(output: &str) -> impl Iterator<Item = Row> {
    let plain = anstream::adapter::strip_str(output).to_string();
    let lines: Vec<Row> = plain
        .trim_end()
        .lines()
        .map(|line| {
            line.trim_end_matches('\r')
                .rsplit('\r')
                .next()
                .unwrap_or_default()
        })
        .map(|line| Row::new(Mark::Plain, line))
        .collect();
    let is_empty = plain.trim().is_empty();
    lines.into_iter().filter(move |_| !is_empty)
}

fn bounded(rows: Vec<Row>) -> Vec<Row> {
    ends_of(rows, MAX_LINES / 2, MAX_LINES / 2)
}

fn short(text: &str) -> String {
    one_line_of(text, MAX_VALUE_CHARS)
}

#[cfg(test)]
mod tests {
    use neuraxis::core::ToolResult;
    use serde_json::json;

    use super::*;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers make the value for it"
    )]
    fn result(value: Value, metadata: Option<Value>) -> ToolResult {
        let mut record = json!({
            "tool_call_id": "call_1", "name": "tool", "index": 0, "status": "done", "value": value,
        });
        if let Some(metadata) = metadata {
            record["metadata"] = metadata;
        }
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn the_outcome_of_a_call_is_summarized_in_a_few_words() {
        for (value, expected) in [
            (
                json!({"exit_code": 101, "stdout": "", "stderr": "x"}),
                Some("exit 101"),
            ),
            (json!({"signal": 9, "stdout": ""}), Some("signal 9")),
            (json!({"timed_out": true, "signal": 9}), Some("timed out")),
            (
                json!({"exit_code": 0, "stdout": "", "left_running": true, "set_aside": ["a/.git", "b/.git"]}),
                Some(
                    "exit 0 · the processes it left running were ended · renamed with the suffix .set-aside: a/.git, b/.git",
                ),
            ),
            (
                json!({"exit_code": 0, "changed_for_git": [".githooks/pre-commit", "own"]}),
                Some("exit 0 · changed what your git reads or runs: .githooks/pre-commit, own"),
            ),
            (
                json!({"exit_code": 128, "repository_outside": "/src/p/.git"}),
                Some("exit 128 · cannot write to /src/p/.git, which is outside the project"),
            ),
            (
                json!({"exit_code": 0, "repository_runs_no": "hooks"}),
                Some("exit 0 · the repository's hooks did not run"),
            ),
            (
                json!({"start_line": 1, "end_line": 12, "total_lines": 12}),
                Some("12 lines"),
            ),
            (
                json!({"start_line": 5, "end_line": 9, "total_lines": 90}),
                Some("5 of 90 lines"),
            ),
            (
                json!({"start_line": 1, "end_line": 0, "total_lines": 0}),
                Some("0 lines"),
            ),
            (json!({"hits": [], "total_hits": 1}), Some("1 hit")),
            (json!({"entries": [{}, {}]}), Some("2 entries")),
            (
                json!({"files": [{"added_lines": 2, "removed_lines": 0}, {"added_lines": 1, "removed_lines": 1}]}),
                Some("+3 −1"),
            ),
            (json!({"change": "unchanged"}), Some("unchanged")),
            (
                json!({"summary": "All is\u{1b}[2J well."}),
                Some("All is␛[2J well."),
            ),
            (json!([1, 2, 3]), Some("3 items")),
            (json!("one\ntwo"), Some("2 lines")),
            (json!("42"), Some("42")),
            (json!(42), Some("42")),
            (json!(null), None),
            (json!({"x": 1}), None),
        ] {
            assert_eq!(
                outcome(&result(value.clone(), None)).as_deref(),
                expected,
                "{value}"
            );
        }
        let written = result(
            json!({"change": "replaced"}),
            Some(json!({"added_lines": 3, "removed_lines": 1})),
        );
        assert_eq!(outcome(&written).as_deref(), Some("+3 −1"));
    }

    fn texts(rows: Vec<Row>) -> Vec<String> {
        rows.into_iter().map(|row| row.text).collect()
    }

    #[test]
    fn only_the_first_and_last_output_lines_are_shown_unless_verbose() {
        let stdout: String = (1..=20)
            .map(|line| format!("\u{1b}[32m{line}\u{1b}[0m\n"))
            .collect();
        let result = result(
            json!({"exit_code": 1, "stdout": stdout, "stderr": "10%\r100%\r\nbad\n"}),
            None,
        );
        assert_eq!(
            texts(rows("{}", &result, Detail::Usual)),
            [
                "1",
                "2",
                "3",
                "4",
                "… 14 more lines",
                "19",
                "20",
                "100%",
                "bad"
            ]
        );
        assert_eq!(rows("{}", &result, Detail::Verbose).len(), 22);
        let stopped = json!({"timed_out": true, "stdout": "so far\n", "stderr": ""});
        let stopped = self::result(stopped, None);
        assert_eq!(texts(rows("{}", &stopped, Detail::Usual)), ["so far"]);
    }

    #[test]
    fn a_change_is_shown_as_the_diff_of_the_tool_or_as_the_patch_without_numbers() {
        let written = result(
            json!({"change": "replaced"}),
            Some(
                json!({"added_lines": 1, "removed_lines": 1, "diff": "--- original\n+++ modified\n@@ -1 +1 @@\n-a\n+b\n"}),
            ),
        );
        assert_eq!(
            texts(rows("{}", &written, Detail::Usual)),
            ["@@ -1 +1 @@", "-a", "+b"]
        );
        for (diff, expected) in [
            ("@@ -1 +1 @@\n-a\n+a\r\n", ["@@ -1 +1 @@", "-a", "+a␍"]),
            ("@@ -1 +1 @@\n-a\r\n+b\r\n", ["@@ -1 +1 @@", "-a", "+b"]),
        ] {
            let written = result(json!({"change": "replaced"}), Some(json!({"diff": diff})));
            assert_eq!(texts(rows("{}", &written, Detail::Usual)), expected);
        }
        let patch = r#"{"patch":"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}"#;
        let patched = result(json!({"files": []}), None);
        assert_eq!(
            texts(rows(patch, &patched, Detail::Usual)),
            ["--- a/x", "+++ b/x", "@@", "-a", "+b"]
        );
    }

    #[test]
    fn read_content_is_shown_only_if_verbose() {
        let read = result(
            json!({"path": "a", "text": "one\ntwo\n", "start_line": 1, "end_line": 2}),
            None,
        );
        assert!(rows("{}", &read, Detail::Usual).is_empty());
        assert_eq!(texts(rows("{}", &read, Detail::Verbose)), ["one", "two"]);
    }
}
