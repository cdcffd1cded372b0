//! Checks calls: is there such a tool, do the arguments fit, is it available, does policy let it run.

use neuraxis_brainstem::Call;
use neuraxis_core::{CallToVet, Vet, Vetted, Vetting};
use neuraxis_ports::TurnContext;

use crate::catalog::ToolCallError;
use crate::driver::Driver;

impl Driver {
    pub(super) fn vet(&self, vet: &Vet) -> Vetted {
        let session = Some(self.scope.session_id.clone());
        let turn = TurnContext::new(self.scope.run_id, session, vet.agent, vet.turn);
        let calls = vet.calls.iter().map(|call| self.vet_call(call, &turn));
        Vetted {
            effect_id: vet.effect_id,
            calls: calls.collect(),
        }
    }

    fn vet_call(&self, call: &CallToVet, turn: &TurnContext) -> Vetting {
        let decision = &self.scope.decision;
        // A tool that this run was not offered is as unknown as one that does not exist.
        if !decision.tools.iter().any(|name| name.as_str() == call.name) {
            return Vetting::Unknown;
        }
        let tool = match self.engine.catalog.check(&call.name, &call.arguments) {
            Ok(tool) => tool,
            Err(ToolCallError::UnknownTool { .. }) => return Vetting::Unknown,
            Err(ToolCallError::InvalidArguments(message)) => return Vetting::Invalid { message },
        };
        if !tool.should_use(turn) {
            return Vetting::Disabled;
        }
        let spec = tool.spec();
        let verdict = self
            .engine
            .policy
            .judge(decision, &Call::new(spec, &call.arguments));
        Vetting::from_verdict(verdict, spec.class)
    }
}
