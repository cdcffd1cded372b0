//! Sessions as resources.

use std::sync::Arc;

use neuraxis_mcp_server::McpServer;
use neuraxis_testkit::{ScriptedModel, reply};
use rmcp::model::{
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResult, ResourceContents,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use crate::support::{ERAS, INITIALIZE, Person, Served, connect, server};

fn world() -> (McpServer, Arc<ScriptedModel>) {
    let model = Arc::new(ScriptedModel::always(reply::text("It is four.")));
    let (server, _) = server(&model, &[]);
    (server, model)
}

async fn read(served: &Served, uri: &str) -> Result<ReadResourceResult, ServiceError> {
    let read = ReadResourceRequestParams::new(uri);
    served.client.read_resource(read).await
}

fn content(read: &ReadResourceResult) -> &str {
    let ResourceContents::TextResourceContents { text, .. } = &read.contents[0] else {
        panic!("{read:?}");
    };
    text
}

#[tokio::test(start_paused = true)]
async fn a_session_is_read_as_text_and_as_json() {
    for era in &ERAS {
        let (server, _) = world();
        let served = connect(&server, era, &Person::absent()).await;
        served
            .call("ask", json!({"message": "2 + 2?", "session": "a:b"}))
            .await;
        let listed = served.client.list_all_resources().await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].uri, "neuraxis://sessions/a:b");
        assert_eq!(listed[0].title.as_deref(), Some("2 + 2?"));
        for uri in [listed[0].uri.as_str(), "neuraxis://sessions/a%3Ab"] {
            let text = read(&served, uri).await.unwrap();
            assert_eq!(
                content(&text),
                "## user\n\n2 + 2?\n\n## assistant\n\nIt is four.\n\n"
            );
        }
        let json = read(&served, "neuraxis://sessions/a:b/messages")
            .await
            .unwrap();
        let json: Value = serde_json::from_str(content(&json)).unwrap();
        assert_eq!(json["session"]["id"], "a:b");
        assert_eq!(json["messages"][1]["role"], "assistant");
        let templates = served.client.list_all_resource_templates().await.unwrap();
        let templates: Vec<&str> = templates
            .iter()
            .map(|it| it.uri_template.as_str())
            .collect();
        assert_eq!(
            templates,
            [
                "neuraxis://sessions/{id}",
                "neuraxis://sessions/{id}/messages"
            ]
        );
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_resource_is_not_found() {
    for era in &ERAS {
        let (server, _) = world();
        let served = connect(&server, era, &Person::absent()).await;
        for uri in [
            "neuraxis://sessions/none",
            "neuraxis://sessions/",
            "neuraxis://sessions/../etc/passwd",
            "neuraxis://sessions/a/b/messages",
            "neuraxis://runs/1",
            "file:///etc/passwd",
            "",
        ] {
            let refused = read(&served, uri).await;
            let Err(ServiceError::McpError(error)) = refused else {
                panic!("{uri}: {refused:?}");
            };
            assert!([-32602, -32002].contains(&error.code.0), "{uri}: {error:?}");
        }
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_sessions_are_listed_in_pages_without_a_gap() {
    let (server, _) = world();
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    for number in 0..205 {
        let session = format!("s{number}");
        served
            .call("ask", json!({"message": "x", "session": session}))
            .await;
    }
    let first = served.client.list_resources(None).await.unwrap();
    assert_eq!(first.resources.len(), 100);
    assert!(first.next_cursor.is_some());
    let all = served.client.list_all_resources().await.unwrap();
    let mut names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 205);

    for cursor in [
        "",
        "1",
        "2026-01-01T00:00:00Z",
        "x~s1",
        "2026-01-01T00:00:00Z~a b",
    ] {
        let page = PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned()));
        let refused = served.client.list_resources(Some(page)).await;
        let is_refused =
            matches!(&refused, Err(ServiceError::McpError(error)) if error.code.0 == -32602);
        assert!(is_refused, "{cursor}: {refused:?}");
    }
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_can_list_read_and_continue_only_their_own_sessions() {
    let (server, _) = world();
    let ada = connect(&server.clone().owner("ada"), &INITIALIZE, &Person::absent()).await;
    let bob = connect(&server.owner("bob"), &INITIALIZE, &Person::absent()).await;
    ada.call("ask", json!({"message": "x", "session": "hers"}))
        .await;
    bob.call("ask", json!({"message": "x", "session": "his"}))
        .await;
    let listed = ada.client.list_all_resources().await.unwrap();
    let names: Vec<&str> = listed.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["hers"]);
    assert!(read(&ada, "neuraxis://sessions/hers").await.is_ok());
    let others = read(&ada, "neuraxis://sessions/his")
        .await
        .unwrap_err()
        .to_string();
    let none = read(&ada, "neuraxis://sessions/hid")
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(others.replace("/his", ""), none.replace("/hid", ""));
    let refused = ada
        .call("ask", json!({"message": "x", "session": "his"}))
        .await;
    assert_eq!(refused.is_error, Some(true));
    ada.leave().await;
    bob.leave().await;
}
