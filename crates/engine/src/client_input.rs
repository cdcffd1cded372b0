//! What a client supplies with a request in addition to its message: a conversation that the client keeps itself,
//! instructions, tools that the client runs, and settings for replies.
//!
//! None of this lets a run do more in this process: only the client runs a client's tools, and their results are
//! treated as untrusted content. Not for additions of the program that embeds the engine, which go into its builder.

mod parameters;

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::{
    ClientTools, ContentHash, FIND_TOOLS, JsonText, Message, Profile, READ_OUTPUT, ResultRule,
    Role, RunSpec, Taint, ToolChoice, ToolKind, ToolName, ToolSpec, UnboundedSchema, last_of_user,
};
use serde::Serialize;

use crate::request::{RequestError, UserRequest};

/// The maximum number of tools of a client. OpenAI's API accepts no more in one request
/// (platform.openai.com/docs/api-reference/chat/create, `tools`).
const MAX_TOOLS: usize = 128;

/// The maximum total size in bytes of their names, descriptions and schemas, which are in the run's log and in each
/// request to its model.
const MAX_TOOL_BYTES: usize = 1024 * 1024;

/// What a client supplies in addition to its message.
///
/// ```
/// use neuraxis_core::{JsonText, Message, ToolSpec};
/// use neuraxis_engine::{ClientInput, UserRequest};
///
/// let earlier = [Message::user("I live in Oslo."), Message::assistant("Noted.")];
/// let weather = ToolSpec::new("weather".parse()?, "Tells the weather in a city.");
/// let client_input = ClientInput::default()
///     .conversation(earlier)
///     .instructions("Answer in one sentence.")
///     .tools([weather])
///     .hand_over();
/// let request = UserRequest::new("main".parse()?, "Do I need a coat?").with_client_input(client_input);
/// # Ok::<(), neuraxis_core::InvalidId>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct ClientInput {
    /// The earlier messages, oldest first, if the client keeps the conversation; or the results of the calls that the
    /// session's last run handed over. Put in order like every history (loop rule 15), and stored with the session.
    pub conversation: Vec<Arc<Message>>,
    /// The taint of the answers in the conversation, as far as it is known, such as the taint of the runs that produced
    /// them. Tool results in the conversation are treated as untrusted without being named here.
    #[serde(skip_serializing_if = "Taint::is_clean")]
    pub untrusted: Taint,
    /// Instructions for the agent that answers, added after its own.
    pub instructions: Option<String>,
    /// The role whose model serves; must be one that the policy allows for such a request.
    pub role: Option<Role>,
    /// The tools that the client runs. A tool in this list replaces an engine tool of the same name.
    pub tools: Vec<ToolSpec>,
    /// Whether the run waits for the results of the client's tools, or ends with the calls:
    /// [`FinishReason::ClientTools`](neuraxis_core::FinishReason::ClientTools).
    pub client_tools: ClientTools,
    /// Whether the first turn must call a tool, or must not call any. If calls of the client's tools are handed over,
    /// one of those tools must be called: after a successful call of one of the engine's own tools, the next turn must
    /// call a tool again.
    pub tool_choice: Option<ToolChoice>,
    /// The sampling temperature; replaces the agent's.
    pub temperature: Option<f32>,
    /// The maximum number of tokens of one reply. The agent's own limit also applies.
    pub max_output_tokens: Option<u32>,
}

