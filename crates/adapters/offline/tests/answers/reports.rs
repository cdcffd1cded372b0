//! How results are described.

use neuraxis_core::{Message, ToolChoice};
use neuraxis_testkit::{messages, request_of, spec};

use crate::ask::{all, asking, report, respond};

#[tokio::test]
async fn tool_results_are_reported_in_plain_language() {
    let health = r#"{"summary":["CPU: 12 % of 8 cores","Memory: 3.1 of 16 GiB"],"warnings":["Disk / is 96 % full"],"cpu":{}}"#;
    let file = r##"{"kind":"text","path":"a.toml","text":"[a]\n\tb = 1\n","hint":"more","summary":"a.toml: lines 1 to 2 of 9."}"##;
    let hits = r#"{"hits":[{"path":"a.rs","line":3,"column":1,"text":"fn a()"}],"summary":"1 hit: a.rs:3."}"#;
    let list = r#"{"entries":[{"path":"src","kind":"folder"},{"path":"a","kind":"file"}],"summary":"2 entries: a, …"}"#;
    insta::assert_snapshot!(report(&[("system_health", health)]).await);
    insta::assert_snapshot!(
        report(&[
            ("read_file", file),
            ("search_files", hits),
            ("list_files", list),
            ("read_file", r#"{"error":"no such file"}"#)
        ])
        .await
    );
}

#[tokio::test]
async fn a_result_of_any_shape_is_reported_field_by_field() {
    let nested = r#"{"user_name":"x","ok":true,"n":1.50,"none":null,"tags":["a","b"],"empty":[],
        "inner":{"deep":{"deeper":{"deepest":1}},"text":"one\ntwo"},"rows":[{"a":1,"b_c":"2"},{"a":3}]}"#;
    let results = [
        ("nested", nested),
        ("plain", "\"just text\""),
        ("number", "42"),
        ("list", "[1,2]"),
        ("nothing", "null"),
        ("empty", "{}"),
        ("broken", "{not json"),
        ("mixed", r#"{"error":"half","rest":1}"#),
    ];
    insta::assert_snapshot!(report(&results).await);
}

#[tokio::test]
async fn a_failed_call_is_reported_plainly() {
    let error = r#"{"error":"no such file: a.txt;\n\u001b[31mtry list_files"}"#;
    let text = report(&[("read_file", error)]).await;
    assert!(
        text.starts_with("read_file failed: no such file: a.txt; try list_files\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_huge_result_is_reported_in_part() {
    let lines = "x".repeat(2_000) + "\n";
    let value = serde_json::json!({ "text": lines.repeat(500), "summary": "big" }).to_string();
    let text = report(&[("read_file", &value)]).await;
    assert!(text.len() < 110_000, "{} bytes", text.len());
    assert!(
        text.contains("… and 302 more lines"),
        "{}",
        &text[text.len() - 200..]
    );
}

#[tokio::test]
async fn tool_output_cannot_control_the_terminal() {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2Jsafe\u{9b}1m\u{202e}\u{8}";
    let fields = serde_json::json!({ hostile: hostile, "list": [hostile], "object": { hostile: [{ hostile: hostile }] } });
    let summary = serde_json::json!({
        "summary": [hostile], "warnings": hostile, "hint": hostile, "text": hostile,
        "hits": [{ "path": hostile, "line": 1, "text": hostile }], "entries": [{ "path": hostile }],
    });
    let error = serde_json::json!({ "error": hostile });
    for value in [fields, summary, error, hostile.into()] {
        let text = report(&[(hostile, &value.to_string())]).await;
        let bad: Vec<char> = text
            .chars()
            .filter(|c| c.is_control() && *c != '\n' || *c == '\u{202e}')
            .collect();
        assert!(bad.is_empty(), "{bad:?} in {text:?}");
        assert!(text.contains("safe"), "{text:?}");
        assert!(!text.contains("owned"), "{text:?}");
    }
    let tools = vec![spec("evil").describe(hostile).build()];
    let text = respond(&asking("Write me a poem.", tools)).await.text();
    assert!(text.contains("- evil: safe1m\n"), "{text:?}");
}

#[tokio::test]
async fn a_final_answer_reports_the_results_and_calls_no_tool() {
    let conversation = [
        Message::user("How is the CPU?"),
        messages::calls([("call_1", "system_health", "{}")]),
        messages::result(
            "call_1",
            "system_health",
            r#"{"summary":"The CPU is idle."}"#,
        ),
        Message::system("You have reached the maximum number of turns."),
    ];
    let mut request = request_of(conversation);
    request.tools = all().into();
    request.tool_choice = ToolChoice::None;
    assert!(
        respond(&request)
            .await
            .text()
            .starts_with("The CPU is idle.\n")
    );

    let mut request = asking("How is the CPU?", all());
    request.tool_choice = ToolChoice::None;
    assert_eq!(respond(&request).await.calls().count(), 0);
}

#[tokio::test]
async fn results_of_an_earlier_question_are_not_reported_again() {
    let conversation = [
        Message::user("How is the CPU?"),
        messages::calls([("call_1", "system_health", "{}")]),
        messages::result(
            "call_1",
            "system_health",
            r#"{"summary":"The CPU is idle."}"#,
        ),
        Message::assistant("The CPU is idle."),
        Message::user("Write me a poem."),
    ];
    assert!(
        respond(&request_of(conversation))
            .await
            .text()
            .starts_with("No language model")
    );
}
