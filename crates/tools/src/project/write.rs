//! The tool `write_file`. The change is attached to the result for users; models do not read it.

use std::borrow::Cow;
use std::io::{Cursor, Read};
use std::sync::Arc;

use neuraxis_core::{JsonText, ToolClass, ToolOutput};
use neuraxis_ports::{Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::{self, BYTE_ORDER_MARK, Content};
use super::difference::Difference;
use super::failure::{FileError, shown};
use super::root::ProjectRoot;
use super::target::{Existing, Folders, Target};
use crate::blocking::{self, Stop};
use crate::function::{DefinitionError, FunctionTool};
use crate::summary::{count, grouped};

/// The maximum number of bytes that one call writes.
const WRITE_MAX_BYTES: usize = 1 << 20;

const DESCRIPTION: &str = "Writes a text file of the project: creates it, or replaces its whole content. To change \
    parts of a file, use apply_patch instead. The file is replaced in one step, so no reader ever sees a partial file. \
    Files that hold secrets and files that govern this program are refused.";

pub(super) fn tool(root: Arc<ProjectRoot>) -> Result<Arc<dyn Tool>, DefinitionError> {
    let checked = Arc::clone(&root);
    let tool = FunctionTool::with_output(
        "write_file",
        DESCRIPTION,
        move |arguments: Arguments, ctx| {
            let root = Arc::clone(&root);
            async move {
                let write = move |stop: &Stop| write(&root, &arguments, stop);
                output(blocking::run(&ctx, write).await?)
            }
        },
    )?;
    let tool = tool.dry_run(move |arguments: Arguments| {
        let root = Arc::clone(&checked);
        blocking::run_alone(move |_| target(&root, &arguments).map(drop))
    });
    Ok(tool.class(ToolClass::Idempotent).build())
}

fn output((written, difference): (Written, Option<Difference>)) -> Result<ToolOutput, ToolError> {
    let mut output = ToolOutput::new(JsonText::encode(&written)?);
    output.metadata = difference.and_then(|it| JsonText::encode(&it).ok());
    Ok(output)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the project root.
    path: String,
    /// The complete new content of the file. At most 1 MiB.
    content: String,
    /// Whether to create missing parent folders. Default false.
    create_folders: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Created,
    Replaced,
    Unchanged,
}

#[derive(Debug, Serialize)]
struct Written {
    path: String,
    change: Change,
    bytes: u64,
    lines: u64,
    /// The size of the previous file.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_before: Option<u64>,
    summary: String,
}

/// Finds the target file, after checking that the content is small enough and may be written there. Also returns the
/// beginning of the existing file.
fn target(root: &ProjectRoot, arguments: &Arguments) -> Result<(Target, Vec<u8>), FileError> {
    let content = arguments.content.as_bytes();
    if content.len() > WRITE_MAX_BYTES {
        return Err(FileError::TooBig {
            what: format!(
                "the content has {} bytes, more than {}; split it into several files",
                grouped(content.len() as u64),
                grouped(WRITE_MAX_BYTES as u64)
            ),
        });
    }
    let folders = match arguments.create_folders {
        Some(true) => Folders::Create,
        Some(false) | None => Folders::MustExist,
    };
    let target = Target::find(root, &arguments.path, folders)?;
    let there = beginning(root, &target);
    check_encoding(&there, &target)?;
    Ok((target, there))
}

/// Refuses to overwrite text in an encoding other than UTF-8; `there` is its beginning. What was read of such a file
/// has lost characters, and other programs expect its encoding.
fn check_encoding(there: &[u8], target: &Target) -> Result<(), FileError> {
    let Err(error) = std::str::from_utf8(there) else {
        return Ok(());
    };
    // A character that is cut where reading ended means nothing.
    if error.error_len().is_none() && there.len() == WRITE_MAX_BYTES {
        return Ok(());
    }
    let path = shown(&target.path);
    match content::examine(&mut Cursor::new(there)) {
        Ok(Content::Utf16) => Err(FileError::Utf16 { path }),
        Ok(Content::Text) => Err(FileError::NotUtf8 { path }),
        Ok(Content::Binary { .. }) | Err(_) => Ok(()),
    }
}

fn write(
    root: &ProjectRoot,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<(Written, Option<Difference>), FileError> {
    let (target, there) = target(root, arguments)?;
    let content = content_as_written(&there, &arguments.content);
    let before = before(root, &target);
    let change = match &target.existing {
        Some(existing) if is_same(root, existing, content.as_bytes())? => Change::Unchanged,
        Some(_) => Change::Replaced,
        None => Change::Created,
    };
    if change != Change::Unchanged {
        // From here on, the file is written whatever happens to the call.
        stop.check()?;
        let folder = target.folder(root)?;
        let prepared = target.prepare(&folder, content.as_bytes(), None)?;
        prepared.commit()?;
    }
    // Compared only now because that takes time: if the call is stopped, the file is already written.
    let difference = before.and_then(|before| Difference::between(&before, &content));
    Ok((report(&target, change, &content), difference))
}

/// Returns the content that `write_file` writes over an existing file that begins with `there`. The file's byte order
/// mark is kept, and so are its line endings if all of them are `\r\n` and the content has no `\r`: a model rarely
/// writes either.
#[must_use]
pub fn content_as_written<'a>(there: &[u8], content: &'a str) -> Cow<'a, str> {
    let is_marked = there.starts_with(BYTE_ORDER_MARK.as_bytes());
    let lacks_mark = is_marked && !content.is_empty() && !content.starts_with(BYTE_ORDER_MARK);
    let lacks_returns = !content.contains('\r') && ends_lines_with_returns(there);
    let written = match lacks_returns {
        true => Cow::Owned(content.replace('\n', "\r\n")),
        false => Cow::Borrowed(content),
    };
    match lacks_mark {
        true => Cow::Owned(format!("{BYTE_ORDER_MARK}{written}")),
        false => written,
    }
}

