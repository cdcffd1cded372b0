//! The rules of the [`Clock`] port.

use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::Clock;

/// Mounts the rules of the [`Clock`](neuraxis_ports::Clock) port as tests.
#[macro_export]
macro_rules! clock_suite {
    ($clock:expr) => {
        $crate::mount_rules! { clock, $clock, [time_does_not_run_backwards the_time_is_plausible] }
    };
}

/// From one reading to the next, time does not run backwards.
pub async fn time_does_not_run_backwards(clock: impl Clock) {
    let mut last = clock.now();
    for _ in 0..1_000 {
        let now = clock.now();
        assert!(now >= last, "{last} came before {now}");
        last = now;
    }
}

/// The clock shows a time in this century: seconds are not confused with milliseconds.
pub async fn the_time_is_plausible(clock: impl Clock) {
    const FIRST: Timestamp = Timestamp::constant(978_307_200, 0);
    const LAST: Timestamp = Timestamp::constant(4_133_980_799, 0);
    let now = clock.now();
    assert!(
        (FIRST..=LAST).contains(&now),
        "{now} is not in this century"
    );
}
