//! Converts bytes to text, using the document's encoding.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// The number of bytes in which a page's encoding declaration is searched, as in browsers.
const PRESCAN_BYTES: usize = 1_024;

/// Decodes a document. Its encoding is the first of these: the byte order mark, the content type, the XML declaration,
/// the page's own declaration. Without any of them, it is UTF-8 if the bytes are valid UTF-8, and otherwise Western
/// European, as in old pages. Invalid bytes become U+FFFD.
pub(super) fn decode<'a>(bytes: &'a [u8], charset: Option<&str>, is_page: bool) -> Cow<'a, str> {
    let named = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let begin = bytes.get(..PRESCAN_BYTES.min(bytes.len()));
    let begin = String::from_utf8_lossy(begin.unwrap_or_default()).to_ascii_lowercase();
    let in_page = || {
        if is_page {
            named_behind("charset", &begin)
        } else {
            None
        }
    };
    let declared = || named_behind("encoding", declaration(&begin)?);
    let encoding = named.or_else(declared).or_else(in_page).unwrap_or_else(|| {
        if std::str::from_utf8(bytes).is_ok() {
            UTF_8
        } else {
            WINDOWS_1252
        }
    });
    encoding.decode(bytes).0
}

/// Returns the content of the XML declaration at the start of a document.
fn declaration(begin: &str) -> Option<&str> {
    let (said, _) = begin.strip_prefix("<?xml")?.split_once("?>")?;
    Some(said)
}

/// Finds the encoding after `charset=`, or after another given word.
fn named_behind(word: &str, begin: &str) -> Option<&'static Encoding> {
    let mut rest = begin;
    while let Some((_, after)) = rest.split_once(word) {
        rest = after;
        let Some(value) = after.trim_start().strip_prefix('=') else {
            continue;
        };
        let value = value.trim_start().trim_start_matches(['"', '\'']);
        let end =
            value.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_:.".contains(letter)));
        let label = value.get(..end.unwrap_or(value.len())).unwrap_or_default();
        if let Some(encoding) = Encoding::for_label(label.as_bytes()) {
            // A page that could be read up to here is not UTF-16.
            let is_wide = encoding.name().starts_with("UTF-16");
            return Some(if is_wide { UTF_8 } else { encoding });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_encoding_of_a_document_is_used() {
        let cyrillic = b"<meta charset=windows-1251>\xcf\xf0\xe8\xe2\xe5\xf2";
        assert!(decode(cyrillic, None, true).ends_with("Привет"));
        assert!(decode(cyrillic, Some("koi8-r"), true).ends_with("оПХБЕР"));
        let http_equiv =
            b"<META http-equiv=Content-Type content='text/html; charset=Shift_JIS'>\x82\xa0";
        assert!(decode(http_equiv, None, true).ends_with('あ'));
        assert_eq!(
            decode(b"\xff\xfea\0", Some("utf-8"), false),
            "a",
            "the mark is stronger"
        );
        let feed = b"<?xml version='1.0' encoding=\"windows-1251\"?><rss>\xcf\xf0\xe8\xe2\xe5\xf2";
        for is_page in [true, false] {
            assert!(decode(feed, None, is_page).ends_with("Привет"));
            assert!(decode(feed, Some("koi8-r"), is_page).ends_with("оПХБЕР"));
        }
        let quoted = b"encoding=\"koi8-r\" caf\xe9";
        assert!(
            decode(quoted, None, false).ends_with("café"),
            "no declaration"
        );
        assert_eq!(decode(b"caf\xe9", None, false), "café");
        assert_eq!(decode("café".as_bytes(), None, false), "café");
        assert_eq!(decode(b"caf\xe9", Some("utf-8"), false), "caf\u{fffd}");
        assert_eq!(decode(b"a", Some("no-such"), false), "a");
    }
}
