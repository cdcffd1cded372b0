//! Names that nothing has: reported in one form, whatever kind of thing they were to name.

use anyhow::anyhow;
use neuraxis::brainstem::nearest;

use crate::error::CommandError;
use crate::harmless::one_line;

/// Where the modes are listed.
pub(crate) const LIST_OF_MODES: &str = "`neuraxis config show modes` lists the modes";

/// Returns the error for a name that is not among the known ones. Suggests the known name that was most likely meant;
/// the hint says where the known ones are listed.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    listed: impl Into<String>,
) -> CommandError {
    with_suggestion(what, name, nearest(name, known)).hint(listed)
}

/// Same as [`unknown`], for a name whose suggestion is already known. Adds no hint.
pub(crate) fn with_suggestion(what: &str, name: &str, meant: Option<&str>) -> CommandError {
    let meant = meant.map(|meant| format!(" (did you mean {}?)", one_line(meant)));
    let (name, meant) = (one_line(name), meant.unwrap_or_default());
    CommandError::usage(anyhow!("unknown {what} \"{name}\"{meant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str) -> String {
        let error = unknown("mode", name, ["moderate", "exploratory"], "`x` lists them");
        anstream::adapter::strip_str(&error.render(None)).to_string()
    }

    #[test]
    fn an_unknown_name_is_repeated_harmlessly_with_what_was_meant_and_where_all_are_listed() {
        assert_eq!(
            told("modrate"),
            "error: wrong usage: unknown mode \"modrate\" (did you mean moderate?)\nhint: `x` lists them\n"
        );
        assert_eq!(
            told("\u{1b}[2J"),
            "error: wrong usage: unknown mode \"␛[2J\"\nhint: `x` lists them\n"
        );
    }
}
