//! The tool `search_files`.

mod hits;
mod pattern;

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::File;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use neuraxis_core::ToolClass;
use neuraxis_ports::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::hits::{FileHits, Hit};
use self::pattern::{Case, Pattern, Syntax};
use super::content::{self, Content};
use super::failure::{FileError, shown};
use super::file_tool;
use super::glob::PathGlob;
use super::root::{Located, ProjectRoot, open_regular};
use super::secret::is_secret;
use super::walk::{Bounds, Kind, PassedOver, is_zero, walk};
use crate::blocking::{Cancelled, Stop};
use crate::function::DefinitionError;
use crate::summary::{count, enumerate};

/// The default number of hits that a search shows.
const SEARCH_DEFAULT_HITS: u32 = 50;
/// The maximum number of hits that one search shows; the rest is only counted.
const SEARCH_MAX_HITS: u32 = 200;
/// The maximum number of bytes of one file that are searched.
const SEARCH_MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// The maximum total number of bytes that one call searches.
const SEARCH_MAX_TOTAL_BYTES: u64 = 512 * 1024 * 1024;

/// The maximum length of a line that can be searched, in bytes.
const MAX_LINE_BUFFER_BYTES: usize = 4 * 1024 * 1024;
/// The number of hits that the summary repeats.
const HITS_IN_SUMMARY: usize = 5;

const DESCRIPTION: &str = "Searches the text files of the project for a regular expression or plain text and returns \
    the matching lines with path, line number and column. Use it to find where something is defined, used or \
    mentioned, then use read_file to see the surrounding lines. Each line is matched separately. Skips binary files, \
    files that hold secrets, and whatever .gitignore ignores.";

pub(super) fn tool(root: Arc<ProjectRoot>) -> Result<Arc<dyn Tool>, DefinitionError> {
    let tool = file_tool("search_files", DESCRIPTION, root, search)?;
    Ok(tool.class(ToolClass::ReadOnly).build())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The expression or text to search for.
    pattern: String,
    /// The kind of pattern: `regex` (Rust syntax, no look-around or backreferences) or `plain`. Default `regex`.
    syntax: Option<Syntax>,
    /// Whether case matters: `sensitive` or `insensitive`. Default `sensitive`.
    case: Option<Case>,
    /// The folder or file to search, relative to the project root. Default: the whole project.
    path: Option<String>,
    /// Search only files that match this glob: `*.rs` matches names at any depth, `src/**/*.rs` matches paths.
    glob: Option<String>,
    /// The number of hits to show. Default 50, maximum 200; the rest are only counted.
    max_hits: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Search {
    hits: Vec<Hit>,
    /// The number of lines that matched, including those not shown.
    total_hits: u64,
    files_with_hits: u64,
    #[serde(flatten)]
    files: FilesSeen,
    #[serde(flatten)]
    passed_over: PassedOver,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    summary: String,
}

/// What happened to the files that were found.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct FilesSeen {
    files_searched: u64,
    #[serde(skip_serializing_if = "is_zero")]
    binary_files: u64,
    #[serde(skip_serializing_if = "is_zero")]
    secret_files: u64,
    /// Files that cannot be opened or read.
    #[serde(skip_serializing_if = "is_zero")]
    unreadable_files: u64,
    /// Files of which only the beginning was searched, because of their size or because of a line that is too long to
    /// search.
    #[serde(skip_serializing_if = "is_zero")]
    partly_searched_files: u64,
    /// Files that are not in UTF-8, counted if the pattern is not ASCII: words in them are not found.
    #[serde(skip_serializing_if = "is_zero")]
    not_utf_8_files: u64,
    /// Files that were not searched because the call's limit was reached.
    #[serde(skip_serializing_if = "is_zero")]
    unsearched_files: u64,
}

