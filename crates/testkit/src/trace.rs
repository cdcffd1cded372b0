//! A trace sink that keeps what it gets.

use std::sync::{Arc, Mutex, PoisonError};

use neuraxis_core::Record;
use neuraxis_ports::TraceSink;

/// Keeps every record, in the order in which they came.
#[derive(Debug, Default)]
pub struct RecordingSink(Mutex<Vec<Arc<Record>>>);

impl RecordingSink {
    /// Returns the records so far.
    #[must_use]
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the types of the records so far.
    #[must_use]
    pub fn kinds(&self) -> Vec<&'static str> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().map(|record| record.body.kind()).collect()
    }
}

impl TraceSink for RecordingSink {
    fn record(&self, record: &Arc<Record>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(record));
    }
}
