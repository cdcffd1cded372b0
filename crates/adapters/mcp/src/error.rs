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

/// The most characters of what a server says that are repeated.
pub(crate) const MAX_SAID: usize = 300;

/// Marks the errors that are made here of answers that cannot be read: without it they would count as the server's own.
const UNREAD: &str = "neuraxis/unreadAnswer";

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
        /// The `PATH` that it was looked for in; `None` without one, and where it is named with its folder.
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
    /// Nobody takes a connection at its address.
    #[error("{0}")]
    Away(String),
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
    /// It does not take the token or the headers by which it is to know who asks; why, for people.
    #[error("{0}")]
    Refused(String),
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

/// Says that a server which was connected is gone, with the last it wrote to its standard error.
pub(crate) fn ended(said: &str) -> String {
    format!("it ended{}", last_words(said))
}

impl ConnectError {
    /// Tells why a handshake failed. Neither the secrets of the server are repeated, nor addresses, which may hold some.
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
                    theirs: one_line(&theirs, MAX_SAID),
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
                "it answered what cannot be: {}",
                one_line(&secrets.text(&other.to_string()), MAX_SAID)
            )),
        }
    }

    /// Tells why a request after the handshake failed.
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
            // It is gone before all was written that it was to read.
            TransportFault::Ended => Self::Ended { said },
            TransportFault::Unauthorized => Self::Unauthorized,
            TransportFault::Refused(why) => Self::Refused(why),
            TransportFault::Away(why) => Self::Away(why),
            fault => Self::Protocol(fault.words()),
        }
    }

    /// Tells whether the server went away at the first thing it was asked, as some do that do not know the question.
    pub(crate) const fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// Tells whether the server answered something else than the protocol lets it.
    pub(crate) const fn is_odd(&self) -> bool {
        matches!(self, Self::Protocol(_))
    }

    /// Joins why it could not be asked in one way and then in another, unless that is the same.
    pub(crate) fn and(self, then: Self) -> Self {
        match (self, then) {
            (Self::Protocol(first), Self::Protocol(then)) if first != then => {
                Self::Protocol(format!("{first}; asked in another way: {then}"))
            }
            (_, then) => then,
        }
    }
}

/// Says what failed in the middle of a connection.
pub(crate) fn of_service(error: &ServiceError, secrets: &Secrets) -> String {
    match error {
        ServiceError::McpError(error) => refused(error, secrets),
        ServiceError::TransportSend(error) => TransportFault::of(error, secrets).words(),
        ServiceError::TransportClosed => "it ended".to_owned(),
        ServiceError::UnexpectedResponse => "it answered something else than was asked".to_owned(),
        other => one_line(&secrets.text(&other.to_string()), MAX_SAID),
    }
}

/// Tells whether a request reached nobody, because nobody is there any more.
pub(crate) fn is_away(error: &ServiceError) -> bool {
    matches!(
        transport_fault(error),
        Some(TransportFault::Away(_) | TransportFault::Ended)
    )
}

/// Tells whether a service does not know who asks, or not any more.
pub(crate) fn is_refused(error: &ServiceError) -> bool {
    matches!(
        transport_fault(error),
        Some(TransportFault::Unauthorized | TransportFault::Refused(_))
    )
}

/// Tells whether a request was sent, and its answer was lost on the way.
pub(crate) fn broke_off(error: &ServiceError) -> bool {
    matches!(transport_fault(error), Some(TransportFault::BrokeOff(_)))
}

/// Tells whether an answer came that cannot be read, so that it is not known what the request did.
pub(crate) fn is_unread(error: &ServiceError) -> bool {
    match error {
        ServiceError::McpError(error) => is_marked(error),
        ServiceError::UnexpectedResponse => true,
        error => matches!(transport_fault(error), Some(TransportFault::Unread(_))),
    }
}

/// Makes an error of an answer that cannot be read, for whoever waits for it.
pub(crate) fn unread(fault: String) -> ErrorData {
    ErrorData::new(ErrorCode::INTERNAL_ERROR, fault, Some(Value::from(UNREAD)))
}

fn is_marked(error: &ErrorData) -> bool {
    error.data.as_ref().and_then(Value::as_str) == Some(UNREAD)
}

fn transport_fault(error: &ServiceError) -> Option<TransportFault> {
    match error {
        ServiceError::TransportSend(error) => Some(TransportFault::of(error, &Secrets::default())),
        _ => None,
    }
}

fn refused(error: &ErrorData, secrets: &Secrets) -> String {
    // Before it is cut: of what is cut in two nothing is found any more.
    let message = one_line(&secrets.text(&error.message), MAX_SAID);
    match is_marked(error) {
        // The code is none of the server's.
        true => message,
        false => format!("{message} (code {})", error.code.0),
    }
}
