//! `read_file`.

use std::fs::{File, OpenOptions};

use serde_json::json;

use crate::limits::{READ_DEFAULT_LINES, READ_MAX_JSON_BYTES, READ_MAX_LINE_CHARS, READ_MAX_LINES};
use crate::support::{Project, call, context, schema};

fn numbered(lines: u64) -> String {
    (1..=lines).map(|line| format!("line {line}\n")).collect()
}

#[tokio::test]
async fn a_file_is_returned_verbatim_with_its_totals() {
    let project = Project::with(&[("a.txt", "one\r\ntwo\nthree")]);
    let expected = json!({
        "kind": "text",
        "path": "a.txt",
        "bytes": 14,
        "text": "one\r\ntwo\nthree",
        "start_line": 1,
        "end_line": 3,
        "total_lines": 3,
        "summary": "a.txt: lines 1 to 3 of 3 (14 bytes).",
    });
    assert_eq!(
        project.call("read_file", json!({ "path": "a.txt" })).await,
        expected
    );
    let same =
        json!({ "path": "a.txt", "start_line": null, "line_count": null, "start_column": null });
    assert_eq!(project.call("read_file", same).await, expected);
    let from_zero = json!({ "path": "a.txt", "start_line": 0 });
    assert_eq!(project.call("read_file", from_zero).await, expected);
}

#[tokio::test]
async fn a_range_of_lines_names_the_line_to_continue_from() {
    let project = Project::with(&[("a.txt", &numbered(10))]);
    let read = project
        .call(
            "read_file",
            json!({ "path": "a.txt", "start_line": 4, "line_count": 2 }),
        )
        .await;
    assert_eq!(read["text"], "line 4\nline 5\n");
    assert_eq!(
        (read["end_line"].as_u64(), read["total_lines"].as_u64()),
        (Some(5), Some(10))
    );
    assert_eq!(read["next_start_line"], 6);
    assert_eq!(read["hint"], "to read on, call again with start_line 6");
}

#[tokio::test]
async fn a_range_that_extends_past_the_end_is_shown_up_to_the_end() {
    let project = Project::with(&[("a.txt", &numbered(10))]);
    let read = project
        .call(
            "read_file",
            json!({ "path": "a.txt", "start_line": 9, "line_count": 50 }),
        )
        .await;
    assert_eq!(
        (read["text"].as_str(), &read["next_start_line"]),
        (Some("line 9\nline 10\n"), &json!(null))
    );
}

#[tokio::test]
async fn a_range_that_starts_past_the_end_is_an_error_with_the_line_count() {
    let project = Project::with(&[("a.txt", &numbered(10)), ("empty", "")]);
    let message = project
        .fail("read_file", json!({ "path": "a.txt", "start_line": 11 }))
        .await;
    assert_eq!(
        message,
        "past_the_end: \"a.txt\" has 10 lines; start_line 11 is past its end"
    );
    let message = project
        .fail(
            "read_file",
            json!({ "path": "empty", "start_line": u64::MAX }),
        )
        .await;
    assert!(
        message.starts_with("past_the_end: \"empty\" has 0 lines;"),
        "{message}"
    );
}

#[tokio::test]
async fn an_empty_file_is_reported_as_empty() {
    let project = Project::with(&[("empty", "")]);
    let read = project.call("read_file", json!({ "path": "empty" })).await;
    assert_eq!(
        (read["text"].as_str(), read["summary"].as_str()),
        (Some(""), Some("empty is empty."))
    );
}

#[tokio::test]
async fn the_pieces_of_a_long_file_add_up_to_the_whole() {
    let whole = numbered(2 * READ_DEFAULT_LINES + 7);
    let project = Project::with(&[("a.txt", &whole)]);
    let (mut text, mut next) = (String::new(), json!(1));
    let mut calls = 0;
    while !next.is_null() {
        let read = project
            .call("read_file", json!({ "path": "a.txt", "start_line": next }))
            .await;
        text.push_str(read["text"].as_str().unwrap());
        next = read["next_start_line"].clone();
        calls += 1;
    }
    assert_eq!((text == whole, calls), (true, 3));
}

#[tokio::test]
async fn the_number_of_lines_per_call_is_bounded() {
    let project = Project::with(&[("a.txt", &"\n".repeat(5_000))]);
    let read = project
        .call("read_file", json!({ "path": "a.txt", "line_count": 5_000 }))
        .await;
    assert_eq!(
        (read["end_line"].as_u64(), read["total_lines"].as_u64()),
        (Some(READ_MAX_LINES), Some(5_000))
    );
}

