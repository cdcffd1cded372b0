//! What governance is asked about: a request, and a call.

use neuraxis_core::{Channel, JsonText, Mode, PlanName, Role, ToolSpec};

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
    /// All tools there are; a decision offers some of them, in this order.
    pub tools: &'a [ToolSpec],
    /// The plan of the key or user that asks, if it has one.
    pub plan: Option<&'a PlanName>,
    /// The roles that have a model; `None` if that is not known, and then any role may be chosen.
    pub roles: Option<&'a [Role]>,
}

impl<'a> Request<'a> {
    /// Describes a request without tools and plan.
    #[must_use]
    pub const fn new(mode: &'a Mode, channel: &'a Channel, message: &'a str) -> Self {
        Self {
            mode,
            channel,
            message,
            tools: &[],
            plan: None,
            roles: None,
        }
    }

    /// Names the tools there are.
    #[must_use]
    pub const fn with_tools(mut self, tools: &'a [ToolSpec]) -> Self {
        self.tools = tools;
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
}

/// A tool call to be judged: its arguments are final and fit the tool's schema.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a ToolSpec,
    /// Its arguments.
    pub arguments: &'a JsonText,
}

impl<'a> Call<'a> {
    /// Describes a call.
    #[must_use]
    pub const fn new(tool: &'a ToolSpec, arguments: &'a JsonText) -> Self {
        Self { tool, arguments }
    }
}

/// Why a request cannot be decided about. Given names are cut and escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No mode has this name.
    #[error("unknown mode \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownMode {
        /// The name.
        given: String,
        /// The mode that was most likely meant.
        nearest: Option<Mode>,
        /// All there are.
        known: Vec<Mode>,
    },
    /// No channel has this name.
    #[error("unknown channel \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownChannel {
        /// The name.
        given: String,
        /// The channel that was most likely meant.
        nearest: Option<Channel>,
        /// All there are.
        known: Vec<Channel>,
    },
    /// No plan has this name.
    #[error("unknown plan \"{given}\"{}", choices(nearest.as_ref(), known))]
    UnknownPlan {
        /// The name.
        given: String,
        /// The plan that was most likely meant.
        nearest: Option<PlanName>,
        /// All there are.
        known: Vec<PlanName>,
    },
    /// The channel may not be used in this mode.
    #[error(
        "channel {channel} cannot be used in mode {mode}; it needs {}",
        Listed(allowed)
    )]
    ModeNotAllowed {
        /// The channel.
        channel: Channel,
        /// The mode.
        mode: Mode,
        /// The modes in which it may be used.
        allowed: Vec<Mode>,
    },
    /// No role that may serve has a model.
    #[error(
        "no model for channel {channel} in mode {mode}: the roles that may serve are {}, and those with a model are {}",
        Listed(allowed), if configured.is_empty() { "none".to_owned() } else { Listed(configured).to_string() }
    )]
    NoRole {
        /// The channel.
        channel: Channel,
        /// The mode.
        mode: Mode,
        /// The roles that may serve.
        allowed: Vec<Role>,
        /// The roles that have a model.
        configured: Vec<Role>,
    },
}
