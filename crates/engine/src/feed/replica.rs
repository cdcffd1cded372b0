//! What the calls of a run show that another process drives, put together from the pieces that it sends.
//!
//! Pieces may be lost, come twice, and come later than the records that settle them, which are read from the store. So each says
//! where it belongs, what is not the next is not taken, and a record has the last word: what it holds of a text and no piece
//! brought is added before it is heard, and what it does not hold is voided.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use neuraxis_core::{AgentId, Attempt, EffectId, LiveBody, LlmCall, Record, RecordBody, Seq};

use super::buffer::{CallBuffer, LiveCall, LiveText};
use super::closed_call;
use crate::driver::stands;
use crate::live::Piece;

/// The most calls of a run that are put together at a time.
const MAX_CALLS: usize = 256;

/// The most text of one block that is put together, in bytes: what is longer is read from the record.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// What a listener knows of the calls under way.
#[derive(Debug)]
pub(crate) struct Replica {
    calls: HashMap<EffectId, ReplicatedCall>,
    /// The calls that a record closed: what still comes of them is old.
    closed: HashSet<EffectId>,
    /// The record after which it began. Which calls those before it closed is not known.
    from: Seq,
}

/// What became of a piece.
#[derive(Debug)]
pub(crate) enum Taken {
    /// This shows more now.
    Shown(Arc<CallBuffer>),
    /// It was known, or is of no use any more.
    Known,
    /// It comes after a record that was not read yet.
    Early,
    /// Something before it is missing.
    Gap,
}

/// What one call shows.
#[derive(Debug)]
struct ReplicatedCall {
    /// The lease of whoever sends the pieces.
    lease: u64,
    /// How much of the original is known, as [`Piece::at`] counts.
    known: u64,
    /// Nothing of this attempt, and of earlier ones, is shown any more.
    void: Option<Attempt>,
    buffer: Arc<CallBuffer>,
}

impl Replica {
    /// Begins after a record.
    pub(crate) fn new(from: Seq) -> Self {
        Self {
            calls: HashMap::new(),
            closed: HashSet::new(),
            from,
        }
    }

    /// Takes a piece, with the last record that was read. What a call shows is opened when its first piece comes.
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

    /// Brings what calls show to what a record says of them, before it is heard. Returns what changed by that.
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
            // Whoever goes on begins the calls under way anew.
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

    /// Voids what models said in the calls that are meant.
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
            // Somebody else makes the call now, who knows nothing of what was shown before.
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

    /// Shows a piece, but for the beginning of it that is known.
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
        // Nobody cuts within a character.
        let rest = text.get(known..).unwrap_or_default();
        self.buffer.text(event.attempt, event.block, kind, rest);
        shown
    }

    fn void(&mut self) {
        self.void = self.void.max(self.buffer.last_attempt());
        self.buffer.void();
    }

    /// Ends with what the record holds of the thoughts and the text.
    fn settle(&mut self, reply: &LlmCall) {
        if !stands(reply.purpose, &reply.reply) {
            return self.void();
        }
        let shown = self.buffer.last_attempt();
        if shown.is_some_and(|shown| shown != reply.attempt) {
            self.void();
        }
        let (thoughts, text) = (reply.reply.reasoning(), reply.reply.text());
        let said = self.buffer.standing(&LiveText::Text);
        let thought = self.buffer.standing(&LiveText::Reasoning);
        let more = thoughts.strip_prefix(thought.as_str());
        let Some((more, rest)) = more.zip(text.strip_prefix(said.as_str())) else {
            self.void();
            self.add(reply.attempt, LiveText::Reasoning, &thoughts);
            return self.add(reply.attempt, LiveText::Text, &text);
        };
        self.add(reply.attempt, LiveText::Reasoning, more);
        self.add(reply.attempt, LiveText::Text, rest);
    }

    /// Ends with a text that was cut off.
    fn complete(&mut self, text: &str) {
        let Some(attempt) = self.buffer.last_attempt() else {
            return;
        };
        let said = self.buffer.said();
        match text.strip_prefix(said.as_str()) {
            Some(rest) => self.add(attempt, LiveText::Text, rest),
            None => {
                self.void();
                self.add(attempt, LiveText::Text, text);
            }
        }
    }

    /// Adds text that came by no piece, as the next of its kind.
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
