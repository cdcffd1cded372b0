//! The tool `apply_patch`: all files of a patch, or none.

mod commit;
mod fit;
mod hunk;
mod lines;
mod plan;
mod read;

use std::sync::Arc;

use neuraxis_core::ToolClass;
use neuraxis_ports::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::fit::Moved;
use self::plan::{Operation, Planned};
use super::failure::{FileError, shown};
use super::file_tool;
use super::root::ProjectRoot;
use crate::blocking::{self, Stop};
use crate::function::DefinitionError;
use crate::summary::{count, enumerate, grouped};

/// The most bytes of a patch.
const PATCH_MAX_BYTES: usize = 1 << 20;
/// The most files that a patch changes.
const PATCH_MAX_FILES: usize = 100;
/// The most bytes of a file that is changed, before and after.
const PATCH_MAX_FILE_BYTES: u64 = 4 << 20;

/// How many files the summary names.
const FILES_IN_SUMMARY: usize = 10;

const DESCRIPTION: &str = "Changes files of the project by a unified diff, as `diff -u` and `git diff` write it: `--- \
    a/path` and `+++ b/path` lines, then hunks that begin with `@@ -line,count +line,count @@`. `/dev/null` in place of a \
    path makes or deletes a file. Read the files first: the lines to be kept or removed have to be as they are in the file. \
    Either all files are changed or none; if a hunk does not fit, the error names it and the nearest lines.";

pub(super) fn tool(root: Arc<ProjectRoot>) -> Result<Arc<dyn Tool>, DefinitionError> {
    let checked = Arc::clone(&root);
    let tool = file_tool("apply_patch", DESCRIPTION, root, apply)?;
    let tool = tool.dry_run(move |arguments: Arguments| {
        let root = Arc::clone(&checked);
        blocking::run_alone(move |stop| planned(&root, &arguments, stop).map(drop))
    });
    Ok(tool.class(ToolClass::Irreversible).build())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The unified diff, with paths relative to the top of the project.
    patch: String,
}

#[derive(Debug, Serialize)]
struct Applied {
    files: Vec<Changed>,
    summary: String,
}

#[derive(Debug, Serialize)]
struct Changed {
    path: String,
    change: Operation,
    /// Where a file that was moved or copied was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    added_lines: u64,
    removed_lines: u64,
    /// The hunks that did not fit at their own lines, and where they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    moved_hunks: Vec<Moved>,
}

/// Works out what the files will hold, and touches none of them.
fn planned(
    root: &ProjectRoot,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<Vec<Planned>, FileError> {
    let patch = taken(&arguments.patch)?;
    plan::plan(root, &read::sections(&patch)?, stop)
}

/// Returns the lines of a patch that are applied.
fn taken(patch: &str) -> Result<String, FileError> {
    if patch.len() > PATCH_MAX_BYTES {
        return Err(FileError::TooBig {
            what: format!(
                "the patch has {} bytes, more than {}; apply it in parts",
                grouped(patch.len() as u64),
                grouped(PATCH_MAX_BYTES as u64)
            ),
        });
    }
    lines::taken(patch)
}

/// Returns the lines of a patch that are applied, with the numbers that the hunks have where they fit.
pub(super) fn numbered(root: &ProjectRoot, patch: &str, stop: &Stop) -> Result<String, FileError> {
    let patch = taken(patch)?;
    let planned = plan::plan(root, &read::sections(&patch)?, stop)?;
    let mut headers = planned.iter().flat_map(|change| &change.headers);
    // Lines of hunks begin with another sign.
    let lines = patch.split_inclusive('\n').map(|line| {
        if line.starts_with("@@") {
            headers.next().map_or(line, String::as_str)
        } else {
            line
        }
    });
    Ok(lines.collect())
}

fn apply(root: &ProjectRoot, arguments: &Arguments, stop: &Stop) -> Result<Applied, FileError> {
    let planned = planned(root, arguments, stop)?;
    // Past this point all is done, whatever happens to the call.
    stop.check()?;
    commit::commit(root, &planned)?;
    Ok(report(&planned))
}

fn report(planned: &[Planned]) -> Applied {
    let files: Vec<_> = planned.iter().map(changed).collect();
    let total = files.len() as u64;
    let named = files.iter().take(FILES_IN_SUMMARY).map(|file| {
        let (path, added, removed) = (&file.path, file.added_lines, file.removed_lines);
        format!("{path} (+{added} -{removed})")
    });
    let summary = format!(
        "Changed {}: {}.",
        count(total, "file", "files"),
        enumerate(named, total)
    );
    Applied { files, summary }
}

fn changed(planned: &Planned) -> Changed {
    Changed {
        path: shown(planned.path()),
        change: planned.operation,
        from: planned.from.clone(),
        added_lines: planned.added_lines,
        removed_lines: planned.removed_lines,
        moved_hunks: planned.moved.clone(),
    }
}
