//! Agents: what answers a request, alone or in a session, or works for another agent as its tool.
//!
//! An agent alone runs without a session and without governance: for programs that keep their own conversations and trust
//! their own tools.

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

/// An agent: what it is told, what it may use, how it behaves. Cloning shares it.
///
/// One with a model of its own runs alone, by the methods below. In a session, an
/// [orchestrator](crate::OrchestratorBuilder::agent) runs it, under its policy. As a tool of another, that one
/// [calls it](AgentBuilder::agent).
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
    /// What it runs on alone; `None` without a model of its own.
    pub(crate) engine: Option<Arc<Engine>>,
    /// Who asks, and what else tools, hooks and instructions are to know of what is asked of it alone.
    pub(crate) context: RequestContext,
    /// The trace that what is asked of it alone is part of.
    pub(crate) trace: Option<TraceContext>,
    /// The form of the answers to what is asked of this value alone, in place of the agent's own.
    pub(crate) answer: Option<AnswerSchema>,
}

impl Agent {
    /// Begins to write an agent. Its name is 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub fn builder(name: impl Into<std::borrow::Cow<'static, str>>) -> AgentBuilder {
        AgentBuilder::new(AgentName::new(name))
    }

    /// The agent that talks with the user by default, on an engine that was built for more than one agent.
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

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &AgentName {
        &self.definition.name
    }

    /// Says who asks, and what the program wants its tools, hooks and instructions to know of what is asked of this value
    /// alone from then on. Clone the agent to give each caller a context of their own: that costs next to nothing.
    #[must_use]
    pub fn with_context(mut self, context: RequestContext) -> Self {
        self.context = context;
        self
    }

    /// Makes what is asked of this value alone from then on a part of a trace, at the span that asks: such as that of the
    /// request that a program answers with it. As with [`with_context`](Self::with_context), each caller has a clone of its own.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Asks for answers that fit a JSON Schema to what is asked of this value alone from then on, however it is asked:
    /// [`Execution::answer`] has them. It takes the place of the [form](AgentBuilder::answer_schema) that the agent is written
    /// with, and of that of a type that is asked for. A run as another's tool, and one in a session, keep to the agent's own.
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
    /// A system prompt takes the place of the agent's instructions; with `None` those are sent, or none at all by an agent
    /// that has none. An empty one sends none.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
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

    /// Goes on with a conversation.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
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

    /// Goes on with a conversation. The system prompt, or else the agent's instructions, go first unless the conversation
    /// begins with a system message already. All tools are offered and may run; nothing is stored.
    ///
    /// # Errors
    ///
    /// [`RequestError::EmptyMessage`] without a message to answer; [`RequestError::NoModel`] without a model of its own;
    /// [`RequestError::Attachment`] for an image or a file that cannot be sent; [`RequestError::ShuttingDown`]. However the
    /// run goes after that, it comes back.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio, which needs its timers (`enable_time`).
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

    /// As [`run`](Self::run), and returns at once, with a handle on the run and its events.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle cancels the run: nothing else could bring its result. Dropping the events leaves it at work. For
    /// whoever wants its words alone, [`AgentRun::into_text_stream`] keeps the handle.
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
