//! The port to tools.

use std::any::Any;
use std::error::Error;
use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use neuraxis_core::{
    AgentId, Attempt, EffectId, JsonText, ProgressSteps, RunId, SessionId, ToolCallId, ToolOutput,
    ToolSpec, TraceContext, Turn,
};
use tokio_util::sync::CancellationToken;

use crate::question::QuestionSender;
use crate::request_context::{ContextError, RequestContext, StoredContext};

/// A tool that a model can call.
///
/// **Checks.** Arguments have passed the schema and the policy before `call`. **Retries.** By the engine, as far as the
/// tool's class allows; [`ToolContext::effect_id`] stays the same and serves as the idempotency key. **Cancel safety.**
/// When the time is up or the run ends, the token is cancelled and soon afterwards the future is dropped; a tool that
/// started a process or thread must end it then. **Order.** Read-only tools may run at the same time as others of one
/// reply.
#[async_trait]
pub trait Tool: Debug + Send + Sync + 'static {
    /// Describes the tool. Must stay the same for the life of the process: it is part of every prompt.
    fn spec(&self) -> &ToolSpec;

    /// Returns whether the tool is available in this turn. Called often, so it must be quick.
    fn should_use(&self, _turn: &TurnContext) -> bool {
        true
    }

    /// Returns where calls run. Must stay the same for the life of the process.
    fn isolation(&self) -> Isolation {
        Isolation::default()
    }

    /// Checks whether a call can do what it says, under current conditions, without changing anything. Called before
    /// the user is asked about a call, so the user is not asked about a call that could only fail. By default every
    /// call can.
    ///
    /// Must be quick, and may be wrong: `call` must check again, since everything may have changed by then.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] that says why the call cannot succeed. The model receives it instead of a result.
    async fn dry_run(&self, _arguments: &JsonText) -> Result<(), ToolError> {
        Ok(())
    }

    /// Runs one call.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] with a message that the model can act on; the run continues.
    async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError>;
}

/// Where a tool's calls run. In either case, if a call panics, only that call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Each call runs in a separate task. A call that blocks its thread or computes for a long time delays only itself,
    /// as long as the runtime has another thread: its time limit and cancellation still apply. On a current-thread
    /// runtime it blocks everything, and so do as many such calls at the same time as there are worker threads. Use
    /// `tokio::task::spawn_blocking` for blocking work.
    #[default]
    OwnTask,
    /// Calls run in the task of their run, which saves starting a task and waking another thread. Only for calls that
    /// never block and return to each `await` within microseconds: until such a call does, its whole run stands still,
    /// including time limits.
    RunTask,
}

/// A turn of an agent, and who asks: the context of tools, hooks, advisors and approvers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnContext {
    /// The run.
    pub run_id: RunId,
    /// The session; `None` if the run is stateless.
    pub session_id: Option<SessionId>,
    /// The agent.
    pub agent: AgentId,
    /// Its turn.
    pub turn: Turn,
    /// Who asks, and the values that the program passed with the request.
    pub request: RequestContext,
}

impl TurnContext {
    /// Creates the context of an agent's turn in a run, with no information about the request.
    #[must_use]
    pub fn new(run_id: RunId, session_id: Option<SessionId>, agent: AgentId, turn: Turn) -> Self {
        Self {
            run_id,
            session_id,
            agent,
            turn,
            request: RequestContext::default(),
        }
    }

    /// Returns the value of a type that the program passed with the request, such as the user who asks; `None` if there
    /// is none, and in a run that was resumed without it, such as after a crash or a late approval.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.request.get()
    }

    /// Returns the value that the program passed with the request [to be stored](StoredContext); `None` if there is
    /// none. It is also available in a resumed run.
    ///
    /// # Errors
    ///
    /// A [`ContextError`] if the stored value is not of that type.
    pub fn stored<T: StoredContext>(&self) -> Result<Option<T>, ContextError> {
        self.request.stored()
    }

    /// Returns the owner of the session, who is the one asking; `None` if there is only one user. Also known in a
    /// resumed run.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.request.owner()
    }

    /// Returns the id by which the request is known outside, such as that of an HTTP request; `None` if it was not set,
    /// and in a resumed run.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request.request_id()
    }
}

