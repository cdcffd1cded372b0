//! `apply_patch` accepts patches in the V4A format like unified diffs: with the same checks, and reported as one.

use std::fs;

use neuraxis_core::JsonText;
use serde_json::{Value, json};

use crate::support::{Project, context};

const POEM: &str = "fn a() {\n    one\n    two\n}\n\nfn b() {\n    one\n    two\n}\n";

fn within(changes: &str) -> String {
    format!("*** Begin Patch\n{changes}*** End Patch\n")
}

async fn apply(project: &Project, changes: &str) -> Value {
    let patch = within(changes);
    project.call("apply_patch", json!({ "patch": patch })).await
}

async fn refusal(project: &Project, changes: &str) -> String {
    let patch = within(changes);
    project.fail("apply_patch", json!({ "patch": patch })).await
}

fn read(project: &Project, path: &str) -> String {
    fs::read_to_string(project.path(path)).unwrap()
}

#[tokio::test]
async fn files_are_added_changed_moved_and_deleted_and_the_metadata_has_a_unified_diff() {
    let project = Project::with(&[
        ("a b.txt", POEM),
        ("old.txt", "x\r\nlast"),
        ("empty.txt", ""),
        ("from.txt", "1\n2\n3\n"),
        ("name.txt", "n\n"),
    ]);
    let patch = within(
        "*** Add File: deep/new.txt\n+a\n\n+-- b\n\n*** Update File: a b.txt\n@@ fn b() {\n     one\n-    two\n+    \
         2\n\n*** Delete File: old.txt\n*** Delete File: empty.txt\n*** Update File: from.txt\n*** Move to: \
         deep/to.txt\n 1\n-2\n+two\n 3\n*** Update File: name.txt\n*** Move to: other.txt\n",
    );
    let tool = project.tool("apply_patch");
    let arguments = JsonText::from_text(json!({ "patch": patch }).to_string());
    tool.dry_run(&arguments).await.unwrap();
    assert_eq!(read(&project, "a b.txt"), POEM);
    let output = tool.call(arguments, context()).await.unwrap();
    let applied: Value = output.value.decode().unwrap();
    assert_eq!(
        applied["summary"],
        "Changed 6 files: deep/new.txt (+3 -0), a b.txt (+1 -1), old.txt (+0 -2), empty.txt (+0 -0), deep/to.txt (+1 -1), \
         other.txt (+0 -0)."
    );
    assert_eq!(applied["files"][4]["from"], "from.txt");
    assert_eq!(read(&project, "deep/new.txt"), "a\n\n-- b\n");
    assert_eq!(
        read(&project, "a b.txt"),
        "fn a() {\n    one\n    two\n}\n\nfn b() {\n    one\n    2\n}\n"
    );
    assert_eq!(read(&project, "deep/to.txt"), "1\ntwo\n3\n");
    assert_eq!(read(&project, "other.txt"), "n\n");
    for gone in ["old.txt", "empty.txt", "from.txt", "name.txt"] {
        assert!(!project.path(gone).exists(), "{gone}");
    }
    let told: Value = output.metadata.unwrap().decode().unwrap();
    let told = told["diff"].as_str().unwrap();
    for part in [
        "--- a/a b.txt\n+++ b/a b.txt\n@@ -7,2 +7,2 @@\n     one\n-    two\n+    2\n",
        "--- a/old.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\r\n-last\n\\ No newline at end of file\n",
        "rename from from.txt\nrename to deep/to.txt\n",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told:?}");
    }
}

#[tokio::test]
async fn a_hunk_is_applied_below_its_named_lines_or_where_it_alone_fits() {
    for (hunks, expected) in [
        (
            "@@ fn a() {\n-    one\n+    1\n@@ fn b() {\n-    one\n+    1\n",
            "fn a() {\n    1\n    two\n}\n\nfn b() {\n    1\n    two\n}\n",
        ),
        (
            "@@ fn a() {\n@@ fn b() {\n-    one\n+    1\n",
            "fn a() {\n    one\n    two\n}\n\nfn b() {\n    1\n    two\n}\n",
        ),
        (
            " fn a() {\n-    one\n+    1\n@@ fn b() {\n-    one\n+    1\n",
            "fn a() {\n    1\n    two\n}\n\nfn b() {\n    1\n    two\n}\n",
        ),
        (
            "@@\n-    two\n }\n+\n+end\n*** End of File\n",
            "fn a() {\n    one\n    two\n}\n\nfn b() {\n    one\n}\n\nend\n",
        ),
        (
            "@@ fn b() {\n     two\n }\n+end\n*** End of File\n",
            "fn a() {\n    one\n    two\n}\n\nfn b() {\n    one\n    two\n}\nend\n",
        ),
        (
            "@@\n+end\n*** End of File\n",
            "fn a() {\n    one\n    two\n}\n\nfn b() {\n    one\n    two\n}\nend\n",
        ),
        (
            "@@ fn b() {\n     two\n-}\n+  }\n@@\n+end\n*** End of File\n",
            "fn a() {\n    one\n    two\n}\n\nfn b() {\n    one\n    two\n  }\nend\n",
        ),
        (
            "@@ -1,2 +1,2 @@ fn a() {\n }\n\n-fn b() {\n+fn c() {\n",
            "fn a() {\n    one\n    two\n}\n\nfn c() {\n    one\n    two\n}\n",
        ),
    ] {
        for ends in ["\n", "\r\n"] {
            let project = Project::with(&[("a.rs", &POEM.replace('\n', ends))]);
            apply(&project, &format!("*** Update File: a.rs\n{hunks}")).await;
            assert_eq!(
                read(&project, "a.rs"),
                expected.replace('\n', ends),
                "{hunks}"
            );
        }
    }
    let marked = Project::with(&[("a.rs", &format!("\u{feff}{POEM}"))]);
    apply(&marked, "*** Update File: a.rs\n@@ fn a() {\n-    one\n").await;
    assert!(read(&marked, "a.rs").starts_with("\u{feff}fn a() {\n    two\n"));
}

