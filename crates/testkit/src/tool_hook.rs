//! A hook around tool calls that says what it was told to say.

use std::sync::Mutex;

use neuraxis_core::ToolOutcome;
use neuraxis_ports::{AfterCall, BeforeCall, HookedCall, ToolHook, async_trait};

use crate::scripted::{Answers, lock};

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
    before: Answers<BeforeCall>,
    after: Answers<AfterCall>,
    seen: Mutex<Vec<HookedCall>>,
    results: Mutex<Vec<ToolOutcome>>,
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

    /// Says this about the next result.
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
        self.before.next(BeforeCall::Continue).await
    }

    async fn after(&self, _call: &HookedCall, outcome: &ToolOutcome) -> AfterCall {
        lock(&self.results).push(outcome.clone());
        self.after.next(AfterCall::Keep).await
    }
}
