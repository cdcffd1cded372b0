//! Who makes a request, and what the program that handles it passes to its own code about it.
//!
//! Not for what a model reads. A store keeps only the owner, and values that [have a name to be stored
//! under](StoredContext).

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::JsonText;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Approver;

/// A value of a request that is stored with the run, in its first record, so any process that resumes the run has it.
/// It is as public as the user's message, so it must not hold tokens.
///
/// ```
/// use neuraxis_ports::{RequestContext, StoredContext};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Tenant(u32);
///
/// impl StoredContext for Tenant {
///     const NAME: &'static str = "tenant";
/// }
///
/// let context = RequestContext::default().with_stored(&Tenant(7))?;
/// assert_eq!(context.stored::<Tenant>()?, Some(Tenant(7)));
/// # Ok::<(), neuraxis_ports::ContextError>(())
/// ```
pub trait StoredContext: Serialize + DeserializeOwned {
    /// The name under which the value is stored. If a type changes so that stored values can no longer be read, give it
    /// a new name.
    const NAME: &'static str;
}

/// Stored values as JSON, by name.
pub type StoredValues = BTreeMap<Arc<str>, JsonText>;

/// Why a value of a request cannot be stored or read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the request's context \"{name}\" cannot be parsed as its type: {reason}")]
#[non_exhaustive]
pub struct ContextError {
    /// The [name](StoredContext::NAME) of the value.
    pub name: &'static str,
    /// What is wrong with it, and where.
    pub reason: String,
}

/// Who asks, and the program's own values, one of each type: a user, a token, a connection. Tools, hooks and
/// instructions read it. Clones share the values.
///
/// The values are not stored or shown anywhere, in no record and no log, except [stored values](StoredContext). A run
/// that is resumed, by another process or by this one after the run was parked, has the other values only if they are
/// supplied again; it has the owner, from its session.
///
/// ```
/// use neuraxis_ports::RequestContext;
///
/// #[derive(Debug, PartialEq)]
/// struct Token(&'static str);
///
/// let context = RequestContext::default().owned_by(Some("ada".to_owned())).with(Token("t-1"));
/// assert_eq!((context.owner(), context.get::<Token>()), (Some("ada"), Some(&Token("t-1"))));
/// assert_eq!(context.get::<String>(), None);
/// assert!(!format!("{context:?}").contains("t-1"));
/// ```
#[derive(Clone, Default)]
pub struct RequestContext(Option<Arc<Contents>>);

#[derive(Clone, Default)]
struct Contents {
    owner: Option<String>,
    is_unowned: bool,
    request_id: Option<Arc<str>>,
    approver: Option<Arc<dyn Approver>>,
    questions_open_for: Option<Duration>,
    values: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
    stored: StoredValues,
}

impl RequestContext {
    /// Sets who asks: the owner of the session, as in [`Session::owner`](crate::Session::owner).
    #[must_use]
    pub fn owned_by(mut self, owner: Option<String>) -> Self {
        if self.owner() != owner.as_deref() {
            self.contents().owner = owner;
        }
        self
    }

    /// Marks the caller as none of the existing owners: a session that has an owner belongs to another user and is
    /// refused.
    #[must_use]
    pub fn unowned(mut self) -> Self {
        let contents = self.contents();
        contents.owner = None;
        contents.is_unowned = true;
        self
    }

    /// Sets the id by which the request is known outside, such as that of an HTTP request: tools forward it, and log
    /// lines name it.
    #[must_use]
    pub fn identified_by(mut self, request_id: impl Into<Arc<str>>) -> Self {
        self.contents().request_id = Some(request_id.into());
        self
    }

    /// Sets the approver for calls of this request, instead of the engine's: usually the user who made the request, in
    /// a program with several users.
    #[must_use]
    pub fn approved_by(mut self, approver: Arc<dyn Approver>) -> Self {
        self.contents().approver = Some(approver);
        self
    }

    /// Lets questions of this request's tools wait this long for an answer from outside, whatever applies to other
    /// requests; `OrchestratorBuilder::questions_open_for` does the same for all requests of an engine. Takes
    /// precedence over the request's approver.
    #[must_use]
    pub fn with_questions_open_for(mut self, time: Duration) -> Self {
        self.contents().questions_open_for = Some(time);
        self
    }

    /// Adds a value, replacing one of the same type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, value: T) -> Self {
        let values = &mut self.contents().values;
        values.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Adds a value that is stored with the run, replacing one of the same name.
    ///
    /// # Errors
    ///
    /// A [`ContextError`] if the value cannot be serialized as JSON.
    pub fn with_stored<T: StoredContext>(mut self, value: &T) -> Result<Self, ContextError> {
        let text = JsonText::encode(value).map_err(|error| ContextError {
            name: T::NAME,
            reason: error.to_string(),
        })?;
        self.contents().stored.insert(T::NAME.into(), text);
        Ok(self)
    }

    /// Adds the values that were stored with a run. Values that are already present stay.
    #[must_use]
    pub fn restored(mut self, values: &StoredValues) -> Self {
        if values.is_empty() {
            return self;
        }
        let stored = &mut self.contents().stored;
        for (name, value) in values {
            stored
                .entry(Arc::clone(name))
                .or_insert_with(|| value.clone());
        }
        self
    }

    /// Returns the value that is stored under a type's name; `None` if there is none.
    ///
    /// # Errors
    ///
    /// A [`ContextError`] if the stored value is not of that type.
    pub fn stored<T: StoredContext>(&self) -> Result<Option<T>, ContextError> {
        let stored = self.0.as_ref().map(|contents| &contents.stored);
        let text = stored.and_then(|stored| stored.get(T::NAME));
        let value = text.map(JsonText::decode).transpose();
        value.map_err(|error| ContextError {
            name: T::NAME,
            reason: error.to_string(),
        })
    }

    /// Returns all stored values.
    #[must_use]
    pub fn stored_values(&self) -> StoredValues {
        let contents = self.0.as_ref();
        contents.map_or_else(StoredValues::new, |contents| contents.stored.clone())
    }

    /// Returns who asks; `None` if there is only one user, or the caller was not named.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.0.as_ref()?.owner.as_deref()
    }

    /// Returns whether the caller was marked as [none of the existing owners](Self::unowned).
    #[must_use]
    pub fn is_unowned(&self) -> bool {
        self.0.as_ref().is_some_and(|contents| contents.is_unowned)
    }

    /// Returns the id by which the request is known outside; `None` if it was not set, and in a resumed run.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.0.as_ref()?.request_id.as_deref()
    }

    /// Returns the approver for calls of this request; the engine's approver is used if `None`.
    #[must_use]
    pub fn approver(&self) -> Option<&Arc<dyn Approver>> {
        self.0.as_ref()?.approver.as_ref()
    }

    /// Returns how long questions of its tools wait for an answer from outside; `None` if this is not set for the
    /// request.
    #[must_use]
    pub fn questions_open_for(&self) -> Option<Duration> {
        self.0.as_ref()?.questions_open_for
    }

    /// Returns the value of a type; `None` if none was given, which is always the case in a run that was resumed
    /// without it.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        let value = self.0.as_ref()?.values.get(&TypeId::of::<T>())?;
        value.downcast_ref()
    }

    fn contents(&mut self) -> &mut Contents {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl fmt::Debug for RequestContext {
    /// Shows who asks and the number of values, but not the values: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |contents: &Arc<Contents>| contents.values.len() + contents.stored.len();
        let values = self.0.as_ref().map_or(0, count);
        f.debug_struct("RequestContext")
            .field("owner", &self.owner())
            .field("values", &values)
            .finish()
    }
}
