//! The tool `apply_patch`: applies all files of a patch, or none. The change is attached to the result for users, with
//! the actual line numbers.

mod commit;
mod fit;
mod hunk;
mod lines;
mod plan;
mod read;
mod v4a;

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{JsonText, ToolClass, ToolOutput};
use neuraxis_ports::{Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::fit::MovedHunk;
use self::plan::{Operation, PlannedChange};
use super::difference::MAX_DIFF_BYTES;
use super::failure::{FileError, shown};
use super::root::ProjectRoot;
use crate::blocking::{self, Stop};
use crate::function::{DefinitionError, FunctionTool};
use crate::summary::{count, enumerate, grouped};

/// The maximum size of a patch, in bytes.
const PATCH_MAX_BYTES: usize = 1 << 20;
/// The maximum number of files that a patch changes.
const PATCH_MAX_FILES: usize = 100;
/// The maximum size of a changed file before and after, in bytes.
const PATCH_MAX_FILE_BYTES: u64 = 4 << 20;

/// The number of files that the summary names.
const FILES_IN_SUMMARY: usize = 10;

const DESCRIPTION: &str = "Changes files of the project with a unified diff, as written by `diff -u` and `git diff`: \
    `--- a/path` and `+++ b/path` lines, then hunks that begin with `@@ -line,count +line,count @@`. `/dev/null` \
    instead of a path creates or deletes a file. Read the files first: kept and removed lines must match the file. \
    Either all files are changed or none; if a hunk does not fit, the error names it and the nearest lines. Patches \
    between `*** Begin Patch` and `*** End Patch` are also accepted.";

pub(super) fn tool(root: Arc<ProjectRoot>) -> Result<Arc<dyn Tool>, DefinitionError> {
    let checked = Arc::clone(&root);
    let tool = FunctionTool::with_output(
        "apply_patch",
        DESCRIPTION,
        move |arguments: Arguments, ctx| {
            let root = Arc::clone(&root);
            async move {
                let apply = move |stop: &Stop| apply(&root, &arguments, stop);
                output(blocking::run(&ctx, apply).await?)
            }
        },
    )?;
    let tool = tool.dry_run(move |arguments: Arguments| {
        let root = Arc::clone(&checked);
        blocking::run_alone(move |stop| {
            let patch = applied_lines(&root, &arguments.patch, stop)?;
            planned(&root, &patch, stop).map(drop)
        })
    });
    Ok(tool.class(ToolClass::Irreversible).build())
}

fn output((applied, metadata): (Applied, PatchMetadata)) -> Result<ToolOutput, ToolError> {
    let mut output = ToolOutput::new(JsonText::encode(&applied)?);
    output.metadata = JsonText::encode(&metadata).ok();
    Ok(output)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The patch, with paths relative to the project root.
    patch: String,
}

#[derive(Debug, Serialize)]
struct Applied {
    files: Vec<ChangedFile>,
    summary: String,
}

/// What is shown to users with the result.
#[derive(Debug, Serialize)]
struct PatchMetadata {
    /// The patch as it was applied; missing if it is longer than 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

#[derive(Debug, Serialize)]
struct ChangedFile {
    path: String,
    change: Operation,
    /// The original path of a file that was moved or copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    added_lines: u64,
    removed_lines: u64,
    /// The hunks that did not fit at their stated lines, and where they were applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    moved_hunks: Vec<MovedHunk>,
}

/// Computes the new content of the files from the lines that are applied, without changing any file.
fn planned(root: &ProjectRoot, patch: &str, stop: &Stop) -> Result<Vec<PlannedChange>, FileError> {
    plan::plan(root, &read::sections(patch)?, stop)
}

/// Returns the lines of a patch that are applied, as a unified diff.
fn applied_lines(root: &ProjectRoot, patch: &str, stop: &Stop) -> Result<String, FileError> {
    if patch.len() > PATCH_MAX_BYTES {
        return Err(FileError::TooBig {
            what: format!(
                "the patch has {} bytes, more than {}; apply it in parts",
                grouped(patch.len() as u64),
                grouped(PATCH_MAX_BYTES as u64)
            ),
        });
    }
    let patch = if v4a::is_v4a(patch) {
        Cow::Owned(v4a::unified(root, patch, stop)?)
    } else {
        Cow::Borrowed(patch)
    };
    lines::applied_lines(&patch)
}

/// Returns the lines of a patch that are applied, with the actual line numbers of the hunks.
pub(super) fn numbered(root: &ProjectRoot, patch: &str, stop: &Stop) -> Result<String, FileError> {
    let patch = applied_lines(root, patch, stop)?;
    let planned = planned(root, &patch, stop)?;
    Ok(with_actual_numbers(&patch, &planned))
}

/// Inserts the actual line numbers of the hunks into the lines that are applied.
fn with_actual_numbers(patch: &str, planned: &[PlannedChange]) -> String {
    let mut headers = planned.iter().flat_map(|change| &change.headers);
    // The lines within hunks begin with other characters.
    let lines = patch.split_inclusive('\n').map(|line| {
        if line.starts_with("@@") {
            headers.next().map_or(line, String::as_str)
        } else {
            line
        }
    });
    lines.collect()
}

fn apply(
    root: &ProjectRoot,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<(Applied, PatchMetadata), FileError> {
    let patch = applied_lines(root, &arguments.patch, stop)?;
    let planned = planned(root, &patch, stop)?;
    // From here on, the patch is applied completely, whatever happens to the call.
    stop.check()?;
    commit::commit(root, &planned)?;
    let diff = Some(with_actual_numbers(&patch, &planned));
    let diff = diff.filter(|diff| diff.len() <= MAX_DIFF_BYTES);
    Ok((report(&planned), PatchMetadata { diff }))
}

fn report(planned: &[PlannedChange]) -> Applied {
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

fn changed(planned: &PlannedChange) -> ChangedFile {
    ChangedFile {
        path: shown(planned.path()),
        change: planned.operation,
        from: planned.from.clone(),
        added_lines: planned.added_lines,
        removed_lines: planned.removed_lines,
        moved_hunks: planned.moved.clone(),
    }
}
