//! What a run's listeners read: its records, and one append-only buffer per call that is under way.
//!
//! There is no queue per listener: each keeps its place and reads on from there, so that a laggard gets merged text, and
//! nobody waits for anybody.

mod buffer;
mod listener;
mod replica;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::{AgentId, CutOutput, CutReply, DataPolicy, EffectId, Record, Seq};

pub(crate) use buffer::{CallBuffer, LiveCall, LiveText, Position};
pub(crate) use listener::closed_call;
pub(crate) use replica::{Replica, Taken};

use crate::event::Events;
use crate::questions::Questions;
use listener::Listener;
use waiting::Waitings;

/// The shared state of a run's listeners.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    /// Where the run is driven, if that is here.
    origin: Option<Origin>,
    state: Mutex<FeedState>,
    /// What the run's tools ask: shown like all else, and answered by whoever reads it.
    pub(crate) questions: Questions,
}

/// What other processes need to know of a run that is driven here, before they are told its live events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The number of its lease: greater than those of all who drove it before.
    pub(crate) lease: u64,
    /// What of it may leave the process.
    pub(crate) policy: DataPolicy,
}

#[derive(Debug, Default)]
struct FeedState {
    records: Vec<Arc<Record>>,
    open: Vec<OpenCall>,
    ended: bool,
    waiting: Waitings,
}

/// A call that has begun and is not closed by a record yet.
#[derive(Debug)]
struct OpenCall {
    effect_id: EffectId,
    /// What it has shown, once there is something.
    buffer: Option<Arc<CallBuffer>>,
}

impl Feed {
    /// Makes the feed of a run that is driven here, and that others can follow.
    pub(crate) fn driven(origin: Option<Origin>) -> Self {
        Self {
            origin,
            ..Self::default()
        }
    }

    /// Returns where the run is driven, if that is here.
    pub(crate) const fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// Returns the last record, and what the calls show that are open after it.
    pub(crate) fn open_calls(&self) -> (Seq, Vec<Arc<CallBuffer>>) {
        let state = self.lock();
        let last = state.records.last().map_or(Seq(0), |record| record.seq);
        let open = state.open.iter().filter_map(|call| call.buffer.clone());
        (last, open.collect())
    }

    /// Takes committed records and shows them, and forgets the buffers of the calls that they close.
    pub(crate) fn publish(&self, records: &mut Vec<Arc<Record>>) {
        let mut state = self.lock();
        for closed in records
            .iter()
            .filter_map(|record| listener::closed_call(record))
        {
            state.open.retain(|call| call.effect_id != closed);
        }
        state.records.append(records);
        let waiting = state.waiting.all();
        drop(state);
        waiting.wake();
    }

    /// Says that an attempt of a call begins, which may come to show something.
    pub(crate) fn begin(&self, effect_id: EffectId) {
        let open = &mut self.lock().open;
        if !open.iter().any(|call| call.effect_id == effect_id) {
            let buffer = None;
            open.push(OpenCall { effect_id, buffer });
        }
    }

    /// Returns the buffer of a call that has begun, the same for all of its attempts. What a call shows after a record closed
    /// it is heard by nobody.
    pub(crate) fn buffer(&self, call: LiveCall) -> Arc<CallBuffer> {
        let mut state = self.lock();
        let mut open = state.open.iter_mut();
        let Some(open) = open.find(|open| open.effect_id == call.effect_id) else {
            return Arc::new(CallBuffer::new(call));
        };
        let buffer = &mut open.buffer;
        Arc::clone(buffer.get_or_insert_with(|| Arc::new(CallBuffer::new(call))))
    }

    /// Voids what a call has shown so far.
    pub(crate) fn void(&self, effect_id: EffectId) {
        let mut state = self.lock();
        let mut open = state.open.iter_mut();
        let call = open.find(|open| open.effect_id == effect_id);
        let Some(buffer) = call.and_then(|call| call.buffer.clone()) else {
            return;
        };
        drop(state);
        buffer.void();
        self.grown();
    }

    /// Returns what stands of the text that an agent's model shows in an open call.
    pub(crate) fn said(&self, agent: AgentId) -> Option<CutReply> {
        let state = self.lock();
        let buffers = state.open.iter().filter_map(|call| call.buffer.as_ref());
        let of_agent = buffers.filter(|buffer| buffer.call.agent == agent);
        let said = of_agent.map(|buffer| CutReply {
            effect_id: buffer.call.effect_id,
            text: buffer.said(),
        });
        said.into_iter().find(|said| !said.text.is_empty())
    }

    /// Returns the end of what each tool call of some agents that is open has printed.
    pub(crate) fn printed(&self, is_of: impl Fn(AgentId) -> bool) -> Vec<CutOutput> {
        let state = self.lock();
        let buffers = state.open.iter().filter_map(|call| call.buffer.as_ref());
        let buffers = buffers.filter(|buffer| is_of(buffer.call.agent));
        let printed = buffers.filter_map(|buffer| {
            let (effect_id, text) = (buffer.call.effect_id, buffer.printed()?);
            Some(CutOutput { effect_id, text })
        });
        printed.collect()
    }

    /// Wakes the listeners after a buffer has grown.
    pub(crate) fn grown(&self) {
        let waiting = self.lock().waiting.for_text();
        waiting.wake();
    }

    /// Says that nothing more will come.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let waiting = state.waiting.all();
        drop(state);
        waiting.wake();
    }

    /// Reads all records so far.
    pub(crate) fn with_records<T>(&self, read: impl FnOnce(&[Arc<Record>]) -> T) -> T {
        read(&self.lock().records)
    }

    /// Begins to listen, from the first record on.
    pub(crate) fn listen(self: &Arc<Self>) -> Events {
        Events::new(Listener::new(Arc::clone(self)))
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        // A panic while the lock was held can only have come from running out of memory; the state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
