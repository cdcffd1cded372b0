//! Rebuilds a run from its records, checking that its causes lead to exactly these records.

use std::sync::Arc;
use std::time::Duration;

use crate::effect::Effect;
use crate::error::RestoreError;
use crate::ids::Seq;
use crate::input::Stamp;
use crate::record::{LOOP_VERSION, LOOP_VERSIONS, Record, RecordBody};
use crate::run::{RunTree, Step};
use crate::spec::RunSpec;
use crate::transcript::Transcript;

impl RunTree {
    /// Rebuilds a run from the history it began with and its records, and returns it with the effects that were
    /// requested but not answered. A driver that resumes the run drops these effects and sends
    /// [`Input::Resumed`](crate::Input::Resumed), which requests again what may run again.
    ///
    /// # Errors
    ///
    /// A [`RestoreError`] if the log has a loop version that is not supported, belongs to another history, or contains
    /// anything other than what its causes lead to.
    pub fn restore(
        history: Transcript,
        records: &[Arc<Record>],
    ) -> Result<(Self, Vec<Effect>), RestoreError> {
        Self::restore_seeing(history, records, |_, _, _| {})
    }

    /// Rebuilds a run like [`restore`](Self::restore), and shows each record that caused a step, including the first
    /// one, with the state of the run at that point and the effects that were requested.
    ///
    /// # Errors
    ///
    /// Same as [`restore`](Self::restore). In that case, what was shown before the error does not belong to a run that
    /// can be rebuilt.
    pub fn restore_seeing(
        history: Transcript,
        records: &[Arc<Record>],
        mut seen: impl FnMut(&Self, &Record, &[Effect]),
    ) -> Result<(Self, Vec<Effect>), RestoreError> {
        let (version, spec, stamp) = start_of(&history, records)?;
        let (mut run, step) = Self::start_by(version, spec.into(), history, stamp);
        let mut rest = matching(records, &step)?;
        if let Some(first) = records.first() {
            seen(&run, first, &step.effects);
        }
        let mut effects = step.effects;
        while let Some(record) = rest.first() {
            let cause = record.cause().ok_or(RestoreError::NoCause(record.seq))?;
            let step =
                run.advance(stamp_of(record), cause)
                    .map_err(|source| RestoreError::Refused {
                        seq: record.seq,
                        source,
                    })?;
            if step.records.is_empty() {
                return Err(diverged(record.seq, None, Some(record)));
            }
            if matches!(record.body, RecordBody::Resumed(_)) {
                // Everything that was open has been requested again.
                effects.clear();
            }
            rest = matching(rest, &step)?;
            seen(&run, record, &step.effects);
            effects.extend(step.effects);
        }
        effects.retain_mut(|effect| run.is_unanswered(effect));
        Ok((run, effects))
    }

    /// Returns whether an effect is still unanswered, and updates the attempt of a model call.
    fn is_unanswered(&self, effect: &mut Effect) -> bool {
        let Some(id) = effect.id() else { return false };
        if let Effect::RunTool(requested) = effect {
            // Another attempt has the same id.
            return self.agents.iter().any(|agent| agent.runs(requested));
        }
        self.agents.iter().any(|agent| {
            if let (Some(call), Effect::CallModel(requested)) = (agent.model_call(id), &mut *effect)
            {
                requested.attempt = call.attempt;
            }
            agent.waits_for(id)
        })
    }
}

fn start_of(
    history: &Transcript,
    records: &[Arc<Record>],
) -> Result<(u32, RunSpec, Stamp), RestoreError> {
    let first = records.first().ok_or(RestoreError::NoStart)?;
    let RecordBody::RunStarted(started) = &first.body else {
        return Err(RestoreError::NoStart);
    };
    if !LOOP_VERSIONS.contains(&started.loop_version) {
        return Err(RestoreError::OtherVersion {
            found: started.loop_version,
            ours: LOOP_VERSION,
        });
    }
    if let Some(what) = started.spec.withheld() {
        return Err(RestoreError::Withheld(what));
    }
    if started.history != history.digest() {
        return Err(RestoreError::OtherHistory);
    }
    let mut spec = (*started.spec).clone();
    spec.policy_hash = started.policy_hash;
    if let Some(RecordBody::Decision(decision)) = records.get(1).map(|record| &record.body) {
        spec.decision = Some(Arc::clone(decision));
    }
    Ok((started.loop_version, spec, stamp_of(first)))
}

fn stamp_of(record: &Record) -> Stamp {
    Stamp::new(
        record.at,
        Duration::from_millis(record.active_ms.unwrap_or_default()),
    )
}

/// Checks that the log continues with the step's records and returns what follows them.
fn matching<'a>(log: &'a [Arc<Record>], step: &Step) -> Result<&'a [Arc<Record>], RestoreError> {
    for (index, expected) in step.records.iter().enumerate() {
        let found = log.get(index);
        let is_as_expected =
            found.is_some_and(|found| found == expected || is_earlier_form(found, expected));
        if !is_as_expected {
            return Err(diverged(expected.seq, Some(expected), found));
        }
    }
    Ok(log.get(step.records.len()..).unwrap_or_default())
}

