//! Building an agent in code: every setting of `[agents.NAME]`, and what only code can supply, such as tools and a
//! model of the agent's own.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_brainstem::{
    CompactionConfig, GatherConfig, NoCallsConfig, OpeningConfig, RemindConfig, ResultConfig,
    SummarizeConfig,
};
use neuraxis_core::{
    AgentName, Citations, Compaction, DataPolicy, LimitReached, MicroUsd, NoCalls, Offer, Opening,
    Parallel, Repeats, ResultRule, Role, ToolChoice, ToolName, UnknownTool, UsageScope,
};
use neuraxis_ports::{LlmClient, ModelHook, Tool, ToolHook};

use super::Agent;
use super::definition::{Definition, InstructionContext, Instructions};
use crate::answer::AnswerSchema;
#[cfg(feature = "typed")]
use crate::answer::AnswerSchemaError;
use crate::builder::{BuildError, alone};

/// A builder for an [`Agent`]. A setting that is left out has the default of its key in `[agents.NAME]`.
#[derive(Debug)]
#[must_use = "call `build` to create the agent"]
pub struct AgentBuilder {
    definition: Definition,
    /// The first invalid setting.
    fault: Option<BuildError>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty => $field:ident = $value:expr;)*) => {
        impl AgentBuilder {
            $(
                $(#[$doc])*
                pub fn $name(mut self, $name: $type) -> Self {
                    self.definition.config.$field = Some($value);
                    self
                }
            )*
        }
    };
}

setters! {
    /// Sets the description, which the agents that may call this one read.
    description: impl Into<String> => description = description.into();
    /// Sets the role that serves the agent: a model of the orchestrator. Used instead of a [model](Self::model) of its
    /// own.
    role: Role => role = role;
    /// Sets the sampling temperature, from 0 to 2.
    temperature: f32 => temperature = temperature;
    /// Sets the maximum number of tokens in one reply. If a mode allows fewer, the mode's limit applies.
    max_output_tokens: u32 => max_output_tokens = max_output_tokens;
    /// Sets the number of turns before the last answer is requested; 10 if neither this nor the policy sets it.
    max_turns: u32 => max_turns = max_turns;
    /// Sets the maximum number of tool calls, including those of the agents it calls.
    max_tool_calls: u32 => max_tool_calls = max_tool_calls;
    /// Sets the maximum number of tokens over all model calls.
    max_tokens: u64 => max_tokens = max_tokens;
    /// Sets the maximum cost. Calls of a model without a price are not counted. When the agent runs alone, the price
    /// comes from the list of public prices, if its model is on it;
    /// [`build_agent`](crate::OrchestratorBuilder::build_agent) describes how to get a price from a policy.
    max_cost: MicroUsd => max_cost_micro_usd = max_cost;
    /// Sets the maximum active time.
    deadline: Duration => deadline = deadline;
    /// Sets the maximum number of agents that this agent and those below it may start in one run that it answers; 64 by
    /// default. If a policy governs the agent, the policy's limit also applies.
    max_agents: u32 => max_agents = max_agents;
    /// Sets how deep agents may be nested: 1 means that called agents may start none themselves. The default is 2. If a
    /// policy governs the agent, the policy's limit also applies.
    max_agent_depth: u32 => max_agent_depth = max_agent_depth;
    /// Sets the time limit for one tool call.
    tool_timeout: Duration => tool_timeout = tool_timeout;
    /// Sets how the agent's run begins if the channel does not say.
    opening: Opening => opening = match opening {
        Opening::Direct => OpeningConfig::Direct,
        Opening::Gather { role, tool, default_arguments } => {
            OpeningConfig::Gather(GatherConfig { role, tool, default_arguments })
        }
    };
    /// Sets whose usage the outcome reports.
    usage: UsageScope => usage = usage;
    /// Sets which calls of one reply run at the same time.
    parallel: Parallel => parallel = parallel;
    /// Sets what happens when the model calls an unknown tool.
    unknown_tool: UnknownTool => unknown_tool = unknown_tool;
    /// Sets whether a failed call ends the run.
    stop_on_error: bool => stop_on_error = stop_on_error;
    /// Sets what happens when a limit is reached.
    limit_reached: LimitReached => limit_reached = limit_reached;
    /// Sets what happens after a reply without tool calls.
    no_calls: NoCalls => no_calls = match no_calls {
        NoCalls::Finish => NoCallsConfig::Finish,
        NoCalls::Remind { prompt, at_most } => NoCallsConfig::Remind(RemindConfig { prompt, at_most }),
    };
    /// Sets the turns in which its tools may be called.
    offer: Offer => offer = offer;
    /// Sets whether its first turn must call a tool, or must not call any.
    tool_choice: ToolChoice => tool_choice = tool_choice;
    /// Sets the role that serves its first turn, if that is a different one.
    first_role: Role => first_role = first_role;
    /// Sets the role that serves the turns that read tool results, if that is a different one.
    after_calls_role: Role => after_calls_role = after_calls_role;
    /// Sets whether arguments that small models often get wrong are corrected before they are checked.
    lenient_arguments: bool => lenient_arguments = lenient_arguments;
    /// Lets a turn that produced more results than this add a short prompt to digest them.
    digest_after: u32 => digest_after = digest_after;
    /// Sets what happens to the links in its answer.
    citations: Citations => citations = citations;
    /// Sets what replaces messages that no longer fit.
    compaction: Compaction => compaction = match compaction {
        Compaction::Drop => CompactionConfig::Drop,
        Compaction::Summarize { role } => CompactionConfig::Summarize(SummarizeConfig { role }),
    };
    /// Sets how many of the agents that it called may work at the same time.
    parallel_agents: u32 => parallel_agents = parallel_agents;
    /// Sets how often a failed tool call is retried. If a mode allows fewer retries, the mode's limit applies.
    tool_retries: u32 => tool_retries = tool_retries;
    /// Sets the maximum number of context tokens that it uses of its model's context.
    context_tokens: u64 => context_tokens = context_tokens;
    /// Lets its tool take a list of this name, such as `topics`. One agent works on each item.
    fan_out: impl Into<String> => fan_out = fan_out.into();
}

