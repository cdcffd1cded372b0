//! What one step of the pure machine costs, and whether it grows with the history.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use neuraxis::Role;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::uuid::Uuid;
use neuraxis::core::{
    AgentSpec, Attempt, Effect, Input, JsonText, Limits, Message, ModelReplied, Profile, RunId,
    RunSpec, RunTree, Stamp, Step, ToolClass, ToolFinished, ToolOutcome, ToolOutput, Transcript,
    Vetted, Vetting,
};
use neuraxis_testkit::spec;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::median::median;
use crate::models;

const HISTORIES: [usize; 3] = [10, 100, 1_000];

/// Turns that are measured in each run, after those of its history.
const TURNS: usize = 20;
const RUNS: usize = 100;

/// The steps of a turn, by their inputs.
const STEPS: [&str; 3] = ["`ModelReplied`", "`Vetted`", "`ToolFinished`"];

/// The model's context in tokens: known, as with real models, so that the conversation is held against it, and too
/// large to be reached.
const CONTEXT_TOKENS: u64 = 10_000_000;

/// What a step took: nanoseconds, bytes and allocations.
type Cost = (u128, usize, usize);

/// The medians, a row a length of history.
#[derive(Debug)]
pub(crate) struct Steps {
    rows: Vec<(usize, Vec<Cost>)>,
    empty: u128,
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| step | turns before it | time | allocated | allocations |"
        )?;
        writeln!(f, "| --- | ---: | ---: | ---: | ---: |")?;
        for (place, step) in STEPS.iter().enumerate() {
            for (turns, costs) in &self.rows {
                let (nanos, bytes, count) = costs.get(place).copied().unwrap_or_default();
                writeln!(
                    f,
                    "| {step} | {turns} | {nanos} ns | {bytes} bytes | {count} |"
                )?;
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
    let mut rows = Vec::new();
    for turns in HISTORIES {
        let mut costs: [Vec<Cost>; 3] = Default::default();
        for _ in 0..RUNS {
            let mut run = Scripted::start()?;
            for _ in 0..turns {
                run.turn()?;
            }
            for _ in 0..TURNS {
                for (all, cost) in costs.iter_mut().zip(run.turn()?) {
                    all.push(cost);
                }
            }
        }
        rows.push((turns, costs.iter().map(|all| medians(all)).collect()));
    }
    let empty = median(
        (0..10_000)
            .map(|_| Instant::now().elapsed().as_nanos())
            .collect(),
    );
    Ok(Steps { rows, empty })
}

fn medians(costs: &[Cost]) -> Cost {
    (
        median(costs.iter().map(|cost| cost.0).collect()),
        median(costs.iter().map(|cost| cost.1).collect()),
        median(costs.iter().map(|cost| cost.2).collect()),
    )
}

/// A run whose every turn calls one tool.
struct Scripted {
    tree: RunTree,
    step: Step,
    turn: usize,
}

impl Scripted {
    fn start() -> Result<Self> {
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
        })
    }

    /// Plays one turn and tells what each of its steps took.
    fn turn(&mut self) -> Result<[Cost; 3]> {
        self.turn += 1;
        Ok([
            self.advance("a model call")?,
            self.advance("a check")?,
            self.advance("a tool call")?,
        ])
    }

    /// Answers what the last step asked for. Making the answer and dropping what the last step left is not counted.
    fn advance(&mut self, expected: &str) -> Result<Cost> {
        let effect = self.step.effects.first();
        let effect = effect.with_context(|| format!("no effect where {expected} was expected"))?;
        let input = self.answer(effect)?;
        // As a driver does: the request of a call that has ended is let go before the run hears of it.
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

    fn answer(&self, effect: &Effect) -> Result<Input> {
        Ok(match effect {
            Effect::CallModel(call) => Input::ModelReplied(ModelReplied {
                effect_id: call.effect_id,
                attempt: Attempt(1),
                reply: Arc::new(models::call(self.turn)),
                served_by: Role::REASONING,
                cost: None,
                duration: Duration::from_millis(5),
                first_delta: None,
            }),
            Effect::Vet(vet) => Input::Vetted(Vetted {
                effect_id: vet.effect_id,
                calls: vec![Vetting::Run {
                    class: ToolClass::ReadOnly,
                }],
            }),
            Effect::RunTool(run) => Input::ToolFinished(ToolFinished {
                effect_id: run.effect_id,
                attempt: run.attempt,
                outcome: ToolOutcome::done(ToolOutput::new(JsonText::from_text(r#"{"sum":3}"#))),
                duration: Duration::from_millis(1),
            }),
            other => bail!("the script has no answer to {other:?}"),
        })
    }
}

fn now() -> Stamp {
    Stamp::new(Timestamp::UNIX_EPOCH, Duration::ZERO)
}
