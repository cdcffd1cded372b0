//! The adapter follows the rules of its port with a real server.

use std::net::{Ipv4Addr, TcpListener};

use futures_util::StreamExt;
use neuraxis_core::{LlmError, Message, ModelRequest, Reply, ReplyDelta, ReplyPart};
use neuraxis_llama::{LlamaClient, LlamaConfig};
use neuraxis_ports::{CallContext, LlmClient, ModelInfo, ReplyStream, async_trait};
use neuraxis_testkit::conformance::llm_client::{self as rules, Subject};
use neuraxis_testkit::request;

use crate::running::Running;
use crate::with_tools;

/// The client, but without the ids of calls: the server creates new ones every time, and the rules require the same
/// reply twice.
#[derive(Debug)]
struct WithoutIds(LlamaClient);

#[async_trait]
impl LlmClient for WithoutIds {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        let mut reply = self.0.respond(request, ctx).await?;
        for part in &mut reply.parts {
            if let ReplyPart::ToolCall(call) = part {
                assert!(call.provider_id.take().is_some());
            }
        }
        Ok(reply)
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let stream = self.0.stream_respond(request, ctx).await?;
        Ok(Box::pin(stream.map(|delta| {
            let mut delta = delta?;
            if let ReplyDelta::ToolCall { provider_id, .. } = &mut delta {
                *provider_id = None;
            }
            Ok(delta)
        })))
    }

    fn info(&self) -> ModelInfo {
        self.0.info()
    }
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn the_client_follows_the_rules_of_the_port() {
    // Without its cache, the server counts the same every time.
    let server = Running::start(&["--no-cache-prompt"]);
    // Accepts connections, but never answers.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let subject = || {
        let requests = [
            request("hello"),
            request("think"),
            request("long"),
            with_tools([Message::user("look around")]),
            with_tools([Message::user("think about two calls")]),
        ];
        let stalled = LlamaClient::new(LlamaConfig::new(&silent_url)).unwrap();
        Subject::new(WithoutIds(server.client()), requests).with_stalled(stalled)
    };
    rules::a_streamed_reply_is_the_same_as_a_whole_one(subject()).await;
    rules::a_stream_has_exactly_one_end_as_its_last_item(subject()).await;
    rules::a_call_cancelled_before_it_starts_returns_a_cancelled_error(subject()).await;
    rules::a_stream_cancelled_midway_ends_with_a_cancelled_error(subject()).await;
    rules::a_call_cancelled_while_it_waits_returns_a_cancelled_error(subject()).await;
    rules::a_dropped_call_leaves_the_client_usable(subject()).await;
    rules::a_stream_dropped_midway_leaves_the_client_usable(subject()).await;
    rules::concurrent_calls_each_return_their_own_reply(subject()).await;
    rules::the_model_info_does_not_change_and_replies_name_its_provider(subject()).await;
}
