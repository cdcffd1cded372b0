//! The section `[web]`.

use super::*;

const SEARCH: &str = "[web.search]\nprovider = 'brave'\napi_key_env = 'MY_KEY'\n";

#[test]
fn every_value_of_the_section_is_shown_with_its_origin() {
    let machine = Machine::new()
        .with_file(
            "user/neuraxis.toml",
            "[web]\nallow_hosts = ['127.0.0.1:8080']\ntimeout = '5s'\n[web.search]\nprovider = 'searxng'\n",
        )
        .with_variable("NEURAXIS_WEB__ROBOTS", "false")
        .with_variable("NEURAXIS_WEB__SEARCH__BASE_URL", "http://me:hunter2@127.0.0.1:8888");
    let lines = lines(&machine.load().unwrap()).join("\n");
    for line in [
        r#"web.allow_hosts = ["127.0.0.1:8080"]"#,
        r#"web.timeout = "5s""#,
        "web.robots = false",
        "web.max_redirects = 5",
        r#"web.search.provider = "searxng""#,
        r#"web.search.base_url = "http://***@127.0.0.1:8888""#,
    ] {
        assert!(lines.contains(line), "{line}: {lines}");
    }
    assert!(!lines.contains("hunter2"));
    let config = machine.load().unwrap();
    let robots = config.origin("web.robots");
    assert_eq!(robots, Origin::Variable("NEURAXIS_WEB__ROBOTS".into()));
}

#[test]
fn an_invalid_value_is_reported_with_its_position_and_the_nearest_key() {
    for (text, said) in [
        (
            "[web]\nallow_host = []\n",
            "neuraxis.toml:2:1: unknown key \"allow_host\" in [web] (did you mean allow_hosts?)",
        ),
        (
            "[web]\nallow_hosts = ['intranet']\n",
            "expected a host and a port",
        ),
        ("[web.search]\nprovider = 'brav'\n", "did you mean brave?"),
        (
            "[web.search]\napi_key = 'sk-canary'\n",
            "the configuration must not contain a key",
        ),
        (
            "[web]\npage_chars = 10\n",
            "expected at least 1000 characters",
        ),
    ] {
        let complaint = Machine::new()
            .with_file("user/neuraxis.toml", text)
            .complaint();
        assert!(complaint.contains(said), "{said}: {complaint}");
        assert!(!complaint.contains("canary"));
    }
}

#[test]
fn an_untrusted_file_opens_no_host_and_sets_no_search_service() {
    let text = "[web]\nallow_hosts = ['127.0.0.1:8080']\nrobots = false\n\
                [web.search]\nprovider = 'searxng'\nbase_url = 'https://elsewhere.example'\n";
    let config = Machine::new().with_untrusted(text).load().unwrap();
    assert_eq!(*config.web(), neuraxis_web::WebConfig::default());
    let changes = config.found().unwrap().changes();
    let shown: Vec<_> = changes
        .iter()
        .map(|change| (change.key.as_str(), change.meaning.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            (
                "web.search.base_url",
                "sends search queries to https://elsewhere.example"
            ),
            (
                "web.allow_hosts",
                "lets web_fetch reach these hosts, including those in your own network"
            ),
            ("web.search.provider", "sends search queries to searxng"),
            ("web.robots", "changes how web pages are fetched"),
        ]
    );
}

#[test]
fn the_users_search_key_is_never_sent_to_an_address_of_the_project() {
    for text in [
        "[web.search]\nbase_url = 'https://elsewhere.example'\n",
        "[web.search]\nprovider = 'tavily'\n",
    ] {
        let machine = Machine::new()
            .with_file(FOUND, text)
            .with_file("user/neuraxis.toml", SEARCH);
        let error = machine.load().unwrap_err();
        assert!(
            matches!(error, ConfigError::KeyElsewhere { .. }),
            "{text}: {error}"
        );
        assert!(
            error.to_string().contains("web.search.api_key_env"),
            "{error}"
        );
    }
    let whole = format!("{SEARCH}base_url = 'https://mine.example'\n");
    assert!(Machine::new().with_file(FOUND, &whole).load().is_ok());
    let own = Machine::new().with_file(FOUND, "[web]\nrobots = false\n");
    assert!(own.with_file("user/neuraxis.toml", SEARCH).load().is_ok());
}

#[test]
fn a_search_key_sent_unencrypted_causes_a_notice() {
    let text = "[web.search]\nprovider = 'searxng'\nbase_url = 'http://search.example'\napi_key_env = 'MY_KEY'\n";
    let config = Machine::new()
        .with_file("user/neuraxis.toml", text)
        .load()
        .unwrap();
    let notice = config.notices().join("\n");
    assert!(
        notice.contains("sent to http://search.example unencrypted"),
        "{notice}"
    );
}
