//! No file tool leaves the project, reads secrets, or hangs on a file that is not regular.

use std::fs;

use serde_json::json;

use crate::support::Project;

/// Tries a path with every tool and returns their messages.
async fn refusals(project: &Project, path: &str) -> [String; 3] {
    [
        project.fail("list_files", json!({ "path": path })).await,
        project.fail("read_file", json!({ "path": path })).await,
        project
            .fail("search_files", json!({ "path": path, "pattern": "." }))
            .await,
    ]
}

async fn assert_outside(project: &Project, path: &str) {
    for message in refusals(project, path).await {
        assert!(
            message.starts_with("outside_root: "),
            "{path} gave {message}"
        );
        assert!(!message.contains("SECRET"), "{message}");
    }
}

#[tokio::test]
async fn parent_components_are_refused_only_if_they_lead_outside() {
    let project = Project::with(&[("src/a.txt", "inside")]);
    for path in [
        "..",
        "../outside.txt",
        "src/../../outside.txt",
        "src/../../project/src/a.txt",
    ] {
        assert_outside(&project, path).await;
    }
    let read = project
        .call("read_file", json!({ "path": "src/../src/a.txt" }))
        .await;
    assert_eq!(
        (read["path"].as_str(), read["text"].as_str()),
        (Some("src/a.txt"), Some("inside"))
    );
}

