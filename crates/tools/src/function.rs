//! Turns a function into a tool.
//!
//! The schema that the model sees is derived from the type of the function's arguments, so the two cannot diverge. The
//! engine checks arguments against the schema; invalid arguments that still get here fail with an error that says where
//! and why.

mod arguments;

use std::fmt;
use std::future::{self, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{InvalidId, JsonText, ToolAnnotations, ToolClass, ToolOutput, ToolSpec};
use neuraxis_ports::{Isolation, Tool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blocking::{self, Stop};

pub use arguments::NoArguments;

type CallFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;
type Handler = dyn Fn(JsonText, ToolContext) -> CallFuture + Send + Sync;
type DryRun = dyn Fn(&JsonText) -> DryRunFuture + Send + Sync;
type DryRunFuture = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send>>;

/// A tool that calls a function.
///
/// [`FunctionTool::new`] takes an async function, [`FunctionTool::blocking`] one that blocks its thread. The other
/// methods set further properties, and [`FunctionTool::build`] creates the tool. The crate's front page has an example.
///
/// Give the argument type `#[serde(deny_unknown_fields)]`, so that a misspelled argument is an error instead of being
/// ignored. Write a doc comment on each field, since that is what the model reads. Make optional arguments an `Option`,
/// which also accepts `null`.
pub struct FunctionTool {
    spec: ToolSpec,
    isolation: Isolation,
    handler: Box<Handler>,
    dry_run: Option<Box<DryRun>>,
}

impl FunctionTool {
    /// Creates a tool from a function whose result is the value that the model reads.
    ///
    /// The class is [`ToolClass::Irreversible`] until [`FunctionTool::class`] sets another.
    ///
    /// # Errors
    ///
    /// An error if not every provider accepts the name, or if the arguments are not a JSON object.
    pub fn new<Arguments, Value, Function, Running>(
        name: &str,
        description: impl Into<Arc<str>>,
        function: Function,
    ) -> Result<Self, DefinitionError>
    where
        Arguments: DeserializeOwned + JsonSchema + 'static,
        Value: Serialize + 'static,
        Function: Fn(Arguments, ToolContext) -> Running + Send + Sync + 'static,
        Running: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        Self::define(name, description.into(), function, encode)
    }

    /// Creates a tool from a function that returns more than a value: what later history keeps, metadata or a signal.
    ///
    /// # Errors
    ///
    /// Same as [`FunctionTool::new`].
    pub fn with_output<Arguments, Function, Running>(
        name: &str,
        description: impl Into<Arc<str>>,
        function: Function,
    ) -> Result<Self, DefinitionError>
    where
        Arguments: DeserializeOwned + JsonSchema + 'static,
        Function: Fn(Arguments, ToolContext) -> Running + Send + Sync + 'static,
        Running: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Self::define(name, description.into(), function, Ok)
    }

    /// Creates a tool from a function that is not async and may block its thread or compute for a long time. It runs on
    /// a thread for blocking work, so it delays nothing else. A call that is stopped returns immediately; its function
    /// continues until it returns, unless it checks [`ToolContext::cancellation`] regularly.
    ///
    /// ```
    /// use neuraxis_core::ToolClass;
    /// use neuraxis_ports::{ToolContext, ToolError};
    /// use neuraxis_tools::{FunctionTool, NoArguments};
    ///
    /// fn hosts(_: NoArguments, _: ToolContext) -> Result<String, ToolError> {
    ///     Ok(std::fs::read_to_string("/etc/hosts")?)
    /// }
    ///
    /// let tool = FunctionTool::blocking("hosts", "Reads the hosts file.", hosts)?;
    /// let tool = tool.class(ToolClass::ReadOnly).build();
    /// # assert_eq!(tool.spec().name.as_str(), "hosts");
    /// # Ok::<(), neuraxis_tools::DefinitionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`FunctionTool::new`].
    pub fn blocking<Arguments, Value, Function>(
        name: &str,
        description: impl Into<Arc<str>>,
        function: Function,
    ) -> Result<Self, DefinitionError>
    where
        Arguments: DeserializeOwned + JsonSchema + Send + 'static,
        Value: Serialize + Send + 'static,
        Function: Fn(Arguments, ToolContext) -> Result<Value, ToolError> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        let running = move |arguments: Arguments, ctx: ToolContext| {
            let function = Arc::clone(&function);
            async move {
                let work_ctx = ctx.clone();
                let work = move |stop: &Stop| -> Result<Value, ToolError> {
                    // Threads for blocking work may be scarce: a call that was stopped while it waited does not start.
                    stop.check()?;
                    function(arguments, work_ctx)
                };
                blocking::run(&ctx, work).await
            }
        };
        // Waiting for the thread blocks no thread.
        Ok(Self::define(name, description.into(), running, encode)?.never_blocks())
    }

    /// Sets what a call may change, which decides whether it may be repeated when its outcome is in doubt.
    #[must_use]
    pub fn class(mut self, class: ToolClass) -> Self {
        self.spec.class = class;
        self
    }

    /// Sets a time limit for calls; without one, the loop's own limit applies.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.spec.timeout = Some(timeout);
        self
    }

    /// Adds hints, such as that the tool reaches outside this machine.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.spec.annotations = annotations;
        self
    }

    /// Excludes turns that call only such tools from the turn limit.
    #[must_use]
    pub fn non_iterative(mut self) -> Self {
        self.spec.non_iterative = true;
        self
    }

    /// Promises that the function neither blocks its thread nor computes for longer than microseconds between two
    /// awaits. Its calls then run in the task of their run, which is cheaper; see [`Isolation::RunTask`] for the effect
    /// of a broken promise.
    #[must_use]
    pub fn never_blocks(mut self) -> Self {
        self.isolation = Isolation::RunTask;
        self
    }

    /// Adds a function that checks whether a call can do what it says, before a user is asked to approve it; see
    /// [`Tool::dry_run`]. It takes the same arguments and changes nothing.
    #[must_use]
    pub fn dry_run<Arguments, Function, Running>(mut self, function: Function) -> Self
    where
        Arguments: DeserializeOwned + 'static,
        Function: Fn(Arguments) -> Running + Send + Sync + 'static,
        Running: Future<Output = Result<(), ToolError>> + Send + 'static,
    {
        let dry_run = move |text: &JsonText| -> DryRunFuture {
            match arguments::decode(text) {
                Ok(arguments) => Box::pin(function(arguments)),
                Err(error) => Box::pin(future::ready(Err(error))),
            }
        };
        self.dry_run = Some(Box::new(dry_run));
        self
    }

    /// Returns the tool in the form that the engine uses.
    #[must_use]
    pub fn build(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }

    fn define<Arguments, Value, Function, Running>(
        name: &str,
        description: Arc<str>,
        function: Function,
        finish: fn(Value) -> Result<ToolOutput, ToolError>,
    ) -> Result<Self, DefinitionError>
    where
        Arguments: DeserializeOwned + JsonSchema + 'static,
        Value: 'static,
        Function: Fn(Arguments, ToolContext) -> Running + Send + Sync + 'static,
        Running: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        let id = name.parse().map_err(|source| DefinitionError::Name {
            name: name.to_owned(),
            source,
        })?;
        let schema = arguments::schema::<Arguments>().ok_or_else(|| {
            DefinitionError::ArgumentsNotAnObject {
                name: name.to_owned(),
            }
        })?;
        let spec = ToolSpec::new(id, description).parameters(schema);
        let handler = move |text: JsonText, ctx: ToolContext| -> CallFuture {
            match arguments::decode(&text) {
                Ok(arguments) => {
                    let running = function(arguments, ctx);
                    Box::pin(async move { finish(running.await?) })
                }
                Err(error) => Box::pin(future::ready(Err(error))),
            }
        };
        Ok(Self {
            spec,
            isolation: Isolation::default(),
            handler: Box::new(handler),
            dry_run: None,
        })
    }
}

