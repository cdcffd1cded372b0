//! How a tool call is shown to the user: what it touches, its result, and the lines that show both.
//!
//! All content here was written by a model, a tool or a third party. Where the program's own lines quote it, it is
//! harmless and on one line; multi-line content is in a margin.

mod end;
mod log;
mod outcome;

use neuraxis::core::log::describe;
use serde_json::{Map, Value};

use crate::glyphs::ARROW;
use crate::harmless::{one_line, one_line_of};
use crate::invocation::quoted;

pub(crate) use end::{End, failed, named};
pub(crate) use log::{CallLog, OpenCall};
pub(crate) use outcome::{lines_of, outcome, outcome_of, rows};

/// The arguments that say what a call touches, the most telling first.
const TARGETS: [&str; 14] = [
    "path",
    "file",
    "file_path",
    "filename",
    "url",
    "uri",
    "query",
    "pattern",
    "question",
    "expression",
    "task",
    "topic",
    "name",
    "id",
];

/// The maximum number of characters of a call's target.
const MAX_TARGET_CHARS: usize = 120;

/// The maximum number of files of a patch that are named.
const MAX_FILES: usize = 3;

/// Returns what a call touches: the file, the command or the address; otherwise its arguments.
pub(crate) fn target(arguments: &str) -> String {
    let Ok(Value::Object(given)) = serde_json::from_str(arguments) else {
        return shortened(arguments);
    };
    if given.is_empty() {
        return String::new();
    }
    let text = |name: &str| given.get(name).and_then(Value::as_str);
    if let Some(patch) = text("patch").or_else(|| text("diff")) {
        return shortened(&files_of(patch));
    }
    if let Some(command) = command_line(&given) {
        return shortened(&command);
    }
    if let (Some(from), Some(to)) = (text("from"), text("to")) {
        return shortened(&format!("{from} {ARROW} {to}"));
    }
    if let Some(steps) = given.get("steps").and_then(Value::as_array) {
        return describe::counted(steps.len() as u64, "step");
    }
    let named: Vec<&str> = TARGETS.iter().filter_map(|name| text(name)).collect();
    match named.as_slice() {
        [] => shortened(arguments),
        [only] => shortened(only),
        // For example a pattern, and the folder to search.
        [first, second, ..] => match given.contains_key("pattern") || given.contains_key("query") {
            true => shortened(&format!("{second} in {first}")),
            false => shortened(first),
        },
    }
}

/// Describes a call by its tool and what it touches.
pub(crate) fn headline(name: &str, arguments: &str) -> String {
    let target = target(arguments);
    let name = one_line(name);
    match target.as_str() {
        "" => name,
        target => format!("{name} {target}"),
    }
}

/// Returns a command line, or a program with its arguments.
pub(crate) fn command_line(arguments: &Map<String, Value>) -> Option<String> {
    let given = arguments.get("command").or_else(|| arguments.get("argv"))?;
    let words = |list: &Value| -> Option<Vec<String>> {
        let words = list.as_array()?.iter().map(|word| word.as_str());
        words.map(|word| word.map(quoted)).collect()
    };
    let line = match given {
        Value::String(line) => line.clone(),
        list => words(list)?.join(" "),
    };
    match arguments.get("args").and_then(words) {
        Some(more) => Some(format!("{line} {}", more.join(" "))),
        None => Some(line),
    }
}

/// Names the files that a patch changes.
fn files_of(patch: &str) -> String {
    let of_v4a = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    let mut files: Vec<&str> = Vec::new();
    let mut before = "";
    for line in patch.lines() {
        if let Some(file) = line.strip_prefix("--- ") {
            before = file;
        } else if let Some(file) = line.strip_prefix("+++ ") {
            let file = if file.trim() == "/dev/null" {
                before
            } else {
                file
            };
            let file = file.split('\t').next().unwrap_or_default().trim();
            let file = file.strip_prefix("a/").or_else(|| file.strip_prefix("b/"));
            files.extend(file);
        } else {
            files.extend(of_v4a.iter().find_map(|start| line.strip_prefix(start)));
        }
    }
    let more = files.len().saturating_sub(MAX_FILES);
    let named = files.iter().take(MAX_FILES).copied().collect::<Vec<_>>();
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Puts quoted text on one line, and cuts it if it is long.
fn shortened(words: &str) -> String {
    one_line_of(words, MAX_TARGET_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_names_the_target_of_a_call() {
        for (name, arguments, expected) in [
            (
                "read_file",
                r#"{"path":"notes.md","start_line":3}"#,
                "read_file notes.md",
            ),
            (
                "run_command",
                r#"{"command":"cargo test"}"#,
                "run_command cargo test",
            ),
            (
                "run",
                r#"{"command":"git","args":["commit","-m","a b"]}"#,
                "run git commit -m 'a b'",
            ),
            (
                "search_files",
                r#"{"pattern":"fn main","path":"src"}"#,
                "search_files fn main in src",
            ),
            (
                "web_fetch",
                r#"{"url":"https://a.org/x"}"#,
                "web_fetch https://a.org/x",
            ),
            ("current_time", "{}", "current_time"),
            (
                "mail__send",
                r#"{"urgent":true}"#,
                r#"mail__send {"urgent":true}"#,
            ),
            ("broken", "{", "broken {"),
            (
                "update_plan",
                r#"{"steps":[{"step":"Look"},{"step":"Write"}]}"#,
                "update_plan 2 steps",
            ),
            (
                "apply_patch",
                r#"{"patch":"--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n--- a/old\n+++ /dev/null\n"}"#,
                "apply_patch x.rs, old",
            ),
            (
                "apply_patch",
                r#"{"patch":"*** Begin Patch\n*** Update File: x.rs\n+y\n*** Delete File: old\n*** End Patch\n"}"#,
                "apply_patch x.rs, old",
            ),
            (
                "run_command",
                r#"{"command":"ls\n\u001b[2Jrm"}"#,
                "run_command ls ␛[2Jrm",
            ),
        ] {
            assert_eq!(headline(name, arguments), expected);
        }
        assert_eq!(
            target(&format!(r#"{{"path":"{}"}}"#, "x".repeat(500)))
                .chars()
                .count(),
            MAX_TARGET_CHARS + 1
        );
    }
}
