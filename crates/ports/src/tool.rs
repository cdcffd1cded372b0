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

use crate::question::Person;
use crate::request_context::{ContextError, RequestContext, StoredContext};

/// Something a model can call.
///
/// **Who checks.** Arguments have passed the schema and the policy before `call`. **Who repeats.** The engine, and only
/// what the tool's class allows; [`ToolContext::effect_id`] stays the same, as idempotency key. **Cancel safety.** When
/// the time is up or the run ends, the token is cancelled and soon after the future is dropped; a tool that started a
/// process or thread ends it then. **Order.** Read-only tools may run at the same time as others of one reply.
#[async_trait]
pub trait Tool: Debug + Send + Sync + 'static {
    /// Describes the tool. The same for the whole life of the process: it is part of every prompt.
    fn spec(&self) -> &ToolSpec;

    /// Tells whether the tool is available in this turn. Called often; must be quick.
    fn should_use(&self, _turn: &TurnContext) -> bool {
        true
    }

    /// Tells where calls run. The same for the whole life of the process.
    fn isolation(&self) -> Isolation {
        Isolation::default()
    }

    /// Looks whether a call can do what it says, as things are now, and changes nothing. Asked about a call before a person
    /// is: nobody decides about one that could only fail. The default says that every call can.
    ///
    /// Must be quick, and may be wrong: `call` finds out by itself, since everything may be different by then.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] that says why it cannot, which the model is told in place of a result.
    async fn dry_run(&self, _arguments: &JsonText) -> Result<(), ToolError> {
        Ok(())
    }

    /// Runs one call.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] with a message the model can act on; the run goes on.
    async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError>;
}

/// Where a tool's calls run. Whichever it is, a call that panics fails and nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Each in a task of its own. A call that blocks its thread or computes for long holds up nothing but itself, as long as the
    /// runtime has another thread: its time limit and cancelling hold all the same. On a current-thread runtime it holds up
    /// everything, and so do as many such calls at once as there are worker threads: what blocks belongs into
    /// `tokio::task::spawn_blocking`.
    #[default]
    OwnTask,
    /// In the task of its run, which saves starting a task and waking another thread. Only for calls that never block
    /// and come back to each `await` within microseconds: while one does not, its whole run stands still, time limits
    /// included.
    RunTask,
}

/// A turn of an agent, and who asks: what tools, hooks, advisors and approvers know of where they are.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnContext {
    /// The run.
    pub run_id: RunId,
    /// The session, unless the run is stateless.
    pub session_id: Option<SessionId>,
    /// The agent.
    pub agent: AgentId,
    /// Its turn.
    pub turn: Turn,
    /// Who asks, and what the program gave with the request.
    pub request: RequestContext,
}

impl TurnContext {
    /// Names a turn of an agent of a run, about whose request nothing is known.
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

    /// Returns the value of a type that the program gave with the request, such as the user who asks; `None` if it gave none,
    /// and in a run that was taken up again without it, as after a crash or a late approval.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.request.get()
    }

    /// Returns the value that the program gave with the request [to be kept](StoredContext); `None` if it gave none. It is
    /// there in a run that was taken up, too.
    ///
    /// # Errors
    ///
    /// A [`ContextError`], when what was kept is none of that type.
    pub fn stored<T: StoredContext>(&self) -> Result<Option<T>, ContextError> {
        self.request.stored()
    }

    /// Returns whose session it is, and so who asks; `None` where there is only one user. That is still known once a run was
    /// taken up again.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.request.owner()
    }

    /// Returns the id by which the request is known outside, such as that of an HTTP request; `None` where nobody named one,
    /// and in a run that was taken up again.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request.request_id()
    }
}

/// The circumstances of a tool call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The embedder's project, if it named one.
    pub project_id: Option<Arc<str>>,
    /// The turn it belongs to.
    pub turn: TurnContext,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The effect: the idempotency key, the same when the call is run again.
    pub effect_id: EffectId,
    /// How often it was tried, this time included.
    pub attempt: Attempt,
    /// Tells the call to give up.
    pub cancellation: CancellationToken,
    /// Where progress and partial output go.
    pub progress: Progress,
    /// The trace that the call belongs to and its span, for whatever the tool calls; `None` where nobody records one.
    pub trace: Option<TraceContext>,
    /// Whom it can ask in the middle of the call. Waiting for an answer does not count toward the tool's time.
    pub person: Person,
}

impl ToolContext {
    /// Makes the context of a first attempt that nobody cancels or watches yet.
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
            person: Person::default(),
        }
    }
}

/// What is known of the turn is known of its call: [`owner`](TurnContext::owner), [`get`](TurnContext::get).
impl Deref for ToolContext {
    type Target = TurnContext;

    fn deref(&self) -> &TurnContext {
        &self.turn
    }
}

