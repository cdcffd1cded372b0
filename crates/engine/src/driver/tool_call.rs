//! Performs tool calls.

use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use neuraxis_core::{
    AgentId, Attempt, BlockIndex, FIND_TOOLS, Input, JsonText, LiveBody, ProgressSteps, RunTool,
    ToolCallId, ToolFailure, ToolFinished, ToolKind, ToolOutcome, ToolOutput, ToolSpec,
};
use neuraxis_ports::{
    Approver, HookedCall, Progress, ProgressSink, QuestionSender, StoreError, Tool, ToolContext,
    ToolHook,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::catalog::ToolCatalog;
use crate::driver::Driver;
use crate::driver::hooks::after;
use crate::driver::long_result::ResultCut;
use crate::driver::tool_questions::{Answerer, Asking};
use crate::driver::under_way::Work;
use crate::feed::{CallBuffer, Feed, LiveCall, LiveText};
use crate::tool_search;

/// The result of a call that delivered the answer. The answer itself is in its arguments.
const DELIVERED: &str = r#"{"delivered":true}"#;

impl Driver {
    /// Returns whether a tool was supplied by the client with its request: the client runs it, and the catalog does not
    /// contain it.
    pub(super) fn is_client_tool(&self, agent: AgentId, tool: &str) -> bool {
        let of_client = |spec: &ToolSpec| spec.kind == ToolKind::Client;
        let mut offered = self.tree.tools(agent).iter();
        let offered = offered.find(|spec| spec.name.as_str() == tool && of_client(spec));
        offered.is_some_and(|spec| {
            let known = self.catalog.tool(&spec.name);
            !known.is_some_and(|known| of_client(known.spec()))
        })
    }

    /// Returns whether a call finds other tools of its agent.
    pub(super) fn is_search(&self, agent: AgentId, tool: &str) -> bool {
        tool == FIND_TOOLS && self.tree.agent_spec(agent).is_searched_by(tool)
    }

    /// Answers a call that the loop itself runs; `None` for a call of a tool.
    fn outcome_of_loop(&self, run: &RunTool) -> Option<ToolOutcome> {
        if self.is_delivery(run.agent, run.name.as_str()) {
            let delivered = ToolOutput::new(JsonText::from_text(DELIVERED));
            return Some(ToolOutcome::done(delivered));
        }
        let is_search = self.is_search(run.agent, run.name.as_str());
        let spec = self.tree.agent_spec(run.agent);
        is_search.then(|| tool_search::find(spec, &run.arguments, self.room(run)))
    }

    pub(super) fn run_tool(&mut self, run: RunTool) {
        if let Some(outcome) = self.outcome_of_loop(&run) {
            self.ready
                .push_back(finished(&run, outcome, Duration::ZERO));
            return;
        }
        let Some(tool) = self.tool(&run) else {
            let outcome = ToolOutcome::failed(ToolFailure::UnknownTool, "the tool is gone");
            self.ready
                .push_back(finished(&run, outcome, Duration::ZERO));
            return;
        };
        let reports = self.reports(&run);
        let mut ctx = self.tool_context(&run, Arc::clone(&reports));
        let asking = self.asking(&reports, &ctx.cancellation);
        ctx.questions = QuestionSender::to(Arc::clone(&asking) as Arc<dyn Approver>);
        let (effect_id, cancellation) = (run.effect_id, ctx.cancellation.clone());
        let given_up = cancellation.clone();
        let permits = Arc::clone(&self.engine.tool_permits);
        let hooked = self.hooked(&run, tool.as_ref(), &ctx).map(Box::new);
        let cut = ResultCut::of(self, &run, tool.spec());
        let journal = Arc::clone(&self.journal);
        let (arguments, timeout) = (run.arguments.clone(), run.timeout);
        // Boxed separately: it is most of a call's size, and would otherwise be stored twice while it is awaited.
        let mut called = Box::pin(ToolCatalog::run(tool, arguments, ctx, timeout));
        let mut call: BoxFuture<'static, Result<Input, StoreError>> = Box::pin(async move {
            // Waiting for a permit does not count toward the tool's time. The semaphore is never closed.
            let permit = given_up.run_until_cancelled(permits.acquire_owned()).await;
            let permit = permit.and_then(Result::ok);
            let held = permit.map(|permit| asking.hold(permit));
            if !given_up.is_cancelled() {
                journal.hold().await?;
            }
            // The call already has its result and must not begin.
            if given_up.is_cancelled() {
                return Ok(finished(&run, not_begun(), Duration::ZERO));
            }
            let started = Instant::now();
            let outcome = match futures_util::poll!(&mut called) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => {
                    reports.started();
                    called.await
                }
            };
            drop(held);
            let took = started.elapsed();
            if outcome.failure == Some(ToolFailure::Timeout) {
                tracing::warn!(run = %journal.run_id, tool = %run.name, "a tool took too long, and its call was stopped");
            }
            // The result of a stopped call is not read.
            let hooked = hooked.filter(|_| outcome.failure != Some(ToolFailure::Cancelled));
            let outcome = match hooked {
                Some(hooked) => {
                    let (hooks, call) = *hooked;
                    Box::pin(after(&hooks, &call, outcome)).await
                }
                None => outcome,
            };
            let outcome = cut.fit(outcome).await?;
            Ok(finished(&run, outcome, took))
        });
        // Many tools answer immediately; their calls never enter the set of awaited work.
        match (&mut call).now_or_never() {
            Some(Ok(answer)) => self.ready.push_back(answer),
            Some(Err(error)) => self.lose(error),
            None => {
                self.running.push((effect_id, cancellation));
                let over = |answer: Result<Input, StoreError>| match answer {
                    Ok(answer) => Work::Answer(Box::new(answer)),
                    Err(error) => Work::Lost(error),
                };
                self.work.push(Box::pin(call.map(over)));
            }
        }
    }

    /// Creates what asks the questions of a call: of the followers of the run, if the request, or else the engine, is
    /// set up so (the engine's setting does not apply if the request has its own approver); otherwise of the approver.
    fn asking(&self, reports: &Arc<Reports>, cancellation: &CancellationToken) -> Arc<Asking> {
        let request = &self.scope.request;
        let of_engine = self.engine.questions_open_for;
        let of_engine = of_engine.filter(|_| request.approver().is_none());
        let answerer = match request.questions_open_for().or(of_engine) {
            Some(open_for) => Answerer::Followers(open_for),
            None => {
                let approver = request.approver().unwrap_or(&self.engine.approver);
                Answerer::Approver(Arc::clone(approver))
            }
        };
        let cancellation = cancellation.clone();
        Arc::new(Asking::new(&self.engine, reports, answerer, cancellation))
    }

    /// Describes a call to the hooks that inspect its result, if there are any.
    fn hooked(
        &self,
        run: &RunTool,
        tool: &dyn Tool,
        ctx: &ToolContext,
    ) -> Option<(Vec<Arc<dyn ToolHook>>, HookedCall)> {
        let hooks = self.tool_hooks(run.agent);
        if hooks.is_empty() {
            return None;
        }
        let (id, arguments) = (run.tool_call_id.clone(), run.arguments.clone());
        let call = HookedCall::new(ctx.turn.clone(), id, tool.spec().clone(), arguments);
        Some((hooks, call))
    }

    fn reports(&self, run: &RunTool) -> Arc<Reports> {
        let call = LiveCall {
            effect_id: run.effect_id,
            content_index: run.content_index,
            run_id: self.scope.run_id,
            agent: run.agent,
        };
        let feed = Arc::clone(&self.journal.feed);
        feed.begin(run.effect_id);
        Arc::new(Reports {
            feed,
            call,
            attempt: run.attempt,
            tool_call_id: run.tool_call_id.clone(),
            name: run.name.shared(),
            buffer: OnceLock::new(),
        })
    }

    fn tool_context(&self, run: &RunTool, reports: Arc<Reports>) -> ToolContext {
        let turn = self.turn_context(run.agent, run.turn);
        let mut ctx = ToolContext::new(turn, run.tool_call_id.clone(), run.effect_id);
        ctx.project_id = self.engine.project_id.clone();
        ctx.attempt = run.attempt;
        let trace = self.scope.trace.as_ref();
        ctx.trace = trace.map(|trace| trace.at(run.effect_id.span_id()));
        ctx.progress = Progress::to(reports);
        ctx
    }
}

