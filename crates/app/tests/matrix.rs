//! The built-in policy applied to the built-in tools: what each mode, channel and role may do. A reviewer can read the
//! snapshot as a policy document.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[cfg(target_os = "linux")]
#[path = "stand_in/sandbox.rs"]
mod sandbox;

use std::fmt::Write;

use neuraxis_app::{App, Config, Environment, Sources};
use neuraxis_brainstem::{Call, Policy, PolicyConfig, Request};
use neuraxis_core::{ContentIndex, Decision, JsonText, Mode, Role, Taint, ToolSpec, Verdict};

/// Ordered from the least freedom to the most.
const MODES: [Mode; 3] = [Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY];

/// The tools that intentionally no channel names: one that belongs to an agent, and is on offer where that agent may be
/// called; and the one that reads the rest of a long result, wherever another tool is on offer.
const NAMED_BY_NO_CHANNEL: [&str; 2] = ["research", "read_output"];

async fn built_in_tools() -> Vec<ToolSpec> {
    #[cfg(target_os = "linux")]
    sandbox::has_sandbox();
    let folder = tempfile::tempdir().unwrap();
    let sources = Sources::default().with_flag("--set", "discovery.local_servers", "false");
    let environment = Environment::new(folder.path());
    let config = Config::load(&environment, &sources).unwrap();
    let app = App::builder(&config, &environment).build().await.unwrap();
    app.orchestrator.tools().specs().cloned().collect()
}

/// Describes the verdicts on one request: a line of tools for each verdict.
fn verdicts(
    policy: &Policy,
    decision: &Decision,
    tools: &[ToolSpec],
    taint: &Taint,
) -> [String; 2] {
    let arguments = JsonText::from_text("{}");
    let mut lists = [String::new(), String::new()];
    for tool in tools {
        let call = Call::new(tool, &arguments).with_taint(taint);
        let list = match policy.judge(decision, &call) {
            Verdict::Allow => &mut lists[0],
            Verdict::Ask { .. } => &mut lists[1],
            Verdict::Deny { .. } => continue,
        };
        write!(list, " {}", tool.name).unwrap();
    }
    lists.map(|list| {
        if list.is_empty() {
            " nothing".to_owned()
        } else {
            list
        }
    })
}

/// Roles with identical results share a row.
fn rows(policy: &Policy, mode: &Mode, tools: &[ToolSpec]) -> String {
    let mut text = String::new();
    for channel in policy.channels() {
        let mut told: Vec<(Vec<&str>, String)> = Vec::new();
        for (name, role) in [
            ("router", Role::ROUTER),
            ("reasoning", Role::REASONING),
            ("coding", Role::CODING),
        ] {
            let roles = [role];
            let request = Request::new(mode, channel, "Hello")
                .with_tools(tools)
                .with_roles(&roles);
            let row = match policy.evaluate_request(&request) {
                Err(refusal) => format!("    refused: {refusal}\n"),
                Ok(decision) => describe(policy, &decision, tools),
            };
            match told.iter_mut().find(|(_, known)| *known == row) {
                Some((names, _)) => names.push(name),
                None => told.push((vec![name], row)),
            }
        }
        for (names, row) in told {
            writeln!(text, "  {channel}, served by {}\n{row}", names.join(" or ")).unwrap();
        }
    }
    text
}

fn describe(policy: &Policy, decision: &Decision, tools: &[ToolSpec]) -> String {
    let [run, ask] = verdicts(policy, decision, tools, &Taint::default());
    let mut text = format!("    runs unasked:   {run}\n    asks a person:  {ask}\n");
    let mut taint = Taint::default();
    taint.add(&"web_fetch".parse().unwrap(), Some(ContentIndex(0)));
    let [_, tainted] = verdicts(policy, decision, tools, &taint);
    if tainted != ask {
        writeln!(text, "    after strangers' words also asks:{tainted}").unwrap();
    }
    text
}

#[tokio::test]
async fn permissions_of_the_built_in_tools_per_mode_channel_and_role() {
    let (policy, tools) = (Policy::built_in(), built_in_tools().await);
    let mut text = "The tools, and what they may do:\n".to_owned();
    for tool in &tools {
        let annotations = tool.annotations;
        let outside = if annotations.open_world {
            ", reaches outside"
        } else {
            ""
        };
        let destroys = if annotations.destructive {
            ", may destroy"
        } else {
            ""
        };
        writeln!(
            text,
            "  {:<16} {}{outside}{destroys}",
            tool.name, tool.class
        )
        .unwrap();
    }
    for mode in &MODES {
        write!(text, "\nMode {mode}\n\n{}", rows(&policy, mode, &tools)).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn every_built_in_tool_is_named_by_a_channel() {
    let policy = PolicyConfig::built_in();
    let named: Vec<&str> = policy.tools_of_channels().map(String::as_str).collect();
    for tool in built_in_tools().await {
        let name = tool.name.as_str();
        assert!(
            named.contains(&name) || NAMED_BY_NO_CHANNEL.contains(&name),
            "no channel of default-policy.toml names {name}, so that chat offers it as if it were an embedder's own: name \
             it where it belongs"
        );
    }
}
