//! What may happen: plans of runs, and events that fit whatever a run is asking for at the time.

mod parts;

use std::time::Duration;

use neuraxis_core::{
    ApprovalDecision, ClientTools, JsonText, LimitReached, Message, MicroUsd, Opening, Parallel,
    Profile, Reply, Role, RunSpec, ToolErrors, ToolOutcome, Transcript, UnknownTool, Usage,
    Vetting,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::support::{READ, spec};
use parts::{decision, outcome, reply, usage, verdict};

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
    /// Something the run no longer waits for is answered.
    Late(Answer),
    /// An input is delivered again.
    Again(Index),
    /// An input comes that cannot be.
    Impossible(Index, Answer),
    /// Somebody says something.
    Steer,
    /// Somebody wants it to end.
    Cancel,
    /// The process dies and another takes over, from the log or from stored state.
    Crash,
    /// So many milliseconds go by.
    Pass(u16),
}

/// An answer of every kind: the one that fits is used.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// Which of the open effects is answered.
    pub(super) which: Index,
    pub(super) reply: Reply,
    /// Whether the model call fails, and what follows.
    pub(super) failure: Option<ModelFailure>,
    pub(super) verdicts: Vec<Vetting>,
    pub(super) outcome: ToolOutcome,
    pub(super) decision: ApprovalDecision,
    pub(super) took: Duration,
    pub(super) cost: Option<MicroUsd>,
}

/// How a model call fails.
#[derive(Debug, Clone)]
pub(super) struct ModelFailure {
    pub(super) follows: bool,
    pub(super) usage: Option<Usage>,
}

impl Answer {
    /// The same answer by a driver that does not try a model again.
    pub(super) fn without_retry(&self) -> Self {
        let mut answer = self.clone();
        if let Some(failure) = &mut answer.failure {
            failure.follows = false;
        }
        answer
    }
}

pub(super) fn run() -> impl Strategy<Value = RunPlan> {
    let limits = (
        1..7_u32,
        prop_oneof![3 => Just(None), 1 => (0..8_u32).prop_map(Some)],
        prop_oneof![2 => Just(None), 1 => select(vec![0_u64, 60, 150]).prop_map(Some)],
    );
    let profile = (
        select(vec![Parallel::Auto, Parallel::All, Parallel::None]),
        mostly(UnknownTool::Retry, UnknownTool::Stop),
        mostly(ToolErrors::Continue, ToolErrors::Stop),
        mostly(LimitReached::LastAnswer, LimitReached::Finish),
        mostly(Opening::Direct, gather()),
    );
    let rest = (
        mostly(ClientTools::Wait, ClientTools::HandOver),
        prop::option::of(Just("Be brief.")),
        0..2_usize,
        0..4_usize,
    );
    (limits, profile, rest).prop_map(|(limits, profile, (client_tools, prompt, said, before))| {
        let mut spec = spec();
        spec.client_tools = client_tools;
        spec.messages.truncate(said);
        spec.root.system_prompt = prompt.map(Into::into);
        spec.root.limits.max_turns = Some(limits.0);
        spec.root.limits.max_tool_calls = limits.1;
        spec.root.limits.deadline = limits.2.map(Duration::from_millis);
        set(&mut spec.root.profile, profile);
        let history = [
            Message::system("Be kind."),
            Message::user("Hi."),
            Message::assistant("Hello."),
        ];
        let history = history.into_iter().skip(3 - before).collect();
        RunPlan { spec, history }
    })
}

/// Five times in six the one, else the other.
fn mostly<T: Clone + std::fmt::Debug>(one: T, other: T) -> impl Strategy<Value = T> {
    prop_oneof![5 => Just(one), 1 => Just(other)]
}

fn set(profile: &mut Profile, to: (Parallel, UnknownTool, ToolErrors, LimitReached, Opening)) {
    (
        profile.parallel,
        profile.unknown_tool,
        profile.tool_errors,
        profile.limit_reached,
        profile.opening,
    ) = to;
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
        4 => Just(Event::Steer),
        1 => Just(Event::Cancel),
        8 => Just(Event::Crash),
        12 => (0..60_u16).prop_map(Event::Pass),
    ]
}

pub(super) fn answer() -> impl Strategy<Value = Answer> {
    let failure = (mostly(true, false), prop::option::of(usage()))
        .prop_map(|(follows, usage)| ModelFailure { follows, usage });
    let failure = prop_oneof![9 => Just(None), 1 => failure.prop_map(Some)];
    let took = (0..3_000_000_u64).prop_map(Duration::from_nanos);
    let cost = prop::option::of((0..50_u64).prop_map(MicroUsd));
    (
        any::<Index>(),
        reply(),
        failure,
        prop::collection::vec(verdict(), 1..5),
        outcome(),
        decision(),
        took,
        cost,
    )
        .prop_map(
            |(which, reply, failure, verdicts, outcome, decision, took, cost)| Answer {
                which,
                reply,
                failure,
                verdicts,
                outcome,
                decision,
                took,
                cost,
            },
        )
}
