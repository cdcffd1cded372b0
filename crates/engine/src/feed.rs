//! What a run's listeners read: its records, and one append-only buffer per call in progress.
//!
//! Listeners have no queues: each keeps its position and continues reading from there, so a slow listener gets merged
//! text, and no one waits for another.

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
    /// How the run is driven, if in this process.
    driven_here: Option<DrivenHere>,
    state: Mutex<FeedState>,
    /// The open questions of the run's tools: shown like everything else, and answered by listeners.
    pub(crate) questions: Questions,
}

/// What other processes need to know about a run that is driven here before they receive its live events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrivenHere {
    /// The token of its lease, which is greater than the tokens of all earlier leases of the session.
    pub(crate) lease: u64,
    /// Which parts of it may leave the process.
    pub(crate) policy: DataPolicy,
}

#[derive(Debug, Default)]
struct FeedState {
    records: Vec<Arc<Record>>,
    open: Vec<BufferedCall>,
    ended: bool,
    waiting: Waitings,
}

/// A call that has begun and that no record has closed yet.
#[derive(Debug)]
struct BufferedCall {
    effect_id: EffectId,
    /// The buffer of what it has shown; `None` while it has shown nothing.
    buffer: Option<Arc<CallBuffer>>,
}

impl Feed {
    /// Creates the feed of a run that is driven here and that other processes can follow.
    pub(crate) fn driven(driven_here: Option<DrivenHere>) -> Self {
        Self {
            driven_here,
            ..Self::default()
        }
    }

    /// Returns how the run is driven, if in this process.
    pub(crate) const fn driven_here(&self) -> Option<DrivenHere> {
        self.driven_here
    }

    /// Returns the number of the last record, and the buffers of the calls that are open after it.
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

    /// Notes that an attempt of a call begins, which may show something.
    pub(crate) fn begin(&self, effect_id: EffectId) {
        let open = &mut self.lock().open;
        if !open.iter().any(|call| call.effect_id == effect_id) {
            let buffer = None;
            open.push(BufferedCall { effect_id, buffer });
        }
    }

    /// Returns the buffer of a call that has begun, the same one for all of its attempts. What a call shows after a
    /// record has closed it reaches no listener.
    pub(crate) fn buffer(&self, call: LiveCall) -> Arc<CallBuffer> {
        let mut state = self.lock();
        let mut open = state.open.iter_mut();
        let Some(open) = open.find(|open| open.effect_id == call.effect_id) else {
            return Arc::new(CallBuffer::new(call));
        };
        let buffer = &mut open.buffer;
        Arc::clone(buffer.get_or_insert_with(|| Arc::new(CallBuffer::new(call))))
    }

    /// Retracts what a call has shown so far.
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

    /// Returns the text that an agent's model has shown in an open call, without what was retracted.
    pub(crate) fn shown_reply(&self, agent: AgentId) -> Option<CutReply> {
        let state = self.lock();
        let buffers = state.open.iter().filter_map(|call| call.buffer.as_ref());
        let of_agent = buffers.filter(|buffer| buffer.call.agent == agent);
        let replies = of_agent.map(|buffer| CutReply {
            effect_id: buffer.call.effect_id,
            text: buffer.valid_text(),
        });
        replies.into_iter().find(|reply| !reply.text.is_empty())
    }

    /// Returns the end of what each open tool call of the given agents has printed.
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

    /// Notes that nothing more will come.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let waiting = state.waiting.all();
        drop(state);
        waiting.wake();
    }

    /// Passes all records so far to a function.
    pub(crate) fn with_records<T>(&self, read: impl FnOnce(&[Arc<Record>]) -> T) -> T {
        read(&self.lock().records)
    }

    /// Returns the events from the first record on.
    pub(crate) fn listen(self: &Arc<Self>) -> Events {
        Events::new(Listener::new(Arc::clone(self)))
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        // Only running out of memory can have caused a panic while the lock was held, and the state is still consistent
        // then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
