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
    rules::a_stream_ends_once_and_nothing_follows(subject()).await;
    rules::a_call_cancelled_from_the_start_is_cancelled(subject()).await;
    rules::a_stream_cancelled_midway_is_cancelled(subject()).await;
    rules::a_call_cancelled_while_it_waits_is_cancelled(subject()).await;
    rules::dropping_a_call_does_no_harm(subject()).await;
    rules::dropping_a_stream_midway_does_no_harm(subject()).await;
    rules::calls_may_run_at_the_same_time(subject()).await;
    rules::its_info_stays_the_same_and_names_the_model(subject()).await;
}
