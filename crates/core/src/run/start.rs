//! How a run and its agents begin: with the question which role serves, by gathering, or with the first turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::agent::{Agent, ModelCall, OfferedTools, PlannedCall};
use super::agent_step::{AgentStep, Counters, StepBuilder};
use super::context::Gauge;
use super::governed::{GovernedRun, ImmediateReply};
use super::{Next, RunState, RunTree, Step};
use crate::effect::{ModelRequest, Purpose, ReplyFormat, ToolChoice};
use crate::error::InputError;
use crate::finish::{FinishReason, RunStatus};
use crate::ids::{AgentId, ToolName};
use crate::input::Stamp;
use crate::log::Conversation;
use crate::message::Message;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::profile::Opening;
use crate::record::{HistoryRepaired, LOOP_VERSION, RecordBody, RunStarted};
use crate::reply::Reply;
use crate::spec::{AgentSpec, RunSpec};
use crate::texts::Texts;
use crate::transcript::{Transcript, last_of_user};

impl RunTree {
    /// Begins a run that continues the given history.
    ///
    /// The system prompt goes first, unless the history already begins with a system message.
    pub fn start(spec: impl Into<Arc<RunSpec>>, history: Transcript, stamp: Stamp) -> (Self, Step) {
        Self::start_by(LOOP_VERSION, spec.into(), history, stamp)
    }

    /// Like [`start`](Self::start), by the rules of a given version.
    pub(super) fn start_by(
        version: u32,
        mut spec: Arc<RunSpec>,
        history: Transcript,
        stamp: Stamp,
    ) -> (Self, Step) {
        let given = Arc::make_mut(&mut spec);
        let decision = given.decision.take();
        let policy_hash = decision.as_ref().map(|decision| decision.policy_hash);
        let policy_hash = given.policy_hash.take().or(policy_hash);
        let started = RunStarted {
            loop_version: version,
            session_id: spec.session_id.clone(),
            policy_hash,
            history: history.digest(),
            spec: Arc::clone(&spec),
        };
        let (conversation, repairs) = Conversation::of_root(&spec, history, Texts::of(version));
        let mut root = Agent::new(AgentId::ROOT, conversation);
        root.gauge = Gauge::of(&spec.root);
        root.forced.clone_from(&spec.root.tool_choice);
        root.offered = spec.root.first_offer(0, spec.agent_limits);
        root.sources.clone_from(&spec.sources);
        let mut step = StepBuilder::new(spec.run_id, stamp, Counters::default());
        step.record(&root, None, RecordBody::RunStarted(Box::new(started)));
        let (mut immediate_reply, mut approval_expires) = (None, None);
        if let Some(decision) = decision {
            root.taint = decision.taint.clone();
            root.governed = GovernedRun::of(&decision);
            approval_expires = decision.approval.expires_after;
            immediate_reply = ImmediateReply::of(&decision);
            step.record(&root, None, RecordBody::Decision(decision));
        }
        note_start(&mut step, &root, &spec, repairs);
        let first = immediate_reply.map_or(Next::Begin, |reply| reply.end(&mut root, &mut step));
        let mut run = Self {
            spec,
            agents: vec![root],
            state: RunState {
                status: RunStatus::Running,
                counters: Counters::default(),
                active: Duration::ZERO,
                inputs_seen: BTreeSet::new(),
                approval_expires,
                downgraded: BTreeMap::new(),
                log_bytes: 0,
                warned_of_log: false,
                warned_of_counts: false,
                loop_version: version,
                taken_up: 0,
            },
        };
        if let Err(error) = run.follow(&mut step, AgentId::ROOT, first) {
            run.fail(&mut step, &error);
        }
        let step = run.conclude(step);
        (run, step)
    }

    /// Ends a run that could not even begin, which only a defect can cause.
    fn fail(&mut self, step: &mut StepBuilder, error: &InputError) {
        if let Ok(mut root) = self.agent_step(AgentId::ROOT, step) {
            root.end(FinishReason::Failed(error.to_string()), String::new(), None);
        }
    }
}

/// Records the repairs of the history, and what the log will lack.
fn note_start(step: &mut StepBuilder, root: &Agent, spec: &RunSpec, repairs: Vec<String>) {
    if !repairs.is_empty() {
        let repaired = RecordBody::HistoryRepaired(Box::new(HistoryRepaired { repairs }));
        step.record(root, None, repaired);
    }
    if !spec.root.left_out.is_empty() {
        step.warn(root, "tools_left_out", left_out(&spec.root));
    }
    if let Some(what) = spec.withheld() {
        let message = format!(
            "the data policy keeps {what} out of the log: this run cannot be replayed or resumed"
        );
        step.warn(root, "withheld", message);
    }
}

