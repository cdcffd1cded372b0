//! `apply_patch` changes all files of a patch or none, and says what does not fit.

use std::fs;

use neuraxis_core::JsonText;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::limits::{PATCH_MAX_BYTES, PATCH_MAX_FILES};
use crate::support::{Project, call, context};

const POEM: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

async fn apply(project: &Project, patch: &str) -> Value {
    project.call("apply_patch", json!({ "patch": patch })).await
}

async fn refusal(project: &Project, patch: &str) -> String {
    project.fail("apply_patch", json!({ "patch": patch })).await
}

fn read(project: &Project, path: &str) -> String {
    fs::read_to_string(project.path(path)).unwrap()
}

#[tokio::test]
async fn a_dry_run_checks_a_patch_without_changing_files() {
    let project = Project::with(&[("poem.txt", POEM)]);
    let tools = neuraxis_tools::project_files(project.path("")).unwrap();
    let tool = |name: &str| {
        let mut tools = tools.iter();
        tools
            .find(|tool| tool.spec().name.as_str() == name)
            .unwrap()
    };
    let patched = |line: &str| {
        let patch = format!("--- a/poem.txt\n+++ b/poem.txt\n@@ -1 +1 @@\n-{line}\n+other\n");
        JsonText::from_text(json!({ "patch": patch }).to_string())
    };
    tool("apply_patch").dry_run(&patched("one")).await.unwrap();
    assert_eq!(read(&project, "poem.txt"), POEM);
    let refused = tool("apply_patch").dry_run(&patched("nine")).await;
    assert!(refused.unwrap_err().message.contains("poem.txt"));
    let written =
        |path: &str| JsonText::from_text(json!({ "path": path, "content": "x" }).to_string());
    tool("write_file")
        .dry_run(&written("new.txt"))
        .await
        .unwrap();
    assert!(!project.path("new.txt").exists());
    tool("write_file")
        .dry_run(&written("no/new.txt"))
        .await
        .unwrap_err();
    tool("read_file").dry_run(&written("absent")).await.unwrap();
}

#[test]
fn a_patch_as_applied_has_actual_line_numbers_and_nothing_else() {
    let project = Project::with(&[("a.txt", POEM), ("b.txt", "b\n"), ("old.txt", "gone\n")]);
    let patch = "A message\n--- a/a.txt\n+++ b/a.txt\n@@ -30,9 +2,1 @@ fn f()\n three\n+3\n four\n@@\n-six\n-seven\n--- \
                 /dev/null\n+++ b/new.txt\n@@ @@\n+a\n+b\n--- a/old.txt\n+++ /dev/null\n@@ -7 +8 @@\n-gone\n--- \
                 a/b.txt\n+++ b/b.txt\n@@ -1,0 +9,9 @@\n+c\n";
    let applied = "--- a/a.txt\n+++ b/a.txt\n@@ -3,2 +3,3 @@\n three\n+3\n four\n@@ -6,2 +6,0 @@\n-six\n-seven\n--- \
                   /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 \
                   @@\n-gone\n--- a/b.txt\n+++ b/b.txt\n@@ -1,0 +2 @@\n+c\n";
    let shown = neuraxis_tools::patch_as_applied(project.path(""), patch);
    assert_eq!(shown.as_deref(), Some(applied));
    assert_eq!(read(&project, "a.txt"), POEM);
    let misfit = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-nine\n+9\n";
    let shown = neuraxis_tools::patch_as_applied(project.path(""), misfit);
    assert_eq!(shown, None);
}

#[tokio::test]
async fn the_metadata_has_the_patch_as_applied_unless_it_is_long() {
    let project = Project::with(&[("a.txt", POEM)]);
    let tool = project.tool("apply_patch");
    let told = async |patch: String| -> Value {
        let arguments = JsonText::from_text(json!({ "patch": patch }).to_string());
        let output = tool.call(arguments, context()).await.unwrap();
        output.metadata.unwrap().decode().unwrap()
    };
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -30,9 +2,1 @@ fn f()\n three\n+3\n four\n";
    let applied = "--- a/a.txt\n+++ b/a.txt\n@@ -3,2 +3,3 @@\n three\n+3\n four\n";
    assert_eq!(told(patch.to_owned()).await, json!({ "diff": applied }));
    let long = "+line\n".repeat(4_000);
    let patch = format!("--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1,4000 @@\n{long}");
    assert_eq!(told(patch).await, json!({}));
}