fn search(root: &ProjectRoot, arguments: &Arguments, stop: &Stop) -> Result<Search, FileError> {
    let pattern = Pattern::parse(
        &arguments.pattern,
        arguments.syntax.unwrap_or_default(),
        arguments.case,
    )?;
    let glob = PathGlob::parse(arguments.glob.as_deref(), root.known_as())?;
    let mut run = SearchRun::new(
        &pattern,
        arguments.max_hits.unwrap_or(SEARCH_DEFAULT_HITS),
        stop,
    );
    let program_files = root.program_files();
    let passed_over = match root.locate(arguments.path.as_deref().unwrap_or_default())? {
        Located::File(file) => {
            let name = file.path.file_name().unwrap_or_default();
            if glob.matches(&file.path, Path::new(name)) {
                let (opened, bytes) = root.open_file(&file)?;
                run.file(opened, bytes, &shown(&file.path))?;
            }
            PassedOver::default()
        }
        Located::Folder(folder) => walk(root, &folder, &glob, Bounds::default(), stop, |met| {
            if met.kind == Kind::File {
                if is_secret(met.path) {
                    run.files.secret_files += 1;
                } else if let Ok((file, bytes)) = open_regular(met.folder, met.name, met.path) {
                    let metadata = file.metadata();
                    if metadata.is_ok_and(|metadata| program_files.is_withheld(met.path, &metadata))
                    {
                        run.files.secret_files += 1;
                    } else {
                        run.file(file, bytes, &shown(met.path))?;
                    }
                } else {
                    run.files.unreadable_files += 1;
                }
            }
            Ok(())
        })?,
    };
    Ok(run.report(&glob, passed_over))
}

struct SearchRun<'a> {
    pattern: &'a Pattern,
    searcher: Searcher,
    stop: &'a Stop,
    most_hits: usize,
    bytes_left: u64,
    hits: Vec<Hit>,
    total_hits: u64,
    files_with_hits: u64,
    files: FilesSeen,
}

impl<'a> SearchRun<'a> {
    fn new(pattern: &'a Pattern, most_hits: u32, stop: &'a Stop) -> Self {
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::none())
            .heap_limit(Some(MAX_LINE_BUFFER_BYTES))
            .line_number(true)
            .build();
        Self {
            pattern,
            searcher,
            stop,
            most_hits: most_hits.min(SEARCH_MAX_HITS) as usize,
            bytes_left: SEARCH_MAX_TOTAL_BYTES,
            hits: Vec::new(),
            total_hits: 0,
            files_with_hits: 0,
            files: FilesSeen::default(),
        }
    }

    fn file(&mut self, mut file: File, bytes: u64, path: &str) -> Result<(), FileError> {
        if self.bytes_left == 0 {
            self.files.unsearched_files += 1;
            return Ok(());
        }
        let mut encoding = match content::examine(&mut file) {
            Ok(Content::Text) if !self.pattern.is_ascii => Some(Encoding::default()),
            Ok(Content::Text | Content::Utf16) => None,
            Ok(Content::Binary { .. }) => {
                self.files.binary_files += 1;
                return Ok(());
            }
            Err(_) => {
                self.files.unreadable_files += 1;
                return Ok(());
            }
        };
        let most = self.bytes_left.min(SEARCH_MAX_FILE_BYTES);
        let mut reader = MeteredReader::new(file, most, self.stop, encoding.as_mut());
        let mut found = FileHits::new(
            path,
            self.pattern,
            self.most_hits.saturating_sub(self.hits.len()),
        );
        let result = self
            .searcher
            .search_reader(self.pattern, &mut reader, &mut found);
        self.stop.check()?;
        self.bytes_left -= reader.bytes_read();
        // A line that is too long to search is an error, but hits before it are kept.
        let in_part = result.is_err() || reader.bytes_read() < bytes;
        self.files.files_searched += 1;
        self.files.partly_searched_files += u64::from(in_part);
        // An incomplete character at the end means nothing if the rest was not read.
        let is_other = |it: Encoding| it.is_other || !(in_part || it.cut.is_empty());
        self.files.not_utf_8_files += u64::from(encoding.is_some_and(is_other));
        self.files_with_hits += u64::from(found.total > 0);
        self.total_hits += found.total;
        self.hits.append(&mut found.hits);
        Ok(())
    }

    fn report(self, glob: &PathGlob, passed_over: PassedOver) -> Search {
        let Self {
            hits,
            total_hits,
            files_with_hits,
            files,
            ..
        } = self;
        let place = count(files.files_searched, "file", "files");
        let places = hits
            .iter()
            .take(HITS_IN_SUMMARY)
            .map(|hit| format!("{}:{}", hit.path, hit.line));
        let summary = match total_hits {
            0 if files.files_searched == 0 && files.binary_files > 0 => {
                "Only binary files, which are not searched.".to_owned()
            }
            0 => format!("No hits in {place}."),
            _ => format!(
                "{} in {} of {place}: {}.",
                count(total_hits, "hit", "hits"),
                files_with_hits,
                enumerate(places, total_hits)
            ),
        };
        let mut hints = Vec::new();
        if (hits.len() as u64) < total_hits {
            hints.push(format!(
                "only {} hits are shown; narrow it with path, glob or a more exact pattern",
                hits.len()
            ));
        }
        hints.extend(files.hints(glob, passed_over));
        let hint = (!hints.is_empty()).then(|| hints.join("; "));
        Search {
            hits,
            total_hits,
            files_with_hits,
            files,
            passed_over,
            hint,
            summary,
        }
    }
}

