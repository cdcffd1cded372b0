//! Which settings of a configuration are omitted, and the warnings about them.

use super::*;
use crate::config::Thinking;

fn settings(model: &str, set_up: impl FnOnce(&mut AnthropicConfig)) -> Settings {
    let mut config = AnthropicConfig::new(model);
    set_up(&mut config);
    Settings::new(&config)
}

#[test]
fn an_unsupported_thinking_mode_is_omitted_with_advice() {
    for (model, thinking, budget, advice) in [
        (
            "claude-opus-4-7",
            Thinking::ModelDefault,
            Some(2_048),
            "set thinking = \"adaptive\"",
        ),
        (
            "claude-haiku-5-5",
            Thinking::ModelDefault,
            Some(2_048),
            "set thinking = \"adaptive\"",
        ),
        (
            "claude-3-5-haiku-latest",
            Thinking::ModelDefault,
            Some(2_048),
            "does not think",
        ),
        (
            "claude-sonnet-4-5",
            Thinking::Adaptive,
            None,
            "set thinking_budget",
        ),
        (
            "claude-3-5-haiku-latest",
            Thinking::Adaptive,
            None,
            "does not think",
        ),
        (
            "claude-opus-5-5",
            Thinking::Off,
            None,
            "set effort = \"low\"",
        ),
    ] {
        let settings = settings(model, |config| {
            config.thinking = thinking;
            config.thinking_budget = budget;
        });
        assert_eq!(settings.thinking, ThinkingMode::Unspecified, "{model}");
        let said = settings.omissions[0].unwrap();
        assert!(said.contains(advice), "{model}: {said}");
    }
}

#[test]
fn supported_thinking_modes_and_efforts_are_kept() {
    for (model, thinking, budget, expected) in [
        (
            "claude-sonnet-4-6",
            Thinking::ModelDefault,
            Some(2_048),
            ThinkingMode::Budget(2_048),
        ),
        (
            "claude-sonnet-4-6",
            Thinking::Adaptive,
            None,
            ThinkingMode::Adaptive,
        ),
        ("claude-opus-5", Thinking::Off, None, ThinkingMode::Off),
        (
            "my-model",
            Thinking::ModelDefault,
            Some(2_048),
            ThinkingMode::Budget(2_048),
        ),
    ] {
        let settings = settings(model, |config| {
            config.thinking = thinking;
            config.thinking_budget = budget;
            config.effort = Some(Effort::Low);
        });
        assert_eq!(settings.thinking, expected, "{model}");
        assert_eq!(settings.effort, Some(Effort::Low), "{model}");
        assert_eq!(settings.omissions, [None, None], "{model}");
    }
}

#[test]
fn effort_is_omitted_if_the_model_does_not_accept_it() {
    let old = settings("claude-haiku-4-5", |config| {
        config.effort = Some(Effort::High);
    });
    assert_eq!(old.effort, None);
    assert!(old.omissions[1].unwrap().contains("does not accept effort"));
    assert_eq!(settings("claude-haiku-4-5", |_| {}).omissions, [None, None]);
}

#[test]
fn the_reason_for_an_omitted_temperature_is_accurate() {
    let old = settings("claude-sonnet-4-6", |_| {});
    assert_eq!(old.no_temperature(false), None);
    assert!(old.no_temperature(true).unwrap().contains("thinks"));
    let new = settings("claude-opus-4-7", |_| {});
    for thinks in [false, true] {
        assert!(new.no_temperature(thinks).unwrap().contains("this model"));
    }
    let off = settings("claude-sonnet-4-6", |config| {
        config.temperature = Some(Temperature::LeftOut);
    });
    assert!(off.no_temperature(false).unwrap().contains("configuration"));
}
