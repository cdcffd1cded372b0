//! Which tools are called, and with which arguments.

use neuraxis_core::{LlmErrorKind, Message, Part, ToolChoice, ToolSpec};
use neuraxis_offline::OfflineModel;
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{call_context, request, request_of};

use crate::ask::{all, asking, current_time, files, notes, respond, shown, table, tool};

#[tokio::test]
async fn questions_about_the_machine_call_the_tools_that_fit() {
    let questions = [
        "What time is it?",
        "What is the date today?",
        "what's the time in Europe/Berlin",
        "What time is it in New York right now?",
        "What time is it in 東京 right now?",
        "the time in मुंबई",
        "Is it 5 o'clock UTC? what time",
        "How healthy is this machine?",
        "Why is my computer so slow?",
        "how full is the disk",
        "CPU load and memory, please!",
        "Is it too hot? Show the temperatures.",
        "Which processes use the most RAM?",
        "uptime",
        "Any errors on this system?",
        "Are there errors in the logs?",
        "What time is it and how is the CPU?",
        "Show CPU/memory",
        "Give me an update on the baseline.",
        "Write me a poem.",
        "",
    ];
    insta::assert_snapshot!(table(&questions, all).await);
}

#[tokio::test]
async fn questions_about_files_call_the_tools_that_fit() {
    let questions = [
        "List the files.",
        "Which files are in crates/core?",
        "show me the src folder",
        "what is in this directory?",
        "ls src",
        "list files in the folder docs",
        "find all files named *.toml",
        "List all *.rs files under src/bin.",
        "Read README.md",
        "show me the contents of src/main.rs, please",
        "what's in Cargo.toml?",
        "cat ./notes",
        "open \"my notes.txt\"",
        "read lines 10 to 20 of src/lib.rs",
        "show src/lib.rs lines 5-9",
        "show line 7 of src/lib.rs",
        "show src/lib.rs from line 40",
        "print the first 20 lines of the README",
        "search for TODO in src",
        "Search the project for unsafe code",
        "find \"fn main\" in crates",
        "grep memory src/lib.rs",
        "search src/lib.rs for Europe",
        "list the contents of the docs directory",
        "tree",
        "Find where the retry limit is used",
        "where is RunTree defined?",
        "look for any mentions of time in *.md",
        "find files containing 'disk'",
        "search the web for cats",
        "Read something to me.",
    ];
    insta::assert_snapshot!(table(&questions, all).await);
}

#[tokio::test]
async fn a_tool_can_be_called_by_its_name() {
    let questions = [
        "system_health",
        r#"system_health {"sections": ["cpu"]}"#,
        r#"Call `add_note` {"title": "a {b}", "tags": []} now"#,
        "add_note buy milk and eggs",
        "add_note",
        "run read_file on Cargo.toml",
        "add_note {\"title\": oops",
        "add_notes are not add_note-x",
        "system_health and current_time",
    ];
    insta::assert_snapshot!(table(&questions, all).await);
}

#[tokio::test]
async fn a_forced_choice_is_obeyed() {
    let forced = async |question: &str, choice: ToolChoice, tools: Vec<ToolSpec>| {
        let mut request = asking(question, tools);
        request.tool_choice = choice;
        shown(&respond(&request).await)
    };
    let named = |name: &str| ToolChoice::Named(name.parse().unwrap());
    assert_eq!(
        forced("Is memory low?", named("system_health"), all()).await,
        r#"system_health {"sections":["memory"]}"#
    );
    assert_eq!(
        forced("Write me a poem.", named("system_health"), all()).await,
        "system_health {}"
    );
    assert_eq!(
        forced("Write me a poem.", named("add_note"), all()).await,
        "add_note {}"
    );
    assert_eq!(
        forced("Is memory low?", ToolChoice::Required, all()).await,
        r#"system_health {"sections":["memory"]}"#
    );
    let harmless_last = || vec![notes(), files()[1].clone(), current_time()];
    assert_eq!(
        forced("Write me a poem.", ToolChoice::Required, harmless_last()).await,
        "current_time {}"
    );
}

#[tokio::test]
async fn a_forced_choice_of_a_tool_not_offered_is_a_bad_request() {
    for choice in [
        ToolChoice::Required,
        ToolChoice::Named("system_health".parse().unwrap()),
    ] {
        let mut request = request("How is the CPU?");
        request.tool_choice = choice;
        let error = OfflineModel::new()
            .respond(&request, &call_context())
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::BadRequest);
        assert!(error.message.contains("offered"), "{error}");
    }
}

#[tokio::test]
async fn arguments_unknown_to_a_tool_are_omitted() {
    let plain = tool(
        "search_files",
        "Searches.",
        r#"{"pattern":{}}"#,
        r#"["pattern"]"#,
    )
    .build();
    let reply = respond(&asking("search for TODO in src", vec![plain])).await;
    assert_eq!(shown(&reply), r#"search_files {"pattern":"TODO"}"#);
}

#[tokio::test]
async fn a_huge_message_is_answered_at_once() {
    for part in ["“", "in the ", "\" ", "a/b ", "add_note "] {
        let reply = respond(&asking(&part.repeat(1_000_000), all())).await;
        assert!(reply.text().len() < 10_000);
    }
}

#[tokio::test]
async fn a_follow_up_question_reuses_the_previous_topic() {
    let conversation = |last: &str| {
        let mut request = request_of([
            Message::user("What time is it in Asia/Tokyo?"),
            Message::assistant("It is noon."),
            Message::user("And in Europe/Berlin?"),
            Message::assistant("It is morning."),
            Message::user(last),
        ]);
        request.tools = all().into();
        request
    };
    let asked = respond(&conversation("And in New York?")).await;
    assert_eq!(shown(&asked), r#"current_time {"time_zone":"New York"}"#);
    for other in ["In New York?", "Andes in New York?"] {
        let asked = respond(&conversation(other)).await;
        assert!(asked.is_no_answer(), "{other}: {asked:?}");
    }
    let first = respond(&asking("And in New York?", all())).await;
    assert!(first.is_no_answer());
}

#[tokio::test]
async fn a_reply_that_only_explains_how_to_get_a_model_is_not_an_answer() {
    let told = respond(&asking("Write me a poem.", all())).await;
    assert!(told.is_no_answer());
    assert!(told.text().contains("export OPENAI_API_KEY="));
    let called = respond(&asking("What time is it?", all())).await;
    assert!(!called.is_no_answer());
}

#[tokio::test]
async fn attached_text_parts_trigger_no_tool_calls() {
    let mut request = asking("What changed?", all());
    request.messages = [Message::User {
        parts: vec![
            Part::text("What changed?"),
            Part::text("Date: today, and how is the CPU?"),
        ],
    }]
    .into_iter()
    .collect();
    let told = respond(&request).await;
    assert!(told.is_no_answer(), "{told:?}");
}
