//! The formats in which llama-server sends.

use neuraxis_testkit::loopback::{Answer, Seen};
use serde_json::Value;

const TEXT: &str = r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"chatcmpl-1","model":"tiny","system_fingerprint":"b1-7e4c0a9","object":"chat.completion.chunk"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Good "}}],"created":1,"id":"chatcmpl-1","model":"tiny","object":"chat.completion.chunk"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"day."}}],"created":1,"id":"chatcmpl-1","model":"tiny","object":"chat.completion.chunk"}

data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"chatcmpl-1","model":"tiny","object":"chat.completion.chunk","timings":{"cache_n":36,"prompt_n":14,"prompt_ms":3.1,"predicted_n":4,"predicted_ms":2.0}}

data: {"choices":[],"created":1,"id":"chatcmpl-1","model":"tiny","object":"chat.completion.chunk","usage":{"completion_tokens":4,"prompt_tokens":50,"total_tokens":54,"prompt_tokens_details":{"cached_tokens":36}},"timings":{"cache_n":36,"prompt_n":14,"predicted_n":4}}

data: [DONE]

"#;

const TEXT_WHOLE: &str = r#"{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"Good day."}}],"created":1,"model":"tiny","object":"chat.completion","usage":{"completion_tokens":4,"prompt_tokens":50,"total_tokens":54,"prompt_tokens_details":{"cached_tokens":36}},"id":"chatcmpl-1","timings":{"cache_n":36,"prompt_n":14,"predicted_n":4}}"#;

const CALLS: &str = r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"model":"tiny","object":"chat.completion.chunk"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"Let me "}}],"model":"tiny"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"look."}}],"model":"tiny"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"id":"aQx0","type":"function","function":{"name":"look","arguments":""}}]}}],"model":"tiny"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"at\":"}}]}}],"model":"tiny"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"sky\"}"}}]}}],"model":"tiny"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":1,"id":"bRy1","type":"function","function":{"name":"look","arguments":"{"}}]}}],"model":"tiny"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}}],"model":"tiny"}

data: {"choices":[{"finish_reason":"tool_calls","index":0,"delta":{}}],"model":"tiny","timings":{"cache_n":0,"prompt_n":50,"predicted_n":30}}

data: {"choices":[],"model":"tiny","usage":{"completion_tokens":30,"prompt_tokens":50,"total_tokens":80},"timings":{"cache_n":0,"prompt_n":50,"predicted_n":30}}

data: [DONE]

"#;

const CALLS_WHOLE: &str = r#"{"choices":[{"finish_reason":"tool_calls","index":0,"message":{"role":"assistant","reasoning_content":"Let me look.","content":null,"tool_calls":[{"type":"function","function":{"name":"look","arguments":"{\"at\":\"sky\"}"},"id":"aQx0"},{"type":"function","function":{"name":"look","arguments":"{}"},"id":"bRy1"}]}}],"model":"tiny","object":"chat.completion","usage":{"completion_tokens":30,"prompt_tokens":50,"total_tokens":80},"timings":{"cache_n":0,"prompt_n":50,"predicted_n":30}}"#;

/// Answers a chat request, streamed or whole as requested: with calls if its last message mentions calls, otherwise
/// with a text.
pub(crate) fn chat(seen: &Seen) -> Answer {
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let calls = last["content"].as_str().unwrap().contains("calls");
    let (streamed, whole) = if calls {
        (CALLS, CALLS_WHOLE)
    } else {
        (TEXT, TEXT_WHOLE)
    };
    if body["stream"] == true {
        Answer::events(streamed.split_inclusive("\n\n").map(str::as_bytes))
    } else {
        Answer::json(whole)
    }
}
