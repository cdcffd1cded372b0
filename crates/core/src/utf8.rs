//! The encoding of a text file: only UTF-8 is read, and a file in another encoding is described.

/// The byte order marks of UTF-16.
const UTF_16_MARKS: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// Why the bytes of a file are not a text in UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotUtf8 {
    /// It begins with a byte order mark of UTF-16.
    #[error("it is in UTF-16, not in UTF-8")]
    Utf16,
    /// It contains a zero byte, as text in UTF-16 without a byte order mark does.
    #[error("line {line} contains a zero byte, as UTF-16 does: it is not text in UTF-8")]
    Zero {
        /// The line, from 1.
        line: usize,
    },
    /// It contains other bytes that are not UTF-8.
    #[error("line {line}, column {column} is not UTF-8")]
    Invalid {
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in characters.
        column: usize,
    },
}

impl NotUtf8 {
    /// Returns the encoding whose byte order mark is at the beginning of a file, unless that is UTF-8.
    #[must_use]
    pub fn by_mark(bytes: &[u8]) -> Option<Self> {
        let is_marked = UTF_16_MARKS.iter().any(|mark| bytes.starts_with(mark));
        is_marked.then_some(Self::Utf16)
    }
}

/// Returns the bytes of a file as text, for formats that contain no zero byte, such as TOML and JSON. A byte order mark
/// of UTF-8 remains in the text.
///
/// # Errors
///
/// A [`NotUtf8`] that says what the bytes are instead, and where.
pub fn utf8_text(bytes: Vec<u8>) -> Result<String, NotUtf8> {
    if let Some(other) = NotUtf8::by_mark(&bytes) {
        return Err(other);
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..valid).unwrap_or_default();
        let before = String::from_utf8_lossy(before);
        let line = before.rsplit('\n').next().unwrap_or_default();
        NotUtf8::Invalid {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    })?;
    match text.split_once('\0') {
        None => Ok(text),
        Some((before, _)) => Err(NotUtf8::Zero {
            line: before.matches('\n').count() + 1,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf_8_is_described_with_its_place() {
        let utf_16 =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        for (bytes, expected) in [
            (utf_16("\u{feff}a = 1\n"), NotUtf8::Utf16),
            (vec![0xfe, 0xff, 0, b'a'], NotUtf8::Utf16),
            (utf_16("a = 1\n"), NotUtf8::Zero { line: 1 }),
            (b"a = 1\nb\0".to_vec(), NotUtf8::Zero { line: 2 }),
            (
                "é = 1\nü".bytes().chain([0xe9]).collect(),
                NotUtf8::Invalid { line: 2, column: 2 },
            ),
        ] {
            assert_eq!(utf8_text(bytes), Err(expected));
        }
        assert_eq!(utf8_text(b"\xef\xbb\xbfa".to_vec()).unwrap(), "\u{feff}a");
    }
}
