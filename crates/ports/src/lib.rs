//! The ports of Neuraxis: what the engine needs from the outside, as small object-safe traits.
//!
//! **For** writing an adapter (implement one trait) or an embedding (supply your own). Each trait's documentation
//! states who retries a failed call, what cancellation does and which order is guaranteed. `neuraxis-testkit` has fakes
//! and mocks of most traits, and the conformance suites that adapters must pass.
//!
//! **Not for** behavior: the only implementations here are trivial defaults.
//!
//! ```
//! use neuraxis_core::{JsonText, ToolOutput, ToolSpec};
//! use neuraxis_ports::{Tool, ToolContext, ToolError, async_trait};
//!
//! #[derive(Debug)]
//! struct Greet(ToolSpec);
//!
//! #[async_trait]
//! impl Tool for Greet {
//!     fn spec(&self) -> &ToolSpec {
//!         &self.0
//!     }
//!
//!     async fn call(&self, _arguments: JsonText, _ctx: ToolContext) -> Result<ToolOutput, ToolError> {
//!         Ok(ToolOutput::new(JsonText::string("hello")))
//!     }
//! }
//! ```

mod advisor;
mod approver;
mod clock;
mod dispatcher;
mod ids;
mod live_feed;
mod llm;
mod model_hook;
mod provider;
mod question;
mod request_context;
mod secret;
mod store;
mod tool;
mod tool_hook;
mod tool_runner;
mod tool_source;
mod trace;
mod web_search;

pub use async_trait::async_trait;
pub use futures_core::Stream;
pub use tokio_util::sync::CancellationToken;

pub use advisor::Advisor;
pub use approver::{Approver, ApproverReply};
pub use clock::Clock;
pub use dispatcher::{DispatchError, RunDispatcher};
pub use ids::Ids;
pub use live_feed::{LiveFeed, LiveFeedError, LiveInbox, LiveNews, LiveRecipient};
pub use llm::{CallContext, LlmClient, ModelInfo, ReplyStream, whole_reply};
pub use model_hook::{AfterModel, BeforeModel, HookTiming, HookedReply, HookedRequest, ModelHook};
pub use neuraxis_core::{
    Field, FieldChoice, FieldKind, InvalidTraceParent, Question, Required, TraceContext,
};
pub use provider::{
    ConnectContext, ConnectError, Connection, KeyDiscovery, ModelSource, OfferedModels, Provider,
    ProviderKind, Readiness, Shared,
};
pub use question::{QuestionReply, QuestionSender};
pub use request_context::{ContextError, RequestContext, StoredContext, StoredValues};
pub use secret::Secret;
pub use store::{
    ChainHead, Continuation, Ending, ExpectedHead, KeyedRequest, LastRun, LongOutput,
    MAX_INBOX_ENTRIES, MAX_INPUT_BYTES, MAX_INPUT_ID_BYTES, MAX_OWNER_BYTES, MAX_TITLE_CHARS,
    MessageMatch, OutputChunk, OutputHead, OutputPage, OutputPlace, RunBounds, RunFilter, RunLease,
    RunLog, RunOutputs, RunSize, RunStart, RunSummary, SearchExtent, Session, SessionCursor,
    SessionFilter, SessionIndex, SessionOrder, SessionSearch, SessionStore, SessionSummary,
    SessionsFound, StatsFilter, StoreError, UsageOf, check_input, check_title, output_chunks,
};
pub use tool::{
    Isolation, Persistence, Progress, ProgressSink, Tool, ToolContext, ToolError, TurnContext,
};
pub use tool_hook::{AfterCall, BeforeCall, HookedCall, ToolHook};
pub use tool_runner::ToolRunner;
pub use tool_source::ToolSource;
pub use trace::{SPAN_TARGET, TraceSink};
pub use web_search::{SearchHit, WebSearch, WebSearchError};
