//! What a session carries from one run to the next: the answers of people it remembers, and that it holds untrusted
//! content.

use std::sync::Arc;

use neuraxis_brainstem::note_taint;
use neuraxis_core::{AgentId, Record, RunSpec, SessionId, Taint, Turn};
use neuraxis_ports::StoreError;

use crate::runs::Runs;

impl Runs {
    /// Lets a run begin with the untrusted content that its session holds. To be called once the session is reserved: until
    /// then another run may bring more.
    pub(crate) async fn carry_taint(
        &self,
        session: &SessionId,
        spec: &mut RunSpec,
    ) -> Result<(), StoreError> {
        let taint = self.parts.store.taint(session).await?;
        // Many runs share one decision; what this one's conversation holds is its own.
        if let Some(decision) = &mut spec.decision
            && !taint.is_clean()
        {
            note_taint(Arc::make_mut(decision), &taint);
        }
        Ok(())
    }
}

/// Returns the untrusted content that a run's conversation held at the end of a turn. What its sub-agents read later counts,
/// too: rather too much than too little.
pub(crate) fn taint_until(records: &[Arc<Record>], turn: Turn) -> Taint {
    let mut taint = Taint::default();
    for record in records {
        if record.agent != AgentId::ROOT || record.turn <= turn {
            taint.read(record);
        }
    }
    taint
}
