//! What a client brings to a request besides its message: a conversation that it keeps itself, instructions, tools that it runs,
//! and how replies are to be.
//!
//! Nothing of it lets a run do more here: a client's tool is run by nobody but the client, and what its results say counts as
//! untrusted content. Not for what the program that embeds the engine adds, which its builder takes.

mod parameters;

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{
    ClientTools, ContentHash, FIND_TOOLS, JsonText, Message, Profile, READ_OUTPUT, ResultRule,
    Role, RunSpec, Taint, ToolChoice, ToolKind, ToolName, ToolSpec, UnboundedSchema, last_of_user,
};
use serde::Serialize;

use crate::request::{RequestError, UserRequest};

/// The most tools of a client: OpenAI's API takes no more of a request
/// (platform.openai.com/docs/api-reference/chat/create, `tools`).
const MAX_TOOLS: usize = 128;

/// The most bytes of their names, descriptions and schemas together: they stand in the log of the run, and in each request to
/// its model.
const MAX_TOOL_BYTES: usize = 1024 * 1024;

/// What a client brings besides its message.
///
/// ```
/// use neuraxis_core::{JsonText, Message, ToolSpec};
/// use neuraxis_engine::{Brought, UserRequest};
///
/// let said = [Message::user("I live in Oslo."), Message::assistant("Noted.")];
/// let weather = ToolSpec::new("weather".parse()?, "Tells the weather in a city.");
/// let brought = Brought::default()
///     .conversation(said)
///     .instructions("Answer in one sentence.")
///     .tools([weather])
///     .hand_over();
/// let request = UserRequest::new("main".parse()?, "Do I need a coat?").bring(brought);
/// # Ok::<(), neuraxis_core::InvalidId>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Brought {
    /// What was said before, oldest first, where the client keeps the conversation; or the results of the calls that the
    /// session's last run handed over. Put into order like every history (loop rule 15), and kept with the session.
    pub conversation: Vec<Arc<Message>>,
    /// The untrusted content that is known to be behind the answers in the conversation, such as that of the runs which gave
    /// them. Results in the conversation count without being named here.
    #[serde(skip_serializing_if = "Taint::is_clean")]
    pub untrusted: Taint,
    /// What the agent that answers is told besides its own instructions, after them.
    pub instructions: Option<String>,
    /// The role whose model serves; one that policy allows for such a request.
    pub role: Option<Role>,
    /// The tools that the client runs. One that has the name of a tool here takes its place.
    pub tools: Vec<ToolSpec>,
    /// Whether the run waits for their results, or ends with the calls: [`FinishReason::ClientTools`](neuraxis_core::FinishReason::ClientTools).
    pub client_tools: ClientTools,
    /// Whether the first turn must call a tool, or none may. Where calls of the client's tools are handed over, it is one of
    /// these that must be called: after one of the engine's own that did what it was to do, the next turn must call one again.
    pub tool_choice: Option<ToolChoice>,
    /// The sampling temperature, in place of the agent's.
    pub temperature: Option<f32>,
    /// The most tokens of one reply; the agent's own limit holds, too.
    pub max_output_tokens: Option<u32>,
}

/// Why what a client brought is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BroughtError {
    /// Only the deployment speaks as the system.
    #[error("the conversation holds a system message: bring it as instructions")]
    SystemMessage,
    /// There are more tools than providers take.
    #[error("there are {0} tools: at most {MAX_TOOLS} can be brought")]
    TooManyTools(usize),
    /// What is said of the tools is more than any model reads.
    #[error("the tools have {0} bytes in all: at most {MAX_TOOL_BYTES} can be brought")]
    ToolsTooLarge(usize),
    /// Two tools have the same name.
    #[error("two tools have the name {0}")]
    ToolTwice(ToolName),
    /// The loop itself has a tool of that name: `find_tools`, `read_output` and, where the answer has a form, `final_answer`.
    #[error("the name {0} is that of a tool of the loop: choose another")]
    ReservedTool(ToolName),
    /// The parameters of a tool are no JSON Schema of an object.
    #[error("the parameters of tool {name} are no JSON Schema of an object: {why}")]
    Parameters {
        /// The tool.
        name: ToolName,
        /// What is wrong with its parameters, and where.
        why: String,
    },
    /// Checking a call against the parameters of a tool has no bound.
    #[error("the JSON Schema of the parameters of tool {name} {why}")]
    UnboundedParameters {
        /// The tool.
        name: ToolName,
        /// What is wrong with its parameters.
        why: UnboundedSchema,
    },
    /// The tool that is to be called first is not offered.
    #[error("tool {0} is to be called, and is not offered")]
    NoSuchTool(ToolName),
    /// The run would wait for the results of the client's tools, and could not go on with them.
    #[error(
        "a run cannot wait for tools of yours here: the data policy keeps {0} out of its log, without which it could not go on; \
         bring none, or let it end with the calls instead, as runs over OpenAI's protocols and AG-UI do \
         (`Brought::hand_over` in a program)"
    )]
    Withheld(&'static str),
}

