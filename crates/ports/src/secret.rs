//! A key or another string that must never be shown.

use std::fmt;

/// A string that is sent and never shown: it has no `Display`, and its `Debug` does not reveal it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Replaces a secret in shown text.
const REDACTED: &str = "[redacted]";

/// A string this short is not a key, and replacing it would mangle other words.
const SHORTEST_KEY: usize = 4;

impl Secret {
    /// Creates a secret from a key, without the white space around it, such as the line break of a file.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Creates a secret from a string as it is, including the white space around it, for uses that need it unchanged: a
    /// private key in a variable may need the line break at its end.
    #[must_use]
    pub fn verbatim(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the key. Only the code that sends it may call this.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns a text with this secret replaced: servers repeat keys in their error messages.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let key = self.0.trim();
        if key.len() < SHORTEST_KEY {
            return text.to_owned();
        }
        text.replace(key, REDACTED)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new(" sk-canary-1234\n");
        assert_eq!(secret.expose(), "sk-canary-1234");
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(
            secret.redact("Incorrect API key provided: sk-canary-1234."),
            "Incorrect API key provided: [redacted]."
        );
    }

    #[test]
    fn a_verbatim_secret_is_redacted_without_its_surrounding_whitespace() {
        let secret = Secret::verbatim(" sk-canary-1234\n");
        assert_eq!(secret.expose(), " sk-canary-1234\n");
        assert_eq!(secret.redact("(sk-canary-1234)"), "([redacted])");
    }

    #[test]
    fn an_empty_secret_redacts_nothing() {
        assert_eq!(Secret::new("").redact("no key"), "no key");
    }
}
