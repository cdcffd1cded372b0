//! Files of cases that are accepted, and files that are refused: each with the line and what to do.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::case::HistoryMessage;
use crate::check::Check;
use crate::matching::CallPattern;

const FULL: &str = r#"
[defaults]
mode = "conservative"
repeat = 3
pass_rate = 0.5
check = [{ max_time = "1m 30s" }]

[judge]
role = "reasoning"

[[case]]
name = "all there is"
message = "Where is it?"
history = [{ user = "I lost my key." }, { assistant = "Which one?" }]
channel = "code_task"
agent = "finder"
role = "coding"
plan = "small"
approve = ["move_box", { tool = "open", arguments = { door = 2 } }]
check = [
  { exact = "Here." },
  { contains = "ere" },
  { not_contains = "there" },
  { regex = "^H" },
  { json_path = "$.door", equals = { number = 2 } },
  { json_path = "$.key" },
  { tool_called = "open", arguments = { door = 2, at = 2026-01-02 }, times = 1, succeeded = true },
  { tool_not_called = "*" },
  { finish_reason = "stop" },
  { max_turns = 3 },
  { max_tool_calls = 4 },
  { max_tokens = 500 },
  { max_cost_micro_usd = 1000 },
  { judge = "It says where." },
  { json_schema = { type = "object" } },
]

[[case]]
name = "as it was"
run = "0199f3a1"
mode = "moderate"
repeat = 1

[[case]]
name = "as it is on file"
log = "run.jsonl"

[[case]]
name = "as it was said"
message = "Hello"
cassette = "hello.cassette"
"#;