impl Brought {
    /// Sets what was said before.
    #[must_use]
    pub fn conversation<M: Into<Arc<Message>>>(
        mut self,
        messages: impl IntoIterator<Item = M>,
    ) -> Self {
        self.conversation = messages.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the untrusted content behind the answers in the conversation.
    #[must_use]
    pub fn untrusted(mut self, untrusted: Taint) -> Self {
        self.untrusted = untrusted;
        self
    }

    /// Sets what the agent is told besides its own instructions.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Sets whose model serves.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// Sets the tools that the client runs. Handing a call over changes nothing here, whatever the client makes of it, so that
    /// they count as read-only.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = ToolSpec>) -> Self {
        let of_client = tools.into_iter().map(|tool| tool.kind(ToolKind::Client));
        self.tools = of_client.collect();
        self
    }

    /// Lets a run end with the calls of the client's tools instead of waiting for their results.
    #[must_use]
    pub const fn hand_over(mut self) -> Self {
        self.client_tools = ClientTools::HandOver;
        self
    }

    /// Sets whether the first turn must call a tool, or none may.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Sets the sampling temperature.
    #[must_use]
    pub const fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Limits the tokens of one reply.
    #[must_use]
    pub const fn max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Tells whether there is something to answer without another message.
    fn asks(&self) -> bool {
        let last = self.conversation.last().map(Arc::as_ref);
        matches!(last, Some(Message::User { .. } | Message::Tool(_)))
    }

    fn check(&self) -> Result<(), BroughtError> {
        let is_system = |message: &Arc<Message>| matches!(**message, Message::System { .. });
        if self.conversation.iter().any(is_system) {
            return Err(BroughtError::SystemMessage);
        }
        if self.tools.len() > MAX_TOOLS {
            return Err(BroughtError::TooManyTools(self.tools.len()));
        }
        let bytes_of = |tool: &ToolSpec| {
            tool.name.as_str().len() + tool.description.len() + tool.parameters.as_str().len()
        };
        let bytes = self.tools.iter().map(bytes_of).sum();
        if bytes > MAX_TOOL_BYTES {
            return Err(BroughtError::ToolsTooLarge(bytes));
        }
        for (at, tool) in self.tools.iter().enumerate() {
            let name = || tool.name.clone();
            let before = self.tools.iter().take(at);
            if before.into_iter().any(|other| other.name == tool.name) {
                return Err(BroughtError::ToolTwice(name()));
            }
            // `final_answer` is one only of a run that gives its answer by it, which shows as it is described.
            if matches!(tool.name.as_str(), FIND_TOOLS | READ_OUTPUT) {
                return Err(BroughtError::ReservedTool(name()));
            }
            parameters::check(tool)?;
        }
        Ok(())
    }

    /// Adds to the description of a run what the client brings.
    fn join(&self, spec: &mut RunSpec) {
        let root = &mut spec.root;
        if let Some(instructions) = self.instructions.as_deref().filter(|it| !it.is_empty()) {
            root.system_prompt = Some(match root.system_prompt.as_deref() {
                Some(own) => format!("{own}\n\n{instructions}").into(),
                None => instructions.into(),
            });
        }
        if !self.tools.is_empty() {
            let is_own = |tool: &&ToolSpec| !self.tools.iter().any(|it| it.name == tool.name);
            let own: Vec<&ToolSpec> = root.tools.iter().filter(is_own).collect();
            let is_required = self.tool_choice == Some(ToolChoice::Required);
            if is_required && self.client_tools == ClientTools::HandOver {
                let names = own.iter().map(|tool| tool.name.clone());
                require_again(&mut root.profile, names.chain([ToolName::find_tools()]));
            }
            root.tools = own.into_iter().chain(&self.tools).cloned().collect();
            spec.agents
                .retain(|tool, _| !self.tools.iter().any(|it| it.name == *tool));
            spec.client_tools = self.client_tools;
        }
        if self.tool_choice.is_some() {
            root.tool_choice.clone_from(&self.tool_choice);
        }
        root.temperature = self.temperature.or(root.temperature);
        let most = [self.max_output_tokens, root.max_output_tokens];
        root.max_output_tokens = most.into_iter().flatten().min();
    }

