//! How a running server reacts to changes in the file of keys.

use std::fs;
use std::path::Path;

use super::*;

fn file(folder: &Path) -> ServerKeyFile {
    ServerKeyFile::new(folder.join("keys.json"))
}

fn add(file: &ServerKeyFile, owner: &str) -> (ServerKey, String) {
    use neuraxis_app::Scope;

    let (key, text) = ServerKey::make(owner, [Scope::Turns], SystemClock.now()).unwrap();
    file.add(key.clone()).unwrap();
    (key, text)
}

async fn a_while() {
    tokio::time::advance(GOOD_FOR).await;
}

#[tokio::test(start_paused = true)]
async fn an_added_or_revoked_key_takes_effect_within_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path());
    let keys = Keys::open(file.clone()).unwrap();
    assert!(!keys.are_needed());
    let (made, text) = add(&file, "ada");
    assert!(!keys.are_needed(), "it is looked once a second");
    a_while().await;
    assert!(keys.are_needed());
    let key = keys.admit(Some(&text)).unwrap();
    assert_eq!(key.stored.owner, "ada");
    // Another key does not affect this one.
    let (_, other) = add(&file, "bob");
    a_while().await;
    assert!(keys.admit(Some(&other)).is_ok() && keys.still_accepts(&key));
    file.revoke(&made.id, SystemClock.now()).unwrap();
    a_while().await;
    assert!(keys.admit(Some(&text)).is_err() && !keys.still_accepts(&key));
    assert!(keys.admit(Some(&other)).is_ok());
}

#[test]
fn changed_and_removed_keys_are_detected() {
    let make = |owner: &str| ServerKey::make(owner, [], SystemClock.now()).unwrap().0;
    let (kept, mut changed, dropped) = (make("ada"), make("bob"), make("cyd"));
    let before = vec![kept.clone(), changed.clone(), dropped.clone()];
    let before = index_by_hash(before, &HashMap::new());
    changed.revoked_at = Some(SystemClock.now());
    let read = index_by_hash(vec![kept, changed.clone()], &before);
    assert_eq!(changed_ids(&read, &before), Some(changed.id));
    assert_eq!(removed_ids(&read, &before), Some(dropped.id));
    assert_eq!(
        (changed_ids(&read, &read), removed_ids(&read, &read)),
        (None, None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_key_file_must_exist_and_admits_no_one_until_it_holds_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path());
    let missing = Keys::open_named(file.clone());
    assert!(matches!(missing, Err(ServerKeysError::Missing { .. })));
    fs::write(file.path(), "{\"version\": 1, \"keys\": []}").unwrap();
    let keys = Keys::open_named(file.clone()).unwrap();
    assert!(keys.are_needed() && keys.admit(None).is_err());
    fs::remove_file(file.path()).unwrap();
    a_while().await;
    assert!(keys.are_needed(), "it is gone");
    let (_, text) = add(&file, "ada");
    a_while().await;
    assert!(keys.admit(Some(&text)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn unknown_expired_revoked_and_missing_keys_are_refused_with_the_same_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path());
    let (revoked, first) = add(&file, "ada");
    file.revoke(&revoked.id, SystemClock.now()).unwrap();
    let (mut expired, second) = ServerKey::make("ada", [], SystemClock.now()).unwrap();
    expired.expires_at = Some(SystemClock.now());
    file.add(expired).unwrap();
    let keys = Keys::open(file).unwrap();
    assert!(keys.are_needed(), "they are keys nevertheless");
    let refused = |shown: Option<&str>| format!("{:?}", keys.admit(shown).unwrap_err());
    let missing = refused(None);
    for shown in [&*first, &*second, "", "nxk_0_0", "' OR 1=1 --"] {
        assert_eq!(refused(Some(shown)), missing, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_or_deleted_key_file_admits_no_other_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path());
    let (_, text) = add(&file, "ada");
    let keys = Keys::open(file.clone()).unwrap();
    let whole = fs::read(file.path()).unwrap();
    for broken in [&b"{"[..], b"", b"{\"version\": 1, \"keys\": []}"] {
        fs::write(file.path(), broken).unwrap();
        a_while().await;
        assert!(keys.are_needed());
        let is_read = broken.len() > 1;
        assert_eq!(keys.admit(Some(&text)).is_ok(), !is_read);
        fs::write(file.path(), &whole).unwrap();
        a_while().await;
        assert!(keys.admit(Some(&text)).is_ok(), "it was made whole");
    }
    fs::remove_file(file.path()).unwrap();
    a_while().await;
    assert!(keys.are_needed() && keys.admit(Some(&text)).is_ok());
    let (_, next) = add(&file, "bob");
    a_while().await;
    assert!(keys.admit(Some(&next)).is_ok() && keys.admit(Some(&text)).is_err());
}

#[tokio::test(start_paused = true)]
async fn wrong_keys_are_rate_limited_and_a_valid_one_still_passes() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path());
    let (_, text) = add(&file, "ada");
    let keys = Keys::open(file).unwrap();
    let wrong = || format!("{:?}", keys.admit(Some("nxk_wrong")).unwrap_err());
    for _ in 0..WRONG_AT_ONCE.get() {
        assert!(wrong().contains("key-needed"));
    }
    assert!(wrong().contains("too-many-requests"));
    assert!(keys.admit(Some(&text)).is_ok());
    a_while().await;
    assert!(wrong().contains("key-needed"));
}

#[tokio::test(start_paused = true)]
async fn the_request_count_of_a_key_survives_changes_to_other_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path());
    let (mut made, text) = ServerKey::make("ada", [], SystemClock.now()).unwrap();
    made.requests_per_minute = NonZeroU32::new(2);
    file.add(made).unwrap();
    let keys = Keys::open(file.clone()).unwrap();
    let counted = || keys.admit(Some(&text)).unwrap().count();
    assert!(counted().is_ok() && counted().is_ok());
    add(&file, "bob");
    a_while().await;
    assert!(format!("{:?}", counted().unwrap_err()).contains("too-many-requests"));
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(counted().is_ok());
}