#[test]
fn every_field_of_a_case_is_parsed() {
    let file = EvalFile::from_toml(FULL).unwrap();
    insta::assert_debug_snapshot!(file.judge);
    let shown = file.cases.iter().map(|case| {
        let checks: Vec<String> = case.checks.iter().map(ToString::to_string).collect();
        format!(
            "{} | {} | {:?} | {} {} {:?} {:?} {:?} | {:?} | {:?} | {}× {}\n  {}",
            case.name,
            case.message,
            case.source,
            case.mode,
            case.channel,
            case.agent,
            case.role,
            case.plan,
            case.history,
            case.approve
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            case.repeat,
            case.pass_rate,
            checks.join("\n  ")
        )
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}

#[test]
fn parse_errors_name_the_line_and_the_fix() {
    let case = "[[case]]\nname = 'a'\nmessage = 'b'\n";
    let texts = [
        ("", "nothing"),
        ("[[case]\n", "no TOML"),
        ("[[case]]\nmessage = 'b'\n", "no name"),
        ("[[case]]\nname = 'a'\n", "no message"),
        (case, "no check"),
        ("[[case]]\nname = 'a'\nmesage = 'b'\n", "a slip"),
        ("[[cases]]\nname = 'a'\n", "another table"),
        (
            &format!("{case}check = [{{ contain = 'x' }}]\n"),
            "an unknown check",
        ),
        (&format!("{case}check = [{{ }}]\n"), "an empty check"),
        (
            &format!("{case}\n[[case.check]]\ncontains = 'x'\nmax_turns = 3\n"),
            "two in one",
        ),
        (
            &format!("{case}check = [{{ contains = 'x' }},\n  {{ regex = '(' }}]\n"),
            "a regex",
        ),
        (
            &format!("{case}check = [{{ json_path = 'city' }}]\n"),
            "a path",
        ),
        (
            &format!("{case}check = [{{ json_schema = {{ type = 'thing' }} }}]\n"),
            "a schema",
        ),
        (
            &format!("{case}check = [{{ json_schema = 'place.json' }}]\n"),
            "a file of a schema",
        ),
        (
            &format!("{case}check = [{{ finish_reason = 'stopped' }}]\n"),
            "a reason",
        ),
        (&format!("{case}check = [{{ max_time = 30 }}]\n"), "a time"),
        (
            &format!("{case}check = [{{ contains = 'x', times = 2 }}]\n"),
            "a stray key",
        ),
        (
            &format!("{case}check = [{{ tool_called = 'x', arguments = {{ n = inf }} }}]\n"),
            "infinity",
        ),
        (&format!("{case}check = 'x'\n"), "no list"),
        (
            &format!("{case}repeat = 0\ncheck = [{{ max_turns = 1 }}]\n"),
            "never",
        ),
        (
            &format!("{case}pass_rate = 80\ncheck = [{{ max_turns = 1 }}]\n"),
            "percent",
        ),
        (
            &format!("{case}approve = [3]\ncheck = [{{ max_turns = 1 }}]\n"),
            "an approval",
        ),
        (
            &format!("{case}run = 'r'\nlog = 'l'\ncheck = [{{ max_turns = 1 }}]\n"),
            "two sources",
        ),
        (
            &format!("[defaults]\nmessage = 'm'\n{case}check = [{{ max_turns = 1 }}]\n"),
            "a shared message",
        ),
        (
            &format!("{case}check = [{{ max_turns = 1 }}]\n{case}check = [{{ max_turns = 1 }}]\n"),
            "twice",
        ),
    ];
    let told = texts.iter().map(|(text, what)| {
        let fault = EvalFile::from_toml(text).unwrap_err();
        format!("{what}: {fault}")
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
}

#[test]
fn cases_and_checks_that_cannot_fail_are_refused() {
    for (line, told) in [
        ("pass_rate = 0\ncheck = [{ max_turns = 1 }]", "above 0"),
        ("check = [{ contains = '' }]", "`contains` is empty"),
        ("check = [{ regex = '' }]", "`regex` is empty"),
    ] {
        let text = format!("[[case]]\nname = 'a'\nmessage = 'b'\n{line}\n");
        let fault = EvalFile::from_toml(&text).unwrap_err().to_string();
        assert!(fault.contains(told), "{fault}");
    }
}

#[test]
fn a_schema_path_is_relative_to_the_file_and_unreadable_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("evals.toml");
    std::fs::write(folder.path().join("place.json"), r#"{"type":"object"}"#).unwrap();
    let text = "[[case]]\nname = 'a'\nmessage = 'b'\ncheck = [{ json_schema = 'place.json' }]\n";
    std::fs::write(&file, text).unwrap();
    let read = EvalFile::read(&file).unwrap();
    assert_eq!(
        read.cases[0].checks[0].to_string(),
        "json_schema \"place.json\""
    );
    std::fs::write(&file, vec![b' '; 5 * 1024 * 1024]).unwrap();
    assert!(matches!(
        EvalFile::read(&file),
        Err(FileFault::TooLarge { .. })
    ));
    std::fs::write(&file, [0xff]).unwrap();
    assert!(matches!(EvalFile::read(&file), Err(FileFault::NotText(_))));
    assert!(matches!(
        EvalFile::read(folder.path()),
        Err(FileFault::Io(_))
    ));
}

proptest! {
    #[test]
    fn a_case_round_trips_through_toml(
        name in "[^\u{0}]{1,20}[a-z]", message in ".{0,40}[a-z]", text in ".{0,30}",
        times in proptest::option::of(0_u32..5), number in any::<i64>(), rate in 1_u8..=10,
    ) {
        let pattern = CallPattern {
            tool: text.clone(),
            arguments: Some(json!({"list": [text.clone(), {"deep": true}], "n": number})),
        };
        let mut called = Check::tool_called(text.as_str()).with_arguments(json!({"n": number}));
        if let Some(times) = times {
            called = called.times(times);
        }
        let mut case = Case::new(name, message)
            .check(Check::exact(text.as_str()))
            .check(called)
            .check(Check::json_path_equals("$..['a b'][0]", json!([number, text.clone()])).unwrap())
            .approve(pattern)
            .repeat(times.unwrap_or_default())
            .pass_rate(f64::from(rate) / 10.0);
        case.history = vec![HistoryMessage::User(text.clone()), HistoryMessage::Assistant(text)];
        let written = case.to_toml().unwrap();
        let read = EvalFile::from_toml(&written).unwrap();
        case.line = Some(1);
        prop_assert_eq!(format!("{:?}", read.cases[0]), format!("{case:?}"), "{}", written);
    }

    #[test]
    fn any_text_is_parsed_or_refused_with_its_line(text in "(?s)(\\[\\[case\\]\\]|name|message|check|[a-z=\\[\\]{}'\n0-9.,-]){0,60}") {
        if let Err(fault) = EvalFile::from_toml(&text) {
            let told = fault.to_string();
            prop_assert!(told.starts_with("line ") || matches!(fault, FileFault::Empty), "{}", told);
        }
    }
}