/// The circumstances of a tool call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The embedder's project, if set.
    pub project_id: Option<Arc<str>>,
    /// The turn it belongs to.
    pub turn: TurnContext,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The effect. It is the idempotency key: it stays the same when the call runs again.
    pub effect_id: EffectId,
    /// The number of attempts so far, including this one.
    pub attempt: Attempt,
    /// Tells the call to stop.
    pub cancellation: CancellationToken,
    /// Receives progress and partial output.
    pub progress: Progress,
    /// The trace that the call belongs to and its span, for whatever the tool calls; `None` if no trace is recorded.
    pub trace: Option<TraceContext>,
    /// Sends the tool's questions to the user during the call. Waiting for an answer does not count toward the tool's
    /// time.
    pub questions: QuestionSender,
}

impl ToolContext {
    /// Creates the context of a first attempt, which nothing cancels or observes yet.
    #[must_use]
    pub fn new(turn: TurnContext, tool_call_id: ToolCallId, effect_id: EffectId) -> Self {
        Self {
            project_id: None,
            turn,
            tool_call_id,
            effect_id,
            attempt: Attempt(1),
            cancellation: CancellationToken::new(),
            progress: Progress::default(),
            trace: None,
            questions: QuestionSender::default(),
        }
    }
}

/// Gives access to the turn of the call: [`owner`](TurnContext::owner), [`get`](TurnContext::get).
impl Deref for ToolContext {
    type Target = TurnContext;

    fn deref(&self) -> &TurnContext {
        &self.turn
    }
}

/// Reports a tool's progress. Reports are shown immediately and never stored; without a listener they are dropped.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<Arc<dyn ProgressSink>>);

impl Progress {
    /// Sends reports to the given sink.
    #[must_use]
    pub fn to(sink: Arc<dyn ProgressSink>) -> Self {
        Self(Some(sink))
    }

    /// Reports what the tool is doing and its progress.
    pub fn report(&self, name: &str, icon: Option<&str>, steps: Option<ProgressSteps>) {
        if let Some(sink) = &self.0 {
            sink.progress(name, icon, steps);
        }
    }

    /// Shows more of the tool's output while it runs.
    pub fn output(&self, text: &str) {
        if let Some(sink) = &self.0 {
            sink.output(text);
        }
    }
}

/// Receives a tool's reports. Must not block.
pub trait ProgressSink: Debug + Send + Sync {
    /// Reports what the tool is doing and its progress.
    fn progress(&self, name: &str, icon: Option<&str>, steps: Option<ProgressSteps>);

    /// Shows more of the tool's output.
    fn output(&self, text: &str);
}

/// Why a tool call failed, for the model to read.
///
/// `?` converts any error, including `anyhow`'s, and any string, with [`Persistence::Unknown`], so a call that may be
/// repeated is repeated. A tool that knows better says so: `.map_err(ToolError::permanent)?`.
///
/// **What is sent.** The message, cut at 2,000 characters, goes to the model, and so to the model's provider, and into
/// the run's records. For an error converted by `?` the message is its own text (`Display`), without its sources and
/// without `Debug`. User, password and query are removed from addresses in it: clients of HTTP and of databases put
/// those into their errors. Reword an error that may contain a secret elsewhere:
/// `.map_err(|_| ToolError::temporary("the weather service does not answer"))?`.
///
/// It does not implement [`std::error::Error`] itself, because `?` could then not convert every error that does.
///
/// ```
/// use neuraxis_ports::{Persistence, ToolError};
///
/// fn celsius(reading: &str) -> Result<f64, ToolError> {
///     let degrees: f64 = reading.parse()?;
///     let no_such_cold = degrees < -273.15;
///     if no_such_cold {
///         return Err(ToolError::permanent("nothing is colder than -273.15 °C"));
///     }
///     Ok(degrees)
/// }
///
/// let error = celsius("warm").unwrap_err();
/// assert_eq!(error.message, "invalid float literal");
/// assert_eq!(error.persistence, Persistence::Unknown);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolError {
    /// What went wrong and what to do about it.
    pub message: String,
    /// Whether the same call may succeed if it is repeated.
    pub persistence: Persistence,
}

/// Whether, according to the tool, the same call would fail again. Unless the error is [`Permanent`](Self::Permanent),
/// the engine repeats a call that only reads, or that has the same effect when made twice as when made once. The other
/// two differ only in what the log says about the failure, not in what the engine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Persistence {
    /// Not known; the same call may well succeed next time.
    #[default]
    Unknown,
    /// The same call may succeed next time.
    Temporary,
    /// The same call would fail again: what it asks for does not exist, is not possible or is not allowed.
    Permanent,
}

