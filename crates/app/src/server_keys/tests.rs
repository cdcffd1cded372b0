//! Tests of the content of the key file, and when it is not trusted.

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{ContentHash, Mode, PlanName};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn key(owner: &str) -> (ServerKey, String) {
    ServerKey::make(owner, [Scope::Turns, Scope::Read], NOW).unwrap()
}

#[test]
fn a_key_is_stored_as_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("inner/keys.json"));
    assert_eq!(file.read().unwrap(), []);
    assert!(!file.has_existed());
    let present = file.read_present();
    assert!(matches!(present, Err(ServerKeysError::Missing { .. })));
    let (mut made, text) = key("ada");
    made.max_mode = Some(Mode::MODERATE);
    file.add(made.clone()).unwrap();
    let (other, other_text) = key("bob");
    file.add(other.clone()).unwrap();
    assert_eq!(file.read().unwrap(), [made.clone(), other]);
    assert_eq!(ContentHash::of(text.as_bytes()), made.hash);
    assert_ne!(text, other_text);
    let written = fs::read_to_string(file.path()).unwrap();
    let secret = text.rsplit('_').next().unwrap();
    assert_eq!(secret.len(), 64);
    assert!(!written.contains(secret) && written.contains(&made.id));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        for path in [file.path().to_owned(), lock_of(file.path())] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}

#[test]
fn a_revoked_key_stays_in_the_file_with_its_revocation_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("keys.json"));
    let (made, _) = key("ada");
    file.add(made.clone()).unwrap();
    assert_eq!(made.refused_at(NOW), None);
    assert_eq!(file.revoke(&made.id, NOW).unwrap().revoked_at, None);
    let later = Timestamp::from_second(60).unwrap();
    assert_eq!(
        file.revoke(&made.id, later).unwrap().revoked_at,
        Some(NOW),
        "it was revoked before"
    );
    let kept = file.read().unwrap();
    assert_eq!(kept[0].revoked_at, Some(NOW));
    assert_eq!(kept[0].refused_at(NOW), Some("revoked"));
    let none = file.revoke("000000000000", NOW);
    assert!(matches!(none, Err(ServerKeysError::NoSuchKey)));
    // A server that has read the file still accepts the key.
    fs::rename(file.path(), folder.path().join("away")).unwrap();
    let gone = file.revoke(&made.id, NOW);
    assert!(matches!(gone, Err(ServerKeysError::Gone { .. })));
    assert!(!file.path().exists() && file.has_existed());
}

#[test]
fn a_key_is_refused_from_its_expiry_on() {
    let (mut made, _) = key("ada");
    made.expires_at = Some(Timestamp::from_second(10).unwrap());
    assert_eq!(made.refused_at(Timestamp::from_second(9).unwrap()), None);
    assert_eq!(
        made.refused_at(Timestamp::from_second(10).unwrap()),
        Some("expired")
    );
}

#[test]
fn a_removed_plan_is_detected_on_the_keys_that_use_it() {
    let config = PolicyConfig::from_toml("[plans.basic]\nmax_turns = 5\n");
    let policy = Policy::layered(config.unwrap()).unwrap();
    let (mut made, _) = key("ada");
    assert_eq!(made.missing_plan(&policy), None);
    made.plan = Some(PlanName::new("basic".to_owned()));
    assert_eq!(made.missing_plan(&policy), None);
    made.plan = Some(PlanName::new("gone".to_owned()));
    assert_eq!(made.missing_plan(&policy), made.plan.as_ref());
}

#[test]
fn keys_added_concurrently_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("keys.json"));
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| file.add(key("ada").0).unwrap());
        }
    });
    assert_eq!(file.read().unwrap().len(), 8);
}

#[test]
fn a_malformed_or_newer_key_file_is_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("keys.json"));
    for text in [
        "",
        "{",
        "[]",
        r#"{"version": 2, "keys": []}"#,
        r#"{"version": 1, "keys": [], "more": 1}"#,
        r#"{"version": 1, "keys": [{"id": "a"}]}"#,
    ] {
        fs::write(file.path(), text).unwrap();
        let read = file.read();
        assert!(
            matches!(read, Err(ServerKeysError::Malformed { .. })),
            "{text}"
        );
        assert!(file.add(key("ada").0).is_err());
        assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
    }
}

#[cfg(unix)]
#[test]
fn a_key_file_writable_by_others_is_refused_and_a_symlink_is_followed() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = tempfile::tempdir().unwrap();
    let file = ServerKeyFile::new(folder.path().join("keys.json"));
    file.add(key("ada").0).unwrap();
    let link = ServerKeyFile::new(folder.path().join("link.json"));
    symlink(file.path(), link.path()).unwrap();
    link.add(key("bob").0).unwrap();
    assert_eq!(file.read().unwrap().len(), 2, "the link was not replaced");
    for mode in [0o666, 0o620, 0o602] {
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        for file in [&file, &link] {
            let read = file.read();
            assert!(matches!(read, Err(ServerKeysError::Exposed { .. })));
        }
    }
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(file.read().unwrap().len(), 2, "others may read hashes");
}