#[tokio::test]
async fn one_patch_modifies_creates_and_deletes_files() {
    let project = Project::with(&[("src/poem.txt", POEM), ("old.txt", "gone\n")]);
    let patch = "--- a/src/poem.txt\n+++ b/src/poem.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n@@ -6,2 +6,3 @@\n six\n \
                 seven\n+eight\n--- /dev/null\n+++ b/deep/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n--- a/old.txt\n+++ /dev/null\n@@ \
                 -1 +0,0 @@\n-gone\n";
    let applied = apply(&project, patch).await;
    assert_eq!(
        applied,
        json!({
            "files": [
                { "path": "src/poem.txt", "change": "modified", "added_lines": 2, "removed_lines": 1 },
                { "path": "deep/new.txt", "change": "created", "added_lines": 2, "removed_lines": 0 },
                { "path": "old.txt", "change": "deleted", "added_lines": 0, "removed_lines": 1 },
            ],
            "summary": "Changed 3 files: src/poem.txt (+2 -1), deep/new.txt (+2 -0), old.txt (+0 -1).",
        })
    );
    assert_eq!(
        read(&project, "src/poem.txt"),
        "one\nTWO\nthree\nfour\nfive\nsix\nseven\neight\n"
    );
    assert_eq!(read(&project, "deep/new.txt"), "a\nb\n");
    assert!(!project.path("old.txt").exists());
}

#[tokio::test]
async fn a_git_diff_moves_and_copies_files() {
    let project = Project::with(&[("a.txt", POEM), ("b.txt", "b\n")]);
    let patch = "diff --git a/a.txt b/sub/c.txt\nsimilarity index 90%\nrename from a.txt\nrename to sub/c.txt\n--- \
                 a/a.txt\n+++ b/sub/c.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\ndiff --git a/b.txt b/d.txt\nsimilarity index \
                 100%\ncopy from b.txt\ncopy to d.txt\n";
    let applied = apply(&project, patch).await;
    assert_eq!(applied["files"][0]["change"], "renamed");
    assert_eq!(applied["files"][0]["from"], "a.txt");
    assert_eq!(applied["files"][1]["change"], "copied");
    assert!(!project.path("a.txt").exists());
    assert_eq!(read(&project, "sub/c.txt"), POEM.replace("one", "ONE"));
    assert_eq!(
        (read(&project, "b.txt"), read(&project, "d.txt")),
        ("b\n".into(), "b\n".into())
    );
}

#[tokio::test]
async fn a_hunk_with_a_wrong_line_number_is_found_by_its_lines_and_shifts_later_ones() {
    let file = format!("{}{POEM}seven\n", "x\n".repeat(50));
    let project = Project::with(&[("a.txt", &file)]);
    let applied = apply(
        &project,
        "--- a/a.txt\n+++ b/a.txt\n@@ -2,2 +2,3 @@\n four\n-five\n+FIVE\n+5\n@@ -5 +6 @@\n-seven\n+SEVEN\n",
    )
    .await;
    assert!(read(&project, "a.txt").ends_with("four\nFIVE\n5\nsix\nSEVEN\nseven\n"));
    assert_eq!(
        applied["files"][0]["moved_hunks"],
        json!([{ "hunk": 1, "line": 54 }, { "hunk": 2, "line": 58 }])
    );
}

#[tokio::test]
async fn a_hunk_is_applied_at_its_line_number_even_if_other_places_match() {
    let project = Project::with(&[
        ("a.txt", "a\nb\nx\nc\nx\n"),
        ("b.txt", &"x\nold\ny\n".repeat(100)),
    ]);
    // A hunk without context, and one that was taken from a patch with earlier hunks.
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -2,0 +3 @@\n+n\n@@ -5 +5,0 @@\n-x\n--- a/b.txt\n+++ b/b.txt\n@@ -100,3 +150,3 \
                 @@\n x\n-old\n+new\n y\n";
    let applied = apply(&project, patch).await;
    assert_eq!(read(&project, "a.txt"), "a\nb\nn\nx\nc\n");
    assert_eq!(read(&project, "b.txt").lines().nth(100), Some("new"));
    assert_eq!(applied["files"][1].get("moved_hunks"), None);
}

#[tokio::test]
async fn a_hunk_that_fits_several_places_but_not_its_own_line_is_refused_with_the_places() {
    let file = "x\nold\ny\n".repeat(100);
    let project = Project::with(&[("a.txt", &file)]);
    let change = |hunk: &str| format!("--- a/a.txt\n+++ b/a.txt\n{hunk}");
    let patch = change("@@ -99,3 +99,3 @@\n x\n-old\n+new\n y\n");
    assert_eq!(
        refusal(&project, &patch).await,
        "does_not_fit: \"a.txt\": hunk 1 of 1 (@@ -99,3 @@) fits in more than one place, and not at its own line number: at lines 1, 4, 7, 10, 13, 16, 19, 22 and 92 more; give the right line number, or more lines around the change"
    );
    let message = refusal(&project, &change("@@ -400,0 +401 @@\n+new\n")).await;
    assert!(
        message.contains("its line number is not in the file, which has 300 lines"),
        "{message}"
    );
    assert_eq!(read(&project, "a.txt"), file);
}

