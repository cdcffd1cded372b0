//! Tests of valid and invalid configuration sections.

use super::*;

fn read(text: &str) -> Result<AnthropicConfig, toml::de::Error> {
    toml::from_str(text)
}

#[test]
fn an_empty_section_is_the_default() {
    assert_eq!(read("").unwrap(), AnthropicConfig::default());
}

#[test]
fn a_written_configuration_reads_back_equal() {
    let text = r#"
        model = "claude-sonnet-4-6"
        auth = "bearer"
        betas = ["interleaved-thinking-2025-05-14"]
        max_output_tokens = 9
        thinking_budget = 2048
        show_thinking = "omitted"
        effort = "xhigh"
        cache = "off"
        parallel_tool_calls = false
        forced_tool_choice = false
        temperature = "left_out"
        context_tokens = 7
    "#;
    let config = read(text).unwrap();
    assert_eq!(config.check(), Ok(()));
    let written = toml::to_string(&config).unwrap();
    assert_eq!(read(&written).unwrap(), config);
}

#[test]
fn unknown_keys_and_invalid_values_are_refused_by_name() {
    for (text, key) in [
        ("modle = \"x\"", "modle"),
        ("api_key = \"canary\"", "api_key"),
    ] {
        let error = read(text).unwrap_err();
        let expected = format!("unknown field `{key}`");
        assert!(error.message().contains(&expected), "{error}");
    }
    assert!(
        read("max_output_tokens = 0").is_err(),
        "the service refuses it"
    );
    let error = read("cache = \"2h\"").unwrap_err();
    assert!(error.message().contains("`1h`"), "{error}");
}

#[test]
fn the_api_key_is_never_written_out() {
    let mut config = AnthropicConfig::new("m");
    config.api_key = Some(Secret::new("sk-ant-canary"));
    let written = format!("{config:?} {}", toml::to_string(&config).unwrap());
    assert!(!written.contains("canary"), "{written}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    assert_eq!(
        AnthropicConfig::new(" ").check(),
        Err(AnthropicError::NoModel)
    );
    for (text, expected) in [
        ("thinking_budget = 1023", AnthropicError::SmallBudget(1_023)),
        (
            "thinking_budget = 4096\nthinking = \"off\"",
            AnthropicError::BudgetAndThinking,
        ),
        (
            "show_thinking = \"summarized\"",
            AnthropicError::NothingToShow,
        ),
    ] {
        let mut config = read(text).unwrap();
        config.model = "m".to_owned();
        assert_eq!(config.check(), Err(expected), "{text}");
    }
}

#[test]
fn the_context_size_defaults_to_the_models_only_on_anthropics_own_service() {
    let mut config = AnthropicConfig::new("claude-sonnet-4-5");
    assert_eq!(config.context_tokens(), Some(200_000));
    for elsewhere in [
        "https://api.anthropic.com.evil.example",
        "http://api.anthropic.com",
        "https://gateway.example/anthropic",
    ] {
        config.base_url = elsewhere.to_owned();
        assert_eq!(config.context_tokens(), None, "{elsewhere}");
    }
    config.context_tokens = Some(9);
    assert_eq!(config.context_tokens(), Some(9));
}

#[test]
fn unsigned_thinking_is_accepted_only_from_other_vendors_models_behind_gateways() {
    for (base_url, model, expected) in [
        ("https://api.anthropic.com", "kimi-k3", false),
        ("https://gateway.example", "anthropic/claude-opus-5", false),
        ("https://gateway.example", "kimi-k3", true),
    ] {
        let mut config = AnthropicConfig::new(model);
        config.base_url = base_url.to_owned();
        assert_eq!(config.takes_unsigned_thinking(), expected, "{model}");
    }
}
