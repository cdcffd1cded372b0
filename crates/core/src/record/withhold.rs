//! Removes from records what the data policy does not allow to be stored, replacing it with a length and a hash.

use std::sync::Arc;

use crate::advised_call::{AdvisedCall, CallAdvice};
use crate::decision::GrantScope;
use crate::effect::Purpose;
use crate::error::LlmError;
use crate::finish::FinishReason;
use crate::ids::AgentId;
use crate::input::{Advice, ApprovalDecision, Cancelled, Vetting};
use crate::json::{ContentHash, JsonText};
use crate::message::{AssistantMessage, Message, Part, ProviderState, ReasoningPart, ToolMessage};
use crate::outcome::{ToolFailure, ToolSignal};
use crate::profile::DataPolicy;
use crate::record::{LlmCall, PromptReason, Record, RecordBody, ToolResult};
use crate::reply::{Reply, ReplyAdvice, ReplyPart};

/// Begins what replaces removed content.
const MARKER: &str = "[withheld: ";

/// Follows it in place of media.
const MEDIA: &str = "media]";

impl Record {
    /// Returns the record as it may be stored and traced, or `None` if that is the record as it is.
    ///
    /// Removed content is replaced by its length in bytes and its hash, so it is still possible to see that two records
    /// contain the same. A log with removed content can be read, but neither replayed nor resumed.
    #[must_use]
    pub fn withheld(&self, policy: DataPolicy) -> Option<Self> {
        (policy != DataPolicy::ALL).then(|| Self {
            body: body(&self.body, self.agent, policy),
            ..self.clone()
        })
    }
}

impl Message {
    /// Returns the message in the form that a log contains under a data policy: content that the policy excludes is
    /// replaced by its hash and length.
    #[must_use]
    pub fn withheld(self: &Arc<Self>, policy: DataPolicy) -> Arc<Self> {
        message(self, policy)
    }
}

impl LlmError {
    /// Returns the error as it may be stored and logged under a data policy: if the policy excludes anything, a hash
    /// and a length replace its message, since a provider may quote whatever it was sent. The error's kind stays.
    #[must_use]
    pub fn withheld(&self, policy: DataPolicy) -> Self {
        let mut error = self.clone();
        hide(&mut error.message, policy == DataPolicy::ALL);
        error
    }
}

fn body(body: &RecordBody, agent: AgentId, policy: DataPolicy) -> RecordBody {
    let mut body = body.clone();
    match &mut body {
        RecordBody::RunStarted(started) => {
            let spec = Arc::make_mut(&mut started.spec);
            spec.messages = spec.messages.iter().map(|it| message(it, policy)).collect();
        }
        RecordBody::LlmCall(call) => model_call(call, agent, policy),
        RecordBody::ToolCall(call) => hide_json(&mut call.arguments, policy.tool_calls),
        RecordBody::LlmFailed(failed) => failed.error = failed.error.withheld(policy),
        // A failing tool usually names what it was asked for.
        RecordBody::ToolFailed(failed) => {
            hide_json(&mut failed.value, policy.tool_results && policy.tool_calls);
        }
        RecordBody::ToolResult(result) => tool_result(result, policy),
        // The plan consists of the call's arguments.
        RecordBody::Plan(plan) => {
            hide_json(&mut plan.plan, policy.tool_results && policy.tool_calls);
        }
        RecordBody::Summary(summary) => hide(&mut summary.text, summed_up(policy).text),
        RecordBody::Verdict(vetted) => {
            for found in &mut vetted.calls {
                vetting(found, policy);
            }
            for advised in &mut vetted.advised {
                advised_call(advised, policy);
            }
            // An incomplete pattern would cover nothing: the calls it was meant to cover require approval again.
            let granted = &mut vetted.granted;
            granted.retain(|grant| policy.tool_calls || !grant.scope.quotes_arguments());
        }
        RecordBody::ApprovalRequested(asked) => {
            hide_json(&mut asked.arguments, policy.tool_calls);
            hide(&mut asked.reason, policy.tool_calls);
            for choice in &mut asked.choices {
                grant(choice, policy);
            }
        }
        RecordBody::ApprovalDecided(decided) => decision(&mut decided.decision, policy),
        RecordBody::Steered(steered) => steered.message = message(&steered.message, policy),
        RecordBody::MaxTurnsReached(reached) => hide(&mut reached.content, policy.text),
        RecordBody::LimitReached(reached) => hide(&mut reached.content, policy.text),
        RecordBody::ContextTrimmed(trimmed) => {
            if let Some(summary) = &mut trimmed.summary {
                hide(summary, summed_up(policy).text);
            }
        }
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => {
            hide(&mut outcome.content, policy.text);
            if !policy.text || !policy.tool_results {
                outcome.sources.clear();
            }
            finish_reason(&mut outcome.finish_reason, policy);
        }
        // Criticism of an answer may quote it, and the replacement of a request may quote the request.
        RecordBody::Advised(advised) => advice(&mut advised.advice, sent_to(agent, policy)),
        RecordBody::PromptInjected(injected) if injected.reason == PromptReason::AnswerAgain => {
            hide(&mut injected.message, policy.text);
        }
        RecordBody::Cancelled(given_up) => cancelled(given_up, policy),
        RecordBody::Decision(_)
        | RecordBody::Warning(_)
        | RecordBody::MaxTurnsPromptInjected(_)
        | RecordBody::PromptInjected(_)
        | RecordBody::HistoryRepaired(_)
        | RecordBody::RoleDowngraded(_)
        | RecordBody::Escalated(_)
        | RecordBody::Waiting(_)
        | RecordBody::Resumed(_) => {}
    }
    body
}

