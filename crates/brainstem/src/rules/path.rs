//! Paths in arguments: where they lead, told from their text alone.
//!
//! Links are not followed here; the file tools themselves refuse to leave their root.

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Led {
    /// To a place beneath the root, named from there; `.` for the root itself.
    Inside(String),
    /// Out of the root.
    Outside,
    /// Nobody can tell without knowing who reads it.
    Unclear,
}

/// Tells where a path leads that counts from `base`, itself beneath the root or `""`. `root` is the root's own absolute
/// path, if it is known.
pub(crate) fn lead(path: &str, base: &str, root: Option<&str>) -> Led {
    // A home folder, a variable or an end of text is read by some and taken as it is by others.
    if path.starts_with('~') || path.contains(['\0', '$', '\n', '\r', '\\']) {
        return Led::Unclear;
    }
    if path.trim() != path {
        return Led::Unclear;
    }
    if path.starts_with('/') {
        return absolute(path, root);
    }
    normalized(base.split('/').chain(path.split('/')))
}

fn absolute(path: &str, root: Option<&str>) -> Led {
    let Led::Inside(path) = normalized(path.split('/')) else {
        return Led::Outside;
    };
    let Some(Led::Inside(root)) = root.map(|root| normalized(root.split('/'))) else {
        return Led::Outside;
    };
    if root == "." {
        return Led::Inside(path);
    }
    match path.strip_prefix(&root) {
        Some("") => Led::Inside(".".to_owned()),
        Some(rest) => match rest.strip_prefix('/') {
            Some(inside) => Led::Inside(inside.to_owned()),
            None => Led::Outside,
        },
        None => Led::Outside,
    }
}

fn normalized<'a>(names: impl Iterator<Item = &'a str>) -> Led {
    let mut kept: Vec<&str> = Vec::new();
    for name in names {
        match name {
            "" | "." => {}
            ".." => {
                if kept.pop().is_none() {
                    return Led::Outside;
                }
            }
            other => kept.push(other),
        }
    }
    if kept.is_empty() {
        return Led::Inside(".".to_owned());
    }
    Led::Inside(kept.join("/"))
}

/// Returns the paths that the headers of a patch name: of a unified diff, and of the form `*** Update File: …`.
pub(crate) fn in_patch(patch: &str) -> Vec<&str> {
    patch.lines().filter_map(header_path).collect()
}

fn header_path(line: &str) -> Option<&str> {
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
    let path = match named {
        Some(path) => path,
        None => {
            let path = line
                .strip_prefix("--- ")
                .or_else(|| line.strip_prefix("+++ "))?;
            let path = path.split('\t').next().unwrap_or(path);
            path.strip_prefix("a/")
                .or_else(|| path.strip_prefix("b/"))
                .unwrap_or(path)
        }
    };
    (path != "/dev/null").then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized_and_those_that_leave_the_root_are_told() {
        let inside = |path: &str| Led::Inside(path.to_owned());
        for (path, expected) in [
            ("src/main.rs", inside("src/main.rs")),
            ("./src//./main.rs", inside("src/main.rs")),
            ("src/../Cargo.toml", inside("Cargo.toml")),
            ("", inside(".")),
            (".", inside(".")),
            ("..", Led::Outside),
            ("src/../../etc/passwd", Led::Outside),
            ("/etc/passwd", Led::Outside),
            ("/home/me/project/a.txt", inside("a.txt")),
            ("/home/me/project", inside(".")),
            ("/home/me/project-evil/a.txt", Led::Outside),
            ("/home/me/project/../secret", Led::Outside),
            ("~/.ssh/id_rsa", Led::Unclear),
            ("$HOME/x", Led::Unclear),
            ("secret.txt ", Led::Unclear),
            ("a\0b", Led::Unclear),
            ("..\\x", Led::Unclear),
        ] {
            assert_eq!(
                lead(path, "", Some("/home/me/project/")),
                expected,
                "{path:?}"
            );
        }
        assert_eq!(lead("/home/me/project/a", "", None), Led::Outside);
        assert_eq!(lead("../a", "src", None), inside("a"));
    }

    #[test]
    fn the_files_of_a_patch_are_found() {
        let patch = "--- a/src/lib.rs\t2026\n+++ b/src/lib.rs\n@@\n-x\n+y\n--- /dev/null\n+++ b/new.rs\n*** Add File: other.rs\n";
        assert_eq!(
            in_patch(patch),
            ["src/lib.rs", "src/lib.rs", "new.rs", "other.rs"]
        );
    }
}
