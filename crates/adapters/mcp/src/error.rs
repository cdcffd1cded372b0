//! Why a server cannot be used.

use std::io;
use std::time::Duration;

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};

use crate::config::ConfigFault;
use crate::text::one_line;

/// The most characters of what a server says that are repeated.
pub(crate) const MAX_SAID: usize = 300;

/// The protocol versions that this client speaks.
const SPOKEN: &str = "2024-11-05 to 2026-07-28";

/// Why a server is not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Its configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigFault),
    /// There is no such program.
    #[error("there is no program {command:?}{}", where_looked(.path.as_deref()))]
    NoProgram {
        /// What was looked for.
        command: String,
        /// Where it was looked for.
        path: Option<String>,
    },
    /// The program cannot be started.
    #[error("{command:?} cannot be started: {source}")]
    Start {
        /// The program.
        command: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// It ended before it answered.
    #[error("it ended before it answered{}", last_words(.said))]
    Ended {
        /// The last it wrote to its standard error.
        said: String,
    },
    /// It did not answer in time.
    #[error("it did not answer within {within:?}{}", last_words(.said))]
    Silent {
        /// How long was waited.
        within: Duration,
        /// The last it wrote to its standard error.
        said: String,
    },
    /// It speaks versions of the protocol that are not spoken here.
    #[error("it speaks none of the protocol versions spoken here ({SPOKEN}), but: {theirs}")]
    Version {
        /// Its versions.
        theirs: String,
    },
    /// It wants to know who asks.
    #[error(
        "it wants a token: name the variable that holds it in token_env, or a file in token_file"
    )]
    Unauthorized,
    /// It answered what cannot be.
    #[error("{0}")]
    Protocol(String),
}

fn where_looked(path: Option<&str>) -> String {
    path.map_or_else(String::new, |path| format!(" in PATH ({path})"))
}

fn last_words(said: &str) -> String {
    match said.is_empty() {
        true => String::new(),
        false => format!("; its last words were: {said}"),
    }
}

impl ConnectError {
    /// Tells why a handshake failed. Addresses, which may hold secrets, are not repeated.
    pub(crate) fn of_handshake(error: &ClientInitializeError, said: String) -> Self {
        if error.is_authorization_required() {
            return Self::Unauthorized;
        }
        match error {
            ClientInitializeError::ConnectionClosed(_) => Self::Ended { said },
            ClientInitializeError::NoCompatibleProtocolVersion {
                server_supported, ..
            } => {
                let theirs = server_supported.iter().take(8).map(ToString::to_string);
                let theirs = theirs.collect::<Vec<_>>().join(", ");
                Self::Version {
                    theirs: one_line(&theirs, MAX_SAID),
                }
            }
            ClientInitializeError::JsonRpcError(error) => Self::Protocol(refused(error)),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
                Self::of_handshake(fallback, said)
            }
            ClientInitializeError::TransportError { error, .. } => {
                Self::Protocol(format!("it cannot be reached: {}", without_address(error)))
            }
            other => Self::Protocol(format!(
                "it answered what cannot be: {}",
                one_line(&other.to_string(), MAX_SAID)
            )),
        }
    }

    /// Tells why a request after the handshake failed.
    pub(crate) fn of_request(error: &ServiceError, said: String) -> Self {
        match error {
            ServiceError::TransportClosed => Self::Ended { said },
            other => Self::Protocol(of_service(other)),
        }
    }

    /// Tells whether the server went away at the first thing it was asked, as some do that do not know the question.
    pub(crate) const fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}

/// Says what failed in the middle of a connection.
pub(crate) fn of_service(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => refused(error),
        ServiceError::TransportSend(error) => {
            format!("it cannot be reached: {}", without_address(error))
        }
        ServiceError::TransportClosed => "it ended".to_owned(),
        ServiceError::UnexpectedResponse => "it answered something else than was asked".to_owned(),
        other => one_line(&other.to_string(), MAX_SAID),
    }
}

fn refused(error: &ErrorData) -> String {
    format!(
        "{} (code {})",
        one_line(&error.message, MAX_SAID),
        error.code.0
    )
}

/// Returns the causes of an error without the addresses in them, whose path and query may hold secrets.
fn without_address(error: &(dyn std::error::Error + 'static)) -> String {
    let mut causes = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let words = text.split_whitespace();
        let words = words.map(|word| {
            if word.contains("://") {
                "(address)"
            } else {
                word
            }
        });
        let text = words.collect::<Vec<_>>().join(" ");
        // What wraps another error often repeats it.
        if !causes
            .last()
            .is_some_and(|before: &String| before.contains(&text))
        {
            causes.push(text);
        }
        next = error.source();
    }
    one_line(&causes.join(": "), MAX_SAID)
}
