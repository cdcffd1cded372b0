//! A case: what is asked, of which agent, and what must be true of the run.

use std::path::PathBuf;
use std::sync::Arc;

use neuraxis_core::{AgentName, Channel, Message, Mode, PlanName, Role, SessionId};
use neuraxis_engine::{ClientInput, UserRequest};
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::matching::{CallPattern, CaseApprover};

/// A request, the agent and settings it is for, and what must be true of the resulting run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Case {
    /// The case's name. Reports are compared by name, so no two cases of a file may share one.
    pub name: String,
    /// The user's message. Not needed if the run already exists.
    pub message: String,
    /// The earlier messages of the conversation, oldest first.
    pub history: Vec<HistoryMessage>,
    /// What kind of request it is; `chat` by default.
    pub channel: Channel,
    /// The run's mode; `moderate` by default.
    pub mode: Mode,
    /// The agent that answers, instead of the channel's default.
    pub agent: Option<AgentName>,
    /// The role whose model serves; policy must allow it for such a request.
    pub role: Option<Role>,
    /// A named set of limits, in addition to those of the mode and the channel.
    pub plan: Option<PlanName>,
    /// Where the run to check comes from.
    pub source: Source,
    /// The calls to approve when policy asks about them. All other calls that it asks about are denied.
    pub approve: Vec<CallPattern>,
    /// What must be true of the run.
    pub checks: Vec<Check>,
    /// The number of attempts; at least 1. A stored run is checked once.
    pub repeat: u32,
    /// The share of attempts that must pass, from 0 to 1. All of them by default.
    pub pass_rate: f64,
    /// The line on which the case begins, from 1, if it comes from a file.
    pub line: Option<usize>,
}

/// Where the run to check comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Source {
    /// A run started for the case, with the orchestrator's models.
    #[default]
    Models,
    /// A run started for the case, with a recording instead of the models.
    Cassette(PathBuf),
    /// A stored run, by its id or the beginning of it. No model is called.
    Run(String),
    /// The only run in a file that a session was exported to, or in a file of a run's records. No model is called.
    Log(PathBuf),
}

/// An earlier message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryMessage {
    /// From the user.
    User(String),
    /// From the model.
    Assistant(String),
}

impl Case {
    /// Creates a case with this message, in the default mode and channel and without checks.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            message: message.into(),
            history: Vec::new(),
            channel: Channel::CHAT,
            mode: Mode::MODERATE,
            agent: None,
            role: None,
            plan: None,
            source: Source::default(),
            approve: Vec::new(),
            checks: Vec::new(),
            repeat: 1,
            pass_rate: 1.0,
            line: None,
        }
    }

    /// Creates a case about a run that already exists.
    pub fn of(name: impl Into<String>, source: Source) -> Self {
        Self {
            source,
            ..Self::new(name, "")
        }
    }

    /// Adds a check.
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Sets the mode.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what kind of request it is.
    #[must_use]
    pub fn channel(mut self, channel: Channel) -> Self {
        self.channel = channel;
        self
    }

    /// Sets the agent that answers.
    #[must_use]
    pub fn agent(mut self, agent: AgentName) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Sets the role whose model serves.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self
    }

    /// Approves these calls when policy asks about them.
    #[must_use]
    pub fn approve(mut self, calls: CallPattern) -> Self {
        self.approve.push(calls);
        self
    }

    /// Sets the number of attempts; 0 is treated as 1.
    #[must_use]
    pub fn repeat(mut self, times: u32) -> Self {
        self.repeat = times.max(1);
        self
    }

    /// Sets the share of attempts that must pass, from 0 to 1.
    #[must_use]
    pub const fn pass_rate(mut self, rate: f64) -> Self {
        self.pass_rate = rate;
        self
    }

    /// Returns whether a run is started for the case.
    #[must_use]
    pub const fn begins_a_run(&self) -> bool {
        self.source.begins_a_run()
    }

    /// Returns whether the case needs a judge.
    #[must_use]
    pub fn needs_a_judge(&self) -> bool {
        self.checks.iter().any(|check| check.rubric().is_some())
    }

    /// Returns the number of attempts: `repeat` if given, otherwise the case's own; 1 for a stored run.
    pub(crate) fn attempts(&self, repeat: Option<u32>) -> u32 {
        if self.begins_a_run() {
            repeat.unwrap_or(self.repeat).max(1)
        } else {
            1
        }
    }

    /// Returns the case's request, in a session of its own.
    pub(crate) fn request(&self, session: SessionId) -> UserRequest {
        let mut request = UserRequest::new(session, &*self.message)
            .mode(self.mode.clone())
            .channel(self.channel.clone())
            .approver(Arc::new(CaseApprover(self.approve.clone())));
        request.agent.clone_from(&self.agent);
        request.plan.clone_from(&self.plan);
        if self.role.is_none() && self.history.is_empty() {
            return request;
        }
        let mut client_input =
            ClientInput::default().conversation(self.history.iter().map(HistoryMessage::message));
        client_input.role.clone_from(&self.role);
        request.with_client_input(client_input)
    }
}

impl Source {
    pub(crate) const fn begins_a_run(&self) -> bool {
        matches!(self, Self::Models | Self::Cassette(_))
    }
}

impl HistoryMessage {
    fn message(&self) -> Message {
        match self {
            Self::User(text) => Message::user(text),
            Self::Assistant(text) => Message::assistant(text),
        }
    }
}
