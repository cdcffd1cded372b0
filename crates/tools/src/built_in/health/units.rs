//! Formats sizes and times in the units that users expect.

use crate::summary::count;

/// Formats bytes in GiB with one decimal place, or in MiB below 1 GiB.
pub(super) fn size(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 {
        format!("{mib:.0} MiB")
    } else {
        format!("{} GiB", gib(bytes))
    }
}

/// Formats bytes in GiB with one decimal place, without the unit.
pub(super) fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

/// Formats seconds as the two largest relevant units, such as "3 days 4 hours".
pub(super) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let (days, hours, minutes) = (
        count(days, "day", "days"),
        count(hours, "hour", "hours"),
        count(minutes, "minute", "minutes"),
    );
    match seconds {
        86_400.. => format!("{days} {hours}"),
        3_600.. => format!("{hours} {minutes}"),
        _ => minutes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_written_in_suitable_units() {
        assert_eq!(size(512 << 20), "512 MiB");
        assert_eq!(size(3 << 29), "1.5 GiB");
        assert_eq!(duration(59), "0 minutes");
        assert_eq!(duration(3_600 + 120), "1 hour 2 minutes");
        assert_eq!(duration(3 * 86_400 + 4 * 3_600), "3 days 4 hours");
    }
}
