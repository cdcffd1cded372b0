//! Why a server cannot be used.

mod transport;

use std::io;
use std::time::Duration;

use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::{ClientInitializeError, ServiceError};
use serde_json::Value;

use self::transport::TransportFault;
pub(crate) use self::transport::innermost;
use crate::config::ConfigFault;
use crate::text::{Secrets, one_line};

/// The maximum number of characters of a server's message that are repeated.
pub(crate) const MAX_MESSAGE_CHARS: usize = 300;

/// Marks errors that this client creates for unreadable answers. Without it, they would be treated as the server's own.
const UNREAD_MARK: &str = "neuraxis/unreadAnswer";

/// The protocol versions that this client speaks.
const SUPPORTED_VERSIONS: &str = "2024-11-05 to 2026-07-28";

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
        /// The program that was looked up.
        command: String,
        /// The `PATH` that was searched; `None` if there is none, or if the program is given with its folder.
        path: Option<String>,
    },
    /// The program cannot be started.
    #[error("{command:?} cannot be started: {source}")]
    Start {
        /// The program.
        command: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// It ended before it answered.
    #[error("it ended before it answered{}", stderr_suffix(.said))]
    Ended {
        /// The last lines it wrote to its standard error.
        said: String,
    },
    /// It did not answer in time.
    #[error("it did not answer within {within:?}{}", stderr_suffix(.said))]
    Silent {
        /// How long this client waited.
        within: Duration,
        /// The last lines it wrote to its standard error.
        said: String,
    },
    /// Nothing accepts connections at its address.
    #[error("{0}")]
    Away(String),
    /// It speaks only protocol versions that this client does not.
    #[error(
        "it supports none of the protocol versions supported here ({SUPPORTED_VERSIONS}), only: {theirs}"
    )]
    Version {
        /// Its versions.
        theirs: String,
    },
    /// The service requires authentication.
    #[error(
        "it requires a token: set token_env to the variable that holds it, or token_file to a file"
    )]
    Unauthorized,
    /// It rejects the token or the headers that were sent to authenticate. Contains the reason, as text for users.
    #[error("{0}")]
    Refused(String),
    /// Its answer violates the protocol.
    #[error("{0}")]
    Protocol(String),
}

fn where_looked(path: Option<&str>) -> String {
    path.map_or_else(String::new, |path| format!(" in PATH ({path})"))
}

fn stderr_suffix(said: &str) -> String {
    match said.is_empty() {
        true => String::new(),
        false => format!("; its last output was: {said}"),
    }
}

/// Describes the end of a connected server, with the last lines it wrote to its standard error.
pub(crate) fn ended(said: &str) -> String {
    format!("it ended{}", stderr_suffix(said))
}