#[tokio::test]
async fn absolute_paths_are_refused_unless_they_lead_into_the_project() {
    let project = Project::with(&[("a.txt", "inside")]);
    let outside = project.path("../outside.txt").canonicalize().unwrap();
    for path in [
        "/etc/passwd",
        "/",
        outside.to_str().unwrap(),
        project.path("../outside.txt").to_str().unwrap(),
    ] {
        assert_outside(&project, path).await;
    }
    let inside = project.path("a.txt");
    assert_eq!(
        project
            .call("read_file", json!({ "path": inside.to_str() }))
            .await["text"],
        "inside"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_deleted_project_is_not_treated_as_empty() {
    let project = Project::with(&[("a.txt", "old")]);
    fs::remove_dir_all(project.path("")).unwrap();
    for is_replaced in [false, true] {
        if is_replaced {
            project.write("a.txt", "new");
        }
        let written = json!({ "path": "b.txt", "content": "x" });
        let mut refused = refusals(&project, "a.txt").await.to_vec();
        refused.push(project.fail("list_files", json!({})).await);
        refused.push(project.fail("write_file", written).await);
        for message in refused {
            assert!(message.starts_with("project_gone: "), "{message}");
        }
    }
    assert!(!project.path("b.txt").exists());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn kernel_files_are_not_read_even_inside_the_project() {
    use crate::support::{call, context, named};

    let tools = neuraxis_tools::project_files("/").unwrap();
    for path in ["proc/self/environ", "proc/self/status", "sys/kernel/notes"] {
        let arguments = json!({ "path": path });
        let refused = call(named(&tools, "read_file"), arguments, context()).await;
        let message = refused.unwrap_err().message;
        let expected = ["not_a_regular_file: ", "not_found: "];
        assert!(
            expected.iter().any(|start| message.starts_with(start)),
            "{message}"
        );
    }
}

#[cfg(unix)]
mod on_unix {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::support::{call, context};

    #[tokio::test]
    async fn symlinks_that_lead_outside_are_refused_and_never_followed() {
        let project = Project::with(&[("a.txt", "x")]);
        symlink("../outside.txt", project.path("file")).unwrap();
        symlink("..", project.path("folder")).unwrap();
        symlink("/etc", project.path("absolute")).unwrap();
        for path in [
            "file",
            "folder",
            "folder/outside.txt",
            "absolute",
            "absolute/passwd",
        ] {
            assert_outside(&project, path).await;
        }
        let search = project
            .call("search_files", json!({ "pattern": "SECRET|root" }))
            .await;
        assert_eq!(
            (
                search["total_hits"].as_u64(),
                search["files_searched"].as_u64()
            ),
            (Some(0), Some(1))
        );
    }

    #[tokio::test]
    async fn symlinks_are_listed_as_such_and_not_entered() {
        let project = Project::with(&[("real/a.txt", "")]);
        symlink("real", project.path("link")).unwrap();
        symlink("..", project.path("real/loop")).unwrap();
        let list = project.call("list_files", json!({ "depth": 9 })).await;
        let expected = json!([
            { "path": "link", "kind": "symlink" },
            { "path": "real", "kind": "folder" },
            { "path": "real/a.txt", "kind": "file", "bytes": 0 },
            { "path": "real/loop", "kind": "symlink" },
        ]);
        assert_eq!(list["entries"], expected);
    }

    #[tokio::test]
    async fn symlinks_inside_the_project_can_be_read() {
        let project = Project::with(&[("real/a.txt", "inside")]);
        symlink("real", project.path("link")).unwrap();
        let read = project
            .call("read_file", json!({ "path": "link/a.txt" }))
            .await;
        assert_eq!(
            (read["path"].as_str(), read["text"].as_str()),
            (Some("real/a.txt"), Some("inside"))
        );
    }

    #[tokio::test]
    async fn dangling_and_circular_symlinks_are_errors() {
        let project = Project::new();
        symlink("missing", project.path("dangling")).unwrap();
        symlink("b", project.path("a")).unwrap();
        symlink("a", project.path("b")).unwrap();
        let message = project
            .fail("read_file", json!({ "path": "dangling" }))
            .await;
        assert!(
            message.starts_with("not_found: ") && !message.contains("did you mean"),
            "{message}"
        );
        assert!(
            project
                .fail("read_file", json!({ "path": "a" }))
                .await
                .starts_with("io_error: ")
        );
    }

    #[tokio::test]
    async fn the_project_stays_the_same_folder_after_its_path_is_replaced() {
        let project = Project::with(&[("a.txt", "mine")]);
        fs::rename(project.path(""), project.path("../moved")).unwrap();
        symlink(
            "/etc",
            project.path("").to_str().unwrap().trim_end_matches('/'),
        )
        .unwrap();
        assert_eq!(
            project.call("read_file", json!({ "path": "a.txt" })).await["text"],
            "mine"
        );
        let list = project.call("list_files", json!({})).await;
        assert_eq!(list["total"], 1);
    }

    #[tokio::test]
    async fn a_folder_swapped_for_a_symlink_at_any_moment_never_leads_outside() {
        let project = Project::with(&[("folder/outside.txt", "inside")]);
        let swapping = project.swapping();
        for _ in 0..300 {
            let read = json!({ "path": "folder/outside.txt" });
            if let Ok(read) = call(project.tool("read_file"), read, context()).await {
                assert_eq!(read["text"], "inside");
            }
            let search = project
                .call("search_files", json!({ "pattern": "SECRET" }))
                .await;
            assert_eq!(search["total_hits"], 0);
        }
        swapping.stop();
    }

    #[tokio::test]
    async fn pipes_sockets_and_devices_are_refused_without_blocking() {
        let project = Project::with(&[("a.txt", "x")]);
        assert!(
            Command::new("mkfifo")
                .arg(project.path("pipe"))
                .status()
                .unwrap()
                .success()
        );
        let _listening = UnixListener::bind(project.path("socket")).unwrap();
        let tried = async {
            for path in ["pipe", "socket"] {
                for message in refusals(&project, path).await {
                    assert!(message.starts_with("not_a_regular_file: "), "{message}");
                }
            }
            project
                .call("search_files", json!({ "pattern": "x" }))
                .await
        };
        let search = timeout(Duration::from_secs(30), tried).await.unwrap();
        assert_eq!(
            (
                search["total_hits"].as_u64(),
                search["files_searched"].as_u64()
            ),
            (Some(1), Some(1))
        );
        let list = project.call("list_files", json!({ "glob": "pipe" })).await;
        assert_eq!(
            list["entries"],
            json!([{ "path": "pipe", "kind": "other" }])
        );
    }

    #[tokio::test]
    async fn an_ignore_file_that_is_a_pipe_or_leads_outside_is_ignored() {
        let project = Project::with(&[("sub/a.txt", "x")]);
        assert!(
            Command::new("mkfifo")
                .arg(project.path(".gitignore"))
                .status()
                .unwrap()
                .success()
        );
        fs::write(project.path("../rules"), "*.txt\n").unwrap();
        symlink("../../rules", project.path("sub/.gitignore")).unwrap();
        let listed = timeout(
            Duration::from_secs(30),
            project.call("list_files", json!({ "glob": "*.txt" })),
        );
        assert_eq!(listed.await.unwrap()["total"], 1);
    }

    #[tokio::test]
    async fn secrets_are_refused_under_any_name() {
        let project = Project::with(&[("config/.env.local", "TOKEN=1")]);
        symlink("config/.env.local", project.path("notes.txt")).unwrap();
        for (tool, arguments) in [
            ("read_file", json!({ "path": "notes.txt" })),
            (
                "search_files",
                json!({ "pattern": "TOKEN", "path": "notes.txt" }),
            ),
            (
                "read_file",
                json!({ "path": "config/../config/.env.local" }),
            ),
        ] {
            let message = project.fail(tool, arguments).await;
            assert!(
                message.starts_with("secret_file: \"config/.env.local\" is never read"),
                "{message}"
            );
            assert!(!message.contains("TOKEN"), "{message}");
        }
    }

    #[tokio::test]
    async fn unreadable_files_and_folders_are_reported_or_counted() {
        let project = Project::with(&[
            ("locked.txt", "x"),
            ("locked/a.txt", "x"),
            ("open.txt", "x"),
        ]);
        for (path, mode) in [("locked.txt", 0o000), ("locked", 0o000)] {
            fs::set_permissions(project.path(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        // The superuser can read everything, so there is nothing to check.
        if fs::read(project.path("locked.txt")).is_err() {
            let message = project
                .fail("read_file", json!({ "path": "locked.txt" }))
                .await;
            assert!(
                message.starts_with("no_permission: \"locked.txt\""),
                "{message}"
            );
            let search = project
                .call("search_files", json!({ "pattern": "x" }))
                .await;
            assert_eq!(
                (
                    search["unreadable_files"].as_u64(),
                    search["unreadable_folders"].as_u64()
                ),
                (Some(1), Some(1))
            );
            assert_eq!(search["total_hits"], 1);
        }
        fs::set_permissions(project.path("locked"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[tokio::test]
async fn secrets_are_listed_but_neither_read_nor_searched() {
    let project = Project::with(&[
        (".env", "TOKEN=1"),
        (".env.example", "TOKEN="),
        ("keys/server.PEM", "TOKEN"),
        ("id_rsa", "TOKEN"),
        ("id_ed25519.pub", "TOKEN"),
        ("code.rs", "TOKEN"),
    ]);
    for path in [
        ".env",
        ".env.example",
        "keys/server.PEM",
        "id_rsa",
        "id_ed25519.pub",
    ] {
        let message = project.fail("read_file", json!({ "path": path })).await;
        assert!(
            message.starts_with(&format!("secret_file: {path:?} is never read")),
            "{message}"
        );
        assert!(
            message.contains(".env, .env.*, *.pem, id_rsa*, id_ed25519*"),
            "{message}"
        );
    }
    let search = project
        .call("search_files", json!({ "pattern": "TOKEN" }))
        .await;
    assert_eq!(
        (
            search["total_hits"].as_u64(),
            search["secret_files"].as_u64()
        ),
        (Some(1), Some(5))
    );
    let list = project.call("list_files", json!({ "depth": 2 })).await;
    assert_eq!(list["total"], 7);
}

#[tokio::test]
async fn messages_do_not_reveal_the_location_of_the_project() {
    let project = Project::with(&[("a.txt", "x")]);
    let place = project.path("").display().to_string();
    for path in ["missing.txt", "../outside.txt", "a.txt/b", "\u{1}"] {
        for message in refusals(&project, path).await {
            assert!(!message.contains(place.trim_end_matches('/')), "{message}");
        }
    }
}
