//! Resolves the ids that users type: a whole id, or a prefix that no other id has.

use neuraxis_core::SessionId;
use neuraxis_ports::{RunFilter, RunSummary, SessionFilter, StoreError};

use super::Sessions;

/// The maximum number of ids that an error names.
const MAX_NAMED: usize = 5;

/// Why it is unknown which session or run is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No session has this id, or one with this prefix.
    #[error("there is no session {0:?}")]
    NoSession(String),
    /// No run has this id, or one with this prefix.
    #[error("there is no run {0:?}")]
    NoRun(String),
    /// Several ids have this prefix.
    #[error("{prefix:?} matches several ids: {}", ids.join(", "))]
    Ambiguous {
        /// The prefix as given.
        prefix: String,
        /// Some of the ids; `…` stands for the rest, if there are more.
        ids: Vec<String>,
    },
    /// The store could not be searched.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Sessions {
    /// Returns the session with an id or a prefix of it.
    ///
    /// # Errors
    ///
    /// A [`FindError`] if no session or more than one matches.
    pub async fn find(&self, text: &str) -> Result<SessionId, FindError> {
        if let Ok(id) = text.parse::<SessionId>()
            && self.is_there(&id).await?
        {
            return Ok(id);
        }
        let found = self.one_beginning_with(text).await?;
        found.ok_or_else(|| FindError::NoSession(text.to_owned()))
    }

    /// Returns the run with an id or a prefix of it.
    ///
    /// # Errors
    ///
    /// A [`FindError`] if no run or more than one matches.
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
        // The empty text is a prefix of every id.
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

/// Returns the only match, if there is any.
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
