//! A run read back from its records, with the inputs it receives first: what was supplied to it, and that it was
//! resumed.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::RunView;
use neuraxis_core::{
    AgentId, CallStage, DataPolicy, Effect, EffectId, InboxEntry, Input, InputError, InputId,
    Limits, OpenCall, Record, Resumed, RunStatus, RunTree, Seq, Stamp, Step, ToolCallId,
    ToolFinished, ToolKind, ToolOutcome, TraceContext, Transcript,
};
use neuraxis_ports::RequestContext;

use super::{Answer, ResumeError};
use crate::driver::ReadyRun;
use crate::engine::Engine;

/// A run that can continue, and the inputs it should receive first.
#[derive(Debug)]
pub(super) struct RestoredRun {
    pub(super) tree: RunTree,
    inputs: Vec<Input>,
    /// The inputs from its inbox that the run accepted when tried.
    posted: Vec<Input>,
    /// The effects of its first step, if none of them was begun yet.
    unbegun: Vec<Effect>,
    /// The approvals that it waits for, if it is supplied with answers: those still open are not asked about again.
    not_to_ask: Vec<EffectId>,
    /// How long the run had been active when its last step was recorded.
    active: Duration,
}

impl RestoredRun {
    /// Reads a run back and checks that it accepts what it is supplied with. The run is first told that it was resumed,
    /// so that what was in progress is requested again, and every call is checked before it starts. Its approver is
    /// then also asked again, unless the run is supplied with answers. The run is not told this if the run waits only
    /// for answers and its limits are not lower than before. A run that was released when it had only begun, as happens
    /// when another process is to drive it, starts where it is: nothing in progress could be in doubt.
    pub(super) fn read(
        history: &Transcript,
        records: &[Arc<Record>],
        (answers, posted): (&[Answer], &[InboxEntry]),
        limits: Option<&Limits>,
        released: bool,
    ) -> Result<Self, ResumeError> {
        let (tree, open) = RunTree::restore(history.clone(), records)?;
        if tree.status().is_ended() {
            return Err(ResumeError::Ended(tree.run_id()));
        }
        let is_asking = |effect: &Effect| matches!(effect, Effect::AskApproval(_));
        let waits = tree.status() == RunStatus::Waiting;
        let is_answered = !answers.is_empty() || !posted.is_empty();
        if waits && !is_answered && !open.iter().any(is_asking) {
            return Err(ResumeError::NothingToDo);
        }
        let is_not_to_ask = |effect: &&Effect| waits && is_answered && is_asking(effect);
        let not_to_ask = open.iter().filter(is_not_to_ask).filter_map(Effect::id);
        let not_to_ask = not_to_ask.collect();
        let would_start = |call: &OpenCall| call.stage == CallStage::Ready;
        let before = tree.agent_spec(AgentId::ROOT).limits;
        let has_less = limits.is_some_and(|limits| before.tightest(*limits) != before);
        let is_resumed =
            !waits || !is_answered || has_less || tree.open_calls().iter().any(would_start);
        let is_unbegun = released && limits.is_none() && has_only_begun(records, &open);
        let first = match (is_unbegun, is_resumed) {
            // Reports whether the run's time is up, and changes nothing else.
            (true, _) => Some(Input::TimePassed),
            (false, true) => Some(Input::Resumed(resumed(records, limits, released))),
            (false, false) => None,
        };
        let answers = answers.iter().map(|answer| input(records, answer));
        let inputs = first.into_iter().map(Ok).chain(answers);
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let active = active(records);
        let stamp = Stamp::new(last_at(records), active);
        let mut tried = tree.clone();
        let _ = advance_all(&mut tried, stamp, inputs.clone())?;
        Ok(Self {
            tree,
            inputs,
            posted: accepted(&mut tried, stamp, posted),
            unbegun: if is_unbegun { open } else { Vec::new() },
            not_to_ask,
            active,
        })
    }

