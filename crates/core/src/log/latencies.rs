//! A mergeable latency histogram: percentiles over any number of runs in a few bytes.
//!
//! Each value below 32 milliseconds has its own bucket. Above that, every power of two is divided into 16 buckets, so a
//! percentile is off by at most 4 %, regardless of how long the durations are.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration::whole_millis;

/// The number of buckets per power of two, as an exponent of two.
const BITS: u32 = 4;

/// A histogram of durations.
///
/// ```
/// use std::time::Duration;
///
/// use neuraxis_core::log::Latencies;
///
/// let mut latencies = Latencies::default();
/// for millis in 1..=100 {
///     latencies.add(Duration::from_millis(millis));
/// }
/// assert_eq!(latencies.percentile(50), Some(Duration::from_millis(51)));
/// assert_eq!(latencies.count(), 100);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Latencies(Vec<(u16, u64)>);

impl Latencies {
    /// Adds a duration.
    pub fn add(&mut self, took: Duration) {
        self.add_to(bucket_of(whole_millis(took)), 1);
    }

    /// Adds the durations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            self.add_to(*bucket, *count);
        }
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        let counts = self.0.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// Returns whether there are no durations.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the given percentile, within 4 %; `None` if there are no durations.
    #[must_use]
    pub fn percentile(&self, percent: u8) -> Option<Duration> {
        let (count, percent) = (u128::from(self.count()), u128::from(percent.min(100)));
        let rank = (count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        });
        found.map(|(bucket, _)| Duration::from_millis(middle_of(*bucket)))
    }

    fn add_to(&mut self, bucket: u16, count: u64) {
        match self.0.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(place) => {
                if let Some((_, sum)) = self.0.get_mut(place) {
                    *sum = sum.saturating_add(count);
                }
            }
            Err(place) => self.0.insert(place, (bucket, count)),
        }
    }
}

/// Returns the bucket of a time in milliseconds.
fn bucket_of(millis: u64) -> u16 {
    let power = millis.checked_ilog2().unwrap_or(0);
    let shift = power.saturating_sub(BITS);
    // The remainder is at most 2 × 2^BITS - 1; only the first power of two uses the lower half.
    let within = u16::try_from(millis >> shift).unwrap_or(u16::MAX);
    within + (u16::try_from(shift).unwrap_or_default() << BITS)
}

/// Returns the middle of a bucket in milliseconds.
fn middle_of(bucket: u16) -> u64 {
    let shift = u32::from(bucket >> BITS).saturating_sub(1);
    let within = u64::from(bucket) - (u64::from(shift) << BITS);
    let width = 1_u64.checked_shl(shift).unwrap_or(u64::MAX);
    within.saturating_mul(width).saturating_add(width / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        for millis in millis {
            latencies.add(Duration::from_millis(millis));
        }
        latencies
    }

    #[test]
    fn without_measurements_there_is_no_percentile() {
        assert_eq!(Latencies::default().percentile(50), None);
    }

    #[test]
    fn one_outlier_in_a_hundred_is_beyond_the_95th_percentile() {
        let latencies = of((0..99).map(|_| 10).chain([60_000]));
        assert_eq!(latencies.percentile(95), Some(Duration::from_millis(10)));
        let slowest = latencies.percentile(100).unwrap().as_millis();
        assert!((58_000..62_000).contains(&slowest), "{slowest}");
    }

    proptest! {
        #[test]
        fn a_percentile_is_off_by_at_most_four_percent(millis in 0_u64..u64::MAX / 2) {
            let found = middle_of(bucket_of(millis));
            prop_assert!(found.abs_diff(millis) <= millis / 25 + 1, "{millis}: {found}");
        }

        #[test]
        fn longer_times_have_later_buckets(one: u64, other: u64) {
            prop_assert!((one <= other) <= (bucket_of(one) <= bucket_of(other)));
        }

        #[test]
        fn merged_measurements_equal_measurements_added_together(some in prop::collection::vec(0_u64..1 << 40, 0..40), others in prop::collection::vec(0_u64..1 << 40, 0..40)) {
            let mut merged = of(some.clone());
            merged.merge(&of(others.clone()));
            prop_assert_eq!(merged, of(some.into_iter().chain(others)));
        }
    }
}
