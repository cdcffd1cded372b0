//! One agent's messages, and what is still waiting to join them.
//!
//! Each of the machine's agents owns one; a [`RunView`](super::RunView) rebuilds the same from records. This is the
//! only place that defines how a reply becomes a message, how results join by the rules of the profile, and what
//! trimming and a correction change. When these happen is decided elsewhere.

mod cut;
mod reply;
#[cfg(test)]
mod tests;

use std::mem;
use std::sync::Arc;

use crate::ids::{AgentId, CallIndex, ContentIndex, RunId, ToolCallId};
use crate::json::JsonText;
use crate::message::{AssistantMessage, Message, ToolMessage};
use crate::outcome::Keep;
use crate::profile::{Opening, Profile};
use crate::record::{Origin, ToolResult};
use crate::repair::repaired;
use crate::reply::{Reply, ReplyPart, RequestedCall};
use crate::spec::{AgentSpec, RunSpec};
use crate::texts::{ResultTexts, Texts};
use crate::transcript::{PrefixDigest, Transcript, last_user_message};
pub(crate) use cut::Cut;
use reply::{chosen_call, parts_of, text_of};

/// Marks the end of a message that the user interrupted.
const INTERRUPTED: &str = "[interrupted]";

/// One agent's conversation: its messages, the results and messages that are waiting to join them, and the text of its
/// answers. Plain data; messages are shared, never copied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    /// System prompt, history, and everything since.
    transcript: Transcript,
    /// Whether the transcript begins with the system prompt of the agent's spec.
    has_prompt: bool,
    /// How many messages, counted from the first, precede the run, including the system prompt.
    earlier: usize,
    /// How many messages, counted from the first, are in records. The record of the next model call begins after them.
    recorded: usize,
    /// Count and hash of the recorded messages hashed so far; extended to `recorded` on demand.
    hashed: PrefixDigest,
    /// How many calls of the last reply have no result yet.
    open_calls: u32,
    /// Results that have not joined yet, in call order.
    results: Vec<(CallIndex, Arc<Message>)>,
    /// The results whose values later history does not keep, with the summaries that replace them.
    summaries: Vec<(ToolCallId, String)>,
    /// Messages that arrived while the agent was at work and have not joined yet.
    steered: Vec<Arc<Message>>,
    /// The text of its answers so far, separated by blank lines.
    text: String,
}

/// The model call that produced a reply; the ids of the reply's calls are built from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplySource {
    /// The run.
    pub(crate) run: RunId,
    /// The agent that asked.
    pub(crate) agent: AgentId,
    /// The model call's position among the model calls and tool batches of the run.
    pub(crate) content_index: ContentIndex,
}

/// What the record of a model call says was sent.
#[derive(Debug)]
pub(crate) struct Unrecorded {
    /// Count and hash of the messages that earlier records contain.
    pub(crate) prefix: PrefixDigest,
    /// The results among the new messages, in order.
    pub(crate) results: Vec<ToolCallId>,
    /// The other new messages, in order.
    pub(crate) messages: Vec<Arc<Message>>,
}

impl Conversation {
    /// Creates the conversation of the agent that answers the user, and returns it with the repairs that the earlier
    /// history needed. The agent's system prompt goes first, unless the history already begins with a system message.
    ///
    /// Messages that a client supplies from a conversation that it keeps itself, and results of calls that were handed
    /// over to it, belong to the earlier history. They are repaired together with it and need no record other than the
    /// spec.
    pub(crate) fn of_root(
        spec: &RunSpec,
        history: Transcript,
        texts: &Texts,
    ) -> (Self, Vec<String>) {
        let has_replies = !spec.messages.iter().all(is_prompt);
        let before = if has_replies {
            with_client_messages(&history, &spec.messages)
        } else {
            history
        };
        let (before, repairs) = repaired(before, texts.results.lost);
        let begins_with_system = matches!(
            before.messages().first().map(Arc::as_ref),
            Some(Message::System { .. })
        );
        let prompt = spec.root.system_prompt.as_deref();
        let mut conversation = match prompt.filter(|_| !begins_with_system) {
            Some(prompt) => {
                let prompt = Arc::new(Message::system(prompt));
                let before = before.messages().iter().cloned();
                Self::begun(std::iter::once(prompt).chain(before).collect(), true)
            }
            None => Self::begun(before, false),
        };
        if has_replies {
            // Nothing says which of these messages are new, but everything before the last question was available
            // before that question. Results alone continue the question that their calls were made for, whatever was
            // said since.
            let messages = conversation.messages();
            let reply = messages.iter().rposition(is_reply);
            let end = reply.filter(|_| spec.messages.iter().all(is_result));
            let until_reply = messages.get(..end.unwrap_or(messages.len()));
            let question = last_user_message(until_reply.unwrap_or_default());
            conversation.earlier = question.unwrap_or_default();
        } else {
            for message in &spec.messages {
                conversation.transcript.push(Arc::clone(message));
            }
        }
        (conversation, repairs)
    }

