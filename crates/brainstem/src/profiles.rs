//! The profiles a channel can name: how its agent behaves in the loop, and the limits that come with it.

use std::time::Duration;

use neuraxis_core::{Parallel, Profile};

use crate::config::PartialLimits;

/// A profile that ships with this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuiltInProfile {
    /// The agent that talks with the user.
    MainThread,
    /// The agent that leads a piece of research.
    ResearchSupervisor,
}

impl BuiltInProfile {
    pub(crate) const ALL: [Self; 2] = [Self::MainThread, Self::ResearchSupervisor];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::MainThread => "main_thread",
            Self::ResearchSupervisor => "research_supervisor",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Returns how the agent behaves, beginning directly.
    pub(crate) fn behavior(self) -> Profile {
        match self {
            Self::MainThread => Profile::main_thread(),
            Self::ResearchSupervisor => {
                let mut profile = Profile::named(self.name());
                profile.parallel = Parallel::None;
                profile
            }
        }
    }

    pub(crate) fn limits(self) -> PartialLimits {
        match self {
            // It has no turn limit of its own: modes and plans set one.
            Self::MainThread => PartialLimits::default(),
            Self::ResearchSupervisor => PartialLimits {
                max_tool_calls: Some(50),
                deadline: Some(Duration::from_secs(300)),
                ..PartialLimits::default()
            },
        }
    }
}