#[tokio::test]
async fn line_numbers_are_used_where_the_lines_fit_and_a_section_heading_as_context() {
    let second = "fn a() {\n    one\n    two\n}\n\nfn b() {\n    1\n    two\n}\n";
    for (hunks, expected) in [
        ("@@ -7,2 +7,2 @@\n-    one\n+    1\n     two\n", second),
        ("@@ -5,3 +5,3 @@ fn b() {\n-    one\n+    1\n", second),
        ("@@ -2 +2 @@ fn b() {\n-    one\n+    1\n", second),
        ("@@ -7 +7 @@ }\n-    one\n+    1\n", second),
        (
            "@@ -1,2 +1,2 @@ fn b() {\n fn b() {\n-    one\n+    1\n",
            second,
        ),
        (
            "--- a/a.rs\n+++ b/a.rs\n@@ -7 +7 @@\n-    one\n+    1\n",
            second,
        ),
    ] {
        let project = Project::with(&[("a.rs", POEM)]);
        apply(&project, &format!("*** Update File: a.rs\n{hunks}")).await;
        assert_eq!(read(&project, "a.rs"), expected, "{hunks}");
    }
}

#[tokio::test]
async fn an_empty_file_needs_no_context_and_a_missing_final_newline_stays_missing() {
    for (before, hunks, expected) in [
        ("", "@@\n+x = 1\n", "x = 1\n"),
        ("", "@@\n+x = 1\n@@\n+y = 2\n", "x = 1\ny = 2\n"),
        ("alpha\nbeta", "@@\n-beta\n+gamma\n", "alpha\ngamma"),
    ] {
        let project = Project::with(&[("a.txt", before)]);
        apply(&project, &format!("*** Update File: a.txt\n{hunks}")).await;
        assert_eq!(read(&project, "a.txt"), expected, "{hunks}");
    }
}

#[tokio::test]
async fn an_add_only_hunk_is_inserted_directly_below_its_named_line() {
    for (hunks, expected) in [
        ("@@ b\n+x\n", "a\r\nb\r\nx\r\nc\r\n"),
        ("@@ c\n+x\n", "a\r\nb\r\nc\r\nx\r\n"),
        ("@@ -1,0 +2 @@\n+x\n", "a\r\nx\r\nb\r\nc\r\n"),
        ("@@ -0,0 +1 @@\n+x\n", "x\r\na\r\nb\r\nc\r\n"),
        ("@@ b\n@@ c\n+x\n", "a\r\nb\r\nc\r\nx\r\n"),
        ("@@ a\n+x\n@@ b\n+y\n", "a\r\nx\r\nb\r\ny\r\nc\r\n"),
        ("@@\n-a\n+A\n@@ b\n+y\n@@\n-c\n", "A\r\nb\r\ny\r\n"),
    ] {
        let project = Project::with(&[("a.txt", "a\r\nb\r\nc\r\n")]);
        apply(&project, &format!("*** Update File: a.txt\n{hunks}")).await;
        assert_eq!(read(&project, "a.txt"), expected, "{hunks}");
    }
}

/// Checks that a patch is refused with a message that contains these words, and leaves the files unchanged.
async fn assert_refused(project: &Project, changes: &str, expected: &str) {
    let message = refusal(project, changes).await;
    assert!(message.contains(expected), "{changes:?}: {message}");
    assert_eq!(read(project, "a.rs"), POEM, "{changes:?}");
    assert!(!project.path("b.rs").exists(), "{changes:?}");
}

