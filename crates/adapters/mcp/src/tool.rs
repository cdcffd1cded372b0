//! A tool of a server, as the engine calls it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use neuraxis_core::{ContentHash, JsonText, ToolClass, ToolOutput, ToolSpec, TraceContext};
use neuraxis_ports::{Tool, ToolContext, ToolError, async_trait};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientRequest, ErrorCode, InputResponses, RequestId,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config::Transport;
use crate::definition::Definition;
use crate::error::{broke_off, is_disconnected, is_refused, is_unread, of_service};
use crate::handler;
use crate::result;
use crate::server::Shared;

/// The maximum number of times that a server may ask for input within a call.
const MAX_ROUNDS: usize = 10;

/// What is reported about a server whose answer cannot be read.
const NO_RESULT: &str = "answered with something that is not a tool result";

/// A tool of a server.
pub(crate) struct McpTool {
    spec: ToolSpec,
    remote: Arc<str>,
    hash: ContentHash,
    shared: Arc<Shared>,
}

/// A server's answer to a call.
enum Answer {
    Done(CallToolResult),
    /// The server needs more input first.
    InputRequired(InputRequired),
}

/// What a server needs before it continues with a call. The questions are kept unparsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    input_requests: Option<BTreeMap<String, InputRequest>>,
    request_state: Option<String>,
}

impl InputRequired {
    fn is_present(&self) -> bool {
        self.input_requests.is_some() || self.request_state.is_some()
    }
}

/// One request for input.
#[derive(Deserialize)]
struct InputRequest {
    method: String,
    #[serde(default)]
    params: Value,
}

impl McpTool {
    pub(crate) fn new(definition: &Definition, shared: &Arc<Shared>) -> Self {
        Self {
            spec: definition.spec.clone(),
            remote: Arc::clone(&definition.remote),
            hash: definition.hash,
            shared: Arc::clone(shared),
        }
    }

    async fn ask(
        &self,
        peer: &Peer<RoleClient>,
        params: CallToolRequestParams,
        ctx: &ToolContext,
    ) -> Result<Answer, ToolError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut options = PeerRequestOptions::no_options();
        options.meta = request_meta(ctx.trace.as_ref(), peer);
        let sent = peer.send_cancellable_request(request, options);
        let handle = sent.await.map_err(|error| self.failed(&error, ctx))?;
        let _open = self.shared.calls.open(handle.progress_token.clone(), ctx);
        let abandoned = CancelOnDrop::of(peer, handle.id.clone());
        let answer = handle.await_response().await;
        abandoned.disarm();
        match answer.map_err(|error| self.failed(&error, ctx))? {
            ServerResult::CallToolResult(result) => Ok(Answer::Done(result)),
            ServerResult::InputRequiredResult(asks) => self.read(serde_json::to_value(asks)?),
            ServerResult::EmptyResult(_) => Ok(Answer::Done(CallToolResult::success(Vec::new()))),
            ServerResult::CreateTaskResult(_) => Err(self.error(
                "turned the call into a background task, which was not requested: its result will not be known",
            )),
            ServerResult::CustomResult(answer) => self.read(answer.0),
            _ => Err(self.error(NO_RESULT)),
        }
    }

    /// Parses an answer that the protocol library may have no type for.
    fn read(&self, answer: Value) -> Result<Answer, ToolError> {
        let result_type = answer.get("resultType").and_then(Value::as_str);
        let read = match result_type {
            Some("input_required") => {
                let required = serde_json::from_value(answer).ok();
                required
                    .filter(InputRequired::is_present)
                    .map(Answer::InputRequired)
            }
            _ => result::in_blocks(answer).map(Answer::Done),
        };
        read.ok_or_else(|| self.error(NO_RESULT))
    }

    /// Answers a server's requests for input, and returns the parameters of the call that continues.
    async fn answered(
        &self,
        params: CallToolRequestParams,
        required: InputRequired,
        ctx: &ToolContext,
    ) -> Result<CallToolRequestParams, ToolError> {
        let requests = required.input_requests.unwrap_or_default();
        if requests.len() > handler::MAX_QUESTIONS {
            return Err(self.error(handler::TOO_MANY_QUESTIONS));
        }
        let mut responses = InputResponses::new();
        for (id, request) in requests {
            if request.method != handler::ELICITATION {
                return Err(self.error("asks for something that it was not offered"));
            }
            let notices = &self.shared.notices;
            let recipient = handler::QuestionRecipient::User(&ctx.questions);
            let answer = handler::ask(notices, recipient, &request.params).await;
            responses.insert(id, serde_json::to_value(answer)?);
        }
        let mut params = params.with_input_responses(responses);
        params.request_state = required.request_state;
        Ok(params)
    }

    fn error(&self, what: &str) -> ToolError {
        ToolError::permanent(format!("MCP server {} {what}", self.shared.config.name))
    }

    /// Returns what is known of a call that did not reach the server: `of_first` for a first attempt, or that an
    /// earlier attempt may have reached it.
    fn known_outcome(&self, ctx: &ToolContext, of_first: &'static str) -> &'static str {
        match ctx.attempt.0 > 1 && self.spec.class != ToolClass::ReadOnly {
            true => "it is unknown whether an earlier attempt of the call took effect",
            false => of_first,
        }
    }

    /// Returns why a call failed. The server's own error message is meant for the model.
    fn failed(&self, error: &ServiceError, ctx: &ToolContext) -> ToolError {
        let server = &self.shared.config.name;
        let why = of_service(error, &self.shared.notices.secrets);
        if is_disconnected(error) {
            // The end of a program is noticed separately.
            if matches!(self.shared.config.transport, Transport::Http(_)) {
                self.shared.report_lost(&why);
            }
            let known = self.known_outcome(ctx, "the call did not reach it");
            return ToolError::temporary(format!(
                "MCP server {server} is gone ({why}): {known}. Try again later or continue without it"
            ));
        }
        if !matches!(error, ServiceError::McpError(_)) || is_unread(error) {
            // The answer itself is not logged: it may contain parts of the conversation.
            tracing::warn!(run = %ctx.run_id, tool = %self.spec.name, "a call of an MCP server's tool got no readable answer");
        }
        // For example because a token expired. If it concerns only this tool, nothing else is lost.
        if is_refused(error) {
            self.shared.request_refresh();
        }
        if broke_off(error) {
            return ToolError::new(format!(
                "MCP server {server} broke off during the call ({why}): it is unknown whether the call took effect"
            ));
        }
        if is_unread(error) {
            return ToolError::new(format!(
                "MCP server {server} sent an unreadable answer to the call ({why}): it is unknown whether the call took effect"
            ));
        }
        match error {
            ServiceError::TransportClosed => ToolError::new(format!(
                "MCP server {server} ended during the call: it is unknown whether the call took effect"
            )),
            ServiceError::McpError(refusal) => {
                let message = format!("MCP server {server} refuses the call: {why}");
                match refusal.code {
                    ErrorCode::INVALID_PARAMS
                    | ErrorCode::INVALID_REQUEST
                    | ErrorCode::METHOD_NOT_FOUND => ToolError::permanent(message),
                    _ => ToolError::new(message),
                }
            }
            _ => ToolError::new(format!("the call to MCP server {server} failed: {why}")),
        }
    }
}