/// Returns whether a record is the expected end of an agent as earlier programs recorded it: without what is not known
/// from a log that lacks it.
fn is_earlier_form(found: &Record, expected: &Record) -> bool {
    let mut expected = expected.clone();
    let (RecordBody::Final(outcome) | RecordBody::RunFailed(outcome)) = &mut expected.body else {
        return false;
    };
    let (RecordBody::Final(recorded) | RecordBody::RunFailed(recorded)) = &found.body else {
        return false;
    };
    if recorded.unheard == 0 {
        outcome.unheard = 0;
    }
    if recorded.failed_call.is_none() {
        outcome.failed_call = None;
    }
    *found == expected
}

fn diverged(seq: Seq, expected: Option<&Arc<Record>>, found: Option<&Arc<Record>>) -> RestoreError {
    let json = |record: Option<&Arc<Record>>| {
        record.map_or_else(|| "nothing".to_owned(), |record| record.to_json())
    };
    RestoreError::Diverged {
        seq,
        expected: json(expected),
        found: json(found),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::effect::CallModel;
    use crate::ids::{AgentId, Attempt, Role, RunId};
    use crate::input::{Input, ModelReplied, Vetted, Vetting};
    use crate::json::JsonText;
    use crate::limits::MicroUsd;
    use crate::message::{Message, ModelRef};
    use crate::profile::Profile;
    use crate::reply::{Reply, ReplyFinish, ReplyPart, RequestedCall};
    use crate::spec::AgentSpec;
    use crate::tool::{ToolAnnotations, ToolClass, ToolKind, ToolSpec};
    use crate::usage::{CountLabel, Usage};

    /// A run with a cost limit of 5, and an agent that another one may start.
    fn spec() -> RunSpec {
        let tool = ToolSpec {
            name: "research".parse().unwrap(),
            description: "for tests".into(),
            parameters: JsonText::from_text(r#"{"type":"object"}"#),
            class: ToolClass::ReadOnly,
            annotations: ToolAnnotations::default(),
            kind: ToolKind::Agent,
            non_iterative: false,
            timeout: None,
        };
        let mut root = AgentSpec::new(Profile::main_thread(), Role::REASONING);
        root.limits.max_cost = Some(MicroUsd(5));
        let researcher = AgentSpec::new(Profile::researcher(), Role::REASONING);
        let name = tool.name.clone();
        root.tools = vec![tool].into();
        let mut spec = RunSpec::new(RunId(Uuid::nil()), [Message::user("Go.")], root);
        spec.agents.insert(name, researcher);
        spec
    }

    /// A reply that starts the other agent and uses up the cost limit.
    fn reply_to(call: &CallModel) -> Input {
        let research = RequestedCall {
            provider_id: None,
            name: "research".into(),
            arguments: JsonText::from_text(r#"{"task":"a"}"#),
            state: None,
        };
        Input::ModelReplied(ModelReplied {
            effect_id: call.effect_id,
            attempt: Attempt(1),
            reply: Arc::new(Reply {
                parts: vec![ReplyPart::ToolCall(research)],
                finish: ReplyFinish::ToolCalls,
                usage: Usage::default(),
                model: ModelRef::new("test", "m"),
                advice: None,
            }),
            served_by: Role::REASONING,
            downgraded: None,
            cost: Some(MicroUsd(5)),
            cost_label: CountLabel::Measured,
            duration: Duration::ZERO,
            first_delta: None,
        })
    }

    #[test]
    fn a_log_of_any_rules_version_restores_its_run() {
        let stamp = Stamp::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
        for (version, asks) in [(LOOP_VERSION, AgentId::ROOT), (1, AgentId(1))] {
            let spec = Arc::new(spec());
            let (mut run, step) = RunTree::start_by(version, spec, Transcript::default(), stamp);
            let mut records = step.records;
            let [Effect::CallModel(call)] = step.effects.as_slice() else {
                panic!("{:?}", step.effects)
            };
            let step = run.advance(stamp, reply_to(call)).unwrap();
            records.extend(step.records);
            let [Effect::Vet(vet)] = step.effects.as_slice() else {
                panic!("{:?}", step.effects)
            };
            let verdicts = vec![Vetting::run(ToolClass::ReadOnly)];
            let vetted = Input::Vetted(Vetted::new(vet.effect_id, verdicts));
            let step = run.advance(stamp, vetted).unwrap();
            records.extend(step.records);
            let [Effect::CallModel(call)] = step.effects.as_slice() else {
                panic!("{:?}", step.effects)
            };
            assert_eq!(call.agent, asks);
            let mut seen = Vec::new();
            let see = |_: &RunTree, record: &Record, _: &[Effect]| seen.push(record.seq);
            let restored = RunTree::restore_seeing(Transcript::default(), &records, see).unwrap();
            assert!(restored == (run, step.effects), "{version}");
            let causes = records.iter().filter(|record| record.active_ms.is_some());
            assert!(causes.map(|record| record.seq).eq(seen), "{version}");
        }
    }
}
