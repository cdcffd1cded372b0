//! Finds the first tag of the markup in a text, or an end that may be the beginning of one.

/// What stands on both sides of the name in every tag: the models' own character, and what becomes of it on its way
/// through other programs.
pub(super) const BARS: [char; 3] = ['｜', '|', '‖'];

/// The most bars on one side: some programs double them.
const MAX_BARS: usize = 4;

const NAME: &str = "DSML";

/// What a text has of the markup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagMatch {
    /// Nothing, however it goes on.
    Nothing,
    /// At its end what may be the beginning of a tag, from this place on.
    Perhaps(usize),
    /// A tag that begins at this place.
    Tag(usize),
}

/// Looks for the first tag in a text.
pub(super) fn find(text: &str) -> TagMatch {
    for (at, _) in text.match_indices('<') {
        match opening(text.get(at..).unwrap_or_default()) {
            Opening::Whole(_) => return TagMatch::Tag(at),
            Opening::Begun => return TagMatch::Perhaps(at),
            Opening::None => {}
        }
    }
    TagMatch::Nothing
}

/// What a text begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening<'a> {
    /// The opening of a tag, up to the bars after the markup's name.
    Whole(Tag<'a>),
    /// All that there is of the text may be the opening of a tag.
    Begun,
    /// Something else.
    None,
}

/// The opening of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// It ends what another began.
    pub(super) is_closing: bool,
    /// What follows the first bar after the markup's name.
    pub(super) rest: &'a str,
}

/// Reads the opening of a tag at the beginning of a text.
pub(super) fn opening(text: &str) -> Opening<'_> {
    let Some(rest) = text.strip_prefix('<') else {
        return Opening::None;
    };
    let (is_closing, rest) = match rest.strip_prefix('/') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    // Looks at a few characters only: a text may be nothing but beginnings.
    let bars = rest.chars().take(MAX_BARS + 1);
    let bars = bars.take_while(|letter| BARS.contains(letter)).count();
    if bars > MAX_BARS || (bars == 0 && !rest.is_empty()) {
        return Opening::None;
    }
    let bare = rest.trim_start_matches(BARS);
    if NAME.starts_with(bare) {
        return Opening::Begun;
    }
    let rest = bare.strip_prefix(NAME);
    match rest.and_then(|rest| rest.strip_prefix(BARS)) {
        Some(rest) => Opening::Whole(Tag { is_closing, rest }),
        None => Opening::None,
    }
}