fn cancelled(cancelled: &mut Cancelled, policy: DataPolicy) {
    // For a limit, the reason is the loop's own text.
    let is_said_by_the_loop = cancelled.limit.is_some();
    hide(&mut cancelled.reason, policy.text || is_said_by_the_loop);
    if let Some(cut) = &mut cancelled.cut {
        hide(&mut cut.text, policy.text);
    }
    for output in &mut cancelled.printed {
        hide(&mut output.text, policy.tool_results);
    }
}

fn finish_reason(reason: &mut FinishReason, policy: DataPolicy) {
    match reason {
        FinishReason::InvalidAnswer(why) => hide(why, policy.text && policy.tool_calls),
        // Treated like the error of its model call: the kind stays, so it is still visible that they are the same.
        FinishReason::Failed(why) => {
            let (kind, words) = why.split_once(": ").unwrap_or(("", why.as_str()));
            let mut words = words.to_owned();
            hide(&mut words, policy == DataPolicy::ALL);
            *why = match kind {
                "" => words,
                kind => format!("{kind}: {words}"),
            };
        }
        _ => {}
    }
}

fn advice(advice: &mut Advice, policy: DataPolicy) {
    match advice {
        Advice::TurnDown { message } => hide(message, policy.text),
        Advice::Amend { text, notes } => {
            if let Some(text) = text {
                hide(text, policy.text);
            }
            for note in notes {
                hide(note, policy.text);
            }
        }
        Advice::Refuse { reply, reason } => {
            hide(reply, policy.text);
            hide(reason, policy.text);
        }
        // The hook may have seen an answer or calls.
        Advice::Stop { reason } => hide(reason, policy.text && policy.tool_calls),
        Advice::Continue | Advice::Offer { .. } => {}
    }
}

/// Returns what may be stored of a summary of a conversation: it contains calls and results as well as text, with names
/// and numbers verbatim.
const fn summed_up(policy: DataPolicy) -> DataPolicy {
    DataPolicy {
        text: policy.text && policy.tool_calls && policy.tool_results,
        ..policy
    }
}

/// Returns what may be stored of the messages that an agent is sent.
fn sent_to(agent: AgentId, policy: DataPolicy) -> DataPolicy {
    if agent == AgentId::ROOT {
        return policy;
    }
    // The agent's task is part of the arguments of the call that started it.
    DataPolicy {
        text: policy.text && policy.tool_calls,
        ..policy
    }
}

fn model_call(call: &mut LlmCall, agent: AgentId, policy: DataPolicy) {
    let (sent, said) = match call.purpose {
        Purpose::Compaction => (summed_up(policy), summed_up(policy)),
        _ => (sent_to(agent, policy), policy),
    };
    let is_of_conversation = matches!(
        call.purpose,
        Purpose::Turn | Purpose::LastAnswer | Purpose::Gather
    );
    let messages = call.messages.iter().map(|it| match it.as_ref() {
        // It may come from the program's code, or say why an answer was rejected: both may quote content. The system
        // prompt is never among the new messages.
        Message::System { text } if is_of_conversation => {
            let mut text = text.clone();
            hide(&mut text, sent.text);
            Arc::new(Message::System { text })
        }
        _ => message(it, sent),
    });
    call.messages = messages.collect();
    let mut reply = Reply::clone(&call.reply);
    for part in &mut reply.parts {
        match part {
            ReplyPart::Text(text) => {
                hide(&mut text.text, said.text);
                hide_state(&mut text.state, said.text);
            }
            ReplyPart::Reasoning(thought) => reasoning(thought, policy),
            ReplyPart::ToolCall(call) => {
                hide_json(&mut call.arguments, policy.tool_calls);
                hide_state(&mut call.state, policy.tool_calls && policy.reasoning);
            }
        }
    }
    if let Some(ReplyAdvice::AskAgain { reason } | ReplyAdvice::Refused { reason }) =
        reply.advice.as_deref_mut()
    {
        hide(reason, said.text);
    }
    call.reply = Arc::new(reply);
}

