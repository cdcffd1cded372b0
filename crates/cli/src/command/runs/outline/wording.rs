//! One line for each thing that happened.

use anstyle::{AnsiColor, Style};
use neuraxis::core::{
    ApprovalDecided, ApprovalDecision, LlmCall, LlmFailed, Message, Purpose, Record, RecordBody,
    RunOutcome, ToolCallStarted, ToolFailure, ToolResult, Usage,
};

use crate::harmless::one_line;
use crate::wording::{brief, tokens};

/// The most characters of somebody's words in a line.
const MAX_SAID: usize = 100;

const NAME: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();

/// Describes what happened, if it is worth a line of its own. Calls and results of tools are described elsewhere.
pub(super) fn of(record: &Record, body: &RecordBody) -> Option<String> {
    match body {
        RecordBody::RunStarted(started) => {
            let asked = started.spec.messages.iter().rev();
            let mut asked = asked.filter(|it| matches!(it.as_ref(), Message::User { .. }));
            let forked = started.spec.forked_from.as_ref();
            let forked = forked
                .map(|fork| format!("goes on from turn {} of run {}", fork.turn, fork.run_id));
            let asked = asked
                .next()
                .map(|message| format!("{NAME}user{NAME:#} {}", cut(&message.text())));
            asked.or(forked)
        }
        RecordBody::LlmCall(call) => Some(model_call(call)),
        RecordBody::LlmFailed(failed) => Some(model_failed(failed)),
        RecordBody::Plan(_) => Some("the plan changed".to_owned()),
        RecordBody::Summary(summary) => Some(format!("summary: {}", cut(&summary.text))),
        RecordBody::Warning(warning) => Some(odd("warning", &warning.message)),
        RecordBody::ApprovalRequested(asked) => {
            let name = cut(&asked.name);
            Some(odd(&format!("asks whether {name} may run"), &asked.reason))
        }
        RecordBody::ApprovalDecided(decided) => Some(approval(decided)),
        RecordBody::Steered(steered) => Some(format!(
            "{NAME}user{NAME:#} {} (while it was at work)",
            cut(&steered.message.text())
        )),
        RecordBody::MaxTurnsReached(reached) => Some(odd(
            "limit",
            &format!("{} turns are used up", reached.turns),
        )),
        RecordBody::LimitReached(reached) => {
            let limit = serde_json::to_value(reached.limit).unwrap_or_default();
            Some(odd("limit", limit.as_str().unwrap_or_default()))
        }
        RecordBody::ContextTrimmed(trimmed) => Some(odd(
            "left out",
            &format!("{} older messages", trimmed.messages),
        )),
        RecordBody::HistoryRepaired(repaired) => {
            Some(odd("repaired the history", &repaired.repairs.join("; ")))
        }
        RecordBody::RoleDowngraded(downgraded) => {
            let (from, to) = (&downgraded.from, &downgraded.to);
            Some(odd(&format!("{to} instead of {from}"), &downgraded.reason))
        }
        RecordBody::Waiting(waiting) => {
            let count = waiting.pending.len();
            Some(odd(
                "waits",
                &format!(
                    "for {count} {}",
                    if count == 1 { "answer" } else { "answers" }
                ),
            ))
        }
        RecordBody::Resumed(resumed) => Some(odd("taken up", &resumed.reason)),
        RecordBody::Cancelled(cancelled) => Some(odd("cancelled", &cancelled.reason)),
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) if !record.ends_the_run() => {
            Some(end_of_agent(outcome))
        }
        _ => None,
    }
}

/// Describes a tool call that begins. What came of it follows on the same line.
pub(super) fn call(call: &ToolCallStarted) -> String {
    let arguments = match call.arguments.as_str() {
        "{}" => String::new(),
        arguments => format!(" {}", cut(arguments)),
    };
    format!("{NAME}{}{NAME:#}{arguments}", cut(&call.name))
}

/// Says what came of a tool call.
pub(super) fn came_of(result: &ToolResult) -> String {
    let took = result.duration.map(|took| format!(" · {}", brief(took)));
    let took = took.unwrap_or_default();
    match result.failure {
        None => format!("{took} · done"),
        Some(failure) => {
            let word = failure_name(failure);
            format!("{took} · {BAD}{word}{BAD:#}: {}", cut(&error_of(result)))
        }
    }
}

