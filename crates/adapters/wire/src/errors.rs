//! Converts failures of a server to an [`LlmError`] of the right kind that is safe to display and contains no key.

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

/// The maximum number of characters of a server's message that an error repeats.
const MAX_MESSAGE_CHARS: usize = 400;

/// The HTTP client's errors for a proxy with an unsupported scheme, with TLS and without. Server addresses and a
/// configured proxy's address have been checked before.
const UNSUPPORTED_PROXY: [&str; 2] = ["unsupported scheme", "scheme is not http"];

/// Converts what a server reports, or fails to report, to errors: by the server's own [`ErrorRule`]s, then by the
/// common ones. Phrases about a conversation that does not fit the model come first, except with status 429.
///
/// A server's messages are untrusted and may repeat the key, so they are redacted, truncated and made safe to display.
#[derive(Debug)]
pub struct ServerErrors {
    /// The server's address, without anything secret.
    server: String,
    rules: &'static [ErrorRule],
    /// Values that must never be repeated.
    secrets: Vec<Secret>,
    proxy: Option<ProxyInUse>,
}

/// A proxy that connects on behalf of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProxyInUse {
    /// The configured one: scheme, host and port.
    Configured(String),
    /// The one from this variable, unless `NO_PROXY` excludes the server.
    FromVariable(&'static str),
}

impl ServerErrors {
    /// Creates the converter for a server that errors call `server`. An [`Endpoint`](crate::Endpoint) has its own; this
    /// is for tests of a [`ReplyDecoder`](crate::reply::ReplyDecoder).
    pub fn new(
        server: impl Into<String>,
        rules: &'static [ErrorRule],
        secrets: Vec<Secret>,
    ) -> Self {
        Self {
            server: server.into(),
            rules,
            secrets,
            proxy: None,
        }
    }

    /// Sets the proxy on the way to the server.
    pub(crate) fn with_proxy(mut self, proxy: Option<ProxyInUse>) -> Self {
        self.proxy = proxy;
        self
    }

    /// Returns the server's name in errors: scheme, host and port of its address.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Converts the error object inside a reply, or a plain string. The object may have `type`, `code`, `param` and
    /// `message`.
    #[must_use]
    pub fn of_json(&self, error: &Value) -> LlmError {
        Failure::of_error(error).into_error(self)
    }

    /// Makes an external string safe for an error: without secrets, on one line, truncated to 400 characters.
    #[must_use]
    pub fn tidy(&self, text: &str) -> String {
        // Redact before truncating: half a key is a secret, too.
        match self.secrets.as_slice() {
            [] => clean(text, MAX_MESSAGE_CHARS),
            [first, others @ ..] => {
                let redacted = others
                    .iter()
                    .fold(first.redact(text), |text, secret| secret.redact(&text));
                clean(&redacted, MAX_MESSAGE_CHARS)
            }
        }
    }

    /// Returns the error of an exchange without a response.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> LlmError {
        let server = &self.server;
        let cause = self.tidy(&cause(error));
        let said = if UNSUPPORTED_PROXY.iter().any(|words| cause.contains(words)) {
            format!(
                "cannot connect to {server}: {cause}, for the proxy that the environment names (HTTPS_PROXY, HTTP_PROXY or ALL_PROXY); there or in proxy, set an address that begins with http: or https:"
            )
        } else if error.is_connect() || error.is_timeout() {
            let next = next_step(&cause, self.proxy.as_ref(), variable_of_certificates());
            let way = match &self.proxy {
                Some(ProxyInUse::Configured(proxy)) => format!(" through the proxy {proxy}"),
                _ => String::new(),
            };
            format!("cannot connect to {server}{way}: {cause}; {next}")
        } else {
            format!("{server} closed the connection before it answered: {cause}")
        };
        let error = LlmError::new(LlmErrorKind::Connection, said);
        match cause.contains(REFUSED_CERTIFICATE) {
            true => error.with_refused_certificate(),
            false => error,
        }
    }

    /// Returns the error of a server that sent no response head in time.
    pub(crate) fn silent(&self, within: Duration) -> LlmError {
        let said = format!("{} sent nothing for {within:?}", self.server);
        LlmError::new(LlmErrorKind::Timeout, said)
    }

    /// Returns the error of a call that never got its turn: nothing was sent, and the model is not to blame.
    pub(crate) fn busy(&self, within: Duration) -> LlmError {
        let said = format!(
            "the maximum number of concurrent replies from {} (max_concurrent) was reached for {within:?}",
            self.server
        );
        LlmError::new(LlmErrorKind::RateLimited { retry_after: None }, said)
    }
}

