//! The exchanges of a cassette, which requests they answer, and which were played.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::{ContentHash, ModelRequest, Role};

use crate::canonical::{Comparison, MatchLevel};
use crate::error::UnusedRecording;
use crate::exchange::{Exchange, Mode};

/// Indexes of exchanges, by the hash of their request.
type Index = HashMap<ContentHash, Vec<usize>>;

#[derive(Debug)]
pub(super) struct Recordings {
    exchanges: Vec<Arc<Exchange>>,
    comparison: Comparison,
    exact: Index,
    loose: Index,
    is_strict: bool,
    played: Mutex<Vec<bool>>,
    /// How often an exchange was played again.
    replays: AtomicUsize,
}

/// Why no exchange answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRecording {
    /// No recording matches this request.
    Unknown,
    /// All recordings of this request, of the given number, were played, and the replay is strict.
    Exhausted(usize),
}

impl Recordings {
    pub(super) fn new(
        exchanges: Vec<Exchange>,
        mut comparison: Comparison,
        is_strict: bool,
    ) -> Self {
        for exchange in &exchanges {
            comparison.remember(&exchange.request);
        }
        let index = |how| {
            let mut index = Index::new();
            for (number, exchange) in exchanges.iter().enumerate() {
                let hash = comparison.hash(&exchange.role, &exchange.request, how);
                index.entry(hash).or_default().push(number);
            }
            index
        };
        Self {
            exact: index(MatchLevel::Exact),
            loose: index(MatchLevel::WithoutVolatile),
            played: Mutex::new(vec![false; exchanges.len()]),
            exchanges: exchanges.into_iter().map(Arc::new).collect(),
            comparison,
            is_strict,
            replays: AtomicUsize::new(0),
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

    /// Returns the exchange that answers a request, and marks it as played.
    pub(super) fn play(
        &self,
        role: &Role,
        request: &ModelRequest,
        mode: Mode,
    ) -> Result<Arc<Exchange>, NoRecording> {
        let find = |index: &Index, how| {
            let found = index.get(&self.comparison.hash(role, request, how));
            found.cloned().unwrap_or_default()
        };
        let exact = find(&self.exact, MatchLevel::Exact);
        let loose = find(&self.loose, MatchLevel::WithoutVolatile);
        let mut played = self.played();
        let is_new = |index: &&usize| played.get(**index) == Some(&false);
        let fits = |index: &&usize| self.mode(**index) == Some(mode);
        let first_new = |indexes: &[usize]| {
            let mut fitting = indexes.iter().filter(is_new).filter(fits);
            let first = fitting.next().or_else(|| indexes.iter().find(is_new));
            first.copied()
        };
        let last = |indexes: &[usize]| {
            let fitting = indexes.iter().rfind(fits);
            fitting.or_else(|| indexes.last()).copied()
        };
        let replays = || match self.is_strict {
            true => None,
            false => last(&exact).or_else(|| last(&loose)),
        };
        let found = first_new(&exact)
            .or_else(|| first_new(&loose))
            .or_else(replays);
        let index = found.ok_or(match loose.len() {
            0 => NoRecording::Unknown,
            recordings => NoRecording::Exhausted(recordings),
        })?;
        if let Some(played) = played.get_mut(index)
            && std::mem::replace(played, true)
        {
            self.replays.fetch_add(1, Ordering::Relaxed);
        }
        self.exchanges
            .get(index)
            .cloned()
            .ok_or(NoRecording::Unknown)
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

    pub(super) fn replays(&self) -> usize {
        self.replays.load(Ordering::Relaxed)
    }

    fn mode(&self, index: usize) -> Option<Mode> {
        self.exchanges.get(index).map(|exchange| exchange.mode)
    }

    fn played(&self) -> MutexGuard<'_, Vec<bool>> {
        self.played.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
