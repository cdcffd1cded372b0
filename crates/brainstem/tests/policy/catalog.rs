//! The tools that the tests know: the built-in ones, an embedder's own and those of an MCP server.

use neuraxis_core::ToolClass::{Idempotent, Irreversible, ReadOnly};
use neuraxis_core::{JsonText, ToolAnnotations, ToolClass, ToolKind, ToolSpec};

/// Makes a tool that stays on this machine and destroys nothing.
pub(crate) fn tool(name: &str, class: ToolClass) -> ToolSpec {
    ToolSpec {
        name: name.parse().unwrap(),
        description: "A tool.".into(),
        parameters: JsonText::from_text(r#"{"type":"object"}"#),
        class,
        annotations: ToolAnnotations::default(),
        kind: ToolKind::Server,
        non_iterative: false,
        timeout: None,
    }
}

pub(crate) fn open_world(mut tool: ToolSpec) -> ToolSpec {
    tool.annotations = tool.annotations.open_world();
    tool
}

pub(crate) fn destructive(mut tool: ToolSpec) -> ToolSpec {
    tool.annotations = tool.annotations.destructive();
    tool
}

pub(crate) fn all_tools() -> Vec<ToolSpec> {
    vec![
        tool("current_time", ReadOnly),
        tool("calculate", ReadOnly),
        tool("ask_user", ReadOnly),
        tool("system_health", ReadOnly),
        tool("list_files", ReadOnly),
        tool("read_file", ReadOnly),
        tool("search_files", ReadOnly),
        tool("write_file", Idempotent),
        tool("apply_patch", Irreversible),
        destructive(open_world(tool("run_command", Irreversible))),
        open_world(tool("web_search", ReadOnly)),
        open_world(tool("web_fetch", ReadOnly)),
        tool("update_plan", ReadOnly),
        tool("find_order", ReadOnly),
        open_world(tool("github__list_issues", ReadOnly)),
        open_world(tool("github__create_issue", Irreversible)),
    ]
}
