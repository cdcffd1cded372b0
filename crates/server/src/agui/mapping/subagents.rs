//! Sub-agents: which ones a client knows, and how they end.

use std::collections::BTreeMap;

use neuraxis::core::{AgentId, RunId, ToolCallId, ToolCallStarted};

use super::Mapping;
use crate::agui::event::{Body, Outgoing, SubagentOutcome};

/// The sub-agents of a run.
#[derive(Debug, Default)]
pub(super) struct Subagents(BTreeMap<AgentId, Subagent>);

#[derive(Debug)]
struct Subagent {
    name: String,
    parent: AgentId,
    call: ToolCallId,
    /// Its id, while the client knows it and it is active.
    sent_id: Option<String>,
    has_ended: bool,
}

impl Subagents {
    /// Records that a call starts an agent.
    pub(super) fn start(&mut self, agent: AgentId, parent: AgentId, call: &ToolCallStarted) {
        if agent == AgentId::ROOT {
            return;
        }
        self.0.entry(agent).or_insert_with(|| Subagent {
            name: call.name.to_string(),
            parent,
            call: call.tool_call_id.clone(),
            sent_id: None,
            has_ended: false,
        });
    }

    /// Emits that an agent started, unless that was already sent or it has ended.
    pub(super) fn emit_start(&mut self, agent: AgentId, run: RunId, out: &mut Vec<Outgoing>) {
        let parent = self.0.get(&agent).map(|subagent| subagent.parent);
        let parent_id = parent.and_then(|parent| self.id(parent));
        let Some(subagent) = self.0.get_mut(&agent) else {
            return;
        };
        if subagent.sent_id.is_some() || subagent.has_ended {
            return;
        }
        let id = format!("{run}.{agent}");
        subagent.sent_id = Some(id.clone());
        out.push(
            Body::SubagentStarted {
                subagent_run_id: id,
                name: subagent.name.clone(),
                parent_subagent_run_id: parent_id,
                parent_tool_call_id: subagent.call.to_string(),
            }
            .into(),
        );
    }

    /// Records that the client has been sent none of them in the run that begins.
    pub(super) fn suspend(&mut self) {
        for subagent in self.0.values_mut() {
            subagent.sent_id = None;
        }
    }

    /// Emits those that resume with the run. An agent has a higher number than the one that started it.
    pub(super) fn emit_resumed(&mut self, run: RunId, out: &mut Vec<Outgoing>) {
        let agents: Vec<AgentId> = self.0.keys().copied().collect();
        for agent in agents {
            self.emit_start(agent, run, out);
        }
    }

    /// Returns whether an agent is the root agent or an active sub-agent.
    pub(super) fn is_active(&self, agent: AgentId) -> bool {
        let subagent = self.0.get(&agent);
        agent == AgentId::ROOT || subagent.is_some_and(|subagent| !subagent.has_ended)
    }

    /// Returns the id that marks an agent's events, if the client knows the agent. The root agent has none.
    pub(super) fn id(&self, agent: AgentId) -> Option<String> {
        self.0.get(&agent)?.sent_id.clone()
    }

    /// Records that an agent has ended. Returns its id if the client knows it.
    fn end(&mut self, agent: AgentId) -> Option<String> {
        let subagent = self.0.get_mut(&agent)?;
        subagent.has_ended = true;
        subagent.sent_id.take()
    }

    /// Returns whether `agent` is `above`, or was started by it directly or indirectly.
    fn is_or_is_below(&self, agent: AgentId, above: AgentId) -> bool {
        let parent = |agent: &AgentId| {
            let parent = self.0.get(agent)?.parent;
            (parent < *agent).then_some(parent)
        };
        std::iter::successors(Some(agent), parent).any(|agent| agent == above)
    }

    /// Returns the active agents that match, the last started first.
    fn active(&self, chosen: impl Fn(&Subagent) -> bool) -> Vec<AgentId> {
        let each = self.0.iter().rev();
        each.filter(|(_, subagent)| !subagent.has_ended && chosen(subagent))
            .map(|(agent, _)| *agent)
            .collect()
    }
}

impl Mapping {
    /// Emits that an agent has ended, and those that it started.
    pub(super) fn end_subagent(&mut self, agent: AgentId, why: Option<String>) {
        for below in self
            .subagents
            .active(|it| it.parent == agent && agent != AgentId::ROOT)
        {
            if below != agent {
                self.end_subagent(below, why.clone());
            }
        }
        self.end_open_messages(Some(agent));
        let Some(subagent_run_id) = self.subagents.end(agent) else {
            return;
        };
        let body = match why {
            None => Body::SubagentFinished {
                subagent_run_id,
                outcome: None,
            },
            Some(message) => Body::SubagentError {
                subagent_run_id,
                message,
            },
        };
        self.emit(AgentId::ROOT, body);
    }

    /// Ends the agents that a call started, now that it has its result.
    pub(super) fn end_agents_of_call(&mut self, call: &ToolCallId) {
        for agent in self.subagents.active(|it| it.call == *call) {
            self.end_subagent(agent, None);
        }
    }

    /// Emits that agents end with the run, or that they wait with it, each for its own questions and those of agents
    /// below it.
    pub(super) fn end_subagents(&mut self, interrupts: Option<&[(AgentId, String)]>) {
        for agent in self.subagents.active(|_| true) {
            let Some(interrupts) = interrupts else {
                self.end_subagent(agent, Some("ended with the run".to_owned()));
                continue;
            };
            self.end_open_messages(Some(agent));
            if let Some(subagent_run_id) = self.subagents.end(agent) {
                let interrupts = interrupts.iter();
                let its =
                    interrupts.filter(|(asker, _)| self.subagents.is_or_is_below(*asker, agent));
                let outcome = SubagentOutcome::Suspended {
                    interrupt_ids: its.map(|(_, id)| id.clone()).collect(),
                };
                let body = Body::SubagentFinished {
                    subagent_run_id,
                    outcome: Some(outcome),
                };
                self.emit(AgentId::ROOT, body);
            }
        }
    }
}
