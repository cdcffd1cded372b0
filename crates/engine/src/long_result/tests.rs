//! Tests that a cut result fits, says what is missing, and loses nothing.

use neuraxis_core::{AgentId, CallIndex, ContentIndex, RunId};
use neuraxis_ports::{LongOutput, OutputPlace};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

const MOST: usize = ResultBounds::MIN_BYTES;
const MOST_KEPT: usize = 8 * 1024 * 1024;

fn call() -> ToolCallId {
    ToolCallId::new(
        RunId(Uuid::max()),
        AgentId(7),
        ContentIndex(12),
        CallIndex(3),
    )
}

fn encoded(value: &Value) -> JsonText {
    JsonText::encode(value).unwrap()
}

fn cut(value: &Value) -> (Value, Arc<str>) {
    let value = encoded(value);
    let long = LongResult::of(&value, MOST, MOST_KEPT).expect("it is too long");
    let shorter = long.value(&call(), Fate::Readable);
    assert!(
        shorter.as_str().len() <= MOST,
        "{} bytes",
        shorter.as_str().len()
    );
    (shorter.decode().unwrap(), long.whole())
}

/// Returns the offset at which the marker of a text says to continue.
fn offset(text: &str) -> usize {
    let (_, behind) = text.split_once("\"offset\":").expect("a marker");
    behind.split_once('}').unwrap().0.parse().unwrap()
}

#[test]
fn a_result_that_fits_is_unchanged() {
    let value = encoded(&json!("x".repeat(MOST - 2)));
    assert!(LongResult::of(&value, MOST, MOST_KEPT).is_none());
    assert!(LongResult::of(&value, MOST - 1, MOST_KEPT).is_some());
}

#[test]
fn a_long_text_is_cut_around_a_marker_on_its_own_line() {
    let lines: String = (1..=1_000)
        .map(|number| format!("line {number}\n"))
        .collect();
    let (value, whole) = cut(&json!(lines));
    assert_eq!(*whole, *lines);
    let text = value.as_str().unwrap();
    assert!(
        text.starts_with("line 1\n") && text.ends_with("line 1000\n"),
        "{text}"
    );
    let marker = text.lines().find(|line| line.starts_with('[')).unwrap();
    let from = offset(marker);
    let (head, tail) = text.split_once(&format!("{marker}\n")).unwrap();
    let gap = lines.len() - head.len() - tail.len();
    let breaks = lines[from..from + gap].matches('\n').count();
    assert_eq!(
        marker,
        format!(
            "[{gap} bytes ({breaks} lines) are cut out here; read them with read_output \
             {{\"call\":\"{}\",\"offset\":{}}}]",
            call(),
            head.len()
        )
    );
}

#[test]
fn only_long_strings_of_an_object_are_cut() {
    let long = "o".repeat(20_000);
    let given = json!({"exit_code": 1, "stdout": long, "stderr": "a word", "errors": ["e".repeat(9_000)], "summary": "It failed."});
    let (value, whole) = cut(&given);
    for key in ["exit_code", "stderr", "summary"] {
        assert_eq!(value[key], given[key]);
    }
    // The heading above each section names it.
    let (errors, stdout) = (
        value["errors"][0].as_str().unwrap(),
        value["stdout"].as_str().unwrap(),
    );
    assert!(
        whole[..offset(errors)].contains("=== /errors/0 ===\neee"),
        "{errors}"
    );
    assert!(
        whole[..offset(stdout)].contains("=== /stdout ===\nooo"),
        "{stdout}"
    );
    assert!(whole[offset(errors)..].starts_with('e') && whole[offset(stdout)..].starts_with('o'));
}

#[test]
fn a_value_of_many_small_parts_is_cut_as_text_with_a_line_per_part() {
    let rows: Vec<_> = (0..2_000).map(|id| json!({"id": id})).collect();
    let (value, whole) = cut(&json!({"rows": rows}));
    let text = value.as_str().expect("it is a text now");
    assert!(
        text.contains("{\"id\":1999}") && text.contains(READ_OUTPUT),
        "{text}"
    );
    assert_eq!(whole.lines().nth(9), Some("{\"id\":7},"));
    assert_eq!(
        serde_json::from_str::<Value>(&whole).unwrap(),
        json!({"rows": rows})
    );
}