impl AgentBuilder {
    pub(super) fn new(name: AgentName) -> Self {
        Self {
            definition: Definition::named(name),
            fault: None,
        }
    }

    /// Sets the instructions. Replaces an earlier [`instructions_with`](Self::instructions_with).
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.definition.config.instructions = Some(instructions.into());
        self.definition.instructions = None;
        self
    }

    /// Sets a function that builds the instructions from what is known of the request when a run begins. Replaces an
    /// earlier [`instructions`](Self::instructions). The text is recorded with the run, and a replay reads it there. If
    /// the text is empty, the agent gets no instructions. If the function panics, the request is refused
    /// ([`RequestError::Instructions`](crate::RequestError::Instructions)). If a policy sets `instructions` for the
    /// agent, those are used instead.
    pub fn instructions_with(
        mut self,
        of: impl Fn(&InstructionContext<'_>) -> String + Send + Sync + 'static,
    ) -> Self {
        self.definition.instructions = Some(Instructions::new(of));
        self.definition.config.instructions = None;
        self
    }

    /// Gives the agent its own model, with which it can run alone. In a session of an orchestrator, this model serves
    /// it too, if the mode lets any role serve. The model serves no other agent.
    pub fn model(mut self, client: Arc<dyn LlmClient>) -> Self {
        self.definition.model = Some(client);
        self
    }

    /// Adds a tool of the agent's own. It is not offered to the orchestrator's other agents.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.definition.tools.push(tool);
        self
    }

    /// Adds several tools of the agent's own.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.definition.tools.extend(tools);
        self
    }

    /// Names the orchestrator's tools that the agent uses in addition to its own, by patterns such as `read_*`. If left
    /// out, the agent uses all of them. Corresponds to the key `tools` of `[agents.NAME]`.
    pub fn tools_named<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        let patterns = patterns.into_iter().map(Into::into);
        self.definition.config.tools = Some(patterns.collect());
        self
    }

    /// Adds code that inspects each of the agent's tool calls and their results, after the [orchestrator's
    /// hooks](crate::OrchestratorBuilder::tool_hook). It does not see calls of the agents that this one calls.
    pub fn tool_hook(mut self, hook: Arc<dyn ToolHook>) -> Self {
        self.definition.hooks.tool.push(hook);
        self
    }

    /// Adds code that inspects what the agent's model is sent and what it replies, such as a guardrail, after the
    /// [orchestrator's hooks](crate::OrchestratorBuilder::model_hook). It does not see model calls of the agents that
    /// this one calls.
    pub fn model_hook(mut self, hook: Arc<dyn ModelHook>) -> Self {
        self.definition.hooks.model.push(hook);
        self
    }

    /// Lets the agent call another agent, through a tool of that agent's name.
    pub fn agent(mut self, agent: Agent) -> Self {
        self.definition.agents.push(agent.definition);
        self
    }

    /// Sets the name of the tool by which others call this agent, instead of its own name.
    pub fn tool_name(mut self, name: &str) -> Self {
        self.definition.config.tool_name = self.read(name);
        self
    }

    /// Names a tool whose result is the agent's answer.
    pub fn stop_after(mut self, tool: &str) -> Self {
        let tool = self.read(tool);
        let tools = &mut self.definition.config.stop_after;
        tools.get_or_insert_default().extend(tool);
        self
    }

    /// Sets what a tool's results change.
    pub fn results(mut self, rule: ResultRule) -> Self {
        let mut config = ResultConfig::default();
        config.max_chars = rule.max_chars;
        config.keep = rule.keep;
        config.then = rule.then;
        config.note = rule.note;
        self.definition.config.results.insert(rule.tool, config);
        self
    }

    /// Sets when repeating the same call is too much.
    pub fn repeats(mut self, repeats: Repeats) -> Self {
        let config = &mut self.definition.config.repeats;
        (config.warn, config.stop) = (Some(repeats.warn), Some(repeats.stop));
        self
    }

    /// Sets which of its content may be stored, if the channel allows storing it.
    pub fn data(mut self, data: DataPolicy) -> Self {
        let config = &mut self.definition.config.data;
        config.text = Some(data.text);
        config.tool_calls = Some(data.tool_calls);
        config.tool_results = Some(data.tool_results);
        config.reasoning = Some(data.reasoning);
        self
    }

    /// Requires answers that fit a JSON Schema: when the agent runs alone, in a session, and as another agent's tool,
    /// where the caller reads the JSON. A request that asks for a different schema gets that one.
    pub fn answer_schema(mut self, schema: &AnswerSchema) -> Self {
        self.definition.config.answer = schema.config();
        self
    }

    /// Keeps what is wrong with a setting, for [`build`](Self::build) to return.
    #[cfg(feature = "typed")]
    pub(crate) fn refuse(mut self, source: AnswerSchemaError) -> Self {
        let agent = self.definition.name.clone();
        self.fault
            .get_or_insert(BuildError::Answer { agent, source });
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the invalid setting or tool.
    pub fn build(self) -> Result<Agent, BuildError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let definition = Arc::new(self.definition);
        if definition.model.is_some() && definition.config.role.is_some() {
            return Err(BuildError::ModelAndRole(definition.name.clone()));
        }
        let engine = alone(&definition)?.map(Arc::new);
        Ok(Agent::new(definition, engine))
    }

    fn read(&mut self, name: &str) -> Option<ToolName> {
        let read = name.parse();
        if let Err(rule) = &read {
            let given = name.chars().take(64).collect();
            self.fault
                .get_or_insert(BuildError::Name { given, rule: *rule });
        }
        read.ok()
    }
}
