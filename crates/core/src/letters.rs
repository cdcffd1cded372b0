//! Characters that are not what they look like.

/// Tells whether a character leaves no mark where text is shown, or changes the order in which what follows is read: of no
/// width, of direction, the separators of lines and paragraphs, fillers, and the tags by which words are hidden from people
/// and not from models.
///
/// Control characters are another question ([`char::is_control`]). Neither are the two joiners among these nor the selectors
/// of a glyph's variant: emoji and several scripts are written with them.
///
/// The characters are those that Unicode calls default ignorable (`DerivedCoreProperties.txt`), but for those exceptions, and
/// those of format without a shape of their own.
///
/// ```
/// use neuraxis_core::is_invisible;
///
/// let name = "invoice\u{202e}fdp.exe";
/// assert_eq!(name.replace(is_invisible, ""), "invoicefdp.exe");
/// ```
#[must_use]
pub const fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{16fe4}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d159}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_or_reorders_text_is_told_from_what_is_written_with() {
        let hidden = "\u{ad}\u{200b}\u{200e}\u{2028}\u{202e}\u{2066}\u{feff}\u{e0041}";
        assert!(hidden.chars().all(is_invisible));
        let written = "aß日 \n\u{301}👩\u{200d}👩\u{fe0f}می\u{200c}خواهم";
        assert!(!written.contains(is_invisible));
    }
}
