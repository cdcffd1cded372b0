//! How an agent is written in code: every setting that `[agents.NAME]` has, and what only code can give, as tools and a model of
//! its own.

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

/// Collects what makes an [`Agent`]. A setting that is left out has the default of its key in `[agents.NAME]`.
#[derive(Debug)]
#[must_use = "an agent is made by `build`"]
pub struct AgentBuilder {
    definition: Definition,
    /// The first setting that cannot stand.
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
    /// Sets what it is for, as the agents read it that may call it.
    description: impl Into<String> => description = description.into();
    /// Sets the role that serves it: a model of the orchestrator. In place of a [model](Self::model) of its own.
    role: Role => role = role;
    /// Sets the sampling temperature, from 0 to 2.
    temperature: f32 => temperature = temperature;
    /// Sets the most tokens of one reply; where a mode allows fewer, that counts.
    max_output_tokens: u32 => max_output_tokens = max_output_tokens;
    /// Sets the turns before the last answer is asked for; 10 if neither this nor the policy sets any.
    max_turns: u32 => max_turns = max_turns;
    /// Sets the most tool calls, those of the agents it calls included.
    max_tool_calls: u32 => max_tool_calls = max_tool_calls;
    /// Sets the most tokens of all model calls.
    max_tokens: u64 => max_tokens = max_tokens;
    /// Sets the most money. Of a model without a price nothing counts: alone it has that of the list of public prices, if any;
    /// [`build_agent`](crate::OrchestratorBuilder::build_agent) says how it gets one of a policy.
    max_cost: MicroUsd => max_cost_micro_usd = max_cost;
    /// Sets the most active time.
    deadline: Duration => deadline = deadline;
    /// Sets the most agents that it, and those below it, may start in a whole run that it answers; 64 if nothing sets it, and no
    /// more than a policy allows where one governs it.
    max_agents: u32 => max_agents = max_agents;
    /// Sets how deep those may be: 1 for agents that start none themselves; 2 if nothing sets it, and no deeper than a policy
    /// allows where one governs it.
    max_agent_depth: u32 => max_agent_depth = max_agent_depth;
    /// Sets the time of one tool call.
    tool_timeout: Duration => tool_timeout = tool_timeout;
    /// Sets how its run begins, where the channel does not say.
    opening: Opening => opening = match opening {
        Opening::Direct => OpeningConfig::Direct,
        Opening::Gather { role, tool, default_arguments } => {
            OpeningConfig::Gather(GatherConfig { role, tool, default_arguments })
        }
    };
    /// Sets whose usage its outcome tells.
    usage: UsageScope => usage = usage;
    /// Sets which calls of one reply run at the same time.
    parallel: Parallel => parallel = parallel;
    /// Sets what an unknown tool leads to.
    unknown_tool: UnknownTool => unknown_tool = unknown_tool;
    /// Sets whether a failed call ends the run.
    stop_on_error: bool => stop_on_error = stop_on_error;
    /// Sets what a reached limit leads to.
    limit_reached: LimitReached => limit_reached = limit_reached;
    /// Sets what a reply without calls leads to.
    no_calls: NoCalls => no_calls = match no_calls {
        NoCalls::Finish => NoCallsConfig::Finish,
        NoCalls::Remind { prompt, at_most } => NoCallsConfig::Remind(RemindConfig { prompt, at_most }),
    };
    /// Sets in which turns its tools may be called.
    offer: Offer => offer = offer;
    /// Sets whether its first turn must call a tool, or none may.
    tool_choice: ToolChoice => tool_choice = tool_choice;
    /// Sets the role that serves its first turn, where it is another.
    first_role: Role => first_role = first_role;
    /// Sets the role that serves the turns that read results, where it is another.
    after_calls_role: Role => after_calls_role = after_calls_role;
    /// Sets whether arguments that small models often get wrong are put right before they are checked.
    lenient_arguments: bool => lenient_arguments = lenient_arguments;
    /// Lets a turn that brought more results than this add a short prompt to digest them.
    digest_after: u32 => digest_after = digest_after;
    /// Sets what becomes of the links in its answer.
    citations: Citations => citations = citations;
    /// Sets what takes the place of messages that no longer fit.
    compaction: Compaction => compaction = match compaction {
        Compaction::Drop => CompactionConfig::Drop,
        Compaction::Summarize { role } => CompactionConfig::Summarize(SummarizeConfig { role }),
    };
    /// Sets how many of the agents that it called work at the same time.
    parallel_agents: u32 => parallel_agents = parallel_agents;
    /// Sets how often a failed call is made again; where a mode allows fewer times, that counts.
    tool_retries: u32 => tool_retries = tool_retries;
    /// Sets the most tokens of context that it uses of what its model has.
    context_tokens: u64 => context_tokens = context_tokens;
    /// Lets its tool take a list of this name, such as `topics`: one agent works on each item.
    fan_out: impl Into<String> => fan_out = fan_out.into();
}

