//! What a site may expect: its rules are respected, one request at a time, and nothing requested twice.

use std::time::Duration;

use futures_util::future::join_all;
use neuraxis_core::JsonText;
use neuraxis_ports::{Persistence, ToolError};
use neuraxis_testkit::{CountingIds, WebAnswer, WebSite, tool_context};
use serde_json::json;

use crate::support::{allowing, fetch, refused, tool};

#[tokio::test]
async fn robots_txt_is_fetched_once_and_obeyed() {
    let site = WebSite::start(|request| match request.path() {
        "/robots.txt" => WebAnswer::document("text/plain", "User-agent: *\nDisallow: /private/"),
        "/out" => WebAnswer::redirect("/private/b"),
        "/far" => WebAnswer::redirect(format!("/{}", "a".repeat(2_100))),
        _ => WebAnswer::page("<p>open"),
    })
    .await;
    let mut config = allowing([&site]);
    config.robots = true;
    let tool = tool(&config);
    assert!(fetch(&tool, &site.url("/open")).await.is_ok());
    for path in ["/private/a", "/out"] {
        let message = refused(&tool, &site.url(path)).await;
        assert!(
            message.starts_with("robots: 127.0.0.1 asks programs not to"),
            "{message}"
        );
    }
    let message = refused(&tool, &site.url("/far")).await;
    assert!(
        message.contains("redirects to a URL of more than 2048 bytes"),
        "{message}"
    );
    assert_eq!(site.targets(), ["/robots.txt", "/open", "/out", "/far"]);
}

#[tokio::test]
async fn a_robots_txt_moved_within_its_site_is_obeyed_and_elsewhere_ignored() {
    for (target, says) in [
        ("/rules", true),
        ("rules#part", true),
        ("http://example.org/rules", false),
        ("http://10.0.0.1/rules", false),
        ("http://[", false),
    ] {
        let site = WebSite::start(move |request| match request.path() {
            "/robots.txt" => WebAnswer::redirect(target),
            "/rules" => WebAnswer::document("text/plain", "User-agent: *\nDisallow: /private/"),
            _ => WebAnswer::page("<p>open"),
        })
        .await;
        let mut config = allowing([&site]);
        config.robots = true;
        let tool = tool(&config);
        assert!(fetch(&tool, &site.url("/open")).await.is_ok(), "{target}");
        let private = fetch(&tool, &site.url("/private/a")).await;
        assert_eq!(private.is_err(), says, "{target}");
        let expected: &[&str] = match says {
            true => &["/robots.txt", "/rules", "/open"],
            false => &["/robots.txt", "/open", "/private/a"],
        };
        assert_eq!(site.targets(), expected, "{target}");
    }
}

#[tokio::test]
async fn a_robots_txt_with_endless_redirects_is_ignored() {
    let site = WebSite::start(|request| match request.path() {
        "/open" => WebAnswer::page("<p>open"),
        path => WebAnswer::redirect(format!("{path}x")),
    })
    .await;
    let mut config = allowing([&site]);
    config.robots = true;
    config.max_redirects = 2;
    assert!(fetch(&tool(&config), &site.url("/open")).await.is_ok());
    let asked = ["/robots.txt", "/robots.txtx", "/robots.txtxx", "/open"];
    assert_eq!(site.targets(), asked);
}

#[tokio::test]
async fn a_failing_robots_txt_blocks_its_site_and_a_missing_one_does_not() {
    let site = WebSite::start(|request| match request.path() {
        "/robots.txt" => WebAnswer::status(500),
        _ => WebAnswer::page("<p>open"),
    })
    .await;
    let without = WebSite::start(|request| match request.path() {
        "/robots.txt" => WebAnswer::status(404),
        _ => WebAnswer::page("<p>open"),
    })
    .await;
    let mut config = allowing([&site, &without]);
    config.robots = true;
    let asking = tool(&config);
    let message = refused(&asking, &site.url("/")).await;
    assert!(message.ends_with("answers with status 500"), "{message}");
    assert!(fetch(&asking, &without.url("/")).await.is_ok());
    config.robots = false;
    assert!(
        fetch(&tool(&config), &site.url("/")).await.is_ok(),
        "nobody asks any more"
    );
}

