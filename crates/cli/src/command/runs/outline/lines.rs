//! Formats one line for each thing that happened.

use anstyle::{AnsiColor, Style};
use neuraxis::core::log::describe;
use neuraxis::core::{
    Advice, ApprovalDecided, ApprovalDecision, ApprovalRequested, Cost, LlmCall, LlmFailed,
    Message, NextAttempt, Record, RecordBody, ReplyAdvice, RunOutcome, SessionMetrics,
    ToolCallFailed, ToolResult, Usage, Vetted, Vetting,
};

use crate::call::{End, OpenCall, headline, named};
use crate::glyphs::DOT;
use crate::harmless::one_line_of;
use crate::quantities::{brief, money, tokens};

/// The maximum number of characters quoted in a line.
const MAX_SAID: usize = 100;

const NAME: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();

/// Describes a record, if it deserves a line. Tool calls and their results are described elsewhere.
pub(in crate::command::runs) fn of(record: &Record, body: &RecordBody) -> Option<String> {
    match body {
        RecordBody::RunStarted(started) => {
            let question = started.spec.messages.iter().rev();
            let mut question = question.filter(|it| matches!(it.as_ref(), Message::User { .. }));
            let forked = started.spec.forked_from.as_ref();
            let forked = forked
                .map(|fork| format!("continues from turn {} of run {}", fork.turn, fork.run_id));
            let question = question
                .next()
                .map(|message| format!("{NAME}user{NAME:#} {}", cut(&message.text())));
            question.or(forked)
        }
        RecordBody::LlmCall(call) => Some(model_call(call, Cost::of(body))),
        RecordBody::LlmFailed(failed) => Some(model_failed(failed, Cost::of(body))),
        RecordBody::ToolFailed(failed) => Some(tool_failed(failed)),
        RecordBody::Verdict(vetted) => verdicts(vetted),
        RecordBody::Plan(_) => Some(format!("{NAME}plan{NAME:#}")),
        RecordBody::Summary(summary) => Some(format!("summary: {}", cut(&summary.text))),
        RecordBody::Warning(warning) => Some(odd("warning", &warning.message)),
        RecordBody::ApprovalRequested(question) => Some(asks(question)),
        RecordBody::ApprovalDecided(decided) => Some(approval(decided)),
        RecordBody::Advised(advised_by) => advised(&advised_by.advice),
        RecordBody::Steered(steered) => Some(format!(
            "{NAME}user{NAME:#} {} (during the run{})",
            cut(&steered.message.text()),
            sender(steered.by.as_deref()).map_or_else(String::new, |by| format!(",{by}")),
        )),
        RecordBody::MaxTurnsReached(reached) => Some(odd("limit", &describe::max_turns(reached))),
        RecordBody::LimitReached(reached) => Some(odd("limit", describe::limit(reached.limit))),
        RecordBody::ContextTrimmed(trimmed) => {
            Some(format!("{ODD}{}{ODD:#}", describe::trimmed(trimmed)))
        }
        RecordBody::HistoryRepaired(repaired) => {
            Some(odd("repaired the history", &repaired.repairs.join("; ")))
        }
        RecordBody::RoleDowngraded(downgraded) => {
            Some(odd(&describe::downgraded(downgraded), &downgraded.reason))
        }
        RecordBody::Waiting(waiting) => {
            let count = u64::try_from(waiting.pending.len()).unwrap_or(u64::MAX);
            let answers = describe::counted(count, "answer");
            Some(odd("waits", &format!("for {answers}")))
        }
        RecordBody::Resumed(resumed) => Some(odd("resumed", &resumed.reason)),
        RecordBody::Cancelled(cancelled) => {
            let by = sender(cancelled.by.as_deref()).unwrap_or_default();
            Some(odd(&format!("cancelled{by}"), &cancelled.reason))
        }
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) if !record.ends_the_run() => {
            Some(end_of_agent(outcome))
        }
        _ => None,
    }
}

/// Describes the result of a tool call, for the end of its line.
pub(in crate::command::runs) fn outcome_suffix(call: &OpenCall, result: &ToolResult) -> String {
    let took = result.duration.map(brief);
    let end = End::of(call, result).in_words(took.as_deref());
    let sender = sender(result.by.as_deref()).map(|by| format!("{DOT}sent{by}"));
    let rewritten = if result.rewritten {
        format!("{DOT}rewritten by a hook")
    } else {
        String::new()
    };
    format!("{end}{}{rewritten}", sender.unwrap_or_default())
}