impl fmt::Debug for McpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpTool").field(&self.spec.name).finish()
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Map<String, Value> = arguments
            .decode()
            .map_err(|_| ToolError::permanent("the arguments are not a JSON object"))?;
        let peer = self
            .shared
            .peer(self.known_outcome(&ctx, "nothing was done"))
            .await?;
        // It may have changed or disappeared while the run continued with its original tools.
        if !self.shared.offers(&self.remote, self.hash) {
            return Err(self.error("no longer offers this tool, or changed it since the run began"));
        }
        let mut params =
            CallToolRequestParams::new(self.remote.to_string()).with_arguments(arguments);
        for _ in 0..MAX_ROUNDS {
            match self.ask(&peer, params.clone(), &ctx).await? {
                Answer::Done(result) => {
                    return result::output(result, &self.shared.notices.secrets);
                }
                Answer::InputRequired(required) => {
                    params = self.answered(params, required, &ctx).await?;
                }
            }
        }
        Err(self.error("keeps asking questions"))
    }
}

/// Returns the metadata of a request, if there is any.
fn request_meta(
    trace: Option<&TraceContext>,
    peer: &Peer<RoleClient>,
) -> Option<RequestMetaObject> {
    let info = peer.peer_info();
    let is_modern = info.is_some_and(|info| !info.protocol_version.has_initialize());
    let level = is_modern.then(|| handler::log_level(peer)).flatten();
    let meta = trace.map(trace_meta);
    let Some(level) = level else {
        return meta;
    };
    let mut meta = meta.unwrap_or_default();
    meta.set_log_level(level);
    Some(meta)
}

/// Names the call's trace with the keys that the protocol reserves for W3C Trace Context.
fn trace_meta(trace: &TraceContext) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    meta.set_traceparent(trace.to_string());
    if let Some(state) = &trace.state {
        meta.set_tracestate(state.clone());
    }
    meta
}

/// Tells a server that its answer is no longer awaited.
struct CancelOnDrop(Option<(Peer<RoleClient>, RequestId)>);

impl CancelOnDrop {
    fn of(peer: &Peer<RoleClient>, id: RequestId) -> Self {
        Self(Some((peer.clone(), id)))
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some((peer, id)) = self.0.take() else {
            return;
        };
        // Without a runtime, there is no connection any more.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            let reason = Some("the call was cancelled".to_owned());
            let param = CancelledNotificationParam::new(Some(id), reason);
            let cancelled = CancelledNotification::new(param);
            // A server that is gone has nothing to cancel.
            let _ = peer.send_notification(cancelled.into()).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_carries_its_trace_context_under_the_protocol_keys() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace: TraceContext = parent.parse().unwrap();
        let meta = trace_meta(&trace.with_state(Some("vendor=1".to_owned())));
        let expected = serde_json::json!({"traceparent": parent, "tracestate": "vendor=1"});
        assert_eq!(serde_json::to_value(&meta).unwrap(), expected);
    }
}
