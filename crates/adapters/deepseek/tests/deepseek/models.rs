//! The models that the service offers.

use std::time::Duration;

use neuraxis_core::LlmErrorKind;
use neuraxis_testkit::loopback::{Act, Answer, Loopback};

use crate::client;

const SECONDS: Duration = Duration::from_secs(10);

#[tokio::test]
async fn valid_model_names_are_listed_in_the_order_of_the_service() {
    const LIST: &str = r#"{"object":"list","data":[{"id":"deepseek-v4-pro","object":"model","owned_by":"deepseek"},{"id":"bad\u001b[2J"},{"id":""},{"id":"deepseek-flash"}]}"#;
    let server = Loopback::start(|_| Answer::json(LIST)).await;
    let models = client(&server).models(SECONDS).await.unwrap();
    assert_eq!(models, ["deepseek-v4-pro", "deepseek-flash"]);
    assert_eq!(server.seen()[0].line, "GET /models");
    let server = Loopback::start(|_| Answer::json(r#"{"data":null}"#)).await;
    let none: [&str; 0] = [];
    assert_eq!(client(&server).models(SECONDS).await.unwrap(), none);
}

#[tokio::test]
async fn listing_models_fails_with_a_wrong_key_or_an_unknown_answer() {
    let server = Loopback::start(|_| Answer::whole(401, "x: y", "Authentication Fails")).await;
    let error = client(&server).models(SECONDS).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Unauthorized);
    for answer in [r#"{"hello":"world"}"#, "[1]", "hello"] {
        let server = Loopback::start(move |_| Answer::json(answer)).await;
        let error = client(&server).models(SECONDS).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{answer}");
    }
}

#[tokio::test]
async fn a_service_that_does_not_answer_times_out() {
    let server = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    let soon = Duration::from_millis(50);
    let error = client(&server).models(soon).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    server.hung_up().await;
}
