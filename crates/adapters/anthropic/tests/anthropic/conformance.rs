//! The adapter follows the rules of its port.

use neuraxis_core::{ReplyFinish, TokenCount};
use neuraxis_testkit::conformance::llm_client::Subject;
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::request;

use crate::shapes::answer;
use crate::{both, client, respond, stream};

async fn subject() -> Subject {
    let server = Loopback::start(answer).await;
    let stalled = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    Subject::new(client(&server), [request("hello"), request("two calls")])
        .with_stalled(client(&stalled))
        .keeping((server, stalled))
}

neuraxis_testkit::llm_client_suite!(subject().await);

#[tokio::test]
async fn usage_comes_from_the_server_and_the_prompt_is_the_sum_of_its_parts() {
    let server = Loopback::start(answer).await;
    for reply in both(&client(&server), &request("two calls")).await {
        let reply = reply.unwrap();
        assert_eq!(reply.usage.prompt, TokenCount::measured(50));
        assert_eq!(reply.usage.cached, TokenCount::measured(36));
        assert_eq!(reply.usage.cache_written, Some(TokenCount::measured(10)));
        assert_eq!(reply.usage.completion, TokenCount::measured(9));
        assert_eq!(reply.usage.reasoning, TokenCount::measured(4));
        assert_eq!(reply.usage.total, TokenCount::measured(59));
        assert_eq!(*reply.model.model, *"claude-opus-4-8-20260301");
        assert_eq!(reply.finish, ReplyFinish::ToolCalls);
    }
}

#[tokio::test]
async fn consecutive_calls_share_one_connection() {
    let server = Loopback::start(answer).await;
    let client = client(&server);
    for _ in 0..5 {
        stream(&client, &request("hello")).await.unwrap();
        respond(&client, &request("two calls")).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}