    /// Passes the run its first inputs, so that it can be driven.
    pub(super) fn ready(
        self,
        engine: &Engine,
        history: &Transcript,
        records: Vec<Arc<Record>>,
    ) -> Result<ReadyRun, InputError> {
        let mut tree = self.tree;
        let stamp = Stamp::new(engine.clock.now(), self.active);
        // Hooks inspect a client's results while the run is driven.
        let needs_inspection =
            |input: &Input| engine.has_tool_hooks() && matches!(input, Input::ToolFinished(_));
        let (mut client_results, inputs): (Vec<_>, _) =
            self.inputs.into_iter().partition(needs_inspection);
        let (posted_results, posted): (Vec<_>, Vec<_>) =
            self.posted.into_iter().partition(needs_inspection);
        client_results.extend(posted_results);
        let mut first = advance_all(&mut tree, stamp, inputs)?;
        for input in posted {
            match tree.advance(stamp, input) {
                Ok(step) => follow_with(&mut first, step, &tree),
                // Nothing may be done with such a state.
                Err(defect @ InputError::Inconsistent(_)) => return Err(defect),
                // It was accepted at the time of the last record but may come too late now: the driver settles it.
                Err(_) => {}
            }
        }
        first.effects.retain(|effect| match effect {
            Effect::AskApproval(ask) => !self.not_to_ask.contains(&ask.effect_id),
            _ => true,
        });
        first.effects.splice(..0, self.unbegun);
        engine.notify_sinks(|sink| sink.resume(tree.run_id(), history, &records));
        Ok(ReadyRun {
            tree,
            first,
            client_results,
            records,
            store_time: None,
            active: self.active,
            // A run with an incomplete log cannot be read back.
            policy: DataPolicy::ALL,
        })
    }
}

/// Returns the inputs from its inbox that a run accepts when tried. What it does not accept stays in its inbox, for its
/// driver to settle; so does what comes after an input that breaks the tried state.
fn accepted(tried: &mut RunTree, stamp: Stamp, posted: &[InboxEntry]) -> Vec<Input> {
    let mut accepted = Vec::new();
    for entry in posted {
        let input = entry.input.input();
        match tried.advance(stamp, input.clone()) {
            Ok(_) => accepted.push(input),
            Err(InputError::Inconsistent(_)) => break,
            Err(_) => {}
        }
    }
    accepted
}

/// Passes a run several inputs together. If it refuses one of them, none takes effect.
fn advance_all(tree: &mut RunTree, stamp: Stamp, inputs: Vec<Input>) -> Result<Step, InputError> {
    let mut all = Step {
        status: tree.status(),
        effects: Vec::new(),
        records: Vec::new(),
        wake_at: None,
    };
    for input in inputs {
        let step = tree.advance(stamp, input)?;
        follow_with(&mut all, step, tree);
    }
    Ok(all)
}

/// Merges a run's next step into its previous one, when no effect of either was begun yet.
fn follow_with(all: &mut Step, step: Step, tree: &RunTree) {
    all.effects.extend(step.effects);
    all.records.extend(step.records);
    // What was asked and has been answered by now is not asked again.
    let pending = tree.pending();
    all.effects.retain(|effect| match effect {
        Effect::AskApproval(ask) => pending.iter().any(|it| it.effect_id == ask.effect_id),
        _ => true,
    });
    (all.status, all.wake_at) = (step.status, step.wake_at);
}

/// Returns whether a run's log holds only its first step, and that step runs no tool.
fn has_only_begun(records: &[Arc<Record>], open: &[Effect]) -> bool {
    let runs_tool = |effect: &Effect| matches!(effect, Effect::RunTool(_));
    is_first_step(records) && !open.iter().any(runs_tool)
}

/// Returns whether a run's log holds only its first step. A model call in progress at that time has no record.
pub(crate) fn is_first_step(records: &[Arc<Record>]) -> bool {
    let steps = records.iter().filter(|record| record.active_ms.is_some());
    steps.count() == 1
}

fn last_at(records: &[Arc<Record>]) -> Timestamp {
    let last = records.last().map(|record| record.at);
    last.unwrap_or_default()
}

