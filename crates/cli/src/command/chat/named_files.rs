//! The files that a message names with a leading `@`.
//!
//! A message may contain pasted or piped text from others. So the user is always told which files are sent with it, and
//! is asked about files that such a text might be after.

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path};

use neuraxis::core::Part;
use neuraxis::tools::is_secret;
use unicode_width::UnicodeWidthChar;

use super::super::ask;
use crate::confirm::{ask_yes_no, can_ask_user};
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::progress;
use crate::wrap::is_wide;

/// What to do about files if nobody could be asked about them.
const NOBODY_ASKED: &str = "nobody can be asked here about files that are hidden, hold secrets or are outside this folder; /attach FILE sends one";

/// Reads the files that a message names, each once. A word that names no file is left unchanged; if it looks like a
/// file, a notice says so. `typed` is what the user typed for the message.
pub(super) fn of(message: &str, typed: &str) -> Result<Vec<Part>, CommandError> {
    let names = named(message, |name| Path::new(name).is_file());
    let names = names.iter().map(String::as_str);
    let mut seen = HashSet::new();
    let is_file = |name: &&str| Path::new(name).is_file();
    let (files, words): (Vec<&str>, Vec<&str>) =
        names.filter(|name| seen.insert(*name)).partition(is_file);
    for word in words {
        if word.contains(['/', '.', ' ']) && !Path::new(word).is_dir() {
            let word = one_line(word);
            let told = format!("there is no file {word} here: @{word} is sent as written");
            progress::notice(&told);
        }
    }
    let (files, doubtful) = sorted(files, typed);
    // Read first: if this fails, the message is not sent and there is no need to ask about the others.
    let mut parts = read(&files)?;
    let allowed = allowed(doubtful)?;
    parts.extend(read(&allowed)?);
    let files = [files, allowed].concat();
    if !files.is_empty() {
        let told = format!("sending with this message: {}", listed(&files));
        progress::notice(&told);
    }
    Ok(parts)
}

/// Returns the text after each `@` that begins a word, without trailing punctuation. A name with blanks is quoted, or has
/// a `\\` before each blank. In text without blanks between words, such as Chinese, the name is cut at a word boundary if
/// only the shorter name is a file.
fn named(message: &str, is_file: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    let mut before = ' ';
    let mut letters = message.chars();
    while let Some(letter) = letters.next() {
        let begins_word = before.is_whitespace() || before == '(' || parts_words(before);
        if letter == '@' && begins_word {
            names.push(name_at(letters.as_str(), &is_file));
        }
        before = letter;
    }
    names
}

/// The maximum length in bytes of a name that ends within a word, since every possible end is checked.
const LONGEST_NAME: usize = 512;

fn name_at(text: &str, is_file: impl Fn(&str) -> bool) -> String {
    let quoted = text.strip_prefix('"').and_then(|text| text.split_once('"'));
    if let Some((name, _)) = quoted
        && !name.contains('\n')
    {
        return name.to_owned();
    }
    let mut name = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => name.push(letters.next_if_eq(&' ').unwrap_or(letter)),
            _ if letter.is_whitespace() => break,
            _ => name.push(letter),
        }
    }
    let is_sign = |letter: char| parts_words(letter) && !letter.is_alphanumeric();
    let is_punctuation = |letter: char| ".,;:?!)".contains(letter) || is_sign(letter);
    let whole = name.trim_end_matches(['.', ',', ';', ':', '?', '!', ')']);
    let ends = name.char_indices().rev();
    let ends = ends.filter(|(end, letter)| *end <= LONGEST_NAME && parts_words(*letter));
    let shorter = ends.filter_map(|(end, _)| name.get(..end));
    let shorter = shorter.map(|name| name.trim_end_matches(is_punctuation));
    let file = std::iter::once(whole).chain(shorter).find(|it| is_file(it));
    file.unwrap_or(name.trim_end_matches(is_punctuation))
        .to_owned()
}

/// Returns whether this letter separates words without a blank: every Chinese or Japanese letter, and the punctuation
/// of other scripts.
fn parts_words(letter: char) -> bool {
    let is_sign = !letter.is_alphanumeric() && letter.width() != Some(0);
    !letter.is_ascii() && (is_wide(letter) || is_sign)
}

