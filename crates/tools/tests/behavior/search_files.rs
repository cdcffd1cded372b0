//! `search_files`.

use std::fs::File;

use serde_json::{Value, json};

use crate::limits::{
    SEARCH_DEFAULT_HITS, SEARCH_MAX_HITS, SEARCH_MAX_LINE_BYTES, SEARCH_MAX_PATTERN_BYTES,
};
use crate::support::{Project, call, context, schema};

fn places(search: &Value) -> Vec<String> {
    let hits = search["hits"].as_array().unwrap().iter();
    hits.map(|hit| {
        format!(
            "{}:{}:{}",
            hit["path"].as_str().unwrap(),
            hit["line"],
            hit["column"]
        )
    })
    .collect()
}

#[tokio::test]
async fn matching_lines_are_returned_with_path_line_and_column() {
    let project = Project::with(&[
        ("a.rs", "fn one() {}\n\n/* é */ fn two() {}\r\n"),
        ("b.txt", "no function\n"),
    ]);
    let expected = json!({
        "hits": [
            { "path": "a.rs", "line": 1, "column": 1, "text": "fn one() {}" },
            { "path": "a.rs", "line": 3, "column": 9, "text": "/* é */ fn two() {}" },
        ],
        "total_hits": 2,
        "files_with_hits": 1,
        "files_searched": 2,
        "summary": "2 hits in 1 of 2 files: a.rs:1, a.rs:3.",
    });
    assert_eq!(
        project
            .call("search_files", json!({ "pattern": r"fn \w+\(" }))
            .await,
        expected
    );
    let same = json!({
        "pattern": r"fn \w+\(", "syntax": null, "case": null, "path": null, "glob": null, "max_hits": null,
    });
    assert_eq!(project.call("search_files", same).await, expected);
}

#[tokio::test]
async fn plain_text_is_matched_literally() {
    let project = Project::with(&[("a.txt", "a.b\naxb\n(\n")]);
    let search = project
        .call(
            "search_files",
            json!({ "pattern": "a.b", "syntax": "plain" }),
        )
        .await;
    assert_eq!(places(&search), ["a.txt:1:1"]);
    let search = project
        .call("search_files", json!({ "pattern": "(", "syntax": "plain" }))
        .await;
    assert_eq!(places(&search), ["a.txt:3:1"]);
}

#[tokio::test]
async fn the_end_of_a_line_matches_before_any_line_ending() {
    let project = Project::with(&[("a.txt", "a;\r\n}\r\nb;\n}\n\r\n\n;c\r\n \r\nd\r;\r\ne;")]);
    let cases: [(&str, &[&str]); 11] = [
        (";$", &["1:2", "3:2", "9:3", "10:2"]),
        ("(?m);$", &["1:2", "3:2", "9:3", "10:2"]),
        (r"\w;\z", &["1:1", "3:1", "10:1"]),
        (r"^\}$", &["2:1", "4:1"]),
        ("^$", &["5:1", "6:1"]),
        (r"^;\w$", &["7:1"]),
        (r"^\w;", &["1:1", "3:1", "10:1"]),
        ("^ $", &["8:1"]),
        ("d.;", &["9:1"]),
        // A pattern for the line ending itself still matches it.
        (r"\w;\r$", &["1:1"]),
        (r"\}\r", &["2:1"]),
    ];
    for (pattern, lines) in cases {
        let search = project
            .call("search_files", json!({ "pattern": pattern }))
            .await;
        let expected: Vec<String> = lines.iter().map(|at| format!("a.txt:{at}")).collect();
        assert_eq!(places(&search), expected, "{pattern}");
    }
    let plain = json!({ "pattern": ";$", "syntax": "plain" });
    assert_eq!(project.call("search_files", plain).await["total_hits"], 0);
}

#[tokio::test]
async fn a_search_is_case_sensitive_by_default() {
    let project = Project::with(&[("a.txt", "Straße\nSTRASSE\nstraße\n")]);
    assert_eq!(
        project
            .call("search_files", json!({ "pattern": "straße" }))
            .await["total_hits"],
        1
    );
    let search = project
        .call(
            "search_files",
            json!({ "pattern": "straße", "case": "insensitive" }),
        )
        .await;
    assert_eq!(search["total_hits"], 2);
}

