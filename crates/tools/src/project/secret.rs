//! Which files are never read or written, whatever the project configures.

use std::ffi::OsStr;
use std::path::{Component, Path};

use neuraxis_core::is_secret_name;

/// Names of files and folders that decide what may run here: nothing is written to them or below them. Compared without
/// regard to case.
pub const PROTECTED_NAMES: &[&str] = &[".git", "neuraxis.toml"];

/// The short names that Windows gives to the names in [`PROTECTED_NAMES`].
const SHORT_NAMES: [&str; 2] = ["git~1", "neurax~1.tom"];

/// Returns whether nothing may be written at this path, because it leads to a name in [`PROTECTED_NAMES`] or below it.
#[must_use]
pub fn is_protected(path: &Path) -> bool {
    let mut names = path.components().map(Component::as_os_str);
    names.any(|name| is_protected_name(&name.to_string_lossy()))
}

/// Returns whether nothing may be written to an entry of this name, in any spelling that some file system treats as
/// protected.
pub(crate) fn is_protected_name(name: &str) -> bool {
    let mut protected = PROTECTED_NAMES.iter().chain(&SHORT_NAMES);
    protected.any(|protected| is_spelling(name, protected))
}

/// Returns whether some file system treats a name as equal to another.
pub(super) fn is_spelling(name: &str, of: &str) -> bool {
    let name: String = name.chars().filter(|letter| !is_ignored(*letter)).collect();
    let name = name.split(':').next().unwrap_or_default();
    name.trim_end_matches([' ', '.']).eq_ignore_ascii_case(of)
}

/// Returns whether the macOS file system ignores a character in names.
const fn is_ignored(letter: char) -> bool {
    matches!(letter, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Returns whether a file at this path is never read, because [`SECRET_FILES`](neuraxis_core::SECRET_FILES) lists its
/// name.
#[must_use]
pub fn is_secret(path: &Path) -> bool {
    let part = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().to_lowercase();
    let (name, folder) = (
        part(path.file_name()),
        part(path.parent().and_then(Path::file_name)),
    );
    // Windows also opens `.env` under these names: with trailing spaces or full stops, or as `.env::$DATA`.
    let stream_of = name.split(':').next().unwrap_or_default();
    [name.as_str(), stream_of]
        .iter()
        .any(|name| is_secret_name(&folder, name.trim_end_matches([' ', '.'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typical_names_of_secret_files_are_recognized() {
        for name in [
            ".env",
            ".ENV",
            ".env.production",
            "server.pem",
            "id_rsa",
            "id_rsa.old",
            "id_ed25519.pub",
            "tls/server.key",
            "cert.p12",
            ".netrc",
            "home/.npmrc",
            "id_ecdsa",
            "prod.tfstate",
            "home/.aws/credentials",
            ".docker/config.json",
            ".git/config",
        ] {
            assert!(is_secret(Path::new(name)), "{name} was not recognized");
        }
    }

    #[test]
    fn alternative_windows_spellings_of_secret_names_are_recognized() {
        for name in [".env ", ".env.", ".env::$DATA", "server.pem. ."] {
            assert!(is_secret(Path::new(name)), "{name:?} was not recognized");
        }
    }

    #[test]
    fn configuration_and_git_files_are_protected_at_any_depth() {
        for path in [
            "neuraxis.toml",
            "a/NEURAXIS.toml",
            ".git",
            ".git/hooks/x",
            "a/.Git/config",
            ".git./x",
            ".git /x",
            "GIT~1/config",
            ".git::$INDEX_ALLOCATION/x",
            ".g\u{200c}it/config",
            "NEURAX~1.TOM",
        ] {
            assert!(is_protected(Path::new(path)), "{path} was not protected");
        }
        for path in [".gitignore", "git/x", "docs/neuraxis.md", ".github/x.yml"] {
            assert!(!is_protected(Path::new(path)), "{path} was protected");
        }
    }

    #[test]
    fn similar_looking_names_are_not_taken_for_secrets() {
        for name in [
            "env",
            ".envrc",
            "environment",
            "pem",
            "my_id_rsa",
            "pem.rs",
            "key",
            "config.json",
            "credentials.rs",
        ] {
            assert!(!is_secret(Path::new(name)), "{name} was taken for a secret");
        }
    }
}
