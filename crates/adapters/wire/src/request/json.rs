//! Writes JSON without building a tree first.

/// A JSON text being appended to a byte vector. Nothing checks that the pieces form valid JSON: tests must do that.
#[derive(Debug)]
pub struct JsonWriter<'a>(&'a mut Vec<u8>);

impl<'a> JsonWriter<'a> {
    /// Appends to the existing bytes.
    pub const fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Writes text that is already JSON.
    pub fn raw(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes bytes that are already JSON.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes a string as JSON.
    pub fn string(&mut self, text: &str) {
        // Writing a string to a vector cannot fail.
        let _ = serde_json::to_writer(&mut *self.0, text);
    }

    /// Writes several strings as one JSON string.
    pub fn joined<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>) {
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
    pub fn begin_item(&mut self) {
        if self.0.last() != Some(&b'[') {
            self.raw(",");
        }
    }

    /// Writes the beginning of a message: its role, and a string as its content.
    pub fn role_and_text(&mut self, role: &str, text: &str) {
        self.role(role);
        self.string(text);
    }

    /// Writes the beginning of a message, up to its content.
    pub fn role(&mut self, role: &str) {
        self.raw(r#"{"role":"#);
        self.string(role);
        self.raw(r#","content":"#);
    }
}