impl AgentBuilder {
    pub(super) fn new(name: AgentName) -> Self {
        Self {
            definition: Definition::named(name),
            fault: None,
        }
    }

    /// Sets what it is told first, in place of what [`instructions_with`](Self::instructions_with) was given before.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.definition.config.instructions = Some(instructions.into());
        self.definition.instructions = None;
        self
    }

    /// Sets what it is told first, made of what is known of the request when a run begins, in place of what
    /// [`instructions`](Self::instructions) was given before. The text is on record with the run: a replay reads it there.
    /// Where it is empty, the agent is told nothing; where the function panics, the request is refused
    /// ([`RequestError::Instructions`](crate::RequestError::Instructions)). Where a policy says `instructions` of it, those
    /// count.
    pub fn instructions_with(
        mut self,
        of: impl Fn(&InstructionContext<'_>) -> String + Send + Sync + 'static,
    ) -> Self {
        self.definition.instructions = Some(Instructions::new(of));
        self.definition.config.instructions = None;
        self
    }

    /// Gives it a model of its own, with which it runs alone. In a session of an orchestrator that model serves it, too, where
    /// the mode lets any role serve, and no other agent.
    pub fn model(mut self, client: Arc<dyn LlmClient>) -> Self {
        self.definition.model = Some(client);
        self
    }

    /// Gives it a tool of its own: other agents of an orchestrator are not offered it.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.definition.tools.push(tool);
        self
    }

    /// Gives it several tools of its own.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.definition.tools.extend(tools);
        self
    }

    /// Names the tools that it uses besides its own, of those that an orchestrator offers, by patterns such as `read_*`; all
    /// if left out. The key `tools` of `[agents.NAME]`.
    pub fn tools_named<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        let patterns = patterns.into_iter().map(Into::into);
        self.definition.config.tools = Some(patterns.collect());
        self
    }

    /// Adds code that looks at each of its tool calls and their results, after that of the
    /// [orchestrator](crate::OrchestratorBuilder::tool_hook). Not at those of the agents that it calls.
    pub fn tool_hook(mut self, hook: Arc<dyn ToolHook>) -> Self {
        self.definition.hooks.tool.push(hook);
        self
    }

    /// Adds code that looks at what its model is sent and at what it says, such as a guardrail, after that of the
    /// [orchestrator](crate::OrchestratorBuilder::model_hook). Not at the model calls of the agents that it calls.
    pub fn model_hook(mut self, hook: Arc<dyn ModelHook>) -> Self {
        self.definition.hooks.model.push(hook);
        self
    }

    /// Lets it call another agent, by a tool of that one's name.
    pub fn agent(mut self, agent: Agent) -> Self {
        self.definition.agents.push(agent.definition);
        self
    }

    /// Sets the name of the tool by which others call it, in place of its own.
    pub fn tool_name(mut self, name: &str) -> Self {
        self.definition.config.tool_name = self.read(name);
        self
    }

    /// Names a tool whose result is the answer.
    pub fn stop_after(mut self, tool: &str) -> Self {
        let tool = self.read(tool);
        let tools = &mut self.definition.config.stop_after;
        tools.get_or_insert_default().extend(tool);
        self
    }

    /// Sets what the results of a tool change.
    pub fn results(mut self, rule: ResultRule) -> Self {
        let mut config = ResultConfig::default();
        config.max_chars = rule.max_chars;
        config.keep = rule.keep;
        config.then = rule.then;
        config.note = rule.note;
        self.definition.config.results.insert(rule.tool, config);
        self
    }

    /// Sets when the same call again and again is too much.
    pub fn repeats(mut self, repeats: Repeats) -> Self {
        let config = &mut self.definition.config.repeats;
        (config.warn, config.stop) = (Some(repeats.warn), Some(repeats.stop));
        self
    }

    /// Sets what of its content may be stored, where the channel lets it be.
    pub fn data(mut self, data: DataPolicy) -> Self {
        let config = &mut self.definition.config.data;
        config.text = Some(data.text);
        config.tool_calls = Some(data.tool_calls);
        config.tool_results = Some(data.tool_results);
        config.reasoning = Some(data.reasoning);
        self
    }

    /// Asks it for answers that fit a JSON Schema: alone, in a session, and as another's tool, whose caller reads the JSON. A
    /// request that asks for another form gets that one.
    pub fn answer_schema(mut self, schema: &AnswerSchema) -> Self {
        self.definition.config.answer = schema.config();
        self
    }

    /// Keeps what is wrong with a setting, for [`build`](Self::build) to tell.
    #[cfg(feature = "typed")]
    pub(crate) fn refuse(mut self, source: AnswerSchemaError) -> Self {
        let agent = self.definition.name.clone();
        self.fault
            .get_or_insert(BuildError::Answer { agent, source });
        self
    }

    /// Makes the agent.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the setting which cannot stand, or the tool.
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
