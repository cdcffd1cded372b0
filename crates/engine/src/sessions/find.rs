//! What the ids that people type stand for: a whole id, or the beginning of one that no other begins with.

use neuraxis_core::SessionId;
use neuraxis_ports::{RunFilter, RunSummary, SessionFilter, StoreError};

use super::Sessions;

/// How many ids an error names at the most.
const MAX_NAMED: usize = 5;

/// Why nobody can tell which session or run is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No session has this id, or one that begins so.
    #[error("there is no session {0:?}")]
    NoSession(String),
    /// No run has this id, or one that begins so.
    #[error("there is no run {0:?}")]
    NoRun(String),
    /// Several ids begin so.
    #[error("{prefix:?} begins several ids: {}", ids.join(", "))]
    Ambiguous {
        /// The beginning of an id, as it was given.
        prefix: String,
        /// Some of the ids; `…` stands for the others, if there are more.
        ids: Vec<String>,
    },
    /// The store could not look.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Sessions {
    /// Returns the session that is meant by its id or the beginning of it.
    ///
    /// # Errors
    ///
    /// A [`FindError`] if that is none, or one of several.
    pub async fn find(&self, text: &str) -> Result<SessionId, FindError> {
        if let Ok(id) = text.parse::<SessionId>()
            && self.is_there(&id).await?
        {
            return Ok(id);
        }
        let found = self.one_beginning_with(text).await?;
        found.ok_or_else(|| FindError::NoSession(text.to_owned()))
    }

    /// Returns the run that is meant by its id or the beginning of it.
    ///
    /// # Errors
    ///
    /// A [`FindError`] if that is none, or one of several.
    pub async fn find_run(&self, text: &str) -> Result<RunSummary, FindError> {
        let filter = RunFilter::beginning_with(text).filter(|_| !text.is_empty());
        let found = match filter {
            Some(filter) => {
                self.store
                    .find_runs(&filter.limited_to(MAX_NAMED + 1))
                    .await?
            }
            None => Vec::new(),
        };
        let found = one_of(text, found, |run| run.run_id.to_string())?;
        found.ok_or_else(|| FindError::NoRun(text.to_owned()))
    }

    async fn is_there(&self, id: &SessionId) -> Result<bool, StoreError> {
        match self.store.session(id).await {
            Ok(_) => Ok(true),
            Err(StoreError::NoSuchSession(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn one_beginning_with(&self, prefix: &str) -> Result<Option<SessionId>, FindError> {
        // Nothing begins every id.
        if prefix.is_empty() {
            return Ok(None);
        }
        let filter = SessionFilter::default().beginning_with(prefix);
        let found = self
            .store
            .sessions(&filter.limited_to(MAX_NAMED + 1))
            .await?;
        let found = one_of(prefix, found, |session| session.id.to_string())?;
        Ok(found.map(|session| session.id))
    }
}

/// Returns the only one of what was found, if anything was.
fn one_of<T>(
    prefix: &str,
    mut found: Vec<T>,
    id: impl Fn(&T) -> String,
) -> Result<Option<T>, FindError> {
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let mut ids: Vec<String> = found.iter().map(id).collect();
    if ids.len() > MAX_NAMED {
        ids.truncate(MAX_NAMED);
        ids.push("…".to_owned());
    }
    let prefix = prefix.to_owned();
    Err(FindError::Ambiguous { prefix, ids })
}
