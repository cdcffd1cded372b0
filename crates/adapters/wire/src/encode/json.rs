//! Writes JSON without building it first.

/// A JSON text being written.
pub(crate) struct Json<'a>(pub(crate) &'a mut Vec<u8>);

impl Json<'_> {
    /// Writes what is JSON already.
    pub(crate) fn raw(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes what is JSON already.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes a text as a JSON string.
    pub(crate) fn string(&mut self, text: &str) {
        // Writing a text to a vector cannot fail.
        let _ = serde_json::to_writer(&mut *self.0, text);
    }

    /// Writes several texts as one JSON string.
    pub(crate) fn joined<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>) {
        let mut texts = texts.into_iter();
        let first = texts.next().unwrap_or_default();
        match texts.next() {
            None => self.string(first),
            Some(second) => {
                let start = [first, second].into_iter();
                self.string(&start.chain(texts).collect::<String>());
            }
        }
    }

    /// Writes the comma before another item of a list, unless it is the first.
    pub(crate) fn begin_item(&mut self) {
        if self.0.last() != Some(&b'[') {
            self.raw(",");
        }
    }

    /// Writes the beginning of a message: its role and a text as its content.
    pub(crate) fn role_and_text(&mut self, role: &str, text: &str) {
        self.role(role);
        self.string(text);
    }

    /// Writes the beginning of a message, up to its content.
    pub(crate) fn role(&mut self, role: &str) {
        self.raw(r#"{"role":"#);
        self.string(role);
        self.raw(r#","content":"#);
    }
}