// Written as `async_trait` would write it, except that the handler's boxed future is not boxed again.
impl Tool for FunctionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn call<'tool, 'call>(
        &'tool self,
        arguments: JsonText,
        ctx: ToolContext,
    ) -> Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send + 'call>>
    where
        'tool: 'call,
        Self: 'call,
    {
        (self.handler)(arguments, ctx)
    }

    fn dry_run<'tool, 'arguments, 'call>(
        &'tool self,
        arguments: &'arguments JsonText,
    ) -> Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'call>>
    where
        'tool: 'call,
        'arguments: 'call,
        Self: 'call,
    {
        match &self.dry_run {
            Some(dry_run) => dry_run(arguments),
            None => Box::pin(future::ready(Ok(()))),
        }
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

pub(crate) fn encode<Value: Serialize>(value: Value) -> Result<ToolOutput, ToolError> {
    ToolOutput::encode(&value).map_err(|error| {
        ToolError::permanent(format!(
            "the tool's result cannot be written as JSON: {error}"
        ))
    })
}

/// Why a function cannot be turned into a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// Not every provider accepts the name.
    #[error("{name:?} is not a valid tool name")]
    Name {
        /// The given name.
        name: String,
        /// The rule it breaks.
        source: InvalidId,
    },
    /// The schema of the arguments is not of type `object`, which every provider requires.
    #[error(
        "the arguments of tool {name} are not a JSON object: make them a struct with named fields"
    )]
    ArgumentsNotAnObject {
        /// The name of the tool.
        name: String,
    },
}
