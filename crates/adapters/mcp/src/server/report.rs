//! What is reported about a server to those who configure it.

use neuraxis_core::ToolSpec;

use super::{Shared, State, lock};
use crate::definition::UnusedTool;

/// Whether a tool is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OfferStatus {
    /// It was accepted with this definition, and is offered.
    Offered,
    /// It was accepted with another definition, and is not offered until it is accepted again.
    Changed,
    /// It was added to a server that was accepted without it, and is not offered until it is accepted.
    New,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportedTool {
    /// The tool's specification as claimed by the server, under its local name.
    pub claimed: ToolSpec,
    /// The server's title for the tool, cleaned for display.
    pub title: Option<String>,
    /// Whether it is offered.
    pub status: OfferStatus,
}

/// What is known about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// The protocol version; empty until the first connection.
    pub protocol: String,
    /// The name and version that the server gives for itself.
    pub program: Option<String>,
    /// Why it is currently not connected, if it is not.
    pub trouble: Option<String>,
    /// Its tools, in the server's order.
    pub tools: Vec<ReportedTool>,
    /// The tools that are not used, with reasons.
    pub unused_tools: Vec<UnusedTool>,
}

impl Shared {
    pub(super) fn report(&self) -> ServerReport {
        let trouble = match &*self.state.borrow() {
            State::Up(_) => None,
            State::Starting => Some("it is not connected yet".to_owned()),
            State::Down(why) | State::Off(why) => Some(why.to_string()),
        };
        let listing = lock(&self.listing);
        let tools = listing.definitions.iter();
        let tools = tools.map(|(definition, status)| ReportedTool {
            claimed: definition.spec.clone(),
            title: definition.title.clone(),
            status: *status,
        });
        ServerReport {
            protocol: listing.version.clone(),
            program: listing.program.clone(),
            trouble,
            tools: tools.collect(),
            unused_tools: listing.unused_tools.clone(),
        }
    }
}
