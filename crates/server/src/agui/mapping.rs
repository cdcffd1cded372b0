//! From the events of a run to those of AG-UI, in the order that its clients demand.
//!
//! A tool call is shown once its model call is on record, whole: what a reply began to call before it was void was never
//! called. Text that was shown and is void is taken back by a `MESSAGES_SNAPSHOT` without it. What the record of a model call
//! says that was not heard live, as after a restart, is shown from the record.
//!
//! A run that goes on begins with what it told before: that is heard, and not told again.

mod calls;
mod ending;
mod hearing;
mod shown;
mod speech;
mod subagents;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{
    AgentId, ApprovalRequested, EffectId, ModelRef, Purpose, Record, RunId, RunOutcome, RunSpec,
    SelfCheck, ToolCallId, Usage,
};
use serde_json::{Map, Value, json};

use self::shown::Shown;
use self::speech::Speech;
use self::subagents::Subagents;
use super::event::{Body, Outgoing, PROTOCOL_VERSION};
use super::input::Named;

/// The events of one run, told to one client.
#[derive(Debug)]
pub(super) struct Mapping {
    named: Named,
    run: RunId,
    /// The client's state, to which the plan is added; none where it is no object.
    state: Option<Map<String, Value>>,
    plan_is_shown: bool,
    /// What the run began with, and the check of its draft, if there is one.
    spec: Option<Arc<RunSpec>>,
    self_check: Option<SelfCheck>,
    shown: Shown,
    /// How many turns of the root agent began, and the model call of the last, while it is a step.
    turns: u32,
    step: Option<EffectId>,
    speaking: BTreeMap<EffectId, Speech>,
    /// The model calls that are on record: nothing more is heard of them.
    settled: BTreeSet<EffectId>,
    /// The calls that were told, and those of them that have their results.
    called: BTreeSet<ToolCallId>,
    answered: BTreeSet<ToolCallId>,
    subagents: Subagents,
    /// What a person has to decide.
    questions: Vec<(AgentId, ApprovalRequested)>,
    /// What the tools that the last reply called ask the user.
    asked: Vec<String>,
    usage: Vec<(ModelRef, Usage)>,
    waits: bool,
    /// Whether the client gave up what it was asked.
    is_given_up: bool,
    outcome: Option<RunOutcome>,
    /// What is to be told.
    out: Vec<Outgoing>,
    /// When what is heard happened.
    at: Option<i64>,
}

impl Mapping {
    /// Begins to tell a run.
    pub(super) fn new(named: Named, run: RunId, state: Option<Value>, said: Vec<Value>) -> Self {
        let state = match state {
            None => Some(Map::new()),
            Some(Value::Object(state)) => Some(state),
            Some(_) => None,
        };
        Self {
            named,
            run,
            state,
            plan_is_shown: false,
            spec: None,
            self_check: None,
            shown: Shown::after(said),
            turns: 0,
            step: None,
            speaking: BTreeMap::new(),
            settled: BTreeSet::new(),
            called: BTreeSet::new(),
            answered: BTreeSet::new(),
            subagents: Subagents::default(),
            questions: Vec::new(),
            asked: Vec::new(),
            usage: Vec::new(),
            waits: false,
            is_given_up: false,
            outcome: None,
            out: Vec::new(),
            at: None,
        }
    }

    /// Hears what was told before, so that it is not told again. Before [`begin`](Self::begin).
    pub(super) fn recall<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) {
        for record in records {
            self.record(record);
        }
        self.out.clear();
        self.shown.forget();
        self.speaking.clear();
        self.subagents.suspend();
        self.usage.clear();
        self.plan_is_shown = false;
        self.waits = false;
    }

    /// Tells no failure of the run as one: what a client was asked is open to it until a run finishes, so that one which gave
    /// it up would never be rid of it.
    pub(super) const fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Tells that the run began, or goes on.
    pub(super) fn begin(&mut self) {
        let Named {
            thread_id,
            run_id,
            parent_run_id,
        } = self.named.clone();
        let metadata = json!({"neuraxisRunId": self.run.to_string()});
        self.out.push(
            Body::RunStarted {
                thread_id,
                run_id,
                protocol_version: PROTOCOL_VERSION,
                parent_run_id,
                metadata: Some(metadata),
            }
            .into(),
        );
        self.subagents.go_on(self.run, &mut self.out);
        if self.step.is_some() {
            let step_name = step_name(self.turns);
            self.tell(AgentId::ROOT, Body::StepStarted { step_name });
        }
    }

    /// Hears an event of the run.
    pub(super) fn hear(&mut self, event: &Event) {
        if self.outcome.is_some() {
            return;
        }
        match event {
            Event::Record(record) => {
                self.at = Some(record.at.as_millisecond());
                self.record(record);
                self.at = None;
            }
            Event::Live(live) => self.live(live),
        }
    }

    /// Takes what is to be told.
    pub(super) fn take(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.out)
    }

    /// Tells whether the run came to wait, and has not gone on since.
    pub(super) const fn waits(&self) -> bool {
        self.waits
    }

    /// Tells whether the run has ended.
    pub(super) const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Tells whether a person reads such replies of an agent as they come. What is only a draft is told at the end, as it stands
    /// then.
    fn is_read_along(&self, agent: AgentId, purpose: Purpose) -> bool {
        let spec = self.spec.as_ref().filter(|_| agent == AgentId::ROOT);
        spec.is_none_or(|spec| spec.root.is_read_along(purpose, self.self_check.as_ref()))
    }

    /// Tells something of an agent. Of one that the client does not know of, nothing can be told.
    fn tell(&mut self, agent: AgentId, body: Body) {
        let subagent = self.subagents.id(agent);
        if agent == AgentId::ROOT || subagent.is_some() {
            self.out.push(Outgoing {
                body,
                timestamp: self.at,
                subagent,
            });
        }
    }

    /// Tells that another turn of the root agent began, if one did.
    fn turn(&mut self, agent: AgentId, call: EffectId) {
        if agent != AgentId::ROOT || self.step == Some(call) {
            return;
        }
        self.end_step();
        self.turns = self.turns.saturating_add(1);
        self.step = Some(call);
        let step_name = step_name(self.turns);
        self.tell(AgentId::ROOT, Body::StepStarted { step_name });
    }

    fn end_step(&mut self) {
        if self.step.take().is_some() {
            let step_name = step_name(self.turns);
            self.tell(AgentId::ROOT, Body::StepFinished { step_name });
        }
    }
}

fn step_name(turn: u32) -> String {
    format!("turn {turn}")
}

#[cfg(test)]
mod tests;
