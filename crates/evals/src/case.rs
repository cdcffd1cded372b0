//! A case: what is asked, of whom, and what has to be true of the run.

use std::path::PathBuf;
use std::sync::Arc;

use neuraxis_core::{AgentName, Channel, Message, Mode, PlanName, Role, SessionId};
use neuraxis_engine::{Brought, UserRequest};
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::matching::{Approved, CallPattern};

/// What is asked, of whom, and what has to be true of the run that it leads to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Case {
    /// What it is called. Reports are compared by it, so that no two cases of a file have the same.
    pub name: String,
    /// What the user says. Not needed where the run is there already.
    pub message: String,
    /// What was said before, oldest first.
    pub history: Vec<Said>,
    /// Where the request comes from; `chat` unless the case says so.
    pub channel: Channel,
    /// How much freedom it has; `moderate` unless the case says so.
    pub mode: Mode,
    /// The agent that answers, in place of the channel's own.
    pub agent: Option<AgentName>,
    /// The role whose model serves; one that policy allows for such a request.
    pub role: Option<Role>,
    /// A named set of limits besides those of mode and channel.
    pub plan: Option<PlanName>,
    /// Whose run is looked at.
    pub source: Source,
    /// The calls that are approved where policy asks about them. All others that it asks about are denied.
    pub approve: Vec<CallPattern>,
    /// What has to be true of the run.
    pub checks: Vec<Check>,
    /// How often it is run; at least once. A stored run is looked at once.
    pub repeat: u32,
    /// The share of its attempts that have to pass, from 0 to 1. All, unless the case says so.
    pub pass_rate: f64,
    /// The line in which it begins, from 1, if it stands in a file.
    pub line: Option<usize>,
}

/// Whose run is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Source {
    /// One that is begun for the case, with the orchestrator's models.
    #[default]
    Models,
    /// One that is begun for the case, with a recording in place of the models.
    Cassette(PathBuf),
    /// One that is stored, by its id or the beginning of it. No model is asked.
    Run(String),
    /// The only one in a file that a session was exported to, or the records of a run. No model is asked.
    Log(PathBuf),
}

/// Something that was said before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// By the user.
    User(String),
    /// By the model.
    Assistant(String),
}

impl Case {
    /// A case that asks this in the default mode and channel, and wants nothing yet.
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

    /// A case about a run that is there already.
    pub fn of(name: impl Into<String>, source: Source) -> Self {
        Self {
            source,
            ..Self::new(name, "")
        }
    }

    /// Wants this to be true, too.
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Sets how much freedom it has.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets where the request comes from.
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

    /// Approves calls, where policy asks about them.
    #[must_use]
    pub fn approve(mut self, calls: CallPattern) -> Self {
        self.approve.push(calls);
        self
    }

    /// Sets how often it is run; 0 counts as 1.
    #[must_use]
    pub fn repeat(mut self, times: u32) -> Self {
        self.repeat = times.max(1);
        self
    }

    /// Sets the share of its attempts that have to pass, from 0 to 1.
    #[must_use]
    pub const fn pass_rate(mut self, rate: f64) -> Self {
        self.pass_rate = rate;
        self
    }

    /// Tells whether a run is begun for it.
    #[must_use]
    pub const fn begins_a_run(&self) -> bool {
        self.source.begins_a_run()
    }

    /// Tells whether a judge is needed.
    #[must_use]
    pub fn needs_a_judge(&self) -> bool {
        self.checks.iter().any(|check| check.rubric().is_some())
    }

    /// Returns how often it is run, where it is not to be another number of times.
    pub(crate) fn attempts(&self, repeat: Option<u32>) -> u32 {
        if self.begins_a_run() {
            repeat.unwrap_or(self.repeat).max(1)
        } else {
            1
        }
    }

    /// Returns what it asks, in a session of its own.
    pub(crate) fn request(&self, session: SessionId) -> UserRequest {
        let mut request = UserRequest::new(session, &*self.message)
            .mode(self.mode.clone())
            .channel(self.channel.clone())
            .approver(Arc::new(Approved(self.approve.clone())));
        request.agent.clone_from(&self.agent);
        request.plan.clone_from(&self.plan);
        if self.role.is_none() && self.history.is_empty() {
            return request;
        }
        let mut brought = Brought::default().conversation(self.history.iter().map(Said::message));
        brought.role.clone_from(&self.role);
        request.bring(brought)
    }
}

impl Source {
    pub(crate) const fn begins_a_run(&self) -> bool {
        matches!(self, Self::Models | Self::Cassette(_))
    }
}

impl Said {
    fn message(&self) -> Message {
        match self {
            Self::User(text) => Message::user(text),
            Self::Assistant(text) => Message::assistant(text),
        }
    }
}
