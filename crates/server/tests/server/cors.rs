//! Pages of other origins: only configured ones may send requests and read the answers, as the browser is told.

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::support::Program;
use crate::support::client::answer;
use crate::support::program::{folder_with, make_key};

/// The origin of a configured front end.
const FRONT_END: &str = "https://chat.example.com";

const CONFIG: &str = "[server]\norigins = ['https://chat.example.com', 'http://localhost:3000']\n";

async fn program(config: &str) -> (Program, String) {
    let folder = folder_with(config);
    let key = make_key(folder.path(), &["--owner", "ada"]).await;
    (Program::start_in(folder, |_| {}).await, key)
}

fn request(program: &Program, method: Method, path: &str, origin: &str) -> RequestBuilder {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = http.request(method, format!("{}{path}", program.url()));
    request.header("origin", origin)
}

/// The preflight request that a browser sends before a page's request.
fn preflight(program: &Program, path: &str, origin: &str) -> RequestBuilder {
    let asked = request(program, Method::OPTIONS, path, origin);
    let asked = asked.header("access-control-request-method", "POST");
    asked.header(
        "access-control-request-headers",
        "authorization,content-type",
    )
}

fn allowed(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(format!("access-control-{name}"))?;
    Some(value.to_str().unwrap().to_ascii_lowercase())
}

#[tokio::test]
async fn a_page_of_a_configured_origin_passes_preflight_and_can_read_the_answers() {
    let (program, key) = program(CONFIG).await;
    for path in ["/agui", "/v1/chat/completions", "/api/v1/sessions/s/turns"] {
        // A browser sends no key with it.
        let response = preflight(&program, path, FRONT_END).send().await.unwrap();
        assert!(response.status().is_success(), "{path}");
        let headers = response.headers();
        assert_eq!(
            allowed(headers, "allow-origin").as_deref(),
            Some(FRONT_END),
            "{path}"
        );
        let methods = allowed(headers, "allow-methods").unwrap();
        assert_eq!(methods, "get,post,patch,delete");
        let asked = allowed(headers, "allow-headers").unwrap();
        assert_eq!(asked, "authorization,content-type");
        assert_eq!(allowed(headers, "allow-credentials"), None);
        assert!(headers["vary"].to_str().unwrap().contains("origin"));
    }
    let turn = json!({"message": "hello"}).to_string();
    let post = || {
        let path = "/api/v1/sessions/s/turns";
        let post = request(&program, Method::POST, path, FRONT_END);
        post.header("content-type", "application/json")
            .body(turn.clone())
    };
    let response = post().bearer_auth(&key).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let headers = response.headers();
    assert_eq!(allowed(headers, "allow-origin").as_deref(), Some(FRONT_END));
    let exposed = allowed(headers, "expose-headers").unwrap();
    for name in [
        "x-request-id",
        "retry-after",
        "x-should-retry",
        "mcp-session-id",
        "date",
    ] {
        assert!(exposed.contains(name), "{name}: {exposed}");
    }
    // A page can read errors too.
    let response = post().send().await.unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(
        allowed(response.headers(), "allow-origin").as_deref(),
        Some(FRONT_END)
    );
}

#[tokio::test]
async fn a_page_of_any_other_origin_can_neither_send_requests_nor_read_answers() {
    let (program, key) = program(CONFIG).await;
    for origin in [
        "https://evil.example",
        "https://chat.example.com.evil.example",
        "http://chat.example.com",
        "https://chat.example.com:8443",
        "http://localhost:3001",
        "null",
        "*",
        "",
    ] {
        let asked = preflight(&program, "/agui", origin).send().await.unwrap();
        assert_eq!(asked.status(), 403, "{origin}");
        assert_eq!(allowed(asked.headers(), "allow-origin"), None, "{origin}");
        let asked = request(&program, Method::GET, "/api/v1/sessions", origin);
        let asked = asked.bearer_auth(&key).send().await.unwrap();
        assert_eq!(asked.status(), 403, "{origin}");
        assert_eq!(allowed(asked.headers(), "allow-origin"), None, "{origin}");
    }
    // A client that is not a page needs no origin, and receives no CORS headers.
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = http.get(format!("{}/api/v1/sessions", program.url()));
    let asked = asked.bearer_auth(&key).send().await.unwrap();
    assert_eq!(asked.status(), 200);
    assert_eq!(allowed(asked.headers(), "allow-origin"), None);
}

#[tokio::test]
async fn preflight_is_refused_when_no_origins_are_configured() {
    let (program, _) = program("").await;
    let asked = preflight(&program, "/agui", FRONT_END).send().await;
    assert_eq!(asked.unwrap().status(), 403);
    let own = preflight(&program, "/agui", program.url()).send().await;
    let own = own.unwrap();
    assert!(!own.status().is_success());
    assert_eq!(allowed(own.headers(), "allow-origin"), None);
}

#[tokio::test]
async fn without_keys_no_page_of_another_origin_passes_preflight() {
    let program = Program::start_in(folder_with(CONFIG), |_| {}).await;
    let asked = preflight(&program, "/agui", FRONT_END)
        .send()
        .await
        .unwrap();
    assert_eq!(asked.status(), 403);
    assert_eq!(allowed(asked.headers(), "allow-origin"), None);
    let log = program.log();
    assert!(log.contains(FRONT_END), "{log}");
    for (origin, told) in [
        (
            FRONT_END,
            "names it, but has no effect without keys: create one with neuraxis-server keys create",
        ),
        (
            "http://localhost:5173",
            "add its origin to [server] origins, which needs keys",
        ),
    ] {
        let asked = request(&program, Method::GET, "/api/v1/sessions", origin);
        let (status, problem) = answer(asked).await;
        assert_eq!(status, 403);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(origin) && detail.contains(told), "{detail}");
    }
}
