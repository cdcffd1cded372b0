//! Sub-agents: how a call starts them, how many work at the same time, and how their answers become its result.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::agent::{Agent, Parent, Phase};
use super::agent_step::{AgentStep, StepBuilder};
use super::batch::{Begun, CallState};
use super::context::Gauge;
use super::sub_agent_answer::{SubAgentAnswer, fit};
use super::{Next, RunTree};
use crate::error::InputError;
use crate::ids::{AgentId, Attempt, CallIndex, ToolCallId, ToolName};
use crate::json::JsonText;
use crate::limits::AgentLimits;
use crate::log::Conversation;
use crate::message::Message;
use crate::outcome::{ToolFailure, ToolOutcome, ToolOutput};
use crate::spec::AgentSpec;
use crate::texts::AgentTexts;

/// The tasks of a call's agents.
struct Assignment<'a> {
    tool: &'a ToolName,
    spec: &'a AgentSpec,
    tasks: Vec<String>,
}

impl RunTree {
    /// Starts the agents of a call that is ready, or gives it an error as its result.
    pub(super) fn start_agents(
        &mut self,
        step: &mut StepBuilder,
        parent: AgentId,
        call: CallIndex,
    ) -> Result<Next, InputError> {
        let first = u32::try_from(self.agents.len()).unwrap_or(u32::MAX);
        let mut agent_step = self.agent_step(parent, step)?;
        let assignment = match agent_step.assignment(call)? {
            Ok(assignment) => assignment,
            Err((failure, message)) => {
                agent_step.refuse(call, failure, &message)?;
                return Ok(Next::Wait);
            }
        };
        let agents = (first..).map(AgentId).take(assignment.tasks.len());
        let of_call = agent_step.delegate(call, agents.clone().collect())?;
        let started: Vec<Agent> = agents
            .zip(assignment.tasks)
            .map(|(id, task)| {
                let parent = Parent {
                    agent: parent,
                    call: of_call.clone(),
                    tool: assignment.tool.clone(),
                    depth: agent_step.agent.depth().saturating_add(1),
                };
                let limits = agent_step.run.agent_limits;
                agent_step
                    .agent
                    .sub_agent(id, parent, assignment.spec, limits, task)
            })
            .collect();
        // If there are no tasks, that is the result.
        step.todo.push((parent, Next::Collect(of_call)));
        self.agents.extend(started);
        Ok(Next::BeginQueued)
    }
}

