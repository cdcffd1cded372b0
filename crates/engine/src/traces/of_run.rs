//! The trace records of a run, read for whoever looks at them. How they are read stands one level above.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::{slice, vec};

use neuraxis_core::{Record, Transcript};
use serde::{Serialize, Serializer};

use super::{TraceRecord, trace_records};

/// What happened in a run, step by step: a list of trace records.
///
/// It is made of the run's records when somebody first looks at it: each model call tells all messages that were sent with it,
/// media included, and many callers want nothing but the answer. As long as it lives, so do the records.
#[derive(Clone)]
pub struct Traces {
    history: Transcript,
    records: Vec<Arc<Record>>,
    read: OnceLock<Vec<TraceRecord>>,
}

impl Traces {
    /// The trace records of a run that goes on no more, and continued a history.
    pub(crate) const fn of(history: Transcript, records: Vec<Arc<Record>>) -> Self {
        Self {
            history,
            records,
            read: OnceLock::new(),
        }
    }
}

impl Deref for Traces {
    type Target = [TraceRecord];

    fn deref(&self) -> &[TraceRecord] {
        self.read
            .get_or_init(|| trace_records(&self.history, &self.records))
    }
}

impl<'a> IntoIterator for &'a Traces {
    type Item = &'a TraceRecord;
    type IntoIter = slice::Iter<'a, TraceRecord>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Traces {
    type Item = TraceRecord;
    type IntoIter = vec::IntoIter<TraceRecord>;

    fn into_iter(self) -> Self::IntoIter {
        let read = self.read.into_inner();
        read.unwrap_or_else(|| trace_records(&self.history, &self.records))
            .into_iter()
    }
}

impl PartialEq for Traces {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl Serialize for Traces {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_before_somebody_looks() {
        let traces = Traces::of(Transcript::default(), Vec::new());
        assert!(traces.read.get().is_none());
        assert!(traces.is_empty());
        assert!(traces.read.get().is_some());
    }
}
