//! Counts how many calls are open: now, and at the most so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A count of open calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauge(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    most: AtomicUsize,
}

/// An open call. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<Counts>);

impl Gauge {
    /// Begins a call.
    pub(crate) fn open(&self) -> Open {
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(open, Ordering::SeqCst);
        Open(Arc::clone(&self.0))
    }

    /// Returns how many calls are open now.
    pub(crate) fn now(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// Returns how many were open at the same time, at the most.
    pub(crate) fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}
