//! Words of commands that name files outside the folder, files that govern what may run, or files that contain secrets.

use neuraxis_core::{SECRET_FILES, is_secret_name};

use crate::rules::path::{PathTarget, lead};

/// The folder that a command runs in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folder<'a> {
    /// The folder, relative to the root; empty for the root itself.
    pub(crate) base: &'a str,
    /// The absolute path of the root, if known.
    pub(crate) root: Option<&'a str>,
}

/// A word that names more paths than this is matched by no wildcard.
const MAX_PATHS: usize = 16;

/// Names of files and folders that determine what may run.
const GOVERNING: [&str; 2] = [".git", "neuraxis.toml"];

/// Returns why no wildcard matches a word, whatever the program: it may name a file elsewhere, or one that tools
/// neither read nor write.
pub(super) fn why_unmatchable(word: &str, folder: Folder<'_>) -> Option<&'static str> {
    let is_option = word.starts_with('-');
    let governs = |name: &str| {
        let name = name.to_lowercase();
        GOVERNING
            .iter()
            .any(|known| name == *known || is_option && name.ends_with(known))
    };
    if word.split(|letter| !is_of_name(letter)).any(governs) {
        return Some("it names a file that decides what may run");
    }
    if names_secret(&word.to_lowercase(), &folder.base.to_lowercase()) {
        return Some("it names a file that usually holds secrets");
    }
    names_outside(word, folder).then_some("it names a file outside the project's folder")
}

/// Returns whether a word names a file that usually contains secrets: as the word itself, after a character such as `:`
/// or `=`, or attached to an option.
fn names_secret(word: &str, base: &str) -> bool {
    let mut path: Vec<&str> = base.split('/').collect();
    let mut before = None;
    for piece in word.split_inclusive(|letter| !is_of_name(letter)) {
        let name = piece.trim_end_matches(|letter| !is_of_name(letter));
        match name {
            "" | "." => {}
            ".." => {
                path.pop();
            }
            _ => {
                let folder = path.last().copied().unwrap_or_default();
                // Windows also opens `.env` as `.env.`.
                let opened = name.trim_end_matches('.');
                let is_option = before.is_none() && word.starts_with('-');
                let is_secret =
                    is_secret_name(folder, opened) || is_option && ends_secretly(folder, opened);
                if is_secret && !is_field(opened, before) {
                    return true;
                }
                path.push(name);
            }
        }
        before = piece.chars().next_back();
    }
    false
}

/// Returns whether a name is a field of an expression and not a file, as in `jq '.items[].key'`: a name after an index,
/// or only the extension of such a file. After a path, a wildcard or another special character, it is still a file.
fn is_field(name: &str, before: Option<char>) -> bool {
    let is_ending = |pattern: &&str| pattern.strip_prefix('*') == Some(name);
    match before {
        Some(']') => name.starts_with('.'),
        None | Some(' ' | '(' | '|' | ',') => SECRET_FILES.iter().any(is_ending),
        Some(_) => false,
    }
}

/// Returns whether an option ends with the name of such a file.
fn ends_secretly(folder: &str, option: &str) -> bool {
    let mut ends = option.char_indices().filter_map(|(at, _)| option.get(at..));
    ends.any(|end| is_secret_name(folder, end))
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || "._-".contains(letter)
}

/// Returns whether a word may name a file elsewhere: a path that is absolute, starts at a home folder, or goes up; as
/// the word itself, as the value of an option, or after a character such as `@`.
fn names_outside(word: &str, folder: Folder<'_>) -> bool {
    let is_out =
        |path: &str| !matches!(lead(path, folder.base, folder.root), PathTarget::Inside(_));
    if (climbs(word) || word.contains("/../") || word.ends_with("/..")) && is_out(word) {
        return true;
    }
    // In `-o/x` and `-I../x`, the path starts right after letters.
    let is_glued = word.starts_with('-') && !word.starts_with("--");
    let (mut before, mut found) = (None, 0);
    for (at, letter) in word.char_indices() {
        let begins = before.is_none_or(|before| !is_of_path(before) || is_glued && found == 0);
        let rest = word.get(at..).unwrap_or_default();
        // In `HEAD@{1}~2`, the `~` counts ancestors.
        let is_home = letter == '~' && before != Some('}');
        let is_path = letter == '/' || is_home || climbs(rest);
        let is_url = rest.starts_with("//") && ends_scheme(word.get(..at).unwrap_or_default());
        if begins && is_path && !is_url {
            found += 1;
            if found > MAX_PATHS || is_out(path_in(rest)) {
                return true;
            }
        }
        before = Some(letter);
    }
    false
}

/// Returns whether a text is the scheme of a URL up to its colon, excluding schemes with which programs read files. A
/// single letter is not a scheme: it may be a drive, or a path followed by another.
fn ends_scheme(text: &str) -> bool {
    let Some(scheme) = text.strip_suffix(':') else {
        return false;
    };
    let is_of_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+.-".contains(letter);
    let mut names = scheme.split('+');
    scheme.len() > 1
        && scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(is_of_scheme)
        && !names.any(|name| name.eq_ignore_ascii_case("file"))
}

/// Returns whether a text starts with a step to the parent folder.
fn climbs(text: &str) -> bool {
    text == ".." || text.starts_with("../")
}

fn is_of_path(letter: char) -> bool {
    letter.is_alphanumeric() || "_.-+/%".contains(letter)
}

/// Returns a text up to the end of its path.
fn path_in(text: &str) -> &str {
    let end = text.find([':', ',', '=', '@', ';']).unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_may_name_a_file_outside_the_project_is_found() {
        let folder = Folder {
            base: "",
            root: Some("/home/me/project"),
        };
        for word in [
            "/etc/passwd",
            "..",
            "../x",
            "a/../../x",
            "~/.ssh/id_rsa",
            "--output=/x",
            "-o/x",
            "-xo/x",
            "-I../x",
            "--git-dir=../x",
            "--git-dir=.git",
            "@/etc/passwd",
            "data=@/x",
            "a:/x",
            "a:../x",
            ".git/config",
            "--output=.GIT/config",
            "sub/.git/hooks/x",
            "neuraxis.toml",
            "x/NEURAXIS.toml",
            "/home/me/project-evil/x",
            "file:/etc/passwd",
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "file://localhost/etc/passwd",
            "git+file:///etc/x",
            "jar:file:///etc/x",
            ".://tmp/evil",
            "a://etc/passwd",
            "x/y://etc/passwd",
            "--cp=ab://etc/passwd",
            "a,/x",
            "/home/me/project/.git/config",
            "/home/me/project/a:/etc/x",
            "~",
            "~root/x",
        ] {
            assert!(why_unmatchable(word, folder).is_some(), "{word}");
        }
        for word in [
            "src/main.rs",
            "./x",
            "a/../b",
            "main..dev",
            "main...dev",
            "HEAD",
            "-p",
            "--oneline",
            "-1",
            "--format=%h %s",
            "https://docs.rs/x",
            "git+ssh://docs.rs/x",
            "HEAD~1",
            "HEAD~3..HEAD",
            "HEAD^",
            "@{u}~2",
            "/home/me/project/src/x",
            ".gitignore",
            "x.git",
            "origin/main",
            "--since=2.weeks",
            "a..b/c",
            "s/a/b/",
            "crate::path",
            "-n5",
            "-",
        ] {
            assert_eq!(why_unmatchable(word, folder), None, "{word}");
        }
    }

    #[test]
    fn a_word_is_resolved_from_the_folder_its_command_runs_in() {
        let inside = Folder {
            base: "sub",
            root: None,
        };
        assert_eq!(why_unmatchable("../x", inside), None);
        assert!(why_unmatchable("../../x", inside).is_some());
        assert!(why_unmatchable("/home/me/project/x", inside).is_some());
    }

    #[test]
    fn a_word_that_may_name_a_secret_file_is_found() {
        let folder = Folder {
            base: "",
            root: Some("/home/me/project"),
        };
        for word in [
            ".env",
            "sub/.ENV.local",
            "HEAD:.env",
            "--env-file=.env",
            "-f.env",
            "-xfid_rsa",
            "keys/server.pem",
            "/home/me/project/.env",
            "HEAD:deploy/prod.tfstate",
            ".aws/./x/../credentials",
            ".env.",
            "certs/.key",
            "HEAD:*.key",
            "--include=*.pem",
            "server (1).pem",
            "items[0]/id_rsa",
        ] {
            assert!(why_unmatchable(word, folder).is_some(), "{word}");
        }
        for word in [
            ".envrc",
            "x.env",
            "--env-file=x.env",
            "credentials",
            "id.rs",
            "src/key.rs",
            ".key",
            ".items[].key",
            ".items[0].env",
            "map(.key) | .pem",
        ] {
            assert_eq!(why_unmatchable(word, folder), None, "{word}");
        }
        let inside = Folder {
            base: "home/.aws",
            root: None,
        };
        assert!(why_unmatchable("credentials", inside).is_some());
    }
}
