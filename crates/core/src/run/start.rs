//! How a run begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::decision::Taint;
use crate::effect::Purpose;
use crate::finish::RunStatus;
use crate::ids::{AgentId, ContentIndex, Seq};
use crate::input::Stamp;
use crate::message::Message;
use crate::profile::Opening;
use crate::record::{HistoryRepaired, LOOP_VERSION, RecordBody, RunStarted, Warning};
use crate::repair::repaired;
use crate::run::agent::{Agent, OfferedTools, PlannedCall};
use crate::run::draft::Draft;
use crate::run::ways::{ReplyAtOnce, Ways};
use crate::run::{RunTree, Step};
use crate::spec::RunSpec;
use crate::transcript::Transcript;

impl RunTree {
    /// Begins a run that continues the given history.
    ///
    /// The system prompt goes first, unless the history begins with a system message already.
    pub fn start(mut spec: RunSpec, history: Transcript, stamp: Stamp) -> (Self, Step) {
        let decision = spec.decision.take();
        let at_once = decision.as_deref().and_then(ReplyAtOnce::of);
        let policy_hash = decision.as_ref().map(|decision| decision.policy_hash);
        let policy_hash = spec.policy_hash.take().or(policy_hash);
        let taint = decision.as_ref().map(|decision| decision.taint.clone());
        let approval = decision.as_ref().map(|decision| decision.approval);
        let spec = Arc::new(spec);
        let history_digest = history.digest();
        let (history, repairs) = repaired(history);
        let mut run = Self {
            schema_version: Self::SCHEMA_VERSION,
            status: RunStatus::Running,
            seq: Seq::default(),
            next_content: ContentIndex::default(),
            effects: 0,
            active: Duration::ZERO,
            inputs_seen: BTreeSet::new(),
            approval_expires: approval.and_then(|approval| approval.expires_after),
            agents: vec![root_agent(&spec, history, taint.unwrap_or_default())],
            ways: decision.as_deref().and_then(Ways::of),
            downgraded: BTreeMap::new(),
            spec: Arc::clone(&spec),
            log_bytes: 0,
            warned_of_log: false,
            taken_up: 0,
        };
        let mut draft = Draft::new(spec.run_id, stamp);
        let started = RunStarted {
            loop_version: LOOP_VERSION,
            session_id: spec.session_id.clone(),
            policy_hash,
            history: history_digest,
            spec,
        };
        run.record(
            &mut draft,
            AgentId::ROOT,
            None,
            RecordBody::RunStarted(Box::new(started)),
        );
        if let Some(decision) = decision {
            run.record(
                &mut draft,
                AgentId::ROOT,
                None,
                RecordBody::Decision(decision),
            );
        }
        if !repairs.is_empty() {
            let repaired = RecordBody::HistoryRepaired(Box::new(HistoryRepaired { repairs }));
            run.record(&mut draft, AgentId::ROOT, None, repaired);
        }
        if let Some(what) = run.spec.withheld() {
            let warning = Warning {
                code: "withheld".to_owned(),
                message: format!(
                    "the data policy keeps {what} out of the log: this run cannot be replayed or resumed"
                ),
            };
            run.record(
                &mut draft,
                AgentId::ROOT,
                None,
                RecordBody::Warning(Box::new(warning)),
            );
        }
        match at_once {
            Some(reply) => run.reply_at_once(&mut draft, reply),
            None => run.begin(&mut draft),
        }
        let step = run.conclude(draft);
        (run, step)
    }

    /// Begins an agent's work as its profile says.
    pub(super) fn open(&mut self, draft: &mut Draft, agent: AgentId) {
        if let Opening::Gather { role, .. } = &self.agent_spec(agent).profile.opening {
            let planned = PlannedCall::new(Purpose::Gather, role.clone(), OfferedTools::Gather);
            self.begin_turn(agent);
            self.call_model(draft, agent, planned);
        } else {
            self.next_turn(draft, agent);
        }
    }
}

fn root_agent(spec: &RunSpec, history: Transcript, taint: Taint) -> Agent {
    let begins_with_system = matches!(
        history.messages().first().map(Arc::as_ref),
        Some(Message::System { .. })
    );
    let prompt = spec.root.system_prompt.as_ref();
    let prompt = prompt.filter(|_| !begins_with_system);
    let mut transcript = match prompt {
        Some(prompt) => {
            let prompt = Arc::new(Message::system(prompt.as_ref()));
            std::iter::once(prompt)
                .chain(history.messages().iter().cloned())
                .collect()
        }
        None => history,
    };
    let recorded = transcript.digest();
    for message in &spec.messages {
        transcript.push(Arc::clone(message));
    }
    Agent {
        has_prompt: prompt.is_some(),
        taint,
        forced: spec.root.tool_choice.clone(),
        ..Agent::new(AgentId::ROOT, transcript, recorded)
    }
}
