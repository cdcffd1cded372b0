//! What is told of a server to the people who configured it.

use std::fmt;
use std::sync::Arc;

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

/// What a user should know of a server. Its text is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerNotice {
    /// It is not connected.
    NotConnected {
        /// The server.
        server: Arc<str>,
        /// Why.
        why: String,
    },
    /// Tools are not used.
    LeftOut {
        /// The server.
        server: Arc<str>,
        /// Which, each with why; the first ones.
        tools: Vec<LeftOut>,
        /// How many in all.
        count: usize,
    },
    /// Tools are not offered, because they are not what was accepted.
    NotAccepted {
        /// The server.
        server: Arc<str>,
        /// Those that changed.
        changed: Vec<String>,
        /// Those that are new.
        new: Vec<String>,
    },
    /// What was accepted cannot be read or kept: no tool is offered.
    NoPins {
        /// The server.
        server: Arc<str>,
        /// Why.
        why: String,
    },
}

impl fmt::Display for ServerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected { server, why } => {
                write!(
                    f,
                    "MCP server {server} is not connected, and its tools are missing: {why}"
                )
            }
            Self::LeftOut {
                server,
                tools,
                count,
            } => {
                write!(f, "MCP server {server}: {count} left out")?;
                for (at, it) in tools.iter().enumerate() {
                    let joint = if at == 0 { ": " } else { "; " };
                    write!(f, "{joint}{} ({})", it.tool, it.why)?;
                }
                Ok(())
            }
            Self::NotAccepted {
                server,
                changed,
                new,
            } => {
                write!(f, "MCP server {server}")?;
                if !changed.is_empty() {
                    let names = changed.join(", ");
                    write!(
                        f,
                        " changed what these tools are since they were accepted: {names}"
                    )?;
                }
                if !new.is_empty() {
                    let joint = if changed.is_empty() {
                        " has"
                    } else {
                        "; it has"
                    };
                    write!(
                        f,
                        "{joint} new tools that were not accepted: {}",
                        new.join(", ")
                    )?;
                }
                write!(
                    f,
                    "; they are not offered. `neuraxis mcp test {server}` shows them, and `neuraxis mcp trust {server}` \
                     accepts them"
                )
            }
            Self::NoPins { server, why } => write!(
                f,
                "MCP server {server}: what was accepted of its tools cannot be known, so that none is offered: {why}"
            ),
        }
    }
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
