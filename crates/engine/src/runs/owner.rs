//! Whose a session is, and who may enter it: a request that names an owner only that owner's sessions, one that names none any,
//! unless it says that it is no owner's.

use std::sync::Arc;

use neuraxis_core::uuid::Uuid;
use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{RequestContext, RunSummary, Session, StoreError};

use super::{ResumeError, Runs};
use crate::request::{RequestError, UserRequest};

impl Runs {
    /// Gives what is asked of the runs of this service a context: runs that it takes up again have it, as
    /// [`UserRequest::context`] gives one to runs that begin. Where it names an owner, runs of another owner's sessions are
    /// neither taken up, posted to nor ended, and whoever asks for one is told that there is none. Only what tools ask meanwhile
    /// is for the caller to check, as [`questions`](Self::questions) says.
    ///
    /// A run that is at work in this process keeps the context that it has.
    #[must_use]
    pub fn with_context(&self, context: RequestContext) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
            context,
            recovering: self.recovering.clone(),
        }
    }

    /// Makes a session without any run, owned by whom the context names: under an id, or a new one.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionExists`], [`StoreError::Invalid`] for the ids `.` and `..`, or why the store could not keep it.
    pub async fn new_session(&self, id: Option<SessionId>) -> Result<Session, StoreError> {
        let engine = &self.parts.engine;
        let id = match id {
            Some(id) => id,
            None => new_session_id(engine.ids.new_id())?,
        };
        let session = self.made_session(id, self.context.owner())?;
        self.parts.store.create_session(&session).await?;
        self.parts.known.note(&session.id);
        Ok(session)
    }

    /// Makes a session that no store keeps yet, unless no client could reach it by its address: there `.` and `..` stand for
    /// folders, and browsers leave them out.
    pub(super) fn made_session(
        &self,
        id: SessionId,
        owner: Option<&str>,
    ) -> Result<Session, StoreError> {
        if matches!(id.as_str(), "." | "..") {
            return Err(StoreError::Invalid {
                what: "session id",
                rule: "another one than . and .., which no address can hold",
            });
        }
        let mut session = Session::new(id, self.parts.engine.clock.now());
        session.owner = owner.map(str::to_owned);
        Ok(session)
    }

    /// Refuses a request that may not enter its session. There may be no session yet.
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

    /// Returns the context of a run that goes on in a session, with the owner of that; `None` if the context given is that
    /// of another owner.
    pub(super) async fn context_in(
        &self,
        session: &SessionId,
    ) -> Result<Option<RequestContext>, StoreError> {
        let session = self.parts.store.session(session).await?;
        let may_enter = may_enter(&self.context, session.owner.as_deref());
        Ok(may_enter.then(|| self.context.clone().owned_by(session.owner)))
    }

    /// Tells whether a session is that of the owner whom the context names, or of anybody where it names none.
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

    /// Returns the runs that nobody drives: those of the owner whom the context names, or of anybody where it names none.
    pub(crate) async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError> {
        let store = &self.parts.store;
        match enters_any(&self.context) {
            true => store.unfinished().await,
            false => store.unfinished_of(self.context.owner()).await,
        }
    }

    /// Tells whether a run is that of the owner whom the context names, or of anybody where it names none.
    pub(crate) fn is_seen(&self, run: &RunSummary) -> bool {
        may_enter(&self.context, run.owner.as_deref())
    }

    /// Returns a run in a few words. One of another owner's than the context names is as one that there is not.
    pub(super) async fn seen(&self, run: RunId) -> Result<RunSummary, StoreError> {
        let found = self.parts.store.run(run).await?;
        match self.is_seen(&found) {
            true => Ok(found),
            false => Err(StoreError::NoSuchRun(run)),
        }
    }

    /// Refuses to show a run of another owner's than the context names, as one that there is not.
    pub(super) async fn check_seen(&self, run: RunId) -> Result<(), StoreError> {
        if enters_any(&self.context) {
            return Ok(());
        }
        self.seen(run).await.map(drop)
    }

    /// Refuses a run of another owner's than the context names.
    pub(crate) async fn check_owner_of(&self, run: RunId) -> Result<(), ResumeError> {
        if enters_any(&self.context) {
            return Ok(());
        }
        let found = self.parts.store.run(run).await?;
        match self.is_seen(&found) {
            true => Ok(()),
            false => Err(ResumeError::OtherOwner {
                session: found.session,
            }),
        }
    }
}

fn new_session_id(id: Uuid) -> Result<SessionId, StoreError> {
    // A UUID is one.
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

/// Tells whether no session is closed to a request.
fn enters_any(context: &RequestContext) -> bool {
    context.owner().is_none() && !context.is_unowned()
}

/// Tells whether a request may enter a session of this owner.
fn may_enter(context: &RequestContext, owner: Option<&str>) -> bool {
    enters_any(context) || context.owner() == owner
}
