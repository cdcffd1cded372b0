//! What a user asks, and why it may be refused before a run exists.

use neuraxis_core::{
    Channel, IdempotencyKey, Mode, ModelRef, Part, PlanName, RequestSize, RunId, SessionId,
};
use neuraxis_ports::{StoreError, TraceContext};

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
    /// What the user says.
    pub message: String,
    /// What is attached to the message: texts, images, sounds and files, in this order after what the user says.
    pub attachments: Vec<Part>,
    /// How much freedom the request has.
    pub mode: Mode,
    /// Where it comes from.
    pub channel: Channel,
    /// A named set of limits to be kept besides those of mode and channel.
    pub plan: Option<PlanName>,
    /// Whether models stream their replies or give them whole. The records are the same.
    pub delivery: Delivery,
    /// The trace to join; a new one if `None`.
    pub trace: Option<TraceContext>,
    /// What the caller calls this request. A request of the same session under the same key is taken as the same one made
    /// again: it gets the run that the first one began, at work or ended, and begins none itself. Message, attachments,
    /// mode and channel have to be the same.
    pub idempotency_key: Option<IdempotencyKey>,
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
            plan: None,
            delivery: Delivery::default(),
            trace: None,
            idempotency_key: None,
        }
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

    /// Sets whether replies are streamed.
    #[must_use]
    pub const fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
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
    Policy(#[from] neuraxis_brainstem::RequestError),
    /// The session has a run that has not ended.
    #[error("session {session} is busy with run {run}")]
    Busy {
        /// The session.
        session: SessionId,
        /// The run that holds it.
        run: RunId,
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
    #[error("session {session} is not what was kept, so that nothing goes on from it: {why}")]
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
    #[error("the request could not be recorded")]
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