#[tokio::test]
async fn a_patch_without_a_final_newline_changes_whole_lines() {
    let project = Project::with(&[("a.txt", POEM)]);
    apply(
        &project,
        "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-two\n+TWO",
    )
    .await;
    assert_eq!(read(&project, "a.txt"), POEM.replace("two", "TWO"));
}

#[tokio::test]
async fn line_endings_are_kept_and_no_line_is_joined_with_the_next() {
    let project = Project::with(&[("a.txt", "a\r\nb"), ("b.txt", "a\nb")]);
    let patch =
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-a\r\n+A\r\n b\n\\ No newline at end of file\n";
    apply(&project, patch).await;
    assert_eq!(read(&project, "a.txt"), "A\r\nb");
    let joined = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-a\n+A\n\\ No newline at end of file\n";
    let joined = refusal(&project, joined).await;
    assert!(
        joined.contains("the line \"A\" has no newline at its end"),
        "{joined}"
    );
    let patch =
        "--- a/b.txt\n+++ b/b.txt\n@@ -2 +2,2 @@\n-b\n\\ No newline at end of file\n+b\n+c\n";
    apply(&project, patch).await;
    assert_eq!(read(&project, "b.txt"), "a\nb\nc\n");
}

#[tokio::test]
async fn a_patch_fits_any_line_endings_and_added_lines_get_those_around_them() {
    for (before, hunks, after) in [
        // Lines that end with `\r\n`, which a patch rarely includes.
        (
            "a\r\nb\r\nc\r\n",
            "@@ -1,3 +1,4 @@\n a\n-b\n+B\n+2\n c\n",
            "a\r\nB\r\n2\r\nc\r\n",
        ),
        ("a\r\nb\r\n", "@@ -2,0 +3 @@\n+c\n", "a\r\nb\r\nc\r\n"),
        (
            "a\r\n\r\nb\r\n",
            "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n",
            "a\r\n\r\nB\r\n",
        ),
        (
            "a\nb\n",
            "@@ -1,2 +1,3 @@\n a\r\n-b\r\n+B\r\n+c\r\n",
            "a\nB\nc\n",
        ),
        // Unchanged if the lines are exactly the same.
        (
            "a\r\nb\r\n",
            "@@ -1,2 +1,2 @@\n-a\r\n-b\r\n+a\n+b\n",
            "a\nb\n",
        ),
        // A last line without a newline.
        ("a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", "A\nb"),
        ("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", "a\nb\nc\n"),
        ("a\nb", "@@ -2,0 +3 @@\n+c\n", "a\nb\nc\n"),
        ("a\nb", "@@ -2 +2,2 @@\n-b\n+B\n+c\n", "a\nB\nc"),
        (
            "a\nb",
            "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+B\n",
            "a\nB\n",
        ),
        (
            "a\r\nb",
            "@@ -2 +2,2 @@\n-b\n\\ No newline at end of file\n+b\n+c\n",
            "a\r\nb\r\nc\r\n",
        ),
        // A byte order mark.
        (
            "\u{feff}a\nb\n",
            "@@ -1,2 +1,2 @@\n-a\n+A\n b\n",
            "\u{feff}A\nb\n",
        ),
        (
            "\u{feff}a\r\nb\r\n",
            "@@ -0,0 +1 @@\n+0\n",
            "\u{feff}0\r\na\r\nb\r\n",
        ),
        ("\u{feff}a\nb\n", "@@ -1 +1 @@\n-\u{feff}a\n+a\n", "a\nb\n"),
    ] {
        let project = Project::with(&[("a.txt", before)]);
        apply(&project, &format!("--- a/a.txt\n+++ b/a.txt\n{hunks}")).await;
        assert_eq!(read(&project, "a.txt"), after, "{hunks:?} of {before:?}");
    }
    let project = Project::with(&[("a.txt", "a\r\nb\r\nc\r\n"), ("gone.txt", "\u{feff}a\r\nb")]);
    let message = refusal(
        &project,
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,2 @@\n a\n-x\n c\n",
    )
    .await;
    assert!(
        message.contains(
            "expects \"x\\n\", in line 2, the file has \"b\\r\\n\". The file there:\n1: a\n2: b\n3: c"
        ),
        "{message}"
    );
    let patch = "--- a/gone.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n";
    apply(&project, patch).await;
    assert!(!project.path("gone.txt").exists());
}