/// Why what a client supplies is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientInputError {
    /// The conversation contains a system message. Only the deployment may supply those.
    #[error("the conversation contains a system message: send it as instructions")]
    SystemMessage,
    /// There are more tools than providers accept.
    #[error("too many tools: {0}; the limit is {MAX_TOOLS}")]
    TooManyTools(usize),
    /// The names, descriptions and schemas of the tools together are longer than any model reads.
    #[error("the tools are too large: {0} bytes in total; the limit is {MAX_TOOL_BYTES}")]
    ToolsTooLarge(usize),
    /// Two tools have the same name.
    #[error("two tools are named {0}")]
    ToolTwice(ToolName),
    /// The loop itself has a tool with this name: `find_tools`, `read_output` or, if the answer has a form,
    /// `final_answer`.
    #[error("the tool name {0} is reserved: choose another")]
    ReservedTool(ToolName),
    /// The parameters of a tool are not a JSON Schema of an object.
    #[error("the parameters of tool {name} are not a JSON Schema of an object: {why}")]
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
    /// The tool that must be called first is not offered.
    #[error("the model must call tool {0}, which is not offered")]
    NoSuchTool(ToolName),
    /// The run would wait for the results of the client's tools, but could not continue with them.
    #[error(
        "a run cannot wait here for tools that you run: the data policy keeps {0} out of its log, without which the run could not \
         continue; supply no tools, or let the run end with the calls instead, as runs over OpenAI's protocols and AG-UI do \
         (`ClientInput::hand_over` in a program)"
    )]
    Withheld(&'static str),
}

impl ClientInput {
    /// Sets the earlier messages.
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

    /// Sets instructions that are added to the agent's own.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Sets the role whose model serves.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// Sets the tools that the client runs. They are treated as read-only: handing a call over changes nothing here,
    /// whatever the client does with it.
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

    /// Sets whether the first turn must call a tool, or must not call any.
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

    /// Returns whether there is something to answer even without a new message.
    fn needs_answer(&self) -> bool {
        let last = self.conversation.last().map(Arc::as_ref);
        matches!(last, Some(Message::User { .. } | Message::Tool(_)))
    }

    fn check(&self) -> Result<(), ClientInputError> {
        let is_system = |message: &Arc<Message>| matches!(**message, Message::System { .. });
        if self.conversation.iter().any(is_system) {
            return Err(ClientInputError::SystemMessage);
        }
        if self.tools.len() > MAX_TOOLS {
            return Err(ClientInputError::TooManyTools(self.tools.len()));
        }
        let bytes_of = |tool: &ToolSpec| {
            tool.name.as_str().len() + tool.description.len() + tool.parameters.as_str().len()
        };
        let bytes = self.tools.iter().map(bytes_of).sum();
        if bytes > MAX_TOOL_BYTES {
            return Err(ClientInputError::ToolsTooLarge(bytes));
        }
        for (at, tool) in self.tools.iter().enumerate() {
            let name = || tool.name.clone();
            let before = self.tools.iter().take(at);
            if before.into_iter().any(|other| other.name == tool.name) {
                return Err(ClientInputError::ToolTwice(name()));
            }
            // `final_answer` is reserved only in runs that deliver their answer through it. `UserRequest::join` checks
            // that once the run is described.
            if matches!(tool.name.as_str(), FIND_TOOLS | READ_OUTPUT) {
                return Err(ClientInputError::ReservedTool(name()));
            }
            parameters::check(tool)?;
        }
        Ok(())
    }

