//! The port to the clock on the wall.

use std::fmt::Debug;

use neuraxis_core::jiff::Timestamp;

/// Tells the time on the wall. Intervals and deadlines do not come from here but from the runtime's own monotonic time,
/// so that a clock set back does no harm.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the time.
    fn now(&self) -> Timestamp;
}
