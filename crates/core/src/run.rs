//! The turn loop as a pure state machine.
//!
//! [`RunTree`] holds a complete run: its agents, their conversations, and what is in progress. It performs nothing.
//!
//! An input is handled once, for the one agent it concerns, in the file named after it: `run/model_replied.rs`,
//! `run/tool_finished.rs`, and so on. Messages, decisions and cancellations from outside are in `run/interventions.rs`,
//! the advice of hooks in `run/consult.rs`. The handler returns the next action as a [`Next`], and `RunTree::follow`,
//! below, performs actions until only an answer from outside can continue the run. No handler calls another, with one
//! exception: `make_room` calls `call_model` to request a summary. The rest of the control flow is in this file.

mod agent;
mod agent_step;
mod answer;
mod batch;
mod batch_over;
mod budget;
mod compaction;
mod consult;
mod context;
mod finish;
mod governed;
mod interventions;
mod last_answer;
mod model_call;
mod model_failed;
mod model_replied;
mod queries;
mod repeats;
mod request_size;
mod restore;
mod resumed;
mod schedule;
mod self_check;
mod shares;
mod start;
mod sub_agent_answer;
mod sub_agents;
mod time_passed;
mod tool_finished;
mod vetted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::effect::Effect;
use crate::error::InputError;
use crate::finish::{FinishReason, RunStatus};
use crate::ids::{AgentId, CallIndex, EffectId, InputId, Role, ToolCallId};
use crate::input::{Input, Recheck, Stamp};
use crate::record::Record;
use crate::spec::RunSpec;
use crate::texts::Texts;
use agent::{Agent, OfferedTools, PlannedCall};
use agent_step::{AgentStep, Counters, StepBuilder, place};
use last_answer::Limit;

pub use context::FittedRequest;
pub use last_answer::{has_answered, is_last_answer, last_reply};
pub use queries::{CallStage, OpenCall};
pub use request_size::RequestSize;
pub(crate) use self_check::checked;

/// The result of one `start` or `advance`.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "effects must be performed and records stored"]
pub struct Step {
    /// The run's status after the step.
    pub status: RunStatus,
    /// The effects to perform, in this order.
    pub effects: Vec<Effect>,
    /// The records to store: the first is the step's cause. Empty if the input changed nothing.
    pub records: Vec<Arc<Record>>,
    /// The active time at which to send [`Input::TimePassed`], unless another input comes first.
    pub wake_at: Option<Duration>,
}

/// A run: the root agent, its sub-agents, and everything needed to continue. Plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTree {
    spec: Arc<RunSpec>,
    /// The root agent first; each agent comes after the one that started it.
    agents: Vec<Agent>,
    state: RunState,
}

/// The state of a run as a whole, independent of its individual agents.
#[derive(Debug, Clone, PartialEq)]
struct RunState {
    status: RunStatus,
    counters: Counters,
    /// The active time of the last step that changed something.
    active: Duration,
    /// The ids of the inputs whose sender chose the id; a second input with the same id is a duplicate.
    inputs_seen: BTreeSet<InputId>,
    /// How long an approval request stays open; `None` means indefinitely.
    approval_expires: Option<Duration>,
    /// The roles that are currently replaced, with their replacements.
    downgraded: BTreeMap<Role, Role>,
    /// The total weight of its records, in bytes.
    log_bytes: u64,
    warned_of_log: bool,
    /// Whether a warning about a reply without token counts was recorded.
    warned_of_counts: bool,
    /// The version of the rules it follows: that of its log.
    loop_version: u32,
    /// How often in a row it was resumed without making progress.
    taken_up: u32,
}

