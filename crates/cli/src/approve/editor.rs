//! The user's preferred editor, for text too long for a line.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The maximum number of bytes read back from an editor.
const MAX_BYTES: u64 = 1024 * 1024;

/// Opens a text in `$VISUAL` or `$EDITOR`, in a temporary file that only its owner can read. Returns `None` if neither
/// variable is set.
pub(super) fn edit(text: &str) -> io::Result<Option<String>> {
    match chosen() {
        Some(editor) => edit_with(&editor, text).map(Some),
        None => Ok(None),
    }
}

fn chosen() -> Option<OsString> {
    let names = ["VISUAL", "EDITOR"].into_iter();
    let mut editors = names.filter_map(std::env::var_os);
    editors.find(|editor| !editor.is_empty())
}

fn edit_with(editor: &OsStr, text: &str) -> io::Result<String> {
    let mut builder = tempfile::Builder::new();
    // Readable only by its owner, like every file that the tempfile crate creates.
    let mut file = builder
        .prefix("neuraxis-arguments-")
        .suffix(".json")
        .tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let status = command(editor, file.path())
        // Standard output may be a file, so the editor uses the terminal behind standard error.
        .stdout(Stdio::from(io::stderr()))
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!("the editor ended with {status}")));
    }
    // Editors may replace the file instead of writing into it, so it is reopened by name.
    let mut edited = String::new();
    let reopened = std::fs::File::open(file.path())?;
    reopened.take(MAX_BYTES + 1).read_to_string(&mut edited)?;
    match u64::try_from(edited.len()) {
        Ok(0..=MAX_BYTES) => Ok(edited),
        _ => Err(io::Error::other(format!("more than {MAX_BYTES} bytes"))),
    }
}

/// Returns the command of an editor, which may include arguments, as in git and other programs.
#[cfg(unix)]
fn command(editor: &OsStr, file: &Path) -> Command {
    let mut script = editor.to_owned();
    script.push(" \"$@\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg("sh").arg(file);
    command
}

#[cfg(not(unix))]
fn command(editor: &OsStr, file: &Path) -> Command {
    let mut command = Command::new(editor);
    command.arg(file);
    command
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn edited_text_is_read_back_from_the_file() {
        let editor = OsStr::new("sed -i s/one/two/");
        assert_eq!(edit_with(editor, "one\n").unwrap(), "two\n");
    }

    #[test]
    fn the_edited_file_is_private_and_deleted_afterwards() {
        let seen = tempfile::tempdir().unwrap();
        let note = seen.path().join("note");
        let script = format!(
            "f() {{ ls -l \"$1\" | cut -c1-10 > {0}; echo \"$1\" >> {0}; }}; f",
            note.display()
        );
        edit_with(OsStr::new(&script), "secret").unwrap();
        let note = std::fs::read_to_string(note).unwrap();
        let (mode, path) = note.trim().split_once('\n').unwrap();
        assert_eq!(mode, "-rw-------");
        assert!(!Path::new(path).exists());
    }

    #[test]
    fn a_failing_editor_is_an_error() {
        let error = edit_with(OsStr::new("false"), "one").unwrap_err();
        assert!(
            error.to_string().contains("the editor ended with"),
            "{error}"
        );
    }
}
