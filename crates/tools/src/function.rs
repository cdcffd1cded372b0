//! Makes a tool of a function.
//!
//! The schema that the model sees is derived from the type of the function's arguments, so that the two cannot drift
//! apart. Checking arguments against the schema is the engine's work; what slips through fails here with an error that
//! says where and why.

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

type Outcome = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;
type Handler = dyn Fn(JsonText, ToolContext) -> Outcome + Send + Sync;
type DryRun = dyn Fn(&JsonText) -> DryRunOutcome + Send + Sync;
type DryRunOutcome = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send>>;

/// A tool made of a function.
///
/// [`FunctionTool::new`] takes an async function, [`FunctionTool::blocking`] one that blocks its thread; the other methods say
/// more about it; [`FunctionTool::build`] ends. The crate's front page has an example.
///
/// Give the type of the arguments `#[serde(deny_unknown_fields)]`, so that a misspelled argument is an error instead of
/// being ignored; write a doc comment on each field, since that is what the model reads; and make what may be left out an
/// `Option`, which also accepts `null`.
pub struct FunctionTool {
    spec: ToolSpec,
    isolation: Isolation,
    handler: Box<Handler>,
    dry_run: Option<Box<DryRun>>,
}

impl FunctionTool {
    /// Makes a tool of a function whose result is the value that the model reads.
    ///
    /// The class is [`ToolClass::Irreversible`] until [`FunctionTool::class`] says otherwise.
    ///
    /// # Errors
    ///
    /// When the name is not one that every provider accepts, or the arguments are not a JSON object.
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

    /// Makes a tool of a function that says more than a value: what later history keeps, metadata or a signal.
    ///
    /// # Errors
    ///
    /// As [`FunctionTool::new`].
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

    /// Makes a tool of a function that is not async and may block its thread or compute for long: it runs on a thread for that,
    /// and holds up nothing else. A call that is stopped returns at once; its function goes on until it returns, unless it asks
    /// [`ToolContext::cancellation`] now and then.
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
    /// let tool = FunctionTool::blocking("hosts", "Tells the hosts.", hosts)?;
    /// let tool = tool.class(ToolClass::ReadOnly).build();
    /// # assert_eq!(tool.spec().name.as_str(), "hosts");
    /// # Ok::<(), neuraxis_tools::DefinitionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`FunctionTool::new`].
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
                let of_work = ctx.clone();
                let work = move |stop: &Stop| -> Result<Value, ToolError> {
                    // Threads for it may be scarce: a call that was stopped meanwhile does not begin.
                    stop.check()?;
                    function(arguments, of_work)
                };
                blocking::run(&ctx, work).await
            }
        };
        // What waits for a thread blocks none itself.
        Ok(Self::define(name, description.into(), running, encode)?.never_blocks())
    }

    /// Says what a call may change, and so whether it may be run again when its outcome is in doubt.
    #[must_use]
    pub fn class(mut self, class: ToolClass) -> Self {
        self.spec.class = class;
        self
    }

    /// Limits how long a call may take; without it the loop's own limit holds.
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

    /// Lets turns that call only tools marked so not use up the turn limit.
    #[must_use]
    pub fn non_iterative(mut self) -> Self {
        self.spec.non_iterative = true;
        self
    }

    /// Promises that the function neither blocks its thread nor computes for longer than microseconds between two
    /// awaits. Its calls then run in the task of their run, which costs less; see [`Isolation::RunTask`] for what a broken
    /// promise does.
    #[must_use]
    pub fn never_blocks(mut self) -> Self {
        self.isolation = Isolation::RunTask;
        self
    }

    /// Adds a function that looks whether a call can do what it says, before a person is asked about it; see
    /// [`Tool::dry_run`]. It takes the same arguments, and changes nothing.
    #[must_use]
    pub fn dry_run<Arguments, Function, Running>(mut self, function: Function) -> Self
    where
        Arguments: DeserializeOwned + 'static,
        Function: Fn(Arguments) -> Running + Send + Sync + 'static,
        Running: Future<Output = Result<(), ToolError>> + Send + 'static,
    {
        let dry_run = move |text: &JsonText| -> DryRunOutcome {
            match arguments::decode(text) {
                Ok(arguments) => Box::pin(function(arguments)),
                Err(error) => Box::pin(future::ready(Err(error))),
            }
        };
        self.dry_run = Some(Box::new(dry_run));
        self
    }

    /// Returns the tool as the engine takes it.
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
        let handler = move |text: JsonText, ctx: ToolContext| -> Outcome {
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

// As `async_trait` would write it, except that what the handler boxed is not boxed once more.
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

/// Why a function cannot be made a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The name is not one that every provider accepts.
    #[error("{name:?} cannot name a tool")]
    Name {
        /// The name that was given.
        name: String,
        /// The rule it breaks.
        source: InvalidId,
    },
    /// The schema of the arguments is not of type `object`, which every provider demands.
    #[error(
        "the arguments of tool {name} are not a JSON object: make them a struct with named fields"
    )]
    ArgumentsNotAnObject {
        /// The name of the tool.
        name: String,
    },
}
