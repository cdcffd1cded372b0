//! Removes from records what the data policy does not allow to be stored, replacing it with a length and a hash.
//!
//! Every pattern names every field, also those that stay: with a new field this does not compile until somebody decides
//! whether the field may be stored.

mod call;
mod content;

use std::sync::Arc;

use crate::error::LlmError;
use crate::finish::{FinishReason, RunOutcome};
use crate::ids::AgentId;
use crate::input::{Advice, Advised, Cancelled, CutOutput, CutReply, Steered};
use crate::json::{ContentHash, JsonText};
use crate::message::{Message, ProviderState};
use crate::profile::DataPolicy;
use crate::record::{
    ContextTrimmed, LimitReachedRecord, LlmFailed, MaxTurnsReached, PlanChanged, PromptInjected,
    PromptReason, Record, RecordBody, RunStarted, Summarized,
};
use crate::spec::{AgentSpec, RunSpec};
use call::{approval_decided, approval_requested, tool_call, tool_failed, tool_result, verdict};
use content::{message, model_call};

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
        let Self {
            seq,
            content_index,
            run_id,
            agent,
            turn,
            at,
            active_ms,
            body: _,
        } = *self;
        (policy != DataPolicy::ALL).then(|| Self {
            seq,
            content_index,
            run_id,
            agent,
            turn,
            at,
            active_ms,
            body: body(&self.body, agent, policy),
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
        let Self {
            kind: _,
            message,
            usage: _,
            is_certificate_refused: _,
        } = &mut error;
        hide(message, policy == DataPolicy::ALL);
        error
    }
}

fn body(body: &RecordBody, agent: AgentId, policy: DataPolicy) -> RecordBody {
    let mut body = body.clone();
    match &mut body {
        RecordBody::RunStarted(it) => run_started(it, policy),
        RecordBody::LlmCall(it) => model_call(it, agent, policy),
        RecordBody::LlmFailed(it) => llm_failed(it, policy),
        RecordBody::ToolCall(it) => tool_call(it, policy),
        RecordBody::ToolFailed(it) => tool_failed(it, policy),
        RecordBody::ToolResult(it) => tool_result(it, policy),
        RecordBody::Plan(it) => {
            let PlanChanged {
                tool_call_id: _,
                plan,
            } = it.as_mut();
            // It consists of the call's arguments.
            hide_json(plan, policy.tool_results && policy.tool_calls);
        }
        RecordBody::Summary(it) => {
            let Summarized { text } = it.as_mut();
            hide(text, summed_up(policy).text);
        }
        RecordBody::Verdict(it) => verdict(it, policy),
        RecordBody::ApprovalRequested(it) => approval_requested(it, policy),
        RecordBody::ApprovalDecided(it) => approval_decided(it, policy),
        RecordBody::Steered(it) => {
            let Steered {
                id: _,
                message: steered,
                agent: _,
                by: _,
            } = it.as_mut();
            *steered = message(steered, policy);
        }
        RecordBody::MaxTurnsReached(it) => {
            let MaxTurnsReached { turns: _, content } = it.as_mut();
            hide(content, policy.text);
        }
        RecordBody::LimitReached(it) => {
            let LimitReachedRecord {
                limit: _,
                content,
                prompt: _,
            } = it.as_mut();
            hide(content, policy.text);
        }
        RecordBody::ContextTrimmed(it) => context_trimmed(it, policy),
        RecordBody::Final(it) | RecordBody::RunFailed(it) => outcome(it, policy),
        RecordBody::Advised(it) => {
            let Advised {
                effect_id: _,
                advice: given,
            } = it.as_mut();
            // Criticism of an answer may quote it, and the replacement of a request may quote the request.
            advice(given, sent_to(agent, policy));
        }
        RecordBody::PromptInjected(it) => {
            let PromptInjected { reason, message } = it.as_mut();
            hide(message, policy.text || *reason != PromptReason::AnswerAgain);
        }
        RecordBody::Cancelled(it) => cancelled(it, policy),
        // What the deployment and the loop say, with names, numbers and ids.
        RecordBody::Decision(_)
        | RecordBody::Warning(_)
        | RecordBody::MaxTurnsPromptInjected(_)
        | RecordBody::HistoryRepaired(_)
        | RecordBody::RoleDowngraded(_)
        | RecordBody::Escalated(_)
        | RecordBody::Waiting(_)
        | RecordBody::Resumed(_) => {}
    }
    body
}

fn run_started(started: &mut RunStarted, policy: DataPolicy) {
    let RunStarted {
        loop_version: _,
        session_id: _,
        policy_hash: _,
        history: _,
        spec,
    } = started;
    let RunSpec {
        run_id: _,
        session_id: _,
        messages,
        root,
        agents: _,
        agent_limits: _,
        client_tools: _,
        forked_from: _,
        folder: _,
        sources,
        context: _,
        plan: _,
        trace: _,
        decision: _,
        client_instructions,
        policy_hash: _,
    } = Arc::make_mut(spec);
    for it in messages {
        *it = message(it, policy);
    }
    if !policy.text
        && let Some(given) = client_instructions.take()
    {
        hide_instructions(root, &given);
    }
    // Those of earlier runs of the session, which may have had another policy.
    if !may_keep_sources(policy) {
        sources.clear();
    }
}

