//! Bars: how large a value is compared with others, or when something happened within a whole.

use crate::tree::Branches;

/// The characters that fill the last column of a bar, in eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Draws a value in proportion to the largest one. Every value above zero is visible.
pub(crate) fn bar(part: u64, largest: u64, columns: usize, drawn_with: Branches) -> String {
    if part == 0 || largest == 0 {
        return String::new();
    }
    let eighths = scaled(part, largest, columns * 8).max(1);
    let (whole, rest) = (eighths / 8, eighths % 8);
    match drawn_with {
        Branches::Lines => {
            let end = EIGHTHS.get(rest).copied().unwrap_or_default();
            format!("{}{end}", "█".repeat(whole))
        }
        Branches::Ascii => "#".repeat((whole + usize::from(rest >= 4)).max(1)),
    }
}

/// Draws when something happened within a whole: as wide as `columns`, and blank except from its beginning to its end.
/// Something that took no time is visible, too.
pub(crate) fn span(
    (begin, end): (u64, u64),
    whole: u64,
    columns: usize,
    drawn_with: Branches,
) -> String {
    let most = columns.saturating_sub(1);
    let from = scaled(begin, whole, columns).min(most);
    let to = scaled(end, whole, columns).max(from + 1).min(columns);
    let block = match drawn_with {
        Branches::Lines => "█",
        Branches::Ascii => "#",
    };
    let (before, after) = (" ".repeat(from), " ".repeat(columns.saturating_sub(to)));
    format!("{before}{}{after}", block.repeat(to.saturating_sub(from)))
}

/// Scales a part of the whole to columns, rounded to the nearest.
fn scaled(part: u64, whole: u64, columns: usize) -> usize {
    let columns = u128::try_from(columns).unwrap_or(u128::MAX);
    let whole = u128::from(whole.max(1));
    let scaled = (u128::from(part) * columns + whole / 2) / whole;
    usize::try_from(scaled.min(columns)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_proportional_and_never_empty_for_a_nonzero_part() {
        let lines = |part| bar(part, 16, 4, Branches::Lines);
        assert_eq!(lines(0), "");
        assert_eq!(lines(1), "▎");
        assert_eq!(lines(8), "██");
        assert_eq!(lines(16), "████");
        assert_eq!(bar(1, 1_000_000, 4, Branches::Lines), "▏");
        assert_eq!(bar(1, 1_000_000, 4, Branches::Ascii), "#");
        assert_eq!(bar(8, 16, 4, Branches::Ascii), "##");
        assert_eq!(bar(u64::MAX, u64::MAX, 3, Branches::Ascii), "###");
    }

    #[test]
    fn a_span_is_drawn_at_its_position_and_fills_its_columns() {
        let span = |part| span(part, 100, 10, Branches::Ascii);
        assert_eq!(span((0, 100)), "##########");
        assert_eq!(span((0, 50)), "#####     ");
        assert_eq!(span((50, 60)), "     #    ");
        assert_eq!(span((100, 100)), "         #");
        assert_eq!(span((0, 0)), "#         ");
        assert_eq!(span((30, 900)), "   #######");
    }
}
