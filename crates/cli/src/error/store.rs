//! What to do when the store fails, or when it has no session or run of a given name.

use anyhow::anyhow;
use neuraxis::engine::FindError;
use neuraxis::ports::StoreError;

use super::CommandError;
use crate::harmless::one_line;

/// What to do about a damaged store.
const DAMAGED: &str = "`neuraxis doctor --offline` checks the file itself and says what can be done; if it finds nothing, \
                       `neuraxis sessions verify` lists the damaged sessions";

/// Returns what to do about a failure of the store.
pub(super) fn hint_about(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::SessionBusy { run, .. } => {
            return Some(format!(
                "`neuraxis runs resume {run}` resumes it unless its process is alive; with --cancel it ends it"
            ));
        }
        StoreError::Full(_) => {
            "free some disk space where the database is, and try again (`neuraxis doctor --offline` shows where)"
        }
        StoreError::ReadOnly(_) => {
            "check whether its file or folder is mounted read-only or belongs to another user; for Postgres, set store.url \
             to the primary (`neuraxis config show store` says where it is set)"
        }
        StoreError::Damaged(_) => DAMAGED,
        StoreError::Refused(_) => "`neuraxis doctor --offline` says more",
        error if error.is_retryable() => {
            "try again in a moment; if it still fails, `neuraxis doctor --offline` says more"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let hint = hint_about(&error);
        hint.into_iter().fold(Self::failed(error), Self::hint)
    }
}

impl From<FindError> for CommandError {
    fn from(error: FindError) -> Self {
        match error {
            FindError::NoSession(text) => {
                Self::usage(anyhow!("there is no session {:?}", one_line(&text)))
                    .hint("`neuraxis sessions list` lists your sessions")
            }
            FindError::NoRun(text) => Self::usage(anyhow!("there is no run {:?}", one_line(&text)))
                .hint("`neuraxis runs list` lists your runs"),
            FindError::Ambiguous { prefix, ids } => {
                let (prefix, ids) = (one_line(&prefix), ids.join(", "));
                Self::usage(anyhow!("several ids begin with {prefix:?}: {ids}"))
                    .hint("type its end, or more of its beginning")
            }
            FindError::Store(error) => error.into(),
            error => Self::failed(error),
        }
    }
}
