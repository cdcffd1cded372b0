//! Failures on the way to a server: the server is gone, or something else answers at its address.

use std::error::Error;
use std::io;

use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::MAX_MESSAGE_CHARS;
use crate::text::{Secrets, one_line};

/// A failure on the way to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TransportFault {
    /// The started program no longer reads its input.
    Ended,
    /// Nothing accepts connections at the address. Contains the reason, as text for users.
    Away(String),
    /// A request was sent, but no answer or only part of one arrived. Contains the reason, as text for users.
    BrokeOff(String),
    /// The answer to a request cannot be read. Contains the fault, as text for users.
    Unread(String),
    /// What is at the address does not answer as a server does. Contains the answer, as text for users.
    Answers(String),
    /// A token is missing.
    Unauthorized,
    /// The credentials that were sent are rejected. Contains the reason, as text for users.
    Refused(String),
}

impl TransportFault {
    pub(super) fn of(error: &DynamicTransportError, secrets: &Secrets) -> Self {
        let error: &(dyn Error + 'static) = error.error.as_ref();
        if error.is::<io::Error>() {
            return Self::Ended;
        }
        match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(error) => Self::of_http(error, secrets),
            None => Self::Answers(format!("its connection failed: {}", innermost(error))),
        }
    }

    fn of_http(error: &StreamableHttpError<reqwest::Error>, secrets: &Secrets) -> Self {
        // Redact before cutting: a secret that is cut in two is no longer found.
        let cut = |what: String| one_line(&secrets.text(&what), MAX_MESSAGE_CHARS);
        let answers = |what: String| Self::Answers(cut(what));
        let unread = |what: String| Self::Unread(cut(what));
        match error {
            StreamableHttpError::Client(error) => Self::of_client(error),
            StreamableHttpError::Io(error) => Self::BrokeOff(no_answer(error)),
            // No credentials are configured.
            StreamableHttpError::AuthRequired(_) if secrets.is_empty() => Self::Unauthorized,
            StreamableHttpError::AuthRequired(error) => Self::Refused(cut(with_reason(
                "it rejects the token that it is sent",
                &error.www_authenticate_header,
            ))),
            StreamableHttpError::InsufficientScope(error) => {
                let what = match secrets.is_empty() {
                    true => "it does not allow that without a token",
                    false => "it does not allow that with this token",
                };
                answers(with_reason(what, &error.www_authenticate_header))
            }
            StreamableHttpError::HttpStatus(error) => {
                let said = format!("it answered with status {}", error.status);
                match error.status {
                    // A proxy also answers this way in place of a service that received the request and is slow.
                    500.. => unread(said),
                    _ => answers(said),
                }
            }
            StreamableHttpError::UnexpectedServerResponse(said) => {
                match said.strip_prefix("HTTP ") {
                    // Not every service that requires authentication says which kind.
                    Some(status) if status.starts_with("401") => match secrets.is_empty() {
                        true => Self::Unauthorized,
                        false => Self::Refused(cut(format!(
                            "it rejects the token that it is sent: {}",
                            of_status(&without_addresses(status))
                        ))),
                    },
                    Some(status) => answers(of_status(&without_addresses(status))),
                    None => unread(format!(
                        "its answer is not a message of the protocol: {}",
                        without_addresses(said)
                    )),
                }
            }
            StreamableHttpError::UnexpectedContentType(found) => unread(match found {
                Some(found) => format!(
                    "it answered with content type {found:?} instead of a message of the protocol"
                ),
                None => "it answered without a content type, and without a message of the protocol"
                    .to_owned(),
            }),
            StreamableHttpError::ResponseBodyTooLarge { max_size } => {
                unread(format!("its answer has more than {max_size} bytes"))
            }
            StreamableHttpError::Deserialize(error) => unread(format!(
                "its answer is not a message of the protocol: {error}"
            )),
            StreamableHttpError::Sse(error) => {
                unread(format!("its event stream broke off: {}", innermost(error)))
            }
            StreamableHttpError::UnexpectedEndOfStream => {
                unread("its answer ended too early".to_owned())
            }
            StreamableHttpError::SessionExpired | StreamableHttpError::SessionRecoveryTimeout => {
                answers("it no longer knows the session".to_owned())
            }
            StreamableHttpError::TransportChannelClosed => {
                answers("the connection to it ended".to_owned())
            }
            other => answers(format!(
                "its connection failed: {}",
                without_addresses(&other.to_string())
            )),
        }
    }

