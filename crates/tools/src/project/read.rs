//! The tool `read_file`.

mod lines;

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

use encoding_rs_io::DecodeReaderBytes;
use neuraxis_core::ToolClass;
use neuraxis_ports::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::lines::{Excerpt, LongLine, Window};
use super::content::{self, Content};
use super::failure::{FileError, shown};
use super::file_tool;
use super::root::{Located, ProjectRoot};
use super::walk::is_false;
use crate::blocking::Stop;
use crate::function::DefinitionError;
use crate::summary::{count, grouped};

/// The default number of lines that a call shows.
const READ_DEFAULT_LINES: u64 = 500;
/// The maximum number of lines that one call shows.
const READ_MAX_LINES: u64 = 2_000;

/// The size of a UTF-16 file that contains only a byte order mark.
const UTF_16_MARK_BYTES: u64 = 2;

const DESCRIPTION: &str = "Reads a text file of the project, whole or by line range. Use it when you know the path \
    (list_files and search_files find it). Long files are returned in parts: to continue, set `start_line` to the \
    `next_start_line` of the result. Binary files are described, not shown; files that hold secrets are refused.";

pub(super) fn tool(root: Arc<ProjectRoot>) -> Result<Arc<dyn Tool>, DefinitionError> {
    let tool = file_tool("read_file", DESCRIPTION, root, read)?;
    Ok(tool.class(ToolClass::ReadOnly).build())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the project root.
    path: String,
    /// The first line to show, counted from 1. Default 1.
    start_line: Option<u64>,
    /// The number of lines to show. Default 500, maximum 2000.
    line_count: Option<NonZeroU64>,
    /// The first character of each line to show, counted from 1. Only for lines too long to show whole. Default 1.
    start_column: Option<NonZeroU64>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum File {
    Text(Text),
    Binary(Binary),
}

#[derive(Debug, Serialize)]
struct Text {
    path: String,
    /// The size of the whole file.
    bytes: u64,
    /// The lines, unchanged except that UTF-16 is converted to UTF-8.
    text: String,
    start_line: u64,
    /// The last line shown; 0 if the file is empty.
    end_line: u64,
    /// Missing if the file is too big to count its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_start_line: Option<u64>,
    /// Whether bytes that are invalid in the text's encoding were replaced by U+FFFD.
    #[serde(skip_serializing_if = "is_false")]
    lossy: bool,
    /// Lines that are shown only in part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut_lines: Vec<LongLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    summary: String,
}

#[derive(Debug, Serialize)]
struct Binary {
    path: String,
    /// The size of the whole file.
    bytes: u64,
    media_type: &'static str,
    summary: String,
}

fn read(root: &ProjectRoot, arguments: &Arguments, stop: &Stop) -> Result<File, FileError> {
    let located = match root.locate(&arguments.path)? {
        Located::File(file) => file,
        Located::Folder(folder) => {
            return Err(FileError::IsFolder {
                path: shown(&folder.path),
            });
        }
    };
    let path = shown(&located.path);
    let (mut file, bytes) = root.open_file(&located)?;
    let failed = |source| FileError::Io {
        path: path.clone(),
        source,
    };
    let content = content::examine(&mut file).map_err(failed)?;
    let window = window(arguments);
    let most = lines::READ_MAX_SCANNED_BYTES;
    let scanned = match content {
        Content::Text => lines::scan(&mut file, window, most, stop)?,
        // The decoder recognizes a two-byte mark only if a third byte comes next.
        Content::Utf16 if bytes == UTF_16_MARK_BYTES => {
            lines::scan(&mut io::empty(), window, most, stop)?
        }
        Content::Utf16 => lines::scan(&mut DecodeReaderBytes::new(file), window, most, stop)?,
        Content::Binary { media_type } => {
            return Ok(File::Binary(binary(path, bytes, media_type)));
        }
    };
    let excerpt = scanned.map_err(failed)?;
    if excerpt.end_line == 0 && window.first > 1 {
        let start = window.first;
        return Err(match excerpt.total_lines {
            Some(lines) => FileError::PastTheEnd {
                path,
                lines: count(lines, "line", "lines"),
                start,
            },
            None => FileError::TooBig {
                what: format!(
                    "start_line {start} is not within the first {} of {path:?}, the most that read_file reads; use a \
                     command such as `sed -n '{start},{}p'`",
                    size(lines::READ_MAX_SCANNED_BYTES),
                    window.past_last.saturating_sub(1)
                ),
            },
        });
    }
    Ok(File::Text(report(path, bytes, content, window, excerpt)))
}

fn binary(path: String, bytes: u64, media_type: &'static str) -> Binary {
    let summary = format!(
        "{path} is a binary file ({media_type}, {}); its content is not shown.",
        size(bytes)
    );
    Binary {
        path,
        bytes,
        media_type,
        summary,
    }
}

fn window(arguments: &Arguments) -> Window {
    // Some models count from 0.
    let first = arguments.start_line.unwrap_or(1).max(1);
    let lines = arguments
        .line_count
        .map_or(READ_DEFAULT_LINES, NonZeroU64::get)
        .min(READ_MAX_LINES);
    Window {
        first,
        past_last: first.saturating_add(lines),
        column: arguments.start_column.map_or(1, NonZeroU64::get),
    }
}

fn report(path: String, bytes: u64, content: Content, window: Window, excerpt: Excerpt) -> Text {
    let Excerpt {
        text,
        end_line,
        total_lines,
        cut_lines,
    } = excerpt;
    let (text, lossy) = match String::from_utf8(text) {
        // In UTF-16, invalid units were replaced when it was decoded.
        Ok(text) => {
            let lossy = content == Content::Utf16 && text.contains(char::REPLACEMENT_CHARACTER);
            (text, lossy)
        }
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    };
    let more = total_lines.is_none_or(|total| end_line < total);
    let next_start_line = more.then(|| end_line + 1);
    let of_all = total_lines.map_or_else(|| "an unknown number".to_owned(), grouped);
    let mut summary = match end_line {
        0 => format!("{path} is empty."),
        _ => format!(
            "{path}: lines {} to {} of {of_all} ({}).",
            window.first,
            end_line,
            size(bytes)
        ),
    };
    summary.push_str(match (content, lossy) {
        (Content::Utf16, false) => " The file is in UTF-16.",
        (Content::Utf16, true) => {
            " The file is in UTF-16. Some bytes are not UTF-16 and are shown as \u{fffd}."
        }
        (_, true) => " Some bytes are not UTF-8 and are shown as \u{fffd}.",
        (_, false) => "",
    });
    let hint = hint(next_start_line, &cut_lines, window);
    let start_line = window.first;
    Text {
        path,
        bytes,
        text,
        start_line,
        end_line,
        total_lines,
        next_start_line,
        lossy,
        cut_lines,
        hint,
        summary,
    }
}

fn hint(next: Option<u64>, cut: &[LongLine], window: Window) -> Option<String> {
    let rest = next.map(|line| format!("to read on, call again with start_line {line}"));
    let line = cut.first().map(|cut| {
        let column = window.column.saturating_add(lines::READ_MAX_LINE_CHARS);
        format!("for the rest of line {0}, call again with start_line {0}, line_count 1, start_column {column}", cut.line)
    });
    let hints: Vec<_> = rest.into_iter().chain(line).collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

fn size(bytes: u64) -> String {
    count(bytes, "byte", "bytes")
}
