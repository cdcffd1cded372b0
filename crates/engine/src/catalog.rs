//! The tools of an engine, each with its compiled schema.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::media::check_result;
use futures_util::FutureExt;
use futures_util::future::Either;
use jsonschema::{ValidationError, Validator};
use neuraxis_core::{
    FINAL_ANSWER, FIND_TOOLS, JsonText, READ_OUTPUT, ToolFailure, ToolName, ToolOutcome,
    ToolOutput, ToolSpec,
};
use neuraxis_ports::{Isolation, Persistence, QuestionSender, Tool, ToolContext, ToolError};
use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

use crate::long_result::read_output::ReadOutput;
use crate::question_time::QuestionTime;

/// The names that no tool and no agent may have: the engine's own tools use them.
pub const RESERVED_TOOL_NAMES: [&str; 3] = [FINAL_ANSWER, FIND_TOOLS, READ_OUTPUT];

/// The maximum number of faults in a call's arguments that a message names.
const MAX_FAULTS: usize = 3;
/// The maximum length in bytes of a fault's description that quotes the value.
const MAX_FAULT_BYTES: usize = 500;

/// The tools of an engine, in the order in which they were added. Every prompt names them in this order.
#[derive(Clone, Default)]
pub struct ToolCatalog {
    /// The number of earlier catalogs, each of which was replaced because a source had changed.
    version: u64,
    /// The spec of each tool.
    specs: Vec<ToolSpec>,
    by_name: BTreeMap<Arc<str>, Arc<Entry>>,
    /// Why tools with these names are missing.
    absent: BTreeMap<Arc<str>, Arc<str>>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    schema: Validator,
}

/// A tool that cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// Two tools have the same name.
    #[error("two tools are named {0}")]
    DuplicateName(ToolName),
    /// The engine has its own tool with this name, for delivering typed answers, finding tools or reading long results.
    #[error(
        "the tool name {0} is reserved: the engine has its own tool of this name, with which models {does}; choose another name",
        does = match .0.as_str() {
            FIND_TOOLS => "find other tools",
            READ_OUTPUT => "read long results",
            _ => "deliver typed answers",
        }
    )]
    ReservedName(ToolName),
    /// The parameters are not a JSON Schema.
    #[error("the parameters of tool {name} are not a JSON Schema: {message}")]
    InvalidSchema {
        /// The tool.
        name: ToolName,
        /// The validator's message.
        message: String,
    },
    /// A tool of a third-party server could be mistaken for another tool.
    #[error("tool {name} of server {server:?} must be named {server}__TOOL")]
    ForeignName {
        /// The server.
        server: String,
        /// The tool.
        name: ToolName,
    },
}

/// How the error for arguments that do not fit begins. A program that shows the kind of failure as well can leave it out.
pub const INVALID_ARGUMENTS: &str = "the arguments are not valid: ";

/// Why a call did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolCallError {
    /// No tool has this name.
    #[error("unknown tool {name:?}; the tools are: {known}")]
    UnknownTool {
        /// The name in the call.
        name: String,
        /// The known names.
        known: String,
    },
    /// No tool has this name here, for a known reason.
    #[error("there is no tool {name} here: {why}")]
    AbsentTool {
        /// The name.
        name: String,
        /// The reason, and what can be done about it.
        why: String,
    },
    /// The arguments are not JSON or do not fit the schema.
    #[error("{prefix}{0}", prefix = INVALID_ARGUMENTS)]
    InvalidArguments(String),
}

