//! Sub-agents: how a call starts them, how many work at a time, and how their answers become its result.

mod tasks;

use std::time::Duration;

use crate::finish::RunStatus;
use crate::ids::{AgentId, Attempt, EffectId, ToolCallId, ToolName};
use crate::json::JsonText;
use crate::message::Message;
use crate::outcome::{ToolFailure, ToolOutcome, ToolOutput};
use crate::run::RunTree;
use crate::run::agent::{Agent, Parent, Phase};
use crate::run::batch::CallState;
use crate::run::draft::Draft;
use crate::tool::ToolClass;
use crate::transcript::Transcript;
use tasks::tasks_of;

/// Which effect a call's agents work for, its attempt, and how long it has taken.
type Ran = (EffectId, Attempt, Option<Duration>);

/// An agent's answer, as its parent reads it.
enum Answer {
    Given(String),
    Failed(String),
}

impl RunTree {
    /// Starts the agents of a call that is ready, or gives it an error as its result.
    pub(super) fn start_agents(
        &mut self,
        draft: &mut Draft,
        parent: AgentId,
        call: &ToolCallId,
        tool: &ToolName,
        class: ToolClass,
    ) {
        let tasks = match self.tasks(parent, call, tool) {
            Ok(tasks) => tasks,
            Err((failure, message)) => {
                self.refuse(draft, parent, call, failure, &message);
                return;
            }
        };
        let first = u32::try_from(self.agents.len()).unwrap_or(u32::MAX);
        let agents: Vec<AgentId> = (first..).map(AgentId).take(tasks.len()).collect();
        let effect_id = self.new_effect();
        let started = draft.stamp.active_elapsed;
        let delegated = CallState::Delegated {
            effect_id,
            attempt: Attempt(1),
            class,
            agents: agents.clone(),
            started,
        };
        self.set_state(parent, call, delegated);
        self.journal(draft, parent, call);
        for (id, task) in agents.iter().zip(tasks) {
            let agent = self.new_agent(*id, parent, call, tool, task);
            self.agents.push(agent);
        }
        self.begin_queued(draft, parent);
        self.collect_if_over(draft, parent, call);
    }

    /// Reads from the arguments of a call what each of its agents is to do.
    fn tasks(
        &self,
        parent: AgentId,
        call: &ToolCallId,
        tool: &ToolName,
    ) -> Result<Vec<String>, (ToolFailure, String)> {
        let not_enabled = |message: &str| (ToolFailure::NotEnabled, message.to_owned());
        let spec = self.spec.agents.get(tool).ok_or_else(|| {
            not_enabled("TOOL_NOT_ENABLED: this tool is not available in this run")
        })?;
        let limits = self.spec.agent_limits;
        if self.depth(parent) >= limits.depth {
            let message = "TOOL_NOT_ENABLED: an agent this deep cannot start others";
            return Err(not_enabled(message));
        }
        let batch = self.agent(parent).and_then(Agent::batch);
        let call = batch.and_then(|batch| batch.calls.iter().find(|other| other.id == *call));
        let arguments = call.map(|call| call.arguments.clone());
        let arguments = arguments.unwrap_or_else(|| JsonText::from_text("{}"));
        let tasks = tasks_of(spec, &arguments)
            .map_err(|message| (ToolFailure::InvalidArguments, message))?;
        let so_far = self.agents.len().saturating_sub(1);
        let left = usize::try_from(limits.total)
            .unwrap_or(usize::MAX)
            .saturating_sub(so_far);
        if tasks.len() > left {
            let asked = tasks.len();
            let message = format!(
                "not run: it would start {asked} agents, and this run may start {left} more"
            );
            return Err((ToolFailure::LimitReached, message));
        }
        Ok(tasks)
    }

    fn new_agent(
        &self,
        id: AgentId,
        parent: AgentId,
        call: &ToolCallId,
        tool: &ToolName,
        task: String,
    ) -> Agent {
        let spec = self.spec.agents.get(tool).unwrap_or(&self.spec.root);
        let prompt = spec.system_prompt.as_deref().map(Message::system);
        let mut transcript: Transcript = prompt.into_iter().collect();
        let recorded = transcript.digest();
        let has_prompt = !transcript.is_empty();
        transcript.push(Message::user(task));
        Agent {
            parent: Some(Parent {
                agent: parent,
                call: call.clone(),
                tool: tool.clone(),
                depth: self.depth(parent).saturating_add(1),
            }),
            has_prompt,
            forced: spec.tool_choice.clone(),
            // What it is told, its parent may have from strangers.
            taint: self
                .agent(parent)
                .map(|agent| agent.taint.clone())
                .unwrap_or_default(),
            phase: Phase::Queued,
            ..Agent::new(id, transcript, recorded)
        }
    }

    fn depth(&self, id: AgentId) -> u32 {
        let parent = self.agent(id).and_then(|agent| agent.parent.as_ref());
        parent.map_or(0, |parent| parent.depth)
    }

