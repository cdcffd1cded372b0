//! The turn loop as a pure state machine.
//!
//! [`RunTree`] holds one run whole: its agents, their conversations, what is under way. It performs nothing. An input is
//! handled once, for the one agent it concerns, in the file of what it tells: `run/model_replied.rs`, `run/tool_finished.rs`,
//! …; what people send in `run/interventions.rs`, what a hook advises in `run/consult.rs`. The handler returns what follows
//! as a [`Next`], and `RunTree::follow`, below, does that until nothing follows but an answer from outside. No handler calls
//! another, but `make_room`, where a summary is asked for, `call_model`: all the rest of the way is on this page.

mod agent;
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
mod subagents;
mod time_passed;
mod tool_finished;
mod turn;
mod vetted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::error::InputError;
use crate::finish::{FinishReason, RunStatus};
use crate::ids::{AgentId, CallIndex, InputId, Role, ToolCallId};
use crate::input::{Input, Recheck, Stamp};
use crate::json::is_default;
use crate::record::Record;
use crate::spec::RunSpec;
use agent::{Agent, OfferedTools, PlannedCall};
use last_answer::Limit;
use turn::{AgentTurn, Counters, StepBuilder, place};

pub use context::FittedRequest;
pub use last_answer::{MAX_TURNS_PROMPT, has_answered, is_last_answer, last_reply};
pub use queries::{CallStage, OpenCall};
pub use request_size::RequestSize;
pub(crate) use self_check::checked;

/// What one `start` or `advance` led to.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "effects must be performed and records kept"]
pub struct Step {
    /// Where the run stands now.
    pub status: RunStatus,
    /// What to do, in this order.
    pub effects: Vec<Effect>,
    /// What to keep: the first is the step's cause. Empty if the input changed nothing.
    pub records: Vec<Arc<Record>>,
    /// The active time at which [`Input::TimePassed`] is due, if nothing else comes first.
    pub wake_at: Option<Duration>,
}

/// A run: the root agent, its sub-agents, and everything needed to go on. Plain data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunTree {
    schema_version: u32,
    spec: Arc<RunSpec>,
    /// The root agent first; each stands behind the agent that started it.
    agents: Vec<Agent>,
    state: RunState,
}

/// What concerns a run as a whole, whichever of its agents is at work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RunState {
    status: RunStatus,
    counters: Counters,
    /// The active time of the last step that changed something.
    active: Duration,
    /// The ids of the inputs that a sender outside chose; a second one with the same id is a duplicate.
    inputs_seen: BTreeSet<InputId>,
    /// How long a question to a person stays open; for good if there is no limit.
    approval_expires: Option<Duration>,
    /// The roles that others serve for now, with those.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    downgraded: BTreeMap<Role, Role>,
    /// How many bytes its records weigh.
    log_bytes: u64,
    warned_of_log: bool,
    /// Whether it was said that a reply came without counts of tokens.
    #[serde(default, skip_serializing_if = "is_default")]
    warned_of_counts: bool,
    /// The version of the rules that it goes by: that of its log.
    #[serde(default)]
    loop_version: u32,
    /// How often in a row it was taken up without anything coming of it.
    #[serde(default, skip_serializing_if = "is_default")]
    taken_up: u32,
}

/// What follows for an agent from what just happened to it.
#[derive(Debug)]
enum Next {
    /// Nothing, until an answer comes from outside or another agent has something to do.
    Wait,
    /// The root agent begins: with the question which role serves, where one is to be asked.
    Begin,
    /// An agent's work begins as its profile says: by gathering, or with its first turn.
    Open,
    /// A turn is over: the next one, unless a limit was reached or the embedder's hook is to be asked.
    GoOn,
    /// The next turn begins.
    BeginTurn,
    /// The model is asked for the turn, with these tools on offer.
    AskForTurn(OfferedTools),
    /// A model is called, after the embedder's hook has looked at that and room was made for it in the conversation.
    CallModel(PlannedCall),
    /// A model is called, once the hook has looked at that, with the conversation as it stands.
    CallAtOnce(PlannedCall),
    /// The calls of a reply are checked, those that have no result yet.
    Vet,
    /// It is looked which calls may run now; once all have their results, the batch is over.
    Schedule,
    /// These calls are started.
    Start(Vec<CallIndex>),
    /// The agents of a call are started.
    StartAgents(CallIndex),
    /// Sub-agents that wait for their turn begin, as many as may work at a time.
    BeginQueued,
    /// A call has its result once all of its agents have ended.
    Collect(ToolCallId),
    /// The results of a batch join the conversation.
    BatchOver,
    /// A limit was reached: it is recorded, and a last answer asked for.
    AskLastAnswer(Limit),
    /// The agent ends without a usable last answer.
    FinishWithoutAnswer,
    /// The agent ends with its draft, or with what a check made of it.
    FinishWithDraft,
    /// The agent ends with a question to the person.
    FinishWithQuestion,
    /// The agent ends.
    Finish(FinishReason, String),
    /// What was under way when a process died is asked for anew.
    Resume(Recheck),
    /// A limit on the agent's time is reached.
    TimePassed,
}

impl RunTree {
    const SCHEMA_VERSION: u32 = 2;

