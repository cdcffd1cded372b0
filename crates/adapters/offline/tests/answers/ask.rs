//! Asks the model, and shows its answers.

use std::fmt::Write;

use neuraxis_core::{Message, ModelRequest, Reply, ReplyFinish, ToolSpec, Usage};
use neuraxis_offline::OfflineModel;
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{SpecBuilder, call_context, messages, request, request_of, spec};

pub(crate) fn tool(name: &str, description: &str, properties: &str, required: &str) -> SpecBuilder {
    let schema = format!(r#"{{"type":"object","properties":{properties},"required":{required}}}"#);
    spec(name).describe(description).schema(&schema)
}

pub(crate) fn current_time() -> ToolSpec {
    tool(
        "current_time",
        "Tells the time. Never guess it.",
        r#"{"time_zone":{}}"#,
        "[]",
    )
    .read_only()
    .build()
}

pub(crate) fn system_health() -> ToolSpec {
    tool(
        "system_health",
        "Looks at this machine.",
        r#"{"sections":{}}"#,
        "[]",
    )
    .read_only()
    .build()
}

pub(crate) fn calculate() -> ToolSpec {
    tool(
        "calculate",
        "Calculates.",
        r#"{"expression":{"type":"string"}}"#,
        r#"["expression"]"#,
    )
    .read_only()
    .build()
}

pub(crate) fn files() -> [ToolSpec; 3] {
    let list = tool(
        "list_files",
        "Lists files.",
        r#"{"path":{},"glob":{},"depth":{}}"#,
        "[]",
    );
    let read = tool(
        "read_file",
        "Reads a file.",
        r#"{"path":{},"start_line":{},"line_count":{}}"#,
        r#"["path"]"#,
    );
    let fields = r#"{"pattern":{},"syntax":{},"case":{},"path":{},"glob":{}}"#;
    let search = tool("search_files", "Searches files.", fields, r#"["pattern"]"#);
    [list, read, search].map(|tool| tool.read_only().build())
}

/// Returns a tool that no rule knows.
pub(crate) fn notes() -> ToolSpec {
    let fields = r#"{"title":{"type":"string"},"tags":{"type":"array"}}"#;
    tool("add_note", "Adds a note.", fields, r#"["title"]"#).build()
}

pub(crate) fn all() -> Vec<ToolSpec> {
    [current_time(), system_health(), notes()]
        .into_iter()
        .chain(files())
        .collect()
}

pub(crate) fn asking(question: &str, tools: Vec<ToolSpec>) -> ModelRequest {
    ModelRequest {
        tools: tools.into(),
        ..request(question)
    }
}

pub(crate) async fn respond(request: &ModelRequest) -> Reply {
    let reply = OfflineModel::new()
        .respond(request, &call_context())
        .await
        .unwrap();
    assert_eq!(reply.usage, Usage::default());
    reply
}

/// Returns the calls of a reply, one per line, or its text.
pub(crate) fn shown(reply: &Reply) -> String {
    let calls: Vec<_> = reply
        .calls()
        .map(|call| format!("{} {}", call.name, call.arguments))
        .collect();
    if calls.is_empty() {
        assert_eq!(reply.finish, ReplyFinish::Stop);
        let closing = "(Answered offline by fixed rules, without a language model.)";
        assert_ne!(
            reply.text().ends_with(closing),
            reply.is_no_answer(),
            "what answers nothing does not call itself an answer"
        );
        return reply.text();
    }
    assert_eq!(reply.finish, ReplyFinish::ToolCalls);
    calls.join("\n")
}

pub(crate) async fn table(questions: &[&str], tools: fn() -> Vec<ToolSpec>) -> String {
    let mut table = String::new();
    for question in questions {
        let reply = respond(&asking(question, tools())).await;
        let answer = if reply.calls().next().is_some() {
            shown(&reply)
        } else {
            "no rule fits".to_owned()
        };
        writeln!(table, "{question}\n    {}", answer.replace('\n', "\n    ")).unwrap();
    }
    table
}

/// Asks again with the results of the tools.
pub(crate) async fn report(results: &[(&str, &str)]) -> String {
    let calls = messages::calls(results.iter().map(|(name, _)| (*name, *name, "{}")));
    let results = results
        .iter()
        .map(|(name, value)| messages::result(name, name, value));
    let conversation = [
        Message::system("Be brief."),
        Message::user("How is it?"),
        calls,
    ];
    shown(&respond(&request_of(conversation.into_iter().chain(results))).await)
}