fn read(files: &[&str]) -> Result<Vec<Part>, CommandError> {
    files.iter().map(Path::new).map(ask::attached).collect()
}

/// Separates the files that are sent without asking from the others.
fn sorted<'a>(files: Vec<&'a str>, typed: &str) -> (Vec<&'a str>, Vec<&'a str>) {
    // Text with several lines was most likely pasted.
    let is_pasted = typed.trim().contains('\n');
    let goes = |file: &&str| !is_pasted && is_attachable_unasked(Path::new(file), Path::new("."));
    files.into_iter().partition(goes)
}

/// Asks the user about the other files, and returns those that may be sent.
fn allowed(doubtful: Vec<&str>) -> Result<Vec<&str>, CommandError> {
    if doubtful.is_empty() {
        return Ok(doubtful);
    }
    let list = listed(&doubtful);
    if !can_ask_user() {
        progress::notice(&format!(
            "this message is sent without {list}: {NOBODY_ASKED}"
        ));
    } else if ask_yes_no(&format!("Send {list} with this message?"))? {
        return Ok(doubtful);
    } else {
        progress::notice(&format!("this message is sent without {list}"));
    }
    Ok(Vec::new())
}

/// Returns whether a file is below a folder, and neither the file nor a folder on the way is hidden or usually holds
/// secrets. Follows links.
fn is_attachable_unasked(file: &Path, folder: &Path) -> bool {
    let (Ok(real), Ok(folder)) = (file.canonicalize(), folder.canonicalize()) else {
        return false;
    };
    let Ok(below) = real.strip_prefix(folder) else {
        return false;
    };
    let name = Path::new(file.file_name().unwrap_or_default());
    !is_hidden(below) && !is_hidden(name) && !is_secret(&real) && !is_secret(name)
}

fn is_hidden(path: &Path) -> bool {
    path.components().any(|part| match part {
        Component::Normal(name) => name.to_string_lossy().starts_with('.'),
        _ => false,
    })
}

/// Lists files, each with its size.
fn listed(files: &[&str]) -> String {
    let with_size = |file: &&str| {
        let name = one_line(file);
        match fs::metadata(file) {
            Ok(metadata) => format!("{name} ({} bytes)", metadata.len()),
            Err(_) => name,
        }
    };
    let files: Vec<String> = files.iter().map(with_size).collect();
    files.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_next_to_cjk_text_or_punctuation_needs_no_spaces() {
        let is_file = |name: &str| ["a.txt", "报告（新）.md"].contains(&name);
        for (message, expected) in [
            ("看一下@a.txt，然后总结", "a.txt"),
            ("请看@a.txt的内容", "a.txt"),
            ("(@a.txt) @a.txt! راجع @a.txt، ثم", "a.txt"),
            (
                "@報告（新）.md @报告（新）.md。",
                "報告（新）.md 报告（新）.md",
            ),
            ("@b.txt。", "b.txt"),
            ("me@a.txt rené@a.txt", ""),
        ] {
            let mut names = named(message, is_file);
            names.dedup();
            assert_eq!(names.join(" "), expected, "{message}");
        }
    }

    #[test]
    fn hidden_secret_or_outside_files_are_not_attached_without_asking() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("work");
        for name in ["work/docs", "work/.cache", "other"] {
            fs::create_dir_all(home.path().join(name)).unwrap();
        }
        let files = [
            ("work/notes.md", true),
            ("work/docs/a.md", true),
            ("work/.env", false),
            ("work/.cache/a.md", false),
            ("work/server.pem", false),
            ("other/a.md", false),
        ];
        for (name, expected) in files {
            let file = home.path().join(name);
            fs::write(&file, "x").unwrap();
            assert_eq!(is_attachable_unasked(&file, &folder), expected, "{name}");
        }
        #[cfg(unix)]
        {
            let link = folder.join("link.md");
            std::os::unix::fs::symlink(home.path().join("other/a.md"), &link).unwrap();
            assert!(!is_attachable_unasked(&link, &folder));
        }
        assert!(!is_attachable_unasked(
            &folder.join("../other/a.md"),
            &folder
        ));
    }
}
