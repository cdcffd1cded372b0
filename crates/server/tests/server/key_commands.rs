//! The commands for keys of clients, called from a script.

use std::process::Stdio;

use crate::support::program::{command, id_of, make_key};

#[tokio::test]
async fn existing_keys_are_revoked_even_if_one_of_the_ids_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let first = make_key(folder.path(), &["--owner", "ada"]).await;
    let second = make_key(folder.path(), &["--owner", "bob"]).await;
    let mut revoke = command(folder.path());
    revoke.args(["keys", "revoke", id_of(&first), "0123", id_of(&second)]);
    let revoked = revoke.output().await.unwrap();
    let said = String::from_utf8(revoked.stderr).unwrap();
    assert_eq!(revoked.status.code(), Some(1), "{said}");
    assert!(said.contains("there is no key 0123"), "{said}");
    // A whole key is not repeated.
    let mut whole = command(folder.path());
    let refused = whole.args(["keys", "revoke", first.as_str()]).output();
    let said = String::from_utf8(refused.await.unwrap().stderr).unwrap();
    let expected = "number 1 of the given ids does not exist";
    assert!(said.contains(expected) && !said.contains(&first), "{said}");
    let mut list = command(folder.path());
    let listed = list.args(["keys", "list"]).output().await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(
        listed.matches("revoked 20").count(),
        2,
        "with the time: {listed}"
    );
}

#[tokio::test]
async fn a_key_list_whose_reader_is_gone_ends_without_an_error_message() {
    let folder = tempfile::tempdir().unwrap();
    make_key(folder.path(), &["--owner", "ada"]).await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut list = command(folder.path());
    list.args(["keys", "list"])
        .stdout(writer)
        .stderr(Stdio::piped());
    let output = list.spawn().unwrap().wait_with_output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*said), (Some(141), ""));
}
