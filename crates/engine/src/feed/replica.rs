//! What the calls of a run show that another process drives, assembled from the pieces that it sends.
//!
//! Pieces may be lost, arrive twice, or arrive later than the records that settle them, which are read from the store.
//! So each piece says where it belongs, a piece that is not the next one is not taken, and a record has the last word:
//! text that it holds and no piece supplied is added before the record is delivered, and text that it does not hold is
//! retracted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use neuraxis_core::{AgentId, Attempt, EffectId, LiveBody, LlmCall, Record, RecordBody, Seq};

use super::buffer::{CallBuffer, LiveCall, LiveText};
use super::closed_call;
use crate::driver::is_part_of_answer;
use crate::live::Piece;

/// The maximum number of calls of a run that are assembled at a time.
const MAX_CALLS: usize = 256;

/// The maximum size in bytes of one block of text that is assembled; longer text is read from the record.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// What a listener knows about the calls in progress.
#[derive(Debug)]
pub(crate) struct Replica {
    calls: HashMap<EffectId, ReplicatedCall>,
    /// The calls that a record has closed: later pieces of them are outdated.
    closed: HashSet<EffectId>,
    /// The record after which it began. Which calls earlier records closed is not known.
    from: Seq,
}

/// The outcome for a piece.
#[derive(Debug)]
pub(crate) enum Taken {
    /// This buffer shows more now.
    Shown(Arc<CallBuffer>),
    /// The piece was known, or is no longer of use.
    Known,
    /// The piece comes after a record that was not read yet.
    Early,
    /// Something before the piece is missing.
    Gap,
}

/// What one call shows.
#[derive(Debug)]
struct ReplicatedCall {
    /// The lease of the process that sends the pieces.
    lease: u64,
    /// How much of the original is known, counted as in [`Piece::at`].
    known: u64,
    /// This attempt, and all earlier ones, were retracted.
    void: Option<Attempt>,
    buffer: Arc<CallBuffer>,
}

impl Replica {
    /// Starts after a record.
    pub(crate) fn new(from: Seq) -> Self {
        Self {
            calls: HashMap::new(),
            closed: HashSet::new(),
            from,
        }
    }

    /// Takes a piece, given the last record that was read. The buffer of a call is created when its first piece
    /// arrives.
    pub(crate) fn take(
        &mut self,
        piece: &Piece,
        last: Seq,
        open: impl FnOnce(LiveCall) -> Arc<CallBuffer>,
    ) -> Taken {
        let event = &piece.event;
        if event.after > last {
            return Taken::Early;
        }
        if event.after < self.from || self.closed.contains(&event.call) {
            return Taken::Known;
        }
        if !self.calls.contains_key(&event.call) && self.calls.len() >= MAX_CALLS {
            return Taken::Known;
        }
        let call = self.calls.entry(event.call).or_insert_with(|| {
            let buffer = open(LiveCall {
                effect_id: event.call,
                content_index: event.content_index,
                run_id: event.run_id,
                agent: event.agent,
            });
            ReplicatedCall {
                lease: piece.lease,
                known: 0,
                void: None,
                buffer,
            }
        });
        call.take(piece)
    }

    /// Makes what calls show agree with a record, before the record is delivered. Returns the buffers that changed.
    pub(crate) fn settle(&mut self, record: &Record) -> Vec<Arc<CallBuffer>> {
        let mut changed = Vec::new();
        match &record.body {
            RecordBody::LlmCall(reply) => self.change(reply.effect_id, &mut changed, |call| {
                call.settle(reply);
            }),
            RecordBody::LlmFailed(failed) => {
                self.change(failed.effect_id, &mut changed, |call| {
                    call.buffer.retract(failed.attempt);
                    call.void = call.void.max(Some(failed.attempt));
                });
            }
            RecordBody::Cancelled(cancelled) => {
                if let Some(cut) = &cancelled.cut {
                    self.change(cut.effect_id, &mut changed, |call| call.complete(&cut.text));
                }
                let cut = cancelled.cut.as_ref().map(|cut| cut.effect_id);
                let ends = |call: &CallBuffer| {
                    let is_its =
                        cancelled.agent == AgentId::ROOT || call.call.agent == cancelled.agent;
                    is_its && Some(call.call.effect_id) != cut
                };
                self.void(ends, &mut changed);
            }
            // The process that continues the run starts the calls in progress again.
            RecordBody::Resumed(_) => self.void(|_| true, &mut changed),
            _ if record.ends_the_run() => self.void(|_| true, &mut changed),
            _ => {}
        }
        if let Some(closed) = closed_call(record) {
            self.calls.remove(&closed);
            self.closed.insert(closed);
        }
        changed
    }