#[tokio::test]
async fn a_search_can_be_narrowed_to_a_folder_a_file_or_a_glob() {
    let project = Project::with(&[
        ("src/a.rs", "x"),
        ("src/b.md", "x"),
        ("doc/c.rs", "x"),
        ("d.rs", "x"),
    ]);
    let search = project
        .call("search_files", json!({ "pattern": "x", "path": "src" }))
        .await;
    assert_eq!(places(&search), ["src/a.rs:1:1", "src/b.md:1:1"]);
    let search = project
        .call(
            "search_files",
            json!({ "pattern": "x", "path": "src/b.md" }),
        )
        .await;
    assert_eq!(places(&search), ["src/b.md:1:1"]);
    let search = project
        .call("search_files", json!({ "pattern": "x", "glob": "*.rs" }))
        .await;
    assert_eq!(
        places(&search),
        ["d.rs:1:1", "doc/c.rs:1:1", "src/a.rs:1:1"]
    );
}

#[tokio::test]
async fn files_ignored_by_gitignore_are_not_searched() {
    let project = Project::with(&[
        (".gitignore", "target\n"),
        ("target/a", "x"),
        ("b", "x"),
        (".git/config", "x"),
    ]);
    let search = project
        .call("search_files", json!({ "pattern": "x" }))
        .await;
    assert_eq!(
        (places(&search), search["ignored"].as_u64()),
        (vec!["b:1:1".to_owned()], Some(1))
    );
}

#[tokio::test]
async fn a_parent_gitignore_applies_in_a_subfolder_unless_it_ignores_the_subfolder_itself() {
    let project = Project::with(&[
        ("../.git/info/exclude", "/project/local\n"),
        ("../.gitignore", "build\n/project/out\n/project/*.tmp\n"),
        (".gitignore", "!keep.tmp\n"),
        ("build/a", "x"),
        ("src/build/a", "x"),
        ("out/a", "x"),
        ("local/a", "x"),
        ("a.tmp", "x"),
        ("keep.tmp", "x"),
        ("src/out/a", "x"),
    ]);
    let search = async || {
        let search = json!({ "pattern": "x" });
        project.call("search_files", search).await
    };
    assert_eq!(places(&search().await), ["keep.tmp:1:1", "src/out/a:1:1"]);
    project.write("../.gitignore", "*\n");
    assert_eq!(search().await["total_hits"], 7);
}

#[cfg(unix)]
#[tokio::test]
async fn a_gitignore_above_the_project_is_not_read_through_a_symlink() {
    let project = Project::with(&[("../.git/HEAD", ""), ("../rules", "a\n"), ("a", "x")]);
    std::os::unix::fs::symlink("rules", project.path("../.gitignore")).unwrap();
    let search = json!({ "pattern": "x" });
    assert_eq!(project.call("search_files", search).await["total_hits"], 1);
}

#[tokio::test]
async fn no_hits_is_a_result_and_not_an_error() {
    let project = Project::with(&[("a.txt", "nothing here\n")]);
    let search = project
        .call("search_files", json!({ "pattern": "absent" }))
        .await;
    assert_eq!(
        (search["total_hits"].as_u64(), search["summary"].as_str()),
        (Some(0), Some("No hits in 1 file."))
    );
}

#[tokio::test]
async fn an_invalid_pattern_is_refused_with_location_and_advice() {
    let message = Project::new()
        .fail("search_files", json!({ "pattern": "fn (" }))
        .await;
    assert!(
        message.starts_with("invalid_pattern: ") && message.contains("unclosed group"),
        "{message}"
    );
    assert!(
        message.ends_with("or set syntax to plain to search for the text as it is"),
        "{message}"
    );
}

#[tokio::test]
async fn patterns_that_cannot_match_a_line_or_cost_too_much_are_refused() {
    let project = Project::new();
    for (pattern, why) in [
        (json!({ "pattern": "" }), "it is empty"),
        (
            json!({ "pattern": "a\nb", "syntax": "plain" }),
            "it has a line break",
        ),
        (json!({ "pattern": "a\nb" }), "\\n"),
        (
            json!({ "pattern": "x".repeat(SEARCH_MAX_PATTERN_BYTES + 1) }),
            "it is longer than 1000 bytes",
        ),
        (json!({ "pattern": "((a{1000}){1000}){1000}" }), "size"),
        (
            json!({ "pattern": "(".repeat(900) + &")".repeat(90) }),
            "unclosed group",
        ),
    ] {
        let message = project.fail("search_files", pattern).await;
        assert!(
            message.starts_with("invalid_pattern: ") && message.contains(why),
            "{message}"
        );
    }
}

