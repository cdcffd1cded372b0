//! Tests of the configuration.

use super::*;

fn read(text: &str) -> Result<OpenAiConfig, toml::de::Error> {
    toml::from_str(text)
}

#[test]
fn an_empty_section_is_the_default() {
    assert_eq!(read("").unwrap(), OpenAiConfig::default());
}

#[test]
fn a_written_configuration_reads_back_equal() {
    let text = r#"
        api = "chat"
        model = "m"
        organization = "org"
        reasoning_effort = "xhigh"
        reasoning_summary = "auto"
        store = true
        strict_tools = false
        parallel_tool_calls = true
        service_tier = "flex"
        system_role = "developer"
        temperature = "left_out"
        max_tokens_field = "max_completion_tokens"
        stream_usage = false
        reply_form = "json_object"
        echo_reasoning = "same_turn"
        late_system = "user"
        max_concurrent = 4
        ca_file = "/ca.pem"
        proxy = "http://proxy:3128"
        timeouts.output = "10m"
        context_tokens = 400000
        headers = { a = "b" }
    "#;
    let config = read(text).unwrap();
    assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
}

#[test]
fn unknown_keys_secrets_and_invalid_values_are_refused() {
    let error = read("base_uri = \"x\"").unwrap_err();
    assert!(
        error.message().contains("unknown field `base_uri`"),
        "{error}"
    );
    for secret in ["api_key = \"canary\"", "secret_headers = []"] {
        let error = read(secret).unwrap_err();
        assert!(error.message().contains("unknown field"), "{error}");
    }
    assert!(
        read("max_concurrent = 0").is_err(),
        "nothing would ever be sent"
    );
    assert!(read("api = \"assistants\"").is_err());
}

#[test]
fn secrets_are_never_written_out() {
    let mut config = OpenAiConfig::new("m");
    config.api_key = Some(Secret::new("sk-canary"));
    config
        .headers_env
        .insert("x-token".to_owned(), "TOKEN".to_owned());
    config
        .read_secret_headers(|name| (name == "TOKEN").then(|| "canary".to_owned()))
        .unwrap();
    let written = format!("{config:?} {}", toml::to_string(&config).unwrap());
    assert!(!written.contains("canary"), "{written}");
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn a_secret_header_with_an_unset_variable_is_named() {
    let mut config = OpenAiConfig::new("m");
    config
        .headers_env
        .insert("x-token".to_owned(), "TOKEN".to_owned());
    let error = config.read_secret_headers(|_| None).unwrap_err();
    assert!(error.to_string().contains("TOKEN") && error.to_string().contains("x-token"));
    let header = "x-token".to_owned();
    assert_eq!(config.check(), Err(OpenAiError::UnreadHeader { header }));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    assert_eq!(OpenAiConfig::new(" ").check(), Err(OpenAiError::NoModel));
    let mut config = OpenAiConfig::new("m");
    config.api = Api::Chat;
    config.reasoning_summary = Some(ReasoningSummary::Auto);
    let setting = "reasoning_summary";
    assert_eq!(config.check(), Err(OpenAiError::OnlyResponses { setting }));
    config.reasoning_summary = None;
    config.store = true;
    let setting = "store";
    assert_eq!(config.check(), Err(OpenAiError::OnlyResponses { setting }));
    config.api = Api::Responses;
    assert_eq!(config.check(), Ok(()));
    config.max_tokens_field = Some(MaxTokensField::MaxTokens);
    let setting = "max_tokens_field";
    assert_eq!(config.check(), Err(OpenAiError::OnlyChat { setting }));
    config.api = Api::Chat;
    config.store = false;
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn openai_and_azure_servers_are_recognized_by_host() {
    for (url, expected) in [
        ("https://api.openai.com/v1", true),
        ("https://eu.api.openai.com/v1", true),
        ("HTTPS://me.openai.azure.com/openai/v1", true),
        ("https://me.services.ai.azure.com/openai/v1", true),
        ("https://me.cognitiveservices.azure.com/openai/v1", true),
        ("https://me.openai.azure.us/openai/v1", true),
        ("https://me.cognitiveservices.azure.us/openai/v1", true),
        ("https://me.search.azure.com/openai/v1", false),
        ("https://openrouter.ai/api/v1", false),
        ("https://api.openai.com.evil.example/v1", false),
        ("https://notopenai.com/v1", false),
        ("http://127.0.0.1:8000/api.openai.com", false),
    ] {
        let mut config = OpenAiConfig::new("m");
        config.base_url = url.to_owned();
        assert_eq!(config.is_first_hand(), expected, "{url}");
    }
}