/// Describes a call that never ran.
pub(super) fn not_started(result: &ToolResult) -> String {
    format!("{NAME}{}{NAME:#}{}", cut(&result.name), came_of(result))
}

fn model_call(call: &LlmCall) -> String {
    let purpose = match call.purpose {
        Purpose::Turn => String::new(),
        Purpose::LastAnswer => " · last answer".to_owned(),
        Purpose::Compaction => " · compaction".to_owned(),
        Purpose::SelfCheck => " · self-check".to_owned(),
        Purpose::Routing => " · choice of the role".to_owned(),
        Purpose::Gather => " · choice of what to read".to_owned(),
    };
    let asks = match call.reply.calls().count() {
        0 => String::new(),
        1 => " · asks for a tool".to_owned(),
        calls => format!(" · asks for {calls} tools"),
    };
    let (role, model) = (
        cut(call.served_by.as_str()),
        cut(&call.reply.model.to_string()),
    );
    let took = brief(call.duration);
    let used = used(&call.reply.usage);
    format!("{NAME}{role}{NAME:#} ({model}){purpose} · {took} · {used}{asks}")
}

fn used(usage: &Usage) -> String {
    format!(
        "{} + {} tokens",
        tokens(usage.prompt),
        tokens(usage.completion)
    )
}

fn model_failed(failed: &LlmFailed) -> String {
    let role = cut(failed.served_by.as_str());
    let (took, error) = (brief(failed.duration), failed.error.to_string());
    let attempt = match failed.attempt.0 {
        1 => String::new(),
        attempt => format!(" · attempt {attempt}"),
    };
    let error = cut(error.lines().next().unwrap_or_default());
    format!("{NAME}{role}{NAME:#}{attempt} · {took} · {BAD}failed{BAD:#}: {error}")
}

fn approval(decided: &ApprovalDecided) -> String {
    let by = decided.by.as_deref().map(|by| format!(" by {}", cut(by)));
    let by = by.unwrap_or_default();
    match &decided.decision {
        ApprovalDecision::Approve {
            arguments,
            remember,
        } => {
            let edited = arguments.as_ref().map_or("", |_| ", with other arguments");
            let kept = remember.as_ref().map_or("", |_| ", for the session");
            format!("approved{by}{edited}{kept}")
        }
        ApprovalDecision::Deny { reason } => {
            let reason = reason.as_deref().unwrap_or("no reason given");
            format!("{BAD}denied{BAD:#}{by}: {}", cut(reason))
        }
        ApprovalDecision::Expired => "nobody decided in time".to_owned(),
    }
}

fn end_of_agent(outcome: &RunOutcome) -> String {
    let reason = cut(&outcome.finish_reason.to_string());
    match outcome.content.as_str() {
        "" => format!("ends ({reason})"),
        content => format!("answers ({reason}): {}", cut(content)),
    }
}

const fn failure_name(failure: ToolFailure) -> &'static str {
    match failure {
        ToolFailure::Timeout => "timed out",
        ToolFailure::Panic => "panicked",
        ToolFailure::Cancelled => "cancelled",
        ToolFailure::OutcomeUnknown => "outcome unknown",
        ToolFailure::InvalidArguments => "invalid arguments",
        ToolFailure::UnknownTool => "unknown tool",
        ToolFailure::NotEnabled => "not enabled",
        ToolFailure::Denied => "denied",
        ToolFailure::ApprovalExpired => "not approved in time",
        ToolFailure::LimitReached => "not run at a limit",
        _ => "failed",
    }
}

/// Returns the text of a result that is an error.
fn error_of(result: &ToolResult) -> String {
    let value: Option<serde_json::Value> = result.value.decode().ok();
    let error = value
        .as_ref()
        .and_then(|value| value.get("error")?.as_str());
    error.map_or_else(|| result.value.to_string(), str::to_owned)
}

fn odd(what: &str, why: &str) -> String {
    format!("{ODD}{what}{ODD:#}: {}", cut(why))
}

/// Makes somebody's words fit into a line.
fn cut(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MAX_SAID) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_say_is_cut_and_harmless() {
        let long = format!("\u{1b}[2J{}", "x".repeat(200));
        let line = cut(&long);
        assert!(line.starts_with("␛[2Jxx") && line.ends_with('…'), "{line}");
        assert_eq!(line.chars().count(), MAX_SAID + 1);
    }
}
