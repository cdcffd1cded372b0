//! The adapter follows the rules of its port, with both protocols.

use neuraxis_core::{ReplyFinish, TokenCount};
use neuraxis_openai::Api;
use neuraxis_testkit::conformance::llm_client::Subject;
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::request;

use crate::shapes::answer;
use crate::{APIS, client, respond, stream};

async fn subject(api: Api) -> Subject {
    let server = Loopback::start(answer).await;
    let stalled = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    Subject::new(
        client(&server, api),
        [request("hello"), request("two calls")],
    )
    .with_stalled(client(&stalled, api))
    .keeping((server, stalled))
}

mod responses {
    use super::{Api, subject};

    neuraxis_testkit::llm_client_suite!(subject(Api::Responses).await);
}

mod chat {
    use super::{Api, subject};

    neuraxis_testkit::llm_client_suite!(subject(Api::Chat).await);
}

#[tokio::test]
async fn usage_comes_from_the_counts_of_the_server() {
    let server = Loopback::start(answer).await;
    for api in APIS {
        let client = client(&server, api);
        for reply in [
            respond(&client, &request("hello")).await.unwrap(),
            stream(&client, &request("two calls")).await.unwrap(),
        ] {
            assert_eq!(reply.usage.prompt, TokenCount::measured(50));
            assert_eq!(reply.usage.cached, TokenCount::measured(36));
            assert_eq!(reply.usage.completion, TokenCount::measured(9));
            assert_eq!(reply.usage.reasoning, TokenCount::measured(4));
            assert_eq!(reply.usage.total, TokenCount::measured(59));
            assert_eq!(*reply.model.model, *"gpt-5.3-2026-02-01");
        }
    }
}

#[tokio::test]
async fn both_apis_return_the_same_calls() {
    let server = Loopback::start(answer).await;
    for api in APIS {
        let reply = stream(&client(&server, api), &request("two calls"))
            .await
            .unwrap();
        assert_eq!(reply.finish, ReplyFinish::ToolCalls);
        let calls: Vec<_> = reply
            .calls()
            .map(|call| {
                (
                    call.provider_id.as_deref(),
                    &*call.name,
                    call.arguments.as_str(),
                )
            })
            .collect();
        assert_eq!(
            calls,
            [
                (Some("call_1"), "look", "{\"at\":\"sky\"}"),
                (Some("call_2"), "look", "{}")
            ]
        );
    }
}

#[tokio::test]
async fn consecutive_calls_share_one_connection() {
    let server = Loopback::start(answer).await;
    for api in APIS {
        let before = server.connections();
        let client = client(&server, api);
        for _ in 0..5 {
            stream(&client, &request("hello")).await.unwrap();
            respond(&client, &request("two calls")).await.unwrap();
        }
        assert_eq!(server.connections() - before, 1);
    }
}
