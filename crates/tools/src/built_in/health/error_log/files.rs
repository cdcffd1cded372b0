//! Searches the end of the log files for errors.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::ErrorLines;

/// The number of bytes at the end of a log file that are searched.
const TAIL_BYTES: u64 = 256 * 1024;

/// The words that mark a line as an error, regardless of case.
const ERROR_WORDS: &[&str] = &["error", "critical", "fatal", "panic"];

/// Returns the errors of the first readable file, or why there is none.
pub(super) fn read(files: &[PathBuf]) -> Result<ErrorLines, String> {
    let mut reasons = Vec::new();
    for file in files {
        match tail(file) {
            Ok(text) => {
                let errors: Vec<_> = text.lines().filter(|line| is_error(line)).collect();
                return Ok(ErrorLines::new(
                    file.display().to_string(),
                    &errors.join("\n"),
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                reasons.push(format!("there is no {}", file.display()));
            }
            Err(error) => reasons.push(format!("{} cannot be read: {error}", file.display())),
        }
    }
    Err(reasons.join("; "))
}

fn is_error(line: &str) -> bool {
    let line = line.to_lowercase();
    ERROR_WORDS.iter().any(|word| line.contains(word))
}

/// Reads the complete lines at the end of a file.
fn tail(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole_lines = if start == 0 {
        0
    } else {
        text.find('\n').map_or(text.len(), |newline| newline + 1)
    };
    Ok(text.get(whole_lines..).unwrap_or_default().to_owned())
}
