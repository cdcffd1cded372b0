//! The three services, each checked against the rules of the port with a server that speaks its protocol; and the tool.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::JsonText;
use neuraxis_ports::{Persistence, SearchHit, Secret, WebSearch, WebSearchError};
use neuraxis_testkit::conformance::web_search::{
    ReceivedQueries, SEARCH_KEY, SearchScene, Subject,
};
use neuraxis_testkit::{ScriptedSearch, WebAnswer, WebRequest, WebSite, tool_context};
use neuraxis_web::{SearchConfig, SearchProvider, web_search};
use serde_json::{Value, json};
use url::Url;

/// Returns a service's answer in its own format.
fn answer(provider: SearchProvider, scene: &SearchScene, request: &WebRequest) -> WebAnswer {
    let said = json!({"error": format!("key {SEARCH_KEY} will not do")});
    let hits = match scene {
        SearchScene::Finds(hits) => hits,
        SearchScene::RefusesKey => return WebAnswer::json(said).with_status(401),
        SearchScene::IsBusy => return WebAnswer::status(429).header("retry-after", "7"),
        SearchScene::RefusesQuestion => return WebAnswer::json(said).with_status(422),
        SearchScene::Fails => return WebAnswer::status(503),
        SearchScene::IsNoService => return WebAnswer::page("<h1>Welcome</h1>"),
        SearchScene::IsSilent => return WebAnswer::stalling(),
        other => panic!("the suite has a new scene: {other:?}"),
    };
    let bearer = format!("Bearer {SEARCH_KEY}");
    let as_expected = match provider {
        SearchProvider::Searxng => {
            request.path() == "/beneath/search" && request.target.contains("format=json")
        }
        SearchProvider::Brave => {
            request.path() == "/beneath/res/v1/web/search"
                && request.header("x-subscription-token") == Some(SEARCH_KEY)
        }
        _ => {
            request.method == "POST"
                && request.path() == "/beneath/search"
                && request.header("authorization") == Some(&bearer)
                && request.header("content-type") == Some("application/json")
        }
    };
    if !as_expected {
        return WebAnswer::json(json!({"error": format!("{request:?}")})).with_status(404);
    }
    let with = |name: &str| -> Vec<Value> {
        let hits = hits.iter();
        let hits = hits.map(
            |hit| json!({"title": hit.title, "url": hit.url, name: hit.snippet, "score": 0.9}),
        );
        hits.collect()
    };
    WebAnswer::json(match provider {
        SearchProvider::Searxng => json!({"query": "q", "results": with("content"), "answers": []}),
        // It omits the list if there are no hits.
        SearchProvider::Brave if hits.is_empty() => json!({"type": "search"}),
        SearchProvider::Brave => json!({"type": "search", "web": {"results": with("description")}}),
        _ => json!({"query": "q", "results": with("content"), "response_time": 0.1}),
    })
}

/// Returns the query, in the service's request format.
fn question(provider: SearchProvider, request: &WebRequest) -> String {
    if provider == SearchProvider::Tavily {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        return body["query"].as_str().unwrap().to_owned();
    }
    let url = Url::parse("http://a")
        .unwrap()
        .join(&request.target)
        .unwrap();
    let asked = url.query_pairs().find(|(name, _)| name == "q");
    asked.unwrap().1.into_owned()
}

fn subject(provider: SearchProvider) -> Subject {
    Subject::new(move |scene| async move {
        let site = WebSite::start(move |request| answer(provider, &scene, request)).await;
        let mut config = SearchConfig::new(provider);
        config.base_url = Some(site.url("/beneath/"));
        config.timeout = Duration::from_secs(1);
        let search = config.connect(Some(Secret::new(SEARCH_KEY))).unwrap();
        let asked: ReceivedQueries = Arc::new(move || {
            let requests = site.requests();
            requests
                .iter()
                .map(|request| question(provider, request))
                .collect()
        });
        (search, asked)
    })
}

mod searxng {
    neuraxis_testkit::web_search_suite!(super::subject(neuraxis_web::SearchProvider::Searxng));
}

mod brave {
    neuraxis_testkit::web_search_suite!(super::subject(neuraxis_web::SearchProvider::Brave));
}

mod tavily {
    neuraxis_testkit::web_search_suite!(super::subject(neuraxis_web::SearchProvider::Tavily));
}

#[tokio::test]
async fn a_searxng_without_json_explains_how_to_enable_it() {
    let site = WebSite::start(|_| WebAnswer::status(403)).await;
    let mut config = SearchConfig::new(SearchProvider::Searxng);
    config.base_url = Some(site.url(""));
    let search = config.connect(None).unwrap();
    let error = search
        .search("x", std::num::NonZeroU32::MIN)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("search.formats"), "{error}");
    assert_eq!(site.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn an_unreachable_search_service_is_reported_without_the_query() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0");
    let gone = gone.unwrap().local_addr().unwrap();
    let mut config = SearchConfig::new(SearchProvider::Searxng);
    config.base_url = Some(format!("http://{gone}"));
    let search = config.connect(None).unwrap();
    let found = search.search("canary", std::num::NonZeroU32::MIN).await;
    let said = found.unwrap_err().to_string();
    assert!(said.contains("Connection refused"), "{said}");
    assert!(!said.contains("canary"), "{said}");
}

