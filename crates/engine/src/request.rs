//! What a user asks, and why it may be refused before a run exists.

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
use crate::brought::{Brought, BroughtError};
use crate::error_kind::words_of_store;
use crate::idempotency::Differences;
use crate::media::AttachmentError;
use crate::run_handle::NoResult;
use crate::runs::ResumeError;

/// A user message and the circumstances under which it is handled.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UserRequest {
    /// The session; made if there is none with this id.
    pub session_id: SessionId,
    /// What the user says. Empty where what is [brought](Self::brought) holds what is to be answered.
    pub message: String,
    /// What is attached to the message: texts, images, sounds and files, in this order after what the user says.
    pub attachments: Vec<Part>,
    /// How much freedom the request has.
    pub mode: Mode,
    /// Where it comes from.
    pub channel: Channel,
    /// The agent that answers; that of the channel if `None`.
    pub agent: Option<AgentName>,
    /// A named set of limits to be kept besides those of mode and channel.
    pub plan: Option<PlanName>,
    /// Whether models stream their replies or give them whole. The records are the same.
    pub delivery: Delivery,
    /// The trace to join; a new one if `None`.
    pub trace: Option<TraceContext>,
    /// What the caller calls this request. A request of the same session under the same key is taken as the same one made
    /// again: it gets the run that the first one began, at work or ended, and begins none itself. Message, attachments,
    /// mode, channel, answer schema and what else the client brings have to be the same.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Who asks, and what else the program wants its tools and hooks to know of the request.
    pub context: RequestContext,
    /// What the answer has to look like; any text is one if `None`.
    pub answer: Option<AnswerSchema>,
    /// What a client brings besides its message.
    pub brought: Option<Box<Brought>>,
    /// Whether the model is sent what was said before as it was said.
    pub earlier: Earlier,
}

/// What becomes of what was said before in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Earlier {
    /// It is sent as it was said, as far as it fits.
    #[default]
    Whole,
    /// It is summed up by a model first, and from then on the summary is sent; on record all of it stays. What is untrusted
    /// stays marked. Where there is no usable summary, as with [`Whole`](Self::Whole).
    SummedUp,
}

/// Whether a person reads along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// Replies are streamed.
    #[default]
    Streamed,
    /// Replies are asked for whole.
    Whole,
}

impl UserRequest {
    /// Makes a request in the default mode and channel.
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
            brought: None,
            earlier: Earlier::default(),
        }
    }

    /// Sets what becomes of what was said before.
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

    /// Sets where the request comes from.
    #[must_use]
    pub fn channel(mut self, channel: Channel) -> Self {
        self.channel = channel;
        self
    }

    /// Sets the agent that answers: one of the policy's `[agents.NAME]`, or one that the orchestrator was built with.
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

    /// Says who asks. A session that the request makes is this owner's, and so are the budgets of a day; one of somebody
    /// else, or of nobody, is refused: [`RequestError::OtherOwner`]. A request that names no owner may enter any session,
    /// unless its context says that it is [no owner's](RequestContext::unowned).
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.context = self.context.owned_by(Some(owner.into()));
        self
    }

    /// Says by which id the request is known outside, such as that of an HTTP request. Tools and hooks can read it
    /// ([`TurnContext::request_id`](neuraxis_ports::TurnContext::request_id)); it is kept nowhere.
    #[must_use]
    pub fn request_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.context = self.context.identified_by(id);
        self
    }

    /// Adds a value that tools and hooks can read, by its type: the user who asks, a token, a connection. It is kept nowhere:
    /// a run that is taken up again, after a crash or once a late approval came, has it only if
    /// [`Runs::with_context`](crate::Runs::with_context) gives it again; [`stored_context`](Self::stored_context) is kept.
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

    /// Gives tools, hooks and instructions a value that is kept with the run, so that it is there whoever takes the run up.
    ///
    /// # Errors
    ///
    /// A [`ContextError`], when it cannot be written as JSON.
    pub fn stored_context<T: StoredContext>(mut self, value: &T) -> Result<Self, ContextError> {
        self.context = self.context.with_stored(value)?;
        Ok(self)
    }

    /// Sets who is asked about calls of this request that need approval, in place of
    /// [the orchestrator's](crate::OrchestratorBuilder::approver): the person who made it, where several people make requests.
    /// A run that is taken up again has it only if [`Runs::with_context`](crate::Runs::with_context) gives it again.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.context = self.context.approved_by(approver);
        self
    }

    /// Asks for an answer that fits a JSON Schema: [`OrchestratorResult::answer`](crate::OrchestratorResult::answer).
    #[must_use]
    pub fn answer(mut self, schema: AnswerSchema) -> Self {
        self.answer = Some(schema);
        self
    }

    /// Makes it safe to repeat the request under this key.
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