/// The next action for an agent, after what just happened to it.
#[derive(Debug)]
enum Next {
    /// Wait for an answer from outside, or for another agent.
    Wait,
    /// Begin the root agent: with the question which role serves, if a model should be asked.
    Begin,
    /// Begin an agent's work as its profile says: by gathering, or with its first turn.
    Open,
    /// Continue after a turn: with the next turn, unless a limit was reached or the embedder's hook must be consulted.
    Continue,
    /// Begin the next turn.
    BeginTurn,
    /// Ask the model for the turn, with these tools on offer.
    AskForTurn(OfferedTools),
    /// Call a model, after consulting the embedder's hook and making room in the conversation.
    CallModel(PlannedCall),
    /// Call a model after consulting the hook, with the conversation as it is.
    CallAsIs(PlannedCall),
    /// Check the calls of a reply that have no result yet.
    Vet,
    /// Determine which calls may run now; if all have results, the batch is complete.
    Schedule,
    /// Start these calls.
    Start(Vec<CallIndex>),
    /// Start the agents of a call.
    StartAgents(CallIndex),
    /// Begin queued sub-agents, up to the number that may work at the same time.
    BeginQueued,
    /// Give a call its result once all of its agents have ended.
    Collect(ToolCallId),
    /// Join the results of a batch to the conversation.
    BatchOver,
    /// Record a limit that was reached, and ask for a last answer.
    AskLastAnswer(Limit),
    /// End the agent without a usable last answer.
    FinishWithoutAnswer,
    /// End the agent with its draft, or with the result of a check of it.
    FinishWithDraft,
    /// End the agent with a question to the user.
    FinishWithQuestion,
    /// End the agent because this model call failed with this error.
    FinishFailed(EffectId, String),
    /// End the agent.
    Finish(FinishReason, String),
    /// Request again what was in progress when a process died.
    Resume(Recheck),
    /// Apply a limit on the agent's time.
    TimePassed,
}

impl RunTree {
    /// Applies an input and returns what follows from it.
    ///
    /// A duplicate, or an answer to a settled effect, changes nothing and gives a step without records.
    ///
    /// # Errors
    ///
    /// An [`InputError`] for an impossible input; the run is unchanged, except after [`InputError::Inconsistent`].
    pub fn advance(&mut self, stamp: Stamp, input: Input) -> Result<Step, InputError> {
        if stamp.active_elapsed < self.state.active {
            return Err(InputError::TimeReversed);
        }
        let mut step = StepBuilder::new(self.spec.run_id, stamp, self.state.counters);
        let Some(agent) = self.addressee(&input)? else {
            return Ok(self.conclude(step));
        };
        let is_resume = matches!(input, Input::Resumed(_));
        let chosen_id = input.chosen_id().cloned();
        let mut agent_step = self.agent_step(agent, &mut step)?;
        let next = match input {
            Input::ModelReplied(replied) => agent_step.model_replied(replied),
            Input::ModelFailed(failed) => agent_step.model_failed(failed),
            Input::Vetted(vetted) => self.vetted(&mut step, agent, vetted),
            Input::ToolFinished(finished) => agent_step.tool_finished(finished),
            Input::ApprovalDecided(decided) => agent_step.approval_decided(decided),
            Input::Advised(advised) => agent_step.advised(advised),
            Input::Steered(steered) => Ok(agent_step.steered(steered)),
            Input::Cancelled(cancelled) => self.cancelled(&mut step, cancelled),
            Input::Resumed(resumed) => self.resumed(&mut step, resumed),
            Input::TimePassed => Ok(self.time_passed(&mut step)),
        }?;
        self.state.inputs_seen.extend(chosen_id);
        self.follow(&mut step, agent, next)?;
        let made_progress = !is_resume && !step.records.is_empty();
        let step = self.conclude(step);
        if made_progress || self.state.status == RunStatus::Waiting {
            self.state.taken_up = 0;
        }
        Ok(step)
    }

