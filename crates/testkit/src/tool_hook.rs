//! A hook around tool calls that says what it was told to say.

use std::collections::VecDeque;
use std::future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuraxis_core::ToolOutcome;
use neuraxis_ports::{AfterCall, BeforeCall, HookedCall, ToolHook, async_trait};

/// Gives answers in order, those before calls and those after them apart, and remembers what it was asked about. Out of
/// answers, it lets calls and results be as they are.
///
/// ```
/// use neuraxis_ports::BeforeCall;
/// use neuraxis_testkit::ScriptedToolHook;
///
/// let hook = ScriptedToolHook::new().before(BeforeCall::Continue).before(BeforeCall::refuse("no")).panic_before();
/// assert!(hook.seen().is_empty());
/// ```
#[derive(Debug, Default)]
pub struct ScriptedToolHook {
    before: Mutex<VecDeque<Answer<BeforeCall>>>,
    after: Mutex<VecDeque<Answer<AfterCall>>>,
    seen: Mutex<Vec<HookedCall>>,
    results: Mutex<Vec<ToolOutcome>>,
}

#[derive(Debug)]
enum Answer<T> {
    Says(T),
    Panic,
    Silence,
}

impl ScriptedToolHook {
    /// Makes one that has nothing to say.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says this about the next call.
    #[must_use]
    pub fn before(self, answer: BeforeCall) -> Self {
        lock(&self.before).push_back(Answer::Says(answer));
        self
    }

    /// Panics at the next call.
    #[must_use]
    pub fn panic_before(self) -> Self {
        lock(&self.before).push_back(Answer::Panic);
        self
    }

    /// Never answers about the next call.
    #[must_use]
    pub fn stay_silent(self) -> Self {
        lock(&self.before).push_back(Answer::Silence);
        self
    }

    /// Says this about the next result.
    #[must_use]
    pub fn after(self, answer: AfterCall) -> Self {
        lock(&self.after).push_back(Answer::Says(answer));
        self
    }

    /// Panics at the next result.
    #[must_use]
    pub fn panic_after(self) -> Self {
        lock(&self.after).push_back(Answer::Panic);
        self
    }

    /// Returns the calls it was asked about before they were checked.
    #[must_use]
    pub fn seen(&self) -> Vec<HookedCall> {
        lock(&self.seen).clone()
    }

    /// Returns the results it was shown.
    #[must_use]
    pub fn results(&self) -> Vec<ToolOutcome> {
        lock(&self.results).clone()
    }
}

#[async_trait]
impl ToolHook for ScriptedToolHook {
    async fn before(&self, call: &HookedCall) -> BeforeCall {
        lock(&self.seen).push(call.clone());
        let answer = lock(&self.before).pop_front();
        given(answer, BeforeCall::Continue).await
    }

    async fn after(&self, _call: &HookedCall, outcome: &ToolOutcome) -> AfterCall {
        lock(&self.results).push(outcome.clone());
        let answer = lock(&self.after).pop_front();
        given(answer, AfterCall::Keep).await
    }
}

#[expect(clippy::panic, reason = "a hook that panics is what the test asks for")]
async fn given<T>(answer: Option<Answer<T>>, otherwise: T) -> T {
    match answer {
        Some(Answer::Says(answer)) => answer,
        Some(Answer::Panic) => panic!("as the test wants it"),
        Some(Answer::Silence) => future::pending().await,
        None => otherwise,
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