impl ConnectError {
    /// Returns why a handshake failed. Repeats neither the server's secrets nor addresses, which may contain secrets.
    pub(crate) fn of_handshake(
        error: &ClientInitializeError,
        said: String,
        secrets: &Secrets,
    ) -> Self {
        match error {
            ClientInitializeError::ConnectionClosed(_) => Self::Ended { said },
            ClientInitializeError::NoCompatibleProtocolVersion {
                server_supported, ..
            } => {
                let theirs = server_supported.iter().take(8).map(ToString::to_string);
                let theirs = theirs.collect::<Vec<_>>().join(", ");
                Self::Version {
                    theirs: one_line(&theirs, MAX_MESSAGE_CHARS),
                }
            }
            ClientInitializeError::JsonRpcError(error) => Self::Protocol(refused(error, secrets)),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
                Self::of_handshake(fallback, said, secrets)
            }
            ClientInitializeError::TransportError { error, .. } => {
                Self::of_transport(TransportFault::of(error, secrets), said)
            }
            other => Self::Protocol(format!(
                "its answer is invalid: {}",
                one_line(&secrets.text(&other.to_string()), MAX_MESSAGE_CHARS)
            )),
        }
    }

    /// Returns why a request after the handshake failed.
    pub(crate) fn of_request(error: &ServiceError, said: String, secrets: &Secrets) -> Self {
        match error {
            ServiceError::TransportClosed => Self::Ended { said },
            ServiceError::TransportSend(error) => {
                Self::of_transport(TransportFault::of(error, secrets), said)
            }
            other => Self::Protocol(of_service(other, secrets)),
        }
    }

    fn of_transport(fault: TransportFault, said: String) -> Self {
        match fault {
            // It exited before it had read all that was written to it.
            TransportFault::Ended => Self::Ended { said },
            TransportFault::Unauthorized => Self::Unauthorized,
            TransportFault::Refused(why) => Self::Refused(why),
            TransportFault::Away(why) => Self::Away(why),
            fault => Self::Protocol(fault.description()),
        }
    }

    /// Returns whether the server exited at the first request, as some do that do not know it.
    pub(crate) const fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// Returns whether the server's answer violates the protocol.
    pub(crate) const fn violates_protocol(&self) -> bool {
        matches!(self, Self::Protocol(_))
    }

    /// Combines the errors of two ways of asking, unless they are the same.
    pub(crate) fn and(self, then: Self) -> Self {
        match (self, then) {
            (Self::Protocol(first), Self::Protocol(then)) if first != then => {
                Self::Protocol(format!("{first}; asked in another way: {then}"))
            }
            (_, then) => then,
        }
    }
}

/// Describes a failure on an established connection.
pub(crate) fn of_service(error: &ServiceError, secrets: &Secrets) -> String {
    match error {
        ServiceError::McpError(error) => refused(error, secrets),
        ServiceError::TransportSend(error) => TransportFault::of(error, secrets).description(),
        ServiceError::TransportClosed => "it ended".to_owned(),
        ServiceError::UnexpectedResponse => "its answer does not fit the request".to_owned(),
        other => one_line(&secrets.text(&other.to_string()), MAX_MESSAGE_CHARS),
    }
}

/// Returns whether a request did not arrive, because the server is no longer there.
pub(crate) fn is_disconnected(error: &ServiceError) -> bool {
    matches!(
        transport_fault(error),
        Some(TransportFault::Away(_) | TransportFault::Ended)
    )
}

/// Returns whether a service does not, or no longer, accept this client's credentials.
pub(crate) fn is_refused(error: &ServiceError) -> bool {
    matches!(
        transport_fault(error),
        Some(TransportFault::Unauthorized | TransportFault::Refused(_))
    )
}

/// Returns whether a request was sent but its answer was lost on the way.
pub(crate) fn broke_off(error: &ServiceError) -> bool {
    matches!(transport_fault(error), Some(TransportFault::BrokeOff(_)))
}

/// Returns whether an unreadable answer arrived, so the effect of the request is unknown.
pub(crate) fn is_unread(error: &ServiceError) -> bool {
    match error {
        ServiceError::McpError(error) => is_marked(error),
        ServiceError::UnexpectedResponse => true,
        error => matches!(transport_fault(error), Some(TransportFault::Unread(_))),
    }
}

/// Creates the error that the caller gets for an unreadable answer.
pub(crate) fn unread(fault: String) -> ErrorData {
    ErrorData::new(
        ErrorCode::INTERNAL_ERROR,
        fault,
        Some(Value::from(UNREAD_MARK)),
    )
}

fn is_marked(error: &ErrorData) -> bool {
    error.data.as_ref().and_then(Value::as_str) == Some(UNREAD_MARK)
}

fn transport_fault(error: &ServiceError) -> Option<TransportFault> {
    match error {
        ServiceError::TransportSend(error) => Some(TransportFault::of(error, &Secrets::default())),
        _ => None,
    }
}

fn refused(error: &ErrorData, secrets: &Secrets) -> String {
    // Redact before cutting: a secret that is cut in two is no longer found.
    let message = one_line(&secrets.text(&error.message), MAX_MESSAGE_CHARS);
    match is_marked(error) {
        // The code is not the server's.
        true => message,
        false => format!("{message} (code {})", error.code.0),
    }
}
