//! A step in the making.

use std::sync::Arc;

use crate::effect::Effect;
use crate::ids::{AgentId, ContentIndex, RunId};
use crate::input::Stamp;
use crate::record::{Record, RecordBody};
use crate::run::RunTree;

/// Collects the records and effects of one step.
pub(super) struct Draft {
    pub(super) stamp: Stamp,
    pub(super) effects: Vec<Effect>,
    pub(super) records: Vec<Arc<Record>>,
    run_id: RunId,
}

impl Draft {
    pub(super) fn new(run_id: RunId, stamp: Stamp) -> Self {
        Self {
            stamp,
            effects: Vec::new(),
            records: Vec::new(),
            run_id,
        }
    }
}

impl RunTree {
    /// Adds a record; the first of a step is its cause and is marked so.
    pub(super) fn record(
        &mut self,
        draft: &mut Draft,
        agent: AgentId,
        content_index: Option<ContentIndex>,
        body: RecordBody,
    ) {
        self.seq = self.seq.next();
        let is_cause = draft.records.is_empty();
        let active = u64::try_from(draft.stamp.active_elapsed.as_millis()).unwrap_or(u64::MAX);
        draft.records.push(Arc::new(Record {
            seq: self.seq,
            content_index,
            run_id: draft.run_id,
            agent,
            turn: self
                .agent(agent)
                .map(|agent| agent.turn)
                .unwrap_or_default(),
            at: draft.stamp.at,
            active_ms: is_cause.then_some(active),
            body,
        }));
    }
}
