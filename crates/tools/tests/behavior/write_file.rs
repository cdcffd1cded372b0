//! `write_file` creates and replaces files of the project, in one step, and does nothing else.

use std::fs;

use neuraxis_core::JsonText;
use serde_json::json;

use crate::limits::WRITE_MAX_BYTES;
use crate::support::Project;

#[tokio::test]
async fn a_file_is_created_replaced_or_left_unchanged_if_identical() {
    let project = Project::with(&[("src/lib.rs", "")]);
    let write = json!({ "path": "src/a.txt", "content": "one\ntwo\n" });
    let created = project.call("write_file", write.clone()).await;
    assert_eq!(
        created,
        json!({
            "path": "src/a.txt", "change": "created", "bytes": 8, "lines": 2,
            "summary": "Created src/a.txt with 2 lines and 8 bytes.",
        })
    );
    let again = project.call("write_file", write).await;
    assert_eq!(
        (again["change"].as_str(), again["bytes_before"].as_u64()),
        (Some("unchanged"), Some(8))
    );
    let replaced = project
        .call(
            "write_file",
            json!({ "path": "src/a.txt", "content": "three" }),
        )
        .await;
    assert_eq!(
        replaced["summary"],
        "Replaced src/a.txt: it now has 1 line and 5 bytes and had 8 bytes before."
    );
    assert_eq!(
        fs::read_to_string(project.path("src/a.txt")).unwrap(),
        "three"
    );
    let left: Vec<_> = fs::read_dir(project.path("src")).unwrap().collect();
    assert_eq!(left.len(), 2, "something else was left behind: {left:?}");
}

#[tokio::test]
async fn the_line_endings_and_byte_order_mark_of_a_file_are_preserved() {
    let project = Project::new();
    for (before, content, after) in [
        ("a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n"),
        ("a\r\nb", "a\nc", "a\r\nc"),
        ("\u{feff}a\n", "b\n", "\u{feff}b\n"),
        ("\u{feff}a\r\n", "b\n", "\u{feff}b\r\n"),
        ("\u{feff}a\n", "\u{feff}b\n", "\u{feff}b\n"),
        ("\u{feff}a\r\n", "", ""),
        // Mixed line endings, whether existing or intended, stay as they are written.
        ("a\r\nb\n", "a\nc\n", "a\nc\n"),
        ("a\r\n", "a\r\nb\n", "a\r\nb\n"),
        ("a\n", "a\r\n", "a\r\n"),
        ("a", "a\nb\n", "a\nb\n"),
    ] {
        project.write("a.txt", before);
        let write = json!({ "path": "a.txt", "content": content });
        let written = project.call("write_file", write.clone()).await;
        let found = fs::read_to_string(project.path("a.txt")).unwrap();
        assert_eq!(found, after, "{content:?} over {before:?}");
        assert_eq!(written["bytes"], after.len());
        let again = project.call("write_file", write).await;
        assert_eq!(again["change"], "unchanged", "{content:?} over {after:?}");
    }
}

#[tokio::test]
async fn a_utf_16_file_is_not_overwritten_with_utf_8() {
    let project = Project::new();
    let utf_16: Vec<u8> = "\u{feff}one\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    project.write("notes.txt", &utf_16);
    let write = json!({ "path": "notes.txt", "content": "two\n" });
    let patch = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+two\n";
    for (tool, arguments) in [
        ("write_file", &write),
        ("apply_patch", &json!({ "patch": patch })),
    ] {
        let message = project.fail(tool, arguments.clone()).await;
        let expected = "is_utf_16: \"notes.txt\" is in UTF-16, ";
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains("; change it with a "), "{message}");
        assert!(message.contains("`iconv -f UTF-16 -t UTF-8`"), "{message}");
    }
    // The user is not asked about a call that would be refused.
    let write = JsonText::from_text(write.to_string());
    let checked = project.tool("write_file").dry_run(&write).await;
    assert!(checked.unwrap_err().message.starts_with("is_utf_16: "));
    assert_eq!(fs::read(project.path("notes.txt")).unwrap(), utf_16);
}

