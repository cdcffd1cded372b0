//! What is told of a server to the people who configured it.

use neuraxis_core::ToolSpec;

use super::{Shared, State, lock};
use crate::definition::LeftOut;

/// How it stands with a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It was accepted as it is, and is offered.
    Offered,
    /// It was accepted as something else, and is not offered until it is accepted anew.
    Changed,
    /// It came to a server that was accepted without it, and is not offered until it is accepted.
    New,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportedTool {
    /// What the server says it is, under the name that it has here.
    pub claimed: ToolSpec,
    /// What it calls the tool for people, in a form that can be shown.
    pub title: Option<String>,
    /// How it stands with it.
    pub standing: Standing,
}

/// What is known of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// The protocol version; nothing as long as it was never connected.
    pub protocol: String,
    /// What the server calls itself.
    pub program: Option<String>,
    /// Why it is not connected now, if it is not.
    pub trouble: Option<String>,
    /// Its tools, in its order.
    pub tools: Vec<ReportedTool>,
    /// What of its tools is not used, and why.
    pub left_out: Vec<LeftOut>,
}

impl Shared {
    pub(super) fn report(&self) -> ServerReport {
        let trouble = match &*self.state.borrow() {
            State::Up(_) => None,
            State::Starting => Some("it is not connected yet".to_owned()),
            State::Down(why) | State::Off(why) => Some(why.to_string()),
        };
        let seen = lock(&self.seen);
        let tools = seen.definitions.iter();
        let tools = tools.map(|(definition, standing)| ReportedTool {
            claimed: definition.spec.clone(),
            title: definition.title.clone(),
            standing: *standing,
        });
        ServerReport {
            protocol: seen.version.clone(),
            program: seen.program.clone(),
            trouble,
            tools: tools.collect(),
            left_out: seen.left_out.clone(),
        }
    }
}
