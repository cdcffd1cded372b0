//! The tool `list_files`.

use std::num::NonZeroU32;
use std::sync::Arc;

use neuraxis_core::ToolClass;
use neuraxis_ports::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::{FileError, shown};
use super::file_tool;
use super::glob::PathGlob;
use super::root::{Located, LocatedFolder, ProjectRoot};
use super::walk::{
    Bounds, FoundEntry, Kind, PassedOver, WALK_MAX_DEPTH, WALK_MAX_ENTRIES, is_false, walk,
};
use crate::blocking::Stop;
use crate::function::DefinitionError;
use crate::summary::{count, enumerate, grouped};

/// The maximum number of files and folders in one list; the rest is only counted.
const LIST_MAX_ENTRIES: usize = 500;

/// The number of names that the summary repeats.
const NAMES_IN_SUMMARY: usize = 10;

const DESCRIPTION: &str = "Lists the files and folders of the project. Use it to see what exists before reading, or to \
    find files by name with `glob`. Paths are relative to the project root. Whatever .gitignore ignores is left out \
    unless `path` leads into it; symlinks are listed, not followed.";

pub(super) fn tool(root: Arc<ProjectRoot>) -> Result<Arc<dyn Tool>, DefinitionError> {
    let tool = file_tool("list_files", DESCRIPTION, root, list)?;
    Ok(tool.class(ToolClass::ReadOnly).build())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The folder, relative to the project root. Default: the root.
    path: Option<String>,
    /// List only entries that match this glob: `*.rs` matches names at any depth, `src/**/*.rs` matches paths.
    glob: Option<String>,
    /// How many folder levels to list: 1 lists only the folder's own entries. Default 1, or all levels with `glob`.
    depth: Option<NonZeroU32>,
}

#[derive(Debug, Serialize)]
struct List {
    path: String,
    entries: Vec<Entry>,
    /// The total number, including entries that are not listed.
    total: u64,
    #[serde(flatten)]
    passed_over: PassedOver,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    summary: String,
}

#[derive(Debug, Serialize)]
struct Entry {
    path: String,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Whether the name is not Unicode: it is shown with U+FFFD, and the other tools cannot access it.
    #[serde(skip_serializing_if = "is_false")]
    lossy_name: bool,
}

fn list(root: &ProjectRoot, arguments: &Arguments, stop: &Stop) -> Result<List, FileError> {
    let glob = PathGlob::parse(arguments.glob.as_deref(), root.known_as())?;
    let folder = match root.locate(arguments.path.as_deref().unwrap_or_default())? {
        Located::Folder(folder) => folder,
        Located::File(file) => {
            return Err(FileError::NotFolder {
                path: shown(&file.path),
            });
        }
    };
    let by_default = if glob.is_for_all() { 1 } else { WALK_MAX_DEPTH };
    let depth = arguments.depth.map_or(by_default, NonZeroU32::get);
    let bounds = Bounds {
        depth,
        ..Bounds::default()
    };
    let mut entries = Vec::new();
    let mut total = 0;
    let passed_over = walk(root, &folder, &glob, bounds, stop, |found| {
        total += 1;
        if entries.len() < LIST_MAX_ENTRIES {
            entries.push(entry(found));
        }
        Ok(())
    })?;
    Ok(report(&folder, entries, total, passed_over))
}

fn entry(found: &FoundEntry<'_>) -> Entry {
    let metadata = || found.folder.symlink_metadata(found.name).ok();
    let bytes = if found.kind == Kind::File {
        metadata().map(|metadata| metadata.len())
    } else {
        None
    };
    Entry {
        path: shown(found.path),
        kind: found.kind,
        bytes,
        lossy_name: found.path.to_str().is_none(),
    }
}

fn report(
    folder: &LocatedFolder,
    entries: Vec<Entry>,
    total: u64,
    passed_over: PassedOver,
) -> List {
    let path = shown(&folder.path);
    let place = if path == "." {
        "the project".to_owned()
    } else {
        path.clone()
    };
    let at_least = if passed_over.stopped_early {
        "At least "
    } else {
        ""
    };
    let names = entries
        .iter()
        .take(NAMES_IN_SUMMARY)
        .map(|entry| match entry.kind {
            Kind::Folder => format!("{}/", entry.path),
            _ => entry.path.clone(),
        });
    let summary = match total {
        0 => format!("Nothing to list in {place}."),
        _ => format!(
            "{at_least}{} in {place}: {}.",
            count(total, "entry", "entries"),
            enumerate(names, total)
        ),
    };
    let hint = if passed_over.stopped_early {
        Some(format!(
            "the list ends after {} files and folders, shown or not; narrow it with path",
            grouped(WALK_MAX_ENTRIES)
        ))
    } else {
        (total > entries.len() as u64).then(|| {
            format!(
                "only the first {} are listed; narrow it with path, glob or depth",
                entries.len()
            )
        })
    };
    List {
        path,
        entries,
        total,
        passed_over,
        hint,
        summary,
    }
}
