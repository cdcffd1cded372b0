//! What governance is asked about: a request, and a call.

use neuraxis_core::{
    AgentName, Channel, Decision, Grants, JsonText, Mode, PlanName, Role, Spent, Taint, ToolSpec,
};

use crate::names::{Listed, choices};

/// A request to decide about.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The freedom it asks for.
    pub mode: &'a Mode,
    /// What kind of request it is.
    pub channel: &'a Channel,
    /// The user's message.
    pub message: &'a str,
    /// The requested agent; `None` for the channel's agent.
    pub agent: Option<&'a AgentName>,
    /// The requested role, which replaces the one that policy would choose.
    pub role: Option<&'a Role>,
    /// All available tools; a decision offers some of them, in this order.
    pub tools: &'a [ToolSpec],
    /// The plan of the key or user that makes the request, if it has one.
    pub plan: Option<&'a PlanName>,
    /// The roles that have a model; `None` if unknown, and then any role may be chosen.
    pub roles: Option<&'a [Role]>,
    /// The number of messages in the conversation before this one; `None` if unknown, and then no clarifying question
    /// is asked.
    pub history: Option<usize>,
    /// The untrusted content that the conversation already holds.
    pub taint: Option<&'a Taint>,
    /// What the runs of this session have used so far.
    pub session_spent: Spent,
    /// What the runs of this key or user have used today.
    pub day_spent: Spent,
}

impl<'a> Request<'a> {
    /// Describes a request without tools or a plan.
    #[must_use]
    pub const fn new(mode: &'a Mode, channel: &'a Channel, message: &'a str) -> Self {
        Self {
            mode,
            channel,
            message,
            agent: None,
            role: None,
            tools: &[],
            plan: None,
            roles: None,
            history: None,
            taint: None,
            session_spent: Spent::NONE,
            day_spent: Spent::NONE,
        }
    }

    /// Sets the available tools.
    #[must_use]
    pub const fn with_tools(mut self, tools: &'a [ToolSpec]) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the requested agent.
    #[must_use]
    pub const fn with_agent(mut self, agent: &'a AgentName) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Sets the requested role. If policy allows it, it serves: no router is asked for another role, it checks
    /// its own drafts, and it does not escalate to itself.
    #[must_use]
    pub const fn with_role(mut self, role: &'a Role) -> Self {
        self.role = Some(role);
        self
    }

    /// Sets the plan of the key or user that makes the request.
    #[must_use]
    pub const fn with_plan(mut self, plan: &'a PlanName) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Sets the roles that have a model.
    #[must_use]
    pub const fn with_roles(mut self, roles: &'a [Role]) -> Self {
        self.roles = Some(roles);
        self
    }

    /// Sets the number of messages in the conversation before this one.
    #[must_use]
    pub const fn with_history(mut self, messages: usize) -> Self {
        self.history = Some(messages);
        self
    }

    /// Sets the untrusted content that the conversation already holds.
    #[must_use]
    pub const fn with_taint(mut self, taint: &'a Taint) -> Self {
        self.taint = Some(taint);
        self
    }

    /// Sets what the runs of this session, and today's runs of this key or user, have used so far.
    #[must_use]
    pub const fn with_spent(mut self, session: Spent, day: Spent) -> Self {
        self.session_spent = session;
        self.day_spent = day;
        self
    }
}

/// A tool call to judge. Its arguments are final and fit the tool's schema.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The tool's definition: its class and annotations are evaluated, and rules select it by name.
    pub tool: &'a ToolSpec,
    /// The arguments, a JSON object.
    pub arguments: &'a JsonText,
    /// The untrusted content of the run so far, in addition to that of the decision.
    pub taint: Option<&'a Taint>,
    /// The users' answers that the session remembers.
    pub remembered: Option<&'a Grants>,
    /// The absolute path of the folder that paths are confined to. If `None`, every absolute path is outside.
    pub root: Option<&'a str>,
    /// The owner of the session, if known.
    pub owner: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// Creates a call in a run that has no untrusted content, no remembered answers and no folder.
    #[must_use]
    pub const fn new(tool: &'a ToolSpec, arguments: &'a JsonText) -> Self {
        Self {
            tool,
            arguments,
            taint: None,
            remembered: None,
            root: None,
            owner: None,
        }
    }

    /// Sets the untrusted content of the run so far.
    #[must_use]
    pub const fn with_taint(mut self, taint: &'a Taint) -> Self {
        self.taint = Some(taint);
        self
    }

    /// Returns whether the conversation holds untrusted content, from this run or an earlier one.
    pub(crate) fn is_tainted(&self, decision: &Decision) -> bool {
        !decision.taint.is_clean() || self.taint.is_some_and(|taint| !taint.is_clean())
    }

    /// Sets the users' answers that the session remembers.
    #[must_use]
    pub const fn with_remembered(mut self, remembered: &'a Grants) -> Self {
        self.remembered = Some(remembered);
        self
    }

    /// Sets the owner of the session.
    #[must_use]
    pub const fn with_owner(mut self, owner: Option<&'a str>) -> Self {
        self.owner = owner;
        self
    }

    /// Sets the folder that paths are confined to.
    #[must_use]
    pub const fn with_root(mut self, root: &'a str) -> Self {
        self.root = Some(root);
        self
    }
}

/// Why a request cannot be decided about. Names from the request are truncated and escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No mode has this name.
    #[error("unknown mode \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownMode {
        /// The given name.
        given: String,
        /// The mode that was most likely meant.
        nearest: Option<Mode>,
        /// The modes of the policy.
        known: Vec<Mode>,
    },
    /// No channel has this name.
    #[error("unknown channel \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownChannel {
        /// The given name.
        given: String,
        /// The channel that was most likely meant.
        nearest: Option<Channel>,
        /// The channels of the policy.
        known: Vec<Channel>,
    },
    /// No agent has this name.
    #[error("unknown agent \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownAgent {
        /// The given name.
        given: String,
        /// The agent that was most likely meant.
        nearest: Option<AgentName>,
        /// The agents of the policy.
        known: Vec<AgentName>,
    },
    /// No plan has this name.
    #[error("unknown plan \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownPlan {
        /// The given name.
        given: String,
        /// The plan that was most likely meant.
        nearest: Option<PlanName>,
        /// The plans of the policy.
        known: Vec<PlanName>,
    },
    /// The channel may not be used in this mode.
    #[error(
        "channel {channel} cannot be used in mode {mode}; it needs {}",
        Listed(allowed)
    )]
    ModeNotAllowed {
        /// The channel of the request.
        channel: Channel,
        /// The mode of the request.
        mode: Mode,
        /// The modes in which it may be used.
        allowed: Vec<Mode>,
    },
    /// Policy does not let this role serve such a request.
    #[error(
        "the policy does not allow role {asked} here; it allows: {}",
        Listed(allowed)
    )]
    RoleNotAllowed {
        /// The requested role.
        asked: Role,
        /// The roles that may serve.
        allowed: Vec<Role>,
    },
    /// No role that may serve has a model.
    #[error(
        "no model for channel {channel} in mode {mode}: the roles that may serve are {}, and those with a model are {}",
        Listed(allowed), if configured.is_empty() { "none".to_owned() } else { Listed(configured).to_string() }
    )]
    NoRole {
        /// The channel of the request.
        channel: Channel,
        /// The mode of the request.
        mode: Mode,
        /// The roles that may serve.
        allowed: Vec<Role>,
        /// The roles that have a model.
        configured: Vec<Role>,
    },
}
