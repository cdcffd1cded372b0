//! The turn loop as a pure state machine.
//!
//! [`RunTree`] holds one run whole: its agents, their conversations, what is under way. It performs nothing. Each input
//! is handled in a file of its own (`run/model_replied.rs`, `run/tool_finished.rs`, …); the rules they share stand in
//! `run/schedule.rs` (which calls may run now), `run/agents.rs` (sub-agents), `run/budget.rs` (what they may use),
//! `run/context.rs` (what fits the model), `run/repeats.rs` (the same call again and again), `run/last_answer.rs` (how a
//! limit ends in an answer), `run/ways.rs` (what else a decision asks for) and `run/finish.rs` (how a run ends with a
//! valid history).

mod abandon;
mod advised;
mod agent;
mod agents;
mod approval_decided;
mod arguments;
mod batch;
mod batch_over;
mod budget;
mod cancelled;
mod compaction;
mod consult;
mod context;
mod downgrade;
mod draft;
mod escalation;
mod finish;
mod gather;
mod last_answer;
mod long_log;
mod model_call;
mod model_failed;
mod model_replied;
mod notes;
mod open_calls;
mod repeats;
mod restore;
mod resumed;
mod routing;
mod schedule;
mod self_check;
mod start;
mod steered;
mod time_passed;
mod tool_finished;
mod tool_markup;
mod vetted;
mod waiting;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::decision::Taint;
use crate::effect::Effect;
use crate::error::InputError;
use crate::finish::RunStatus;
use crate::ids::{AgentId, ContentIndex, EffectId, InputId, Role, RunId, Seq};
use crate::input::{Input, Stamp};
use crate::message::Message;
use crate::record::{Pending, Record};
use crate::spec::RunSpec;
use crate::tool::ToolSpec;
use crate::transcript::Transcript;
use crate::usage::RunUsage;
use agent::Agent;
use draft::Draft;
use ways::Ways;

