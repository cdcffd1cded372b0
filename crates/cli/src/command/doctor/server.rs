//! Checks what `neuraxis-server` needs on this machine: the keys of clients, the TLS files and the folder for old
//! sessions.
//!
//! Does not check whether a certificate matches its key: the server reports that when it starts.

use std::fs;
use std::io;
use std::path::Path;

use neuraxis::core::jiff::SignedDuration;
use neuraxis::core::log::describe::counted;
use neuraxis::engine::SystemClock;
use neuraxis::ports::Clock as _;
use neuraxis_app::{Config, Environment, ServerKey, ServerKeyFile, TlsFiles};

use super::check::{Check, Outcome};
use super::surroundings::failed;
use crate::harmless::one_line;

/// Checks everything that is configured or exists.
pub(super) fn checks(config: &Config, environment: &Environment) -> Vec<Check> {
    let checks = [
        keys(config, environment),
        tls(config, environment),
        archive(config, environment),
    ];
    checks.into_iter().flatten().collect()
}

/// Reads the keys of clients as the server does.
fn keys(config: &Config, environment: &Environment) -> Option<Check> {
    const NAME: &str = "keys";

    let file = ServerKeyFile::of(config, environment)?;
    let is_named = config.server().keys.is_some();
    // Without the default key file, no keys are needed.
    if !is_named && !file.path().exists() {
        return None;
    }
    let path = file.path().display();
    Some(match file.read_present() {
        Err(error) => failed(NAME, error),
        Ok(keys) if keys.is_empty() && is_named => {
            let detail = format!("{path} holds no keys, so no client is let in");
            Check::here(NAME, Outcome::Warning, detail)
                .fix("`neuraxis-server keys create --owner NAME` creates one")
        }
        Ok(keys) => {
            let count = u64::try_from(keys.len()).unwrap_or(u64::MAX);
            let detail = format!("{} in {path}", counted(count, "key"));
            let refused = without_plan(&keys, config);
            if refused.is_empty() {
                return Some(Check::here(NAME, Outcome::Ok, detail));
            }
            let detail = format!(
                "{detail}; requests with these keys are refused because their plan does not exist: {}",
                refused.join(", ")
            );
            Check::here(NAME, Outcome::Warning, detail)
                .fix("restore the plan under [plans], or create new keys with another plan")
        }
    })
}

/// Returns the valid keys whose plan does not exist: their ids, owners and plans.
fn without_plan(keys: &[ServerKey], config: &Config) -> Vec<String> {
    let now = SystemClock.now();
    let taken = keys.iter().filter(|key| key.refused_at(now).is_none());
    let missing = taken.filter_map(|key| {
        let plan = key.missing_plan(config.policy())?;
        Some(format!("{} of {} ({plan})", key.id, one_line(&key.owner)))
    });
    missing.collect()
}

/// Checks whether a server can read its certificate and the key.
fn tls(config: &Config, environment: &Environment) -> Option<Check> {
    const NAME: &str = "TLS";

    let files = config.server().tls.as_ref()?;
    let certificate = environment.working_dir().join(&files.certificate);
    let key = environment.working_dir().join(&files.key);
    let unusable = fault_of_pem(&certificate, b"CERTIFICATE-----")
        .or_else(|| fault_of_pem(&key, b"PRIVATE KEY-----"))
        .or_else(|| encryption_of(&key));
    if let Some(fault) = unusable {
        let check = Check::here(NAME, Outcome::Failed, fault);
        return Some(check.fix("set server.tls to PEM files that the server can read"));
    }
    let (shown, shown_key) = (certificate.display(), key.display());
    if is_exposed(&key) {
        let check = Check::here(
            NAME,
            Outcome::Failed,
            format!("every user can read {shown_key}"),
        );
        return Some(check.fix("make it readable only by its owner (chmod 600)"));
    }
    let end = fs::read(&certificate).ok();
    let end = end.and_then(|pem| TlsFiles::expires_at(&pem));
    let left = end.map(|end| end.duration_since(SystemClock.now()));
    Some(match (end, left) {
        (Some(end), Some(left)) if left < RENEW_WITHIN => {
            let (outcome, detail) = match left.is_positive() {
                true => (Outcome::Warning, format!("{shown} expires on {end}")),
                false => (
                    Outcome::Failed,
                    format!("{shown} expired on {end}, so clients refuse it"),
                ),
            };
            Check::here(NAME, outcome, detail)
                .fix("renew it; a running server loads the new one automatically")
        }
        _ => Check::here(NAME, Outcome::Ok, format!("{shown} and {shown_key}")),
    })
}

/// A certificate should have been renewed this long before it expires. Automatic renewal does it a month before.
const RENEW_WITHIN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Returns why a file has no PEM block of this kind, if so.
fn fault_of_pem(path: &Path, kind: &[u8]) -> Option<String> {
    let read = match fs::metadata(path) {
        // Opening a pipe would block.
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) => fs::read(path),
        Err(error) => Err(error),
    };
    match read {
        Err(error) => Some(format!("{} cannot be read: {error}", path.display())),
        Ok(bytes) if !bytes.windows(kind.len()).any(|part| part == kind) => {
            let kind = String::from_utf8_lossy(kind);
            let kind = kind.trim_end_matches('-').to_lowercase();
            Some(format!("{} holds no PEM {kind}", path.display()))
        }
        Ok(_) => None,
    }
}

/// Returns a message if a key is encrypted.
fn encryption_of(key: &Path) -> Option<String> {
    let pem = fs::read(key).ok()?;
    TlsFiles::is_encrypted(&pem).then(|| {
        let key = key.display();
        format!("{key} is encrypted, and the server does not accept encrypted keys")
    })
}

/// Returns whether all users of the machine can read a key.
#[cfg(unix)]
fn is_exposed(key: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    fs::metadata(key).is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
}

#[cfg(not(unix))]
const fn is_exposed(_key: &Path) -> bool {
    false
}

/// Checks whether the folder in which old sessions are kept before deletion can be created or written to.
fn archive(config: &Config, environment: &Environment) -> Option<Check> {
    const NAME: &str = "archive";

    let store = config.store();
    let folder = store.archive.as_ref().filter(|_| store.keep.is_some())?;
    let folder = environment.working_dir().join(folder);
    let there = folder.ancestors().find(|folder| folder.exists())?;
    // An unnamed file that disappears immediately.
    Some(match tempfile::tempfile_in(there) {
        Ok(_) => Check::here(NAME, Outcome::Ok, folder.display().to_string()),
        Err(error) => {
            let folder = folder.display();
            let detail = format!("cannot write to {folder}, so old sessions are kept: {error}");
            Check::here(NAME, Outcome::Failed, detail).fix(
                "give the server's user write access to it, or name another folder in store.archive",
            )
        }
    })
}