    /// Creates the conversation of a sub-agent with its system prompt. Its task has yet to be added with
    /// [`add_message`](Self::add_message).
    pub(crate) fn of_sub_agent(spec: &AgentSpec) -> Self {
        let prompt = spec.system_prompt.as_deref().map(Message::system);
        let transcript: Transcript = prompt.into_iter().collect();
        let has_prompt = !transcript.is_empty();
        Self::begun(transcript, has_prompt)
    }

    /// The initial messages need no record of their own.
    fn begun(transcript: Transcript, has_prompt: bool) -> Self {
        Self {
            earlier: transcript.len(),
            recorded: transcript.len(),
            transcript,
            has_prompt,
            ..Self::default()
        }
    }

    /// Returns the messages, oldest first: system prompt, history, and everything since.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        self.transcript.messages()
    }

    /// Same as [`messages`](Self::messages), as a shareable transcript.
    #[must_use]
    pub const fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns the messages without the system prompt of the agent's spec.
    #[must_use]
    pub fn without_prompt(&self) -> &[Arc<Message>] {
        self.transcript.since(usize::from(self.has_prompt))
    }

    /// Returns how many of [`without_prompt`](Self::without_prompt) precede the run.
    pub(crate) fn earlier(&self) -> usize {
        self.earlier.saturating_sub(usize::from(self.has_prompt))
    }

    /// Returns the text of the agent's answers so far, separated by blank lines: the content of a run that ends without
    /// a last answer.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns how many calls of the last reply have no result yet.
    pub(crate) const fn open_calls(&self) -> u32 {
        self.open_calls
    }

    /// Returns the last message's text; empty if there is no message.
    pub(crate) fn last_text(&self) -> String {
        let last = self.messages().last();
        last.map(|message| message.text()).unwrap_or_default()
    }

    /// Adds the reply of a turn, with an id for each of its calls, and appends its text to the text of the answers. An
    /// empty reply adds no message. The record of the call already contains the reply, so it is not recorded again.
    pub(crate) fn push_reply(&mut self, source: ReplySource, reply: &Reply) -> Arc<Message> {
        if reply.turned_down().is_none() {
            self.add_text(&text_of(reply));
        }
        let message = Arc::new(Message::Assistant(AssistantMessage {
            parts: parts_of(source, &reply.parts),
            model: Some(reply.model.clone()),
        }));
        if !reply.parts.is_empty() {
            self.push_assistant(&message);
        }
        message
    }

    /// Adds the call that an opening gathers with: the first of the reply, or the one that policy adds. The reply's
    /// text is discarded. Returns `None` if the profile gathers nothing.
    pub(crate) fn push_gathered(
        &mut self,
        source: ReplySource,
        opening: &Opening,
        reply: Option<&Reply>,
    ) -> Option<(Arc<Message>, Origin)> {
        let chosen = reply.and_then(|reply| Some((chosen_call(reply)?, reply.model.clone())));
        let (call, model, origin) = match (chosen, opening) {
            (Some((call, model)), _) => (call, Some(model), Origin::Model),
            (
                None,
                Opening::Gather {
                    tool,
                    default_arguments,
                    ..
                },
            ) => {
                let added = RequestedCall {
                    provider_id: None,
                    name: tool.as_str().into(),
                    arguments: default_arguments.clone(),
                    state: None,
                };
                (added, None, Origin::Policy)
            }
            (None, Opening::Direct) => return None,
        };
        let part = ReplyPart::ToolCall(call);
        let message = Arc::new(Message::Assistant(AssistantMessage {
            parts: parts_of(source, [&part]),
            model,
        }));
        self.push_assistant(&message);
        Some((message, origin))
    }

    fn push_assistant(&mut self, message: &Arc<Message>) {
        self.open_calls = u32::try_from(message.tool_calls().count()).unwrap_or(u32::MAX);
        self.transcript.push(Arc::clone(message));
        self.recorded = self.transcript.len();
    }

    /// Appends to the text of the answers.
    fn add_text(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    /// Takes the result of a call of the last reply, in the form that the profile lets the model read. It joins with
    /// [`join_results`](Self::join_results), in call order.
    pub(crate) fn settle(&mut self, profile: &Profile, result: &ToolResult, texts: &ResultTexts) {
        let rule = profile.result_rule(&result.name);
        let rule = rule.filter(|_| result.failure.is_none());
        let content = rule.map_or_else(
            || result.value.clone(),
            |rule| rule.edited(&result.value, texts),
        );
        let keep = rule.and_then(|rule| rule.keep).unwrap_or(result.keep);
        if keep == Keep::Summary && result.failure.is_none() {
            let summary = result.summary.as_deref().unwrap_or(texts.not_kept);
            let summary = (result.tool_call_id.clone(), summary.to_owned());
            self.summaries.push(summary);
        }
        let message = Arc::new(Message::Tool(ToolMessage {
            tool_call_id: result.tool_call_id.clone(),
            name: Arc::clone(&result.name),
            content,
            media: result.media.clone(),
        }));
        let place = self
            .results
            .partition_point(|(index, _)| *index <= result.index);
        self.results.insert(place, (result.index, message));
        self.open_calls = self.open_calls.saturating_sub(1);
    }

    /// Adds the results that arrived, and expects no more for the calls of the last reply: a call that was handed over
    /// has no result here. Returns how many results joined.
    pub(crate) fn join_results(&mut self) -> u32 {
        self.open_calls = 0;
        let joined = u32::try_from(self.results.len()).unwrap_or(u32::MAX);
        for (_, message) in mem::take(&mut self.results) {
            self.transcript.push(message);
        }
        joined
    }

    /// Adds a system message from the loop to the model.
    pub(crate) fn add_system_note(&mut self, message: &str) {
        self.transcript.push(Message::system(message));
    }

    /// Adds an answer that no model gave in this form: a question to the user, or the text that remained at a limit.
    pub(crate) fn add_answer(&mut self, text: &str) {
        self.transcript.push(Message::assistant(text));
    }

    /// Adds the part of a reply that the model had produced when the user interrupted it, marked as interrupted.
    pub(crate) fn push_cut(&mut self, text: &str) {
        self.add_text(text);
        let text = text.trim_end();
        self.add_answer(&format!("{text}\n\n{INTERRUPTED}"));
    }

    /// Adds a message from outside.
    pub(crate) fn add_message(&mut self, message: impl Into<Arc<Message>>) {
        self.transcript.push(message);
    }

    /// Holds a message that arrived while the agent is at work, until it may join.
    pub(crate) fn steer(&mut self, message: Arc<Message>) {
        self.steered.push(message);
    }

    /// Returns whether messages that arrived in the meantime are waiting to join.
    pub(crate) const fn is_steered(&self) -> bool {
        !self.steered.is_empty()
    }

    /// Returns how many messages that arrived in the meantime are waiting to join.
    pub(crate) fn unheard(&self) -> u32 {
        u32::try_from(self.steered.len()).unwrap_or(u32::MAX)
    }

    /// Adds the messages that were waiting to join. Returns how many there were.
    pub(crate) fn join_steered(&mut self) -> usize {
        let joined = self.steered.len();
        for message in mem::take(&mut self.steered) {
            self.transcript.push(message);
        }
        joined
    }

    /// Moves the last `count` messages back to those that are waiting to join.
    pub(crate) fn unjoin_steered(&mut self, count: usize) {
        let start = self.transcript.len().saturating_sub(count);
        let mut back = self.transcript.split_off(start);
        back.append(&mut self.steered);
        self.steered = back;
    }

    /// Replaces the draft, which is the last message, with a correction. The correction is what the user sees, and the
    /// record of the check contains it.
    pub(crate) fn correct(&mut self, correction: &str) {
        let start = self.transcript.len().saturating_sub(1);
        let draft = self.transcript.split_off(start);
        let draft = draft.first().map(|draft| draft.text()).unwrap_or_default();
        self.transcript.push(Message::assistant(correction));
        self.recorded = self.transcript.len();
        self.forget_hashes_from(start);
        if let Some(before) = self.text.strip_suffix(draft.trim()) {
            let length = before.trim_end().len();
            self.text.truncate(length);
        }
        self.add_text(correction);
    }

    /// Applies the changes that the program's code made to a request: replaces the text of the last user message and
    /// adds system messages. The record of the advice contains both.
    pub(crate) fn amend(&mut self, text: Option<&str>, notes: &[String]) {
        let replaced = text.and_then(|text| self.transcript.replace_user_text(text));
        if let Some(place) = replaced {
            self.forget_hashes_from(place);
        }
        for note in notes {
            self.add_system_note(note);
        }
    }

    /// Replaces the answer that a model gave with the one that the user sees, if there is one and it differs.
    pub(crate) fn answer_with(&mut self, shown: &str) {
        let last = self.messages().last();
        let is_answer = last.is_some_and(|last| {
            matches!(last.as_ref(), Message::Assistant(_)) && last.tool_calls().next().is_none()
        });
        if is_answer && self.last_text() != shown {
            self.correct(shown);
        }
    }

    /// Returns the summary that replaces a result's value, if its value is not kept.
    pub(crate) fn summary_of(&self, call: &ToolCallId) -> Option<&str> {
        let mut summaries = self.summaries.iter();
        summaries
            .find(|(id, _)| id == call)
            .map(|(_, summary)| summary.as_str())
    }

    /// Returns the message, or the summary of its result if the result is selected and its value is not kept.
    fn shortened(
        &self,
        message: &Arc<Message>,
        is_one: impl Fn(&ToolCallId) -> bool,
    ) -> Arc<Message> {
        if let Message::Tool(tool) = message.as_ref()
            && is_one(&tool.tool_call_id)
            && let Some(summary) = self.summary_of(&tool.tool_call_id)
        {
            let (call, name) = (tool.tool_call_id.clone(), Arc::clone(&tool.name));
            return Arc::new(Message::tool_result(call, name, JsonText::string(summary)));
        }
        Arc::clone(message)
    }

    /// Returns the history for the next run: without the system prompt, and with summaries for the results that are not
    /// kept.
    pub(crate) fn continued(&self) -> Transcript {
        if self.summaries.is_empty() && !self.has_prompt {
            return self.transcript.clone();
        }
        let messages = self.without_prompt().iter();
        let kept = messages.map(|message| self.shortened(message, |_| true));
        kept.collect()
    }

    /// Returns the results that have not joined yet in the form that [`continued`](Self::continued) would give them, in
    /// call order.
    pub(crate) fn held(&self) -> impl Iterator<Item = Arc<Message>> {
        let results = self.results.iter();
        results.map(move |(_, message)| self.shortened(message, |_| true))
    }

    /// Returns count and hash of the messages that records contain.
    pub(crate) fn prefix(&mut self) -> PrefixDigest {
        let hashed = usize::try_from(self.hashed.count).unwrap_or(usize::MAX);
        let messages = self.transcript.messages();
        let new = messages.get(hashed..self.recorded).unwrap_or_default();
        self.hashed = new
            .iter()
            .fold(self.hashed, |digest, message| digest.with(message));
        self.hashed
    }

    /// Returns what the record of a model call says was sent, and counts these messages as recorded.
    pub(crate) fn take_unrecorded(&mut self) -> Unrecorded {
        let mut unrecorded = Unrecorded {
            prefix: self.prefix(),
            results: Vec::new(),
            messages: Vec::new(),
        };
        for message in self.transcript.since(self.recorded) {
            match message.as_ref() {
                Message::Tool(tool) => unrecorded.results.push(tool.tool_call_id.clone()),
                _ => unrecorded.messages.push(Arc::clone(message)),
            }
        }
        self.recorded = self.transcript.len();
        unrecorded
    }

    fn forget_hashes_from(&mut self, place: usize) {
        let hashed = usize::try_from(self.hashed.count).unwrap_or(usize::MAX);
        if hashed > place {
            self.hashed = PrefixDigest::default();
        }
    }
}

/// Returns a history followed by the messages that a client supplies. Results at the start of the client's messages go
/// directly after their calls, before any messages that no model received in the run that made those calls.
fn with_client_messages(history: &Transcript, supplied: &[Arc<Message>]) -> Transcript {
    let history = history.messages();
    let unheard = history.iter().rev().take_while(|it| is_prompt(it)).count();
    let (received, unheard) = history.split_at(history.len().saturating_sub(unheard));
    let results = supplied.iter().take_while(|it| is_result(it)).count();
    let (results, rest) = supplied.split_at(results);
    let all = received.iter().chain(results).chain(unheard).chain(rest);
    all.cloned().collect()
}

/// Returns whether a message comes from neither a model nor a tool.
fn is_prompt(message: &Arc<Message>) -> bool {
    matches!(**message, Message::User { .. } | Message::System { .. })
}

fn is_reply(message: &Arc<Message>) -> bool {
    matches!(**message, Message::Assistant(_))
}

fn is_result(message: &Arc<Message>) -> bool {
    matches!(**message, Message::Tool(_))
}