impl ToolCatalog {
    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// A [`CatalogError`] if the name is taken or the schema is invalid.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), CatalogError> {
        let spec = tool.spec();
        let name = spec.name.clone();
        if RESERVED_TOOL_NAMES.contains(&name.as_str()) {
            return Err(CatalogError::ReservedName(name));
        }
        self.insert(tool)
    }

    /// Adds the engine's own tool for reading long results.
    pub(crate) fn add_reader(&mut self, reader: ReadOutput) -> Result<(), CatalogError> {
        self.insert(Arc::new(reader))
    }

    /// Records why a tool with this name is missing. If a tool with this name is added anyway, that tool is used.
    pub(crate) fn add_absent(&mut self, name: &ToolName, why: Arc<str>) {
        self.absent.insert(name.as_str().into(), why);
    }

    fn insert(&mut self, tool: Arc<dyn Tool>) -> Result<(), CatalogError> {
        let spec = tool.spec();
        let name = spec.name.clone();
        if self.by_name.contains_key(name.as_str()) {
            return Err(CatalogError::DuplicateName(name));
        }
        let invalid = |message: String| CatalogError::InvalidSchema {
            name: name.clone(),
            message,
        };
        let schema: Value = spec
            .parameters
            .decode()
            .map_err(|error| invalid(error.to_string()))?;
        let schema =
            jsonschema::validator_for(&schema).map_err(|error| invalid(error.to_string()))?;
        self.specs.push(spec.clone());
        self.by_name
            .insert(name.as_str().into(), Arc::new(Entry { tool, schema }));
        Ok(())
    }

    /// Returns the spec of each tool.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.specs.iter()
    }

    /// Returns the names of all tools as one readable string.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.specs().map(|spec| spec.name.as_str()).collect();
        names.join(", ")
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    pub(crate) const fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    pub(crate) fn all_specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Returns the tool with a name.
    #[must_use]
    pub fn tool(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.by_name.get(name.as_str()).map(|entry| &entry.tool)
    }

    /// Returns why a tool with this name is missing, if a reason was recorded.
    pub(crate) fn absent(&self, name: &str) -> Option<ToolCallError> {
        let why = self.absent.get(name)?;
        (!self.by_name.contains_key(name)).then(|| ToolCallError::AbsentTool {
            name: name.to_owned(),
            why: why.to_string(),
        })
    }

    /// Checks a call without running it.
    ///
    /// # Errors
    ///
    /// A [`ToolCallError`] that names the known tools, says why the tool is missing, or says what is wrong with the
    /// arguments and where.
    pub fn check(&self, name: &str, arguments: &JsonText) -> Result<&Arc<dyn Tool>, ToolCallError> {
        let Some(entry) = self.by_name.get(name) else {
            if let Some(absent) = self.absent(name) {
                return Err(absent);
            }
            let name = name.chars().take(64).collect();
            let known = self.names();
            return Err(ToolCallError::UnknownTool { name, known });
        };
        let invalid = ToolCallError::InvalidArguments;
        let value = value_of(arguments.as_str()).map_err(|error| {
            invalid(match error.is_data() {
                true => error.to_string(),
                false => format!("not JSON: {error}"),
            })
        })?;
        match faults(&entry.schema, &value, describe_fault) {
            None => Ok(&entry.tool),
            Some(faults) => Err(invalid(faults)),
        }
    }

    /// Runs a checked call. The time limit does not include the time that a user takes to answer the call's questions.
    /// An outcome is returned whatever the tool does, and however long its value or error is: a run cuts what is too
    /// long for a model, and keeps the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the tool.
    pub fn run(
        tool: Arc<dyn Tool>,
        arguments: JsonText,
        ctx: ToolContext,
        timeout: Duration,
    ) -> impl Future<Output = ToolOutcome> + Send {
        // Dropped before the call, so that work that the tool started elsewhere is notified first.
        let stop = ctx.cancellation.clone().drop_guard();
        let (questions, call) = timed(tool, arguments, ctx);
        // Created outside the async block, which would otherwise hold the call's context twice.
        async move {
            tokio::pin!(call);
            // Many calls complete on the first poll. They need no timer, and no memory for one.
            let called = match futures_util::poll!(&mut call) {
                Poll::Ready(called) => called,
                Poll::Pending => match Box::pin(in_time(call, &questions, timeout, stop)).await {
                    Ok(called) => called,
                    Err(stopped) => return stopped,
                },
            };
            outcome_of(called)
        }
    }
}

impl fmt::Debug for ToolCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.specs().map(|spec| spec.name.as_str()))
            .finish()
    }
}

/// Waits for a call that did not complete on the first poll, up to its time limit. If the call is stopped, returns the
/// outcome of that.
async fn in_time(
    mut call: Pin<&mut impl Future<Output = Called>>,
    questions: &QuestionTime,
    timeout: Duration,
    stop: DropGuard,
) -> Result<Called, ToolOutcome> {
    tokio::select! {
        biased;
        called = &mut call => Ok(called),
        () = time_up(questions, timeout) => {
            Err(ToolOutcome::failed(ToolFailure::Timeout, "tool execution timed out"))
        }
        () = stop.token().cancelled() => {
            Err(ToolOutcome::failed(ToolFailure::Cancelled, "the call was cancelled"))
        }
    }
}

/// Waits until the time limit of a call that starts now is reached.
async fn time_up(questions: &QuestionTime, timeout: Duration) {
    let started = Instant::now();
    while let Some(look) = questions.next_check(started, timeout) {
        sleep_until(look).await;
    }
}

