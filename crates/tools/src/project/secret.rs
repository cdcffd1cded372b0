//! Which files are never read, whatever the project says.

use std::ffi::OsStr;

/// Names of files that hold secrets as a rule: such files are listed, but neither read nor searched. Upper and lower
/// case count as equal.
pub const SECRET_FILES: &[&str] = &[".env", ".env.*", "*.pem", "id_rsa*", "id_ed25519*"];

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
    fn names_that_only_look_similar_are_not_taken_for_secrets() {
        for name in ["env", ".envrc", "environment", "pem", "my_id_rsa", "pem.rs"] {
            assert!(
                !is_secret(OsStr::new(name)),
                "{name} was taken for a secret"
            );
        }
    }
}