#[tokio::test]
async fn lines_shown_in_an_error_keep_their_tabs() {
    let project = Project::with(&[("a.go", "func f() {\n\tif x {\n\t\ta\t= 1\n\t}\n}\n")]);
    let patch =
        "--- a/a.go\n+++ b/a.go\n@@ -2,3 +2,3 @@\n \tif x {\n-        a = 1\n+\t\ta = 2\n \t}\n";
    let message = refusal(&project, patch).await;
    assert!(
        message.ends_with("The file there:\n2: \tif x {\n3: \t\ta\t= 1\n4: \t}"),
        "{message}"
    );
}

#[tokio::test]
async fn a_hunk_that_does_not_fit_is_reported_with_the_closest_lines_and_changes_nothing() {
    let project = Project::with(&[("a.txt", POEM), ("b.txt", POEM)]);
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n--- a/b.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n \
                 one\n-two\n+TWO\n@@ -4,3 +4,3 @@\n four\n-fife\n+FIVE\n six\n";
    assert_eq!(
        refusal(&project, patch).await,
        "does_not_fit: \"b.txt\": hunk 2 of 2 (@@ -4,3 @@) does not fit. The closest match begins at line 4, but where the hunk expects \"fife\\n\", in line 5, the file has \"five\\n\". The file there:\n4: four\n5: five\n6: six"
    );
    let nowhere = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,1 @@\n-alpha\n-beta\n+x\n";
    assert_eq!(
        refusal(&project, nowhere).await,
        "does_not_fit: \"a.txt\": hunk 1 of 1 (@@ -1,2 @@) does not fit: none of its lines is in the file; read the file again"
    );
    let past_the_end = "--- a/a.txt\n+++ b/a.txt\n@@ -6,3 +6,3 @@\n six\n seven\n-eight\n+x\n";
    let message = refusal(&project, past_the_end).await;
    assert!(
        message.contains("expects \"eight\\n\", in line 8, the file ends"),
        "{message}"
    );
    assert_eq!(
        (read(&project, "a.txt"), read(&project, "b.txt")),
        (POEM.into(), POEM.into())
    );
}

#[tokio::test]
async fn an_invalid_patch_is_refused_with_the_reason() {
    let project = Project::with(&[("a.txt", POEM), ("folder/x", "x\n")]);
    for (patch, expected) in [
        ("", "invalid_patch: "),
        ("make it better", "invalid_patch: "),
        (
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,9 +1,1 @@\n",
            "invalid_patch: the hunk in line 3 of the patch, \"@@ -1,9 +1,1 @@\", has no lines",
        ),
        (
            "--- a/new.txt\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n",
            "invalid_patch: there is no \"new.txt\" in the project; to create it, write `--- /dev/null` instead of `--- a/new.txt`",
        ),
        (
            "--- a/a.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+x\n",
            "invalid_patch: its headers name two files",
        ),
        (
            "diff --git a/a.txt b/c.txt\nrename from a.txt\nrename to c.txt\n--- a/folder/x\n+++ b/folder/x\n@@ -1 +1 @@\n-one\n+x\n",
            "invalid_patch: its hunks are for \"a/folder/x\"",
        ),
        (
            "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n",
            "invalid_patch: it creates \"a.txt\", which already exists",
        ),
        (
            "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,3 @@\n+x\n\n+y\n",
            "invalid_patch: it creates \"new.txt\", and each line of a new file must begin with `+`, even an empty one",
        ),
        (
            "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n",
            "invalid_patch: it deletes \"a.txt\", but does not remove all",
        ),
        (
            "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+x\n",
            "not_found: there is no \"b.txt\" in the project; did you mean \"a.txt\"?",
        ),
        (
            "--- a/folder\n+++ b/folder\n@@ -1 +1 @@\n-one\n+x\n",
            "is_a_folder: ",
        ),
        (
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+x\n--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-two\n+x\n",
            "invalid_patch: it changes \"a.txt\" twice",
        ),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n",
            "invalid_patch: it does not treat \"l\" as a regular file",
        ),
        (
            "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n",
            "invalid_patch: it changes the mode of \"a.txt\"",
        ),
        (
            "diff --git a/e b/e\nnew file mode 100644\nindex 000..e69\n",
            "invalid_patch: ",
        ),
        (
            "diff --git a/b b/b\nindex 1..2 100644\nBinary files a/b and b/b differ\n",
            "invalid_patch: ",
        ),
        (
            "--- \"a/\\101.txt\"\n+++ \"b/\\101.txt\"\n@@ -1 +1 @@\n-one\n+x\n",
            "invalid_patch: the name in line 1 of the patch, \"--- \\\"a/\\\\101.txt\\\"\", is written with quotes",
        ),
        (
            "--- \"a/a.txt\"\n+++ \"b/a.txt\"\n@@ -1 +1 @@\n-one\n+x\n",
            "invalid_patch: the name in line 1 of the patch",
        ),
        (
            "diff --git a/a.txt b/c.txt\nrename from \"a.txt\"\nrename to \"c.txt\"\n",
            "invalid_patch: the name in line 2 of the patch",
        ),
    ] {
        let message = refusal(&project, patch).await;
        assert!(message.starts_with(expected), "{patch:?} gave {message}");
    }
    assert_eq!(read(&project, "a.txt"), POEM);
}

