//! Takes secrets out of what is exported. What a secret is, whoever wires the program knows.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Returns a text without what must not leave the process.
type Clean = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Takes secrets out of texts before they are exported: out of names, attributes, events and errors alike. It runs on the
/// thread that sends, never on one that drives runs.
#[derive(Clone)]
pub struct Redact(Arc<Clean>);

impl Redact {
    /// Makes one of a function that returns the text without its secrets, or `None` where it holds none.
    pub fn new(clean: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(clean))
    }

    /// Returns a text without secrets.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        (self.0)(text).map_or(Cow::Borrowed(text), Cow::Owned)
    }
}

impl Default for Redact {
    /// Leaves all texts as they are.
    fn default() -> Self {
        Self::new(|_| None)
    }
}

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redact")
    }
}
