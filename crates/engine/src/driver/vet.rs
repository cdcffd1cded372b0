//! Checks calls: is there such a tool, do the arguments fit, is it available, does policy let it run.

use neuraxis_brainstem::Call;
use neuraxis_core::{CallToVet, Verdict, Vet, Vetted, Vetting};
use neuraxis_ports::TurnContext;

use crate::catalog::ToolCallError;
use crate::driver::Driver;

impl Driver {
    pub(super) fn vet(&self, vet: &Vet) -> Vetted {
        let session = self.scope.session_id.clone();
        let turn = TurnContext::new(self.scope.run_id, session, vet.agent, vet.turn);
        let calls = vet.calls.iter().map(|call| self.vet_call(call, &turn));
        Vetted {
            effect_id: vet.effect_id,
            calls: calls.collect(),
        }
    }

    fn vet_call(&self, call: &CallToVet, turn: &TurnContext) -> Vetting {
        // A tool that this agent was not offered is as unknown as one that does not exist.
        let offered = self.tree.tools(turn.agent);
        if !offered.iter().any(|tool| tool.name.as_str() == call.name) {
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
        let call = Call::new(spec, &call.arguments);
        let decision = self.scope.decision.as_ref();
        let verdict = decision.map_or(Verdict::Allow, |decision| {
            self.engine.policy.judge(decision, &call)
        });
        Vetting::from_verdict(verdict, spec.class)
    }
}