/// Where a tool reports how far it is. Reports are shown at once and never stored; without a listener they are dropped.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<Arc<dyn ProgressSink>>);

impl Progress {
    /// Sends reports to the given sink.
    #[must_use]
    pub fn to(sink: Arc<dyn ProgressSink>) -> Self {
        Self(Some(sink))
    }

    /// Reports what the tool is doing and how far it is.
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
    /// The tool says what it is doing and how far it is.
    fn progress(&self, name: &str, icon: Option<&str>, steps: Option<ProgressSteps>);

    /// The tool shows more of its output.
    fn output(&self, text: &str);
}

/// Why a tool call failed, for the model to read.
///
/// `?` makes one of any error, `anyhow`'s included, and of a text: with [`Persistence::Unknown`], so that a call that may be
/// made again is. Where the tool knows better it says so: `.map_err(ToolError::permanent)?`.
///
/// **What is sent.** The message, cut at 2,000 characters, goes to the model, and so to whoever serves it, and into the
/// run's records. Of an error that came by `?` that is its own text (`Display`), without its sources and without `Debug`, and
/// of addresses in it neither user, password nor query: clients of HTTP and of databases put those into their errors. An error
/// that may hold a secret elsewhere is to be put into other words:
/// `.map_err(|_| ToolError::temporary("the weather service does not answer"))?`.
///
/// It does not implement [`std::error::Error`] itself, for otherwise no `?` could make one of every error that does.
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
    /// Whether the same call may succeed when it is made again.
    pub persistence: Persistence,
}

/// What a tool says of whether the same call would fail again. The engine makes a call that only reads, or that is no more
/// when made twice than when made once, again unless it is [`Permanent`](Self::Permanent): the other two differ in what the
/// log says of the failure, and in nothing that the engine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Persistence {
    /// Nothing: it may well be gone the next time.
    #[default]
    Unknown,
    /// It may be gone the next time.
    Temporary,
    /// The same call would meet it again: what was asked for is not there, is not possible or is not allowed.
    Permanent,
}

impl ToolError {
    /// An error of which the tool cannot say whether the same call would meet it again.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::of(Persistence::Unknown, message.to_string())
    }

    /// An error that the same call would meet again, because what was asked for is not there, not possible or not allowed.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::of(Persistence::Permanent, message.to_string())
    }

    /// An error that may be gone the next time.
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

/// Makes `?` work in a tool: see [`ToolError`] for what of the error is sent.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(without_secrets_of_addresses(&error.into().to_string()))
    }
}

/// Takes user, password, query and fragment out of the addresses in a text.
fn without_secrets_of_addresses(text: &str) -> String {
    let is_end = |letter: char| letter.is_whitespace() || "\"'`<>".contains(letter);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let (address, behind) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        // A sentence or a bracket may end right behind an address.
        let bare = address.trim_end_matches([')', ']', '}', '.', ',', ';', ':']);
        let place = behind_unescaped(bare);
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

/// Returns what stands behind a password that was not escaped and holds what else ends a host: no number stands before that then, as
/// a port would.
fn behind_unescaped(address: &str) -> &str {
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let authority = address.get(..end).unwrap_or_default();
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    if is_port || authority.contains('@') || authority.starts_with('[') {
        return address;
    }
    address.rsplit_once('@').map_or(address, |(_, host)| host)
}

/// Makes `?` work for whoever calls a tool by hand, as tests do.
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
    fn an_error_that_a_tool_passes_on_shows_its_own_text_and_not_its_sources() {
        let error = fails().unwrap_err();
        assert_eq!(error, ToolError::new("the weather service does not answer"));
        assert!(!format!("{error:?}").contains("canary"));
    }

    #[test]
    fn an_address_in_an_error_that_is_passed_on_has_neither_user_password_nor_query() {
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
        // What a tool says in its own words is its own.
        let said = ToolError::new("open https://example.org/?page=2 instead");
        assert!(said.message.ends_with("?page=2 instead"));
    }

    #[test]
    fn a_text_and_an_error_of_any_type_become_an_error_of_a_tool() {
        assert_eq!(ToolError::from("no such city").message, "no such city");
        let boxed: Box<dyn Error + Send + Sync> = "no such street".into();
        assert_eq!(ToolError::from(boxed).persistence, Persistence::Unknown);
    }

    #[test]
    fn a_tool_says_in_one_word_whether_a_repetition_helps() {
        let not_a_number = || "x".parse::<u8>();
        let permanent = not_a_number().map_err(ToolError::permanent).unwrap_err();
        assert_eq!(permanent.persistence, Persistence::Permanent);
        let temporary = not_a_number().map_err(ToolError::temporary).unwrap_err();
        assert_eq!(temporary.persistence, Persistence::Temporary);
        assert_eq!(temporary.message, permanent.message);
    }
}
