//! Tests of the filter: what it passes through, what it turns the rest into, and that splits make no difference.

mod properties;

use neuraxis_core::{ModelRef, Reply, ReplyAssembler};
use serde_json::{Value, json};

use super::*;

/// The maximum number of bytes that are kept back before a tag is recognized: `</`, four bars, the name.
const LONGEST_OPENING: usize = 2 + 4 * '｜'.len_utf8() + 4;

const LEAK: &str = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"look\">\n<｜DSML｜parameter name=\"at\" string=\"true\">the sky</｜DSML｜parameter>\n<｜DSML｜parameter name=\"depth\" string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

fn text(text: &str) -> ReplyDelta {
    ReplyDelta::Text {
        block: BlockIndex(0),
        text: text.to_owned(),
    }
}

fn end_of(finish: ReplyFinish, usage: Usage) -> ReplyDelta {
    let model = ModelRef::new("deepseek", "m");
    ReplyDelta::End(Box::new(ReplyEnd {
        finish,
        usage,
        model,
    }))
}

fn end() -> ReplyDelta {
    end_of(ReplyFinish::Stop, Usage::default())
}

/// Returns what the filter emits for a reply.
fn filtered(deltas: impl IntoIterator<Item = ReplyDelta>) -> Result<Vec<ReplyDelta>, LlmError> {
    let mut filter = MarkupFilter::default();
    let mut out = VecDeque::new();
    for delta in deltas {
        filter.push(delta, &mut out)?;
    }
    Ok(out.into())
}

fn assembled(deltas: impl IntoIterator<Item = ReplyDelta>) -> Result<Reply, LlmError> {
    let mut assembler = ReplyAssembler::default();
    for delta in filtered(deltas)? {
        assembler.push(delta)?;
    }
    assembler.finish()
}

fn reply(pieces: &[&str]) -> Result<Reply, LlmError> {
    assembled(pieces.iter().map(|piece| text(piece)).chain([end()]))
}

/// Returns the text and the calls of a reply that arrives in one piece.
fn read(written: &str) -> (String, Vec<(String, Value)>) {
    let reply = reply(&[written]).unwrap();
    let calls = reply.calls().map(|call| {
        let arguments = call.arguments.decode().unwrap();
        (call.name.to_string(), arguments)
    });
    (reply.text(), calls.collect())
}

fn complaint(written: &str) -> String {
    let error = reply(&[written]).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{written}");
    assert!(error.is_retryable() && error.usage.is_some());
    error.message
}

