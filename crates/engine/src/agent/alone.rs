//! Runs of an agent alone: without a session, without governance, and not stored.

use std::sync::Arc;

use neuraxis_brainstem::AgentConfig;
use neuraxis_core::{
    AgentId, AgentLimits, AgentSpec, ClientTools, Message, Part, Profile, Record, Role, RunId,
    RunSpec, ToolKind, ToolSpec, Transcript,
};

use super::Agent;
use super::definition::InstructionContext;
use super::execution::{Execution, execution};
use crate::driver::{Driver, ReadyRun, RunScope};
use crate::engine::Engine;
use crate::event::Events;
use crate::request::{Delivery, RequestError};
use crate::run_handle::{CancelOnDrop, NotAccepted, RunLink};
use crate::text_stream::TextStream;
use crate::tool_search::carry_over_tools;

/// A run in progress of an agent alone. Dropping it cancels the run.
#[must_use = "when dropped, the run is cancelled"]
pub struct AgentRun {
    guard: CancelOnDrop,
    history: Transcript,
}

impl std::fmt::Debug for AgentRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentRun")
            .field("run_id", &self.run_id())
            .finish_non_exhaustive()
    }
}

impl AgentRun {
    /// Returns the run's id.
    #[must_use]
    pub const fn run_id(&self) -> RunId {
        self.link().run_id
    }

    /// Returns the run's events, from its first record on.
    #[must_use]
    pub fn events(&self) -> Events {
        self.link().feed.listen()
    }

    /// Returns only the agent's text, like [`Events::text_stream`]. The stream keeps the run: dropping it before the
    /// run has ended cancels the run.
    #[must_use = "when dropped, the run is cancelled"]
    pub fn into_text_stream(self) -> TextStream {
        self.events().text_stream().keeping(self)
    }

    /// Returns the records created so far.
    #[must_use]
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.link().feed.with_records(<[_]>::to_vec)
    }

    /// Ends the run. Its calls get their results, and its history stays valid.
    ///
    /// # Errors
    ///
    /// A [`NotAccepted`].
    pub fn cancel(&self, reason: impl Into<String>) -> Result<(), NotAccepted> {
        self.link().cancel_agent(AgentId::ROOT, reason)
    }

    /// Adds a user message, which joins the conversation after the current tool batch.
    ///
    /// # Errors
    ///
    /// A [`NotAccepted`].
    pub fn steer(&self, message: impl Into<String>) -> Result<(), NotAccepted> {
        self.link().steer_agent(AgentId::ROOT, message)
    }

    /// Waits for the run to end. Returns a result however the run ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the run, as long as the handle is kept.
    pub async fn execution(&self) -> Execution {
        let end = self.link().end().await;
        execution(self.link(), end.ok().as_deref(), &self.history)
    }

    const fn link(&self) -> &RunLink {
        &self.guard.0
    }
}

impl Agent {
    pub(super) async fn begin(
        &self,
        messages: Vec<Message>,
        system_prompt: Option<&str>,
        delivery: Delivery,
    ) -> Result<AgentRun, RequestError> {
        let no_model = || RequestError::NoModel(self.name().clone());
        let engine = self.engine.as_ref().ok_or_else(no_model)?;
        engine.check_open()?;
        let is_system = |message: &Message| matches!(message, Message::System { .. });
        if messages.iter().all(is_system) || messages.last().is_some_and(says_nothing) {
            return Err(RequestError::EmptyMessage);
        }
        let latest_first = messages.iter().rev();
        let mut of_user = latest_first.filter(|message| matches!(message, Message::User { .. }));
        let user_text = of_user.next().map(Message::text);
        let run_id = RunId(engine.ids.new_id());
        let below = engine.roles_below(self.name());
        let agent = self.ungoverned(engine);
        engine.learn_contexts_of(&agent, None, &below).await;
        let mut spec =
            self.ungoverned_spec(engine, agent, run_id, system_prompt, user_text.as_deref())?;
        engine.check_media(&messages, &spec.root).await?;
        let own_answer = || engine.answers.get(self.name());
        if let Some(answer) = self.answer.as_ref().or_else(own_answer) {
            answer.require_of(&mut spec.root);
        }
        let history: Transcript = messages.into_iter().collect();
        // Earlier messages may be dropped to make room.
        let latest = history.messages().last().map(std::slice::from_ref);
        let user_text = user_text.as_deref().unwrap_or_default();
        engine
            .fit(&mut spec, latest.unwrap_or_default(), user_text)
            .await?;
        carry_over_tools(&mut spec.root, &[], &history);
        spec.trace = engine.trace_of(run_id, self.trace.clone());
        let scope = RunScope {
            run_id,
            session_id: None,
            request: self.context.clone(),
            delivery,
            trace: spec.trace.clone(),
            decision: None,
            offered_now: None,
        };
        // Check again: asking the models for their context size may have taken a while.
        engine.check_open()?;
        engine.announce(run_id, &history);
        let run = ReadyRun::new(engine, Arc::new(spec), history.clone());
        let begun = Driver::begin(Arc::clone(engine), scope, None, run);
        let (driver, first, link) = begun.persist_first_step().await?;
        engine.tasks.spawn(driver.drive(first));
        let guard = CancelOnDrop(link);
        Ok(AgentRun { guard, history })
    }

    /// Describes an agent without governance: it is offered all tools that it uses.
    fn ungoverned(&self, engine: &Engine) -> AgentSpec {
        let name = self.name();
        let catalog = engine.catalog();
        let specs = catalog.all_specs();
        let agent = engine.policy.agent_spec(name, &Role::REASONING, specs);
        let plain = || AgentSpec::new(Profile::named(name.as_str()), Role::REASONING);
        agent.unwrap_or_else(plain)
    }

    /// Describes the run of an agent without governance.
    fn ungoverned_spec(
        &self,
        engine: &Engine,
        mut agent: AgentSpec,
        run_id: RunId,
        system_prompt: Option<&str>,
        user_text: Option<&str>,
    ) -> Result<RunSpec, RequestError> {
        let name = self.name();
        let catalog = engine.catalog();
        let specs = catalog.all_specs();
        let context = InstructionContext {
            agent: name,
            session_id: None,
            mode: None,
            channel: None,
            message: user_text,
            request: &self.context,
            now: engine.clock.now(),
        };
        match system_prompt {
            Some(prompt) => {
                agent.system_prompt = Some(prompt.into()).filter(|_| !prompt.trim().is_empty());
            }
            None => engine.instruct(&mut agent, &context)?,
        }
        let root = engine.completed(agent, None);
        // Only the agent that answers the caller can hand over calls of a client's tools.
        let run_here = specs.iter().filter(|spec| spec.kind != ToolKind::Client);
        let run_here: Vec<ToolSpec> = run_here.cloned().collect();
        let agents = engine.sub_agents(&root, &run_here, None, &context)?;
        let mut spec = RunSpec::new(run_id, [], root);
        spec.agents = agents;
        let config = engine.policy.agent(name);
        let limits = config.map_or_else(AgentLimits::default, AgentConfig::agent_limits);
        spec.agent_limits = engine.agent_limits(limits);
        // Nothing is stored that could be resumed: the caller runs its tools, adds their results and sends a new
        // request.
        spec.client_tools = ClientTools::HandOver;
        Ok(spec)
    }
}

/// Returns `true` if a message is a user message with no text and no attachments.
fn says_nothing(message: &Message) -> bool {
    let is_blank = |part: &Part| matches!(part, Part::Text(text) if text.text.trim().is_empty());
    matches!(message, Message::User { parts } if parts.iter().all(is_blank))
}
