//! Drives a run with several agents, each identified by its number: 0 is the root agent.

use neuraxis_core::{
    Advice, Advised, AgentId, CallModel, Cancelled, Consult, Effect, Input, Message, Record,
    RecordBody, Reply, RunOutcome, Steered, ToolCallStarted, ToolFinished, ToolOutcome, Vet,
    Vetted, Vetting,
};

use super::{Script, last, tools};

impl Script {
    /// Returns the last model call that an agent requested.
    pub(crate) fn call_of(&self, agent: u32) -> &CallModel {
        last(&self.effects, |effect| match effect {
            Effect::CallModel(call) if call.agent == AgentId(agent) => Some(call),
            _ => None,
        })
    }

    pub(crate) fn vet_of(&self, agent: u32) -> &Vet {
        last(&self.effects, |effect| match effect {
            Effect::Vet(vet) if vet.agent == AgentId(agent) => Some(vet),
            _ => None,
        })
    }

    pub(crate) fn reply_as(&mut self, agent: u32, reply: Reply) -> &mut Self {
        let input = self.replied_to(self.call_of(agent), reply);
        self.send(input)
    }

    pub(crate) fn vet_as(
        &mut self,
        agent: u32,
        verdicts: impl IntoIterator<Item = Vetting>,
    ) -> &mut Self {
        let effect_id = self.vet_of(agent).effect_id;
        let calls = verdicts.into_iter().collect();
        self.send(Input::Vetted(Vetted::new(effect_id, calls)))
    }

    /// Allows everything in the last check that an agent requested.
    pub(crate) fn allow_as(&mut self, agent: u32) -> &mut Self {
        let known = tools();
        let calls = &self.vet_of(agent).calls;
        let class = |name: &str| {
            let tool = known.iter().find(|tool| tool.name.as_str() == name);
            tool.map_or(Vetting::Unknown, |tool| Vetting::run(tool.class))
        };
        let verdicts: Vec<_> = calls.iter().map(|call| class(&call.name)).collect();
        self.vet_as(agent, verdicts)
    }

    pub(crate) fn finish_as(&mut self, agent: u32, index: u32, outcome: ToolOutcome) -> &mut Self {
        let started = self.started_by(agent, index);
        let input = Input::ToolFinished(ToolFinished {
            effect_id: started.effect_id,
            attempt: started.attempt,
            outcome,
            duration: std::time::Duration::from_millis(3),
            by: None,
        });
        self.send(input)
    }

    pub(crate) fn steer_agent(&mut self, agent: u32, text: &str) -> &mut Self {
        let mut steered = Steered::new(self.new_id(), Message::user(text).into());
        steered.agent = AgentId(agent);
        self.send(Input::Steered(steered))
    }

    pub(crate) fn cancel_agent(&mut self, agent: u32) -> &mut Self {
        let mut cancelled = Cancelled::new(self.new_id(), "no longer needed");
        cancelled.agent = AgentId(agent);
        self.send(Input::Cancelled(cancelled))
    }

    /// Answers the most recent question to a hook.
    pub(crate) fn advise(&mut self, advice: Advice) -> &mut Self {
        let input = self.advised(advice);
        self.send(input)
    }

    pub(crate) fn advised(&self, advice: Advice) -> Input {
        Input::Advised(Advised {
            effect_id: self.consulted().effect_id,
            advice,
        })
    }

    /// Returns the most recent question to a hook.
    pub(crate) fn consulted(&self) -> &Consult {
        last(&self.effects, |effect| match effect {
            Effect::Consult(consult) => Some(consult),
            _ => None,
        })
    }

    pub(crate) fn started_by(&self, agent: u32, index: u32) -> &ToolCallStarted {
        last(&self.records, |record| match &record.body {
            RecordBody::ToolCall(call)
                if record.agent == AgentId(agent) && call.index.0 == index =>
            {
                Some(&**call)
            }
            _ => None,
        })
    }

    /// Returns the outcome of an agent that has ended.
    pub(crate) fn answer_of(&self, agent: u32) -> &RunOutcome {
        last(&self.records, |record| match &record.body {
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome)
                if record.agent == AgentId(agent) =>
            {
                Some(&**outcome)
            }
            _ => None,
        })
    }

    /// Returns the agents for which the last step requested a model call, in the order of its effects.
    pub(crate) fn just_asking(&self) -> Vec<u32> {
        let asking = self.step.effects.iter().filter_map(|effect| match effect {
            Effect::CallModel(call) => Some(call.agent.0),
            _ => None,
        });
        asking.collect()
    }

    /// Returns the records of this type, oldest first.
    pub(crate) fn recorded(&self, kind: &str) -> Vec<&Record> {
        let records = self.records.iter().map(|record| &**record);
        records
            .filter(|record| record.body.kind() == kind)
            .collect()
    }
}
