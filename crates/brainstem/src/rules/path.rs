//! Paths in arguments: where they lead, determined from their text alone.
//!
//! Links are not followed here; the file tools themselves refuse to leave their root.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathTarget {
    /// To a place below the root, relative to it; `.` for the root itself.
    Inside(String),
    /// Outside the root.
    Outside,
    /// Unknown, because it depends on the program that reads it.
    Unclear,
}

/// Returns where a path leads that is relative to `base`, which is itself below the root, or `""`. `root` is the
/// absolute path of the root, if known.
pub(crate) fn lead(path: &str, base: &str, root: Option<&str>) -> PathTarget {
    // Some programs expand a home folder or a variable, or stop at an end of text; others take these literally.
    if path.starts_with('~') || path.contains(['\0', '$', '\n', '\r', '\\']) {
        return PathTarget::Unclear;
    }
    if path.trim() != path || begins_elsewhere(path) {
        return PathTarget::Unclear;
    }
    if path.starts_with('/') {
        return absolute(path, root);
    }
    normalized(base.split('/').chain(path.split('/')))
}

/// Returns whether a path is a file URL or starts with a drive: some programs read it as such, others as a folder name.
fn begins_elsewhere(path: &str) -> bool {
    path.split_once(':').is_some_and(|(before, _)| {
        let is_drive = before.len() == 1 && before.starts_with(|it: char| it.is_ascii_alphabetic());
        is_drive || before.eq_ignore_ascii_case("file")
    })
}

fn absolute(path: &str, root: Option<&str>) -> PathTarget {
    let PathTarget::Inside(path) = normalized(path.split('/')) else {
        return PathTarget::Outside;
    };
    let Some(PathTarget::Inside(root)) = root.map(|root| normalized(root.split('/'))) else {
        return PathTarget::Outside;
    };
    if root == "." {
        return PathTarget::Inside(path);
    }
    match path.strip_prefix(&root) {
        Some("") => PathTarget::Inside(".".to_owned()),
        Some(rest) => match rest.strip_prefix('/') {
            Some(inside) => PathTarget::Inside(inside.to_owned()),
            None => PathTarget::Outside,
        },
        None => PathTarget::Outside,
    }
}

fn normalized<'a>(names: impl Iterator<Item = &'a str>) -> PathTarget {
    let mut kept: Vec<&str> = Vec::new();
    for name in names {
        match name {
            "" | "." => {}
            ".." => {
                if kept.pop().is_none() {
                    return PathTarget::Outside;
                }
            }
            other => kept.push(other),
        }
    }
    if kept.is_empty() {
        return PathTarget::Inside(".".to_owned());
    }
    PathTarget::Inside(kept.join("/"))
}

/// Returns text with composed accents: `é` can be one character, or an `e` followed by an accent, as in names that come
/// from a Mac. Borrows the text if there is nothing to compose.
pub(crate) fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    ComposingNormalizerBorrowed::new_nfc().normalize(text)
}

/// Like [`composed`], but also removes what globs distinguish and some file systems do not: case beyond ASCII. `None`
/// for text that is only ASCII.
pub(crate) fn folded(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let mut folded = String::with_capacity(text.len());
    for letter in composed(text).chars() {
        match letter {
            // Globs handle ASCII case themselves, and `[Z-a]` and `[z-a]` differ.
            _ if letter.is_ascii() => folded.push(letter),
            // Sigma at the end of a word has its own lower-case form, but the same upper-case form.
            '\u{3c2}' => folded.push('\u{3c3}'),
            _ => folded.extend(letter.to_lowercase()),
        }
    }
    Some(folded)
}

/// Returns what a glob names before its first wildcard, a folder or a file; `None` for a glob of names at any depth.
pub(crate) fn beginning(glob: &str) -> Option<&str> {
    let end = match glob.find(['*', '?', '[', '{', '\\']) {
        Some(wildcard) => glob.get(..wildcard)?.rfind('/')?,
        None if glob.contains('/') => glob.len(),
        None => return None,
    };
    glob.get(..end)
}

