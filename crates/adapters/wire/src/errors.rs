//! What went wrong with a server, as an [`LlmError`] of the right kind that is harmless to show and holds no key.

mod clean;
mod failure;
mod retry_after;
mod rules;

use std::borrow::Cow;
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::Secret;
use serde_json::Value;

pub use self::clean::clean;
pub(crate) use self::failure::{Failure, content_type};
pub use self::rules::{ErrorRule, Meaning};
use crate::endpoint::cause;

/// The most characters of a server's own words that an error repeats.
const MAX_WORDS: usize = 400;

/// What the HTTP client says of a proxy that it cannot speak to, with TLS and without. The addresses of servers were looked at
/// before, and so was that of a proxy in a configuration.
const UNSPOKEN_PROXY: [&str; 2] = ["unsupported scheme", "scheme is not http"];

/// Makes errors of what a server says or fails to say: by the server's own rules first, then by those that hold
/// everywhere.
///
/// A server's words are untrusted and may repeat the key, so they are redacted, cut and made harmless on the way.
#[derive(Debug)]
pub struct ServerErrors {
    /// The server's address, without anything secret.
    server: String,
    rules: &'static [ErrorRule],
    /// What must never be repeated.
    secrets: Vec<Secret>,
    between: Option<Between>,
}

/// Which proxy connects in the place of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Between {
    /// The one that the configuration names, by scheme, host and port.
    Proxy(String),
    /// The one of this variable, unless `NO_PROXY` leaves the server out.
    Variable(&'static str),
}

impl ServerErrors {
    /// Makes the errors of a server that is called `server` in them. An [`Endpoint`](crate::Endpoint) has its own; this is
    /// for tests of a [`ReplyDecoder`](crate::reply::ReplyDecoder).
    pub fn new(
        server: impl Into<String>,
        rules: &'static [ErrorRule],
        secrets: Vec<Secret>,
    ) -> Self {
        Self {
            server: server.into(),
            rules,
            secrets,
            between: None,
        }
    }

    /// Says which proxy stands between.
    pub(crate) fn behind(mut self, between: Option<Between>) -> Self {
        self.between = between;
        self
    }

    /// Returns how the server is called: scheme, host and port of its address.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Reads the error object that came inside a reply: with `type`, `code`, `param` and `message`, as far as it has them,
    /// or a mere text.
    #[must_use]
    pub fn of_json(&self, error: &Value) -> LlmError {
        Failure::of_error(error).into_error(self)
    }

    /// Makes a text from outside fit for an error: without secrets, on one line, cut at 400 characters.
    #[must_use]
    pub fn tidy(&self, text: &str) -> String {
        // First redacted, then cut: half a key is a secret, too.
        match self.secrets.as_slice() {
            [] => clean(text, MAX_WORDS),
            [first, others @ ..] => {
                let redacted = others
                    .iter()
                    .fold(first.redact(text), |text, secret| secret.redact(&text));
                clean(&redacted, MAX_WORDS)
            }
        }
    }

    /// The error of an exchange that never got to an answer.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> LlmError {
        let server = &self.server;
        let cause = self.tidy(&cause(error));
        let said = if UNSPOKEN_PROXY.iter().any(|words| cause.contains(words)) {
            format!(
                "cannot connect to {server}: {cause}, of the proxy that the environment names (HTTPS_PROXY, HTTP_PROXY or ALL_PROXY); one that begins with http: or https: is needed, there or as proxy"
            )
        } else if error.is_connect() || error.is_timeout() {
            let next = next_step(&cause, self.between.as_ref());
            let way = match &self.between {
                Some(Between::Proxy(proxy)) => format!(" through the proxy {proxy}"),
                _ => String::new(),
            };
            format!("cannot connect to {server}{way}: {cause}; {next}")
        } else {
            format!("{server} closed the connection before it answered: {cause}")
        };
        LlmError::new(LlmErrorKind::Connection, said)
    }

    /// The error of a server that sent no head of an answer in time.
    pub(crate) fn silent(&self, within: Duration) -> LlmError {
        let said = format!("{} sent nothing for {within:?}", self.server);
        LlmError::new(LlmErrorKind::Timeout, said)
    }

    /// The error of a call that never had its turn: nothing was sent, and the model is not to blame.
    pub(crate) fn busy(&self, within: Duration) -> LlmError {
        let said = format!(
            "as many replies of {} as may come in at once (max_concurrent) did so for {within:?}",
            self.server
        );
        LlmError::new(LlmErrorKind::RateLimited { retry_after: None }, said)
    }
}

/// Says what to look at where no connection came about, by what the HTTP client says of it.
fn next_step(cause: &str, between: Option<&Between>) -> Cow<'static, str> {
    if cause.contains("CaUsedAsEndEntity") {
        return "the server shows the certificate of an authority as its own: give it one that is none, as made with `-addext \
                basicConstraints=critical,CA:FALSE` of openssl, and name that in ca_file"
            .into();
    }
    if cause.contains("certificate not valid for name") {
        return "base_url has to say a name that the certificate is for, or the server needs one for that name".into();
    }
    if cause.contains("peer certificate") {
        return "check this machine's clock, whether the certificate has to be renewed, and whether this machine trusts who signed \
                it (ca_file names further ones)"
            .into();
    }
    if cause.contains("Too many open files") {
        return "this process may open too few files: raise its limit (`ulimit -n`, LimitNOFILE)"
            .into();
    }
    if cause.contains("proxy auth") {
        return "the proxy wants a name and a password, which may stand in the variable HTTPS_PROXY alone"
            .into();
    }
    if cause.contains("tunnel") {
        return "the proxy refuses that, or cannot connect there itself".into();
    }
    match between {
        Some(Between::Proxy(_)) => {
            "check that the proxy runs and that its address is right".into()
        }
        Some(Between::Variable(name)) => format!(
            "check that the server runs and that base_url is right, and so of the proxy that {name} names, unless NO_PROXY leaves the server out"
        )
        .into(),
        None => "check that the server runs and that base_url is right".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_is_about_what_stands_in_the_way() {
        let refused = "Connection refused (os error 111)";
        let proxy = Between::Proxy("http://proxy:3128".to_owned());
        let variable = Between::Variable("HTTPS_PROXY");
        for (cause, between, expected) in [
            (
                "invalid peer certificate: certificate expired",
                None,
                "clock",
            ),
            ("invalid peer certificate: UnknownIssuer", None, "ca_file"),
            (
                "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
                None,
                "CA:FALSE",
            ),
            (
                "invalid peer certificate: certificate not valid for name \"a\"; certificate is only valid for \"b\"",
                None,
                "base_url has to say",
            ),
            ("Too many open files (os error 24)", None, "LimitNOFILE"),
            (refused, None, "base_url is right"),
            (refused, Some(&proxy), "that the proxy runs"),
            (refused, Some(&variable), "the proxy that HTTPS_PROXY names"),
            (
                "tunnel error: unsuccessful",
                Some(&variable),
                "the proxy refuses",
            ),
            (
                "tunnel error: proxy authorization required",
                None,
                "a password",
            ),
        ] {
            let next = next_step(cause, between);
            assert!(next.contains(expected), "{cause}: {next}");
        }
    }
}
