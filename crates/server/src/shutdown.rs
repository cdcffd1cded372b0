//! How long each part of stopping may take, in one place, because together the parts must end before a supervisor
//! kills the process.
//!
//! Not for replaced engines, which have an hour, nor for what one connection may take while the server works.

use std::time::Duration;

/// The time limits for stopping, in the order in which they apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShutdownBudget {
    /// How long runs may continue after [`Stop::Drain`](crate::Stop::Drain): enough for a short answer to end.
    pub(crate) grace: Duration,
    /// How long it may then take to leave the runs that did not end: their last records are stored and their leases
    /// released.
    pub(crate) leaving: Duration,
    /// How long runs may take to end after [`Stop::Cancel`](crate::Stop::Cancel). They only need to record that they
    /// ended.
    pub(crate) recording: Duration,
    /// How long MCP clients have to receive answers that are ready before their streams end, which would otherwise
    /// never end.
    pub(crate) last_answers: Duration,
    /// How long connections may take to send the remaining data once all runs have ended.
    pub(crate) draining: Duration,
    /// The maximum time from the signal until everything but the writing of the log is complete. MCP servers and the
    /// remaining traces have what is left of it.
    pub(crate) total: Duration,
    /// How long the ending process waits for the reader of standard error.
    pub(crate) log: Duration,
}

/// The limits of this program. Docker kills 10 seconds after it asks a container to stop, which is the shortest usual
/// limit.
pub(crate) const SHUTDOWN: ShutdownBudget = ShutdownBudget {
    grace: Duration::from_secs(5),
    leaving: Duration::from_secs(2),
    recording: Duration::from_secs(5),
    last_answers: Duration::from_millis(200),
    draining: Duration::from_secs(1),
    total: Duration::from_secs(9),
    log: Duration::from_millis(400),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_stopping_fit_in_the_time_until_the_process_is_killed() {
        let ShutdownBudget {
            grace,
            leaving,
            recording,
            last_answers,
            draining,
            total,
            log,
        } = SHUTDOWN;
        // A second is left for MCP servers and traces.
        let rest = Duration::from_secs(1);
        assert!(grace + leaving + draining + rest <= total);
        assert!(recording + draining + rest <= total);
        assert!(
            last_answers < draining,
            "connections wait for these answers"
        );
        assert!(total + log < Duration::from_secs(10));
    }
}