#[test]
fn a_result_reports_how_much_of_it_is_not_stored() {
    let value = encoded(&json!("x".repeat(100_000)));
    let long = LongResult::of(&value, MOST, 50_000).unwrap();
    let whole = long.whole();
    assert!(whole.len() <= 50_000);
    let note = whole.lines().find(|line| line.starts_with('[')).unwrap();
    let gone = 100_000 - (whole.len() - note.len() - 2);
    assert_eq!(note, format!("[{gone} bytes (0 lines) are not kept]"));
    let said = |fate| long.value(&call(), fate).as_text().into_owned();
    let middle = format!("; of the middle, {gone} bytes are not kept]");
    assert!(said(Fate::Readable).contains(&middle));
    assert!(
        said(Fate::Kept)
            .contains("; no tool here reads what is kept of them; ask for less; of the middle")
    );
    let gone = said(Fate::Gone("nothing of this run is"));
    assert!(
        gone.contains(" and not kept, since nothing of this run is; ask for less]"),
        "{gone}"
    );
}

#[test]
fn a_marker_after_an_unstored_part_gives_the_offset_in_the_stored_text() {
    let given = json!({"a": "a".repeat(60_000), "b": "b".repeat(20_000)});
    let long = LongResult::of(&encoded(&given), MOST, 50_000).unwrap();
    let value: Value = long.value(&call(), Fate::Readable).decode().unwrap();
    let whole = long.whole();
    let at = offset(value["b"].as_str().unwrap());
    assert!(whole[at..].bytes().all(|letter| letter == b'b') && at < whole.len());
    assert!(whole[offset(value["a"].as_str().unwrap())..].starts_with('a'));
}

#[test]
fn a_small_context_gets_shorter_results() {
    let bounds = ResultBounds::default();
    for (tokens, results, bytes) in [
        (None, 9, 64 * 1024),
        (Some(200_000), 1, 64 * 1024),
        (Some(200_000), 3, 64 * 1024),
        (Some(32_768), 1, 32_768),
        (Some(2_048), 1, 2_048),
        (Some(512), 1, LEAST_PIECE),
        // Several results together get as much as a single one.
        (Some(32_768), 4, 8_192),
        (Some(2_048), 3, LEAST_PIECE),
    ] {
        assert_eq!(bounds.for_context(tokens, results), bytes, "{tokens:?}");
    }
    assert_eq!(ResultBounds::new(0, 0), ResultBounds::new(MOST, MOST));
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z ]{0,40}",
        "\\PC{0,20}",
        "[\n\r\t\"\\\\\u{0}\u{1b}]{1,4}",
        Just("🦀\n".to_owned())
    ];
    (prop::collection::vec(piece, 1..60), 1..60_usize)
        .prop_map(|(pieces, times)| pieces.concat().repeat(times))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<i32>().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..6)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn no_result_exceeds_its_limit_and_each_is_valid_json(
        value in value(),
        most in MOST..9_000_usize,
        most_kept in 9_000..60_000_usize,
    ) {
        let value = encoded(&value);
        if let Some(long) = LongResult::of(&value, most, most_kept) {
            for fate in [Fate::Readable, Fate::Kept, Fate::Gone("it is")] {
                let shorter = long.value(&call(), fate);
                prop_assert!(shorter.as_str().len() <= most, "{} of {most}", shorter.as_str().len());
                prop_assert!(shorter.is_valid());
            }
            prop_assert!(long.whole().len() <= most_kept);
        } else {
            prop_assert!(value.as_str().len() <= most);
        }
    }

    #[test]
    fn a_cut_text_keeps_its_head_and_tail_and_its_pages_join_to_the_whole(
        text in text(),
        page in 1..40_000_usize,
    ) {
        let value = JsonText::string(&text);
        if let Some(long) = LongResult::of(&value, MOST, MOST_KEPT) {
            let shorter = long.value(&call(), Fate::Readable).as_text().into_owned();
            let marker = shorter.lines().find(|line| line.contains("are cut out here; read them with"));
            let marker = marker.expect("a marker").to_owned();
            let (head, tail) = shorter.split_once(&marker).unwrap();
            let from = offset(&marker);
            prop_assert_eq!(head.strip_suffix('\n').filter(|it| it.len() == from).unwrap_or(head), &text[..from]);
            prop_assert!(text.ends_with(&tail[1..]));
            let output = LongOutput::new(call(), "tool", long.whole());
            let (mut joined, mut next) = (String::new(), Some(OutputPlace::Byte(0)));
            while let Some(place) = next {
                let read = output.page(place, page);
                joined.push_str(&read.text);
                next = read.next();
            }
            prop_assert_eq!(joined, text);
        }
    }
}