fn ends_lines_with_returns(text: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', text).peekable();
    let is_return = |end: usize| end.checked_sub(1).and_then(|at| text.get(at)) == Some(&b'\r');
    ends.peek().is_some() && ends.all(is_return)
}

/// Reads the beginning of the existing file, as much as a call may write; empty if it cannot be read.
fn beginning(root: &ProjectRoot, target: &Target) -> Vec<u8> {
    let read = |existing: &Existing| {
        let (file, _) = root.open_file(&existing.file).ok()?;
        let mut beginning = Vec::new();
        let mut file = file.take(WRITE_MAX_BYTES as u64);
        file.read_to_end(&mut beginning).ok()?;
        Some(beginning)
    };
    target.existing.as_ref().and_then(read).unwrap_or_default()
}

/// Reads the existing file; `None` if it cannot be compared.
fn before(root: &ProjectRoot, target: &Target) -> Option<String> {
    let Some(existing) = &target.existing else {
        return Some(String::new());
    };
    if existing.bytes > Difference::MAX_COMPARED {
        return None;
    }
    let (file, _) = root.open_file(&existing.file).ok()?;
    let mut before = String::new();
    let mut file = file.take(Difference::MAX_COMPARED);
    file.read_to_string(&mut before).ok()?;
    Some(before)
}

/// Returns whether the file already has exactly this content.
fn is_same(root: &ProjectRoot, existing: &Existing, content: &[u8]) -> Result<bool, FileError> {
    if existing.bytes != content.len() as u64 {
        return Ok(false);
    }
    let (file, _) = root.open_file(&existing.file)?;
    let mut found = Vec::with_capacity(content.len());
    // One byte more, in case the file has grown.
    let read = file.take(existing.bytes + 1).read_to_end(&mut found);
    read.map_err(|error| FileError::from_io(&existing.file.path, error))?;
    Ok(found == content)
}

fn report(target: &Target, change: Change, content: &str) -> Written {
    let path = shown(&target.path);
    let (bytes, lines) = (content.len() as u64, content.lines().count() as u64);
    let size = format!(
        "{} and {}",
        count(lines, "line", "lines"),
        count(bytes, "byte", "bytes")
    );
    let bytes_before = target.existing.as_ref().map(|existing| existing.bytes);
    let summary = match (change, bytes_before) {
        (Change::Unchanged, _) => format!("{path} already has this content ({size})."),
        (_, Some(before)) => format!(
            "Replaced {path}: it now has {size} and had {} before.",
            count(before, "byte", "bytes")
        ),
        (_, None) => format!("Created {path} with {size}."),
    };
    Written {
        path,
        change,
        bytes,
        lines,
        bytes_before,
        summary,
    }
}