    fn change(
        &mut self,
        call: EffectId,
        changed: &mut Vec<Arc<CallBuffer>>,
        change: impl FnOnce(&mut ReplicatedCall),
    ) {
        if let Some(call) = self.calls.get_mut(&call) {
            change(call);
            changed.push(Arc::clone(&call.buffer));
        }
    }

    /// Retracts what models said in the selected calls.
    fn void(&mut self, is_meant: impl Fn(&CallBuffer) -> bool, changed: &mut Vec<Arc<CallBuffer>>) {
        let calls = self.calls.values_mut();
        for call in calls.filter(|call| is_meant(&call.buffer) && call.buffer.is_speech()) {
            call.void();
            changed.push(Arc::clone(&call.buffer));
        }
    }
}

impl ReplicatedCall {
    fn take(&mut self, piece: &Piece) -> Taken {
        if piece.lease < self.lease {
            return Taken::Known;
        }
        if piece.lease > self.lease {
            // Another process makes the call now, which knows nothing of what was shown before.
            match self.buffer.is_speech() {
                true => self.buffer.begin_anew(),
                false => self.void = self.buffer.last_attempt(),
            }
            (self.lease, self.known) = (piece.lease, 0);
        }
        let Some(known) = self.known.checked_sub(piece.at) else {
            return Taken::Gap;
        };
        if piece.end() <= self.known {
            return Taken::Known;
        }
        self.known = piece.end();
        match self.void {
            Some(void) if piece.event.attempt <= void => Taken::Known,
            _ => self.show(piece, known),
        }
    }

    /// Shows a piece, except for the part at its beginning that is known.
    fn show(&self, piece: &Piece, known: u64) -> Taken {
        let event = &piece.event;
        let shown = Taken::Shown(Arc::clone(&self.buffer));
        let Some((kind, text)) = text_of(&event.body) else {
            match &event.body {
                LiveBody::TextRetracted => self.buffer.retract(event.attempt),
                body => self.buffer.event(event.attempt, body.clone()),
            }
            return shown;
        };
        if self.buffer.length(event.attempt, event.block) >= MAX_TEXT {
            return Taken::Known;
        }
        let known = known.saturating_sub(u64::from(piece.begins));
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        // Pieces are never cut within a character.
        let rest = text.get(known..).unwrap_or_default();
        self.buffer.text(event.attempt, event.block, kind, rest);
        shown
    }

    fn void(&mut self) {
        self.void = self.void.max(self.buffer.last_attempt());
        self.buffer.void();
    }

    /// Completes the reasoning and the text from the record.
    fn settle(&mut self, reply: &LlmCall) {
        if !is_part_of_answer(reply.purpose, &reply.reply) {
            return self.void();
        }
        let shown = self.buffer.last_attempt();
        if shown.is_some_and(|shown| shown != reply.attempt) {
            self.void();
        }
        let (thoughts, text) = (reply.reply.reasoning(), reply.reply.text());
        let shown_text = self.buffer.valid_text_of(&LiveText::Text);
        let thought = self.buffer.valid_text_of(&LiveText::Reasoning);
        let more = thoughts.strip_prefix(thought.as_str());
        let Some((more, rest)) = more.zip(text.strip_prefix(shown_text.as_str())) else {
            self.void();
            self.add(reply.attempt, LiveText::Reasoning, &thoughts);
            return self.add(reply.attempt, LiveText::Text, &text);
        };
        self.add(reply.attempt, LiveText::Reasoning, more);
        self.add(reply.attempt, LiveText::Text, rest);
    }

    /// Completes a text that was cut off.
    fn complete(&mut self, text: &str) {
        let Some(attempt) = self.buffer.last_attempt() else {
            return;
        };
        let shown = self.buffer.valid_text();
        match text.strip_prefix(shown.as_str()) {
            Some(rest) => self.add(attempt, LiveText::Text, rest),
            None => {
                self.void();
                self.add(attempt, LiveText::Text, text);
            }
        }
    }

    /// Adds text that no piece supplied, as the next block of its kind.
    fn add(&self, attempt: Attempt, kind: LiveText, text: &str) {
        if text.is_empty() {
            return;
        }
        let block = self.buffer.block_to_go_on(attempt, &kind);
        self.buffer.text(attempt, block, kind, text);
    }
}

fn text_of(body: &LiveBody) -> Option<(LiveText, &str)> {
    match body {
        LiveBody::ReasoningDelta { text } => Some((LiveText::Reasoning, text.as_str())),
        LiveBody::TextDelta { text } => Some((LiveText::Text, text.as_str())),
        LiveBody::ToolCallDelta { name, arguments } => {
            let name = name.clone();
            Some((LiveText::ToolCall { name }, arguments.as_str()))
        }
        LiveBody::ToolOutput { tool_call_id, text } => {
            let tool_call_id = tool_call_id.clone();
            Some((LiveText::ToolOutput { tool_call_id }, text.as_str()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