#[tokio::test]
async fn a_searxng_with_only_unresponsive_engines_is_an_error() {
    let silent = r#"{"query": "x", "results": [], "unresponsive_engines": [["wikipedia", "HTTP error"], ["b"], 7]}"#;
    let site = WebSite::start(move |_| WebAnswer::json(silent)).await;
    let mut config = SearchConfig::new(SearchProvider::Searxng);
    config.base_url = Some(site.url(""));
    let search = config.connect(None).unwrap();
    let found = search.search("x", std::num::NonZeroU32::MIN).await;
    let error = found.unwrap_err();
    assert!(error.is_temporary());
    assert_eq!(
        error.to_string(),
        "none of the engines behind the search service answered: wikipedia (HTTP error), b, an engine"
    );
}

#[tokio::test]
async fn a_malformed_hit_does_not_discard_the_others() {
    let results = json!([
        {"title": "an answer of its own", "url": null, "content": "no page"},
        {"title": 7, "url": "https://example.org/1", "content": 1.5},
        "nothing",
        {"title": "two", "url": "https://example.org/2", "content": "found"},
    ]);
    let found = [
        SearchHit::new("", "https://example.org/1", ""),
        SearchHit::new("two", "https://example.org/2", "found"),
    ];
    for provider in [
        SearchProvider::Searxng,
        SearchProvider::Brave,
        SearchProvider::Tavily,
    ] {
        let answer = json!({"results": results, "web": {"results": results}});
        let site = WebSite::start(move |_| WebAnswer::json(answer.clone())).await;
        let mut config = SearchConfig::new(provider);
        config.base_url = Some(site.url(""));
        let search = config.connect(Some(Secret::new(SEARCH_KEY))).unwrap();
        let eight = std::num::NonZeroU32::new(8).unwrap();
        assert_eq!(search.search("x", eight).await.unwrap(), found);
    }
}

#[tokio::test]
async fn a_search_key_is_not_sent_along_with_a_redirect() {
    let other = WebSite::start(|_| WebAnswer::json("{}")).await;
    let to = other.url("/");
    let site = WebSite::start(move |_| WebAnswer::redirect(to.clone())).await;
    for provider in [SearchProvider::Brave, SearchProvider::Tavily] {
        let mut config = SearchConfig::new(provider);
        config.base_url = Some(site.url(""));
        let search = config.connect(Some(Secret::new(SEARCH_KEY))).unwrap();
        let error = search
            .search("x", std::num::NonZeroU32::MIN)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("it redirects"), "{error}");
    }
    assert!(other.requests().is_empty());
}

async fn call(
    search: ScriptedSearch,
    arguments: Value,
) -> Result<Value, neuraxis_ports::ToolError> {
    let search: Arc<dyn WebSearch> = Arc::new(search);
    let tool = web_search(search).unwrap();
    assert!(tool.spec().annotations.open_world);
    let output = tool
        .call(JsonText::from_text(arguments.to_string()), tool_context())
        .await?;
    Ok(output.value.decode().unwrap())
}

#[tokio::test]
async fn the_search_tool_returns_hits_and_reports_failures() {
    let hit = |n: u32| {
        SearchHit::new(
            format!("Rivers {n}"),
            format!("https://example.org/{n}"),
            "about",
        )
    };
    let found = call(
        ScriptedSearch::new((0..30).map(hit)),
        json!({"query": "rivers", "count": 2}),
    )
    .await;
    let found = found.unwrap();
    assert_eq!(found["summary"], "2 pages were found.");
    let first = json!({"title": "Rivers 0", "url": "https://example.org/0", "snippet": "about"});
    assert_eq!(found["results"][0], first);
    let usual = call(
        ScriptedSearch::new((0..30).map(hit)),
        json!({"query": "rivers", "count": null}),
    )
    .await;
    assert_eq!(usual.unwrap()["results"].as_array().unwrap().len(), 8);
    let none = call(ScriptedSearch::default(), json!({"query": "rivers"})).await;
    assert_eq!(
        none.unwrap()["summary"],
        "Nothing was found; try other words."
    );
    let empty = call(ScriptedSearch::default(), json!({"query": " "}))
        .await
        .unwrap_err();
    assert!(empty.message.contains("the query is empty"));
    for (error, persistence) in [
        (WebSearchError::Unauthorized, Persistence::Permanent),
        (WebSearchError::Timeout, Persistence::Temporary),
    ] {
        let failed = call(
            ScriptedSearch::failing(error.clone()),
            json!({"query": "x"}),
        )
        .await
        .unwrap_err();
        assert_eq!(
            (failed.message, failed.persistence),
            (error.to_string(), persistence)
        );
    }
}