/// The reason why a call may or may not run may quote its arguments.
fn vetting(found: &mut Vetting, policy: DataPolicy) {
    match found {
        Vetting::Run { reason, .. } => {
            if let Some(reason) = reason {
                hide(reason, policy.tool_calls);
            }
        }
        Vetting::Invalid { message } => hide(message, policy.tool_calls),
        Vetting::Ask {
            reason, choices, ..
        } => {
            hide(reason, policy.tool_calls);
            for choice in choices {
                grant(choice, policy);
            }
        }
        Vetting::Deny { reason, .. } => hide(reason, policy.tool_calls),
        Vetting::Unknown | Vetting::Disabled => {}
    }
}

/// A hook that saw the arguments may quote them.
fn advised_call(advised: &mut AdvisedCall, policy: DataPolicy) {
    if let Some(arguments) = &mut advised.arguments {
        hide_json(arguments, policy.tool_calls);
    }
    match &mut advised.advice {
        CallAdvice::Ask { reason }
        | CallAdvice::Refuse { reason }
        | CallAdvice::Stop { reason } => hide(reason, policy.tool_calls),
        CallAdvice::Continue => {}
    }
}

/// The patterns offered for remembering are derived from the arguments.
fn grant(scope: &mut GrantScope, policy: DataPolicy) {
    match scope {
        GrantScope::Command { pattern, .. }
        | GrantScope::Host { pattern }
        | GrantScope::Path { pattern } => hide(pattern, policy.tool_calls),
        GrantScope::Arguments { .. } | GrantScope::Tool => {}
    }
}

fn decision(decision: &mut ApprovalDecision, policy: DataPolicy) {
    match decision {
        ApprovalDecision::Approve {
            arguments,
            remember,
        } => {
            if let Some(arguments) = arguments {
                hide_json(arguments, policy.tool_calls);
            }
            if let Some(scope) = remember {
                grant(scope, policy);
            }
        }
        ApprovalDecision::Deny { reason } => {
            if let Some(reason) = reason {
                hide(reason, policy.text);
            }
        }
        ApprovalDecision::Expired => {}
    }
}

fn tool_result(result: &mut ToolResult, policy: DataPolicy) {
    let may_quote = match result.failure {
        // Such an error describes what is wrong with the arguments, or what a user or a hook said about them.
        Some(ToolFailure::InvalidArguments | ToolFailure::Denied) => {
            policy.tool_calls && policy.text
        }
        // The loop's own text for a call that did not run, or not to completion, gives the reason.
        Some(ToolFailure::Cancelled | ToolFailure::OutcomeUnknown) if result.duration.is_none() => {
            policy.tool_calls && policy.text
        }
        // A failing tool usually names what it was asked for.
        Some(failure) if failure.is_of_the_tool() => policy.tool_calls,
        _ => true,
    };
    hide_json(&mut result.value, policy.tool_results && may_quote);
    if let Some(summary) = &mut result.summary {
        hide(summary, policy.tool_results);
    }
    if !policy.tool_results {
        result.media.clear();
        result.metadata = None;
        result.signal = None;
        result.sources.clear();
    }
    if !policy.tool_calls {
        // File changes, a plan and a question consist of the call's arguments.
        result.metadata = None;
        let is_of_call = |signal: &ToolSignal| {
            matches!(signal, ToolSignal::Plan { .. } | ToolSignal::Clarify { .. })
        };
        result.signal = result.signal.take().filter(|signal| !is_of_call(signal));
    }
}

