//! A hook around model calls that gives scripted answers.

use std::sync::Mutex;

use neuraxis_ports::{
    AfterModel, BeforeModel, HookTiming, HookedReply, HookedRequest, ModelHook, async_trait,
};

use crate::scripted::{Answers, lock};

/// Gives answers in order, separately for requests and replies, and records what it was asked about. When no answers
/// are left, it changes nothing.
///
/// ```
/// use neuraxis_ports::{AfterModel, BeforeModel};
/// use neuraxis_testkit::ScriptedModelHook;
///
/// let hook = ScriptedModelHook::new().before(BeforeModel::note("Be brief.")).after(AfterModel::ask_again("Briefer."));
/// assert!(hook.requests().is_empty());
/// ```
#[derive(Debug, Default)]
pub struct ScriptedModelHook {
    before: Answers<BeforeModel>,
    after: Answers<AfterModel>,
    requests: Mutex<Vec<HookedRequest>>,
    replies: Mutex<Vec<HookedReply>>,
    timing: HookTiming,
    holds_text: bool,
}

impl ScriptedModelHook {
    /// Creates a hook without answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives this answer about the next request.
    #[must_use]
    pub fn before(self, answer: BeforeModel) -> Self {
        self.before.says(answer);
        self
    }

    /// Panics at the next request.
    #[must_use]
    pub fn panic_before(self) -> Self {
        self.before.panic();
        self
    }

    /// Never answers about the next request.
    #[must_use]
    pub fn silent_before(self) -> Self {
        self.before.silence();
        self
    }

    /// Gives this answer about the next reply.
    #[must_use]
    pub fn after(self, answer: AfterModel) -> Self {
        self.after.says(answer);
        self
    }

    /// Panics at the next reply.
    #[must_use]
    pub fn panic_after(self) -> Self {
        self.after.panic();
        self
    }

    /// Never answers about the next reply.
    #[must_use]
    pub fn silent_after(self) -> Self {
        self.after.silence();
        self
    }

    /// Inspects the first request while the model is already working on it.
    #[must_use]
    pub const fn alongside(mut self) -> Self {
        self.timing = HookTiming::Alongside;
        self
    }

    /// Holds text back until the hook has answered about it.
    #[must_use]
    pub const fn holding_text(mut self) -> Self {
        self.holds_text = true;
        self
    }

    /// Returns the requests that the hook was asked about.
    #[must_use]
    pub fn requests(&self) -> Vec<HookedRequest> {
        lock(&self.requests).clone()
    }

    /// Returns the replies that the hook was asked about.
    #[must_use]
    pub fn replies(&self) -> Vec<HookedReply> {
        lock(&self.replies).clone()
    }
}

#[async_trait]
impl ModelHook for ScriptedModelHook {
    fn timing(&self) -> HookTiming {
        self.timing
    }

    fn allows_text_streaming(&self) -> bool {
        !self.holds_text
    }

    async fn before(&self, request: &HookedRequest) -> BeforeModel {
        lock(&self.requests).push(request.clone());
        self.before.next(BeforeModel::Continue).await
    }

    async fn after(&self, reply: &HookedReply) -> AfterModel {
        lock(&self.replies).push(reply.clone());
        self.after.next(AfterModel::Keep).await
    }
}