/// A tool that panicked.
struct Crashed;

/// The result of a call, unless its tool panicked.
type Called = Result<Result<ToolOutput, ToolError>, Crashed>;

/// Returns the outcome of a call as a run records it.
fn outcome_of(called: Called) -> ToolOutcome {
    match called {
        Err(Crashed) => ToolOutcome::failed(ToolFailure::Panic, "the tool crashed"),
        Ok(Err(error)) => {
            let failure = match error.persistence {
                Persistence::Temporary => ToolFailure::Temporary,
                Persistence::Permanent => ToolFailure::Permanent,
                // The error does not say whether it is permanent.
                _ => ToolFailure::Error,
            };
            ToolOutcome {
                output: ToolOutput::new(JsonText::error(&error.message)),
                failure: Some(failure),
            }
        }
        Ok(Ok(output)) => match check_result(&output.media) {
            Ok(()) => ToolOutcome::done(output),
            Err(error) => {
                let message = format!("the tool's result cannot be shown: {error}");
                ToolOutcome::failed(ToolFailure::Permanent, &message)
            }
        },
    }
}

/// Prepares a call, together with the clock that excludes the time of its questions.
fn timed(
    tool: Arc<dyn Tool>,
    arguments: JsonText,
    mut ctx: ToolContext,
) -> (Arc<QuestionTime>, impl Future<Output = Called>) {
    let questions = QuestionTime::of(ctx.questions);
    ctx.questions = QuestionSender::to(Arc::clone(&questions) as Arc<_>);
    (questions, isolated(tool, arguments, ctx))
}

/// Runs a call with its tool's isolation. A panic does not spread beyond it.
///
/// Not an `async fn`, which would hold the call's context twice, once for itself and once for the tool.
fn isolated(
    tool: Arc<dyn Tool>,
    arguments: JsonText,
    ctx: ToolContext,
) -> impl Future<Output = Called> {
    let isolation = tool.isolation();
    let call = async move { tool.call(arguments, ctx).await };
    match isolation {
        Isolation::OwnTask => Either::Left(async move {
            // Aborts the task once its result is no longer awaited.
            let task = AbortOnDropHandle::new(tokio::spawn(call));
            task.await.map_err(|_| Crashed)
        }),
        Isolation::RunTask => {
            // No state of the call is used again after a panic.
            let caught = AssertUnwindSafe(call).catch_unwind();
            Either::Right(caught.map(|called| called.map_err(|_| Crashed)))
        }
    }
}

/// Reads arguments. If a key occurred twice, the code that judges the call and the tool could each read a different
/// value, so that is an error.
fn value_of(arguments: &str) -> Result<Value, serde_json::Error> {
    if !arguments.trim_start().starts_with('{') {
        return serde_json::from_str(arguments);
    }
    let mut json = serde_json::Deserializer::from_str(arguments);
    let value = json.deserialize_map(KeysOnce)?;
    json.end()?;
    Ok(value)
}

/// Reads an object without duplicate keys. The values in it are not checked for duplicates.
struct KeysOnce;

impl<'de> Visitor<'de> for KeysOnce {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if object.contains_key(&key) {
                let key: String = key.chars().take(64).collect();
                return Err(A::Error::custom(format_args!("it has {key:?} twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Describes a fault in the arguments. The value is quoted only if it is short: the model wrote it, and would receive
/// it again with each fault.
fn describe_fault(fault: &ValidationError<'_>) -> String {
    let text = fault.to_string();
    match text.len() > MAX_FAULT_BYTES {
        true => fault.masked().to_string(),
        false => text,
    }
}

/// Returns where and why a value does not fit a schema, each fault as `describe` words it; `None` if it fits.
pub(crate) fn faults(
    schema: &Validator,
    value: &Value,
    describe: impl Fn(&ValidationError<'_>) -> String,
) -> Option<String> {
    if schema.is_valid(value) {
        return None;
    }
    let faults = schema.iter_errors(value).take(MAX_FAULTS);
    let faults = faults.map(|fault| placed(&fault, describe(&fault)));
    Some(faults.collect::<Vec<_>>().join("; "))
}

/// Puts the location of a fault before its description, unless the fault concerns the whole value.
pub(crate) fn placed(fault: &ValidationError<'_>, what: String) -> String {
    let place = fault.instance_path().to_string();
    match place.is_empty() {
        true => what,
        false => format!("at {place}: {what}"),
    }
}
