//! The file that a user begins with.

/// Returns the text of a `neuraxis.toml` that sets nothing and explains everything.
#[must_use]
pub const fn template() -> &'static str {
    include_str!("template.toml")
}
