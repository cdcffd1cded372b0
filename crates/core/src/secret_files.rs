//! Names of files that usually contain secrets: tools never read them, and no wildcard of a rule matches them.

/// Names of files that usually contain secrets, some with their folder; a `*` at the beginning or the end matches
/// anything. File tools list such files, but do not read, search or write them, and no wildcard of a rule about
/// commands matches them. Case is ignored.
pub const SECRET_FILES: &[&str] = &[
    ".env",
    ".env.*",
    "*.pem",
    "id_rsa*",
    "id_ed25519*",
    "id_ecdsa*",
    "id_dsa*",
    "*.key",
    "*.p12",
    "*.pfx",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
    ".htpasswd",
    "*.tfstate",
    "*.tfstate.backup",
    ".aws/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".docker/config.json",
    ".git/config",
];

/// Returns whether [`SECRET_FILES`] contains the name of a file in a folder, both in lower case and without leading
/// path.
#[must_use]
pub fn is_secret_name(folder: &str, name: &str) -> bool {
    let mut patterns = SECRET_FILES.iter();
    patterns.any(|pattern| match pattern.split_once('/') {
        Some((within, pattern)) => folder == within && matches(pattern, name),
        None => matches(pattern, name),
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
