//! The whole built-in policy as tables that a reviewer reads as a policy document.

use std::fmt::Write;

use neuraxis_brainstem::{Call, Policy, Request};
use neuraxis_core::{Decision, JsonText, Mode, Opening, Role, ToolSpec, Verdict};

use crate::catalog::all_tools;

/// Ordered from the least freedom to the most.
const MODES: [Mode; 3] = [Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY];

#[test]
fn decisions_of_the_built_in_policy_per_mode_and_channel() {
    let (policy, mut tools) = (Policy::built_in(), all_tools());
    tools.extend(policy.agent_tools());
    assert_eq!(policy.modes().count(), MODES.len());
    let mut table = String::new();
    for channel in policy.channels() {
        for mode in &MODES {
            writeln!(table, "{channel} in mode {mode}").unwrap();
            match policy.evaluate_request(&Request::new(mode, channel, "Hello").with_tools(&tools))
            {
                Ok(decision) => describe(&mut table, &policy, &decision, &tools),
                Err(refusal) => writeln!(table, "  refused   {refusal}").unwrap(),
            }
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_built_in_policy_explains_its_decisions_in_sentences() {
    let (policy, mut tools) = (Policy::built_in(), all_tools());
    tools.extend(policy.agent_tools());
    let mut text = String::new();
    for channel in policy.channels() {
        for mode in &MODES {
            let request = Request::new(mode, channel, "Hello").with_tools(&tools);
            let Ok(decision) = policy.evaluate_request(&request) else {
                continue;
            };
            writeln!(
                text,
                "{channel} in mode {mode}\n  {}\n",
                decision.reasons.join("\n  ")
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn tools_of_every_role_per_mode_and_channel() {
    let (policy, tools) = (Policy::built_in(), all_tools());
    let mut table = "run: without asking; ask: a person first; -: not at all\n\n".to_owned();
    for channel in policy.channels() {
        for mode in &MODES {
            for role in [Role::ROUTER, Role::REASONING, Role::CODING] {
                let name = format!("{channel}, {mode}, {role}");
                let roles = [role];
                let request = Request::new(mode, channel, "Hello")
                    .with_tools(&tools)
                    .with_roles(&roles);
                let row = match policy.evaluate_request(&request) {
                    Ok(decision) => cells(&policy, &decision, &tools),
                    Err(refusal) => format!(" refused: {refusal}"),
                };
                writeln!(table, "{name:<42}{row}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

/// Returns one cell for each tool, as wide as its name.
fn cells(policy: &Policy, decision: &Decision, tools: &[ToolSpec]) -> String {
    let mut row = String::new();
    for tool in tools {
        let cell = match policy.judge(decision, &Call::new(tool, &JsonText::from_text("{}"))) {
            Verdict::Allow => "run",
            Verdict::Ask { .. } => "ask",
            Verdict::Deny { .. } => "-",
        };
        write!(row, " {}={cell}", tool.name).unwrap();
    }
    row
}

fn describe(table: &mut String, policy: &Policy, decision: &Decision, tools: &[ToolSpec]) {
    let profile = policy.profile(decision);
    let opening = match &profile.opening {
        Opening::Direct => "begins directly".to_owned(),
        Opening::Gather { role, tool, .. } => format!("{role} gathers with {tool}"),
    };
    let roles: Vec<_> = decision
        .allowed_roles
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        Some(&decision.role),
        decision.allowed_roles.first(),
        "the role that serves comes first"
    );
    let (mut run, mut ask, mut denied) = (Vec::new(), Vec::new(), Vec::new());
    for tool in tools
        .iter()
        .filter(|tool| decision.tools.contains(&tool.name))
    {
        match policy.judge(decision, &Call::new(tool, &JsonText::from_text("{}"))) {
            Verdict::Allow => run.push(tool.name.as_str()),
            Verdict::Ask { .. } => ask.push(tool.name.as_str()),
            Verdict::Deny { .. } => denied.push(&tool.name),
        }
    }
    assert!(denied.is_empty(), "on offer but denied: {denied:?}");
    let limits = &decision.limits;
    let calls = limits
        .max_tool_calls
        .map_or_else(String::new, |calls| format!(", {calls} tool calls"));
    writeln!(
        table,
        "  roles     {}\n  profile   {}, {opening}\n  run       {}\n  ask       {}\n  limits    {} turns{calls}, {:?}, {:?} a call\n  replies   {} tokens, temperature {:.1}",
        roles.join(", "),
        profile.name,
        or_nothing(&run),
        or_nothing(&ask),
        limits.max_turns.unwrap(),
        limits.deadline.unwrap(),
        limits.tool_timeout,
        decision.max_output_tokens.unwrap(),
        decision.temperature.unwrap(),
    )
    .unwrap();
}

fn or_nothing(names: &[&str]) -> String {
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(" ")
    }
}
