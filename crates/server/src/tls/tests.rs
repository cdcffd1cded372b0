//! When the certificate and key are read again, and when the former ones stay in use.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use rcgen::{CertificateParams, CertifiedKey, KeyPair, date_time_ymd, generate_simple_self_signed};

use super::*;

/// Writes a file as if some seconds had passed.
fn write(path: &Path, text: &str, seconds: u64) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + seconds);
    File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_modified(time))
        .unwrap();
}

fn pair() -> (String, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

/// Writes a certificate and key into a folder and serves with them.
fn serving(folder: &Path) -> (PathBuf, PathBuf, Tls) {
    let [certificate, key] = ["c", "k"].map(|name| folder.join(name));
    let pair = pair();
    write(&certificate, &pair.0, 0);
    write(&key, &pair.1, 0);
    let tls = Tls::read(&certificate, &key).unwrap();
    (certificate, key, tls)
}

#[tokio::test(start_paused = true)]
async fn a_renewed_pair_is_used_and_an_invalid_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key, tls) = serving(folder.path());
    let second = pair();
    let current = || Arc::clone(tls.acceptor().config());
    let used = current();
    tokio::time::advance(CHECK_INTERVAL).await;
    assert!(Arc::ptr_eq(&used, &current()), "nothing has changed");

    // First the certificate alone, which does not match the key.
    write(&certificate, &second.0, 1);
    tokio::time::advance(CHECK_INTERVAL).await;
    assert!(Arc::ptr_eq(&used, &current()), "the former goes on");
    write(&key, &second.1, 2);
    assert!(Arc::ptr_eq(&used, &current()), "nobody has looked yet");
    tokio::time::advance(CHECK_INTERVAL).await;
    let renewed = current();
    assert!(!Arc::ptr_eq(&used, &renewed), "the new pair is used");

    fs::remove_file(&key).unwrap();
    tokio::time::advance(CHECK_INTERVAL).await;
    assert!(Arc::ptr_eq(&renewed, &current()), "without a key, too");
}

#[tokio::test(start_paused = true)]
async fn a_key_refused_for_its_permissions_is_read_once_they_are_restricted() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key, tls) = serving(folder.path());
    let second = pair();
    let current = || Arc::clone(tls.acceptor().config());
    let used = current();
    write(&certificate, &second.0, 1);
    write(&key, &second.1, 1);
    let allow = |mode| fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
    allow(0o644);
    tokio::time::advance(CHECK_INTERVAL).await;
    assert!(Arc::ptr_eq(&used, &current()), "everybody can read the key");
    allow(0o600);
    tokio::time::advance(CHECK_INTERVAL).await;
    assert!(!Arc::ptr_eq(&used, &current()), "nobody else can");
}

#[tokio::test(start_paused = true)]
async fn a_retargeted_link_is_reread_even_with_equal_age_and_size() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let pairs = [("a", pair()), ("b", pair())];
    let longest = pairs.iter().map(|(_, (certificate, _))| certificate.len());
    let longest = longest.max().unwrap();
    for (name, (certificate, key)) in &pairs {
        let place = folder.path().join(name);
        fs::create_dir(&place).unwrap();
        // Text outside the PEM markers is ignored.
        write(&place.join("c"), &format!("{certificate:longest$}"), 0);
        write(&place.join("k"), key, 0);
    }
    let link = folder.path().join("now");
    symlink("a", &link).unwrap();
    let tls = Tls::read(link.join("c"), link.join("k")).unwrap();
    let current = || Arc::clone(tls.acceptor().config());
    let used = current();
    fs::remove_file(&link).unwrap();
    symlink("b", &link).unwrap();
    tokio::time::advance(CHECK_INTERVAL).await;
    assert!(!Arc::ptr_eq(&used, &current()));
}

#[tokio::test(start_paused = true)]
async fn a_pair_is_reread_at_once_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, tls) = serving(folder.path());
    let current = || Arc::clone(tls.acceptor().config());
    let used = current();
    tls.reread();
    assert!(!Arc::ptr_eq(&used, &current()), "it looks as before");
}

#[tokio::test(start_paused = true)]
async fn an_expired_certificate_is_accepted_at_start_but_never_replaces_another() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["c", "k"].map(|name| folder.path().join(name));
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = date_time_ymd(2020, 1, 2);
    let signing_key = KeyPair::generate().unwrap();
    let expired = params.self_signed(&signing_key).unwrap();
    let at = TlsFiles::expires_at(expired.pem().as_bytes()).unwrap();
    assert_eq!(at.to_string(), "2020-01-02T00:00:00Z");
    let write_expired = |seconds| {
        write(&certificate, &expired.pem(), seconds);
        write(&key, &signing_key.serialize_pem(), seconds);
    };

    write_expired(0);
    let tls = Tls::read(&certificate, &key).unwrap();
    let current = || Arc::clone(tls.acceptor().config());
    assert_eq!(tls.expires_at(), Some(at));
    let begun = current();
    let valid = pair();
    write(&certificate, &valid.0, 1);
    write(&key, &valid.1, 1);
    tokio::time::advance(CHECK_INTERVAL).await;
    let renewed = current();
    assert!(!Arc::ptr_eq(&begun, &renewed));
    write_expired(2);
    tokio::time::advance(CHECK_INTERVAL).await;
    assert!(Arc::ptr_eq(&renewed, &current()), "the former goes on");
    assert!(tls.expires_at().unwrap() > at, "and its time is told");
}