#[tokio::test]
async fn deleting_an_empty_file_needs_file_name_lines_but_no_hunks() {
    let project = Project::with(&[("empty", ""), ("full", "x\n")]);
    let by_git = "diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n";
    assert_eq!(
        refusal(&project, by_git).await,
        "invalid_patch: \"empty\" is deleted without a file name line; also write `--- a/empty` and `+++ /dev/null`, for an empty file without hunks"
    );
    let message = refusal(&project, "--- a/full\n+++ /dev/null\n").await;
    assert!(
        message.contains("does not remove all of its lines"),
        "{message}"
    );
    apply(&project, &format!("{by_git}--- a/empty\n+++ /dev/null\n")).await;
    assert!(!project.path("empty").exists());
    project.write("empty", "");
    apply(&project, "--- a/empty\n+++ /dev/null\n").await;
    assert!(!project.path("empty").exists());
    // Together with other files; the file before has wrong counts.
    project.write("empty", "");
    project.write("last", "x\n");
    let patch = "--- a/full\n+++ b/full\n@@ -1,2 +1,2 @@\n-x\n+y\n--- a/empty\n+++ /dev/null\n--- a/last\n+++ \
                 b/last\n@@ -1 +1 @@\n-x\n+z\n";
    apply(&project, patch).await;
    assert!(!project.path("empty").exists());
    assert_eq!(
        (read(&project, "full"), read(&project, "last")),
        ("y\n".to_owned(), "z\n".to_owned())
    );
}

#[tokio::test]
async fn a_file_named_only_in_the_git_header_is_not_changed() {
    let project = Project::with(&[("a.txt", POEM)]);
    for (head, path) in [("", "a.txt"), ("new file mode 100644\n", "new.txt")] {
        let hunk = if head.is_empty() {
            "@@ -1 +1 @@\n-one\n+x\n"
        } else {
            "@@ -0,0 +1 @@\n+x\n"
        };
        let patch = format!("diff --git a/{path} b/{path}\n{head}{hunk}");
        assert_eq!(
            refusal(&project, &patch).await,
            format!(
                "invalid_patch: the hunks of {path:?} have no file name lines; write `--- a/{path}` and `+++ b/{path}` before them"
            )
        );
    }
    let delete = "diff --git a/a.txt b/a.txt\ndeleted file mode 100644\n@@ -1 +0,0 @@\n-one\n";
    let message = refusal(&project, delete).await;
    assert!(
        message.contains("deleted without a file name line"),
        "{message}"
    );
    assert_eq!(read(&project, "a.txt"), POEM);
    assert!(!project.path("new.txt").exists());
}