    /// Returns the untrusted content that is known, and what the results among the messages are: text that nobody here has seen.
    pub(crate) fn taint(&self) -> Taint {
        let mut taint = Taint::default();
        for source in self.untrusted.sources() {
            taint.add(&source.tool, None);
        }
        for message in &self.conversation {
            // Whatever a client calls its tools: a name that no tool here could have hides no result.
            if let Message::Tool(tool) = message.as_ref()
                && let Ok(name) = tool.name.parse::<ToolName>().or_else(|_| "tool".parse())
            {
                taint.add(&name, None);
            }
        }
        taint
    }

    /// Returns the hash of all of it, to tell it from what another request brings.
    pub(crate) fn hash(&self) -> Option<ContentHash> {
        let written = JsonText::encode(self).ok()?;
        Some(ContentHash::of(written.as_str().as_bytes()))
    }
}

impl UserRequest {
    /// Adds what a client brings besides its message. With a conversation that ends with a person's message or with the result
    /// of a call the [message](Self::message) may be empty.
    #[must_use]
    pub fn bring(mut self, brought: Brought) -> Self {
        self.brought = Some(Box::new(brought));
        self
    }

    /// Returns what the person says, or said last.
    pub(crate) fn said(&self) -> Cow<'_, str> {
        let brought = self.brought.as_deref().filter(|_| self.message.is_empty());
        let last = brought.and_then(|it| last_of_user(&it.conversation));
        last.map_or(Cow::Borrowed(&self.message), |message| {
            Cow::Owned(message.text())
        })
    }

    /// Returns the role that it names.
    pub(crate) fn role(&self) -> Option<&Role> {
        self.brought.as_ref()?.role.as_ref()
    }

    /// Refuses a request that says nothing, and one that brings what cannot be taken.
    pub(crate) fn check_brought(&self) -> Result<(), RequestError> {
        let brought = self.brought.as_deref();
        if self.message.trim().is_empty() && !brought.is_some_and(Brought::asks) {
            return Err(RequestError::EmptyMessage);
        }
        brought.map_or(Ok(()), Brought::check)?;
        Ok(())
    }

    /// Adds to the description of its run what the request says and brings. Returns the messages that the run cannot do without.
    ///
    /// # Errors
    ///
    /// [`BroughtError::ReservedTool`], [`BroughtError::NoSuchTool`] and [`BroughtError::Withheld`].
    pub(crate) fn join(&self, spec: &mut RunSpec) -> Result<Vec<Arc<Message>>, BroughtError> {
        if let Some(brought) = &self.brought {
            let delivers = |tool: &&ToolSpec| spec.root.is_delivered_by(tool.name.as_str());
            if let Some(tool) = brought.tools.iter().find(delivers) {
                return Err(BroughtError::ReservedTool(tool.name.clone()));
            }
            if let Some(ToolChoice::Named(tool)) = &brought.tool_choice
                && !spec.root.tools.iter().any(|it| it.name == *tool)
            {
                return Err(BroughtError::NoSuchTool(tool.clone()));
            }
            let waits = !brought.tools.is_empty() && brought.client_tools == ClientTools::Wait;
            if let Some(what) = spec.withheld().filter(|_| waits) {
                return Err(BroughtError::Withheld(what));
            }
            spec.messages.extend(brought.conversation.iter().cloned());
        }
        if !self.message.is_empty() || self.brought.is_none() {
            spec.messages.push(Arc::new(self.user_message()));
        }
        let is_said = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        let last = spec.messages.iter().rposition(is_said).unwrap_or_default();
        Ok(spec.messages.get(last..).unwrap_or_default().to_vec())
    }

    /// Adds to the description of its run what a client brings besides messages.
    pub(crate) fn join_terms(&self, spec: &mut RunSpec) {
        if let Some(brought) = &self.brought {
            brought.join(spec);
        }
    }
}

/// Lets the turn after a result of one of these tools call a tool, too, whichever it is.
fn require_again(profile: &mut Profile, tools: impl IntoIterator<Item = ToolName>) {
    for tool in tools {
        if let Some(rule) = profile.results.iter_mut().find(|rule| rule.tool == tool) {
            rule.then.get_or_insert(ToolChoice::Required);
        } else {
            let mut rule = ResultRule::new(tool);
            rule.then = Some(ToolChoice::Required);
            profile.results.push(rule);
        }
    }
}
