//! Joins characters that a server split in two.
//!
//! JSON escapes a character such as an emoji as two halves, `\ud83e\udd80`. Servers that split text by UTF-16 units, as
//! JavaScript programs do, send the first half at the end of one string and the second at the beginning of the next. No
//! reader accepts either as JSON. This module joins the halves of one stream; a lone half becomes the replacement
//! character.

use std::borrow::Cow;

use memchr::memchr;

/// Replaces half a character whose other half never arrives.
const MISSING: &str = "\\ufffd";

/// The bytes of an escape such as `\ud83e`.
const ESCAPE: usize = 6;

/// Joins the split characters of one stream of JSON texts.
#[derive(Debug, Default)]
pub(crate) struct SurrogateJoiner {
    /// The escape that ended a string without its second half.
    first: Option<String>,
}

impl SurrogateJoiner {
    /// Returns the text without lone halves; for nearly all texts, that is the text itself.
    pub(crate) fn join<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        let has_escapes = memchr(b'\\', json.as_bytes()).is_some();
        if !has_escapes || !(json.contains("\\ud") || json.contains("\\uD")) {
            return Cow::Borrowed(json);
        }
        let mut whole = String::with_capacity(json.len() + ESCAPE);
        let mut rest = json;
        while let Some(at) = rest.find('\\') {
            whole.push_str(rest.get(..at).unwrap_or_default());
            let escape = rest.get(at..).unwrap_or_default();
            let taken = self.append_escape(escape, &mut whole);
            rest = escape.get(taken..).unwrap_or_default();
        }
        whole.push_str(rest);
        Cow::Owned(whole)
    }

    /// Appends the escape at the beginning of a string to `whole`, and returns its length in bytes.
    fn append_escape(&mut self, text: &str, whole: &mut String) -> usize {
        let after = text.get(ESCAPE..).unwrap_or_default();
        let escape = text.get(..ESCAPE).unwrap_or(text);
        match (unit(text), unit(after)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                let pair = text.get(..2 * ESCAPE).unwrap_or(text);
                whole.push_str(pair);
                pair.len()
            }
            (Some(0xd800..=0xdbff), _) => {
                match after.starts_with('"') {
                    true => self.first = Some(escape.to_owned()),
                    false => whole.push_str(MISSING),
                }
                ESCAPE
            }
            (Some(0xdc00..=0xdfff), _) => {
                let begins = whole.ends_with('"');
                match self.first.take().filter(|_| begins) {
                    Some(first) => {
                        whole.push_str(&first);
                        whole.push_str(escape);
                    }
                    None => whole.push_str(MISSING),
                }
                ESCAPE
            }
            (Some(_), _) => {
                whole.push_str(escape);
                ESCAPE
            }
            // An escape of two characters, such as `\\` or `\"`.
            (None, _) => {
                let length = text.chars().take(2).map(char::len_utf8).sum();
                whole.push_str(text.get(..length).unwrap_or_default());
                length
            }
        }
    }
}

/// Returns the code unit of the escape at the beginning of a string, if there is one.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> String {
        let mut halves = SurrogateJoiner::default();
        let strings = texts.iter().map(|text| {
            let whole = halves.join(text);
            serde_json::from_str::<Vec<String>>(&whole)
                .unwrap()
                .concat()
        });
        strings.collect()
    }

    #[test]
    fn a_split_surrogate_pair_is_joined() {
        assert_eq!(read(&[r#"["a \ud83e"]"#, r#"["\udd80 b"]"#]), "a 🦀 b");
        assert_eq!(read(&[r#"["\uD83E"]"#, r#"["x"]"#, r#"["\uDD80"]"#]), "x🦀");
        assert_eq!(read(&[r#"["\ud83e","\udd80"]"#]), "🦀");
    }

    #[test]
    fn an_unpaired_surrogate_is_replaced_or_dropped() {
        assert_eq!(read(&[r#"["a\ud83eb"]"#]), "a\u{fffd}b");
        assert_eq!(read(&[r#"["a\udd80b"]"#]), "a\u{fffd}b");
        assert_eq!(read(&[r#"["a\ud83e"]"#, r#"["b\udd80"]"#]), "ab\u{fffd}");
    }

    #[test]
    fn other_json_is_unchanged() {
        for json in [
            r#"["plain"]"#,
            r#"["\ud83e\udd80 \u00e4 \\ud83e \" \n"]"#,
            r#"["\\\\ud83e"]"#,
            r#"["\\ude"]"#,
        ] {
            assert_eq!(SurrogateJoiner::default().join(json), json);
        }
        assert_eq!(SurrogateJoiner::default().join(r#"["\ud8"#), r#"["\ud8"#);
    }
}
