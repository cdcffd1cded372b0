//! Human-readable durations, times and numbers of tokens.

use std::time::Duration;

use neuraxis::core::jiff::Timestamp;
use neuraxis::core::{Cost, CountLabel, MicroUsd, TokenCount};

/// Formats how long something took.
pub(crate) fn brief(duration: Duration) -> String {
    match duration.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        millis @ ..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Formats how long something took, from milliseconds.
pub(crate) fn brief_millis(millis: u64) -> String {
    brief(Duration::from_millis(millis))
}

/// Formats a cost in US dollars, with how reliable it is. Returns `None` if the cost is unknown or nothing had to be
/// paid.
pub(crate) fn money(cost: Cost) -> Option<String> {
    if cost.amount.0 == 0 {
        return None;
    }
    let amount = dollars(cost.amount);
    Some(match cost.label {
        CountLabel::Measured => amount,
        CountLabel::Estimated => format!("~{amount}"),
        CountLabel::Unknown => format!("{amount}+"),
    })
}

/// Formats a time to the second, in the local time zone.
pub(crate) fn moment(at: Timestamp) -> String {
    let here = at.to_zoned(jiff::tz::TimeZone::system());
    here.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats an amount in US dollars: small ones exactly, others to four places.
fn dollars(cost: MicroUsd) -> String {
    let micros = cost.0;
    match micros {
        0 => "$0".to_owned(),
        1..10_000 => format!("${}", cost.dollars()),
        micros => format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100),
    }
}

/// Formats a number of tokens, with how reliable it is.
pub(crate) fn tokens(count: TokenCount) -> String {
    let digits = count.tokens.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match count.label {
        CountLabel::Measured => grouped,
        CountLabel::Estimated => format!("~{grouped}"),
        CountLabel::Unknown => format!("{grouped}+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_counts_are_grouped_and_marked_by_certainty() {
        assert_eq!(tokens(TokenCount::measured(7)), "7");
        assert_eq!(tokens(TokenCount::measured(1_234_567)), "1,234,567");
        assert_eq!(tokens(TokenCount::estimated(123_456)), "~123,456");
        assert_eq!(tokens(TokenCount::UNKNOWN), "0+");
    }

    #[test]
    fn small_amounts_of_money_are_shown_to_the_millionth_and_marked_by_certainty() {
        let told = |amount, label| {
            let amount = neuraxis::core::MicroUsd(amount);
            money(Cost { amount, label })
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(told(1_234_567, CountLabel::Measured), some("$1.2345"));
        assert_eq!(told(42, CountLabel::Estimated), some("~$0.000042"));
        assert_eq!(told(42, CountLabel::Unknown), some("$0.000042+"));
        assert_eq!(told(0, CountLabel::Unknown), None);
    }

    #[test]
    fn durations_are_shown_in_the_unit_that_fits() {
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
