//! What may happen: plans of runs, and events that fit whatever a run is currently asking for.

mod agents;
mod decisions;
mod histories;
mod parts;

use std::time::Duration;

use neuraxis_core::{
    Advice, ApprovalDecision, ClientTools, JsonText, Limits, LlmErrorKind, MicroUsd, Opening,
    Reply, Role, RunSpec, ToolOutcome, Transcript, Usage, Vetting,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{READ, RESEARCH, spec};
use parts::{advice, decision, kind, outcome, reply, usage, verdict};

/// How a run is started.
#[derive(Debug, Clone)]
pub(super) struct RunPlan {
    pub(super) spec: RunSpec,
    pub(super) history: Transcript,
}

/// Something that happens to a run.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// Something the run asked for is answered.
    Answer(Answer),
    /// Something the run is no longer waiting for is answered.
    Late(Answer),
    /// An input is delivered again.
    Again(Index),
    /// An impossible input arrives.
    Impossible(Index, Answer),
    /// A message for one of its agents.
    Steer(Index),
    /// A request to end it.
    Cancel,
    /// A request to end one of its sub-agents.
    CancelAgent(Index),
    /// The process dies and another takes over, from the log or from stored state.
    Crash,
    /// The given number of milliseconds passes.
    Pass(u16),
}

/// Answers of every kind: the one that fits is used.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// The open effect that is answered.
    pub(super) which: Index,
    pub(super) reply: Reply,
    /// Whether the model call fails, and what follows.
    pub(super) failure: Option<ModelFailure>,
    pub(super) verdicts: Vec<Vetting>,
    pub(super) outcome: ToolOutcome,
    pub(super) decision: ApprovalDecision,
    pub(super) took: Duration,
    pub(super) cost: Option<MicroUsd>,
    pub(super) advice: Advice,
    /// Whether a role other than the requested one serves.
    pub(super) downgraded: bool,
}

/// How a model call fails.
#[derive(Debug, Clone)]
pub(super) struct ModelFailure {
    pub(super) kind: LlmErrorKind,
    pub(super) follows: bool,
    pub(super) usage: Option<Usage>,
}

impl Answer {
    /// Returns the same answer from a driver that does not retry model calls.
    pub(super) fn without_retry(&self) -> Self {
        let mut answer = self.clone();
        if let Some(failure) = &mut answer.failure {
            failure.follows = false;
        }
        answer
    }
}

// Strategies with many parts are boxed: their values are large, and a test's stack is small.
pub(super) fn run() -> impl Strategy<Value = RunPlan> {
    let rest = (
        mostly(ClientTools::Wait, ClientTools::HandOver),
        prop::option::of(Just("Be brief.")),
        0..2_usize,
        mostly(Opening::Direct, gather()),
        mostly(Limits::NONE, short_of_time()),
    );
    let below = prop::option::of((agents::agent(1..4), agents::limits()));
    let decision = decisions::decision();
    (
        agents::agent(1..7),
        below,
        histories::history(),
        rest,
        decision,
    )
        .prop_map(|(root, below, history, rest, decision)| {
            let (client_tools, prompt, said, opening, time) = rest;
            let mut spec = spec();
            spec.client_tools = client_tools;
            spec.messages.truncate(said);
            spec.root = root;
            spec.root.system_prompt = prompt.map(Into::into);
            spec.root.profile.opening = opening;
            spec.root.limits.deadline = time.deadline;
            spec.decision = decision.map(Into::into);
            if let Some((agent, limits)) = below {
                spec.agents.insert(RESEARCH.parse().unwrap(), agent);
                spec.agent_limits = limits;
            }
            RunPlan { spec, history }
        })
        .boxed()
}

/// The first value five times out of six, otherwise the second.
fn mostly<T: Clone + std::fmt::Debug>(one: T, other: T) -> impl Strategy<Value = T> {
    prop_oneof![5 => Just(one), 1 => Just(other)]
}

fn short_of_time() -> Limits {
    Limits {
        deadline: Some(Duration::from_millis(150)),
        ..Limits::NONE
    }
}

fn gather() -> Opening {
    Opening::Gather {
        role: Role::ROUTER,
        tool: READ.parse().unwrap(),
        default_arguments: JsonText::from_text(r#"{"path":"all"}"#),
    }
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        60 => answer().prop_map(Event::Answer),
        4 => answer().prop_map(Event::Late),
        4 => any::<Index>().prop_map(Event::Again),
        4 => (any::<Index>(), answer()).prop_map(|(which, answer)| Event::Impossible(which, answer)),
        4 => any::<Index>().prop_map(Event::Steer),
        1 => Just(Event::Cancel),
        1 => any::<Index>().prop_map(Event::CancelAgent),
        8 => Just(Event::Crash),
        12 => (0..60_u16).prop_map(Event::Pass),
    ]
}

pub(super) fn answer() -> impl Strategy<Value = Answer> {
    let failure =
        (kind(), any::<bool>(), prop::option::of(usage())).prop_map(|(kind, follows, usage)| {
            ModelFailure {
                kind,
                follows,
                usage,
            }
        });
    let failure = prop_oneof![9 => Just(None), 1 => failure.prop_map(Some)];
    let took = (0..3_000_000_u64).prop_map(Duration::from_nanos);
    let cost = prop::option::of((0..50_u64).prop_map(MicroUsd));
    (
        any::<Index>(),
        reply().boxed(),
        failure.boxed(),
        prop::collection::vec(verdict(), 1..5).boxed(),
        outcome().boxed(),
        decision().boxed(),
        took,
        cost,
        advice().boxed(),
        prop_oneof![9 => Just(false), 1 => Just(true)],
    )
        .prop_map(
            |(
                which,
                reply,
                failure,
                verdicts,
                outcome,
                decision,
                took,
                cost,
                advice,
                downgraded,
            )| Answer {
                which,
                reply,
                failure,
                verdicts,
                outcome,
                decision,
                took,
                cost,
                advice,
                downgraded,
            },
        )
        .boxed()
}
