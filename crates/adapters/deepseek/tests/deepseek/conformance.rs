//! The adapter follows the rules of its port.

use neuraxis_core::{CountLabel, ReplyFinish, TokenCount};
use neuraxis_testkit::conformance::llm_client::Subject;
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::request;

use crate::shapes::chat;
use crate::{both, client};

async fn subject() -> Subject {
    let server = Loopback::start(chat).await;
    let stalled = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    let requests = ["hello", "two calls", "leak"].map(request);
    Subject::new(client(&server), requests)
        .with_stalled(client(&stalled))
        .keeping((server, stalled))
}

neuraxis_testkit::llm_client_suite!(subject().await);

#[tokio::test]
async fn reasoning_is_separate_from_text_and_usage_is_measured() {
    let server = Loopback::start(chat).await;
    for reply in both(&client(&server), &request("hello")).await {
        let reply = reply.unwrap();
        assert_eq!(reply.reasoning(), "Let me think.");
        assert_eq!(reply.text(), "Good day.");
        assert_eq!(*reply.model.provider, *"deepseek");
        assert_eq!(reply.usage.prompt, TokenCount::measured(70));
        assert_eq!(reply.usage.cached, TokenCount::measured(64));
        assert_eq!(reply.usage.reasoning, TokenCount::measured(12));
    }
}

#[tokio::test]
async fn tool_calls_keep_their_order_and_provider_ids() {
    let server = Loopback::start(chat).await;
    for reply in both(&client(&server), &request("two calls")).await {
        let reply = reply.unwrap();
        assert_eq!(reply.finish, ReplyFinish::ToolCalls);
        let calls: Vec<_> = reply.calls().collect();
        assert_eq!(calls[0].provider_id.as_deref(), Some("call_0"));
        assert_eq!(calls[0].arguments.as_str(), r#"{"at":"sky"}"#);
        assert_eq!(&*calls[1].name, "wait");
        assert_eq!(reply.usage.action.label, CountLabel::Estimated);
    }
}
