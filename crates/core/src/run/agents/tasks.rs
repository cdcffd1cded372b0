//! What the arguments of a call give its agents to do.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::json::JsonText;
use crate::spec::AgentSpec;

/// Returns what each agent is to do: an item of the list that the spec names, or the whole arguments. A text is taken as
/// it is, and so is the only text of an object; anything else as JSON.
pub(super) fn tasks_of(spec: &AgentSpec, arguments: &JsonText) -> Result<Vec<String>, String> {
    let object: BTreeMap<String, &RawValue> = arguments
        .decode()
        .map_err(|error| format!("the arguments are not an object: {error}"))?;
    let Some(list) = &spec.fan_out else {
        let mut values = object.values();
        let only = match (values.next(), values.next()) {
            (Some(only), None) => serde_json::from_str::<String>(only.get()).ok(),
            _ => None,
        };
        return Ok(vec![only.unwrap_or_else(|| arguments.as_str().to_owned())]);
    };
    let items = object
        .get(list)
        .ok_or_else(|| format!("{list}: is missing"))?;
    let items: Vec<&RawValue> =
        serde_json::from_str(items.get()).map_err(|_| format!("{list}: must be a list"))?;
    let tasks = items.iter().map(|item| {
        serde_json::from_str::<String>(item.get()).unwrap_or_else(|_| item.get().to_owned())
    });
    Ok(tasks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Role;
    use crate::profile::Profile;

    fn tasks(fan_out: Option<&str>, arguments: &str) -> Result<Vec<String>, String> {
        let mut spec = AgentSpec::new(Profile::researcher(), Role::REASONING);
        spec.fan_out = fan_out.map(str::to_owned);
        tasks_of(&spec, &JsonText::from_text(arguments))
    }

    #[test]
    fn a_list_gives_a_task_an_item() {
        let arguments = r#"{"topics":["a",{"b":1},2],"depth":3}"#;
        assert_eq!(
            tasks(Some("topics"), arguments).unwrap(),
            ["a", r#"{"b":1}"#, "2"]
        );
        assert_eq!(
            tasks(Some("topics"), "{}").unwrap_err(),
            "topics: is missing"
        );
        assert_eq!(
            tasks(Some("topics"), r#"{"topics":"a"}"#).unwrap_err(),
            "topics: must be a list"
        );
    }

    #[test]
    fn without_a_list_the_arguments_are_the_task() {
        assert_eq!(tasks(None, r#"{"task":"a"}"#).unwrap(), ["a"]);
        let two = r#"{"task":"a","style":"short"}"#;
        assert_eq!(tasks(None, two).unwrap(), [two]);
        assert!(
            tasks(None, "[]")
                .unwrap_err()
                .starts_with("the arguments are not")
        );
    }
}
