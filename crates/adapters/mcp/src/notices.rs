//! What a user should know about a server, kept until it is fetched.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::definition::UnusedTool;
use crate::text::Secrets;

/// The maximum number of notices that are kept.
const MAX_NOTICES: usize = 20;

/// The maximum number of tools of each kind that a notice names.
const MAX_NAMED: usize = 10;

/// What a user should know about a server. Its text is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerNotice {
    /// The server is not connected.
    NotConnected {
        /// The server's name.
        server: Arc<str>,
        /// Why there is no connection, as text for users.
        why: String,
    },
    /// The server was connected and is being reconnected. Its tools stay offered meanwhile.
    Lost {
        /// The server's name.
        server: Arc<str>,
        /// Why the connection ended, as text for users.
        why: String,
    },
    /// The server violated a rule; what it did was ignored.
    Misbehaves {
        /// The server's name.
        server: Arc<str>,
        /// What the server did.
        what: String,
    },
    /// Some tools are not used.
    UnusedTools {
        /// The server's name.
        server: Arc<str>,
        /// The first of these tools, each with the reason.
        tools: Vec<UnusedTool>,
        /// The total number of these tools.
        count: usize,
    },
    /// Some tools are not offered because they differ from what was accepted.
    NotAccepted {
        /// The server's name.
        server: Arc<str>,
        /// Names of changed tools.
        changed: Vec<String>,
        /// Names of new tools.
        new: Vec<String>,
    },
    /// The accepted definitions cannot be read or stored, so no tool is offered.
    NoPins {
        /// The server's name.
        server: Arc<str>,
        /// Why they cannot be read or stored.
        why: String,
    },
}

impl ServerNotice {
    fn redact(&mut self, secrets: &Secrets) {
        let clean = |text: &mut String| *text = secrets.text(text);
        match self {
            Self::NotConnected { why, .. } | Self::Lost { why, .. } | Self::NoPins { why, .. } => {
                clean(why);
            }
            Self::Misbehaves { what, .. } => clean(what),
            Self::UnusedTools { tools, .. } => tools.iter_mut().for_each(|it| it.redact(secrets)),
            Self::NotAccepted { changed, new, .. } => {
                changed.iter_mut().chain(new).for_each(clean);
            }
        }
    }
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
            Self::Lost { server, why } => write!(
                f,
                "the connection to MCP server {server} was lost and is being re-established: {why}"
            ),
            Self::Misbehaves { server, what } => write!(f, "MCP server {server}: {what}"),
            Self::UnusedTools {
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
                    let names = named(changed);
                    write!(f, " changed these tools since they were accepted: {names}")?;
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
                        named(new)
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
                "MCP server {server}: it is unknown which of its tools were accepted, so none are offered: {why}"
            ),
        }
    }
}

/// Joins names; if there are many, only the first ones.
fn named(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(MAX_NAMED).map(String::as_str).collect();
    let first = first.join(", ");
    match names.len().saturating_sub(MAX_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The destination of a server's notices: the log, immediately, and callers that fetch them. The server's secrets are
/// removed.
#[derive(Debug, Clone)]
pub(crate) struct Notices {
    pub(crate) server: Arc<str>,
    stored: Arc<Mutex<Vec<ServerNotice>>>,
    pub(crate) secrets: Secrets,
}

impl Notices {
    pub(crate) fn new(server: Arc<str>, secrets: Secrets) -> Self {
        Self {
            server,
            stored: Arc::default(),
            secrets,
        }
    }

    /// Reports that the server violated a rule.
    pub(crate) fn misbehaves(&self, what: impl Into<String>) {
        let (server, what) = (Arc::clone(&self.server), what.into());
        self.add(ServerNotice::Misbehaves { server, what });
    }

    /// Logs and stores a notice.
    pub(crate) fn add(&self, mut notice: ServerNotice) {
        notice.redact(&self.secrets);
        tracing::warn!("{notice}");
        let mut notices = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() < MAX_NOTICES && !notices.contains(&notice) {
            notices.push(notice);
        }
    }

    /// Returns the stored notices and removes them.
    pub(crate) fn take(&self) -> Vec<ServerNotice> {
        std::mem::take(&mut *self.stored.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_about_many_tools_names_only_the_first() {
        let names = |many: usize| (1..=many).map(|number| format!("t{number}")).collect();
        let notice = ServerNotice::NotAccepted {
            server: "shop".into(),
            changed: names(2),
            new: names(1_000),
        };
        let told = notice.to_string();
        assert!(told.contains("accepted: t1, t2; it has"), "{told}");
        assert!(told.contains("t9, t10 and 990 more; they"), "{told}");
    }
}
