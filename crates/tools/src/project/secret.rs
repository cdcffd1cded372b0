//! Which files are never read or written, whatever the project says.

use std::ffi::OsStr;
use std::path::Path;

/// Names of files that hold secrets as a rule: such files are listed, but neither read, searched nor written. Upper and
/// lower case count as equal.
pub const SECRET_FILES: &[&str] = &[".env", ".env.*", "*.pem", "id_rsa*", "id_ed25519*"];

/// Names of files and folders that decide what may run here: nothing is written to them or beneath them. Upper and lower
/// case count as equal.
pub const PROTECTED_NAMES: &[&str] = &[".git", "neuraxis.toml"];

/// Tells whether nothing may be written at this path.
pub(super) fn is_protected(path: &Path) -> bool {
    path.components().any(|part| {
        let name = part.as_os_str().to_string_lossy();
        PROTECTED_NAMES
            .iter()
            .any(|protected| name.eq_ignore_ascii_case(protected))
    })
}

/// Tells whether a file of this name is never read.
pub(super) fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    // Windows opens `.env` under these names, too: with blanks or full stops behind it, or as `.env::$DATA`.
    let stream_of = name.split(':').next().unwrap_or_default();
    [name.as_str(), stream_of].iter().any(|name| {
        let name = name.trim_end_matches([' ', '.']);
        SECRET_FILES.iter().any(|pattern| matches(pattern, name))
    })
}

/// Matches a pattern that may begin or end with `*`.
fn matches(pattern: &str, name: &str) -> bool {
    if let Some(ending) = pattern.strip_prefix('*') {
        name.ends_with(ending)
    } else if let Some(beginning) = pattern.strip_suffix('*') {
        name.starts_with(beginning)
    } else {
        name == pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_secrets_as_a_rule_are_recognized() {
        for name in [
            ".env",
            ".ENV",
            ".env.production",
            "server.pem",
            "id_rsa",
            "id_rsa.old",
            "id_ed25519.pub",
        ] {
            assert!(is_secret(OsStr::new(name)), "{name} was not recognized");
        }
    }

    #[test]
    fn other_spellings_that_open_the_same_file_on_windows_are_recognized() {
        for name in [".env ", ".env.", ".env::$DATA", "server.pem. ."] {
            assert!(is_secret(OsStr::new(name)), "{name:?} was not recognized");
        }
    }

    #[test]
    fn what_decides_about_governance_is_protected_at_any_depth() {
        for path in [
            "neuraxis.toml",
            "a/NEURAXIS.toml",
            ".git",
            ".git/hooks/x",
            "a/.Git/config",
        ] {
            assert!(is_protected(Path::new(path)), "{path} was not protected");
        }
        for path in [".gitignore", "git/x", "docs/neuraxis.md", ".github/x.yml"] {
            assert!(!is_protected(Path::new(path)), "{path} was protected");
        }
    }

    #[test]
    fn names_that_only_look_similar_are_not_taken_for_secrets() {
        for name in ["env", ".envrc", "environment", "pem", "my_id_rsa", "pem.rs"] {
            assert!(
                !is_secret(OsStr::new(name)),
                "{name} was taken for a secret"
            );
        }
    }
}
