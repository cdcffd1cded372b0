//! What became of what was to be exported.

/// How much of what was handed over was delivered so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Spans or lines that the other side has.
    pub delivered: u64,
    /// Spans or lines that are lost: there were too many at once, or the other side did not take them.
    pub dropped: u64,
    /// What went wrong last, if anything did.
    pub error: Option<String>,
}