fn message(message: &Arc<Message>, policy: DataPolicy) -> Arc<Message> {
    Arc::new(match message.as_ref() {
        // What the deployment and the loop tell the model is not user content.
        Message::System { .. } => return Arc::clone(message),
        Message::User { parts } => Message::User {
            parts: parts.iter().map(|it| part(it, policy)).collect(),
        },
        Message::Assistant(said) => Message::Assistant(AssistantMessage {
            parts: said.parts.iter().map(|it| part(it, policy)).collect(),
            model: said.model.clone(),
        }),
        Message::Tool(tool) => {
            let mut content = tool.content.clone();
            hide_json(&mut content, policy.tool_results);
            let mut media = tool.media.clone();
            media.retain(|_| policy.tool_results);
            Message::Tool(ToolMessage {
                tool_call_id: tool.tool_call_id.clone(),
                name: Arc::clone(&tool.name),
                content,
                media,
            })
        }
    })
}

fn part(part: &Part, policy: DataPolicy) -> Part {
    let mut part = part.clone();
    match &mut part {
        Part::Text(text) => {
            hide(&mut text.text, policy.text);
            hide_state(&mut text.state, policy.text);
        }
        Part::Reasoning(thought) => reasoning(thought, policy),
        Part::ToolCall(call) => {
            hide_json(&mut call.arguments, policy.tool_calls);
            // Gemini puts its encrypted reasoning into its calls.
            hide_state(&mut call.state, policy.tool_calls && policy.reasoning);
        }
        Part::Media(_) if !policy.text => return Part::text(format!("{MARKER}{MEDIA}")),
        Part::Media(_) => {}
    }
    part
}

fn reasoning(thought: &mut ReasoningPart, policy: DataPolicy) {
    hide(&mut thought.text, policy.reasoning);
    // Signatures and encrypted items are the reasoning in another form.
    hide_state(&mut thought.state, policy.reasoning);
    if !policy.reasoning {
        thought.signature = None;
    }
}

fn hide<Text: AsRef<str> + From<String>>(text: &mut Text, is_stored: bool) {
    if !is_stored && !text.as_ref().is_empty() {
        *text = withheld_marker(text.as_ref()).into();
    }
}

fn hide_json(text: &mut JsonText, is_stored: bool) {
    if !is_stored {
        *text = JsonText::string(&withheld_marker(text.as_str()));
    }
}

fn hide_state(state: &mut Option<ProviderState>, is_stored: bool) {
    if !is_stored {
        *state = None;
    }
}

fn withheld_marker(text: &str) -> String {
    let hash = ContentHash::of(text.as_bytes());
    format!("{MARKER}{} bytes, sha256 {hash}]", text.len())
}

/// Returns whether a text of a record begins with the length and hash that replace content which a data policy keeps
/// out of the log.
#[must_use]
pub fn is_withheld(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(MARKER) else {
        return false;
    };
    if rest.starts_with(MEDIA) {
        return true;
    }
    let digits = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let hash = digits.strip_prefix(" bytes, sha256 ");
    let hash = hash.and_then(|hash| hash.split_once(']'));
    digits.len() < rest.len() && hash.is_some_and(|(hash, _)| hash.parse::<ContentHash>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{RunId, Seq, Turn};
    use crate::record::Summarized;

    fn record(body: RecordBody) -> Record {
        Record {
            seq: Seq(1),
            content_index: None,
            run_id: RunId(uuid::Uuid::nil()),
            agent: AgentId::ROOT,
            turn: Turn(1),
            at: jiff::Timestamp::UNIX_EPOCH,
            active_ms: None,
            body,
        }
    }

    #[test]
    fn what_replaces_withheld_content_is_recognized() {
        let media = format!("{MARKER}{MEDIA}");
        for text in [withheld_marker("a"), withheld_marker("a") + &media, media] {
            assert!(is_withheld(&text), "{text}");
        }
        let almost = withheld_marker("a").replace("sha256 ", "sha256 x");
        for text in ["", "[withheld: what?", "[withheld: bytes", &almost] {
            assert!(!is_withheld(text), "{text}");
        }
    }

    #[test]
    fn what_may_be_stored_is_left_alone_and_what_may_not_is_gone() {
        let text = "the canary sings".to_owned();
        let summary = record(RecordBody::Summary(Box::new(Summarized { text })));
        assert_eq!(summary.withheld(DataPolicy::ALL), None);
        let policy = DataPolicy {
            reasoning: false,
            ..DataPolicy::ALL
        };
        assert_eq!(summary.withheld(policy), Some(summary.clone()));
        let policy = DataPolicy {
            text: false,
            ..DataPolicy::ALL
        };
        let stored = summary.withheld(policy).unwrap().to_json();
        assert!(!stored.contains("canary"), "{stored}");
        assert!(stored.contains("[withheld: 16 bytes, sha256 "), "{stored}");
        assert_eq!(Record::from_json(&stored).unwrap().to_json(), stored);
    }
}