#[tokio::test]
async fn hits_are_limited_and_the_rest_is_counted() {
    let project = Project::with(&[("a.txt", &"hit\n".repeat(1_000)), ("b.txt", "hit\n")]);
    let search = project
        .call("search_files", json!({ "pattern": "hit", "max_hits": 3 }))
        .await;
    assert_eq!(
        (places(&search).len(), search["total_hits"].as_u64()),
        (3, Some(1_001))
    );
    assert_eq!(search["files_with_hits"], 2);
    assert!(
        search["hint"]
            .as_str()
            .unwrap()
            .starts_with("only 3 hits are shown; narrow it"),
        "{}",
        search["hint"]
    );
    let search = project
        .call(
            "search_files",
            json!({ "pattern": "hit", "max_hits": 4_000_000_000_u32 }),
        )
        .await;
    assert_eq!(places(&search).len(), SEARCH_MAX_HITS as usize);
}

#[tokio::test]
async fn a_long_line_is_cut_around_the_hit() {
    let project = Project::with(&[(
        "a.js",
        &format!("{}needle{}", "x".repeat(100_000), "y".repeat(100_000)),
    )]);
    let search = project
        .call("search_files", json!({ "pattern": "needle" }))
        .await;
    let text = search["hits"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("xneedley") && text.len() <= SEARCH_MAX_LINE_BYTES + 6,
        "{text}"
    );
    assert_eq!(search["hits"][0]["column"], 100_001);
}