#[tokio::test]
async fn a_hunk_that_does_not_fit_or_has_no_file_is_refused_and_changes_nothing() {
    let project = Project::with(&[("a.rs", POEM)]);
    for (changes, expected) in [
        ("", "invalid_patch: it changes no file"),
        (
            "*** Update File: a.rs\n",
            "invalid_patch: it contains no change to \"a.rs\"",
        ),
        (
            "*** Update File: a.rs\n@@ fn a() {\n",
            "invalid_patch: a hunk of \"a.rs\" has no lines",
        ),
        (
            "*** Update File: a.rs\n@@ fn c() {\n-    one\n",
            "invalid_patch: `@@ fn c() {` matches no later line in \"a.rs\"",
        ),
        (
            "*** Update File: a.rs\n@@ fn b() {\n fn a() {\n-    one\n",
            "invalid_patch: the lines of the hunk are not below `@@ fn b() {` in \"a.rs\"",
        ),
        (
            "*** Update File: a.rs\n@@ -9 +9 @@ fn c() {\n-    one\n",
            "does_not_fit: \"a.rs\": hunk 1 of 1 fits in more than one place: at lines 2, 7; before it, put `@@ LINE` with a line \
             further up",
        ),
        (
            "*** Update File: a.rs\n@@ fn a() {\n-    one\n@@ -2,3 +2,4 @@\n+    three\n",
            "does_not_fit: \"a.rs\": hunk 2 of 2 only adds lines and does not say where; before them, put `@@ LINE` with the line above",
        ),
        (
            "*** Update File: a.rs\n@@ -8,3 +8,4 @@ fn b() {\n+    three\n",
            "does_not_fit: \"a.rs\": hunk 1 of 1 only adds lines and does not say where",
        ),
        (
            "*** Update File: a.rs\n@@ }\n+// b\n",
            "does_not_fit: \"a.rs\": hunk 1 of 1 only adds lines below `@@ }`, which is in more than one place: at lines 4, 9; \
             before it, put `@@ LINE` with a line further up",
        ),
        (
            "*** Update File: a.rs\n--- a/c.rs\n+++ b/c.rs\n@@ -2 +2 @@\n-    one\n",
            "invalid_patch: the lines of \"a.rs\" contain names as in a unified diff, `--- c.rs` and `+++ c.rs`;",
        ),
        (
            "*** Update File: a.rs\n--- a/a.rs\n+++ /dev/null\n@@ -1,9 +0,0 @@\n-fn a() {\n",
            "invalid_patch: the lines of \"a.rs\" contain names as in a unified diff",
        ),
        ("*** Update File: a.rs\n@@\n-    three\n", "does not fit"),
        (
            "*** Update File: a.rs\n-    one\nfn b() {\n",
            "invalid_patch: line 4 of the patch, \"fn b() {\", does not begin with a space, `+` or `-`",
        ),
        (
            "*** Update File:a.rs\n-    one\n",
            "invalid_patch: line 2 of the patch, \"*** Update File:a.rs\", has no file",
        ),
    ] {
        assert_refused(&project, changes, expected).await;
    }
}

#[tokio::test]
async fn an_invalid_file_operation_is_refused_and_changes_nothing() {
    let project = Project::with(&[("a.rs", POEM), ("bytes", "")]);
    fs::write(project.path("bytes"), b"\xfa\xfb\xfc").unwrap();
    project.write("long", "x\n".repeat(10_001));
    let many = "*** Delete File: none\n".repeat(101);
    for (changes, expected) in [
        (
            "*** Delete File: a.rs\n-fn a() {\n",
            "invalid_patch: line 3 of the patch, \"-fn a() {\", follows a deleted file",
        ),
        (
            "*** Add File: b.rs\n+x\ny\n",
            "invalid_patch: line 4 of the patch, \"y\", does not begin with `+`",
        ),
        (
            "*** Add File: b.rs\n",
            "invalid_patch: there are no hunks for \"b.rs\"",
        ),
        (
            "*** Add File: a.rs\n+x\n",
            "invalid_patch: it creates \"a.rs\", which already exists",
        ),
        (
            "*** Add File: \"b.rs\"\n+x\n",
            "written with quotes or escapes",
        ),
        ("*** Add File: ../b.rs\n+x\n", "outside"),
        ("*** Delete File: c.rs\n", "not_found: "),
        ("*** Delete File: bytes\n", "not UTF-8 text"),
        (
            "*** Delete File: long\n",
            "too_big: \"long\" has more lines than a patch can remove",
        ),
        (
            many.as_str(),
            "too_big: the patch changes more than 100 files",
        ),
        (
            "*** Delete File: a.rs\n*** Delete File: a.rs\n",
            "it changes \"a.rs\" twice",
        ),
        (
            "*** Delete File: a.rs\n*** End Patch\n+x\n",
            "invalid_patch: line 4 of the patch, \"+x\", is not between",
        ),
    ] {
        assert_refused(&project, changes, expected).await;
    }
}