impl FilesSeen {
    /// Returns what was not searched, and what to do about it.
    fn hints(&self, glob: &PathGlob, passed_over: PassedOver) -> Vec<String> {
        let mut hints = Vec::new();
        if passed_over.stopped_early {
            // A glob does not necessarily shorten the walk.
            hints.push("not everything was searched; narrow it with path".to_owned());
        } else if self.unsearched_files > 0 {
            hints.push("not everything was searched; narrow it with path or glob".to_owned());
        } else if *self == Self::default() && !glob.is_for_all() {
            hints.push("no file matches the glob; list_files shows what there is".to_owned());
        }
        if self.partly_searched_files > 0 {
            hints.push(format!(
                "only the beginning of {} was searched; a command such as `grep -n` searches the rest",
                count(self.partly_searched_files, "file", "files")
            ));
        }
        if self.not_utf_8_files > 0 {
            hints.push(format!(
                "non-ASCII words cannot be found in {} not encoded in UTF-8; a command such as `iconv -f CP932 -t \
                 UTF-8`, for Shift-JIS, shows the text",
                count(self.not_utf_8_files, "file", "files")
            ));
        }
        if self.unreadable_files > 0 {
            hints.push(format!(
                "{} cannot be read",
                count(self.unreadable_files, "file", "files")
            ));
        }
        hints
    }
}

/// Reads a file up to a number of bytes, and stops when the call is stopped.
#[derive(Debug)]
struct MeteredReader<'a, File> {
    file: File,
    most: u64,
    read: u64,
    stop: &'a Stop,
    encoding: Option<&'a mut Encoding>,
}

impl<'a, File> MeteredReader<'a, File> {
    fn new(file: File, most: u64, stop: &'a Stop, encoding: Option<&'a mut Encoding>) -> Self {
        Self {
            file,
            most,
            read: 0,
            stop,
            encoding,
        }
    }

    fn bytes_read(&self) -> u64 {
        self.read
    }
}

impl<File: Read> Read for MeteredReader<'_, File> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let given_up = |cancelled: Cancelled| io::Error::other(cancelled.to_string());
        self.stop.check().map_err(given_up)?;
        let left = usize::try_from(self.most - self.read).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.read += read as u64;
        if let Some(encoding) = &mut self.encoding {
            encoding.check(buffer.get(..read).unwrap_or_default());
        }
        Ok(read)
    }
}

/// Determines whether text is UTF-8, part by part.
#[derive(Debug, Default)]
struct Encoding {
    is_other: bool,
    /// The incomplete character at the end of the text so far.
    cut: Vec<u8>,
}

impl Encoding {
    fn check(&mut self, part: &[u8]) {
        if self.is_other {
            return;
        }
        self.cut.extend_from_slice(part);
        match std::str::from_utf8(&self.cut) {
            Ok(_) => self.cut.clear(),
            Err(error) if error.error_len().is_none() => {
                self.cut.drain(..error.valid_up_to());
            }
            Err(_) => self.is_other = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn files_left_unsearched_by_the_limit_are_reported() {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("a"), "x\nx\nx\n").unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let (pattern, stop) = (
            Pattern::parse("x", Syntax::Plain, None).unwrap(),
            Stop::never(),
        );
        let mut run = SearchRun::new(&pattern, 10, &stop);
        run.bytes_left = 10;
        for path in ["whole", "in part", "not at all"] {
            run.file(dir.open("a").unwrap(), 6, path).unwrap();
        }
        let report = run.report(&PathGlob::default(), PassedOver::default());
        assert_eq!(report.total_hits, 5);
        assert_eq!(
            (
                report.files.partly_searched_files,
                report.files.unsearched_files
            ),
            (1, 1)
        );
        assert_eq!(
            report.hint.as_deref(),
            Some(
                "not everything was searched; narrow it with path or glob; only the beginning of 1 file was searched; \
                 a command such as `grep -n` searches the rest"
            )
        );
    }
}