#[test]
fn a_tool_call_written_as_text_becomes_a_call_and_is_never_shown() {
    let reply = reply(&["Let me see.\n\n", LEAK]).unwrap();
    assert_eq!(reply.text(), "Let me see.\n\n");
    assert_eq!(reply.finish, ReplyFinish::ToolCalls);
    let call = reply.calls().next().unwrap();
    assert_eq!(&*call.name, "look");
    assert_eq!(call.arguments.as_str(), r#"{"at":"the sky","depth":2}"#);
    assert_eq!(call.provider_id, None);
}

#[test]
fn every_spelling_of_the_markup_is_recognized() {
    for (from, to) in [
        ("tool_calls", "function_calls"),
        ("｜", "|"),
        ("｜", "‖"),
        ("｜", "｜｜"),
        ("\n", ""),
        (">\n", ">\n\n  "),
    ] {
        let (shown, calls) = read(&LEAK.replace(from, to));
        assert_eq!(shown, "", "{to}");
        let expected = json!({"at": "the sky", "depth": 2});
        assert_eq!(calls, [("look".to_owned(), expected)], "{to}");
    }
}

#[test]
fn several_written_calls_keep_their_order_and_value_types() {
    let invoke = |name: &str, parameters: &str| {
        format!("<｜DSML｜invoke name=\"{name}\">{parameters}</｜DSML｜invoke>")
    };
    let parameter = |attributes: &str, value: &str| {
        format!("<｜DSML｜parameter {attributes}>{value}</｜DSML｜parameter>")
    };
    let values = [
        parameter(r#"name="raw" string="true""#, " 1 < 2 \"&\"\n"),
        parameter(r#"name="list" string="false""#, "\n[1, {\"a\": null}]\n"),
        parameter(r#"name="unsaid""#, "true"),
        parameter(r#"name="words""#, "not json"),
    ];
    let written = [invoke("one", &values.concat()), invoke("two", "")].concat();
    let block = format!("<｜DSML｜tool_calls>{written}</｜DSML｜tool_calls>\nDone.");
    let (shown, calls) = read(&block);
    assert_eq!(shown, "\nDone.");
    let values = json!({
        "raw": " 1 < 2 \"&\"\n", "list": [1, {"a": null}], "unsaid": true, "words": "not json",
    });
    let expected = [("one".to_owned(), values), ("two".to_owned(), json!({}))];
    assert_eq!(calls, expected);
    // The tag that begins the block is the one that tends to get lost.
    let (_, calls) = read(&format!("{written}</｜DSML｜tool_calls>"));
    assert_eq!(calls.len(), 2);
}

#[test]
fn unreadable_markup_is_an_invalid_response_and_makes_no_partial_call() {
    for (written, expected) in [
        (
            LEAK.replace("</｜DSML｜tool_calls>", ""),
            "did not finish it",
        ),
        (LEAK.replace("</｜DSML｜invoke>", ""), "misplaced tags"),
        (
            LEAK.replacen("</｜DSML｜parameter>", "", 1),
            "unclosed parameter",
        ),
        (LEAK.replace("name=\"look\"", ""), "without a name"),
        (LEAK.replace(">2<", ">{\"a\":<"), "not JSON"),
        (LEAK.replace("\"depth\"", "\"at\""), "duplicate"),
        (LEAK.replace("invoke", "what"), "misplaced tags"),
        (
            LEAK.replace("<｜DSML｜invoke", "hm <｜DSML｜invoke"),
            "other content in it",
        ),
        (LEAK.replace(" string=", " STRING="), "unreadable tag"),
        ("</｜DSML｜tool_calls>".to_owned(), "misplaced tags"),
        ("<｜DSML｜".to_owned(), "unreadable tag"),
    ] {
        let said = complaint(&written);
        assert!(said.contains(expected), "{written}: {said}");
    }
}

#[test]
fn a_written_call_cut_anywhere_is_never_made() {
    for (cut, _) in LEAK.char_indices() {
        let reply = reply(&[&LEAK[..cut]]);
        assert!(reply.is_err() || cut < LONGEST_OPENING, "cut at {cut}");
        assert!(!reply.is_ok_and(|reply| reply.calls().count() > 0));
    }
}

#[test]
fn written_and_native_calls_in_one_reply_are_an_invalid_response() {
    let call = ReplyDelta::ToolCall {
        block: BlockIndex(1),
        provider_id: None,
        name: Some("look".into()),
        arguments: "{}".to_owned(),
    };
    let error = assembled([text(LEAK), call, end()]).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
}

#[test]
fn endless_markup_is_aborted() {
    let piece = "<|DSML|".repeat(MAX_WRITTEN / 14);
    let error = reply(&[&piece, &piece, &piece]).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    assert!(error.message.ends_with("that does not end"), "{error}");
    let parameters =
        (0..300).map(|number| format!("<|DSML|parameter name=\"p{number}\">1</|DSML|parameter>"));
    let many = format!(
        "<|DSML|invoke name=\"a\">{}</|DSML|invoke>",
        parameters.collect::<String>()
    );
    assert!(complaint(&many).contains("too many parameters"));
    let many = "<|DSML|invoke name=\"a\"></|DSML|invoke>".repeat(301);
    assert!(complaint(&many).contains("more tool calls"));
}

#[test]
fn hostile_text_is_scanned_in_reasonable_time() {
    // Scanning the rest of the text from each possible start would take hours.
    for hostile in ["<", "<|", "<||||||||", "<|DSML", "</"] {
        let text = hostile.repeat(4 * 1024 * 1024 / hostile.len());
        assert_eq!(reply(&[&text]).unwrap().text().len(), text.len());
    }
    let tags = "<|DSML|tool_calls></|DSML|tool_calls>".repeat(MAX_WRITTEN / 40);
    assert!(complaint(&tags).contains("did not finish it"));
}

#[test]
fn text_that_only_resembles_markup_passes_unchanged_and_undelayed() {
    for ordinary in [
        "a < b, c <| d, e <｜ f",
        "<|im_end|> and <｜end▁of▁sentence｜>",
        "The markup is called DSML｜ and | DSML |",
        "<|DSM>, <|DSMLX|>, <｜DSML>, <|||||DSML|, < |DSML|",
        "Vec<Vec<u8>> </div> <DSML|tool_calls>",
    ] {
        let deltas = filtered([text(ordinary), end()]).unwrap();
        assert_eq!(deltas[0], text(ordinary));
        assert_eq!(deltas.len(), 2, "in one piece: {deltas:?}");
    }
}

#[test]
fn a_possible_start_of_markup_is_held_only_until_it_is_decided() {
    let mut filter = MarkupFilter::default();
    let mut out = VecDeque::new();
    let mut push = |piece: &str| {
        filter.push(text(piece), &mut out).unwrap();
        std::mem::take(&mut out)
    };
    assert_eq!(push("a <｜"), [text("a ")]);
    assert_eq!(push("DS"), []);
    assert_eq!(push("K"), [text("<｜DSK")]);
    assert_eq!(push("<"), []);
    assert_eq!(push("<"), [text("<")]);
    assert_eq!(push("b"), [text("<b")]);
}

#[test]
fn held_text_is_emitted_at_the_end() {
    assert_eq!(reply(&["1 <", "|DSML"]).unwrap().text(), "1 <|DSML");
    let other = ReplyDelta::Text {
        block: BlockIndex(2),
        text: "|DSML|".to_owned(),
    };
    let parts = assembled([text("1 <"), other, end()]).unwrap().parts;
    assert_eq!(parts.len(), 2, "each in its block: {parts:?}");
}

#[test]
fn an_empty_reply_is_an_invalid_response_unless_it_was_cut_short() {
    let nothing = complaint(" \n");
    assert!(nothing.contains("is empty"), "{nothing}");
    let thought = ReplyDelta::Reasoning {
        block: BlockIndex(0),
        text: "hm".to_owned(),
    };
    assert!(assembled([thought.clone(), end()]).is_err());
    let cut = end_of(ReplyFinish::Length, Usage::default());
    let reply = assembled([thought, cut]).unwrap();
    assert_eq!(reply.finish, ReplyFinish::Length);
}

#[test]
fn a_reply_cut_short_keeps_its_length_finish() {
    let cut = end_of(ReplyFinish::Length, Usage::default());
    let reply = assembled([text(LEAK), cut]).unwrap();
    assert_eq!(reply.finish, ReplyFinish::Length);
    assert_eq!(reply.calls().count(), 1);
}

#[test]
fn the_tokens_of_written_calls_are_estimated() {
    let usage = Usage {
        completion: TokenCount::measured(110),
        reasoning: TokenCount::measured(10),
        ..Usage::default()
    };
    let end = || end_of(ReplyFinish::Stop, usage);
    let all = assembled([text(LEAK), end()]).unwrap();
    assert_eq!(all.usage.action, TokenCount::estimated(100));
    let shown = "x".repeat(LEAK.len());
    let half = assembled([text(&shown), text(LEAK), end()]).unwrap();
    assert_eq!(half.usage.action, TokenCount::estimated(50));
    let unknown = end_of(ReplyFinish::Stop, Usage::UNKNOWN);
    let unknown = assembled([text(LEAK), unknown]).unwrap();
    assert_eq!(unknown.usage.action, TokenCount::UNKNOWN);
}