    /// Tells the run what happened and returns what follows.
    ///
    /// A duplicate, or an answer to an effect that is settled, changes nothing and gives a step without records.
    ///
    /// # Errors
    ///
    /// An [`InputError`] for an input that cannot be; the run is unchanged, but after [`InputError::Inconsistent`].
    pub fn advance(&mut self, stamp: Stamp, input: Input) -> Result<Step, InputError> {
        if stamp.active_elapsed < self.state.active {
            return Err(InputError::TimeReversed);
        }
        let mut step = StepBuilder::new(self.spec.run_id, stamp, self.state.counters);
        let Some(agent) = self.addressee(&input)? else {
            return Ok(self.conclude(step));
        };
        let is_taking_up = matches!(input, Input::Resumed(_));
        let sender = input.sender().cloned();
        let mut turn = self.turn(agent, &mut step)?;
        let next = match input {
            Input::ModelReplied(replied) => turn.model_replied(replied),
            Input::ModelFailed(failed) => turn.model_failed(failed),
            Input::Vetted(vetted) => self.vetted(&mut step, agent, vetted),
            Input::ToolFinished(finished) => turn.tool_finished(finished),
            Input::ApprovalDecided(decided) => turn.approval_decided(decided),
            Input::Advised(advised) => turn.advised(advised),
            Input::Steered(steered) => Ok(turn.steered(steered)),
            Input::Cancelled(cancelled) => self.cancelled(&mut step, cancelled),
            Input::Resumed(resumed) => self.resumed(&mut step, resumed),
            Input::TimePassed => Ok(self.time_passed(&mut step)),
        }?;
        self.state.inputs_seen.extend(sender);
        self.follow(&mut step, agent, next)?;
        let comes_to_something = !is_taking_up && !step.records.is_empty();
        let step = self.conclude(step);
        if comes_to_something || self.state.status == RunStatus::Waiting {
            self.state.taken_up = 0;
        }
        Ok(step)
    }

    /// The loop: does what follows for an agent, and then for others, until nothing does but an answer from outside.
    fn follow(
        &mut self,
        step: &mut StepBuilder,
        mut agent: AgentId,
        mut next: Next,
    ) -> Result<(), InputError> {
        loop {
            let mut turn = self.turn(agent, step)?;
            next = match next {
                // How it begins.
                Next::Begin => turn.begin(),
                Next::Open => turn.agent.open(turn.spec),
                // A turn asks a model, …
                Next::GoOn => turn.go_on()?,
                Next::BeginTurn => turn.begin_turn()?,
                Next::AskForTurn(tools) => turn.ask_for_turn(tools),
                Next::CallModel(planned) => match turn.look_at(planned)? {
                    Some(planned) => turn.make_room(planned)?,
                    None => Next::Wait,
                },
                Next::CallAtOnce(planned) => match turn.look_at(planned)? {
                    Some(planned) => turn.call_model(planned, None)?,
                    None => Next::Wait,
                },
                // … whose calls are checked and run, …
                Next::Vet => turn.vet()?,
                Next::Schedule => turn.schedule()?,
                Next::Start(calls) => turn.start_calls(calls)?,
                Next::StartAgents(call) => self.start_agents(step, agent, call)?,
                Next::BeginQueued => turn.begin_queued(),
                Next::Collect(call) => turn.collect(&call)?,
                // … until all have their results, and it goes on.
                Next::BatchOver => turn.batch_over()?,
                // How it ends.
                Next::AskLastAnswer(limit) => turn.ask_last_answer(limit),
                Next::FinishWithoutAnswer => turn.agent.finish_without_answer()?,
                Next::FinishWithDraft => turn.finish_with_draft()?,
                Next::FinishWithQuestion => turn.agent.finish_with_question(),
                Next::Finish(reason, content) => turn.finish(reason, content),
                // What concerns several agents at once.
                Next::Resume(recheck) => turn.resume(recheck)?,
                Next::TimePassed => self.time_is_up(step, agent)?,
                Next::Wait => match step.todo.pop() {
                    Some((other, its)) => {
                        agent = other;
                        its
                    }
                    None => return Ok(()),
                },
            };
        }
    }

    /// Returns the agent that an input concerns; none if the input is a duplicate or comes too late.
    fn addressee(&self, input: &Input) -> Result<Option<AgentId>, InputError> {
        if let Some(effect) = input.effect() {
            let waiting = self.agents.iter().find(|agent| agent.waits_for(effect));
            let was_asked = effect.run == self.spec.run_id
                && (1..=self.state.counters.effects).contains(&effect.number);
            return match waiting {
                Some(agent) => Ok(Some(agent.id)),
                None if was_asked => Ok(None),
                None => Err(InputError::UnknownEffect(effect)),
            };
        }
        let is_known = |id: &InputId| self.state.inputs_seen.contains(id);
        if input.sender().is_some_and(is_known) {
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

    /// Looks an agent up, with all that its handlers may change.
    fn turn<'a>(
        &'a mut self,
        id: AgentId,
        step: &'a mut StepBuilder,
    ) -> Result<AgentTurn<'a>, InputError> {
        let missing = InputError::Inconsistent("an agent is missing");
        let split = self.agents.split_at_mut_checked(place(id));
        let (above, rest) = split.ok_or_else(|| missing.clone())?;
        let (agent, below) = rest.split_first_mut().ok_or(missing)?;
        Ok(AgentTurn {
            spec: agent.spec(&self.spec),
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
}