#[test]
fn the_schema_states_the_actual_limits() {
    let told = schema(Project::new().tool("read_file"));
    let expected = format!(
        "The number of lines to show. Default {READ_DEFAULT_LINES}, maximum {READ_MAX_LINES}."
    );
    assert_eq!(told["properties"]["line_count"]["description"], expected);
}

#[tokio::test]
async fn text_beyond_the_size_limit_ends_with_a_complete_line() {
    // As JSON, a line break takes two bytes.
    let line = format!("{}\n", "x".repeat(1_022));
    let project = Project::with(&[("a.txt", &line.repeat(100))]);
    let read = project.call("read_file", json!({ "path": "a.txt" })).await;
    assert_eq!(read["text"].to_string().len(), READ_MAX_JSON_BYTES + 2);
    assert_eq!(read["next_start_line"], 57);
}

#[tokio::test]
async fn a_long_line_is_cut_and_its_rest_can_be_read() {
    let long: String = (0..1_000).map(|number| format!("{number:04}é")).collect();
    let project = Project::with(&[("a.txt", &format!("{long}\nend\n"))]);
    let (mut text, mut column) = (String::new(), 1);
    loop {
        let arguments = json!({ "path": "a.txt", "line_count": 1, "start_column": column });
        let read = project.call("read_file", arguments).await;
        let part = read["text"].as_str().unwrap();
        if read["cut_lines"].is_null() {
            text.push_str(part.trim_end());
            break;
        }
        assert_eq!(read["cut_lines"], json!([{ "line": 1, "bytes": 6_001 }]));
        text.push_str(part.strip_suffix("…\n").unwrap());
        column += READ_MAX_LINE_CHARS;
        let rest = format!(
            "for the rest of line 1, call again with start_line 1, line_count 1, start_column {column}"
        );
        assert!(
            read["hint"].as_str().unwrap().ends_with(&rest),
            "{}",
            read["hint"]
        );
    }
    assert_eq!(text, long);
}

#[tokio::test]
async fn a_binary_file_is_described_and_not_dumped() {
    let project = Project::new();
    project.write("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0");
    project.write("data", b"abc\0def");
    let expected = json!({
        "kind": "binary",
        "path": "logo.png",
        "bytes": 17,
        "media_type": "image/png",
        "summary": "logo.png is a binary file (image/png, 17 bytes); its content is not shown.",
    });
    assert_eq!(
        project
            .call("read_file", json!({ "path": "logo.png" }))
            .await,
        expected
    );
    let read = project.call("read_file", json!({ "path": "data" })).await;
    assert_eq!(read["media_type"], "application/octet-stream");
}

#[tokio::test]
async fn utf_16_text_is_decoded_and_can_be_searched() {
    let project = Project::new();
    let text = "\u{feff}one\r\nzw\u{f6}lf\n\u{1f980}";
    let bytes = |bytes_of: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes_of).collect()
    };
    for utf_16 in [bytes(u16::to_le_bytes), bytes(u16::to_be_bytes)] {
        project.write("notes.txt", utf_16);
        let read = project
            .call("read_file", json!({ "path": "notes.txt" }))
            .await;
        assert_eq!(read["text"], "one\r\nzw\u{f6}lf\n\u{1f980}");
        assert_eq!(
            read["summary"],
            "notes.txt: lines 1 to 3 of 3 (28 bytes). The file is in UTF-16."
        );
        let line = json!({ "path": "notes.txt", "start_line": 2, "line_count": 1 });
        let read = project.call("read_file", line).await;
        assert_eq!(read["text"], "zw\u{f6}lf\n");
        let search = json!({ "pattern": "^zw\u{f6}lf$" });
        let search = project.call("search_files", search).await;
        assert_eq!(search["hits"][0]["line"], 2);
    }
}

#[tokio::test]
async fn a_file_with_only_a_utf_16_byte_order_mark_is_an_empty_text() {
    let project = Project::new();
    for mark in [b"\xff\xfe", b"\xfe\xff"] {
        project.write("notes.txt", mark);
        let read = project
            .call("read_file", json!({ "path": "notes.txt" }))
            .await;
        assert_eq!(
            (&read["text"], &read["total_lines"]),
            (&json!(""), &json!(0))
        );
        assert_eq!(read["lossy"], json!(null));
        assert_eq!(
            read["summary"],
            "notes.txt is empty. The file is in UTF-16."
        );
    }
}