    /// The loop: performs the next action of one agent, then of others, until only an answer from outside can continue
    /// the run.
    fn follow(
        &mut self,
        step: &mut StepBuilder,
        mut agent: AgentId,
        mut next: Next,
    ) -> Result<(), InputError> {
        loop {
            let mut agent_step = self.agent_step(agent, step)?;
            next = match next {
                // The beginning.
                Next::Begin => agent_step.begin(),
                Next::Open => agent_step.agent.open(agent_step.spec),
                // A turn, up to its model call.
                Next::Continue => agent_step.continue_after_turn(),
                Next::BeginTurn => agent_step.begin_turn(),
                Next::AskForTurn(tools) => agent_step.ask_for_turn(tools),
                Next::CallModel(planned) => match agent_step.consult_about_call(planned) {
                    Some(planned) => agent_step.make_room(planned)?,
                    None => Next::Wait,
                },
                Next::CallAsIs(planned) => match agent_step.consult_about_call(planned) {
                    Some(planned) => agent_step.call_model(planned, None)?,
                    None => Next::Wait,
                },
                // The calls of the reply, until all have results.
                Next::Vet => agent_step.vet()?,
                Next::Schedule => agent_step.schedule()?,
                Next::Start(calls) => agent_step.start_calls(calls)?,
                Next::StartAgents(call) => self.start_agents(step, agent, call)?,
                Next::BeginQueued => agent_step.begin_queued(),
                Next::Collect(call) => agent_step.collect(&call)?,
                // The results, and what follows.
                Next::BatchOver => agent_step.batch_over()?,
                // The end.
                Next::AskLastAnswer(limit) => agent_step.ask_last_answer(limit),
                Next::FinishWithoutAnswer => {
                    let texts = agent_step.texts;
                    agent_step.agent.finish_without_answer(texts)?
                }
                Next::FinishWithDraft => agent_step.finish_with_draft(),
                Next::FinishWithQuestion => {
                    let question = agent_step.texts.notes.ask_user;
                    agent_step.agent.finish_with_question(question)
                }
                Next::FinishFailed(call, why) => agent_step.finish_failed(call, why),
                Next::Finish(reason, content) => agent_step.finish(reason, content),
                // Actions that concern several agents.
                Next::Resume(recheck) => agent_step.resume(recheck)?,
                Next::TimePassed => self.time_is_up(step, agent)?,
                Next::Wait => match step.todo.pop() {
                    Some((other, action)) => {
                        agent = other;
                        action
                    }
                    None => return Ok(()),
                },
            };
        }
    }

    /// Returns the agent that an input concerns; `None` if the input is a duplicate or comes too late.
    fn addressee(&self, input: &Input) -> Result<Option<AgentId>, InputError> {
        if let Some(effect) = input.effect() {
            let waiting = self.agents.iter().find(|agent| agent.waits_for(effect));
            let was_requested = effect.run == self.spec.run_id
                && (1..=self.state.counters.effects).contains(&effect.number);
            return match waiting {
                Some(agent) => Ok(Some(agent.id)),
                None if was_requested => Ok(None),
                None => Err(InputError::UnknownEffect(effect)),
            };
        }
        let is_known = |id: &InputId| self.state.inputs_seen.contains(id);
        if input.chosen_id().is_some_and(is_known) {
            return Ok(None);
        }
        let has_ended = self.state.status.is_ended();
        let at_work = |id: AgentId| {
            let agent = self.agent(id).filter(|agent| !agent.has_ended());
            agent.map(|_| Some(id)).ok_or(InputError::NoSuchAgent(id))
        };
        match input {
            Input::ApprovalDecided(decided) => {
                let call = &decided.tool_call_id;
                let asking = self.agents.iter().find(|agent| agent.asks_about(call));
                let asking = asking.map(|agent| Some(agent.id));
                asking.ok_or_else(|| InputError::NotWaiting(call.clone()))
            }
            Input::Steered(steered) => {
                steered.check()?;
                if has_ended {
                    return Err(InputError::RunEnded);
                }
                at_work(steered.agent)
            }
            Input::Cancelled(_) | Input::TimePassed if has_ended => Ok(None),
            Input::Cancelled(cancelled) => at_work(cancelled.agent),
            Input::Resumed(_) if has_ended => Err(InputError::RunEnded),
            _ => Ok(Some(AgentId::ROOT)),
        }
    }

    /// Looks up an agent, together with everything that its handlers may change.
    fn agent_step<'a>(
        &'a mut self,
        id: AgentId,
        step: &'a mut StepBuilder,
    ) -> Result<AgentStep<'a>, InputError> {
        let missing = InputError::Inconsistent("an agent is missing");
        let split = self.agents.split_at_mut_checked(place(id));
        let (above, rest) = split.ok_or_else(|| missing.clone())?;
        let (agent, below) = rest.split_first_mut().ok_or(missing)?;
        Ok(AgentStep {
            spec: agent.spec(&self.spec),
            texts: Texts::of(self.state.loop_version),
            agent,
            state: &mut self.state,
            step,
            run: &self.spec,
            above,
            below,
        })
    }

    fn agent(&self, id: AgentId) -> Option<&Agent> {
        self.agents.get(place(id))
    }

    /// Puts the run into a state that only a defect could lead to, for tests of what drivers do then.
    #[doc(hidden)]
    pub fn lose_agents(&mut self) {
        self.agents.clear();
    }
}