#[tokio::test]
async fn text_in_another_encoding_is_not_overwritten_and_a_binary_file_may_be() {
    let project = Project::new();
    let write = json!({ "path": "a.txt", "content": "new\n" });
    let late = [&b"x\n".repeat(10_000)[..], b"caf\xe9 au lait\n"].concat();
    for legacy in [
        &b"\x93\xfa\x96{\n"[..],
        b"\xc7\xd1\xb1\xdb\n",
        b"caf\xe9",
        late.as_slice(),
    ] {
        project.write("a.txt", legacy);
        let message = project.fail("write_file", write.clone()).await;
        let expected = "is_not_utf_8: \"a.txt\" is not in UTF-8, ";
        assert!(message.starts_with(expected), "{message}");
        let write = JsonText::from_text(write.to_string());
        let checked = project.tool("write_file").dry_run(&write).await;
        assert_eq!(checked.unwrap_err().message, message);
        assert_eq!(fs::read(project.path("a.txt")).unwrap(), legacy);
    }
    // A character that is cut where reading ends is complete in the file.
    let cut = "x".repeat(WRITE_MAX_BYTES - 1) + "é";
    for there in [&b"a\0\xff"[..], cut.as_bytes()] {
        project.write("a.txt", there);
        let written = project.call("write_file", write.clone()).await;
        assert_eq!(written["change"], "replaced");
    }
}

#[tokio::test]
async fn folders_are_created_only_on_request() {
    let project = Project::new();
    let mut write = json!({ "path": "a/b/c.txt", "content": "x" });
    assert_eq!(
        project.fail("write_file", write.clone()).await,
        "no_folder: there is no folder \"a/b\"; set create_folders to true to create it"
    );
    assert!(!project.path("a").exists());
    write["create_folders"] = json!(true);
    let created = project.call("write_file", write).await;
    assert_eq!(created["path"], "a/b/c.txt");
    assert_eq!(fs::read_to_string(project.path("a/b/c.txt")).unwrap(), "x");
}

#[tokio::test]
async fn only_regular_files_inside_the_project_are_written() {
    let project = Project::with(&[
        ("folder/a.txt", "x"),
        (".git/config", "x"),
        ("neuraxis.toml", "x"),
    ]);
    for (path, expected) in [
        ("..", "outside_root: "),
        ("../outside.txt", "outside_root: "),
        ("../new.txt", "outside_root: "),
        ("folder/../../new.txt", "outside_root: "),
        ("new/../../../new.txt", "invalid_path: "),
        ("/etc/new.txt", "outside_root: "),
        ("/dev/null", "outside_root: "),
        ("folder", "is_a_folder: "),
        (".", "is_a_folder: "),
        ("", "is_a_folder: "),
        ("folder/a.txt/b", "not_a_folder: "),
        ("folder/new/", "invalid_path: "),
        (" a.txt", "invalid_path: "),
        ("a.txt ", "invalid_path: "),
        ("a\u{1b}[2J.txt", "invalid_path: "),
        ("a\0b", "invalid_path: "),
        (".env", "secret_file: "),
        ("folder/.ENV.local", "secret_file: "),
        ("new/id_rsa", "secret_file: "),
        (".git/config", "protected: "),
        (".git/hooks/new", "protected: "),
        ("folder/../.Git/x", "protected: "),
        ("neuraxis.toml", "protected: "),
        ("new/Neuraxis.toml", "protected: "),
    ] {
        let write = json!({ "path": path, "content": "SECRET", "create_folders": true });
        let message = project.fail("write_file", write).await;
        assert!(message.starts_with(expected), "{path:?} gave {message}");
        assert!(!message.contains("SECRET"), "{message}");
    }
    assert!(!project.path("new").exists());
    assert!(!project.path("../new.txt").exists());
    let outside = fs::read_to_string(project.path("../outside.txt")).unwrap();
    assert_eq!(outside, "SECRET outside\n");
}

