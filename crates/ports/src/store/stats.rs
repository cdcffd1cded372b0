//! Which runs statistics are made of.
//!
//! Not for what they add up to, which [`Stats`](neuraxis_core::log::Stats) is.

use neuraxis_core::jiff::Timestamp;

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
    pub const fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    /// Tells whether a run that began at this time is added up, as far as its owner allows.
    #[must_use]
    pub fn counts(&self, started_at: Option<Timestamp>) -> bool {
        started_at.is_some_and(|at| self.since.is_none_or(|since| at >= since))
    }
}
