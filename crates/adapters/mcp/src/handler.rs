//! Handles what a server sends unsolicited: progress, log messages, change notifications, and questions.
#![expect(
    deprecated,
    reason = "the newest revision has no log messages any more, and most servers are older"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use neuraxis_ports::{QuestionReply, QuestionSender};
use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, ErrorData, Implementation,
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    SetLevelRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::elicit;
use crate::error::MAX_MESSAGE_CHARS;
use crate::notices::Notices;
use crate::schema::MAX_BYTES;
use crate::text::one_line;

/// The maximum number of a connection's log messages that are logged.
const MAX_MESSAGES: u32 = 1_000;

/// The method of a question.
pub(crate) const ELICITATION: &str = "elicitation/create";

/// The maximum number of questions that a server may have open at the same time.
pub(crate) const MAX_QUESTIONS: usize = 10;

/// What is reported about a server that exceeds it.
pub(crate) const TOO_MANY_QUESTIONS: &str = "asks too many questions at once";

/// How long a server may take to confirm the requested log level.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(30);

/// The handler of a connection.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) calls: Arc<Calls>,
    /// Notified when the tools have changed.
    pub(crate) changed: Arc<Notify>,
    pub(crate) notices: Notices,
    messages: AtomicU32,
    /// Permits for questions that are not answered yet.
    questions: Semaphore,
}

impl Handler {
    pub(crate) fn new(calls: Arc<Calls>, changed: Arc<Notify>, notices: Notices) -> Self {
        Self {
            calls,
            changed,
            notices,
            messages: AtomicU32::new(0),
            questions: Semaphore::new(MAX_QUESTIONS),
        }
    }

    async fn answer(&self, params: Value, given_up: &CancellationToken) -> ElicitResult {
        let Ok(_room) = self.questions.try_acquire() else {
            self.notices
                .misbehaves(format!("it {TOO_MANY_QUESTIONS}: declined"));
            return ElicitResult::new(ElicitationAction::Decline);
        };
        tokio::select! {
            answer = ask(&self.notices, QuestionRecipient::CallsInProgress(&self.calls), &params) => answer,
            () = given_up.cancelled() => ElicitResult::new(ElicitationAction::Cancel),
        }
    }
}

/// Who is asked a server's question.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QuestionRecipient<'a> {
    /// The user behind the calls in progress.
    CallsInProgress(&'a Calls),
    /// The user behind the call that the question is the result of.
    User(&'a QuestionSender),
}

/// Asks the user a server's question and returns the answer. Only forms are supported: the user is never sent to an
/// address. The question is read from the raw parameters, because it may have schemas that the protocol library has no
/// type for.
pub(crate) async fn ask(
    notices: &Notices,
    recipient: QuestionRecipient<'_>,
    params: &Value,
) -> ElicitResult {
    let declined = || ElicitResult::new(ElicitationAction::Decline);
    let refused = |what: &str| {
        notices.misbehaves(format!("{what}: declined"));
        declined()
    };
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    match text("mode") {
        None | Some("form") => {}
        Some("url") => {
            return refused("it asks the user to open an address, but only forms are supported");
        }
        Some(_) => {
            return refused("it asks in an unknown way, but only forms are supported");
        }
    }
    let Some(message) = text("message") else {
        return refused("it asks a question that has no text");
    };
    let message = notices.secrets.text(message);
    let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
    // Checked before parsing: resolving a reference within the schema copies its target.
    let size = schema.to_string().len();
    if size > MAX_BYTES {
        return refused(&format!(
            "it asks a question whose schema has {size} bytes, more than {MAX_BYTES}"
        ));
    }
    let schema = notices.secrets.value(schema.clone());
    let question = match elicit::question(&notices.server, &message, &schema) {
        Ok(question) => question,
        Err(why) => {
            return refused(&format!("it asks a question that cannot be shown ({why})"));
        }
    };
    let reply = match recipient {
        QuestionRecipient::User(questions) => questions.ask(&question).await,
        QuestionRecipient::CallsInProgress(calls) => match calls.ask(&question).await {
            Some(reply) => reply,
            None => {
                notices.misbehaves(
                    "it asks a question, but it is unknown which user to ask: no user is asked",
                );
                // The user did not decline.
                return ElicitResult::new(ElicitationAction::Cancel);
            }
        },
    };
    match reply {
        QuestionReply::Answered(answer) => match answer.decode() {
            Ok(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            Err(_) => declined(),
        },
        QuestionReply::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
        _ => declined(),
    }
}

/// Returns the minimum level of a server's log messages that are logged here, if the server has log messages.
pub(crate) fn log_level(peer: &Peer<RoleClient>) -> Option<LoggingLevel> {
    let info = peer.peer_info();
    info.as_ref()?.capabilities.logging.as_ref()?;
    Some(if tracing::enabled!(tracing::Level::DEBUG) {
        LoggingLevel::Debug
    } else if tracing::enabled!(tracing::Level::INFO) {
        LoggingLevel::Info
    } else {
        LoggingLevel::Warning
    })
}

/// Requests log messages of that level from a server of a revision before 2026-07-28; newer servers get the level with
/// each call. The answer is not awaited: the tools are usable whatever it is.
pub(crate) fn ask_for_messages(peer: &Peer<RoleClient>) {
    let Some(level) = log_level(peer) else {
        return;
    };
    let peer = peer.clone();
    tokio::spawn(async move {
        let request = peer.set_level(SetLevelRequestParams::new(level));
        let answered = tokio::time::timeout(LEVEL_TIMEOUT, request).await;
        if !matches!(answered, Ok(Ok(_))) {
            tracing::debug!("it does not accept a log level");
        }
    });
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        // Without modes, the capability means forms.
        capabilities.elicitation = Some(ElicitationCapability::default());
        let this = Implementation::new("neuraxis", env!("CARGO_PKG_VERSION"));
        // The version that `initialize` requests. Revisions without `initialize` are negotiated in another way.
        ClientConfig::new(capabilities, this)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = serde_json::to_value(&request).unwrap_or_default();
        Ok(self.answer(params, &context.ct).await)
    }

    /// Also handles questions whose schema the protocol library has no type for.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != ELICITATION {
            let method = request.method;
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None));
        }
        let params = request.params.unwrap_or_default();
        let answer = self.answer(params, &context.ct).await;
        let answer = serde_json::to_value(answer);
        answer
            .map(CustomResult::new)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn on_progress(
        &self,
        mut params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let message = params.message.take();
        params.message = message.map(|message| self.notices.secrets.text(&message));
        self.calls.report(&params);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let count = self.messages.fetch_add(1, Ordering::Relaxed);
        let server = &self.notices.server;
        if count >= MAX_MESSAGES {
            if count == MAX_MESSAGES {
                tracing::warn!(%server, "it sends too many log messages: the rest is dropped");
            }
            return;
        }
        let text = match self.notices.secrets.value(params.data) {
            Value::String(text) => one_line(&text, MAX_MESSAGE_CHARS),
            other => one_line(&other.to_string(), MAX_MESSAGE_CHARS),
        };
        match params.level {
            LoggingLevel::Debug => tracing::debug!(%server, "{text}"),
            LoggingLevel::Info | LoggingLevel::Notice => tracing::info!(%server, "{text}"),
            // An error of the server is not an error of this program.
            _ => tracing::warn!(%server, "{text}"),
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