#[tokio::test]
async fn no_file_that_forms_or_changes_a_repository_is_written() {
    let project = Project::with(&[
        ("bare/HEAD", "ref: refs/heads/main\n"),
        ("bare/config", ""),
        ("docs/objects/x", ""),
        ("tree/commondir", "../bare"),
    ]);
    let write = |path: &str| json!({ "path": path, "content": "x", "create_folders": true });
    for path in [
        "bare/config",
        "bare/hooks/post-checkout",
        "bare/objects/info/x",
        "bare/refs/heads/main",
        "bare/commondir",
        "docs/HEAD",
        "tree/HEAD",
    ] {
        let message = project.fail("write_file", write(path)).await;
        assert!(message.starts_with("protected: "), "{path} gave {message}");
    }
    for path in [
        "bare/readme.md",
        "docs/refs/x",
        "docs/config",
        "new/HEAD",
        "src/HEAD/x",
    ] {
        project.call("write_file", write(path)).await;
    }
    let made = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
    let patch = ["all/HEAD", "all/objects/x", "all/refs/x"]
        .map(made)
        .concat();
    let message = project.fail("apply_patch", json!({ "patch": patch })).await;
    assert!(message.starts_with("protected: "), "{message}");
    assert!(!project.path("all/HEAD").exists());
}

#[tokio::test]
async fn files_named_by_a_git_configuration_are_not_written() {
    let configuration =
        "[core]\n\thooksPath = dev/hooks\n[include]\n\tpath = ../shared/git\n\tpath = ../absent\n";
    let project = Project::with(&[
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/config", configuration),
        ("dev/hooks/pre-commit", "true\n"),
        ("dev/build", "true\n"),
        ("shared/git", "[alias]\n"),
        ("shared/.git/HEAD", "ref: refs/heads/main\n"),
        ("web/.git/HEAD", "ref: refs/heads/main\n"),
        ("web/.git/config", "[core]\n\thooksPath = ../common\n"),
        ("apps/api/.git/HEAD", "ref: refs/heads/main\n"),
        ("apps/api/.git/config", "[include]\n\tpath = ../../it\n"),
    ]);
    let write = |path: &str| json!({ "path": path, "content": "x\n", "create_folders": true });
    for path in [
        "dev/hooks/pre-commit",
        "dev/hooks/new/x",
        "shared/git",
        "absent",
        "common/pre-commit",
        "apps/it",
    ] {
        let message = project.fail("write_file", write(path)).await;
        assert!(message.starts_with("protected: "), "{path} gave {message}");
    }
    let patch = "--- a/dev/hooks/pre-commit\n+++ /dev/null\n@@ -1 +0,0 @@\n-true\n";
    let message = project.fail("apply_patch", json!({ "patch": patch })).await;
    assert!(message.starts_with("protected: "), "{message}");
    for path in ["dev/build", "shared/other", "hooks/x", "dev/hooks.md"] {
        project.call("write_file", write(path)).await;
    }
}

#[tokio::test]
async fn the_size_of_a_written_file_is_bounded() {
    let project = Project::new();
    let content = "x".repeat(WRITE_MAX_BYTES + 1);
    let message = project
        .fail("write_file", json!({ "path": "a", "content": content }))
        .await;
    assert_eq!(
        message,
        "too_big: the content has 1,048,577 bytes, more than 1,048,576; split it into several files"
    );
    let most = json!({ "path": "a", "content": &content[1..] });
    assert_eq!(project.call("write_file", most).await["bytes"], 1 << 20);
}

#[cfg(unix)]
mod on_unix {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;
    use crate::support::{call, context};

    #[tokio::test]
    async fn no_symlink_leads_a_write_outside_or_to_protected_files() {
        let project = Project::with(&[
            ("real/a.txt", "x"),
            ("config/.env", "x"),
            (".git/config", "x"),
        ]);
        symlink("../outside.txt", project.path("file")).unwrap();
        symlink("..", project.path("folder")).unwrap();
        symlink("/tmp", project.path("absolute")).unwrap();
        symlink("config/.env", project.path("notes.txt")).unwrap();
        symlink(".git", project.path("harmless")).unwrap();
        symlink("nowhere", project.path("dangling")).unwrap();
        symlink("../nowhere", project.path("leading_out")).unwrap();
        for (path, expected) in [
            ("file", "outside_root: "),
            ("folder/new.txt", "outside_root: "),
            ("folder/a/b.txt", "outside_root: "),
            ("absolute/new.txt", "outside_root: "),
            ("notes.txt", "secret_file: "),
            ("harmless/config", "protected: "),
            ("harmless/hooks/new", "protected: "),
            ("dangling", "invalid_path: "),
            ("dangling/new.txt", "invalid_path: "),
        ] {
            let write = json!({ "path": path, "content": "x", "create_folders": true });
            let message = project.fail("write_file", write).await;
            assert!(message.starts_with(expected), "{path:?} gave {message}");
        }
        let write = json!({ "path": "leading_out", "content": "x", "create_folders": true });
        project.fail("write_file", write).await;
        assert!(!project.path("../nowhere").exists());
        symlink("real/a.txt", project.path("link")).unwrap();
        let written = project
            .call("write_file", json!({ "path": "link", "content": "new" }))
            .await;
        assert_eq!(written["path"], "real/a.txt");
        assert!(project.path("link").is_symlink());
        assert_eq!(
            fs::read_to_string(project.path("real/a.txt")).unwrap(),
            "new"
        );
    }

