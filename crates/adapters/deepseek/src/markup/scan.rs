//! Finds the first tag of the markup in a text, or a trailing part that may be the start of one.

/// The characters that surround the name in every tag: the one the models use, and those that other programs replace it
/// with.
pub(super) const BARS: [char; 3] = ['｜', '|', '‖'];

/// The maximum number of bars on one side: some programs double them.
const MAX_BARS: usize = 4;

const NAME: &str = "DSML";

/// What a text contains of the markup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagMatch {
    /// No tag, whatever text comes next.
    Nothing,
    /// A possible start of a tag that runs to the end of the text. Holds the position where it begins.
    Perhaps(usize),
    /// A tag. Holds the position where it begins.
    Tag(usize),
}

/// Finds the first tag in a text.
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
    /// The whole text may be the beginning of a tag's opening.
    Begun,
    /// Something else.
    None,
}

/// The opening of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// Whether the tag closes another.
    pub(super) is_closing: bool,
    /// The text after the first bar that follows the markup's name.
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
    // Looks at only a few characters: a text may consist entirely of possible tag starts.
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