fn left_out(agent: &AgentSpec) -> String {
    let names: Vec<&str> = agent.left_out.iter().map(ToolName::as_str).collect();
    format!(
        "the context of {} tokens has no room for the definitions of these tools, which are not offered: {}",
        agent.context_tokens.unwrap_or_default(),
        names.join(", ")
    )
}

impl AgentStep<'_> {
    /// Begins the work of the agent that answers the user: with the question which role serves, if a model should be
    /// asked.
    pub(super) fn begin(&self) -> Next {
        let governed = self.agent.governed.as_deref();
        let routing = governed.and_then(|governed| governed.routing.as_ref());
        match routing.filter(|_| self.budgets().exceeded_by(1).is_none()) {
            Some(routing) => {
                let (purpose, asks) = (Purpose::Routing, routing.asks.clone());
                Next::CallAsIs(PlannedCall::new(purpose, asks, OfferedTools::None))
            }
            None => Next::Open,
        }
    }

    /// Handles the choice of the role, or its failure: begins with the chosen role, or with the decision's own.
    pub(super) fn role_chosen(&mut self, reply: Option<&Reply>) -> Result<Next, InputError> {
        let own = &self.spec.role;
        let governed = self.agent.governed.as_deref_mut();
        let missing = InputError::Inconsistent("no choice of a role was asked for");
        let governed = governed.ok_or_else(|| missing.clone())?;
        let routing = governed.routing.take().ok_or(missing)?;
        match reply.map(|reply| routing.chosen(&reply.text())) {
            Some(Some(role)) if role == own => {}
            Some(Some(role)) => governed.choose(role),
            Some(None) => {
                let message = format!(
                    "role {} was asked and named no role; the rules' choice, {own}, serves",
                    routing.asks
                );
                self.warn("no_role_chosen", message);
            }
            // The failed attempt has its own record.
            None => {}
        }
        Ok(if self.agent.closing.is_some() {
            Next::Continue
        } else {
            Next::Open
        })
    }

    /// Handles the opening's choice of what to gather: keeps its first call, or adds the one that policy wants; its
    /// text is discarded. When time is nearly up, nothing is gathered.
    pub(super) fn gather_chosen(
        &mut self,
        call: &ModelCall,
        reply: Option<&Reply>,
    ) -> Result<Next, InputError> {
        let source = self.reply_source(call);
        let opening = &self.spec.profile.opening;
        let gathered = self
            .agent
            .conversation
            .push_gathered(source, opening, reply);
        let missing = InputError::Inconsistent("nothing was to be gathered");
        let (message, origin) = gathered.ok_or(missing)?;
        self.begin_batch(&message, origin);
        if self.agent.closing.is_some() {
            let outcome = ToolOutcome::failed(ToolFailure::LimitReached, self.texts.calls.too_late);
            self.settle_all(&outcome)?;
            return Ok(Next::Schedule);
        }
        Ok(Next::Vet)
    }
}

impl Agent {
    /// Begins an agent's work as its profile says.
    pub(super) fn open(&mut self, spec: &AgentSpec) -> Next {
        let Opening::Gather { role, .. } = &spec.profile.opening else {
            return Next::BeginTurn;
        };
        self.turn = self.turn.next();
        let (purpose, role) = (Purpose::Gather, role.clone());
        Next::CallModel(PlannedCall::new(purpose, role, OfferedTools::Gather))
    }

    /// Builds the request that asks which role serves: the question, and the user's message as a separate message.
    pub(super) fn routing_request(&self) -> Result<ModelRequest, InputError> {
        let governed = self.governed.as_deref();
        let routing = governed.and_then(|governed| governed.routing.as_ref());
        let missing = InputError::Inconsistent("no choice of a role was asked for");
        let routing = routing.ok_or(missing)?;
        let user = last_of_user(self.conversation.messages());
        // The model that chooses may not accept images, so it gets only the text of the question.
        let user = user.map(|message| match message.media().next() {
            Some(_) => Arc::new(Message::user(message.text())),
            None => Arc::clone(message),
        });
        let prompt = Arc::new(Message::system(routing.prompt.as_str()));
        Ok(ModelRequest {
            messages: std::iter::once(prompt).chain(user).collect(),
            tools: Arc::default(),
            tool_choice: ToolChoice::None,
            max_output_tokens: Some(routing.max_output_tokens),
            temperature: None,
            reply_format: ReplyFormat::Text,
        })
    }
}
