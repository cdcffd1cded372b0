//! A `mockall` mock of each port that has a fake, for tests that check which calls are made and in which order.
//!
//! If only the result matters, the fakes of this crate are easier to read.

use std::num::NonZeroU32;
use std::sync::Arc;

use mockall::mock;
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::Carried;
use neuraxis_core::uuid::Uuid;
use neuraxis_core::{
    Advice, AskApproval, Consult, ContentHash, InboxEntry, InputId, JsonText, LlmError,
    ModelRequest, Record, Reply, RunId, Seq, SessionId, SessionMetrics, ToolCallId, ToolName,
    ToolOutcome, ToolOutput, ToolSpec, Transcript,
};
use neuraxis_ports::{
    Advisor, AfterCall, AfterModel, Approver, ApproverReply, BeforeCall, BeforeModel, CallContext,
    ChainHead, Clock, Continuation, HookTiming, HookedCall, HookedReply, HookedRequest, Ids,
    LlmClient, LongOutput, ModelHook, ModelInfo, OutputHead, OutputPage, OutputPlace, Question,
    QuestionReply, ReplyStream, RunFilter, RunLease, RunLog, RunOutputs, RunStart, RunSummary,
    SearchHit, Session, SessionFilter, SessionIndex, SessionSearch, SessionSummary, SessionsFound,
    StoreError, Tool, ToolContext, ToolError, ToolHook, ToolRunner, TraceSink, TurnContext,
    UsageOf, WebSearch, WebSearchError, async_trait,
};

mock! {
    /// A mock of [`LlmClient`].
    #[derive(Debug)]
    pub LlmClient {}

    #[async_trait]
    impl LlmClient for LlmClient {
        async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError>;
        async fn stream_respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<ReplyStream, LlmError>;
        fn info(&self) -> ModelInfo;
    }
}

mock! {
    /// A mock of [`Tool`].
    #[derive(Debug)]
    pub Tool {}

    #[async_trait]
    impl Tool for Tool {
        fn spec(&self) -> &ToolSpec;
        fn should_use(&self, turn: &TurnContext) -> bool;
        async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError>;
    }
}

mock! {
    /// A mock of [`TraceSink`].
    #[derive(Debug)]
    pub TraceSink {}

    impl TraceSink for TraceSink {
        fn record(&self, record: &Arc<Record>);
    }
}

mock! {
    /// A mock of [`SessionStore`](neuraxis_ports::SessionStore).
    #[derive(Debug)]
    pub SessionStore {}

    #[async_trait]
    impl RunLog for SessionStore {
        async fn begin(&self, start: &RunStart) -> Result<RunLease, StoreError>;
        async fn renew(&self, lease: &RunLease) -> Result<(), StoreError>;
        async fn release(&self, lease: &RunLease) -> Result<(), StoreError>;
        async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError>;
        async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError>;
        async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError>;
        async fn post(&self, run: RunId, entry: &InboxEntry) -> Result<(), StoreError>;
        async fn inbox(&self, lease: &RunLease) -> Result<Vec<InboxEntry>, StoreError>;
        async fn settle(&self, lease: &RunLease, ids: &[InputId]) -> Result<(), StoreError>;
    }

    #[async_trait]
    impl RunOutputs for SessionStore {
        async fn keep_output(&self, lease: &RunLease, output: &LongOutput) -> Result<(), StoreError>;
        async fn outputs(&self, run: RunId) -> Result<Vec<OutputHead>, StoreError>;
        async fn output_page(&self, run: RunId, call: &ToolCallId, from: OutputPlace, most: usize) -> Result<OutputPage, StoreError>;
    }

    #[async_trait]
    impl SessionIndex for SessionStore {
        async fn create_session(&self, session: &Session) -> Result<(), StoreError>;
        async fn session(&self, id: &SessionId) -> Result<Session, StoreError>;
        async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError>;
        async fn summaries(&self, filter: &SessionFilter) -> Result<Vec<SessionSummary>, StoreError>;
        async fn search(&self, search: &SessionSearch) -> Result<SessionsFound, StoreError>;
        async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError>;
        async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;
        async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError>;
        async fn continuation(&self, id: &SessionId) -> Result<Continuation, StoreError>;
        async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError>;
        async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError>;
        async fn run(&self, run: RunId) -> Result<RunSummary, StoreError>;
        async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError>;
        async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError>;
        async fn mailed(&self) -> Result<Vec<RunId>, StoreError>;
        async fn metrics(&self, session: &SessionId) -> Result<SessionMetrics, StoreError>;
        async fn usage_since(&self, of: &UsageOf, since: Timestamp) -> Result<SessionMetrics, StoreError>;
        async fn carried(&self, session: &SessionId) -> Result<Carried, StoreError>;
        async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError>;
        async fn verify(&self, session: &SessionId, expect: Option<ContentHash>) -> Result<ChainHead, StoreError>;
    }
}

mock! {
    /// A mock of [`Approver`].
    #[derive(Debug)]
    pub Approver {}

    #[async_trait]
    impl Approver for Approver {
        async fn decide(&self, ask: &AskApproval, turn: &TurnContext) -> ApproverReply;
        async fn answer(&self, question: &Question) -> QuestionReply;
    }
}

mock! {
    /// A mock of [`Advisor`].
    #[derive(Debug)]
    pub Advisor {}

    #[async_trait]
    impl Advisor for Advisor {
        async fn advise(&self, question: &Consult, turn: &TurnContext) -> Advice;
    }
}

mock! {
    /// A mock of [`ModelHook`].
    #[derive(Debug)]
    pub ModelHook {}

    #[async_trait]
    impl ModelHook for ModelHook {
        fn timing(&self) -> HookTiming;
        fn allows_text_streaming(&self) -> bool;
        async fn before(&self, request: &HookedRequest) -> BeforeModel;
        async fn after(&self, reply: &HookedReply) -> AfterModel;
    }
}

mock! {
    /// A mock of [`ToolHook`].
    #[derive(Debug)]
    pub ToolHook {}

    #[async_trait]
    impl ToolHook for ToolHook {
        async fn before(&self, call: &HookedCall) -> BeforeCall;
        async fn after(&self, call: &HookedCall, outcome: &ToolOutcome) -> AfterCall;
    }
}

mock! {
    /// A mock of [`ToolRunner`].
    #[derive(Debug)]
    pub ToolRunner {}

    #[async_trait]
    impl ToolRunner for ToolRunner {
        async fn run_tool(&self, tool: &ToolName, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError>;
    }
}

mock! {
    /// A mock of [`WebSearch`].
    #[derive(Debug)]
    pub WebSearch {}

    #[async_trait]
    impl WebSearch for WebSearch {
        async fn search(&self, query: &str, most: NonZeroU32) -> Result<Vec<SearchHit>, WebSearchError>;
    }
}

mock! {
    /// A mock of [`Clock`].
    #[derive(Debug)]
    pub Clock {}

    impl Clock for Clock {
        fn now(&self) -> Timestamp;
    }
}

mock! {
    /// A mock of [`Ids`].
    #[derive(Debug)]
    pub Ids {}

    impl Ids for Ids {
        fn new_id(&self) -> Uuid;
    }
}