#[tokio::test]
async fn a_patch_is_refused_if_one_of_its_lines_would_be_lost() {
    let project = Project::with(&[("a.txt", POEM), ("b.txt", POEM)]);
    for (patch, expected) in [
        (
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+ONE\n# Then:\n@@ -3 +3 @@\n-three\n+THREE\n",
            "line 7 of the patch, \"@@ -3 +3 @@\", is cut off by an earlier line that belongs to no hunk, \"# Then:\"",
        ),
        (
            "@@ -3 +3 @@\n-three\n+THREE\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+ONE\n",
            "the hunk in line 1 of the patch, \"@@ -3 +3 @@\", has no file",
        ),
        (
            "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+ONE\n--- a/b.txt\n+++ b/b.txt\n@@ \
             -1 +1 @@\n-one\n+ONE\n",
            "line 7 of the patch, \"--- a/b.txt\", has no `diff --git` line before it",
        ),
        (
            "--- a/a.txt\n+++ b/a.txt\n-one\n+ONE\n",
            "line 3 of the patch, \"-one\", belongs to no hunk; each hunk needs a line",
        ),
        (
            "--- a/a.txt\n+++ b/a.txt\n@@@ -1 -1 +1 @@@\n--one\n++ONE\n",
            "line 3 of the patch, \"@@@ -1 -1 +1 @@@\", belongs to no hunk",
        ),
        (
            "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,4 @@\n+one\n+two\nthree\nfour\n",
            "line 6 of the patch, \"three\", does not begin with a space, `+` or `-`; add one",
        ),
        (
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,4 @@\n one\n+b\nc\nd\n",
            "line 6 of the patch, \"c\", does not begin with a space, `+` or `-`",
        ),
        (
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,9 +1,1 @@\n-one\ntwo\n-three\n",
            "line 5 of the patch, \"two\", does not begin with a space, `+` or `-`",
        ),
        (
            "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,4 @@\n+one\n\nFrom two\n+three\n",
            "line 6 of the patch, \"From two\", does not begin with a space, `+` or `-`",
        ),
        (
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+ONE\ntwo\n+three\n",
            "line 7 of the patch, \"+three\", is cut off by an earlier line that belongs to no hunk, \"two\"; begin that line with",
        ),
    ] {
        let message = refusal(&project, patch).await;
        let expected = format!("invalid_patch: {expected}");
        assert!(message.starts_with(&expected), "{patch:?} gave {message}");
    }
    assert_eq!(read(&project, "a.txt"), POEM);
    assert!(!project.path("new.txt").exists());
}

#[tokio::test]
async fn a_hunk_with_wrong_or_missing_counts_is_counted_by_its_lines() {
    for hunks in [
        // Too small, too large, and missing.
        "@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n three\n-four\n+FOUR\n",
        "@@ -1,9 +1,9 @@\n one\n-two\n+TWO\n@@ -3,9 +3,9 @@\n three\n-four\n+FOUR\n",
        "@@\n-two\n+TWO\n@@ fn f() {\n-four\n+FOUR\n\n",
        "@@ ... @@\n one\n-two\n+TWO\n three\n@@ -2 +2 @@\n-four\n+FOUR\n",
    ] {
        let project = Project::with(&[("a.txt", POEM), ("b.txt", POEM)]);
        let next = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+ONE\n";
        apply(
            &project,
            &format!("--- a/a.txt\n+++ b/a.txt\n{hunks}{next}"),
        )
        .await;
        let expected = POEM.replace("two", "TWO").replace("four", "FOUR");
        assert_eq!(read(&project, "a.txt"), expected, "{hunks:?}");
        assert_eq!(read(&project, "b.txt"), POEM.replace("one", "ONE"));
    }
    let project = Project::new();
    apply(&project, "--- /dev/null\n+++ b/a.txt\n@@\n+x\n+y\n").await;
    assert_eq!(read(&project, "a.txt"), "x\ny\n");
}

#[tokio::test]
async fn a_hunk_without_a_line_number_is_applied_only_where_its_lines_match() {
    let project = Project::with(&[("a.txt", "x\nold\nx\nold\ny\n")]);
    for (hunks, expected) in [
        (
            "@@\n x\n-old\n+new\n",
            "hunk 1 of 1 (@@ @@) fits in more than one place, and not at its own line number: at lines 1, 3;",
        ),
        (
            "@@\n-y\n+z\n@@\n-old\n-x\n+new\n",
            "hunk 2 of 2 (@@ @@) does not fit: its lines begin at line 2, which an earlier hunk has used or passed;",
        ),
        (
            "@@\n+new\n",
            "hunk 1 of 1 (@@ @@) only adds lines, and its line number is not in the file",
        ),
        (
            "@@ -2,3 +2,4 @@\n+new\n",
            "hunk 1 of 1 (@@ @@) only adds lines",
        ),
    ] {
        let message = refusal(&project, &format!("--- a/a.txt\n+++ b/a.txt\n{hunks}")).await;
        let expected = format!("does_not_fit: \"a.txt\": {expected}");
        assert!(message.starts_with(&expected), "{hunks:?} gave {message}");
    }
    apply(&project, "--- a/a.txt\n+++ b/a.txt\n@@\n-old\n+new\n y\n").await;
    assert_eq!(read(&project, "a.txt"), "x\nold\nx\nnew\ny\n");
}