impl<'a> AgentStep<'a> {
    /// Reads the tasks of a call's agents from its arguments; otherwise returns why it cannot start any.
    fn assignment(
        &mut self,
        call: CallIndex,
    ) -> Result<Result<Assignment<'a>, (ToolFailure, String)>, InputError> {
        let refused = |failure, message: &str| Ok(Err((failure, message.to_owned())));
        let (run, depth, texts) = (self.run, self.agent.depth(), self.texts);
        let others = self.above.len() + self.below.len();
        let call = self.batch()?.call(call)?;
        let Some((tool, spec)) = agent_of(&run.agents, &call.name) else {
            return refused(ToolFailure::NotEnabled, texts.calls.not_in_run);
        };
        if depth >= run.agent_limits.depth {
            return refused(ToolFailure::NotEnabled, texts.agents.too_deep);
        }
        let tasks = match tasks_of(spec, &call.arguments, &texts.agents) {
            Ok(tasks) => tasks,
            Err(message) => return Ok(Err((ToolFailure::InvalidArguments, message))),
        };
        let most = usize::try_from(run.agent_limits.total).unwrap_or(usize::MAX);
        let (wanted, left) = (tasks.len(), most.saturating_sub(others));
        if wanted > left {
            let message = (texts.agents.too_many)(wanted, left);
            return refused(ToolFailure::LimitReached, &message);
        }
        Ok(Ok(Assignment { tool, spec, tasks }))
    }

    /// Marks a call as delegated to these agents and journals it. Returns its id.
    fn delegate(
        &mut self,
        index: CallIndex,
        agents: Vec<AgentId>,
    ) -> Result<ToolCallId, InputError> {
        let effect_id = self.step.new_effect();
        let started = self.step.stamp.active_elapsed;
        let call = self.batch()?.call(index)?;
        let CallState::Ready { class } = call.state else {
            return Err(InputError::Inconsistent(
                "agents start for a call that is not ready",
            ));
        };
        call.state = CallState::Delegated {
            begun: Begun {
                effect_id,
                attempt: Attempt(1),
                class,
            },
            agents,
            started,
        };
        let id = call.id.clone();
        self.journal(index)?;
        Ok(id)
    }

    /// Begins the next queued agent, if fewer are at work than this agent's profile allows.
    pub(super) fn begin_queued(&mut self) -> Next {
        let most = self.spec.profile.parallel_agents.max(1);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let id = self.agent.id;
        let own = |agent: &&Agent| agent.parent_id() == Some(id);
        let working = self
            .below
            .iter()
            .filter(own)
            .filter(|agent| agent.is_at_work());
        if working.count() >= most {
            return Next::Wait;
        }
        let is_next = |agent: &&mut Agent| {
            agent.parent_id() == Some(id) && matches!(agent.phase, Phase::Queued)
        };
        if let Some(next) = self.below.iter_mut().find(is_next) {
            next.started = self.step.stamp.active_elapsed;
            next.phase = Phase::Between;
            let todo = &mut self.step.todo;
            todo.push((id, Next::BeginQueued));
            todo.push((next.id, Next::Open));
        }
        Next::Wait
    }

    /// Gives a call its result once all of its agents have ended.
    pub(super) fn collect(&mut self, call: &ToolCallId) -> Result<Next, InputError> {
        // The call may already have its result, if an agent that ended immediately triggered this before.
        let batch = self.agent.batch();
        let found = batch.and_then(|batch| batch.calls.iter().find(|it| it.id == *call));
        let Some((
            index,
            CallState::Delegated {
                begun,
                agents,
                started,
            },
        )) = found.map(|call| (call.index, &call.state))
        else {
            return Ok(Next::Wait);
        };
        let ended = |id: &AgentId| self.started_since(*id).is_none_or(Agent::has_ended);
        if !agents.iter().all(ended) {
            return Ok(Next::Wait);
        }
        let took = self.step.stamp.active_elapsed.saturating_sub(*started);
        let ran = Some(begun.ran(Some(took)));
        let agents = agents.clone();
        let outcome = self.collected(index, &agents)?;
        self.settle(index, ran, &outcome)?;
        self.note_result(index, &outcome)?;
        Ok(Next::Schedule)
    }

    /// Combines the answers of a call's agents: one array in the requested order, if the call named a list.
    pub(super) fn collected(
        &mut self,
        index: CallIndex,
        agents: &[AgentId],
    ) -> Result<ToolOutcome, InputError> {
        let (run, room) = (self.run, self.room_for_answers()?);
        let spec_of_call = agent_of(&run.agents, &self.batch()?.call(index)?.name);
        let spec = spec_of_call.map(|(_, spec)| spec);
        let fans_out = spec.is_some_and(|spec| spec.fan_out.is_some());
        let has_form = spec.is_some_and(|spec| spec.answer.is_some());
        let version = self.state.loop_version;
        let ended = agents.iter().filter_map(|id| self.started_since(*id));
        let texts = &self.texts.agents;
        let answers = ended.filter_map(|agent| SubAgentAnswer::of(agent, has_form, version, texts));
        let mut answers: Vec<SubAgentAnswer> = answers.collect();
        let is_last = |name: &ToolName| spec_of_call.is_some_and(|(tool, _)| tool == name);
        let is_answer = self.spec.profile.stop_after.iter().any(is_last);
        let is_read = match version {
            ..4 => !is_answer,
            // A report that would be the answer is not, if the agent goes on.
            _ => !is_answer || self.agent.closing.is_some() || self.answers_steered(false),
        };
        if version >= 3 && is_read {
            fit(&mut answers, room, texts);
        }
        Ok(match answers.as_slice() {
            [SubAgentAnswer::Given(value)] if !fans_out => {
                ToolOutcome::done(ToolOutput::new(value.clone()))
            }
            [SubAgentAnswer::Failed(why), rest @ ..]
                if rest
                    .iter()
                    .all(|answer| matches!(answer, SubAgentAnswer::Failed(_))) =>
            {
                ToolOutcome::failed(ToolFailure::Error, why)
            }
            answers => {
                let values: Vec<String> = answers.iter().map(SubAgentAnswer::json).collect();
                let array = JsonText::from_text(format!("[{}]", values.join(",")));
                ToolOutcome::done(ToolOutput::new(array))
            }
        })
    }
}