/// The outcome of a call that was abandoned while it waited for a permit.
fn not_begun() -> ToolOutcome {
    ToolOutcome::failed(ToolFailure::Cancelled, "the call was cancelled")
}

fn finished(run: &RunTool, outcome: ToolOutcome, duration: Duration) -> Input {
    Input::ToolFinished(ToolFinished {
        effect_id: run.effect_id,
        attempt: run.attempt,
        outcome,
        duration,
        by: None,
    })
}

/// Shows that a tool is working, and its reports. For a tool that answers immediately there is nothing to show except
/// its records.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) feed: Arc<Feed>,
    pub(super) call: LiveCall,
    attempt: Attempt,
    pub(super) tool_call_id: ToolCallId,
    name: Arc<str>,
    /// Created when there is something to show.
    buffer: OnceLock<Arc<CallBuffer>>,
}

impl Reports {
    fn started(&self) {
        // A buffer begins with the start of the call.
        let _ = self.buffer();
        self.feed.grown();
    }

    pub(super) fn show(&self, body: LiveBody) {
        self.buffer().event(self.attempt, body);
        self.feed.grown();
    }

    /// Returns the buffer, which begins with the start of the call.
    fn buffer(&self) -> &CallBuffer {
        self.buffer.get_or_init(|| {
            let buffer = self.feed.buffer(self.call);
            let start = LiveBody::ToolStart {
                tool_call_id: self.tool_call_id.clone(),
                name: Arc::clone(&self.name),
            };
            buffer.event(self.attempt, start);
            buffer
        })
    }
}

impl ProgressSink for Reports {
    fn progress(&self, name: &str, icon: Option<&str>, steps: Option<ProgressSteps>) {
        self.show(LiveBody::ToolProgress {
            tool_call_id: self.tool_call_id.clone(),
            name: name.to_owned(),
            icon: icon.map(str::to_owned),
            steps,
        });
    }

    fn output(&self, text: &str) {
        let kind = LiveText::ToolOutput {
            tool_call_id: self.tool_call_id.clone(),
        };
        self.buffer().text(self.attempt, BlockIndex(0), kind, text);
        self.feed.grown();
    }
}
