//! Tests of the stored decisions.

use std::fs;

use tempfile::TempDir;

use super::*;

fn list() -> (TrustList, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment::new("/").with_data_dir(folder.path().join("data/neuraxis"));
    (TrustList::of(&environment).unwrap(), folder)
}

#[test]
fn a_trust_decision_applies_only_to_its_content_and_folder() {
    let (list, _folder) = list();
    let (here, there) = (Path::new("/here"), Path::new("/there"));
    let (first, second) = (ContentHash::of(b"1"), ContentHash::of(b"2"));
    let decision = |folder, content| list.decision(folder, content).unwrap();
    assert_eq!(decision(here, first), Trust::Unknown);
    list.trust(here, first).unwrap();
    assert_eq!(decision(here, first), Trust::Trusted);
    assert_eq!(decision(here, second), Trust::Changed);
    assert_eq!(decision(there, first), Trust::Unknown);
    list.refuse(here, second).unwrap();
    assert_eq!(decision(here, second), Trust::Refused);
    assert_eq!(decision(here, first), Trust::Unknown);
    assert_eq!(list.forget(here).unwrap(), Some(Forgotten::Refusal));
    assert_eq!(list.forget(here).unwrap(), None);
    assert_eq!(decision(here, second), Trust::Unknown);
}

#[test]
fn what_is_forgotten_is_returned_and_other_folders_keep_their_answers() {
    let (list, _folder) = list();
    let (here, there) = (Path::new("/here"), Path::new("/there"));
    let content = ContentHash::of(b"1");
    list.trust(here, content).unwrap();
    list.trust(there, content).unwrap();
    assert_eq!(list.forget(here).unwrap(), Some(Forgotten::Trust));
    assert_eq!(list.decision(here, content).unwrap(), Trust::Unknown);
    assert_eq!(list.decision(there, content).unwrap(), Trust::Trusted);
}

#[test]
fn the_oldest_decisions_are_dropped_to_bound_the_file() {
    let (list, _folder) = list();
    let content = ContentHash::of(b"");
    let answered = |number: usize| FolderDecision {
        folder: format!("/{number}"),
        sha256: content,
        answer: Answer::Trusted,
    };
    let folders = (0..MAX_FOLDERS).map(answered).collect();
    list.write(&StoredDecisions { folders }).unwrap();
    list.trust(Path::new("/new"), content).unwrap();
    let decision = |folder| list.decision(Path::new(folder), content).unwrap();
    assert_eq!(decision("/0"), Trust::Unknown);
    assert_eq!(decision("/1"), Trust::Trusted);
    assert_eq!(decision("/new"), Trust::Trusted);
}

#[test]
fn without_a_data_folder_no_decision_is_stored() {
    let error = TrustList::of(&Environment::new("/")).unwrap_err();
    assert!(matches!(error, TrustError::NoDataFolder), "{error}");
}

#[cfg(unix)]
#[test]
fn the_trust_file_is_private_and_any_other_file_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let (list, folder) = list();
    let content = ContentHash::of(b"");
    list.trust(Path::new("/here"), content).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(list.file()), 0o600);
    assert_eq!(mode(list.file().parent().unwrap()), 0o700);

    let refused = || {
        let error = list.decision(Path::new("/here"), content).unwrap_err();
        assert!(matches!(error, TrustError::Foreign { .. }), "{error}");
    };
    fs::set_permissions(list.file(), fs::Permissions::from_mode(0o620)).unwrap();
    refused();
    fs::set_permissions(list.file(), fs::Permissions::from_mode(0o600)).unwrap();
    let elsewhere = folder.path().join("elsewhere.toml");
    fs::rename(list.file(), &elsewhere).unwrap();
    symlink(&elsewhere, list.file()).unwrap();
    refused();
    fs::remove_file(list.file()).unwrap();
    fs::create_dir(list.file()).unwrap();
    refused();
}

#[test]
fn a_damaged_trust_file_is_an_error_and_not_overwritten() {
    let (list, _folder) = list();
    file::write(list.file(), "nonsense = 1").unwrap();
    let error = list.trust(Path::new("/here"), ContentHash::of(b""));
    assert!(matches!(error, Err(TrustError::Damaged { .. })));
    assert_eq!(fs::read_to_string(list.file()).unwrap(), "nonsense = 1");
}
