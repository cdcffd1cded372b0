//! A hook around model calls that says what it was told to say.

use std::sync::Mutex;

use neuraxis_ports::{
    AfterModel, BeforeModel, HookTiming, HookedReply, HookedRequest, ModelHook, async_trait,
};

use crate::scripted::{Answers, lock};

/// Gives answers in order, those about requests and those about replies apart, and remembers what it was asked about. Out of
/// answers, it lets requests and replies be as they are.
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
    /// Makes one that has nothing to say.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says this about the next request.
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

    /// Says this about the next reply.
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

    /// Looks at the first request while the model works on it already.
    #[must_use]
    pub const fn alongside(mut self) -> Self {
        self.timing = HookTiming::Alongside;
        self
    }

    /// Lets nobody read text before it was asked about it.
    #[must_use]
    pub const fn holding_text(mut self) -> Self {
        self.holds_text = true;
        self
    }

    /// Returns the requests it was asked about.
    #[must_use]
    pub fn requests(&self) -> Vec<HookedRequest> {
        lock(&self.requests).clone()
    }

    /// Returns the replies it was asked about.
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

    fn lets_text_stream(&self) -> bool {
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
