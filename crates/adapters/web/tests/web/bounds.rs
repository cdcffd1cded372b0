//! Limits on size, time and redirects, and answers that are not documents.

use std::time::Duration;

use neuraxis_core::JsonText;
use neuraxis_ports::Persistence;
use neuraxis_testkit::{WebAnswer, WebSite, tool_context};
use serde_json::json;

use crate::support::{allowing, fetch, refused, tool};

#[tokio::test]
async fn a_text_that_is_too_long_is_truncated_and_says_so() {
    let site = WebSite::start(|_| WebAnswer::document("text/plain", "é".repeat(100_000))).await;
    let mut config = allowing([&site]);
    config.max_bytes = 1_501;
    let page = fetch(&tool(&config), &site.url("/")).await.unwrap();
    assert_eq!(page["content"], "é".repeat(750));
    let said = "Page 1 of 1. The document continues, but no more of it is read.";
    assert_eq!(page["summary"], said);
}

#[tokio::test]
async fn a_pdf_that_is_too_large_is_refused() {
    let site =
        WebSite::start(|_| WebAnswer::document("application/pdf", "%PDF-".repeat(1_000))).await;
    let mut config = allowing([&site]);
    config.max_bytes = 1_500;
    let message = refused(&tool(&config), &site.url("/")).await;
    assert_eq!(message, "too_large: the document has more than 1500 bytes");
}

#[tokio::test]
async fn a_stalled_site_times_out() {
    let site = WebSite::start(|_| WebAnswer::stalling()).await;
    let mut config = allowing([&site]);
    config.timeout = Duration::from_millis(200);
    let error = fetch(&tool(&config), &site.url("/")).await.unwrap_err();
    assert_eq!(
        error.message,
        "timeout: the site did not send the whole page within 200ms"
    );
    assert_eq!(error.persistence, Persistence::Temporary);
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_at_once() {
    let site = WebSite::start(|_| WebAnswer::stalling()).await;
    let tool = tool(&allowing([&site]));
    let context = tool_context();
    let token = context.cancellation.clone();
    let arguments = JsonText::from_text(json!({"url": site.url("/")}).to_string());
    let (outcome, ()) = tokio::join!(tool.call(arguments, context), async {
        while site.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        token.cancel();
    });
    assert!(outcome.unwrap_err().message.starts_with("cancelled: "));
}

#[tokio::test]
async fn redirects_within_a_site_are_followed_up_to_a_limit() {
    let site = WebSite::start(|request| match request.path() {
        "/old" => WebAnswer::redirect("/moved").with_status(301),
        "/moved" => WebAnswer::redirect("new?a=b").with_status(308),
        "/new" => WebAnswer::page("<p>here"),
        "/empty" => WebAnswer::status(302),
        "/nowhere" => WebAnswer::redirect("http://[nowhere"),
        _ => WebAnswer::redirect("/again"),
    })
    .await;
    let tool = tool(&allowing([&site]));
    let page = fetch(&tool, &site.url("/old")).await.unwrap();
    assert_eq!(
        (&page["content"], &page["url"]),
        (&json!("here"), &json!(site.url("/new?a=b")))
    );
    let before = site.requests().len();
    let message = refused(&tool, &site.url("/again")).await;
    assert!(message.starts_with("redirects: "), "{message}");
    assert_eq!(
        site.requests().len() - before,
        6,
        "the first and five redirects"
    );
    let before = site.requests().len();
    let message = refused(&tool, &site.url("/nowhere")).await;
    assert!(
        message.starts_with("redirect: ") && message.contains("not a URL"),
        "{message}"
    );
    assert_eq!(site.requests().len() - before, 1, "it leads nowhere");
    let message = refused(&tool, &site.url("/empty")).await;
    assert!(message.starts_with("http_status: "), "{message}");
}

#[tokio::test]
async fn an_error_status_is_reported_with_its_persistence() {
    let site = WebSite::start(|request| match request.path() {
        "/gone" => WebAnswer::page("<p>no such page").with_status(404),
        "/busy" => WebAnswer::status(429).header("retry-after", "30"),
        _ => WebAnswer::status(503),
    })
    .await;
    let tool = tool(&allowing([&site]));
    for (path, said, persistence) in [
        ("/gone", "status 404", Persistence::Permanent),
        (
            "/busy",
            "status 429; try again in 30 seconds",
            Persistence::Temporary,
        ),
        ("/down", "status 503", Persistence::Temporary),
    ] {
        let error = fetch(&tool, &site.url(path)).await.unwrap_err();
        assert!(
            error.message.starts_with("http_status: ") && error.message.ends_with(said),
            "{}",
            error.message
        );
        assert_eq!(error.persistence, persistence, "{path}");
    }
}

#[tokio::test]
async fn an_unrequested_compressed_response_is_refused() {
    let bomb = |_: &_| WebAnswer::page([0x1f, 0x8b, 8, 0]).header("content-encoding", "gzip");
    let site = WebSite::start(bomb).await;
    let message = refused(&tool(&allowing([&site])), &site.url("/")).await;
    assert!(message.starts_with("content_encoding: "), "{message}");
    assert_eq!(
        site.requests()[0].header("accept-encoding"),
        Some("identity")
    );
}

#[tokio::test]
async fn a_page_that_takes_too_long_to_convert_is_aborted() {
    // Each element is still open when the next one begins, and is examined again with it.
    let page = "<a><b><table>".repeat(30_000);
    let site = WebSite::start(move |_| WebAnswer::page(page.clone())).await;
    let mut config = allowing([&site]);
    config.convert_timeout = Duration::from_millis(100);
    let message = refused(&tool(&config), &site.url("/")).await;
    assert!(
        message.starts_with("convert_timeout: ") || message.starts_with("unreadable: "),
        "{message}"
    );
}

#[tokio::test]
async fn a_host_that_refuses_connections_is_unreachable() {
    let site = WebSite::start(|_| WebAnswer::status(200)).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let mut config = allowing([&site]);
    config
        .allow_hosts
        .push(address.to_string().parse().unwrap());
    let error = fetch(&tool(&config), &format!("http://{address}/?token=k"))
        .await
        .unwrap_err();
    assert!(
        error.message.starts_with("unreachable: 127.0.0.1: "),
        "{}",
        error.message
    );
    assert!(!error.message.contains("token"), "{}", error.message);
}
