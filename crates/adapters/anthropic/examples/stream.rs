//! Reads a streamed reply: the model's thinking, its text, and its usage.
//!
//! `cargo run -p neuraxis-anthropic --example stream`. With `ANTHROPIC_API_KEY` set, it calls Anthropic; otherwise it
//! uses a server in this program with a prepared reply, and needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::{Read, Write};
use std::net::TcpListener;

use futures_util::TryStreamExt;
use neuraxis_anthropic::{AnthropicClient, AnthropicConfig, Secret, ShownThinking, Thinking};
use neuraxis_core::ReplyDelta;
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{call_context, request};

/// A reply that a model might give.
const SAID: &str = r#"HTTP/1.1 200 OK
content-type: text/event-stream
connection: close

event: message_start
data: {"type":"message_start","message":{"model":"claude-haiku-5-5","usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"They greet me."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Good day!"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}}

event: message_stop
data: {"type":"message_stop"}

"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = AnthropicConfig::new("claude-haiku-5-5");
    config.thinking = Thinking::Adaptive;
    config.show_thinking = Some(ShownThinking::Summarized);
    match std::env::var("ANTHROPIC_API_KEY") {
        Ok(key) => config.api_key = Some(Secret::new(&key)),
        Err(_) => config.base_url = serve_once()?,
    }
    let client = AnthropicClient::new(config)?;
    let (request, ctx) = (request("Good day."), call_context());
    let mut reply = client.stream_respond(&request, &ctx).await?;
    while let Some(delta) = reply.try_next().await? {
        match delta {
            ReplyDelta::Reasoning { text, .. } => println!("thinks: {text}"),
            ReplyDelta::Text { text, .. } => println!("says: {text}"),
            ReplyDelta::End(end) => println!(
                "{} used {} tokens and ended with {:?}",
                end.model, end.usage.total.tokens, end.finish
            ),
            ReplyDelta::ToolCall { .. } | ReplyDelta::State { .. } => {}
        }
    }
    Ok(())
}

/// Starts a server that answers one request, and returns its address.
fn serve_once() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let (mut connection, _) = listener.accept()?;
        let mut asked = Vec::new();
        // A request ends with its body, a JSON object.
        while !asked.ends_with(b"}") {
            let mut piece = [0; 1_024];
            let size = connection.read(&mut piece)?;
            asked.extend_from_slice(piece.get(..size).unwrap_or_default());
        }
        connection.write_all(SAID.replace('\n', "\r\n").as_bytes())
    });
    Ok(format!("http://{address}"))
}