#[tokio::test]
async fn a_compressed_robots_txt_is_an_error_and_a_missing_one_is_not() {
    let site = async |status| {
        WebSite::start(move |request| match (request.path(), status) {
            ("/robots.txt", 200) => {
                WebAnswer::document("text/plain", "x").header("content-encoding", "gzip")
            }
            ("/robots.txt", status) => WebAnswer::status(status).header("content-encoding", "gzip"),
            _ => WebAnswer::page("<p>open"),
        })
        .await
    };
    let (compressed, without) = (site(200).await, site(404).await);
    let mut config = allowing([&compressed, &without]);
    config.robots = true;
    let asking = tool(&config);
    let message = refused(&asking, &compressed.url("/")).await;
    assert!(
        message.contains("sent its robots.txt compressed (gzip)"),
        "{message}"
    );
    assert_eq!(compressed.targets(), ["/robots.txt"]);
    assert!(fetch(&asking, &without.url("/")).await.is_ok());
}

#[tokio::test]
async fn requests_to_one_host_are_sequential() {
    let [one, other] = [
        WebSite::start(|_| WebAnswer::page("<p>one")).await,
        WebSite::start(|_| WebAnswer::page("<p>other")).await,
    ];
    let tool = tool(&allowing([&one, &other]));
    let urls: Vec<String> = (0..8).map(|n| one.url(&format!("/{n}"))).collect();
    for page in join_all(urls.iter().map(|url| fetch(&tool, url))).await {
        assert!(page.is_ok());
    }
    assert_eq!((one.requests().len(), one.most_at_once()), (8, 1));
}

#[tokio::test]
async fn a_call_waits_for_other_requests_to_its_host_only_for_a_limited_time() {
    let site = WebSite::start(|_| WebAnswer::stalling()).await;
    let mut config = allowing([&site]);
    config.timeout = Duration::from_millis(200);
    let tool = tool(&config);
    let urls: Vec<String> = (0..12).map(|n| site.url(&format!("/{n}"))).collect();
    let calls = join_all(urls.iter().map(|url| fetch(&tool, url))).await;
    let errors: Vec<ToolError> = calls.into_iter().map(Result::unwrap_err).collect();
    let (first, last) = (&errors[0], &errors[11]);
    assert!(first.message.starts_with("timeout: "), "{}", first.message);
    let busy = "busy: other requests to 127.0.0.1 are in progress";
    assert!(last.message.starts_with(busy), "{}", last.message);
    assert_eq!(last.persistence, Persistence::Temporary);
    let waits = config.timeout * 5;
    let most = waits + config.timeout + config.convert_timeout * 2;
    assert!(tool.spec().timeout >= Some(most), "it counts both waits");
}

#[tokio::test]
async fn the_same_page_is_fetched_once_per_run() {
    let site = WebSite::start(|_| WebAnswer::page("<p>once")).await;
    let tool = tool(&allowing([&site]));
    let url = site.url("/page");
    let same = join_all((0..5).map(|_| fetch(&tool, &url))).await;
    assert!(same.iter().all(Result::is_ok));
    assert!(fetch(&tool, &format!("{url}#part")).await.is_ok());
    assert_eq!(site.targets(), ["/page"]);
    // Another run sees the current content.
    let mut context = tool_context();
    context.turn.run_id = CountingIds::nth_run(7);
    let arguments = JsonText::from_text(json!({"url": url}).to_string());
    assert!(tool.call(arguments, context).await.is_ok());
    assert_eq!(site.targets().len(), 2);
}

#[tokio::test]
async fn requests_carry_only_the_product_name_and_the_necessary_headers() {
    let site = WebSite::start(|_| WebAnswer::page("<p>x")).await;
    fetch(&tool(&allowing([&site])), &site.url("/"))
        .await
        .unwrap();
    let request = &site.requests()[0];
    let agent = request.header("user-agent").unwrap();
    assert!(agent.starts_with("neuraxis/"), "{agent}");
    let mut names: Vec<&str> = request
        .headers
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "accept-encoding", "host", "user-agent"]);
}
