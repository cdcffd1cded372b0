//! Records when another role serves a call than the one it was for: once, until that one serves again.

use crate::ids::{AgentId, Role};
use crate::record::{RecordBody, RoleDowngraded, Warning};
use crate::run::RunTree;
use crate::run::draft::Draft;

impl RunTree {
    /// Takes note of who served an attempt of a model call, and why.
    pub(super) fn note_served(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        served_by: &Role,
        downgraded: Option<&RoleDowngraded>,
    ) {
        let Some(downgraded) = downgraded else {
            self.downgraded.remove(served_by);
            return;
        };
        let before = self
            .downgraded
            .insert(downgraded.from.clone(), downgraded.to.clone());
        if before.as_ref() != Some(&downgraded.to) {
            let body = RecordBody::RoleDowngraded(Box::new(downgraded.clone()));
            self.record(draft, id, None, body);
        }
    }

    /// Says that a role counts as failing from now on.
    pub(super) fn note_degraded(&mut self, draft: &mut Draft, id: AgentId, why: Option<String>) {
        if let Some(message) = why {
            let code = "role_degraded".to_owned();
            let warning = RecordBody::Warning(Box::new(Warning { code, message }));
            self.record(draft, id, None, warning);
        }
    }
}
