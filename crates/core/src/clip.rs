//! Truncating strings to a length.

/// Truncates a string to `most` characters and marks the cut: `…` stands for the rest.
///
/// Characters are Unicode scalar values, not what a reader perceives as a character, so a letter may lose the combining
/// accent after it. The display width at a terminal is a separate matter.
///
/// ```
/// use neuraxis_core::clip;
///
/// assert_eq!(clip("a long story", 6), "a long…");
/// assert_eq!(clip("short", 6), "short");
/// ```
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_counts_characters_and_never_splits_one() {
        for (text, most, clipped) in [
            ("", 0, ""),
            ("a", 0, "…"),
            ("äöü", 3, "äöü"),
            ("äöü", 2, "äö…"),
            ("日本語です", 3, "日本語…"),
        ] {
            assert_eq!(clip(text, most), clipped, "{text} after {most}");
        }
    }

    #[test]
    fn a_text_that_fits_is_unchanged() {
        let text = "as it was";
        assert_eq!(clip(text, text.len()), text);
        assert_eq!(clip(text, usize::MAX), text);
    }
}
