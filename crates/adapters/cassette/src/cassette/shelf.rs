//! The exchanges of a cassette, which request each answers, and which were played.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::{ContentHash, ModelRequest, Role};

use crate::canonical::{Closeness, Comparison};
use crate::error::UnusedRecording;
use crate::exchange::{Exchange, Mode};

/// Places on the shelf, by what their request looks like.
type Index = HashMap<ContentHash, Vec<usize>>;

#[derive(Debug)]
pub(super) struct Shelf {
    exchanges: Vec<Arc<Exchange>>,
    comparison: Comparison,
    exact: Index,
    loose: Index,
    is_strict: bool,
    played: Mutex<Vec<bool>>,
}

/// Why no exchange answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// No recording is of this request.
    Unknown,
    /// All so many recordings of this request were played, and the replay is strict.
    Exhausted(usize),
}

impl Shelf {
    pub(super) fn new(exchanges: Vec<Exchange>, comparison: Comparison, is_strict: bool) -> Self {
        let index = |how| {
            let mut index = Index::new();
            for (place, exchange) in exchanges.iter().enumerate() {
                let hash = comparison.hash(&exchange.role, &exchange.request, how);
                index.entry(hash).or_default().push(place);
            }
            index
        };
        Self {
            exact: index(Closeness::Exact),
            loose: index(Closeness::Loose),
            played: Mutex::new(vec![false; exchanges.len()]),
            exchanges: exchanges.into_iter().map(Arc::new).collect(),
            comparison,
            is_strict,
        }
    }

    pub(super) fn exchanges(&self) -> &[Arc<Exchange>] {
        &self.exchanges
    }

    pub(super) const fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    pub(super) const fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Takes the exchange that answers a request, and notes that it was played.
    pub(super) fn take(
        &self,
        role: &Role,
        request: &ModelRequest,
        mode: Mode,
    ) -> Result<Arc<Exchange>, Missing> {
        let find = |index: &Index, how| {
            let places = index.get(&self.comparison.hash(role, request, how));
            places.cloned().unwrap_or_default()
        };
        let exact = find(&self.exact, Closeness::Exact);
        let loose = find(&self.loose, Closeness::Loose);
        let mut played = self.played();
        let is_new = |place: &&usize| played.get(**place) == Some(&false);
        let fits = |place: &&usize| self.mode(**place) == Some(mode);
        let first_new = |places: &[usize]| {
            let mut fitting = places.iter().filter(is_new).filter(fits);
            let first = fitting.next().or_else(|| places.iter().find(is_new));
            first.copied()
        };
        let last = |places: &[usize]| {
            let fitting = places.iter().rfind(fits);
            fitting.or_else(|| places.last()).copied()
        };
        let again = || match self.is_strict {
            true => None,
            false => last(&exact).or_else(|| last(&loose)),
        };
        let found = first_new(&exact)
            .or_else(|| first_new(&loose))
            .or_else(again);
        let place = found.ok_or(match loose.len() {
            0 => Missing::Unknown,
            recordings => Missing::Exhausted(recordings),
        })?;
        if let Some(played) = played.get_mut(place) {
            *played = true;
        }
        self.exchanges.get(place).cloned().ok_or(Missing::Unknown)
    }

    pub(super) fn unused(&self) -> Vec<UnusedRecording> {
        let played = self.played();
        let unused = self.exchanges.iter().zip(played.iter());
        let unused = unused.filter(|(_, played)| !**played);
        unused
            .map(|(exchange, _)| UnusedRecording {
                exchange: exchange.number,
                line: exchange.line,
                role: exchange.role.clone(),
            })
            .collect()
    }

    fn mode(&self, place: usize) -> Option<Mode> {
        self.exchanges.get(place).map(|exchange| exchange.mode)
    }

    fn played(&self) -> MutexGuard<'_, Vec<bool>> {
        self.played.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
