//! Tool calls that a model wrote into its text.

use neuraxis_deepseek::{DeepSeekClient, DeepSeekConfig, Secret};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{call_context, request};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::server::Server;
use crate::{CANARY, Outcome, collect, promptly, runtime, same};

/// The maximum number of characters that a string is split into, each in an event of its own.
const LETTERS: usize = 2_000;

struct Bench {
    runtime: Runtime,
    server: Server,
    client: DeepSeekClient,
}

thread_local! {
    static BENCH: Bench = {
        let server = Server::start();
        let mut config = DeepSeekConfig::default();
        config.base_url.clone_from(&server.url);
        config.api_key = Some(Secret::new(CANARY));
        let client = DeepSeekClient::new(config).unwrap();
        Bench { runtime: runtime(), server, client }
    };
}

/// However a string is split, it results in the same text and calls, or in the same error.
pub fn markup(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let letters: Vec<String> = text.chars().take(LETTERS).map(String::from).collect();
    BENCH.with(|bench| {
        let whole = bench.ask(&[letters.concat()]);
        same(whole, bench.ask(&letters));
    });
}

impl Bench {
    fn ask(&self, pieces: &[String]) -> Outcome {
        let deltas = pieces
            .iter()
            .map(|piece| event(&json!({"content": piece}), None));
        let end = event(&json!({}), Some("stop")) + "data: [DONE]\n\n";
        let stream = deltas.collect::<String>() + &end;
        self.server.events([stream.as_bytes()].into_iter());
        let (request, ctx) = (request("hi"), call_context());
        self.runtime.block_on(promptly(async {
            collect(self.client.stream_respond(&request, &ctx).await?).await
        }))
    }
}

fn event(delta: &Value, finish: Option<&str>) -> String {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}
