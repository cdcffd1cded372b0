//! The cost of one step of the pure machine, and whether it grows with the history.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use neuraxis::Role;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::uuid::Uuid;
use neuraxis::core::{
    AgentSpec, Attempt, Effect, Input, JsonText, Limits, Message, ModelReplied, Profile, Reply,
    RunId, RunSpec, RunTree, Stamp, Step, TokenCount, ToolClass, ToolFinished, ToolOutcome,
    ToolOutput, Transcript, Vetted, Vetting,
};
use neuraxis_testkit::spec;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::median::median;
use crate::models;

const HISTORIES: [usize; 3] = [10, 100, 1_000];

/// The number of turns measured in each run, after those of its history.
const TURNS: usize = 20;
const RUNS: usize = 100;

/// The steps of a turn, named by their inputs.
const STEPS: [&str; 3] = ["`ModelReplied`", "`Vetted`", "`ToolFinished`"];

/// The size of the model's context in tokens. It is set, as with real models, so that the conversation is compared to
/// it, but too large to be reached.
const CONTEXT_TOKENS: u64 = 10_000_000;

/// Roughly the size of a call and its result.
const TOKENS_PER_TURN: u64 = 20;

/// The cost of a step: nanoseconds, bytes and allocations.
type Cost = (u128, usize, usize);

/// Whether the model reports how many tokens a call used. Otherwise the machine must estimate the size of the
/// conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UsageReported {
    Yes,
    No,
}

/// The medians: for each length of history, one per step.
#[derive(Debug)]
pub(crate) struct Steps {
    tables: Vec<(UsageReported, Vec<Vec<Cost>>)>,
    empty: u128,
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| step | usage told |")?;
        for turns in HISTORIES {
            write!(f, " after {turns} turns |")?;
        }
        writeln!(f, "\n| --- | --- | ---: | ---: | ---: |")?;
        for (usage_reported, histories) in &self.tables {
            let usage_reported = match usage_reported {
                UsageReported::Yes => "yes",
                UsageReported::No => "no",
            };
            for (place, step) in STEPS.iter().enumerate() {
                write!(f, "| {step} | {usage_reported} |")?;
                for costs in histories {
                    let (nanos, bytes, count) = costs.get(place).copied().unwrap_or_default();
                    write!(f, " {nanos} ns, {bytes} bytes in {count} |")?;
                }
                writeln!(f)?;
            }
        }
        writeln!(
            f,
            "\nTaking the time of nothing gives {} ns, which each of these times holds.",
            self.empty
        )
    }
}

pub(crate) fn measure() -> Result<Steps> {
    let mut tables = Vec::new();
    for usage_reported in [UsageReported::Yes, UsageReported::No] {
        let histories = HISTORIES
            .into_iter()
            .map(|turns| after(turns, usage_reported));
        tables.push((usage_reported, histories.collect::<Result<_>>()?));
    }
    let empty = median(
        (0..10_000)
            .map(|_| Instant::now().elapsed().as_nanos())
            .collect(),
    );
    Ok(Steps { tables, empty })
}

/// Returns the medians of the steps after this many turns.
fn after(turns: usize, usage_reported: UsageReported) -> Result<Vec<Cost>> {
    let mut costs: [Vec<Cost>; 3] = Default::default();
    for _ in 0..RUNS {
        let mut run = Scripted::start(usage_reported)?;
        for _ in 0..turns {
            run.turn()?;
        }
        for _ in 0..TURNS {
            for (all, cost) in costs.iter_mut().zip(run.turn()?) {
                all.push(cost);
            }
        }
    }
    Ok(costs.iter().map(|all| medians(all)).collect())
}

fn medians(costs: &[Cost]) -> Cost {
    (
        median(costs.iter().map(|cost| cost.0).collect()),
        median(costs.iter().map(|cost| cost.1).collect()),
        median(costs.iter().map(|cost| cost.2).collect()),
    )
}

/// A run in which every turn calls one tool.
struct Scripted {
    tree: RunTree,
    step: Step,
    turn: usize,
    usage_reported: UsageReported,
}

impl Scripted {
    fn start(usage_reported: UsageReported) -> Result<Self> {
        let mut agent = AgentSpec::new(Profile::main_thread(), Role::REASONING);
        agent.limits = Limits::NONE;
        agent.context_tokens = Some(CONTEXT_TOKENS);
        agent.system_prompt = Some("Use the tools you are offered.".into());
        agent.tools = Arc::from([spec("add").read_only().build()]);
        let question = Message::user("Please add up the numbers.");
        let spec = RunSpec::new(RunId(Uuid::nil()), [question], agent);
        let (tree, step) = RunTree::start(spec, Transcript::default(), now());
        Ok(Self {
            tree,
            step,
            turn: 0,
            usage_reported,
        })
    }

    /// Plays one turn and returns the cost of each of its steps.
    fn turn(&mut self) -> Result<[Cost; 3]> {
        self.turn += 1;
        Ok([
            self.advance("a model call")?,
            self.advance("a check")?,
            self.advance("a tool call")?,
        ])
    }

    /// Answers what the last step requested. Building the answer and dropping the last step's output are not counted.
    fn advance(&mut self, expected: &str) -> Result<Cost> {
        let effect = self.step.effects.first();
        let effect = effect.with_context(|| format!("no effect where {expected} was expected"))?;
        let input = self.answer(effect)?;
        // As a driver does: the request of a call that has ended is dropped before the run receives the result.
        self.step.effects.clear();
        let stamp = now();
        let region = Region::new(&INSTRUMENTED_SYSTEM);
        let started = Instant::now();
        let step = black_box(self.tree.advance(stamp, black_box(input)));
        let time = started.elapsed();
        let change = region.change();
        self.step = step?;
        let count = change.allocations + change.reallocations;
        Ok((time.as_nanos(), change.bytes_allocated, count))
    }

    fn reply(&self) -> Reply {
        let mut reply = models::call(self.turn);
        if self.usage_reported == UsageReported::Yes {
            let turn = u64::try_from(self.turn).unwrap_or(u64::MAX);
            reply.usage.prompt = TokenCount::measured(TOKENS_PER_TURN * turn);
            reply.usage.completion = TokenCount::measured(TOKENS_PER_TURN / 2);
        }
        reply
    }

    fn answer(&self, effect: &Effect) -> Result<Input> {
        Ok(match effect {
            Effect::CallModel(call) => Input::ModelReplied(ModelReplied {
                effect_id: call.effect_id,
                attempt: Attempt(1),
                reply: Arc::new(self.reply()),
                served_by: Role::REASONING,
                downgraded: None,
                cost: None,
                cost_label: Default::default(),
                duration: Duration::from_millis(5),
                first_delta: None,
            }),
            Effect::Vet(vet) => Input::Vetted(Vetted {
                effect_id: vet.effect_id,
                calls: vec![Vetting::run(ToolClass::ReadOnly)],
                granted: Vec::new(),
                advised: Vec::new(),
            }),
            Effect::RunTool(run) => Input::ToolFinished(ToolFinished {
                effect_id: run.effect_id,
                attempt: run.attempt,
                outcome: ToolOutcome::done(ToolOutput::new(JsonText::from_text(r#"{"sum":3}"#))),
                duration: Duration::from_millis(1),
                by: None,
            }),
            other => bail!("the script has no answer to {other:?}"),
        })
    }
}

fn now() -> Stamp {
    Stamp::new(Timestamp::UNIX_EPOCH, Duration::ZERO)
}