    /// Adds what the client supplies to the description of a run.
    fn join(&self, spec: &mut RunSpec) {
        let root = &mut spec.root;
        if let Some(instructions) = self.instructions.as_deref().filter(|it| !it.is_empty()) {
            root.system_prompt = Some(match root.system_prompt.as_deref() {
                Some(own) => format!("{own}\n\n{instructions}").into(),
                None => instructions.into(),
            });
            spec.client_instructions = Some(instructions.into());
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

    /// Returns the known taint, extended by the tool results among the messages: nothing here has checked their text.
    pub(crate) fn taint(&self) -> Taint {
        let mut taint = Taint::default();
        for source in self.untrusted.sources() {
            taint.add(&source.tool, None);
        }
        for message in &self.conversation {
            // Tools of a client can have any name. A result counts even if its name would be invalid for a tool here.
            if let Message::Tool(tool) = message.as_ref()
                && let Ok(name) = tool.name.parse::<ToolName>().or_else(|_| "tool".parse())
            {
                taint.add(&name, None);
            }
        }
        taint
    }

    /// Returns a hash of all of it, which distinguishes it from what another request supplies.
    pub(crate) fn hash(&self) -> Option<ContentHash> {
        let written = JsonText::encode(self).ok()?;
        Some(ContentHash::of(written.as_str().as_bytes()))
    }
}

impl UserRequest {
    /// Adds what a client supplies in addition to its message. The [message](Self::message) may be empty if the
    /// conversation ends with a user's message or with the result of a call.
    #[must_use]
    pub fn with_client_input(mut self, client_input: ClientInput) -> Self {
        self.client_input = Some(Box::new(client_input));
        self
    }

    /// Returns the user's message, or the user's last message if there is no new one.
    pub(crate) fn user_text(&self) -> Cow<'_, str> {
        let client_input = self
            .client_input
            .as_deref()
            .filter(|_| self.message.is_empty());
        let last = client_input.and_then(|it| last_of_user(&it.conversation));
        last.map_or(Cow::Borrowed(&self.message), |message| {
            Cow::Owned(message.text())
        })
    }

    /// Returns the role that the request names.
    pub(crate) fn role(&self) -> Option<&Role> {
        self.client_input.as_ref()?.role.as_ref()
    }

    /// Refuses a request with nothing to answer, or one that supplies something invalid.
    pub(crate) fn check_client_input(&self) -> Result<(), RequestError> {
        let client_input = self.client_input.as_deref();
        let says_nothing = self.message.trim().is_empty() && self.attachments.is_empty();
        if says_nothing && !client_input.is_some_and(ClientInput::needs_answer) {
            return Err(RequestError::EmptyMessage);
        }
        client_input.map_or(Ok(()), ClientInput::check)?;
        Ok(())
    }

    /// Adds what the request says and supplies to the description of its run. Returns the messages that the run must
    /// keep.
    ///
    /// # Errors
    ///
    /// [`ClientInputError::ReservedTool`], [`ClientInputError::NoSuchTool`] and [`ClientInputError::Withheld`].
    pub(crate) fn join(&self, spec: &mut RunSpec) -> Result<Vec<Arc<Message>>, ClientInputError> {
        if let Some(client_input) = &self.client_input {
            let delivers = |tool: &&ToolSpec| spec.root.is_delivered_by(tool.name.as_str());
            if let Some(tool) = client_input.tools.iter().find(delivers) {
                return Err(ClientInputError::ReservedTool(tool.name.clone()));
            }
            if let Some(ToolChoice::Named(tool)) = &client_input.tool_choice
                && !spec.root.tools.iter().any(|it| it.name == *tool)
            {
                return Err(ClientInputError::NoSuchTool(tool.clone()));
            }
            let waits =
                !client_input.tools.is_empty() && client_input.client_tools == ClientTools::Wait;
            if let Some(what) = spec.withheld().filter(|_| waits) {
                return Err(ClientInputError::Withheld(what));
            }
            spec.messages
                .extend(client_input.conversation.iter().cloned());
        }
        let says_something = !self.message.is_empty() || !self.attachments.is_empty();
        if says_something || self.client_input.is_none() {
            spec.messages.push(Arc::new(self.user_message()));
        }
        let is_of_user = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        let last = spec
            .messages
            .iter()
            .rposition(is_of_user)
            .unwrap_or_default();
        Ok(spec.messages.get(last..).unwrap_or_default().to_vec())
    }

    /// Adds what a client supplies, except messages, to the description of its run.
    pub(crate) fn join_without_messages(&self, spec: &mut RunSpec) {
        if let Some(client_input) = &self.client_input {
            client_input.join(spec);
        }
    }
}

/// Requires the turn after a result of one of these tools to call a tool again, whichever it is.
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