/// Names the sender of a record, if one is on record, such as ` by ada, at the terminal`.
fn sender(by: Option<&str>) -> Option<String> {
    by.map(|by| format!(" by {}", cut(by)))
}

/// Describes a call that has ended, with its result.
pub(in crate::command::runs) fn ended(call: &OpenCall, result: &ToolResult) -> String {
    let named = named(&result.name, &call.arguments);
    format!("{named}{}", outcome_suffix(call, result))
}

/// Describes a question for approval: about which call, and why.
fn asks(asked: &ApprovalRequested) -> String {
    let call = headline(&asked.name, asked.arguments.as_str());
    odd(&format!("asks whether {call} may run"), &asked.reason)
}

fn model_call(call: &LlmCall, cost: Option<Cost>) -> String {
    let purpose = describe::purpose(call.purpose).map(|purpose| format!("{DOT}{purpose}"));
    let purpose = purpose.unwrap_or_default();
    let asks = describe::asks_for(call.reply.calls().count()).map(|asks| format!("{DOT}{asks}"));
    let asks = asks.unwrap_or_default();
    let (role, model) = (
        cut(call.served_by.as_str()),
        cut(&call.reply.model.to_string()),
    );
    let took = brief(call.duration);
    let cost = cost.and_then(money);
    let cost = cost.map_or_else(String::new, |cost| format!("{DOT}{cost}"));
    let used = format!("{}{cost}", used(&call.reply.usage));
    let hooked = call.reply.advice.as_deref().and_then(describe_reply_advice);
    let hooked = hooked.map_or_else(String::new, |hooked| format!("{DOT}{hooked}"));
    format!("{NAME}{role}{NAME:#} ({model}){purpose}{DOT}{took}{DOT}{used}{asks}{hooked}")
}

/// Describes what a hook did with a reply.
fn describe_reply_advice(advice: &ReplyAdvice) -> Option<String> {
    Some(match advice {
        ReplyAdvice::Rewritten => "rewritten".to_owned(),
        ReplyAdvice::AskAgain { reason } => format!("{BAD}rejected{BAD:#}: {}", cut(reason)),
        ReplyAdvice::Refused { reason } => format!("{BAD}refused{BAD:#}: {}", cut(reason)),
        _ => return None,
    })
}

/// Describes the decision of a hook at a point of the loop, if it deserves a line.
fn advised(advice: &Advice) -> Option<String> {
    match advice {
        Advice::Amend { text, notes } => {
            let text = text.as_ref().map(|text| format!("user: {}", cut(text)));
            let notes = notes.iter().map(|note| format!("note: {}", cut(note)));
            let changes: Vec<_> = text.into_iter().chain(notes).collect();
            Some(odd("the request was changed", &changes.join("; ")))
        }
        Advice::Refuse { reason, .. } => Some(odd("the request was refused", reason)),
        Advice::TurnDown { message } => Some(odd("the answer was rejected", message)),
        Advice::Stop { reason } => Some(odd("stopped", reason)),
        _ => None,
    }
}

/// Describes the calls of a batch that were denied, or allowed by more than their mode, if any.
fn verdicts(vetted: &Vetted) -> Option<String> {
    let descriptions = vetted.calls.iter().filter_map(|found| match found {
        Vetting::Run {
            grant: Some(id), ..
        } => Some(format!("allowed by remembered answer {id}")),
        Vetting::Run {
            rule: Some(rule), ..
        } => Some(format!("allowed by rule {}", cut(&rule.to_string()))),
        Vetting::Deny {
            rule: Some(rule), ..
        } => Some(format!(
            "{BAD}denied{BAD:#} by rule {}",
            cut(&rule.to_string())
        )),
        Vetting::Deny { rule: None, .. } => Some(format!("{BAD}denied{BAD:#} by policy")),
        _ => None,
    });
    let descriptions: Vec<String> = descriptions.collect();
    (!descriptions.is_empty()).then(|| format!("verdict: {}", descriptions.join("; ")))
}

/// Describes a failed attempt of a tool call that is followed by another.
fn tool_failed(failed: &ToolCallFailed) -> String {
    let (name, took) = (cut(&failed.name), brief(failed.duration));
    let (attempt, word) = (failed.attempt, describe::failure(failed.failure));
    let error = failed.value.error_message();
    let error = error.unwrap_or_else(|| failed.value.to_string());
    format!(
        "{NAME}{name}{NAME:#}{DOT}attempt {}{DOT}{took}{DOT}{BAD}{word}{BAD:#}: {}{DOT}again",
        attempt.0,
        cut(&error)
    )
}

