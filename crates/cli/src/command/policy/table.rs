//! A decision as a table: a line for each thing that was decided, and then the reasons.

use std::fmt::{Display, Write};
use std::time::Duration;

use neuraxis::brainstem::Judgment;
use neuraxis::core::{AgentLimits, Decision, Limits, MicroUsd, Remember, Verdict};
use neuraxis::engine::ToolOffer;

use super::explain::JudgedCall;
use crate::harmless::one_line;

/// Formats a decision, with the model that serves, the tools that its requests begin with if not all, and the number of
/// agents it may start if any. If a call was judged, its result and the reasons come first, since that was the
/// question; the reasons for the rest are then left out, because they would hide it.
pub(super) fn decision(
    decision: &Decision,
    model: Option<&str>,
    offer: Option<&ToolOffer>,
    agents: Option<AgentLimits>,
    call: Option<&JudgedCall<'_>>,
) -> String {
    let mut table = Table(call.map(of_call).unwrap_or_default());
    table.row("mode", &decision.mode);
    table.row("channel", &decision.channel);
    table.row("role", &decision.role);
    if let Some(model) = model {
        table.row("model", one_line(model));
    }
    table.row("may serve", listed(&decision.allowed_roles));
    if let Some(complexity) = &decision.complexity {
        let features = complexity.features.iter();
        let features: Vec<_> = features
            .map(|feature| format!("{} {} = {}", feature.name, feature.count, feature.points))
            .collect();
        let features = if features.is_empty() {
            "no features found".to_owned()
        } else {
            features.join(", ")
        };
        let (score, threshold) = (complexity.score, complexity.threshold);
        table.row(
            "complexity",
            format!("{score} of {threshold} points ({features})"),
        );
    }
    table.row("agent", &decision.profile);
    table.row("tools", listed(&decision.tools));
    if let Some(offer) = offer {
        table.row("up front", listed(&offer.at_once));
        let others = offer.found_on_demand;
        table.row(
            "on demand",
            format!("{others} others, which the model can search for"),
        );
    }
    if !decision.sub_agent_tools.is_empty() {
        table.row("sub-agents", listed(&decision.sub_agent_tools));
    }
    limits(&mut table, decision, agents);
    conduct(&mut table, decision);
    table.row(
        "policy",
        decision
            .policy_hash
            .to_string()
            .chars()
            .take(16)
            .collect::<String>(),
    );
    let mut text = table.0;
    if call.is_none() {
        reasons(&mut text, &decision.reasons);
    }
    text
}

/// Formats the judgment of a call, and why.
fn of_call(judged: &JudgedCall<'_>) -> String {
    let mut table = Table::default();
    table.row("call", &judged.tool.name);
    match &judged.outcome {
        Ok(judgment) => verdict(&mut table, judgment),
        Err(fault) => {
            table.row("verdict", "none: the call would be refused first");
            table.row("arguments", one_line(fault));
        }
    }
    let mut text = table.0;
    reasons(&mut text, &judged.reasons());
    text.push('\n');
    text
}

fn reasons(text: &mut String, reasons: &[String]) {
    text.push_str("\nwhy\n");
    for reason in reasons {
        line(text, format_args!("  {reason}"));
    }
}

fn limits(table: &mut Table, decision: &Decision, agents: Option<AgentLimits>) {
    let Limits {
        max_turns,
        max_tool_calls,
        max_tokens,
        max_cost,
        deadline,
        tool_timeout,
        // Absent, or the same as the one above.
        max_tool_timeout: _,
    } = decision.limits;
    let mut parts = Vec::new();
    let mut add = |value: Option<String>, unit: &str| {
        if let Some(value) = value {
            parts.push(format!("{value} {unit}"));
        }
    };
    add(max_turns.map(|turns| turns.to_string()), "turns");
    add(max_tool_calls.map(|calls| calls.to_string()), "tool calls");
    add(max_tokens.map(|tokens| tokens.to_string()), "tokens");
    add(max_cost.map(MicroUsd::dollars), "US dollars");
    add(deadline.map(duration_text), "in total");
    add(Some(duration_text(tool_timeout)), "per call");
    add(agents.map(|most| most.total.to_string()), "agents");
    add(agents.map(|most| most.depth.to_string()), "deep");
    table.row("limits", parts.join(", "));
    let mut replies = Vec::new();
    replies.extend(
        decision
            .max_output_tokens
            .map(|tokens| format!("at most {tokens} tokens")),
    );
    replies.extend(
        decision
            .temperature
            .map(|temperature| format!("temperature {temperature}")),
    );
    if !replies.is_empty() {
        table.row("replies", replies.join(", "));
    }
}

fn conduct(table: &mut Table, decision: &Decision) {
    let approval = &decision.approval;
    let open = approval.expires_after.map_or_else(
        || "indefinitely".to_owned(),
        |time| format!("for {}", duration_text(time)),
    );
    table.row(
        "approvals",
        format!("open {open}; {}", remembered(approval.remember)),
    );
    if let Some(routing) = &decision.routing {
        table.row("routing", format!("{} is asked first", routing.asks));
    }
    if let Some(clarify) = &decision.clarify {
        table.row("clarifies", &clarify.question);
    }
    if let Some(check) = &decision.self_check {
        table.row("self-check", format!("by {}", check.role));
    }
    if let Some(spent) = &decision.spent {
        table.row("spent", &spent.reply);
    }
    if !decision.taint.is_clean() {
        let sources: Vec<_> = decision
            .taint
            .sources()
            .iter()
            .map(|source| &source.tool)
            .collect();
        table.row("untrusted", listed(&sources));
    }
}

/// Formats a duration as in the configuration.
fn duration_text(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds, time.subsec_millis()) {
        (0, millis) => format!("{millis}ms"),
        (_, 1..) => format!("{}s", time.as_secs_f64()),
        (seconds, 0) if seconds.is_multiple_of(3_600) => format!("{}h", seconds / 3_600),
        (seconds, 0) if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (seconds, 0) => format!("{seconds}s"),
    }
}

const fn remembered(remember: Remember) -> &'static str {
    match remember {
        Remember::Never => "answers are not remembered",
        Remember::Hosts => "answers may be remembered for hosts to read from",
        Remember::Arguments => "answers may be remembered for the same arguments or a pattern",
        Remember::Tool => "answers may be remembered for a tool",
    }
}

fn verdict(table: &mut Table, judgment: &Judgment) {
    let (verdict, remember) = match &judgment.verdict {
        Verdict::Allow => ("allow", None),
        Verdict::Ask { remember, .. } => ("ask", Some(*remember)),
        Verdict::Deny { .. } => ("deny", None),
    };
    table.row("verdict", verdict);
    if let Some(rule) = &judgment.rule {
        table.row("rule", rule);
    }
    if let Some(remember) = remember {
        table.row("remember", remembered(remember));
    }
}

fn listed<T: Display>(items: &[T]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[derive(Default)]
struct Table(String);

impl Table {
    fn row(&mut self, name: &str, value: impl Display) {
        line(&mut self.0, format_args!("{name:<11} {value}"));
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}
