//! Agents. An agent answers requests on its own or in a session, or works for another agent as its tool.
//!
//! An agent that runs alone has no session and no governance. This is for programs that keep their own conversations
//! and trust their own tools.

mod alone;
mod builder;
mod definition;
mod execution;

use std::sync::Arc;

use neuraxis_core::{AgentName, Message, TraceContext};
use neuraxis_ports::RequestContext;

pub use alone::AgentRun;
pub use builder::AgentBuilder;
pub use definition::InstructionContext;
pub(crate) use definition::{AgentHooks, AgentSet, Definition, Instructions};
pub use execution::{Execution, ToolCallRecord, tool_calls};

use crate::answer::AnswerSchema;
use crate::engine::Engine;
use crate::event::Events;
use crate::request::{Delivery, RequestError};

/// An agent: its instructions, its tools and its behavior. Clones share the same definition.
///
/// An agent with its own model can run alone, through the methods below. In a session, an
/// [orchestrator](crate::OrchestratorBuilder::agent) runs it under the orchestrator's policy. An agent can also be a
/// tool of another agent, which then [calls it](AgentBuilder::agent).
///
/// ```
/// use std::sync::Arc;
///
/// use neuraxis_engine::Agent;
/// use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedModel::new().then(reply::calls([("weather", r#"{"city":"Delft"}"#)])).then(reply::text("Wet."));
/// # let weather = ScriptedTool::echoing(spec("weather").read_only());
/// let agent = Agent::builder("forecaster")
///     .instructions("You tell the weather in one word.")
///     .model(Arc::new(model))
///     .tool(Arc::new(weather))
///     .max_turns(5)
///     .build()?;
/// let done = agent.execute(None, "How is it in Delft?").await?;
/// assert_eq!(done.content, "Wet.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) definition: Arc<Definition>,
    /// The engine for running alone; `None` if the agent has no model of its own.
    pub(crate) engine: Option<Arc<Engine>>,
    /// The caller, and other facts about a request for tools, hooks and instructions. Used only when the agent runs
    /// alone.
    pub(crate) context: RequestContext,
    /// The trace that runs belong to when the agent runs alone.
    pub(crate) trace: Option<TraceContext>,
    /// The answer schema for runs of this value alone; replaces the agent's own.
    pub(crate) answer: Option<AnswerSchema>,
}

impl Agent {
    /// Starts building an agent. The name has 1 to 64 characters from `A-Z a-z 0-9 _ -`.
    pub fn builder(name: impl Into<std::borrow::Cow<'static, str>>) -> AgentBuilder {
        AgentBuilder::new(AgentName::new(name))
    }

    /// The default agent that talks with the user, on an engine that was built for more than one agent.
    pub(crate) fn main_thread(engine: Arc<Engine>) -> Self {
        let definition = Arc::new(Definition::named(AgentName::MAIN_THREAD));
        Self::new(definition, Some(engine))
    }

    fn new(definition: Arc<Definition>, engine: Option<Arc<Engine>>) -> Self {
        Self {
            definition,
            engine,
            context: RequestContext::default(),
            trace: None,
            answer: None,
        }
    }

    /// Returns the agent's name.
    #[must_use]
    pub fn name(&self) -> &AgentName {
        &self.definition.name
    }

    /// Sets the caller and other facts about the request that tools, hooks and instructions can read. Applies only to
    /// this value, and only when the agent runs alone. To give each caller its own context, clone the agent: a clone is
    /// cheap.
    #[must_use]
    pub fn with_context(mut self, context: RequestContext) -> Self {
        self.context = context;
        self
    }

    /// Attaches later runs of this value to a trace, below the given span, such as the span of the request that the
    /// program is answering. Applies only when the agent runs alone. As with [`with_context`](Self::with_context), use
    /// one clone per caller.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Requires the answers of later runs of this value to fit a JSON Schema, whichever method starts the run. Applies
    /// only when the agent runs alone. [`Execution::answer`] holds the answer. The schema replaces the agent's own
    /// [`answer_schema`](AgentBuilder::answer_schema) and the schema of a requested type. Runs in a session or as
    /// another agent's tool keep the agent's own.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_engine::{Agent, AnswerSchema};
    /// # use neuraxis_core::Message;
    /// # use neuraxis_testkit::{ScriptedModel, reply};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let model = Arc::new(ScriptedModel::always(reply::text(r#"{"total":42}"#)));
    /// let agent = Agent::builder("adder").model(model).build()?;
    /// let schema = r#"{"type":"object","properties":{"total":{"type":"integer"}},"required":["total"]}"#;
    /// let agent = agent.with_answer(AnswerSchema::from_json(schema)?);
    /// let (run, _events) = agent.stream(vec![Message::user("6 × 7")], None).await?;
    /// assert!(run.execution().await.answer.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_answer(mut self, schema: AnswerSchema) -> Self {
        self.answer = Some(schema);
        self
    }

    /// Answers one prompt.
    ///
    /// A system prompt replaces the agent's instructions. With `None`, the agent's instructions are sent, if it has
    /// any. With an empty prompt, no instructions are sent.
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn execute(
        &self,
        system_prompt: impl Into<Option<&str>>,
        user_prompt: &str,
    ) -> Result<Execution, RequestError> {
        self.run(vec![Message::user(user_prompt)], system_prompt)
            .await
    }

    /// Continues a conversation.
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn execute_with_history(
        &self,
        messages: Vec<Message>,
    ) -> Result<Execution, RequestError> {
        self.run(messages, None).await
    }

    /// Continues a conversation. The system prompt, or else the agent's instructions, are sent first unless the
    /// conversation already begins with a system message. All tools are offered and may run. Nothing is stored.
    ///
    /// # Errors
    ///
    /// - [`RequestError::EmptyMessage`] if there is no message to answer.
    /// - [`RequestError::NoModel`] if the agent has no model of its own.
    /// - [`RequestError::Attachment`] if an image or a file cannot be sent.
    /// - [`RequestError::ShuttingDown`].
    ///
    /// Once the run has started, a result is returned however the run ends.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with timers enabled (`enable_time`).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn run(
        &self,
        messages: Vec<Message>,
        system_prompt: impl Into<Option<&str>>,
    ) -> Result<Execution, RequestError> {
        let begun = self.begin(messages, system_prompt.into(), Delivery::Whole);
        Ok(Box::pin(begun).await?.execution().await)
    }

    /// Like [`run`](Self::run), but returns immediately, with a handle on the run and its events.
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle cancels the run, because nothing else could return its result. Dropping the events does not
    /// affect the run. To read only the text, use [`AgentRun::into_text_stream`], which keeps the handle.
    pub async fn stream(
        &self,
        messages: Vec<Message>,
        system_prompt: impl Into<Option<&str>>,
    ) -> Result<(AgentRun, Events), RequestError> {
        let run = self
            .begin(messages, system_prompt.into(), Delivery::Streamed)
            .await?;
        let events = run.events();
        Ok((run, events))
    }
}
