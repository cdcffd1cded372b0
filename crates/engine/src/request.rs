//! A user's request, and the reasons why it may be refused before a run exists.

use std::any::Any;
use std::sync::Arc;

use neuraxis_core::{
    AgentName, Channel, IdempotencyKey, Mode, ModelRef, Part, PlanName, RequestSize, RunId,
    SessionId,
};
use neuraxis_ports::{
    Approver, ContextError, RequestContext, StoreError, StoredContext, TraceContext,
};

use crate::answer::AnswerSchema;
use crate::client_input::{ClientInput, ClientInputError};
use crate::error_kind::words_of_store;
use crate::idempotency::Differences;
use crate::media::AttachmentError;
use crate::run_handle::NoResult;
use crate::runs::ResumeError;

/// A user message and the circumstances under which it is handled.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UserRequest {
    /// The session; created if no session has this id.
    pub session_id: SessionId,
    /// The user's message. May be empty if there are [`attachments`](Self::attachments), or if
    /// [`client_input`](Self::client_input) holds what is to be answered.
    pub message: String,
    /// Attachments to the message: texts, images, sounds and files, which follow the message in this order.
    pub attachments: Vec<Part>,
    /// How much freedom the request has.
    pub mode: Mode,
    /// What kind of request it is.
    pub channel: Channel,
    /// The agent that answers; the channel's agent if `None`.
    pub agent: Option<AgentName>,
    /// A named set of limits that applies in addition to those of mode and channel.
    pub plan: Option<PlanName>,
    /// Whether models stream their replies or return them whole. The records are the same.
    pub delivery: Delivery,
    /// The trace to join; a new one if `None`.
    pub trace: Option<TraceContext>,
    /// The caller's key for this request. Another request with the same key in the same session is treated as a repeat
    /// of this one: it gets the run that the first request began, in progress or ended, and starts none of its own.
    /// Message, attachments, mode, channel, answer schema and everything else that the client supplies must be the
    /// same.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Who asks, and values that the program passes to its tools and hooks.
    pub context: RequestContext,
    /// The schema of the answer; any text if `None`.
    pub answer: Option<AnswerSchema>,
    /// What a client supplies in addition to its message.
    pub client_input: Option<Box<ClientInput>>,
    /// Whether earlier messages are sent to the model verbatim.
    pub earlier: Earlier,
}

/// How the earlier messages of the session are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Earlier {
    /// They are sent verbatim, as far as they fit.
    #[default]
    Whole,
    /// A model summarizes them first, and from then on the summary is sent; the log keeps all of them. Untrusted
    /// content stays marked as such. Without a usable summary, same as [`Whole`](Self::Whole).
    SummedUp,
}

/// Whether replies are streamed to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// Replies are streamed.
    #[default]
    Streamed,
    /// Replies are requested whole.
    Whole,
}

impl UserRequest {
    /// Creates a request with the default mode and channel.
    pub fn new(session_id: SessionId, message: impl Into<String>) -> Self {
        Self {
            session_id,
            message: message.into(),
            attachments: Vec::new(),
            mode: Mode::MODERATE,
            channel: Channel::CHAT,
            agent: None,
            plan: None,
            delivery: Delivery::default(),
            trace: None,
            idempotency_key: None,
            context: RequestContext::default(),
            answer: None,
            client_input: None,
            earlier: Earlier::default(),
        }
    }

    /// Sets how the earlier messages of the session are sent.
    #[must_use]
    pub const fn earlier(mut self, earlier: Earlier) -> Self {
        self.earlier = earlier;
        self
    }

    /// Sets how much freedom the request has.
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

    /// Sets the agent that answers: one of the policy's `[agents.NAME]`, or one that was added to the orchestrator.
    #[must_use]
    pub fn agent(mut self, agent: AgentName) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Sets whether replies are streamed.
    #[must_use]
    pub const fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Sets the owner that asks. A session that the request creates belongs to this owner, and so do the daily budgets
    /// that it uses. A session of another owner, or of no owner, is refused: [`RequestError::OtherOwner`]. A request
    /// without an owner may use any session, unless its context is [unowned](RequestContext::unowned).
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.context = self.context.owned_by(Some(owner.into()));
        self
    }

    /// Sets the id by which the request is known outside, such as that of an HTTP request. Tools and hooks can read it
    /// ([`TurnContext::request_id`](neuraxis_ports::TurnContext::request_id)); it is not stored.
    #[must_use]
    pub fn request_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.context = self.context.identified_by(id);
        self
    }

    /// Adds a value that tools and hooks can read by its type: the user who asks, a token, a connection. It is not
    /// stored: a run that is resumed, after a crash or a late approval, has the value only if
    /// [`Runs::with_context`](crate::Runs::with_context) supplies it again. Values added with
    /// [`stored_context`](Self::stored_context) are stored.
    ///
    /// ```
    /// use neuraxis_engine::UserRequest;
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Tenant(u32);
    ///
    /// let request = UserRequest::new("main".parse()?, "What do I owe?").owner("ada").context(Tenant(7));
    /// // A tool reads the same with `ctx.owner()` and `ctx.get::<Tenant>()`.
    /// assert_eq!(request.context.owner(), Some("ada"));
    /// assert_eq!(request.context.get::<Tenant>(), Some(&Tenant(7)));
    /// # Ok::<(), neuraxis_core::InvalidId>(())
    /// ```
    #[must_use]
    pub fn context<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.context = self.context.with(value);
        self
    }

    /// Adds a value for tools, hooks and instructions that is stored with the run, so it is available to any process
    /// that resumes the run.
    ///
    /// # Errors
    ///
    /// A [`ContextError`] if the value cannot be serialized as JSON.
    pub fn stored_context<T: StoredContext>(mut self, value: &T) -> Result<Self, ContextError> {
        self.context = self.context.with_stored(value)?;
        Ok(self)
    }

    /// Sets the approver for calls of this request, instead of [the
    /// orchestrator's](crate::OrchestratorBuilder::approver): usually the user who made the request, in a program with
    /// several users. A resumed run has this approver only if [`Runs::with_context`](crate::Runs::with_context)
    /// supplies it again.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.context = self.context.approved_by(approver);
        self
    }

    /// Requires an answer that fits a JSON Schema: [`OrchestratorResult::answer`](crate::OrchestratorResult::answer).
    #[must_use]
    pub fn answer(mut self, schema: AnswerSchema) -> Self {
        self.answer = Some(schema);
        self
    }

    /// Sets the idempotency key, which makes it safe to repeat the request.
    ///
    /// ```
    /// use neuraxis_core::SessionId;
    /// use neuraxis_engine::UserRequest;
    ///
    /// let session: SessionId = "main".parse()?;
    /// let request = UserRequest::new(session, "Book the flight.").idempotency_key("booking-17".parse()?);
    /// assert_eq!(request.idempotency_key.unwrap().as_str(), "booking-17");
    /// # Ok::<(), neuraxis_core::InvalidId>(())
    /// ```
    #[must_use]
    pub fn idempotency_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = Some(key);
        self
    }
}

