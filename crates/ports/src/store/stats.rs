//! The filter for statistics of runs.
//!
//! Not for the totals themselves: see [`Stats`](neuraxis_core::log::Stats).

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::jiff::tz::TimeZone;
use neuraxis_core::log::Stats;

/// Which runs are included in statistics.
///
/// ```
/// use neuraxis_core::jiff::Timestamp;
/// use neuraxis_ports::StatsFilter;
///
/// let filter = StatsFilter::default().since(Timestamp::UNIX_EPOCH);
/// assert!(filter.counts(Some(Timestamp::UNIX_EPOCH)));
/// assert!(!filter.counts(None), "it has not begun");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StatsFilter {
    /// Only runs of this owner's sessions; all owners if `None`.
    pub owner: Option<String>,
    /// Only runs whose first record was created at this time or later; all if `None`.
    pub since: Option<Timestamp>,
    /// Only runs whose first record was created before this time; all if `None`. With `since`, the end of a period such
    /// as a month: the next one can begin at the same time, and no run is in both.
    pub before: Option<Timestamp>,
    /// The time zone in which days begin and end; UTC if `None`.
    pub zone: Option<TimeZone>,
}

impl StatsFilter {
    /// Includes only the runs of an owner's sessions.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Includes only the runs that began at a time or later.
    #[must_use]
    pub fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    /// Includes only the runs that began before a time.
    #[must_use]
    pub fn before(mut self, before: Timestamp) -> Self {
        self.before = Some(before);
        self
    }

    /// Sets the time zone in which days begin and end.
    #[must_use]
    pub fn days_in(mut self, zone: TimeZone) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Returns empty statistics with the days of this filter, to which runs can be added.
    #[must_use]
    pub fn begun(&self) -> Stats {
        let zone = self.zone.iter().cloned();
        zone.fold(Stats::default(), Stats::with_days_in)
    }

    /// Returns whether a run that began at this time is included, regardless of its owner.
    #[must_use]
    pub fn counts(&self, started_at: Option<Timestamp>) -> bool {
        started_at.is_some_and(|at| {
            let is_in_time = self.since.is_none_or(|since| at >= since);
            is_in_time && self.before.is_none_or(|before| at < before)
        })
    }
}
