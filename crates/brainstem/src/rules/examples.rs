//! Examples in rules: calls that a rule must match, and calls that it must not match.

use neuraxis_core::{Channel, JsonText, Mode, ToolAnnotations, ToolClass, ToolName, ToolSpec};

use super::facts::Facts;
use super::patterns::ToolPatterns;
use super::rule::{Condition, Fit, Rule};
use crate::config::{ExampleConfig, RuleConfig};
use crate::error::PolicyError;

/// The root folder in examples, for those that use an absolute path.
pub(crate) const ROOT: &str = "/project";

/// Checks that a rule matches what its examples say, and nothing more.
pub(crate) fn check(
    at: &str,
    config: &RuleConfig,
    rule: &Rule,
    tools: &[String],
) -> Result<(), PolicyError> {
    let wanted = config
        .r#match
        .iter()
        .flatten()
        .map(|example| ("match", example));
    let unwanted = config
        .not_match
        .iter()
        .flatten()
        .map(|example| ("not_match", example));
    let mut counts = [0, 0];
    for (key, example) in wanted.chain(unwanted) {
        let index = usize::from(key == "not_match");
        let number = counts.get(index).copied().unwrap_or_default();
        if let Some(count) = counts.get_mut(index) {
            *count += 1;
        }
        let at = format!("{at}.{key}[{number}]");
        let matches = matches(&at, rule, tools, example)?;
        if matches != (key == "match") {
            let arguments = arguments(example);
            return Err(PolicyError::Example {
                at,
                arguments: crate::names::shown_up_to(200, arguments.as_str()),
                outcome: if matches { "matches" } else { "does not match" },
            });
        }
    }
    Ok(())
}

fn matches(
    at: &str,
    rule: &Rule,
    tools: &[String],
    example: &ExampleConfig,
) -> Result<bool, PolicyError> {
    let spec = spec(at, rule, tools, example)?;
    let first_mode = || rule.modes.iter().flatten().next().cloned();
    let first_channel = || rule.channels.iter().flatten().next().cloned();
    let mode = example
        .mode
        .clone()
        .or_else(first_mode)
        .unwrap_or(Mode::MODERATE);
    let channel = example
        .channel
        .clone()
        .or_else(first_channel)
        .unwrap_or(Channel::CHAT);
    let named = ToolPatterns::check(at, tools)?.matches(&spec.name);
    if !named || !rule.is_about(&spec, &mode, &channel) {
        return Ok(false);
    }
    let arguments = arguments(example);
    let first_owner = rule
        .conditions
        .iter()
        .find_map(|condition| match condition {
            Condition::Owners { owners } => owners.first(),
            _ => None,
        });
    let owner = example.owner.as_ref().or(first_owner);
    let facts = Facts::new(&arguments, Some(ROOT)).owned_by(owner.map(String::as_str));
    if !rule.asks_for_commands() {
        return Ok(rule.fits(&facts, None) == Fit::Yes);
    }
    let parts = facts.parts().unwrap_or_default();
    let mut fits = parts
        .iter()
        .map(|part| rule.fits(&facts, Some(part)) == Fit::Yes);
    let all = rule.answer == crate::config::Permission::Allow;
    Ok(!parts.is_empty()
        && if all {
            fits.all(|fit| fit)
        } else {
            fits.any(|fit| fit)
        })
}

fn spec(
    at: &str,
    rule: &Rule,
    tools: &[String],
    example: &ExampleConfig,
) -> Result<ToolSpec, PolicyError> {
    let plain = |name: &&String| name.parse::<ToolName>().is_ok();
    let Some(name) = example.tool.as_ref().or_else(|| tools.iter().find(plain)) else {
        let why = "the rule names its tools only by wildcards: name the tool that is called";
        return Err(PolicyError::Contradiction {
            at: format!("{at}.tool"),
            why,
        });
    };
    let name = name.parse().map_err(|_| PolicyError::InvalidPattern {
        at: format!("{at}.tool"),
        pattern: crate::names::shown(name),
        reason: "it is not a valid tool name".to_owned(),
    })?;
    let class = example
        .class
        .or_else(|| rule.class.iter().flatten().next().copied());
    let mut annotations = ToolAnnotations::default();
    annotations.destructive = example.destructive.or(rule.destructive).unwrap_or_default();
    annotations.open_world = example.open_world.or(rule.open_world).unwrap_or_default();
    Ok(ToolSpec::new(name, "")
        .parameters(JsonText::from_text("{}"))
        .class(class.unwrap_or(ToolClass::Irreversible))
        .annotations(annotations))
}

fn arguments(example: &ExampleConfig) -> JsonText {
    let mut table = example.arguments.clone().unwrap_or_default();
    let short = [
        ("command", &example.command),
        ("path", &example.path),
        ("url", &example.url),
    ];
    for (name, value) in short {
        if let Some(value) = value {
            table.insert(name.to_owned(), toml::Value::String(value.clone()));
        }
    }
    // A TOML table has string keys, so encoding it cannot fail.
    JsonText::encode(&table).unwrap_or_else(|_| JsonText::from_text("{}"))
}
