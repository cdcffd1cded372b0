//! Which runs statistics are made of.
//!
//! Not for what they add up to, which [`Stats`](neuraxis_core::log::Stats) is.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::jiff::tz::TimeZone;
use neuraxis_core::log::Stats;

/// Which runs statistics add up.
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
    /// Only those of this owner's sessions; those of all if `None`.
    pub owner: Option<String>,
    /// Only those whose first record was made at this time or later; all if `None`.
    pub since: Option<Timestamp>,
    /// The time zone of the days; UTC if `None`.
    pub zone: Option<TimeZone>,
}

impl StatsFilter {
    /// Adds up only the runs of an owner's sessions.
    #[must_use]
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Adds up only the runs that began at a time or later.
    #[must_use]
    pub fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    /// Begins and ends days as they do in a time zone.
    #[must_use]
    pub fn days_in(mut self, zone: TimeZone) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Returns what runs are added to: nothing yet, with the days of this filter.
    #[must_use]
    pub fn begun(&self) -> Stats {
        let zone = self.zone.iter().cloned();
        zone.fold(Stats::default(), Stats::with_days_in)
    }

    /// Tells whether a run that began at this time is added up, as far as its owner allows.
    #[must_use]
    pub fn counts(&self, started_at: Option<Timestamp>) -> bool {
        started_at.is_some_and(|at| self.since.is_none_or(|since| at >= since))
    }
}
