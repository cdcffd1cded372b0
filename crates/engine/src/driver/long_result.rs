//! Makes the results of tools fit the models that read them, and stores what is cut out before anything names it.

use std::sync::Arc;

use neuraxis_core::{
    MAX_ERROR_CHARS, Message, READ_OUTPUT, RunTool, ToolCallId, ToolOutcome, ToolSpec,
};
use neuraxis_ports::{LongOutput, StoreError, Tool};

use crate::driver::Driver;
use crate::driver::journal::Journal;
use crate::long_result::reach::Reach;
use crate::long_result::read_output::ReadOutput;
use crate::long_result::{Fate, LongResult, ResultBounds};

/// The size in bytes from which a value is split up on a thread that may block for a while.
const SLOW_BYTES: usize = 256 * 1024;

/// The maximum size in bytes of a result that is the answer of its agent: the user gets it, and no model reads it
/// first.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// What is needed to make the result of one call fit.
pub(super) struct ResultCut {
    journal: Arc<Journal>,
    call: ToolCallId,
    tool: Arc<str>,
    /// The maximum size of its value in bytes.
    most: usize,
    bounds: ResultBounds,
    /// Whether the agent is offered the tool that reads the rest.
    has_reader: bool,
    /// Whether the result is untrusted content.
    untrusted: bool,
}

impl Driver {
    /// Returns the tool that runs a call. The tool that reads long results is given what this run may read.
    pub(super) fn tool(&self, run: &RunTool) -> Option<Arc<dyn Tool>> {
        let tool = self.catalog.tool(&run.name)?;
        let session = self.scope.session_id.clone();
        let is_reader = run.name.as_str() == READ_OUTPUT;
        Some(match (session, self.journal.store()) {
            (Some(session), Some(store)) if is_reader => {
                let most = self.room(run);
                let reach = Reach {
                    store,
                    session,
                    most,
                };
                Arc::new(ReadOutput::reaching(tool.spec(), reach))
            }
            _ => Arc::clone(tool),
        })
    }

    /// Returns the maximum size of the result of a call in bytes.
    pub(super) fn room(&self, run: &RunTool) -> usize {
        let spec = self.tree.agent_spec(run.agent);
        if spec.profile.stop_after.contains(&run.name) {
            return MAX_ANSWER_BYTES;
        }
        // The calling reply is the last one while its calls are in progress, and the next request holds all their
        // results.
        let transcript = self.tree.transcript_of(run.agent);
        let mut latest_first = transcript.messages().iter().rev();
        let reply = latest_first.find(|message| matches!(***message, Message::Assistant(_)));
        let results = reply.map_or(1, |reply| reply.tool_calls().count());
        let room = spec.room_for_results();
        self.engine.result_bounds.for_context(room, results)
    }
}

impl ResultCut {
    pub(super) fn of(driver: &Driver, run: &RunTool, spec: &ToolSpec) -> Self {
        let offered = driver.tree.tools(run.agent);
        let is_governed = driver.scope.decision.is_some();
        Self {
            journal: Arc::clone(&driver.journal),
            call: run.tool_call_id.clone(),
            tool: run.name.shared(),
            most: driver.room(run),
            bounds: driver.engine.result_bounds,
            has_reader: offered.iter().any(|tool| tool.name.as_str() == READ_OUTPUT),
            untrusted: is_governed && driver.engine.policy.brings_untrusted(spec, &run.arguments),
        }
    }

    /// Returns an outcome unchanged if it is short enough; otherwise stores it, and returns what a model reads of it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`]: the run is lost to this process.
    pub(super) async fn fit(self, outcome: ToolOutcome) -> Result<ToolOutcome, StoreError> {
        match self.bound_exceeded_by(&outcome) {
            None => Ok(outcome),
            // Boxed, so that calls with short results reserve no space for it.
            Some(most) => Box::pin(self.cut(outcome, most)).await,
        }
    }

    /// Returns the maximum size of an outcome in bytes, if the outcome exceeds it.
    fn bound_exceeded_by(&self, outcome: &ToolOutcome) -> Option<usize> {
        let value = outcome.output.value.as_str();
        let most = match outcome.is_done() {
            true => self.most,
            false if is_short_error(value) => return None,
            false => MAX_ERROR_CHARS,
        };
        (value.len() > most && &*self.tool != READ_OUTPUT).then_some(most)
    }

    /// Stores an outcome, and returns what a model reads of it.
    async fn cut(self, mut outcome: ToolOutcome, most: usize) -> Result<ToolOutcome, StoreError> {
        let value = outcome.output.value.clone().into_value();
        let most_kept = self.bounds.max_kept_bytes();
        let is_slow = value.as_str().len() > SLOW_BYTES;
        let taken_apart = move || LongResult::of(&value, most, most_kept);
        let long = match is_slow {
            true => tokio::task::spawn_blocking(taken_apart)
                .await
                .ok()
                .flatten(),
            false => taken_apart(),
        };
        let Some(long) = long else {
            return Ok(outcome);
        };
        let output = LongOutput::new(self.call.clone(), self.tool, long.whole());
        let output = output.untrusted(self.untrusted);
        let fate = match self.journal.keep_output(&output).await? {
            Fate::Readable if !self.has_reader => Fate::Kept,
            fate => fate,
        };
        outcome.output.value = long.value(&self.call, fate);
        Ok(outcome)
    }
}

/// Returns whether an error has no more characters than a model reads of one.
fn is_short_error(value: &str) -> bool {
    let most = MAX_ERROR_CHARS + r#"{"error":""}"#.len();
    value.len() <= most || value.chars().nth(most).is_none()
}
