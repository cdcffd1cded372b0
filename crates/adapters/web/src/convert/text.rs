//! Turns bytes into text, by the encoding that a document has.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How much of a page is searched for the encoding that it names, as browsers do.
const PRESCAN_BYTES: usize = 1_024;

/// Decodes a document. A mark at its beginning says its encoding, else its content type, else the page itself; else it is
/// UTF-8 if it can be, and Western European, as old pages are, if not. What no letter stands for becomes U+FFFD.
pub(super) fn decode<'a>(bytes: &'a [u8], charset: Option<&str>, is_page: bool) -> Cow<'a, str> {
    let named = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let in_page = || if is_page { named_in_page(bytes) } else { None };
    let encoding = named.or_else(in_page).unwrap_or_else(|| {
        if std::str::from_utf8(bytes).is_ok() {
            UTF_8
        } else {
            WINDOWS_1252
        }
    });
    encoding.decode(bytes).0
}

/// Finds `charset=…` in the beginning of a page.
fn named_in_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let begin = bytes.get(..PRESCAN_BYTES.min(bytes.len()))?;
    let begin = String::from_utf8_lossy(begin).to_ascii_lowercase();
    let mut rest = begin.as_str();
    while let Some((_, after)) = rest.split_once("charset") {
        rest = after;
        let Some(value) = after.trim_start().strip_prefix('=') else {
            continue;
        };
        let value = value.trim_start().trim_start_matches(['"', '\'']);
        let end =
            value.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_:.".contains(letter)));
        let label = value.get(..end.unwrap_or(value.len())).unwrap_or_default();
        if let Some(encoding) = Encoding::for_label(label.as_bytes()) {
            // A page that can be read this far is none of UTF-16.
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
    fn the_encoding_that_a_document_names_is_kept_to() {
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
        assert_eq!(decode(b"caf\xe9", None, false), "café");
        assert_eq!(decode("café".as_bytes(), None, false), "café");
        assert_eq!(decode(b"caf\xe9", Some("utf-8"), false), "caf\u{fffd}");
        assert_eq!(decode(b"a", Some("no-such"), false), "a");
    }
}
