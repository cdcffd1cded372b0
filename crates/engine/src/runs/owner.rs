//! Session ownership and access: a request that names an owner may enter only that owner's sessions; one that names
//! none may enter any, unless it is marked as unowned.

use std::sync::Arc;

use neuraxis_core::uuid::Uuid;
use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{RequestContext, RunSummary, Session, StoreError};

use super::{ResumeError, Runs};
use crate::request::{RequestError, UserRequest};
use crate::sessions::Sessions;

impl Runs {
    /// Sets the context for calls of this service. Runs that it resumes get the context, as [`UserRequest::context`]
    /// gives one to runs that begin. If the context names an owner, runs in other owners' sessions are not resumed,
    /// posted to or ended, and are reported as nonexistent. Only questions that tools ask meanwhile must be checked by
    /// the caller, as [`questions`](Self::questions) documents.
    ///
    /// A run that is in progress in this process keeps the context that it has.
    #[must_use]
    pub fn with_context(&self, context: RequestContext) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
            context,
            recovering: self.recovering.clone(),
            by: self.by.clone(),
        }
    }

    /// Creates a session without any run, owned by the context's owner, with the given id or a new one.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionExists`], [`StoreError::Invalid`] for the ids `.` and `..`, or the reason why the store
    /// could not store it.
    pub async fn new_session(&self, id: Option<SessionId>) -> Result<Session, StoreError> {
        let engine = &self.parts.engine;
        let id = match id {
            Some(id) => id,
            None => new_session_id(engine.ids.new_id())?,
        };
        let session = self.created_session(id, self.context.owner())?;
        self.parts.store.create_session(&session).await?;
        self.parts.known.note(&session.id);
        Ok(session)
    }

    /// Sets the title of a session, or removes it if `None`, and returns the session. A session of another owner than the
    /// context's is reported as nonexistent.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::Invalid`] for a title that
    /// [`check_title`](neuraxis_ports::check_title) refuses.
    pub async fn rename_session(
        &self,
        id: &SessionId,
        title: Option<&str>,
    ) -> Result<Session, StoreError> {
        if !self.may_see(id).await? {
            return Err(StoreError::NoSuchSession(id.clone()));
        }
        Sessions::new(Arc::clone(&self.parts.store))
            .rename(id, title)
            .await
    }

    /// Creates a session that is not stored yet, unless no client could reach it by its URL: in URLs, `.` and `..`
    /// stand for folders, and browsers remove them.
    pub(super) fn created_session(
        &self,
        id: SessionId,
        owner: Option<&str>,
    ) -> Result<Session, StoreError> {
        if matches!(id.as_str(), "." | "..") {
            return Err(StoreError::Invalid {
                what: "session id",
                rule: "other than . and .., which no URL can contain",
            });
        }
        let mut session = Session::new(id, self.parts.engine.clock.now());
        session.owner = owner.map(str::to_owned);
        Ok(session)
    }

    /// Refuses a request that may not enter its session. The session need not exist yet.
    pub(crate) async fn check_owner(&self, request: &UserRequest) -> Result<(), RequestError> {
        if enters_any(&request.context) {
            return Ok(());
        }
        match self.parts.store.session(&request.session_id).await {
            Ok(session) => enter(request, &session),
            Err(StoreError::NoSuchSession(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the context for a run that continues in a session, with the session's owner; `None` if the given context
    /// belongs to another owner.
    pub(super) async fn context_in(
        &self,
        session: &SessionId,
    ) -> Result<Option<RequestContext>, StoreError> {
        let session = self.parts.store.session(session).await?;
        let may_enter = may_enter(&self.context, session.owner.as_deref());
        Ok(may_enter.then(|| self.context.clone().owned_by(session.owner)))
    }

    /// Returns whether a session belongs to the context's owner; `true` for every session if the context names none.
    pub(crate) async fn may_see(&self, session: &SessionId) -> Result<bool, StoreError> {
        if enters_any(&self.context) {
            return Ok(true);
        }
        match self.parts.store.session(session).await {
            Ok(session) => Ok(may_enter(&self.context, session.owner.as_deref())),
            Err(StoreError::NoSuchSession(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the runs that no process drives: those of the context's owner, or all if it names none.
    pub(crate) async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError> {
        let store = &self.parts.store;
        match enters_any(&self.context) {
            true => store.unfinished().await,
            false => store.unfinished_of(self.context.owner()).await,
        }
    }

    /// Returns whether a run belongs to the context's owner; `true` for every run if the context names none.
    pub(crate) fn is_visible(&self, run: &RunSummary) -> bool {
        may_enter(&self.context, run.owner.as_deref())
    }

    /// Returns the summary of a run. A run of another owner than the context's is reported as nonexistent.
    pub(super) async fn visible_run(&self, run: RunId) -> Result<RunSummary, StoreError> {
        let found = self.parts.store.run(run).await?;
        match self.is_visible(&found) {
            true => Ok(found),
            false => Err(StoreError::NoSuchRun(run)),
        }
    }

    /// Refuses to show a run of another owner than the context's, as if it did not exist.
    pub(super) async fn check_seen(&self, run: RunId) -> Result<(), StoreError> {
        if enters_any(&self.context) {
            return Ok(());
        }
        self.visible_run(run).await.map(drop)
    }

    /// Refuses a run of another owner than the context's.
    pub(crate) async fn check_owner_of(&self, run: RunId) -> Result<(), ResumeError> {
        if enters_any(&self.context) {
            return Ok(());
        }
        let found = self.parts.store.run(run).await?;
        match self.is_visible(&found) {
            true => Ok(()),
            false => Err(ResumeError::OtherOwner {
                session: found.session,
            }),
        }
    }
}

fn new_session_id(id: Uuid) -> Result<SessionId, StoreError> {
    // A UUID is always a valid id.
    id.to_string().parse().map_err(|_| StoreError::Invalid {
        what: "session id",
        rule: "a UUID",
    })
}

/// Refuses a request that may not enter its session.
pub(super) fn enter(request: &UserRequest, session: &Session) -> Result<(), RequestError> {
    if may_enter(&request.context, session.owner.as_deref()) {
        return Ok(());
    }
    let session = session.id.clone();
    Err(RequestError::OtherOwner { session })
}

/// Returns whether a request may enter every session.
fn enters_any(context: &RequestContext) -> bool {
    context.owner().is_none() && !context.is_unowned()
}

/// Returns whether a request may enter a session of this owner.
fn may_enter(context: &RequestContext, owner: Option<&str>) -> bool {
    enters_any(context) || context.owner() == owner
}
