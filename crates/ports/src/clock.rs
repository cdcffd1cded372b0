//! The port to the wall clock.

use std::fmt::Debug;

use neuraxis_core::jiff::Timestamp;

/// Returns the wall-clock time. Intervals and deadlines use the runtime's monotonic time instead, so setting the clock
/// back does no harm.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the time.
    fn now(&self) -> Timestamp;
}