impl AgentStep<'_> {
    /// Returns how many bytes the agents of one call may report together: as many as the results of other tools, which
    /// share about a quarter of the context that is left beside instructions and tools for the results of one reply.
    fn room_for_answers(&mut self) -> Result<usize, InputError> {
        let calls = self.batch()?.calls.len();
        let left = self.spec.room_for_results();
        let left = left.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
        Ok(left / calls.max(1))
    }
}

impl Agent {
    /// Creates a queued agent that works for this one.
    fn sub_agent(
        &self,
        id: AgentId,
        parent: Parent,
        spec: &AgentSpec,
        limits: AgentLimits,
        task: String,
    ) -> Self {
        let mut conversation = Conversation::of_sub_agent(spec);
        conversation.add_message(Message::user(task));
        Self {
            offered: spec.first_offer(parent.depth, limits),
            parent: Some(parent),
            forced: spec.tool_choice.clone(),
            gauge: Gauge::of(spec),
            // The task may contain untrusted content that its parent has read.
            taint: self.taint.clone(),
            phase: Phase::Queued,
            ..Self::new(id, conversation)
        }
    }
}

/// Returns the spec of the agents that calls of a tool start, by the name that the model wrote.
fn agent_of<'a>(
    agents: &'a BTreeMap<ToolName, AgentSpec>,
    name: &str,
) -> Option<(&'a ToolName, &'a AgentSpec)> {
    agents.iter().find(|(tool, _)| tool.as_str() == name)
}

/// Returns the task of each agent: an item of the list that the spec names, or the whole arguments. A string is used as
/// it is, and so is a string that is the only member of an object; anything else is given as JSON.
fn tasks_of(
    spec: &AgentSpec,
    arguments: &JsonText,
    texts: &AgentTexts,
) -> Result<Vec<String>, String> {
    let object: BTreeMap<String, &RawValue> = arguments
        .decode()
        .map_err(|error: serde_json::Error| (texts.not_an_object)(&error.to_string()))?;
    let Some(list) = &spec.fan_out else {
        let mut values = object.values();
        let only = match (values.next(), values.next()) {
            (Some(only), None) => serde_json::from_str::<String>(only.get()).ok(),
            _ => None,
        };
        return Ok(vec![only.unwrap_or_else(|| arguments.as_str().to_owned())]);
    };
    let items = object.get(list).ok_or_else(|| (texts.list_missing)(list))?;
    let items: Vec<&RawValue> =
        serde_json::from_str(items.get()).map_err(|_| (texts.not_a_list)(list))?;
    let tasks = items.iter().map(|item| {
        serde_json::from_str::<String>(item.get()).unwrap_or_else(|_| item.get().to_owned())
    });
    Ok(tasks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Role;
    use crate::profile::Profile;
    use crate::texts::Texts;

    fn tasks(fan_out: Option<&str>, arguments: &str) -> Result<Vec<String>, String> {
        let mut spec = AgentSpec::new(Profile::researcher(), Role::REASONING);
        spec.fan_out = fan_out.map(str::to_owned);
        tasks_of(&spec, &JsonText::from_text(arguments), &Texts::of(4).agents)
    }

    #[test]
    fn each_item_of_a_list_becomes_a_task() {
        let arguments = r#"{"topics":["a",{"b":1},2],"depth":3}"#;
        assert_eq!(
            tasks(Some("topics"), arguments).unwrap(),
            ["a", r#"{"b":1}"#, "2"]
        );
        assert_eq!(
            tasks(Some("topics"), "{}").unwrap_err(),
            "topics: is missing"
        );
        assert_eq!(
            tasks(Some("topics"), r#"{"topics":"a"}"#).unwrap_err(),
            "topics: must be a list"
        );
    }

    #[test]
    fn without_a_list_the_arguments_are_the_task() {
        assert_eq!(tasks(None, r#"{"task":"a"}"#).unwrap(), ["a"]);
        let two = r#"{"task":"a","style":"short"}"#;
        assert_eq!(tasks(None, two).unwrap(), [two]);
        assert!(
            tasks(None, "[]")
                .unwrap_err()
                .starts_with("the arguments are not")
        );
    }
}