/// Why a request has no result. But for [`NoResult`](Self::NoResult) no run exists and nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The message holds nothing to answer.
    #[error("the message is empty")]
    EmptyMessage,
    /// Something that is attached cannot be sent, or not to a model that may serve the request.
    #[error("{part} cannot be sent: {source}")]
    Attachment {
        /// Which part it is, with type and size, such as `attachment 2 (image/png, 12 KiB)`.
        part: String,
        /// What keeps it from being sent.
        source: AttachmentError,
    },
    /// What the client brings besides its message cannot be taken.
    #[error(transparent)]
    Brought(#[from] BroughtError),
    /// Instructions and message alone are more than the model's context holds.
    #[error("the message does not fit the {context_tokens} tokens of context of {model}: {size}")]
    TooLarge {
        /// The model that would answer.
        model: ModelRef,
        /// Its context in tokens.
        context_tokens: u64,
        /// What takes how much.
        size: RequestSize,
    },
    /// Policy does not allow such a request.
    #[error(transparent)]
    Policy(#[from] neuraxis_brainstem::Refusal),
    /// The agent has no model of its own, and so does not run alone.
    #[error(
        "agent {0} has no model of its own: give it one with `model`, or let an orchestrator run it"
    )]
    NoModel(AgentName),
    /// What the program makes the instructions of an agent with panicked.
    #[error("the instructions of agent {0} could not be made: the code that makes them panicked")]
    Instructions(AgentName),
    /// The session has a run that has not ended.
    #[error("session {session} is busy with run {run}")]
    Busy {
        /// The session.
        session: SessionId,
        /// The run that holds it.
        run: RunId,
    },
    /// The request names an owner, and the session is not that owner's; or it is no owner's, and the session is.
    #[error("session {session} is not this owner's: name one of their own, or a new one")]
    OtherOwner {
        /// The session.
        session: SessionId,
    },
    /// The idempotency key was used before in this session, for a request that says something else.
    #[error("the idempotency key was used before for another request of the session: {0}")]
    KeyReused(Differences),
    /// The request was made before, and another process drives its run; or one did until just now, and died.
    #[error("the run of this request is at work in another process")]
    AtWorkElsewhere {
        /// The session.
        session: SessionId,
        /// The run of the request, if anything of it is on record. Otherwise another may begin in its place.
        run: Option<RunId>,
    },
    /// The request was made before, and its run cannot be taken up.
    #[error("run {run} of this request cannot go on")]
    Interrupted {
        /// The run of the request.
        run: RunId,
        /// What keeps it from going on.
        #[source]
        source: Box<ResumeError>,
    },
    /// The session is not what was kept, so that nothing goes on from it. Only an engine that
    /// [verifies sessions](crate::OrchestratorBuilder::verify_sessions) looks.
    #[error("session {session} was altered since it was kept, so nothing goes on from it: {why}")]
    Altered {
        /// The session.
        session: SessionId,
        /// What does not fit.
        why: String,
    },
    /// The run of the request began and was left without an end: it goes on when it is taken up. Who begins another for
    /// the same message may have everything done twice.
    #[error("run {run} of this request was left without an end")]
    NoResult {
        /// The session.
        session: SessionId,
        /// The run of the request.
        run: RunId,
        /// Whether its records could not be kept, or it was stopped.
        #[source]
        source: NoResult,
    },
    /// The store could not do its part.
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
