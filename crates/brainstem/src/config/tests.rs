//! Tests of reading and layering configuration.

use std::time::Duration;

use neuraxis_core::{Channel, Mode};

use super::*;

#[test]
fn the_built_in_policy_is_readable_and_sets_every_answer() {
    let config = PolicyConfig::built_in();
    assert_eq!(config.modes.len(), 3);
    for (name, mode) in &config.modes {
        let ToolAnswersConfig {
            read_only,
            idempotent,
            irreversible,
            open_world,
            destructive,
        } = &mode.tools;
        let answers = [read_only, idempotent, irreversible, open_world, destructive];
        assert!(
            answers.iter().all(|answer| answer.is_some()),
            "{name} leaves an answer out"
        );
    }
}

#[test]
fn a_written_configuration_reads_back_unchanged() {
    let config = PolicyConfig::built_in();
    let text = toml::to_string(&config).unwrap();
    assert_eq!(PolicyConfig::from_toml(&text).unwrap(), config, "{text}");
}

#[test]
fn unset_keys_are_not_written() {
    assert_eq!(toml::to_string(&PolicyConfig::default()).unwrap(), "");
    let config =
        PolicyConfig::from_toml("[modes.moderate]\ntemperature = 0.7\ndeadline = '90s'").unwrap();
    let text = toml::to_string(&config).unwrap();
    assert_eq!(
        text,
        "[modes.moderate]\ndeadline = \"1m 30s\"\ntemperature = 0.7\n"
    );
}

#[test]
fn a_set_key_replaces_the_one_below_and_other_keys_remain() {
    let above = "[modes.moderate]\nmax_turns = 5\n[modes.moderate.tools]\nopen_world = 'allow'";
    let merged = PolicyConfig::from_toml(above)
        .unwrap()
        .over(PolicyConfig::built_in());
    let moderate = &merged.modes[&Mode::MODERATE];
    assert_eq!(moderate.max_turns, Some(5));
    assert_eq!(moderate.deadline, Some(Duration::from_secs(180)));
    assert_eq!(moderate.tools.open_world, Some(Permission::Allow));
    assert_eq!(moderate.tools.destructive, Some(Permission::Ask));
    assert_eq!(
        merged.modes[&Mode::CONSERVATIVE],
        PolicyConfig::built_in().modes[&Mode::CONSERVATIVE]
    );
}

#[test]
fn a_list_replaces_the_whole_list_below() {
    let above = "[channels.chat]\ntools = ['current_time']";
    let merged = PolicyConfig::from_toml(above)
        .unwrap()
        .over(PolicyConfig::built_in());
    assert_eq!(
        merged.channels[&Channel::CHAT].tools.as_deref(),
        Some(["current_time".to_owned()].as_slice())
    );
}

#[test]
fn durations_require_a_unit() {
    let read = |value: &str| PolicyConfig::from_toml(&format!("[plans.p]\ndeadline = {value}"));
    for (value, seconds) in [
        ("'60s'", 60),
        ("'3m'", 180),
        ("'1h 30m'", 5_400),
        ("'1m30s'", 90),
        ("'2 minutes'", 120),
    ] {
        let plan = read(value).unwrap().plans.into_values().next().unwrap();
        assert_eq!(plan.deadline, Some(Duration::from_secs(seconds)), "{value}");
    }
    for value in [
        "60",
        "'60'",
        "'-5s'",
        "'soon'",
        "''",
        "true",
        "'999999999999999999999h'",
    ] {
        let message = read(value).unwrap_err().to_string();
        assert!(
            message.contains("expected a duration with its unit, such as \"60s\" or \"3m\""),
            "{message}"
        );
        assert!(message.starts_with("line 2, column 12: "), "{message}");
    }
}
