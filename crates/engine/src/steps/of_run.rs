//! The steps of a run, read for whoever looks at them. How they are read stands one level above.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::{slice, vec};

use serde::{Serialize, Serializer};

use crate::feed::Feed;
use crate::result::OrchestratorStep;
use crate::steps::steps;

/// What a run did, in order: a list of steps.
///
/// It is read from the run's records when somebody first looks at it: many callers want nothing but the answer. As long as
/// it lives, so do the records.
#[derive(Clone)]
pub struct Steps {
    feed: Arc<Feed>,
    read: OnceLock<Vec<OrchestratorStep>>,
}

impl Steps {
    /// The steps of a run that goes on no more, by what its listeners hear.
    pub(crate) const fn of(feed: Arc<Feed>) -> Self {
        Self {
            feed,
            read: OnceLock::new(),
        }
    }
}

impl Deref for Steps {
    type Target = [OrchestratorStep];

    fn deref(&self) -> &[OrchestratorStep] {
        self.read.get_or_init(|| self.feed.with_records(steps))
    }
}

impl<'a> IntoIterator for &'a Steps {
    type Item = &'a OrchestratorStep;
    type IntoIter = slice::Iter<'a, OrchestratorStep>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Steps {
    type Item = OrchestratorStep;
    type IntoIter = vec::IntoIter<OrchestratorStep>;

    fn into_iter(self) -> Self::IntoIter {
        let Self { feed, read } = self;
        let read = read.into_inner();
        read.unwrap_or_else(|| feed.with_records(steps)).into_iter()
    }
}

impl PartialEq for Steps {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl Serialize for Steps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}
