//! Forks a run: a new session shares its conversation up to some turn and then continues differently.

use std::sync::Arc;

use neuraxis_brainstem::note_taint;
use neuraxis_core::log::{Carried, RunView};
use neuraxis_core::{
    AgentId, AgentName, Channel, ClientTools, ForkPoint, Message, Mode, Part, PlanName, Record,
    Role, RunId, Seq, SessionId, Source, Taint, ToolKind, ToolSpec, TraceContext, Transcript, Turn,
    forked_history, is_withheld, offered_tools,
};
use neuraxis_ports::{RequestContext, StoreError};

use super::Runs;
use super::restored::restored_context;
use super::start::Base;
use crate::answer::AnswerSchema;
use crate::client_input::ClientInput;
use crate::error_kind::words_of_store;
use crate::request::{RequestError, UserRequest};
use crate::run_handle::RunHandle;
use crate::tool_search::carry_over_tools;

/// How a fork continues.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ForkOptions {
    /// The new session. No session may have this id yet.
    pub session_id: SessionId,
    /// How much freedom it has.
    pub mode: Mode,
    /// What kind of request it is.
    pub channel: Channel,
    /// The agent that answers; the run's agent if `None`.
    pub agent: Option<AgentName>,
    /// The role that serves it, instead of the one that the policy would choose. Must be one that the policy allows.
    pub role: Option<Role>,
    /// The user's new message; without it the conversation continues from where it was.
    pub message: Option<String>,
    /// Attachments to that message; same as [`UserRequest::attachments`].
    pub attachments: Vec<Part>,
    /// The plan that limits it, instead of the default plan; same as [`UserRequest::plan`].
    pub plan: Option<PlanName>,
    /// Instructions for the answering agent in addition to its own; same as [`ClientInput::instructions`]. If `None`,
    /// the additional instructions of the run, as far as they can be told apart from its agent's own.
    pub instructions: Option<String>,
    /// The trace to join; a new one if `None`.
    pub trace: Option<TraceContext>,
}

impl ForkOptions {
    /// Creates a fork in the default mode and channel that continues from where the conversation was.
    #[must_use]
    pub const fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            mode: Mode::MODERATE,
            channel: Channel::CHAT,
            agent: None,
            role: None,
            message: None,
            attachments: Vec::new(),
            plan: None,
            instructions: None,
            trace: None,
        }
    }

    /// Sets how much freedom it has.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what kind of request it is.
    #[must_use]
    pub fn channel(mut self, channel: Channel) -> Self {
        self.channel = channel;
        self
    }

    /// Sets another agent to answer.
    #[must_use]
    pub fn agent(mut self, agent: AgentName) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Sets another role to serve it.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// Adds a new user message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Attaches something to the message; same as [`UserRequest::attach`].
    #[must_use]
    pub fn attach(mut self, part: impl Into<Part>) -> Self {
        self.attachments.push(part.into());
        self
    }
}

