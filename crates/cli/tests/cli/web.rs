//! `web_fetch` and `web_search` in the real program, with sites on loopback.

use neuraxis_testkit::{WebAnswer, WebSite};
use serde_json::{Value, json};

use crate::machine::{Done, Machine};

/// Returns a machine that allows a site and does not request its `robots.txt`.
fn allowing(site: &WebSite) -> Machine {
    let text = format!(
        "[web]\nallow_hosts = ['{}']\nrobots = false\n",
        site.address()
    );
    Machine::new().with_file("neuraxis.toml", text)
}

fn asking(url: &str) -> String {
    json!({"url": url}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_page_is_fetched_only_if_its_host_is_allowed() {
    let site = WebSite::start(|_| {
        WebAnswer::page("<title>Ours</title><p>A <b>page</b>, <a href='/x'>x</a>.")
    })
    .await;
    let arguments = asking(&site.url("/"));
    let refused = Machine::new().run(["tools", "call", "web_fetch", &arguments]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("blocked_address: 127.0.0.1 is a loopback address"),
        "{refused:?}"
    );
    // The file that came with the folder is not trusted.
    let text = format!("[web]\nallow_hosts = ['{}']\n", site.address());
    let stranger = Machine::new().with_untrusted(text);
    let refused = stranger.run(["tools", "call", "web_fetch", &arguments]);
    assert!(refused.stderr.contains("blocked_address: "), "{refused:?}");
    assert!(site.requests().is_empty());

    let result = allowing(&site)
        .run(["tools", "call", "web_fetch", &arguments])
        .stdout_of(0);
    let result: Value = serde_json::from_str(&result).unwrap();
    let expected = format!("A **page**, [x]({}).", site.url("/x"));
    assert_eq!(result["content"], expected);
    assert_eq!(result["title"], "Ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_document_is_an_error_of_the_call() {
    let site =
        WebSite::start(|_| WebAnswer::document("application/pdf", "%PDF-1.7 and nothing more"))
            .await;
    let failed = allowing(&site).run(["tools", "call", "web_fetch", &asking(&site.url("/"))]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(
        failed
            .stderr
            .contains("unreadable: it is not a readable PDF"),
        "{failed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_web_is_searched_with_a_configured_service_and_doctor_checks_it() {
    let site = WebSite::start(|_| {
        WebAnswer::json(json!({"results": [{"title": "Rivers", "url": "https://example.org/", "content": "long"}]}))
    })
    .await;
    let text = format!(
        "[web.search]\nprovider = 'searxng'\nbase_url = '{}'\n",
        site.url("")
    );
    let machine = Machine::new().with_file("neuraxis.toml", text);
    let found = machine
        .run(["tools", "call", "web_search", r#"{"query": "rivers"}"#])
        .stdout_of(0);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["results"][0]["url"], "https://example.org/");
    let doctor = machine.run(["doctor"]);
    assert!(
        doctor
            .stdout
            .contains("ok       search      searxng answers"),
        "{}",
        doctor.stdout
    );
    let asked = site.requests().len();
    let quiet = machine.run(["doctor", "--offline"]);
    assert!(
        quiet
            .stdout
            .contains("searxng was not contacted (--offline)"),
        "{}",
        quiet.stdout
    );
    assert_eq!(site.requests().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_service_is_reached_through_the_environment_proxy_unless_it_is_local() {
    let found = || WebAnswer::json(json!({"results": []}));
    let (proxy, local) = (
        WebSite::start(move |_| found()).await,
        WebSite::start(move |_| found()).await,
    );
    for url in ["http://search.example".to_owned(), local.url("")] {
        let text = format!("[web.search]\nprovider = 'searxng'\nbase_url = '{url}'\n");
        let machine = Machine::new().with_file("neuraxis.toml", text);
        let mut command =
            machine.command(["tools", "call", "web_search", r#"{"query": "rivers"}"#]);
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            command.env(name, proxy.url(""));
        }
        command.env_remove("NO_PROXY").env_remove("no_proxy");
        Done::from(command.output().unwrap()).stdout_of(0);
    }
    let (through, here) = (proxy.targets(), local.targets());
    assert_eq!((through.len(), here.len()), (1, 1), "{through:?} {here:?}");
    assert!(through[0].starts_with("http://search.example/search?"));
}

#[test]
fn without_a_search_service_there_is_no_search_tool_and_doctor_explains_how_to_add_one() {
    let machine = Machine::new();
    let refused = machine.run(["tools", "call", "web_search", r#"{"query": "rivers"}"#]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let doctor = machine.run(["doctor", "--offline"]);
    for part in [
        "none is configured, so the tool web_search is not offered",
        "web.search.provider",
        "neuraxis help web",
    ] {
        assert!(doctor.stdout.contains(part), "{part}: {}", doctor.stdout);
    }
}