fn active(records: &[Arc<Record>]) -> Duration {
    let mut last = records.iter().rev();
    let last = last.find_map(|record| record.active_ms);
    Duration::from_millis(last.unwrap_or_default())
}

fn input(records: &[Arc<Record>], answer: &Answer) -> Result<Input, ResumeError> {
    match answer {
        Answer::Approval(decided) => Ok(Input::ApprovalDecided(decided.clone())),
        Answer::ToolResult {
            call,
            outcome,
            duration,
        } => {
            let finished = client_finished(records, call, outcome.clone(), *duration);
            finished
                .map(Input::ToolFinished)
                .ok_or_else(|| ResumeError::NotWaiting(call.clone()))
        }
    }
}

/// Returns the trace that a run belongs to, as recorded when the run began.
pub(crate) fn recorded_trace(records: &[Arc<Record>]) -> Option<TraceContext> {
    records.first()?.run_started()?.spec.trace.clone()
}

/// Adds the values that the program stored with a run, as recorded when the run began.
pub(crate) fn restored_context(context: RequestContext, records: &[Arc<Record>]) -> RequestContext {
    match records.first().and_then(|record| record.run_started()) {
        Some(started) => context.restored(&started.spec.context),
        None => context,
    }
}

/// Returns a client's result as the end of its call; `None` if no such call waits for a client's result.
pub(crate) fn client_finished(
    records: &[Arc<Record>],
    call: &ToolCallId,
    outcome: ToolOutcome,
    duration: Duration,
) -> Option<ToolFinished> {
    let view = RunView::of(records);
    let mut open = view.open_calls();
    let open =
        open.find(|open| open.call.tool_call_id == *call && open.call.kind == ToolKind::Client)?;
    Some(ToolFinished {
        effect_id: open.call.effect_id,
        attempt: open.call.attempt,
        outcome,
        duration,
        by: None,
    })
}

/// Each resumption has its own id, from the last record of the log.
fn resumed(records: &[Arc<Record>], limits: Option<&Limits>, released: bool) -> Resumed {
    let after = records.last().map_or(Seq(0), |record| record.seq);
    let id = InputId::new(format!("resumed-after-{after}"));
    let mut resumed = Resumed::new(id, "the run was resumed").checking_calls();
    resumed.limits = limits.map(|limits| Box::new(*limits));
    resumed.released = released;
    resumed
}

#[cfg(test)]
mod tests {
    use neuraxis_core::Role;
    use neuraxis_memory::MemoryStore;
    use neuraxis_ports::{RunLog as _, SessionIndex as _};
    use neuraxis_testkit::{Script, ScriptedModel};

    use super::*;
    use crate::{Orchestrator, UserRequest};

    #[tokio::test(start_paused = true)]
    async fn a_run_whose_state_contradicts_itself_when_it_takes_its_inbox_is_not_driven() {
        let store = Arc::new(MemoryStore::new());
        let model = Arc::new(ScriptedModel::always(Script::hanging()));
        let builder = Orchestrator::builder().model(Role::REASONING, model);
        let orchestrator = builder.store(store.clone()).build().unwrap();
        let session = "s".parse().unwrap();
        let (handle, _) = orchestrator
            .stream(UserRequest::new(session, "go"))
            .await
            .unwrap();
        let records = store.records(handle.run_id(), Seq(0)).await.unwrap();
        let history = store.history(handle.session_id()).await.unwrap();
        let runs = orchestrator.runs();
        let engine = &runs.parts.engine;

        let read = || RestoredRun::read(&history, &records, (&[], &[]), None, false).unwrap();
        let mut with_mail = read();
        with_mail.posted = vec![Input::TimePassed];
        assert!(with_mail.ready(engine, &history, records.clone()).is_ok());
        let mut defective = read();
        defective.tree.lose_agents();
        defective.inputs.clear();
        defective.posted = vec![Input::TimePassed];
        let ready = defective.ready(engine, &history, records.clone());
        assert!(matches!(ready, Err(InputError::Inconsistent(_))));
    }
}