#[tokio::test]
async fn binary_files_are_skipped_and_counted() {
    let project = Project::with(&[("a.txt", "x\n")]);
    project.write("b.bin", b"x\n\0x\n");
    File::create(project.path("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let search = project
        .call("search_files", json!({ "pattern": "x" }))
        .await;
    assert_eq!(
        (places(&search), search["binary_files"].as_u64()),
        (vec!["a.txt:1:1".to_owned()], Some(2))
    );
}

#[tokio::test]
async fn a_search_of_only_binary_files_is_reported_as_such() {
    let project = Project::new();
    project.write("b.bin", b"x\n\0x\n");
    let search = project
        .call("search_files", json!({ "pattern": "x", "path": "b.bin" }))
        .await;
    assert_eq!(
        search["summary"],
        "Only binary files, which are not searched."
    );
}

#[tokio::test]
async fn every_file_that_read_file_treats_as_text_is_searched() {
    let project = Project::with(&[("late.log", &format!("{}\0\nneedle\n", "x\n".repeat(5_000)))]);
    let utf_16: Vec<u8> = "\u{feff}needle\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    project.write("notes.txt", utf_16);
    let search = project
        .call("search_files", json!({ "pattern": "needle" }))
        .await;
    assert_eq!(places(&search), ["late.log:5002:1", "notes.txt:1:1"]);
    assert_eq!(search["binary_files"], json!(null));
}

#[tokio::test]
async fn a_glob_without_matching_files_is_distinguished_from_a_pattern_without_hits() {
    let project = Project::with(&[("src/a.rs", "x")]);
    let hint = async |glob: &str| {
        let search = json!({ "pattern": "y", "glob": glob });
        project.call("search_files", search).await["hint"].clone()
    };
    assert_eq!(
        hint("lib/*.rs").await,
        "no file matches the glob; list_files shows what there is"
    );
    assert_eq!(hint("src/*.rs").await, json!(null));
}

#[tokio::test]
async fn a_named_file_is_searched_only_if_it_matches_the_glob() {
    let project = Project::with(&[("src/a.rs", "x")]);
    let search = async |glob: &str| {
        let search = json!({ "pattern": "x", "path": "src/a.rs", "glob": glob });
        project.call("search_files", search).await
    };
    for glob in ["*.rs", "src/*.rs", "src/", ""] {
        assert_eq!(places(&search(glob).await), ["src/a.rs:1:1"], "{glob}");
    }
    let none = search("*.md").await;
    assert_eq!(
        (&none["total_hits"], &none["files_searched"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        none["hint"],
        "no file matches the glob; list_files shows what there is"
    );
}

#[tokio::test]
async fn a_glob_may_name_a_folder_or_start_with_the_path_of_the_project() {
    let project = Project::with(&[("src/deep/a.rs", "x"), ("b.rs", "x")]);
    for glob in [
        "src/".to_owned(),
        format!("{}/**/*.rs", project.path("src").display()),
    ] {
        let search = json!({ "pattern": "x", "glob": glob });
        let search = project.call("search_files", search).await;
        assert_eq!(places(&search), ["src/deep/a.rs:1:1"], "{glob}");
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_is_searched_and_marked() {
    let project = Project::new();
    project.write("latin1.txt", b"caf\xe9 au lait\n");
    let search = project
        .call("search_files", json!({ "pattern": "au lait" }))
        .await;
    let expected = json!({ "path": "latin1.txt", "line": 1, "column": 6, "text": "caf\u{fffd} au lait", "lossy": true });
    assert_eq!(search["hits"][0], expected);
}

#[tokio::test]
async fn files_whose_encoding_prevents_finding_non_ascii_words_are_counted() {
    let long = "é".repeat(100_000);
    let project = Project::with(&[("a.txt", "Größe\n"), ("long.txt", &long)]);
    project.write("cp932.txt", b"\x93\xfa\x96{\x8c\xea\n");
    project.write("end.txt", b"caf\xe9");
    let late = [&b"x\n".repeat(50_000)[..], b"Gr\xf6\xdfe\n"].concat();
    project.write("late.txt", late);
    let search = async |pattern: &str| {
        let search = json!({ "pattern": pattern });
        project.call("search_files", search).await
    };
    let found = search("Größe").await;
    assert_eq!(places(&found), ["a.txt:1:1"]);
    assert_eq!(found["not_utf_8_files"], 3);
    let hint = found["hint"].as_str().unwrap();
    let expected = "non-ASCII words cannot be found in 3 files not encoded in UTF-8; ";
    assert!(hint.starts_with(expected), "{hint}");
    // In ASCII, encodings hardly differ.
    let found = search("absent").await;
    assert_eq!(found["summary"], "No hits in 5 files.");
    assert_eq!(
        (&found["not_utf_8_files"], &found["hint"]),
        (&json!(null), &json!(null))
    );
}

#[tokio::test]
async fn a_line_too_long_to_search_is_reported_and_the_text_before_it_is_searched() {
    let long = format!("x\n{}", "x".repeat(9 << 20));
    let project = Project::with(&[("a.txt", &long), ("b.txt", "x\n")]);
    let search = project
        .call("search_files", json!({ "pattern": "y|x$" }))
        .await;
    assert_eq!(places(&search), ["a.txt:1:1", "b.txt:1:1"]);
    assert_eq!(
        (
            search["partly_searched_files"].as_u64(),
            search["hint"].as_str()
        ),
        (
            Some(1),
            Some(
                "only the beginning of 1 file was searched; a command such as `grep -n` searches the rest"
            )
        )
    );
}

#[test]
fn the_schema_states_the_actual_limits() {
    let told = schema(Project::new().tool("search_files"));
    let expected = format!(
        "The number of hits to show. Default {SEARCH_DEFAULT_HITS}, maximum {SEARCH_MAX_HITS}; the rest are only counted."
    );
    assert_eq!(told["properties"]["max_hits"]["description"], expected);
}

#[tokio::test]
async fn a_missing_search_path_is_an_error() {
    let project = Project::with(&[("src/main.rs", "")]);
    let message = project
        .fail("search_files", json!({ "pattern": "x", "path": "source" }))
        .await;
    assert!(
        message.starts_with("not_found: there is no \"source\""),
        "{message}"
    );
}

#[tokio::test]
async fn a_cancelled_call_does_not_run() {
    let project = Project::with(&[("a.txt", "text")]);
    let ctx = context();
    ctx.cancellation.cancel();
    let error = call(project.tool("search_files"), json!({ "pattern": "x" }), ctx)
        .await
        .unwrap_err();
    assert!(error.message.starts_with("cancelled: "), "{error}");
}