/// Returns the folder whose whole content a pattern matches: reading that folder as a whole reads the content.
pub(crate) fn whole_folder(pattern: &str) -> Option<&str> {
    let mut ends = ["/**/*", "/**", "/*"].into_iter();
    let folder = ends.find_map(|end| pattern.strip_suffix(end))?;
    let name = folder.rsplit('/').next()?;
    // Without a name of its own, the folder might be anything, including a file of another name.
    (!name.is_empty() && !name.contains(['*', '?', '['])).then_some(folder)
}

/// Returns the paths that the headers of a patch name: of a unified diff, and of the form `*** Update File: …`. A
/// quoted name is returned with and without its quotes, because programs read it differently.
pub(crate) fn in_patch(patch: &str) -> Vec<&str> {
    patch.lines().flat_map(header_paths).collect()
}

fn header_paths(line: &str) -> impl Iterator<Item = &str> {
    let of_files = [
        "*** Update File: ",
        "*** Add File: ",
        "*** Delete File: ",
        "*** Move to: ",
    ];
    let plain = of_files
        .iter()
        .chain(&["rename from ", "rename to ", "copy from ", "copy to "]);
    let named = plain.filter_map(|prefix| line.strip_prefix(prefix)).next();
    let in_diff = || {
        let path = line
            .strip_prefix("--- ")
            .or_else(|| line.strip_prefix("+++ "))?;
        path.split('\t').next()
    };
    let has_letter = named.is_none();
    let path = named.or_else(in_diff);
    let bare = path.filter(|path| path.contains('"'));
    let bare = bare.map(|path| path.trim_matches(['"', ' ']));
    let named = path.into_iter().chain(bare).map(move |path| {
        let stripped = path
            .strip_prefix("a/")
            .or_else(|| path.strip_prefix("b/"))
            .filter(|_| has_letter);
        stripped.unwrap_or(path)
    });
    named.filter(|path| *path != "/dev/null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized_and_those_outside_the_root_are_detected() {
        let inside = |path: &str| PathTarget::Inside(path.to_owned());
        for (path, expected) in [
            ("src/main.rs", inside("src/main.rs")),
            ("./src//./main.rs", inside("src/main.rs")),
            ("src/../Cargo.toml", inside("Cargo.toml")),
            ("", inside(".")),
            (".", inside(".")),
            ("..", PathTarget::Outside),
            ("src/../../etc/passwd", PathTarget::Outside),
            ("/etc/passwd", PathTarget::Outside),
            ("/home/me/project/a.txt", inside("a.txt")),
            ("/home/me/project", inside(".")),
            ("/home/me/project-evil/a.txt", PathTarget::Outside),
            ("/home/me/project/../secret", PathTarget::Outside),
            ("~/.ssh/id_rsa", PathTarget::Unclear),
            ("$HOME/x", PathTarget::Unclear),
            ("secret.txt ", PathTarget::Unclear),
            ("a\0b", PathTarget::Unclear),
            ("..\\x", PathTarget::Unclear),
            ("file:///etc/passwd", PathTarget::Unclear),
            ("FILE:/etc/passwd", PathTarget::Unclear),
            ("C:/Windows/x", PathTarget::Unclear),
            ("profile:x", inside("profile:x")),
        ] {
            assert_eq!(
                lead(path, "", Some("/home/me/project/")),
                expected,
                "{path:?}"
            );
        }
        assert_eq!(lead("/home/me/project/a", "", None), PathTarget::Outside);
        assert_eq!(lead("../a", "src", None), inside("a"));
    }

    #[test]
    fn the_files_of_a_patch_are_found() {
        let patch = "--- a/src/lib.rs\t2026\n+++ b/src/lib.rs\n@@\n-x\n+y\n--- /dev/null\n+++ b/new.rs\n*** Add File: other.rs\n";
        assert_eq!(
            in_patch(patch),
            ["src/lib.rs", "src/lib.rs", "new.rs", "other.rs"]
        );
        assert_eq!(
            in_patch("+++ \"b/src/a b.rs\"\t2026\nrename to \"x\"\n"),
            ["\"b/src/a b.rs\"", "src/a b.rs", "\"x\"", "x"]
        );
    }
}