/// Part of the TLS library's error for a certificate that is not accepted.
const REFUSED_CERTIFICATE: &str = "peer certificate";

/// Returns the variable that names certificates to use instead of the machine's, if one is set.
pub(crate) fn variable_of_certificates() -> Option<&'static str> {
    let names = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
    names
        .into_iter()
        .find(|name| std::env::var_os(name).is_some())
}

/// Returns what to check when a connection failed, by the HTTP client's error, the proxy, and the
/// [variable](variable_of_certificates) of certificates.
fn next_step(
    cause: &str,
    proxy: Option<&ProxyInUse>,
    certificates: Option<&'static str>,
) -> Cow<'static, str> {
    if cause.contains("CaUsedAsEndEntity") {
        return "the server presents a CA certificate as its own: give it one that is not a CA, such as one that openssl \
                created with `-addext basicConstraints=critical,CA:FALSE`, and name that in ca_file"
            .into();
    }
    if cause.contains("certificate not valid for name") {
        return "base_url must use a name that the certificate is valid for, or the server needs a certificate for that name".into();
    }
    if cause.contains(REFUSED_CERTIFICATE) {
        let trusted = match certificates {
            Some(name) => format!(
                "whether the certificates that {name} names, which replace this machine's, include its issuer"
            ),
            None => "whether this machine trusts its issuer".to_owned(),
        };
        return format!(
            "check this machine's clock, whether the certificate must be renewed, and {trusted} (ca_file can name more \
             issuers)"
        )
        .into();
    }
    if cause.contains("Too many open files") {
        return "this process may open too few files: raise its limit (`ulimit -n`, LimitNOFILE)"
            .into();
    }
    if cause.contains("proxy auth") {
        return "the proxy requires a user name and a password, which are allowed only in the variable HTTPS_PROXY"
            .into();
    }
    if cause.contains("tunnel") {
        return "the proxy refuses the connection, or cannot connect itself".into();
    }
    match proxy {
        Some(ProxyInUse::Configured(_)) => {
            "check that the proxy runs and that its address is right".into()
        }
        Some(ProxyInUse::FromVariable(name)) => format!(
            "check that the server runs and that base_url is right; check the same for the proxy that {name} names, unless NO_PROXY excludes the server"
        )
        .into(),
        None => "check that the server runs and that base_url is right".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_next_step_matches_the_cause() {
        let refused = "Connection refused (os error 111)";
        let configured = ProxyInUse::Configured("http://proxy:3128".to_owned());
        let variable = ProxyInUse::FromVariable("HTTPS_PROXY");
        for (cause, proxy, expected) in [
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
                "base_url must use",
            ),
            ("Too many open files (os error 24)", None, "LimitNOFILE"),
            (refused, None, "base_url is right"),
            (refused, Some(&configured), "that the proxy runs"),
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
            let next = next_step(cause, proxy, None);
            assert!(next.contains(expected), "{cause}: {next}");
        }
        let issuer = "invalid peer certificate: UnknownIssuer";
        let next = next_step(issuer, None, Some("SSL_CERT_FILE"));
        assert!(next.contains("that SSL_CERT_FILE names"), "{next}");
    }
}
