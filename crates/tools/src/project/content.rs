//! Tells text files from binary files.

use std::io::{self, Read, Seek};

/// The mark that some editors write before the first line.
pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The number of bytes of a file that are examined.
const EXAMINED_BYTES: u64 = 8 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Text,
    /// Text of two or more bytes per character, recognized by its byte order mark, as in searches, and by the content
    /// after it.
    Utf16,
    Binary {
        media_type: &'static str,
    },
}

/// Recognizes the content of a file, and rewinds the file.
pub(super) fn examine(file: &mut (impl Read + Seek)) -> io::Result<Content> {
    let mut beginning = Vec::new();
    file.by_ref()
        .take(EXAMINED_BYTES)
        .read_to_end(&mut beginning)?;
    file.rewind()?;
    Ok(recognize(&beginning))
}

/// Recognizes content by the beginning of a file. As in git, a NUL byte makes it binary. So does the signature of a
/// known format if the content is not UTF-8, and so does a UTF-16 byte order mark if the content is not UTF-16.
fn recognize(beginning: &[u8]) -> Content {
    // A character that is cut at the end of the examined part means nothing.
    let is_utf8 = std::str::from_utf8(beginning)
        .err()
        .is_none_or(|error| error.error_len().is_none());
    let has_nul = memchr::memchr(0, beginning).is_some();
    if is_utf8 && !has_nul {
        return Content::Text;
    }
    let unit = unit_of_utf_16(beginning);
    if unit.is_some_and(|unit| is_utf_16(beginning, unit)) {
        return Content::Utf16;
    }
    let format =
        infer::get(beginning).filter(|format| format.matcher_type() != infer::MatcherType::Text);
    match format {
        Some(format) => Content::Binary {
            media_type: format.mime_type(),
        },
        None if has_nul || unit.is_some() => Content::Binary {
            media_type: "application/octet-stream",
        },
        None => Content::Text,
    }
}

/// Returns the function that decodes two bytes to a UTF-16 unit, according to the byte order mark.
fn unit_of_utf_16(beginning: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match beginning {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// Returns whether the units are text: they contain no NUL, which also follows the mark of UTF-32, and hardly any lone
/// surrogates, which other content has in about one of 32 units.
fn is_utf_16(beginning: &[u8], unit: fn([u8; 2]) -> u16) -> bool {
    let (pairs, _) = beginning.as_chunks::<2>();
    let chars: Vec<_> = char::decode_utf16(pairs.iter().copied().map(unit)).collect();
    let broken = chars.iter().filter(|char| char.is_err()).count();
    // A surrogate pair may be cut at the end of the examined part.
    !chars.contains(&Ok('\0')) && broken <= 1 + chars.len() / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(beginning: &[u8]) -> Option<&'static str> {
        match recognize(beginning) {
            Content::Text | Content::Utf16 => None,
            Content::Binary { media_type } => Some(media_type),
        }
    }

    #[test]
    fn known_formats_are_recognized() {
        assert_eq!(binary(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), Some("image/png"));
        assert_eq!(
            binary(b"%PDF-1.7\n\xff\xff\xff\xff"),
            Some("application/pdf")
        );
        assert_eq!(recognize(b"\xff\xfeh\0i\0"), Content::Utf16);
        assert_eq!(recognize(b"\xfe\xff\x4e\x00\x4e\x8c"), Content::Utf16);
        assert_eq!(recognize(b"\xfe\xff\x4e\x8c"), Content::Utf16);
        assert_eq!(
            binary(b"\xff\xfe\0\0h\0\0\0"),
            Some("application/octet-stream")
        );
        assert_eq!(binary(b"abc\0def"), Some("application/octet-stream"));
    }

    #[test]
    fn a_byte_order_mark_alone_does_not_make_a_file_text() {
        let binary_of = |bytes: &[u8]| binary(&[&b"\xff\xfe"[..], bytes].concat());
        let halves = b"\x01\xdc\x02\xdc\x03\xdc";
        for bytes in [&halves[..], b"\x01\x02\0\0\x03\x04"] {
            assert_eq!(binary_of(bytes), Some("application/octet-stream"));
        }
        // Text that is damaged, or cut within a character, is still text.
        for bytes in [&b""[..], b"h\0\x01\xdci\0", b"h\0\x3e\xd8", b"h\0i"] {
            assert_eq!(binary_of(bytes), None);
        }
        let text = [&b"\xff\xfe"[..], &b"h\0".repeat(600), halves].concat();
        assert_eq!(recognize(&text), Content::Utf16);
    }

    #[test]
    fn text_is_not_mistaken_for_a_format_whose_signature_is_letters() {
        assert_eq!(binary(b"BM is how a bitmap begins"), None);
        assert_eq!(binary(b"caf\xe9 in Latin-1"), None);
        assert_eq!(binary(b""), None);
    }

    #[test]
    fn a_character_cut_at_the_end_of_the_sample_does_not_indicate_a_binary_file() {
        assert_eq!(binary("BM and é".as_bytes().split_last().unwrap().1), None);
    }
}
