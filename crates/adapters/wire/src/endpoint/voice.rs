//! Tells what went wrong with a server.

use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};

use crate::endpoint::address::cause;
use crate::failure::{ErrorRule, clean};
use crate::secret::Secret;

/// The most characters of a server's own words that an error repeats.
const MAX_WORDS: usize = 400;

/// What is needed to tell what went wrong with a server.
#[derive(Debug)]
pub(crate) struct Voice {
    /// The server's address, without anything secret.
    pub(crate) server: String,
    pub(crate) errors: &'static [ErrorRule],
    /// What must never be repeated.
    pub(crate) secrets: Vec<Secret>,
}

impl Voice {
    /// The error of an exchange that never got to an answer.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> LlmError {
        let server = &self.server;
        let cause = self.tidy(&cause(error));
        let said = if error.is_connect() || error.is_timeout() {
            format!(
                "cannot connect to {server}: {cause}; check that the server runs and that base_url is right"
            )
        } else {
            format!("{server} closed the connection before it answered: {cause}")
        };
        LlmError::new(LlmErrorKind::Connection, said)
    }

    pub(super) fn silent(&self, within: Duration) -> LlmError {
        let said = format!("{} sent nothing for {within:?}", self.server);
        LlmError::new(LlmErrorKind::Timeout, said)
    }

    /// The error of a call that never had its turn.
    pub(super) fn busy(&self, within: Duration) -> LlmError {
        let said = format!(
            "as many replies of {} as may come in at once (max_concurrent) did so for {within:?}",
            self.server
        );
        LlmError::new(LlmErrorKind::Timeout, said)
    }

    /// Makes a text from outside fit for an error.
    pub(crate) fn tidy(&self, text: &str) -> String {
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
}