/// Describes what an agent used, for the end of its line.
pub(super) fn used_by_agent(used: &SessionMetrics) -> String {
    if used.llm_calls + used.llm_failures == 0 {
        return String::new();
    }
    let calls = describe::counted(used.llm_calls, "model call");
    let cost = money(used.paid()).map_or_else(String::new, |cost| format!("{DOT}{cost}"));
    format!(
        "{DOT}{calls}{DOT}{} tokens{cost}",
        tokens(used.usage.total.total)
    )
}

fn used(usage: &Usage) -> String {
    format!(
        "{} + {} tokens",
        tokens(usage.prompt),
        tokens(usage.completion)
    )
}

fn model_failed(failed: &LlmFailed, cost: Option<Cost>) -> String {
    let role = cut(failed.served_by.as_str());
    let (took, error) = (brief(failed.duration), failed.error.to_string());
    let attempt = match failed.attempt.0 {
        1 => String::new(),
        attempt => format!("{DOT}attempt {attempt}"),
    };
    let error = cut(error.lines().next().unwrap_or_default());
    let again = match failed.next {
        NextAttempt::Follows => format!("{DOT}again"),
        NextAttempt::None => String::new(),
    };
    // Usually unknown for a failed call.
    let tokens = failed.error.usage.as_deref();
    let tokens = tokens.map_or_else(String::new, |usage| format!("{DOT}{}", used(usage)));
    let cost = cost.and_then(money);
    let cost = cost.map_or_else(String::new, |cost| format!("{DOT}{cost}"));
    format!(
        "{NAME}{role}{NAME:#}{attempt}{DOT}{took}{tokens}{cost}{DOT}{BAD}failed{BAD:#}: {error}{again}"
    )
}

fn approval(decided: &ApprovalDecided) -> String {
    let by = sender(decided.by.as_deref()).unwrap_or_default();
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
        ApprovalDecision::Expired => "no decision was made in time".to_owned(),
    }
}

/// Describes how an agent or the run ended.
pub(in crate::command::runs) fn end_of_agent(outcome: &RunOutcome) -> String {
    let reason = cut(&outcome.finish_reason.to_string());
    match outcome.content.as_str() {
        "" => format!("ends ({reason})"),
        content => format!("answers ({reason}): {}", cut(content)),
    }
}

fn odd(what: &str, why: &str) -> String {
    format!("{ODD}{what}{ODD:#}: {}", cut(why))
}

/// Shortens quoted text to fit a line.
fn cut(text: &str) -> String {
    one_line_of(text, MAX_SAID)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuraxis::core::uuid::Uuid;
    use neuraxis::core::{
        Attempt, CountLabel, EffectId, LlmError, LlmErrorKind, MicroUsd, Purpose, Role, RunId,
        TokenCount,
    };

    use super::*;

    #[test]
    fn a_failed_attempt_shows_its_usage_only_when_it_was_reported() {
        let run = RunId(Uuid::nil());
        let mut failed = LlmFailed {
            effect_id: EffectId { run, number: 1 },
            attempt: Attempt(1),
            purpose: Purpose::Turn,
            role: Role::CODING,
            served_by: Role::CODING,
            downgraded: None,
            degraded: None,
            error: LlmError::new(LlmErrorKind::Incomplete, "cut off"),
            next: NextAttempt::Follows,
            cost: None,
            cost_label: CountLabel::Measured,
            model: None,
            duration: Duration::from_secs(2),
        };
        let line = model_failed(&failed, None);
        assert!(!line.contains("tokens") && !line.contains('$'), "{line}");
        let usage = Usage {
            prompt: TokenCount::measured(10),
            completion: TokenCount::measured(5),
            ..Usage::default()
        };
        failed.error = failed.error.with_usage(usage);
        failed.cost = Some(MicroUsd(20_000));
        let cost = Cost::of(&RecordBody::LlmFailed(Box::new(failed.clone())));
        let line = model_failed(&failed, cost);
        assert!(line.contains(" · 10 + 5 tokens · $0.02"), "{line}");
    }

    #[test]
    fn external_text_is_truncated_and_control_characters_made_visible() {
        let long = format!("\u{1b}[2J{}", "x".repeat(200));
        let line = cut(&long);
        assert!(line.starts_with("␛[2Jxx") && line.ends_with('…'), "{line}");
        assert_eq!(line.chars().count(), MAX_SAID + 1);
    }
}