#[tokio::test]
async fn invalid_utf_16_text_is_shown_and_marked() {
    let project = Project::new();
    let whole: Vec<u8> = "\u{feff}one\ntwo\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    // The second half of a surrogate pair, and half a unit.
    for broken in [&b"\x01\xdc"[..], b"x"] {
        project.write("notes.txt", [&whole[..], broken].concat());
        let read = project
            .call("read_file", json!({ "path": "notes.txt" }))
            .await;
        assert_eq!(
            (read["text"].as_str(), read["lossy"].as_bool()),
            (Some("one\ntwo\n\u{fffd}"), Some(true))
        );
        let summary = read["summary"].as_str().unwrap();
        assert!(summary.contains("not UTF-16"), "{summary}");
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_is_shown_and_marked() {
    let project = Project::new();
    project.write("latin1.txt", b"caf\xe9\n");
    let read = project
        .call("read_file", json!({ "path": "latin1.txt" }))
        .await;
    assert_eq!(
        (read["text"].as_str(), read["lossy"].as_bool()),
        (Some("caf\u{fffd}\n"), Some(true))
    );
    assert!(
        read["summary"].as_str().unwrap().contains("not UTF-8"),
        "{}",
        read["summary"]
    );
}

#[tokio::test]
async fn a_huge_sparse_file_is_recognized_without_being_read() {
    let project = Project::new();
    File::create(project.path("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let read = project.call("read_file", json!({ "path": "huge" })).await;
    assert_eq!(
        (read["kind"].as_str(), read["bytes"].as_u64()),
        (Some("binary"), Some(1 << 40))
    );
}

#[tokio::test]
async fn in_a_file_too_large_to_count_the_requested_lines_are_shown_without_a_total() {
    let project = Project::with(&[("huge.log", &"a line of a log\n".repeat(1_000))]);
    OpenOptions::new()
        .write(true)
        .open(project.path("huge.log"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let read = project
        .call(
            "read_file",
            json!({ "path": "huge.log", "start_line": 999, "line_count": 1 }),
        )
        .await;
    assert_eq!(
        (read["text"].as_str(), &read["total_lines"]),
        (Some("a line of a log\n"), &json!(null))
    );
    assert_eq!(read["next_start_line"], 1_000);
    let message = project
        .fail(
            "read_file",
            json!({ "path": "huge.log", "start_line": 5_000 }),
        )
        .await;
    assert_eq!(
        message,
        "too_big: start_line 5000 is not within the first 268,435,456 bytes of \"huge.log\", the most that read_file reads; use a command such as `sed -n '5000,5499p'`"
    );
}

#[tokio::test]
async fn a_missing_file_is_an_error_that_names_the_nearest() {
    let project = Project::with(&[("src/main.rs", ""), ("README.md", "")]);
    let message = project
        .fail("read_file", json!({ "path": "scr/main.rs" }))
        .await;
    assert_eq!(
        message,
        "not_found: there is no \"scr/main.rs\" in the project; did you mean \"src\"?"
    );
    let message = project
        .fail("read_file", json!({ "path": "readme.md" }))
        .await;
    assert!(
        message.ends_with("did you mean \"README.md\"?"),
        "{message}"
    );
    let message = project
        .fail("read_file", json!({ "path": "README.md/x" }))
        .await;
    assert!(
        message.starts_with("not_found: there is no \"README.md/x\""),
        "{message}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn file_names_are_matched_exactly() {
    let project = Project::with(&[("a.txt ", "with a blank"), ("näme\n.txt", "odd")]);
    assert_eq!(
        project.call("read_file", json!({ "path": "a.txt " })).await["text"],
        "with a blank"
    );
    assert_eq!(
        project
            .call("read_file", json!({ "path": "näme\n.txt" }))
            .await["text"],
        "odd"
    );
    let message = project.fail("read_file", json!({ "path": "a.txt" })).await;
    assert!(message.ends_with("did you mean \"a.txt \"?"), "{message}");
}

#[tokio::test]
async fn reading_a_folder_is_refused_with_a_hint_to_list_it() {
    let project = Project::with(&[("src/main.rs", "")]);
    for path in ["src", ".", ""] {
        let message = project.fail("read_file", json!({ "path": path })).await;
        assert!(
            message.starts_with("is_a_folder: ") && message.ends_with("list it with list_files"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn impossible_paths_are_refused() {
    let project = Project::new();
    let message = project.fail("read_file", json!({ "path": "a\0b" })).await;
    assert_eq!(message, "invalid_path: \"a\\0b\" contains a NUL character");
    assert!(
        !project
            .fail("read_file", json!({ "path": "x".repeat(100_000) }))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_cancelled_call_does_not_run() {
    let project = Project::with(&[("a.txt", "text")]);
    let ctx = context();
    ctx.cancellation.cancel();
    let error = call(project.tool("read_file"), json!({ "path": "a.txt" }), ctx)
        .await
        .unwrap_err();
    assert!(error.message.starts_with("cancelled: "), "{error}");
}
