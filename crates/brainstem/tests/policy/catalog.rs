//! The tools that the tests know: the built-in ones, those of an embedder and those of an MCP server. Also, policies
//! and decisions about them.

use neuraxis_brainstem::{Call, Policy, PolicyConfig, Request};
use neuraxis_core::ToolClass::{Idempotent, Irreversible, ReadOnly};
use neuraxis_core::{Channel, Decision, JsonText, Mode, ToolClass, ToolSpec, Verdict};

/// Lays a configuration over the built-in policy.
pub(crate) fn layered(text: &str) -> Policy {
    Policy::layered(PolicyConfig::from_named_toml("neuraxis.toml", text).unwrap()).unwrap()
}

/// Decides about a request with all tools, and offers them all, so that only the judgment of calls matters.
pub(crate) fn offering_all(policy: &Policy, mode: &Mode, channel: &Channel) -> Decision {
    let tools = all_tools();
    let request = Request::new(mode, channel, "Hello").with_tools(&tools);
    let mut decision = policy.evaluate_request(&request).unwrap();
    decision.tools = tools.into_iter().map(|tool| tool.name).collect();
    decision
}

/// Returns one of the tools.
pub(crate) fn named(name: &str) -> ToolSpec {
    all_tools()
        .into_iter()
        .find(|tool| tool.name.as_str() == name)
        .unwrap()
}

/// Judges a call of one of the tools in a code task.
pub(crate) fn judge_in(policy: &Policy, mode: &Mode, name: &str, arguments: &str) -> Verdict {
    let decision = offering_all(policy, mode, &Channel::CODE_TASK);
    let arguments = JsonText::from_text(arguments);
    policy.judge(
        &decision,
        &Call::new(&named(name), &arguments).with_root("/home/me/project"),
    )
}

/// Returns a verdict in one word.
pub(crate) const fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask { .. } => "ask",
        Verdict::Deny { .. } => "deny",
    }
}

/// Creates a tool that stays on this machine and destroys nothing.
pub(crate) fn tool(name: &str, class: ToolClass) -> ToolSpec {
    ToolSpec::new(name.parse().unwrap(), "A tool.").class(class)
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
