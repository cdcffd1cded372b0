//! The environment of a run: makes events happen to it.

mod answers;
mod books;
mod impossible;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    AgentId, AgentSpec, Cancelled, Effect, Input, InputError, InputId, Limits, Message, Profile,
    Record, Resumed, RunSpec, RunStatus, RunTree, Stamp, Steered, ToolCallStarted, ToolSpec,
    Transcript, continued_history,
};

use super::invariants;
use super::plan::{Event, RunPlan};
use crate::support::RESEARCH;

/// A run and everything outside it.
pub(super) struct World {
    spec: RunSpec,
    pub(super) tree: RunTree,
    pub(super) history: Transcript,
    /// The number of messages that the run began with, not counting its own.
    pub(super) before: usize,
    pub(super) records: Vec<Arc<Record>>,
    /// The effects that the run is waiting for.
    pub(super) open: Vec<Effect>,
    /// The agents that have not ended, in the order they were started.
    pub(super) alive: Vec<AgentId>,
    /// The tools in the requests of each agent before the last step.
    pub(super) offered: BTreeMap<AgentId, Vec<ToolSpec>>,
    /// The number of steps so far.
    pub(super) steps: usize,
    /// The calls that it waits for its client to run.
    pub(super) with_client: Vec<ToolCallStarted>,
    /// The effects that it is no longer waiting for.
    gone: Vec<Effect>,
    /// Every input that it accepted.
    sent: Vec<Input>,
    active: Duration,
    ids: u32,
}

/// Something that needs an answer.
#[derive(Debug, Clone)]
enum Open {
    Effect(Effect),
    Client(ToolCallStarted),
}

impl World {
    pub(super) fn start(plan: &RunPlan) -> Self {
        let (spec, history) = (plan.spec.clone(), plan.history.clone());
        let (tree, step) = RunTree::start(spec, history.clone(), stamp(Duration::ZERO));
        let given = continued_history(&history, &[]);
        let begins_with_system = given
            .messages()
            .first()
            .is_some_and(|message| matches!(**message, Message::System { .. }));
        let prompt = plan.spec.root.system_prompt.is_some() && !begins_with_system;
        let mut world = Self {
            before: given.len() + usize::from(prompt),
            spec: plan.spec.clone(),
            tree,
            history,
            records: Vec::new(),
            open: Vec::new(),
            alive: vec![AgentId::ROOT],
            offered: BTreeMap::new(),
            steps: 0,
            with_client: Vec::new(),
            gone: Vec::new(),
            sent: Vec::new(),
            active: Duration::ZERO,
            ids: 0,
        };
        world.take(&step);
        invariants::hold(&world, &step);
        world.note_offers();
        world
    }

    pub(super) const fn status(&self) -> RunStatus {
        self.tree.status()
    }

    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty() || !self.with_client.is_empty()
    }

    pub(super) fn kinds(&self) -> Vec<&'static str> {
        self.records
            .iter()
            .map(|record| record.body.kind())
            .collect()
    }

    /// Checks what must be true of a run that has ended.
    pub(super) fn check_end(&mut self) {
        invariants::hold_at_the_end(self);
        for input in self.sent.clone() {
            self.send_in_vain(input);
        }
        let error = self.refused(Input::Steered(Steered::new(
            InputId::new("too late"),
            Arc::new(Message::user("Hello?")),
        )));
        assert_eq!(error, InputError::RunEnded);
    }

    /// Returns an agent's limits.
    pub(super) fn limits_of(&self, agent: AgentId) -> Limits {
        self.spec_of(agent).limits
    }

    /// Returns an agent's profile.
    pub(super) fn profile_of(&self, agent: AgentId) -> &Profile {
        &self.spec_of(agent).profile
    }

    /// Notes the tools in the requests of all agents, to compare them with later ones.
    fn note_offers(&mut self) {
        for agent in &self.alive {
            let tools = self.tree.offered_tools(*agent).to_vec();
            self.offered.insert(*agent, tools);
        }
    }

    /// Returns an agent's spec.
    pub(super) fn spec_of(&self, agent: AgentId) -> &AgentSpec {
        if agent == AgentId::ROOT {
            &self.spec.root
        } else {
            &self.spec.agents[&RESEARCH.parse().unwrap()]
        }
    }

    pub(super) fn now(&self) -> Stamp {
        stamp(self.active)
    }

    pub(super) fn meet(&mut self, event: &Event) {
        match event {
            Event::Answer(answer) => {
                if let Some(open) = self.pick(answer) {
                    let input = self.answer(&open, answer);
                    self.send(input);
                }
            }
            Event::Late(answer) => self.answer_late(answer),
            Event::Again(which) => {
                if !self.sent.is_empty() {
                    self.send_in_vain(which.get(&self.sent).clone());
                }
            }
            Event::Impossible(which, answer) => self.do_the_impossible(which.index(4), answer),
            Event::Steer(which) if !self.status().is_ended() => {
                let mut steered = Steered::new(self.new_id(), Message::user("And why?").into());
                steered.agent = *which.get(&self.alive);
                self.send(Input::Steered(steered));
            }
            Event::CancelAgent(which) if !self.status().is_ended() => {
                let mut cancelled = Cancelled::new(self.new_id(), "not this one");
                cancelled.agent = *which.get(&self.alive);
                if cancelled.agent != AgentId::ROOT {
                    self.send(Input::Cancelled(cancelled));
                }
            }
            Event::Cancel if !self.status().is_ended() => {
                let (id, reason) = (self.new_id(), "enough".to_owned());
                self.send(Input::Cancelled(Cancelled::new(id, reason)));
            }
            Event::Crash if !self.status().is_ended() => {
                let (id, reason) = (self.new_id(), "it died".to_owned());
                self.gone.append(&mut self.open);
                self.send(Input::Resumed(Resumed::new(id, reason).checking_calls()));
            }
            Event::Steer(_) | Event::Cancel | Event::CancelAgent(_) | Event::Crash => {}
            Event::Pass(millis) => self.pass(Duration::from_millis(u64::from(*millis))),
        }
    }

    fn pass(&mut self, time: Duration) {
        if self.status() == RunStatus::Waiting {
            return;
        }
        self.active += time;
        let before = self.tree.clone();
        let step = self
            .tree
            .advance(stamp(self.active), Input::TimePassed)
            .unwrap();
        if step.records.is_empty() {
            assert!(self.tree == before);
        }
        self.take(&step);
        invariants::hold(self, &step);
        self.note_offers();
    }

    fn send(&mut self, input: Input) {
        let step = self
            .tree
            .advance(stamp(self.active), input.clone())
            .unwrap();
        assert!(!step.records.is_empty(), "{input:?} was ignored");
        assert_eq!(step.records[0].cause().unwrap().kind(), input.kind());
        self.sent.push(input);
        self.take(&step);
        invariants::hold(self, &step);
        self.note_offers();
    }

    fn send_in_vain(&mut self, input: Input) {
        let before = self.tree.clone();
        let step = self.tree.advance(stamp(self.active), input).unwrap();
        assert_eq!((step.records, step.effects), (vec![], vec![]));
        assert!(self.tree == before);
    }

    fn refused(&mut self, input: Input) -> InputError {
        let before = self.tree.clone();
        let error = self.tree.advance(stamp(self.active), input).unwrap_err();
        assert!(self.tree == before);
        error
    }

    fn new_id(&mut self) -> InputId {
        self.ids += 1;
        InputId::new(format!("input-{}", self.ids))
    }
}

fn stamp(active: Duration) -> Stamp {
    Stamp::new(Timestamp::UNIX_EPOCH + active, active)
}
