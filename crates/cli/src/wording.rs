//! Small words that several commands use.

use std::time::Duration;

/// Says how long something took.
pub(crate) fn brief(duration: Duration) -> String {
    match duration.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        millis @ ..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_the_unit_that_fits() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (59_990, "59.9 s"),
            (61_000, "1 min 1 s"),
        ] {
            assert_eq!(brief(Duration::from_millis(millis)), expected);
        }
    }
}