#[tokio::test]
async fn blank_lines_between_hunks_and_mail_text_are_ignored() {
    let project = Project::with(&[("a.txt", POEM)]);
    let patch = "From 1234 Mon Sep 17 00:00:00 2001\nSubject: Shout\n\n- louder\n---\n a.txt | 4 ++--\n\ndiff --git \
                 a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n\n@@ \
                 -7 +7 @@\n-seven\n+SEVEN\n-- \n2.43.0\n\n";
    let applied = apply(&project, patch).await;
    assert_eq!(applied["files"][0]["added_lines"], 2);
    let expected = POEM.replace("one", "ONE").replace("seven", "SEVEN");
    assert_eq!(read(&project, "a.txt"), expected);
}

#[tokio::test]
async fn no_patch_path_leads_outside_or_to_secret_or_protected_files() {
    let project = Project::with(&[
        ("sub/a.txt", "x\n"),
        (".env", "x\n"),
        (".git/config", "x\n"),
    ]);
    fs::write(project.path("../outside.txt"), "x\n").unwrap();
    for (path, expected) in [
        ("../outside.txt", "outside_root: "),
        ("/etc/passwd", "outside_root: "),
        ("sub/../../outside.txt", "outside_root: "),
        (".env", "secret_file: "),
        (".git/config", "protected: "),
        ("neuraxis.toml", "protected: "),
    ] {
        let change = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-x\n+y\n");
        let create = format!("--- /dev/null\n+++ b/{path}2\n@@ -0,0 +1 @@\n+y\n");
        let delete = format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n");
        let take = format!(
            "diff --git a/{path} b/taken\nsimilarity index 100%\nrename from {path}\nrename to taken\n"
        );
        let copy = format!(
            "diff --git a/{path} b/taken\nsimilarity index 100%\ncopy from {path}\ncopy to taken\n"
        );
        for patch in [change, delete, take, copy] {
            let message = refusal(&project, &patch).await;
            assert!(message.starts_with(expected), "{patch:?} gave {message}");
        }
        // For a file with another name, only the paths out of the project are refused.
        if expected.starts_with("outside") {
            let message = refusal(&project, &create).await;
            assert!(message.starts_with(expected), "{create:?} gave {message}");
        }
    }
    assert!(!project.path("taken").exists());
    assert_eq!(
        fs::read_to_string(project.path("../outside.txt")).unwrap(),
        "x\n"
    );
    assert!(!project.path("../outside.txt2").exists());
}

#[tokio::test]
async fn size_file_count_and_work_of_a_patch_are_bounded() {
    let project = Project::new();
    let long = refusal(&project, &"x".repeat(PATCH_MAX_BYTES + 1)).await;
    assert!(
        long.starts_with("too_big: the patch has 1,048,577 bytes"),
        "{long}"
    );
    let many: String = (0..=PATCH_MAX_FILES)
        .map(|number| format!("--- /dev/null\n+++ b/{number}\n@@ -0,0 +1 @@\n+x\n"))
        .collect();
    let many = refusal(&project, &many).await;
    assert!(
        many.starts_with("too_big: the patch changes more than 100 files"),
        "{many}"
    );
    project.write("big.txt", "\n".repeat(5 << 20));
    let big = refusal(
        &project,
        "--- a/big.txt\n+++ b/big.txt\n@@ -1 +1 @@\n-x\n+y\n",
    )
    .await;
    assert!(big.starts_with("too_big: \"big.txt\""), "{big}");
    project.write("many.txt", "\n".repeat(4 << 20));
    let hunk = |line| format!("@@ -{line} +{line} @@\n-x\n+y\n");
    let hunks: String = (1..=100).map(hunk).collect();
    let work = refusal(
        &project,
        &format!("--- a/many.txt\n+++ b/many.txt\n{hunks}"),
    )
    .await;
    assert!(
        work.starts_with("too_big: there is too much to compare"),
        "{work}"
    );
    let no_text = Project::new();
    no_text.write("x.bin", [0xff, b'x', b'\n']);
    let binary = refusal(&no_text, "--- a/x.bin\n+++ b/x.bin\n@@ -1 +1 @@\n-x\n+y\n").await;
    assert!(binary.contains("not UTF-8 text"), "{binary}");
}

#[cfg(unix)]
#[tokio::test]
async fn if_a_later_file_cannot_be_changed_earlier_files_and_folders_are_restored() {
    use std::os::unix::fs::PermissionsExt;

    let project = Project::with(&[("a.txt", "x\n"), ("locked/b.txt", "x\n")]);
    let lock = |mode| {
        fs::set_permissions(project.path("locked"), fs::Permissions::from_mode(mode)).unwrap();
    };
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/new/deep/c.txt\n@@ -0,0 +1 @@\n+x\n--- \
                 a/locked/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
    lock(0o555);
    // The superuser can remove files from any folder, so there is nothing to restore.
    if fs::write(project.path("locked/probe"), "").is_err() {
        let message = refusal(&project, patch).await;
        assert!(message.ends_with("; no file was changed"), "{message}");
        assert_eq!(read(&project, "a.txt"), "x\n");
        assert!(!project.path("new").exists());
    }
    lock(0o755);
}

