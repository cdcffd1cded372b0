//! A real search engine, the program from which SearXNG was forked, which queries a page of this test.

use std::num::NonZeroU32;
use std::process::Stdio;

use neuraxis_core::JsonText;
use neuraxis_ports::{WebSearch, WebSearchError};
use neuraxis_testkit::{WebAnswer, WebSite, tool_context};
use neuraxis_web::{SearchConfig, SearchProvider, web_search};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Where Debian's package keeps the program's user interface.
const SHARED: &str = "/usr/share/python3-searx";

/// A running search engine.
struct Engine {
    address: String,
    _process: Child,
    _settings: TempDir,
}

impl Engine {
    /// Starts an engine that queries a page of this test, and answers in these formats.
    async fn start(asks: &str, formats: &[&str]) -> Self {
        let settings = json!({
            "general": {"debug": false, "instance_name": "test", "contact_url": false, "enable_stats": false},
            "brand": {},
            "search": {
                "safe_search": 0, "autocomplete": "", "default_lang": "", "formats": formats,
                "ban_time_on_fail": 0, "max_ban_time_on_fail": 0,
            },
            "server": {
                "port": 0, "bind_address": "127.0.0.1", "secret_key": "of a test", "base_url": false, "image_proxy": false,
                "http_protocol_version": "1.0", "method": "GET", "default_http_headers": {},
            },
            "ui": {
                "static_path": format!("{SHARED}/static"), "templates_path": format!("{SHARED}/templates"),
                "default_theme": "oscar", "default_locale": "", "theme_args": {"oscar_style": "logicodev"},
            },
            "outgoing": {"request_timeout": 10.0, "useragent_suffix": "", "pool_connections": 1, "pool_maxsize": 1},
            "engines": [{
                "name": "pages", "engine": "json_engine", "shortcut": "pg", "categories": "general",
                "search_url": format!("{asks}?q={{query}}"), "results_query": "results", "url_query": "url",
                "title_query": "title", "content_query": "content", "paging": false, "enable_http": true, "disabled": false,
            }],
            "locales": {"en": "English"},
            "doi_resolvers": {"oadoi.org": "https://oadoi.org/"},
            "default_doi_resolver": "oadoi.org",
        });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.yml");
        // JSON is valid YAML.
        std::fs::write(&file, settings.to_string()).unwrap();
        let program = std::env::var_os("TEST_NEURAXIS_SEARXNG");
        let mut process = Command::new(program.expect("cargo xtask test sets the variables"))
            .env("SEARX_SETTINGS_PATH", &file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let address = loop {
            let line = lines.next_line().await.unwrap();
            let line = line.unwrap_or_else(|| panic!("it does not start: {said}"));
            if let Some((_, address)) = line.split_once("Running on ") {
                break address.trim().to_owned();
            }
            said.push_str(&line);
            said.push('\n');
        };
        // Its output must be read for it to continue.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            address,
            _process: process,
            _settings: folder,
        }
    }

    fn search(&self) -> std::sync::Arc<dyn WebSearch> {
        let mut config = SearchConfig::new(SearchProvider::Searxng);
        config.base_url = Some(self.address.clone());
        config.connect(None).unwrap()
    }
}

fn tides() -> Value {
    let page = |number: u32| {
        json!({
            "url": format!("https://example.org/{number}"),
            "title": format!("Tides & currents, part {number}"),
            "content": "What they are.",
        })
    };
    json!({"results": (0..12).map(page).collect::<Vec<_>>()})
}

#[tokio::test]
#[ignore = "needs SearXNG: cargo xtask test provides it where it can be had"]
async fn real_searxng_returns_the_hits_of_its_engines() {
    let pages = WebSite::start(|request| match request.target.contains("tides") {
        true => WebAnswer::json(tides()),
        false => WebAnswer::json(json!({"results": []})),
    })
    .await;
    let engine = Engine::start(&pages.url("/"), &["html", "json"]).await;
    let tool = web_search(engine.search()).unwrap();
    let call = async |arguments: Value| {
        let arguments = JsonText::from_text(arguments.to_string());
        let output = tool.call(arguments, tool_context()).await.unwrap();
        output.value.decode::<Value>().unwrap()
    };
    let found = call(json!({"query": "tides", "count": 3})).await;
    assert_eq!(found["summary"], "3 pages were found.", "{found}");
    let first = json!({
        "title": "Tides & currents, part 0", "url": "https://example.org/0", "snippet": "What they are.",
    });
    assert_eq!(found["results"][0], first);
    let none = call(json!({"query": "nothing of the kind"})).await;
    assert_eq!(none["summary"], "Nothing was found; try other words.");
}

#[tokio::test]
#[ignore = "needs SearXNG: cargo xtask test provides it where it can be had"]
async fn real_searxng_reports_an_error_when_its_engine_fails() {
    let pages = WebSite::start(|_| WebAnswer::status(500)).await;
    let engine = Engine::start(&pages.url("/"), &["html", "json"]).await;
    let error = engine.search().search("tides", NonZeroU32::MIN).await;
    let error = error.unwrap_err();
    assert!(
        matches!(&error, WebSearchError::NobodyLooked { why } if why.contains("pages")),
        "{error}"
    );
}