pub(crate) use context::shortened;
pub use last_answer::{MAX_TURNS_PROMPT, is_last_answer};
pub use open_calls::{CallStage, OpenCall};
pub(crate) use self_check::{checked, corrected};
pub(crate) use tool_finished::left_of;

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
    status: RunStatus,
    /// The last record's number.
    seq: Seq,
    next_content: ContentIndex,
    /// How many effects were asked for.
    effects: u32,
    active: Duration,
    inputs_seen: BTreeSet<InputId>,
    /// How long a question to a person stays open.
    approval_expires: Option<Duration>,
    agents: Vec<Agent>,
    /// What the decision asks for beside models, tools and limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ways: Option<Box<Ways>>,
    /// The roles that others serve for now, with those.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    downgraded: BTreeMap<Role, Role>,
    /// How many bytes its records weigh.
    log_bytes: u64,
    warned_of_log: bool,
    /// How often in a row it was taken up without anything coming of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    taken_up: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field over by reference"
)]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl RunTree {
    const SCHEMA_VERSION: u32 = 1;

    /// Tells the run what happened and returns what follows.
    ///
    /// A duplicate, or an answer to an effect that is settled, changes nothing and gives a step without records.
    ///
    /// # Errors
    ///
    /// An [`InputError`] for an input that cannot be; the run is unchanged.
    pub fn advance(&mut self, stamp: Stamp, input: Input) -> Result<Step, InputError> {
        if stamp.active_elapsed < self.active {
            return Err(InputError::TimeReversed);
        }
        let mut draft = Draft::new(self.spec.run_id, stamp);
        let is_taking_up = matches!(input, Input::Resumed(_));
        match input {
            Input::ModelReplied(replied) => self.model_replied(&mut draft, replied),
            Input::ModelFailed(failed) => self.model_failed(&mut draft, failed),
            Input::Vetted(vetted) => self.vetted(&mut draft, vetted),
            Input::ToolFinished(finished) => self.tool_finished(&mut draft, finished),
            Input::ApprovalDecided(decided) => self.approval_decided(&mut draft, decided),
            Input::Advised(advised) => self.advised(&mut draft, advised),
            Input::Steered(steered) => self.steered(&mut draft, steered),
            Input::Cancelled(cancelled) => self.cancelled(&mut draft, cancelled),
            Input::Resumed(resumed) => self.resumed(&mut draft, resumed),
            Input::TimePassed => {
                self.time_passed(&mut draft);
                Ok(())
            }
        }?;
        let comes_to_something = !is_taking_up && !draft.records.is_empty();
        let step = self.conclude(draft);
        if comes_to_something || self.status == RunStatus::Waiting {
            self.taken_up = 0;
        }
        Ok(step)
    }

    /// Returns how often in a row the run was taken up without anything coming of it: no answer of a model, a tool or a
    /// person was recorded since, and the run did not come to wait.
    #[must_use]
    pub const fn taken_up_in_vain(&self) -> u32 {
        self.taken_up
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        self.spec.run_id
    }

    /// Returns where the run stands.
    #[must_use]
    pub const fn status(&self) -> RunStatus {
        self.status
    }

    /// Returns the last record's number.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the conversation of the root agent: system prompt, history and what this run added.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        self.agents
            .first()
            .map_or(&[], |root| root.transcript.messages())
    }

    /// As [`messages`](Self::messages), shared instead of borrowed.
    #[must_use]
    pub fn transcript(&self) -> Transcript {
        let root = self.agents.first();
        root.map(|root| root.transcript.clone()).unwrap_or_default()
    }

    /// Returns what the run used so far.
    #[must_use]
    pub fn usage(&self) -> RunUsage {
        self.usage_of(AgentId::ROOT)
    }

    /// Returns how many turns of the root agent counted so far, one whose calls are under way included.
    #[must_use]
    pub fn turns(&self) -> u32 {
        let root = self.agents.first();
        root.map_or(0, |root| {
            let under_way = u32::from(root.batch().is_some());
            root.turns_used.saturating_add(under_way)
        })
    }

    /// Returns the tools that an agent of this run is offered.
    #[must_use]
    pub fn tools(&self, agent: AgentId) -> &[ToolSpec] {
        &self.agent_spec(agent).tools
    }

    /// Returns the untrusted content that an agent's conversation holds, that of its parent when it was started included.
    #[must_use]
    pub fn taint(&self, agent: AgentId) -> Option<&Taint> {
        self.agent(agent).map(|agent| &agent.taint)
    }

    /// Returns what the run waits for now: decisions of people and results of a client's tools, of all agents.
    #[must_use]
    pub fn pending(&self) -> Vec<Pending> {
        self.agents.iter().flat_map(Agent::pending).collect()
    }

    fn conclude(&mut self, draft: Draft) -> Step {
        if !draft.records.is_empty() {
            self.active = draft.stamp.active_elapsed;
        }
        let mut draft = self.settle_status(draft);
        self.mind_the_log(&mut draft);
        Step {
            status: self.status,
            effects: draft.effects,
            records: draft.records,
            wake_at: self.wake_at(),
        }
    }

    fn new_effect(&mut self) -> EffectId {
        self.effects = self.effects.saturating_add(1);
        EffectId {
            run: self.spec.run_id,
            number: self.effects,
        }
    }

    fn new_content_index(&mut self) -> ContentIndex {
        let index = self.next_content;
        self.next_content = index.next();
        index
    }

    /// Remembers the id of an input from outside; false if it was seen before.
    fn first_time(&mut self, id: &InputId) -> bool {
        self.inputs_seen.insert(id.clone())
    }

    /// Tells whether an effect with this id was ever asked for, so that an answer to it is at least possible.
    fn was_asked(&self, effect: EffectId) -> bool {
        effect.run == self.spec.run_id && (1..=self.effects).contains(&effect.number)
    }

    /// What to say of an answer for which no effect is open: nothing if it comes late, an error if it cannot be.
    fn late_or_unknown(&self, effect: EffectId) -> Result<(), InputError> {
        if self.was_asked(effect) {
            Ok(())
        } else {
            Err(InputError::UnknownEffect(effect))
        }
    }
}
