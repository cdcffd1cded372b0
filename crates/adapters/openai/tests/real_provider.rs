//! The adapter against OpenAI itself. Costs a little money, so it runs only when requested:
//! `NEURAXIS_TEST_REAL_PROVIDERS=1 OPENAI_API_KEY=… cargo nextest run -p neuraxis-openai --run-ignored only`.
//! `NEURAXIS_TEST_OPENAI_MODEL` names a model other than the default.
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test tells what is wrong by a panic, and why it does nothing"
)]

use std::time::Duration;

use neuraxis_openai::{Api, OpenAiClient, OpenAiConfig, Secret};
use neuraxis_testkit::conformance::llm_client::{
    Subject, a_stream_cancelled_midway_ends_with_a_cancelled_error,
    a_stream_has_exactly_one_end_as_its_last_item,
    the_model_info_does_not_change_and_replies_name_its_provider,
};
use neuraxis_testkit::request;

const DEFAULT_MODEL: &str = "gpt-4.1-nano";

/// Returns a client of the real provider; `None` unless the test was requested.
fn client(api: Api) -> Option<OpenAiClient> {
    let asked = std::env::var("NEURAXIS_TEST_REAL_PROVIDERS").is_ok_and(|asked| asked == "1");
    let key = std::env::var("OPENAI_API_KEY")
        .ok()
        .filter(|key| !key.is_empty());
    let (true, Some(key)) = (asked, key) else {
        eprintln!("skipped: NEURAXIS_TEST_REAL_PROVIDERS=1 and OPENAI_API_KEY are not set");
        return None;
    };
    let model = std::env::var("NEURAXIS_TEST_OPENAI_MODEL");
    let mut config = OpenAiConfig::new(model.unwrap_or_else(|_| DEFAULT_MODEL.to_owned()));
    config.api = api;
    config.api_key = Some(Secret::new(&key));
    Some(OpenAiClient::new(config).expect("a client can be made"))
}

fn subject(api: Api) -> Option<Subject> {
    Some(Subject::new(client(api)?, [request("Count from 1 to 20.")]))
}

#[tokio::test]
#[ignore = "asks the real provider, which costs money"]
async fn the_real_provider_follows_the_rules_of_the_port() {
    for api in [Api::Responses, Api::Chat] {
        if let Some(subject) = subject(api) {
            a_stream_has_exactly_one_end_as_its_last_item(subject).await;
        }
        if let Some(subject) = subject(api) {
            a_stream_cancelled_midway_ends_with_a_cancelled_error(subject).await;
        }
        if let Some(subject) = subject(api) {
            the_model_info_does_not_change_and_replies_name_its_provider(subject).await;
        }
    }
}

#[tokio::test]
#[ignore = "asks the real provider, which costs money"]
async fn the_real_provider_lists_its_models() {
    if let Some(client) = client(Api::Responses) {
        let models = client.models(Duration::from_secs(20)).await;
        assert!(!models.expect("the provider lists its models").is_empty());
    }
}
