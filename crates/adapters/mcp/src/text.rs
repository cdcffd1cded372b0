//! Untrusted text made safe: bounded, without invisible characters, and without the keys and tokens that were given to
//! its server.

use std::sync::Arc;

use neuraxis_core::is_invisible;
use neuraxis_ports::Secret;
use serde_json::Value;

/// The minimum length in bytes of a secret's line that is redacted on its own: shorter lines occur in ordinary text,
/// and reveal hardly anything.
const SHORTEST_LINE: usize = 20;

/// What must not be shown, whatever a server says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Arc<[Secret]>);

impl Secrets {
    pub(crate) fn new(secrets: Vec<Secret>) -> Self {
        // A private key, for example, may be printed line by line.
        let lines = |secret: &Secret| -> Vec<Secret> {
            let whole = secret.expose();
            let lines = whole.lines().map(str::trim);
            let lines = lines.filter(|it| (SHORTEST_LINE..whole.len()).contains(&it.len()));
            lines.map(Secret::new).collect()
        };
        let lines = secrets.iter().flat_map(lines).collect();
        let secrets = [secrets, lines].concat();
        // A secret may appear escaped within JSON.
        let escaped = |secret: &Secret| {
            let quoted = Value::from(secret.expose()).to_string();
            let inner = quoted.get(1..quoted.len().saturating_sub(1));
            let inner = inner.filter(|inner| *inner != secret.expose());
            inner.map(Secret::new)
        };
        let more: Vec<Secret> = secrets.iter().filter_map(escaped).collect();
        let mut all = [secrets, more].concat();
        // Longest first: one secret may be part of another.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self(all.into())
    }

    /// Returns whether there are no secrets.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a text without the secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let secrets = self.0.iter();
        secrets.fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    /// Returns a value without the secrets, also in member names.
    pub(crate) fn value(&self, value: Value) -> Value {
        if self.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => {
                let members = members.into_iter();
                members
                    .map(|(name, value)| (self.text(&name), self.value(value)))
                    .collect()
            }
            other => other,
        }
    }
}

/// Returns a text without invisible characters and terminal control characters, cut to a number of characters. Line
/// breaks and tabs stay.
pub(crate) fn harmless(text: &str, most: usize) -> String {
    let mut seen = text.chars().filter(|letter| !is_hidden(*letter));
    let mut kept: String = seen.by_ref().take(most).collect();
    if seen.next().is_some() {
        kept.push('…');
    }
    kept
}

/// Like [`harmless`], but on one line.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    harmless(text, most).replace(['\n', '\r', '\t'], " ")
}

fn is_hidden(letter: char) -> bool {
    !matches!(letter, '\n' | '\t') && (letter.is_control() || is_invisible(letter))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_redacted_in_any_place_and_encoding() {
        let secrets = ["k-canary", "k-canary-long", "with \"quotes\""];
        let secrets = Secrets::new(secrets.map(Secret::new).to_vec());
        assert_eq!(
            secrets.text("k-canary-long k-canary"),
            "[redacted] [redacted]"
        );
        let nested = json!({"a k-canary": ["k-canary", 1, {"b": "with \"quotes\""}]});
        let expected = json!({"a [redacted]": ["[redacted]", 1, {"b": "[redacted]"}]});
        assert_eq!(secrets.value(nested.clone()), expected);
        let text = secrets.text(&nested.to_string());
        assert!(
            !text.contains("canary") && !text.contains("quotes"),
            "{text}"
        );
        assert_eq!(Secrets::default().value(nested.clone()), nested);
    }

    #[test]
    fn hidden_characters_are_removed_and_visible_ones_kept() {
        let hidden = "a\u{1b}[2Jb\u{e0041}\u{202e}\u{200b}c\nd\te";
        assert_eq!(harmless(hidden, 100), "a[2Jbc\nd\te");
        assert_eq!(one_line(hidden, 100), "a[2Jbc d e");
        assert_eq!(harmless("Größe 日本 👩", 100), "Größe 日本 👩");
    }

    #[test]
    fn a_long_text_is_cut_with_an_ellipsis() {
        assert_eq!(harmless("abc", 3), "abc");
        assert_eq!(harmless("abcd", 3), "abc…");
    }
}