impl ToolError {
    /// Creates an error for which the tool does not know whether the same call would fail again.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::of(Persistence::Unknown, message.to_string())
    }

    /// Creates an error with which the same call would fail again, because what it asks for does not exist, is not
    /// possible or is not allowed.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::of(Persistence::Permanent, message.to_string())
    }

    /// Creates an error that may not occur next time.
    pub fn temporary(message: impl fmt::Display) -> Self {
        Self::of(Persistence::Temporary, message.to_string())
    }

    const fn of(persistence: Persistence, message: String) -> Self {
        Self {
            message,
            persistence,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Makes `?` work in a tool: [`ToolError`] documents which part of the error is sent.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(without_secrets_of_addresses(&error.into().to_string()))
    }
}

/// Removes user, password, query and fragment from the addresses in a text.
fn without_secrets_of_addresses(text: &str) -> String {
    let is_end = |letter: char| letter.is_whitespace() || "\"'`<>".contains(letter);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let (address, behind) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        // A sentence or a bracket may end directly after an address.
        let bare = address.trim_end_matches([')', ']', '}', '.', ',', ';', ':']);
        let place = after_unescaped_password(bare);
        let (place, is_cut) = match place.find(['?', '#']) {
            Some(at) => (place.get(..at).unwrap_or_default(), true),
            None => (place, false),
        };
        let host = place.find('/').unwrap_or(place.len());
        let (authority, path) = place.split_at(host);
        shown.push_str(
            authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host),
        );
        shown.push_str(path);
        if is_cut {
            shown.push('…');
        }
        shown.push_str(address.get(bare.len()..).unwrap_or_default());
        rest = behind;
    }
    shown.push_str(rest);
    shown
}

/// Returns what follows an unescaped password that contains a character which would normally end the host. Such a
/// password is recognized because what precedes that character is not a port number.
fn after_unescaped_password(address: &str) -> &str {
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let authority = address.get(..end).unwrap_or_default();
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    if is_port || authority.contains('@') || authority.starts_with('[') {
        return address;
    }
    address.rsplit_once('@').map_or(address, |(_, host)| host)
}

/// Makes `?` work for code that calls a tool directly, such as tests.
impl From<ToolError> for Box<dyn Error> {
    fn from(error: ToolError) -> Self {
        error.message.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the weather service does not answer")]
    struct Outer(#[source] std::io::Error);

    fn fails() -> Result<(), ToolError> {
        Err(Outer(std::io::Error::other(
            "https://example.org/?key=k-canary",
        )))?;
        Ok(())
    }

    #[test]
    fn a_propagated_error_shows_its_own_text_and_not_its_sources() {
        let error = fails().unwrap_err();
        assert_eq!(error, ToolError::new("the weather service does not answer"));
        assert!(!format!("{error:?}").contains("canary"));
    }

    #[test]
    fn a_url_in_a_propagated_error_has_no_credentials_and_no_query() {
        let table = [
            (
                "error sending request for url (https://api.example/v1?key=k)canary)",
                "error sending request for url (https://api.example/v1…)",
            ),
            (
                "no postgres://me:p@canary@db:5432/nx, or \"http://a/#canary\".",
                "no postgres://db:5432/nx, or \"http://a/…\".",
            ),
            (
                "no postgres://me:can/ary@db/nx, no redis://me:can?ary@db:6379.",
                "no postgres://db/nx, no redis://db:6379.",
            ),
            (
                "no http://[::1]/@a and no http://host:80/@a",
                "no http://[::1]/@a and no http://host:80/@a",
            ),
            (
                "see https://example.org/@a/b: 3 of ://",
                "see https://example.org/@a/b: 3 of ://",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(ToolError::from(text).message, expected);
        }
        // Text that a tool writes itself is not changed.
        let said = ToolError::new("open https://example.org/?page=2 instead");
        assert!(said.message.ends_with("?page=2 instead"));
    }

    #[test]
    fn a_text_and_an_error_of_any_type_convert_to_a_tool_error() {
        assert_eq!(ToolError::from("no such city").message, "no such city");
        let boxed: Box<dyn Error + Send + Sync> = "no such street".into();
        assert_eq!(ToolError::from(boxed).persistence, Persistence::Unknown);
    }

    #[test]
    fn a_tool_error_can_be_marked_permanent_or_temporary() {
        let not_a_number = || "x".parse::<u8>();
        let permanent = not_a_number().map_err(ToolError::permanent).unwrap_err();
        assert_eq!(permanent.persistence, Persistence::Permanent);
        let temporary = not_a_number().map_err(ToolError::temporary).unwrap_err();
        assert_eq!(temporary.persistence, Persistence::Temporary);
        assert_eq!(temporary.message, permanent.message);
    }
}
