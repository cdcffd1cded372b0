//! `list_files`.

use std::fs;

use serde_json::{Value, json};

use crate::limits::LIST_MAX_ENTRIES;
use crate::support::Project;

fn paths(list: &Value) -> Vec<&str> {
    list["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_folder_is_listed_by_name_with_kinds_and_sizes() {
    let project = Project::with(&[("b.txt", "12345"), ("a/deep.txt", ""), (".hidden", "x")]);
    let expected = json!({
        "path": ".",
        "entries": [
            { "path": ".hidden", "kind": "file", "bytes": 1 },
            { "path": "a", "kind": "folder" },
            { "path": "b.txt", "kind": "file", "bytes": 5 },
        ],
        "total": 3,
        "summary": "3 entries in the project: .hidden, a/, b.txt.",
    });
    assert_eq!(project.call("list_files", json!({})).await, expected);
    let blank = json!({ "path": "", "glob": "" });
    assert_eq!(project.call("list_files", blank).await, expected);
    let same = json!({ "path": null, "glob": null, "depth": null });
    assert_eq!(project.call("list_files", same).await, expected);
}

#[tokio::test]
async fn a_subfolder_is_listed_with_paths_relative_to_the_root() {
    let project = Project::with(&[("src/main.rs", ""), ("README.md", "")]);
    for path in ["src", "src/", "./src", "src/../src"] {
        let list = project.call("list_files", json!({ "path": path })).await;
        assert_eq!(
            (list["path"].as_str(), paths(&list)),
            (Some("src"), vec!["src/main.rs"]),
            "{path}"
        );
    }
}

#[tokio::test]
async fn depth_limits_the_listed_levels() {
    let project = Project::with(&[("a/b/c/d.txt", "")]);
    let two = project.call("list_files", json!({ "depth": 2 })).await;
    assert_eq!(paths(&two), ["a", "a/b"]);
    let all = project
        .call("list_files", json!({ "depth": 1_000_000 }))
        .await;
    assert_eq!(paths(&all), ["a", "a/b", "a/b/c", "a/b/c/d.txt"]);
}

#[tokio::test]
async fn a_glob_finds_files_at_any_depth() {
    let project = Project::with(&[("src/a.rs", ""), ("src/deep/b.rs", ""), ("src/c.txt", "")]);
    let list = project.call("list_files", json!({ "glob": "*.rs" })).await;
    assert_eq!(paths(&list), ["src/a.rs", "src/deep/b.rs"]);
    let list = project
        .call("list_files", json!({ "glob": "*.rs", "depth": 2 }))
        .await;
    assert_eq!(paths(&list), ["src/a.rs"]);
}

#[tokio::test]
async fn an_invalid_glob_is_refused() {
    let message = Project::new()
        .fail("list_files", json!({ "glob": "{a" }))
        .await;
    assert!(message.starts_with("invalid_glob: "), "{message}");
}

#[tokio::test]
async fn files_ignored_by_gitignore_are_omitted_and_counted() {
    let project = Project::with(&[
        (".gitignore", "/target\n*.log\n!keep.log\n"),
        ("target/out", ""),
        ("a.log", ""),
        ("keep.log", ""),
        ("src/.gitignore", "generated.rs\n"),
        ("src/generated.rs", ""),
        ("src/main.rs", ""),
        ("src/target/kept", ""),
        (".git/HEAD", ""),
        (".git/info/exclude", "mine.txt\n"),
        ("mine.txt", ""),
    ]);
    let list = project.call("list_files", json!({ "depth": 9 })).await;
    let expected = [
        ".gitignore",
        "keep.log",
        "src",
        "src/.gitignore",
        "src/main.rs",
        "src/target",
        "src/target/kept",
    ];
    assert_eq!(paths(&list), expected);
    assert_eq!(list["ignored"], 4);
}

#[tokio::test]
async fn ignore_files_of_parent_folders_apply_in_a_subfolder() {
    let project = Project::with(&[
        (".gitignore", "*.log\nsrc/secret\n"),
        ("src/a.log", ""),
        ("src/secret/x", ""),
    ]);
    let list = project.call("list_files", json!({ "path": "src" })).await;
    assert_eq!(paths(&list), Vec::<&str>::new());
    assert_eq!(list["summary"], "Nothing to list in src.");
}

#[tokio::test]
async fn an_ignored_folder_is_listed_when_it_is_named() {
    let project = Project::with(&[(".gitignore", "/target\n"), ("target/out", "")]);
    assert_eq!(
        paths(
            &project
                .call("list_files", json!({ "path": "target" }))
                .await
        ),
        ["target/out"]
    );
}

#[tokio::test]
async fn a_long_list_is_truncated_with_the_total_and_a_hint() {
    let project = Project::new();
    for number in 0..LIST_MAX_ENTRIES + 20 {
        project.write(&format!("{number:04}"), "");
    }
    let list = project.call("list_files", json!({})).await;
    assert_eq!(paths(&list).len(), LIST_MAX_ENTRIES);
    assert_eq!(list["total"], LIST_MAX_ENTRIES + 20);
    assert_eq!(
        list["hint"],
        "only the first 500 are listed; narrow it with path, glob or depth"
    );
    assert!(
        list["summary"]
            .as_str()
            .unwrap()
            .ends_with("0009 and 510 more."),
        "{}",
        list["summary"]
    );
}

#[tokio::test]
async fn a_missing_folder_is_an_error_that_names_the_nearest() {
    let project = Project::with(&[("crates/core/lib.rs", "")]);
    let message = project
        .fail("list_files", json!({ "path": "crates/kore" }))
        .await;
    assert_eq!(
        message,
        "not_found: there is no \"crates/kore\" in the project; did you mean \"crates/core\"?"
    );
    let message = project.fail("list_files", json!({ "path": "zzz" })).await;
    assert_eq!(
        message,
        "not_found: there is no \"zzz\" in the project; list_files shows what there is"
    );
}

#[tokio::test]
async fn listing_a_file_is_refused_with_a_hint_to_read_it() {
    let project = Project::with(&[("a.txt", "")]);
    let message = project.fail("list_files", json!({ "path": "a.txt" })).await;
    assert_eq!(
        message,
        "not_a_folder: \"a.txt\" is a file; read it with read_file"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_name_that_is_not_unicode_is_shown_and_marked() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let project = Project::new();
    fs::write(project.path(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    let list = project.call("list_files", json!({})).await;
    let expected =
        json!([{ "path": "caf\u{fffd}", "kind": "file", "bytes": 0, "lossy_name": true }]);
    assert_eq!(list["entries"], expected);
}

#[tokio::test]
async fn an_empty_project_has_nothing_to_list() {
    let list = Project::new().call("list_files", json!({})).await;
    assert_eq!(
        (list["total"].as_u64(), list["summary"].as_str()),
        (Some(0), Some("Nothing to list in the project."))
    );
}

#[tokio::test]
async fn folders_beyond_the_maximum_depth_are_counted_and_not_entered() {
    let project = Project::new();
    fs::create_dir_all(project.path("d/".repeat(100))).unwrap();
    let list = project.call("list_files", json!({ "depth": 1_000 })).await;
    assert_eq!(
        (list["total"].as_u64(), list["too_deep_folders"].as_u64()),
        (Some(64), Some(1))
    );
}