#[tokio::test]
async fn a_patch_that_cannot_be_applied_leaves_no_folders_behind() {
    let project = Project::new();
    // Each of the two may be created without the other.
    let patch = "--- /dev/null\n+++ b/new/HEAD\n@@ -0,0 +1 @@\n+x\n--- /dev/null\n+++ b/new/objects/a\n@@ -0,0 +1 @@\n+x\n";
    let message = refusal(&project, patch).await;
    assert!(message.ends_with("; no file was changed"), "{message}");
    assert!(!project.path("new").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn a_patch_does_not_read_change_or_create_files_through_a_symlink() {
    use std::os::unix::fs::symlink;

    let project = Project::with(&[("real/a.txt", "x\n")]);
    symlink("real/a.txt", project.path("link.txt")).unwrap();
    symlink("real", project.path("folder")).unwrap();
    for path in ["link.txt", "folder/a.txt"] {
        let delete = format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n");
        let take = format!(
            "diff --git a/{path} b/taken\nsimilarity index 100%\nrename from {path}\nrename to taken\n"
        );
        let copy = take
            .replace("rename from", "copy from")
            .replace("rename to", "copy to");
        let change = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-x\n+y\n");
        for patch in [delete, take, copy, change] {
            assert_eq!(
                refusal(&project, &patch).await,
                format!(
                    "invalid_patch: {path:?} leads through a symlink to \"real/a.txt\", but a patch changes only what it names; name the file itself"
                )
            );
        }
    }
    let create = "--- /dev/null\n+++ b/folder/new.txt\n@@ -0,0 +1 @@\n+x\n";
    let message = refusal(&project, create).await;
    assert!(
        message.contains("leads through a symlink to \"real/new.txt\""),
        "{message}"
    );
    assert!(!project.path("real/new.txt").exists());
    assert_eq!(read(&project, "link.txt"), "x\n");
    assert!(!project.path("taken").exists());
    apply(
        &project,
        "--- a/real/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
    )
    .await;
    assert!(!project.path("real/a.txt").exists());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_between_two_texts_turns_one_into_the_other(before in "([ab]{0,2}\n){0,12}", after in "([ab]{0,2}\n){1,12}") {
        prop_assume!(before != after && !before.is_empty());
        let project = Project::with(&[("a.txt", &before)]);
        let patch = diffy::create_patch(&before, &after).to_string();
        let patch = patch.replacen("--- original", "--- a/a.txt", 1).replacen("+++ modified", "+++ b/a.txt", 1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(apply(&project, &patch));
        prop_assert_eq!(read(&project, "a.txt"), after);
    }

    #[test]
    fn arbitrary_text_neither_crashes_the_tool_nor_changes_a_file_partially(lines in prop::collection::vec(
        prop::sample::select(vec![
            "--- a/a.txt", "+++ b/a.txt", "--- /dev/null", "+++ /dev/null", "@@ -1,2 +1,2 @@", "@@ -1 +1 @@", "@@ -0,0 +1 @@", " one",
            "-one", "+x", "-two", "", "diff --git a/a.txt b/a.txt", "rename from a.txt", "rename to b.txt", "\\ No newline at end of file",
            "new file mode 100644", "deleted file mode 100644", "GIT binary patch", "+++ b/../x",
        ]), 0..12)) {
        let project = Project::with(&[("a.txt", POEM)]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let patch = json!({ "patch": lines.join("\n") + "\n" });
        let result = runtime.block_on(call(project.tool("apply_patch"), patch, context()));
        match result {
            Err(_) => {
                prop_assert_eq!(read(&project, "a.txt"), POEM);
            }
            Ok(applied) => {
                let files = applied["files"].as_array().unwrap().iter();
                let added: u64 = files.map(|file| file["added_lines"].as_u64().unwrap()).sum();
                let is_git = lines.iter().any(|line| line.starts_with("diff --git "));
                let names = if is_git { ["diff --git "; 2] } else { ["--- ", "+++ "] };
                let begins = |line: &str| names.iter().any(|name| line.starts_with(*name));
                let asked = lines.iter().skip_while(|line| !begins(line)).filter(|line| **line == "+x");
                prop_assert!(added >= asked.count() as u64, "a part of {lines:?} was lost: {applied}");
            }
        }
        prop_assert!(!project.path("../x").exists());
    }
}