/// Why a request has no result. Except for [`NoResult`](Self::NoResult), no run exists and nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The message contains nothing to answer, and nothing is attached to it.
    #[error("the message is empty")]
    EmptyMessage,
    /// An attachment cannot be sent at all, or not to a model that may serve the request.
    #[error("{part} cannot be sent: {source}")]
    Attachment {
        /// The part, with its type and size, such as `attachment 2 (image/png, 12 KiB)`.
        part: String,
        /// Why it cannot be sent.
        source: AttachmentError,
    },
    /// What the client supplies in addition to its message is invalid.
    #[error(transparent)]
    ClientInput(#[from] ClientInputError),
    /// Instructions and message alone exceed the model's context.
    #[error("the message does not fit {model}'s context of {context_tokens} tokens: {size}")]
    TooLarge {
        /// The model that would answer.
        model: ModelRef,
        /// Its context in tokens.
        context_tokens: u64,
        /// The size of each part of the request.
        size: RequestSize,
    },
    /// The policy does not allow such a request.
    #[error(transparent)]
    Policy(#[from] neuraxis_brainstem::Refusal),
    /// The agent has no model of its own, so it does not run alone.
    #[error(
        "agent {0} has no model of its own: give it one with `model`, or let an orchestrator run it"
    )]
    NoModel(AgentName),
    /// The program's code that creates the instructions of an agent panicked.
    #[error(
        "the instructions of agent {0} could not be created: the code that creates them panicked"
    )]
    Instructions(AgentName),
    /// The session has a run that has not ended.
    #[error("session {session} is busy with run {run}")]
    Busy {
        /// The busy session.
        session: SessionId,
        /// The run that occupies it.
        run: RunId,
    },
    /// The request names an owner that is not the owner of the session, or the request is unowned and the session has
    /// an owner.
    #[error("session {session} does not belong to this owner: use one that does, or a new one")]
    OtherOwner {
        /// The session that was asked for.
        session: SessionId,
    },
    /// The idempotency key was already used in this session, for a different request.
    #[error("the idempotency key was already used in this session for a different request: {0}")]
    KeyReused(Differences),
    /// The request was made before, and another process drives its run, or did until it died a moment ago.
    #[error("another process is driving the run of this request")]
    AtWorkElsewhere {
        /// The session.
        session: SessionId,
        /// The run of the request, if anything of it is on record. If not, another run may begin instead.
        run: Option<RunId>,
    },
    /// The request was made before, and its run cannot be resumed.
    #[error("run {run} of this request cannot be resumed")]
    Interrupted {
        /// The run of the request.
        run: RunId,
        /// Why it cannot continue.
        #[source]
        source: Box<ResumeError>,
    },
    /// The session was altered, so nothing continues it. Only an engine that [verifies
    /// sessions](crate::OrchestratorBuilder::verify_sessions) checks this.
    #[error("session {session} was altered after it was stored, so it cannot be continued: {why}")]
    Altered {
        /// The altered session.
        session: SessionId,
        /// The inconsistency that was found.
        why: String,
    },
    /// The run of the request began and was left without an end; it continues when it is resumed. Starting another run
    /// for the same message may do everything twice.
    #[error("run {run} of this request was left unfinished")]
    NoResult {
        /// The session.
        session: SessionId,
        /// The run of the request.
        run: RunId,
        /// Whether its records could not be stored, or it was stopped.
        #[source]
        source: NoResult,
    },
    /// The store failed.
    #[error("{}", words_of_store(.0, "the request could not be recorded"))]
    Store(#[source] StoreError),
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::SessionBusy { session, run } => Self::Busy { session, run },
            error => Self::Store(error),
        }
    }
}