/// Hides what a client added to the instructions of its agent: it may say as much about a person as a message.
fn hide_instructions(agent: &mut AgentSpec, given: &str) {
    let prompt = agent.system_prompt.as_deref().unwrap_or_default();
    // If anything follows the client's part, nothing says what that is, so the whole prompt is replaced.
    let own = prompt.strip_suffix(given).unwrap_or_default();
    agent.system_prompt = Some(format!("{own}{}", withheld_marker(given)).into());
}

/// Sources come from results of tools, and are listed with an answer.
const fn may_keep_sources(policy: DataPolicy) -> bool {
    policy.text && policy.tool_results
}

fn llm_failed(failed: &mut LlmFailed, policy: DataPolicy) {
    let LlmFailed {
        effect_id: _,
        attempt: _,
        purpose: _,
        role: _,
        served_by: _,
        downgraded: _,
        degraded: _,
        error,
        next: _,
        cost: _,
        cost_label: _,
        model: _,
        duration: _,
    } = failed;
    *error = error.withheld(policy);
}

fn context_trimmed(trimmed: &mut ContextTrimmed, policy: DataPolicy) {
    let ContextTrimmed {
        messages: _,
        tokens: _,
        removed: _,
        without_reasoning: _,
        shortened: _,
        summary,
    } = trimmed;
    if let Some(summary) = summary {
        hide(summary, summed_up(policy).text);
    }
}

fn outcome(outcome: &mut RunOutcome, policy: DataPolicy) {
    let RunOutcome {
        content,
        finish_reason: reason,
        turns: _,
        usage: _,
        sources,
        unheard: _,
        // The number of an effect.
        failed_call: _,
        // One of a fixed set of causes.
        interruption: _,
    } = outcome;
    hide(content, policy.text);
    if !may_keep_sources(policy) {
        sources.clear();
    }
    finish_reason(reason, policy);
}

fn cancelled(cancelled: &mut Cancelled, policy: DataPolicy) {
    let Cancelled {
        id: _,
        reason,
        agent: _,
        by: _,
        limit,
        cut,
        printed,
    } = cancelled;
    // For a limit, the reason is the loop's own text.
    hide(reason, policy.text || limit.is_some());
    if let Some(CutReply { effect_id: _, text }) = cut {
        hide(text, policy.text);
    }
    for CutOutput { effect_id: _, text } in printed {
        hide(text, policy.tool_results);
    }
}

fn finish_reason(reason: &mut FinishReason, policy: DataPolicy) {
    match reason {
        FinishReason::InvalidAnswer(why) => hide(why, policy.text && policy.tool_calls),
        // Treated like the error of its model call, so the kind stays.
        FinishReason::Failed(why) => {
            let (kind, words) = why.split_once(": ").unwrap_or(("", why.as_str()));
            let mut words = words.to_owned();
            hide(&mut words, policy == DataPolicy::ALL);
            *why = match kind {
                "" => words,
                kind => format!("{kind}: {words}"),
            };
        }
        // The tool's name, or a text of the engine.
        FinishReason::UnknownTool(_) | FinishReason::Interrupted(_) => {}
        FinishReason::Stop
        | FinishReason::MaxTurns
        | FinishReason::Length
        | FinishReason::ContentFilter
        | FinishReason::Refused
        | FinishReason::ToolError
        | FinishReason::Budget(_)
        | FinishReason::Deadline
        | FinishReason::Cancelled
        | FinishReason::Clarify
        | FinishReason::ClientTools => {}
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
        Advice::Continue | Advice::Offer { tools: _ } => {}
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
    use std::time::Duration;

    use super::*;
    use crate::citations::Source;
    use crate::ids::{Role, RunId, Seq, Turn};
    use crate::input::Stamp;
    use crate::profile::Profile;
    use crate::run::RunTree;
    use crate::transcript::Transcript;

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
    fn storable_content_is_unchanged_and_the_rest_is_withheld() {
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

    #[test]
    fn sources_of_earlier_runs_are_not_stored_where_results_are_not() {
        let root = AgentSpec::new(Profile::main_thread(), Role::REASONING);
        let mut spec = RunSpec::new(RunId(uuid::Uuid::nil()), [Message::user("Go.")], root);
        spec.sources = vec![Source::new("https://example.org/canary")];
        let stamp = Stamp::new(jiff::Timestamp::UNIX_EPOCH, Duration::ZERO);
        let (_, first) = RunTree::start(Arc::new(spec), Transcript::default(), stamp);
        let started = &first.records[0];
        assert!(started.to_json().contains("canary"));
        let policy = DataPolicy {
            tool_results: false,
            ..DataPolicy::ALL
        };
        let stored = started.withheld(policy).unwrap().to_json();
        assert!(!stored.contains("canary"), "{stored}");
    }
}