    /// Lets agents that wait for their turn begin, as many as their parent's profile lets work at a time.
    fn begin_queued(&mut self, draft: &mut Draft, parent: AgentId) {
        let most = self.agent_spec(parent).profile.parallel_agents.max(1);
        loop {
            let own = |agent: &&Agent| agent.is_child_of(parent);
            let children = self.agents.iter().filter(own);
            let at_work = |agent: &&Agent| !matches!(agent.phase, Phase::Queued | Phase::Ended);
            let working = children.clone().filter(at_work).count();
            let mut queued = children.filter(|agent| agent.phase == Phase::Queued);
            let Some(next) = queued.next().map(|agent| agent.id) else {
                return;
            };
            if working >= usize::try_from(most).unwrap_or(usize::MAX) {
                return;
            }
            if let Some(agent) = self.agent_mut(next) {
                agent.started = draft.stamp.active_elapsed;
                agent.phase = Phase::Ended;
            }
            self.open(draft, next);
        }
    }

    /// An agent has ended: others of its parent may begin, and with the last one its parent's call has its result.
    pub(super) fn agent_ended(&mut self, draft: &mut Draft, id: AgentId) {
        let Some(Parent { agent, call, .. }) =
            self.agent(id).and_then(|agent| agent.parent.clone())
        else {
            return;
        };
        self.begin_queued(draft, agent);
        if self.collect_if_over(draft, agent, &call) {
            self.schedule(draft, agent);
        }
    }

    /// Gives a call its result once all of its agents have ended; true if it did.
    fn collect_if_over(&mut self, draft: &mut Draft, parent: AgentId, call: &ToolCallId) -> bool {
        let Some((agents, ran)) = self.delegated(draft, parent, call) else {
            return false;
        };
        let ended = |id: &AgentId| self.agent(*id).is_none_or(Agent::has_ended);
        if !agents.iter().all(ended) {
            return false;
        }
        let outcome = self.collected(parent, call, &agents);
        self.settle(draft, parent, call, Some(ran), &outcome);
        self.take_note_of(draft, parent, call, &outcome);
        true
    }

    fn delegated(
        &self,
        draft: &Draft,
        parent: AgentId,
        call: &ToolCallId,
    ) -> Option<(Vec<AgentId>, Ran)> {
        let batch = self.agent(parent)?.batch()?;
        let call = batch.calls.iter().find(|other| other.id == *call)?;
        let CallState::Delegated {
            effect_id,
            attempt,
            agents,
            started,
            ..
        } = &call.state
        else {
            return None;
        };
        let took = draft.stamp.active_elapsed.saturating_sub(*started);
        Some((agents.clone(), (*effect_id, *attempt, Some(took))))
    }

    /// Puts the answers of a call's agents together: one array in the order asked for, where the call named a list.
    pub(super) fn collected(
        &self,
        parent: AgentId,
        call: &ToolCallId,
        agents: &[AgentId],
    ) -> ToolOutcome {
        let name = self
            .agent(parent)
            .and_then(|agent| agent.batch()?.calls.iter().find(|other| other.id == *call))
            .and_then(|call| call.name.parse::<ToolName>().ok());
        let fans_out = name
            .and_then(|name| self.spec.agents.get(&name))
            .is_some_and(|spec| spec.fan_out.is_some());
        let answers: Vec<Answer> = agents
            .iter()
            .filter_map(|id| self.agent(*id)?.answer.as_ref())
            .map(Answer::of)
            .collect();
        match answers.as_slice() {
            [Answer::Given(content)] if !fans_out => {
                ToolOutcome::done(ToolOutput::new(JsonText::string(content)))
            }
            [Answer::Failed(why), rest @ ..]
                if rest
                    .iter()
                    .all(|answer| matches!(answer, Answer::Failed(_))) =>
            {
                ToolOutcome::failed(ToolFailure::Error, why)
            }
            answers => {
                let values: Vec<String> = answers.iter().map(Answer::json).collect();
                let array = JsonText::from_text(format!("[{}]", values.join(",")));
                ToolOutcome::done(ToolOutput::new(array))
            }
        }
    }
}

impl Agent {
    pub(super) fn is_child_of(&self, parent: AgentId) -> bool {
        self.parent.as_ref().is_some_and(|its| its.agent == parent)
    }
}

impl Answer {
    fn of(outcome: &crate::finish::RunOutcome) -> Self {
        let ended_well = outcome.status() == RunStatus::Done;
        if ended_well || !outcome.content.trim().is_empty() {
            Self::Given(outcome.content.clone())
        } else {
            Self::Failed(format!(
                "the agent gave no answer: {}",
                outcome.finish_reason
            ))
        }
    }

    fn json(&self) -> String {
        let text = match self {
            Self::Given(content) => JsonText::string(content),
            Self::Failed(why) => JsonText::error(why),
        };
        text.as_str().to_owned()
    }
}
