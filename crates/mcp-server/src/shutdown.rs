//! How long each part of ending may take, in one place: for a server over a pair of streams, and for a call whose
//! client has gone.
//!
//! Not for a server over HTTP, which ends when the program that mounts it cancels its token.

use std::time::Duration;

/// The time limits for ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShutdownBudget {
    /// How long the client may take to receive its last answers once the program stops.
    pub(crate) last_answers: Duration,
    /// How long a cancelled run may take to end: it only needs to record that it ended.
    pub(crate) recording: Duration,
    /// How long all work in progress may take to end once the client disconnects or the program stops. Longer than
    /// `recording`, so a run that is slow to end is reported by its own name.
    pub(crate) work: Duration,
}

/// The limits of this crate. `neuraxis mcp serve` waits longer for its server than the last answers may take, and what it
/// does not wait for is left to the next process.
pub(crate) const SHUTDOWN: ShutdownBudget = ShutdownBudget {
    last_answers: Duration::from_secs(3),
    recording: Duration::from_secs(5),
    work: Duration::from_secs(6),
};

#[cfg(test)]
mod tests {
    use super::*;

    /// How long `neuraxis mcp serve` waits after it was asked to stop.
    const PROGRAM: Duration = Duration::from_secs(5);

    #[test]
    fn the_parts_of_ending_fit_into_each_other() {
        let ShutdownBudget {
            last_answers,
            recording,
            work,
        } = SHUTDOWN;
        assert!(last_answers < PROGRAM);
        assert!(recording < work);
    }
}