/// Why a run cannot be forked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// A session with the new id already exists.
    #[error("session {0} already exists")]
    SessionExists(SessionId),
    /// The conversation ends with an answer, and there is no new message.
    #[error("the conversation ends with an answer at this turn: add a new message")]
    NothingToAnswer,
    /// The store could not return the run or its history, or has no such run.
    #[error("{}", words_of_store(.0, "the run could not be read"))]
    Store(#[from] StoreError),
    /// The new run was refused, like any other request may be.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Runs {
    /// Forks a run at the end of one of its turns: a new session begins with the conversation up to there, and a new
    /// run continues it. The old session and run are not changed. Turn 0 is before the run's first reply; a turn that
    /// the run never reached means the end of the run.
    ///
    /// # Errors
    ///
    /// A [`ForkError`] if the run does not exist, its session's history of that time is gone, the new session already
    /// exists, or the policy refuses the request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle leaves the new run in progress. Dropping the future may leave the new session without a run.
    pub async fn fork(
        &self,
        run_id: RunId,
        turn: Turn,
        options: ForkOptions,
    ) -> Result<RunHandle, ForkError> {
        self.parts.engine.check_open()?;
        let store = self.parts.store.as_ref();
        let (context, title) = self.source_of(run_id).await?;
        let records = store.records(run_id, Seq(0)).await?;
        let before = store.history_before(run_id).await?;
        let seed = forked_history(&before, &records, turn);
        let message = options
            .message
            .as_deref()
            .filter(|text| !text.trim().is_empty());
        let is_new = message.is_some() || !options.attachments.is_empty();
        if !is_new && !waits_for_an_answer(&seed) {
            return Err(ForkError::NothingToAnswer);
        }
        // The text by which the policy judges the request: that of the new message, which may be files alone, or of the
        // user's last one.
        let text = match is_new {
            true => message.unwrap_or_default().to_owned(),
            false => seed.last_user_text(),
        };
        let mut request = UserRequest::new(options.session_id, text)
            .mode(options.mode)
            .channel(options.channel);
        request.attachments = options.attachments;
        request.check_attachments()?;
        request.context = restored_context(context, &records);
        // Callers that wait for the answer expect the same form.
        request.answer = AnswerSchema::of_run(&records);
        let view = RunView::of(&records);
        let of_run = || view.decision().and_then(|decision| decision.agent.clone());
        request.agent = options.agent.or_else(of_run);
        request.plan = options.plan;
        let mut client_input = self.client_input_of(&view);
        client_input.instructions = options.instructions.or(client_input.instructions);
        client_input.role = options.role;
        request = request.with_client_input(client_input);
        request.trace = options.trace;
        let mut decision = self.decide_branch(&request, seed.len()).await?;
        note_taint(&mut decision, &taint_until(&records, turn));
        let new_id = RunId(self.parts.engine.ids.new_id());
        let mut spec = self.run_spec(new_id, &request, Arc::new(decision)).await?;
        spec.forked_from = Some(ForkPoint { run_id, turn });
        if spec.root.cites() {
            spec.sources = read_until(&records, turn);
        }
        if is_new {
            spec.messages.push(Arc::new(request.user_message()));
        }
        let messages = spec.messages.clone();
        let engine = &self.parts.engine;
        engine.fit(&mut spec, &messages, &request.message).await?;
        let shared = records.iter().filter(|record| record.turn <= turn);
        let earlier = offered_tools(shared.map(Arc::as_ref));
        carry_over_tools(&mut spec.root, &earlier, &seed);
        let session = request.session_id.clone();
        self.add_session(&request, seed, title).await?;
        match self
            .launch(Base::Leased, Arc::new(spec), &request, None)
            .await
        {
            Ok(handle) => Ok(handle),
            Err(error) => {
                // The caller does not know of this session yet. If deleting it fails, what remains is a conversation
                // without a run.
                let _ = store.delete_session(&session).await;
                Err(error.into())
            }
        }
    }

    /// Returns what a client supplied to a run and what also applies to a run that continues from it: the agent's
    /// additional instructions, and the tools for whose results the run waits.
    fn client_input_of(&self, run: &RunView) -> ClientInput {
        let mut client_input = ClientInput::default();
        let engine = &self.parts.engine;
        let (Some(spec), Some(decision)) = (run.spec(), run.decision()) else {
            return client_input;
        };
        if let Some(instructions) = &spec.root.system_prompt
            && let Some(agent) = engine.policy.agent_of(decision)
            && !(engine.policy.instructs_itself(decision)
                && engine.instructions.contains_key(agent))
        {
            // If the agent's own instructions have changed since, or a program created them, the two cannot be told
            // apart.
            let of_client = match engine.policy.system_prompt(decision) {
                Some(own) => instructions
                    .strip_prefix(&*own)
                    .and_then(|it| it.strip_prefix("\n\n")),
                None => Some(&**instructions),
            };
            // What a data policy kept out of the log is no instruction.
            let of_client = of_client.filter(|text| !is_withheld(text));
            client_input.instructions = of_client.map(str::to_owned);
        }
        if spec.client_tools == ClientTools::Wait {
            let catalog = engine.catalog();
            let is_own = |tool: &ToolSpec| {
                let mut own = catalog.all_specs().iter();
                own.any(|own| own.kind == ToolKind::Client && own.name == tool.name)
            };
            let of_client = spec.root.tools.iter();
            let of_client = of_client.filter(|tool| tool.kind == ToolKind::Client && !is_own(tool));
            client_input.tools = of_client.cloned().collect();
        }
        client_input
    }

    /// Returns the context of a fork and the title of its session, which has the same owner and title.
    async fn source_of(&self, run: RunId) -> Result<(RequestContext, Option<String>), ForkError> {
        let store = &self.parts.store;
        let session = store.run(run).await?.session;
        match self.context_in(&session).await? {
            Some(context) => Ok((context, store.session(&session).await?.title)),
            None => Err(RequestError::OtherOwner { session }.into()),
        }
    }

    async fn add_session(
        &self,
        request: &UserRequest,
        seed: Transcript,
        title: Option<String>,
    ) -> Result<(), ForkError> {
        let mut session = self.new_session_for(request)?.seeded(seed);
        session.title = title;
        match self.parts.store.create_session(&session).await {
            Err(StoreError::SessionExists(id)) => Err(ForkError::SessionExists(id)),
            created => Ok(created?),
        }
    }
}

/// Returns whether a model's reply is due, which is so unless the model itself spoke last.
pub(super) fn waits_for_an_answer(history: &Transcript) -> bool {
    match history.messages().last().map(Arc::as_ref) {
        None | Some(Message::System { .. }) => false,
        Some(Message::User { .. } | Message::Tool(_)) => true,
        Some(Message::Assistant(reply)) => reply
            .parts
            .iter()
            .any(|part| matches!(part, Part::ToolCall(_))),
    }
}

/// Returns the pages that were read up to the end of a turn, in the run or earlier in its session.
fn read_until(records: &[Arc<Record>], turn: Turn) -> Vec<Source> {
    let mut carried = Carried::default();
    let of_turn = |record: &&Arc<Record>| record.agent != AgentId::ROOT || record.turn <= turn;
    for record in records.iter().filter(of_turn) {
        carried.apply(record);
    }
    carried.sources
}

/// Returns the untrusted content that a run's conversation held at the end of a turn. What its sub-agents read later is
/// included: this may mark too much, but never too little.
fn taint_until(records: &[Arc<Record>], turn: Turn) -> Taint {
    let mut taint = Taint::default();
    for record in records {
        if record.agent != AgentId::ROOT || record.turn <= turn {
            taint.read(record);
        }
    }
    taint
}
