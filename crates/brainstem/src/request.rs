//! What governance is asked about: a request, and a call.

use neuraxis_core::{
    AgentName, Channel, Decision, JsonText, Mode, PlanName, Remembered, Role, Taint, ToolSpec,
};

use crate::budget::Spent;
use crate::names::{Listed, choices};

/// A request to be decided about.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The freedom it asks for.
    pub mode: &'a Mode,
    /// Where it comes from.
    pub channel: &'a Channel,
    /// What the user wrote.
    pub message: &'a str,
    /// The agent that is asked for; that of the channel if `None`.
    pub agent: Option<&'a AgentName>,
    /// The role that is asked for, in place of the one that policy would choose.
    pub role: Option<&'a Role>,
    /// All tools there are; a decision offers some of them, in this order.
    pub tools: &'a [ToolSpec],
    /// The plan of the key or user that asks, if it has one.
    pub plan: Option<&'a PlanName>,
    /// The roles that have a model; `None` if that is not known, and then any role may be chosen.
    pub roles: Option<&'a [Role]>,
    /// How many messages the conversation has before this one; `None` if that is not known, and then no question is asked
    /// back.
    pub history: Option<usize>,
    /// The untrusted content that the conversation already holds.
    pub taint: Option<&'a Taint>,
    /// What the runs of this session used so far.
    pub session_spent: Spent,
    /// What the runs of this key or user used today.
    pub day_spent: Spent,
}

impl<'a> Request<'a> {
    /// Describes a request without tools and plan.
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

    /// Names the tools there are.
    #[must_use]
    pub const fn with_tools(mut self, tools: &'a [ToolSpec]) -> Self {
        self.tools = tools;
        self
    }

    /// Names the agent that is asked for.
    #[must_use]
    pub const fn with_agent(mut self, agent: &'a AgentName) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Names the role that is asked for: it serves if policy allows it, nobody is asked for another, it checks its own drafts, and
    /// it does not take over from itself.
    #[must_use]
    pub const fn with_role(mut self, role: &'a Role) -> Self {
        self.role = Some(role);
        self
    }

    /// Names the plan of the key or user that asks.
    #[must_use]
    pub const fn with_plan(mut self, plan: &'a PlanName) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Names the roles that have a model.
    #[must_use]
    pub const fn with_roles(mut self, roles: &'a [Role]) -> Self {
        self.roles = Some(roles);
        self
    }

    /// Says how many messages the conversation has before this one.
    #[must_use]
    pub const fn with_history(mut self, messages: usize) -> Self {
        self.history = Some(messages);
        self
    }

    /// Names the untrusted content that the conversation already holds.
    #[must_use]
    pub const fn with_taint(mut self, taint: &'a Taint) -> Self {
        self.taint = Some(taint);
        self
    }

    /// Says what the runs of this session, and those of this key or user today, used so far.
    #[must_use]
    pub const fn with_spent(mut self, session: Spent, day: Spent) -> Self {
        self.session_spent = session;
        self.day_spent = day;
        self
    }
}

/// A tool call to be judged: its arguments are final and fit the tool's schema.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The tool as it is defined: its class and annotations count, its name selects rules.
    pub tool: &'a ToolSpec,
    /// The arguments, a JSON object.
    pub arguments: &'a JsonText,
    /// The untrusted content of the run so far, beside that of the decision.
    pub taint: Option<&'a Taint>,
    /// The answers of people that the session remembers.
    pub remembered: Option<&'a Remembered>,
    /// The absolute path of the folder that paths are confined to. Without it every absolute path is outside.
    pub root: Option<&'a str>,
    /// Whose session it is, where that is known.
    pub owner: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// Makes a call in a run without untrusted content, remembered answers and folder.
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

    /// Names the untrusted content of the run so far.
    #[must_use]
    pub const fn with_taint(mut self, taint: &'a Taint) -> Self {
        self.taint = Some(taint);
        self
    }

    /// Tells whether the conversation holds untrusted content, from this run or from before.
    pub(crate) fn is_tainted(&self, decision: &Decision) -> bool {
        !decision.taint.is_clean() || self.taint.is_some_and(|taint| !taint.is_clean())
    }

    /// Names the answers of people that the session remembers.
    #[must_use]
    pub const fn with_remembered(mut self, remembered: &'a Remembered) -> Self {
        self.remembered = Some(remembered);
        self
    }

    /// Says whose session it is.
    #[must_use]
    pub const fn with_owner(mut self, owner: Option<&'a str>) -> Self {
        self.owner = owner;
        self
    }

    /// Names the folder that paths are confined to.
    #[must_use]
    pub const fn with_root(mut self, root: &'a str) -> Self {
        self.root = Some(root);
        self
    }
}

/// Why a request cannot be decided about. Given names are cut and escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No mode has this name.
    #[error("unknown mode \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownMode {
        /// The name that was given.
        given: String,
        /// The mode that was most likely meant.
        nearest: Option<Mode>,
        /// The modes of the policy.
        known: Vec<Mode>,
    },
    /// No channel has this name.
    #[error("unknown channel \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownChannel {
        /// The name that was given.
        given: String,
        /// The channel that was most likely meant.
        nearest: Option<Channel>,
        /// The channels of the policy.
        known: Vec<Channel>,
    },
    /// No agent has this name.
    #[error("unknown agent \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownAgent {
        /// The name that was given.
        given: String,
        /// The agent that was most likely meant.
        nearest: Option<AgentName>,
        /// The agents of the policy.
        known: Vec<AgentName>,
    },
    /// No plan has this name.
    #[error("unknown plan \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownPlan {
        /// The name that was given.
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
        "policy does not allow role {asked} here; it allows: {}",
        Listed(allowed)
    )]
    RoleNotAllowed {
        /// The role that was asked for.
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
