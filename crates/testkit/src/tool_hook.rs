//! A hook around tool calls that gives scripted answers.

use std::sync::Mutex;

use neuraxis_core::ToolOutcome;
use neuraxis_ports::{AfterCall, BeforeCall, HookedCall, ToolHook, async_trait};

use crate::scripted::{Answers, lock};

/// Gives answers in order, separately for calls and results, and records what it was asked about. When no answers are
/// left, it changes nothing.
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
    before: Answers<BeforeCall>,
    after: Answers<AfterCall>,
    seen: Mutex<Vec<HookedCall>>,
    results: Mutex<Vec<ToolOutcome>>,
}

impl ScriptedToolHook {
    /// Creates a hook without answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives this answer about the next call.
    #[must_use]
    pub fn before(self, answer: BeforeCall) -> Self {
        self.before.says(answer);
        self
    }

    /// Panics at the next call.
    #[must_use]
    pub fn panic_before(self) -> Self {
        self.before.panic();
        self
    }

    /// Never answers about the next call.
    #[must_use]
    pub fn stay_silent(self) -> Self {
        self.before.silence();
        self
    }

    /// Gives this answer about the next result.
    #[must_use]
    pub fn after(self, answer: AfterCall) -> Self {
        self.after.says(answer);
        self
    }

    /// Panics at the next result.
    #[must_use]
    pub fn panic_after(self) -> Self {
        self.after.panic();
        self
    }

    /// Returns the calls that the hook was asked about before they were checked.
    #[must_use]
    pub fn seen(&self) -> Vec<HookedCall> {
        lock(&self.seen).clone()
    }

    /// Returns the results that the hook was shown.
    #[must_use]
    pub fn results(&self) -> Vec<ToolOutcome> {
        lock(&self.results).clone()
    }
}

#[async_trait]
impl ToolHook for ScriptedToolHook {
    async fn before(&self, call: &HookedCall) -> BeforeCall {
        lock(&self.seen).push(call.clone());
        self.before.next(BeforeCall::Continue).await
    }

    async fn after(&self, _call: &HookedCall, outcome: &ToolOutcome) -> AfterCall {
        lock(&self.results).push(outcome.clone());
        self.after.next(AfterCall::Keep).await
    }
}
