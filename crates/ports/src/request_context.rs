//! Who makes a request, and what the program that handles it wants its own code to know about that.
//!
//! Not for what a model reads. Of all this a store keeps the owner, and what [says by which name](StoredContext) it is kept.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::JsonText;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Approver;

/// A value of a request that is kept with the run, in its first record: whoever takes the run up has it, in whichever
/// process. It is as public as what the user wrote, so no place for tokens.
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
    /// The name under which it is kept. A type that has changed so that what was kept cannot be read takes another one.
    const NAME: &'static str;
}

/// Values that are kept, as JSON, by their names.
pub type StoredValues = BTreeMap<Arc<str>, JsonText>;

/// Why a value of a request is not kept, or cannot be read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the context \"{name}\" of the request is not JSON of its type: {reason}")]
#[non_exhaustive]
pub struct ContextError {
    /// The [name](StoredContext::NAME) of the value.
    pub name: &'static str,
    /// What is wrong with it, and where.
    pub reason: String,
}

/// Who asks, and values of the program's own, one of each type: a user, a token, a connection. Tools, hooks and instructions
/// read it. Cloning shares the values.
///
/// The values are kept nowhere and shown nowhere, in no record and no log, but for those that [are to be](StoredContext). A
/// run that another process takes up, or this one after the run was put aside, has none of the others unless they are given
/// again; the owner it has, from its session.
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
    /// Says who asks: the owner of the session, as in [`Session::owner`](crate::Session::owner).
    #[must_use]
    pub fn owned_by(mut self, owner: Option<String>) -> Self {
        if self.owner() != owner.as_deref() {
            self.contents().owner = owner;
        }
        self
    }

    /// Says that who asks is none of the owners there are: a session that has one is another's, and is not entered.
    #[must_use]
    pub fn unowned(mut self) -> Self {
        let contents = self.contents();
        contents.owner = None;
        contents.is_unowned = true;
        self
    }

    /// Says by which id the request is known outside, such as that of an HTTP request: tools pass it on, and log lines name it.
    #[must_use]
    pub fn identified_by(mut self, request_id: impl Into<Arc<str>>) -> Self {
        self.contents().request_id = Some(request_id.into());
        self
    }

    /// Says who is asked about the calls of this request that need approval, in place of the engine's approver: the person who
    /// made it, where several make requests.
    #[must_use]
    pub fn approved_by(mut self, approver: Arc<dyn Approver>) -> Self {
        self.contents().approver = Some(approver);
        self
    }

    /// Lets questions of this request's tools wait so long for an answer from outside, whoever is asked about other requests':
    /// as `OrchestratorBuilder::questions_open_for` of the engine does for all. It comes before the request's approver.
    #[must_use]
    pub fn with_questions_open_for(mut self, time: Duration) -> Self {
        self.contents().questions_open_for = Some(time);
        self
    }

    /// Adds a value, in place of one of the same type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, value: T) -> Self {
        let values = &mut self.contents().values;
        values.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Adds a value that is kept with the run, in place of one of the same name.
    ///
    /// # Errors
    ///
    /// A [`ContextError`], when it cannot be written as JSON.
    pub fn with_stored<T: StoredContext>(mut self, value: &T) -> Result<Self, ContextError> {
        let text = JsonText::encode(value).map_err(|error| ContextError {
            name: T::NAME,
            reason: error.to_string(),
        })?;
        self.contents().stored.insert(T::NAME.into(), text);
        Ok(self)
    }

    /// Adds what was kept with a run. Values that are given already stay.
    #[must_use]
    pub fn restored(mut self, kept: &StoredValues) -> Self {
        if kept.is_empty() {
            return self;
        }
        let stored = &mut self.contents().stored;
        for (name, value) in kept {
            stored
                .entry(Arc::clone(name))
                .or_insert_with(|| value.clone());
        }
        self
    }

    /// Returns the value that is kept under a type's name; `None` where there is none.
    ///
    /// # Errors
    ///
    /// A [`ContextError`], when what was kept is none of that type.
    pub fn stored<T: StoredContext>(&self) -> Result<Option<T>, ContextError> {
        let stored = self.0.as_ref().map(|contents| &contents.stored);
        let text = stored.and_then(|stored| stored.get(T::NAME));
        let value = text.map(JsonText::decode).transpose();
        value.map_err(|error| ContextError {
            name: T::NAME,
            reason: error.to_string(),
        })
    }

    /// Returns all that is kept.
    #[must_use]
    pub fn stored_values(&self) -> StoredValues {
        let contents = self.0.as_ref();
        contents.map_or_else(StoredValues::new, |contents| contents.stored.clone())
    }

    /// Returns who asks; `None` where there is only one user, or nobody said.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.0.as_ref()?.owner.as_deref()
    }

    /// Tells whether who asks is said to be [none of the owners](Self::unowned) there are.
    #[must_use]
    pub fn is_unowned(&self) -> bool {
        self.0.as_ref().is_some_and(|contents| contents.is_unowned)
    }

    /// Returns the id by which the request is known outside; `None` where nobody named one, and once a run was taken up again.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.0.as_ref()?.request_id.as_deref()
    }

    /// Returns who is asked about the calls of this request; the engine's approver if `None`.
    #[must_use]
    pub fn approver(&self) -> Option<&Arc<dyn Approver>> {
        self.0.as_ref()?.approver.as_ref()
    }

    /// Returns how long questions of its tools wait for an answer from outside; `None` if others are asked.
    #[must_use]
    pub fn questions_open_for(&self) -> Option<Duration> {
        self.0.as_ref()?.questions_open_for
    }

    /// Returns the value of a type; `None` if none was given, which is always so once a run was taken up again without it.
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
    /// Shows who asks and how many values there are, but none of them: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |contents: &Arc<Contents>| contents.values.len() + contents.stored.len();
        let values = self.0.as_ref().map_or(0, count);
        f.debug_struct("RequestContext")
            .field("owner", &self.owner())
            .field("values", &values)
            .finish()
    }
}