    #[tokio::test]
    async fn a_folder_swapped_for_a_symlink_at_any_moment_never_leads_a_write_outside() {
        let project = Project::with(&[("folder/outside.txt", "inside")]);
        let swapping = project.swapping();
        for number in 0..300 {
            let write =
                json!({ "path": "folder/outside.txt", "content": format!("written {number}") });
            // Whether it succeeds depends on the moment; where it writes does not.
            let _ = call(project.tool("write_file"), write, context()).await;
            let outside = fs::read_to_string(project.path("../outside.txt")).unwrap();
            assert_eq!(outside, "SECRET outside\n");
        }
        swapping.stop();
    }

    #[tokio::test]
    async fn the_mode_of_a_file_is_preserved_and_a_read_only_file_is_not_replaced() {
        let project = Project::with(&[("run.sh", "old"), ("locked.txt", "old")]);
        let set = |path: &str, mode| {
            fs::set_permissions(project.path(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        set("run.sh", 0o750);
        set("locked.txt", 0o444);
        project
            .call("write_file", json!({ "path": "run.sh", "content": "new" }))
            .await;
        let mode = fs::metadata(project.path("run.sh"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o750);
        let message = project
            .fail(
                "write_file",
                json!({ "path": "locked.txt", "content": "new" }),
            )
            .await;
        assert!(message.starts_with("no_permission: "), "{message}");
        assert_eq!(
            fs::read_to_string(project.path("locked.txt")).unwrap(),
            "old"
        );
    }

    #[tokio::test]
    async fn a_file_that_only_other_users_may_write_is_not_replaced() {
        let project = Project::with(&[("theirs.txt", "old")]);
        let path = project.path("theirs.txt");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o466)).unwrap();
        // A user such as root can write everything.
        if fs::OpenOptions::new().append(true).open(&path).is_ok() {
            return;
        }
        let write = json!({ "path": "theirs.txt", "content": "new" });
        let message = project.fail("write_file", write).await;
        assert!(
            message.starts_with("no_permission: \"theirs.txt\""),
            "{message}"
        );
        assert_eq!(fs::read_to_string(path).unwrap(), "old");
    }

    #[tokio::test]
    async fn a_folder_in_which_no_file_can_be_created_is_named() {
        let project = Project::with(&[("closed/a.txt", "old")]);
        let folder = project.path("closed");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
        let write = json!({ "path": "closed/a.txt", "content": "new" });
        let result = call(project.tool("write_file"), write, context()).await;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        // A user such as root can write everything.
        if let Err(error) = result {
            assert!(
                error.message.starts_with("no_permission: \"closed\" "),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_named_pipe_is_not_written() {
        let project = Project::new();
        let made = Command::new("mkfifo").arg(project.path("pipe")).status();
        assert!(made.unwrap().success());
        let message = project
            .fail("write_file", json!({ "path": "pipe", "content": "x" }))
            .await;
        assert!(message.starts_with("not_a_regular_file: "), "{message}");
    }

    #[tokio::test]
    async fn a_cancelled_call_writes_nothing() {
        let project = Project::new();
        let ctx = context();
        ctx.cancellation.cancel();
        let write = json!({ "path": "a.txt", "content": "x" });
        let error = call(project.tool("write_file"), write, ctx)
            .await
            .unwrap_err();
        assert!(error.message.starts_with("cancelled: "), "{error}");
    }
}