    fn of_client(error: &reqwest::Error) -> Self {
        // Only if no connection was established is it certain that nothing was sent.
        if error.is_connect() && error.is_timeout() {
            Self::Away("it does not answer in time".to_owned())
        } else if error.is_connect() {
            Self::Away(cannot_be_reached(error))
        } else if error.is_body() || error.is_decode() {
            Self::BrokeOff(format!("its answer broke off: {}", innermost(error)))
        } else if let Some(status) = error.status() {
            Self::Answers(format!("it answered with status {}", status.as_u16()))
        } else {
            Self::BrokeOff(no_answer(error))
        }
    }

    /// Returns a short description.
    pub(super) fn description(&self) -> String {
        match self {
            Self::Ended => "it ended".to_owned(),
            Self::Away(why)
            | Self::BrokeOff(why)
            | Self::Unread(why)
            | Self::Answers(why)
            | Self::Refused(why) => why.clone(),
            Self::Unauthorized => "it requires a token".to_owned(),
        }
    }
}

/// Describes an error status and the text after it, with advice for statuses that a wrong address causes.
fn of_status(status: &str) -> String {
    let (status, text) = status.split_once(':').unwrap_or((status, ""));
    let (status, text) = (status.trim(), text.trim());
    let hint = match status.split(' ').next() {
        Some("301" | "302" | "303" | "307" | "308") => {
            " (redirects are not followed: configure the target address, which often differs only by a trailing slash)"
        }
        Some("405") => {
            " (it accepts no messages there; HTTP with SSE, which streamable HTTP replaced, is not supported here)"
        }
        _ => "",
    };
    // Many servers repeat their status in the text.
    let text = match text.is_empty() || status.ends_with(text) {
        true => String::new(),
        false => format!(": {text}"),
    };
    format!("it answered with status {status}{hint}{text}")
}

/// Adds the reason that a service gives for refusing a request, if it follows RFC 6750.
fn with_reason(what: &str, challenge: &str) -> String {
    let said = |name: &str| {
        let (_, behind) = challenge.split_once(&format!("{name}=\""))?;
        behind.split('"').next().filter(|said| !said.is_empty())
    };
    match said("error_description").or_else(|| said("error")) {
        Some(said) => format!("{what}: {said}"),
        None => what.to_owned(),
    }
}

fn cannot_be_reached(error: &(dyn Error + 'static)) -> String {
    let why = innermost(error);
    let trusted = match why.contains("peer certificate") {
        true => " (set SSL_CERT_FILE to a file of trusted certificates)",
        false => "",
    };
    format!("it cannot be reached: {why}{trusted}")
}

fn no_answer(error: &(dyn Error + 'static)) -> String {
    format!("no answer arrived: {}", innermost(error))
}

/// Returns the innermost cause. The errors around it name the address, whose path and query may contain secrets.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    one_line(&without_addresses(&cause.to_string()), MAX_MESSAGE_CHARS)
}

fn without_addresses(text: &str) -> String {
    let words = text.split_whitespace();
    let words = words.map(|word| match word.contains("://") {
        true => "(address)",
        false => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_repeat_the_address() {
        let text = "for url (http://127.0.0.1/?key=canary) it is";
        assert_eq!(without_addresses(text), "for url (address) it is");
    }

    #[test]
    fn a_status_is_reported_once_with_a_hint_for_wrong_addresses() {
        assert_eq!(
            of_status("404 Not Found: Not Found"),
            "it answered with status 404 Not Found"
        );
        let redirect = of_status("307 Temporary Redirect:");
        assert!(redirect.contains("307 Temporary Redirect (redirects are not followed"));
        assert!(redirect.ends_with(')'), "{redirect}");
        let old = of_status("405 Method Not Allowed: Method Not Allowed");
        assert!(old.contains("HTTP with SSE") && old.ends_with(')'), "{old}");
    }

    #[test]
    fn http_faults_are_described_in_plain_words() {
        let faults: [StreamableHttpError<reqwest::Error>; 4] = [
            StreamableHttpError::UnexpectedServerResponse("HTTP 404 Not Found: gone".into()),
            StreamableHttpError::UnexpectedContentType(Some("text/html".to_owned())),
            StreamableHttpError::UnexpectedEndOfStream,
            StreamableHttpError::TransportChannelClosed,
        ];
        let said =
            faults.map(|fault| TransportFault::of_http(&fault, &Secrets::default()).description());
        assert_eq!(
            said,
            [
                "it answered with status 404 Not Found: gone",
                "it answered with content type \"text/html\" instead of a message of the protocol",
                "its answer ended too early",
                "the connection to it ended",
            ]
        );
    }
}
