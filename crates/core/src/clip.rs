//! Texts cut to a length.

/// Cuts a text after so many characters, and shows where it is cut: `…` stands for the rest.
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
