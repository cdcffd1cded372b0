//! Whether anything can go on: a run that waits for a person or a client is no longer at work.

use crate::finish::RunStatus;
use crate::ids::AgentId;
use crate::record::{Pending, PendingKind, RecordBody, Waiting};
use crate::run::RunTree;
use crate::run::agent::{Agent, Phase};
use crate::run::batch::CallState;
use crate::run::draft::Draft;
use crate::tool::ToolKind;

impl RunTree {
    /// Brings the status up to date after a step; a run that comes to a standstill says what it waits for.
    pub(super) fn settle_status(&mut self, mut draft: Draft) -> Draft {
        if self.status.is_ended() || draft.records.is_empty() {
            return draft;
        }
        let pending = self.pending();
        let at_work = self.agents.iter().any(Agent::is_at_work);
        if at_work || pending.is_empty() {
            self.status = RunStatus::Running;
        } else {
            let changed = self.status != RunStatus::Waiting;
            self.status = RunStatus::Waiting;
            if changed {
                self.record(
                    &mut draft,
                    AgentId::ROOT,
                    None,
                    RecordBody::Waiting(Box::new(Waiting { pending })),
                );
            }
        }
        draft
    }
}

impl Agent {
    fn is_at_work(&self) -> bool {
        match &self.phase {
            Phase::Model(_) | Phase::Consulting(_) => true,
            Phase::Tools(batch) => batch.calls.iter().any(|call| {
                matches!(
                    call.state,
                    CallState::Vetting { .. }
                        | CallState::Running {
                            kind: ToolKind::Server,
                            ..
                        }
                )
            }),
            // Where agents of it wait or work, they say so themselves.
            Phase::Queued | Phase::Ended => false,
        }
    }

    pub(super) fn pending(&self) -> Vec<Pending> {
        let calls = self.batch().into_iter().flat_map(|batch| &batch.calls);
        let pending = calls.filter_map(|call| {
            let (effect_id, kind, expires_at) = match &call.state {
                CallState::Asking {
                    effect_id,
                    question,
                    ..
                } => (*effect_id, PendingKind::Approval, question.expires_at),
                CallState::Running {
                    effect_id,
                    kind: ToolKind::Client,
                    ..
                } => (*effect_id, PendingKind::ClientTool, None),
                _ => return None,
            };
            Some(Pending {
                effect_id,
                tool_call_id: call.id.clone(),
                kind,
                expires_at,
            })
        });
        pending.collect()
    }
}
