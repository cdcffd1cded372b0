//! 500 tool definitions in the style of servers, and questions with the tools that answer them.

use neuraxis_core::{JsonText, ToolSpec};
use serde_json::{Map, Value, json};

/// A question, and the tools that it should find.
pub(crate) struct Question {
    /// The user's message.
    pub(crate) said: &'static str,
    /// The model's search query for that message.
    pub(crate) looked_for: &'static str,
    /// The tools, any of which is correct.
    pub(crate) tools: Vec<&'static str>,
}

/// Returns the definitions, grouped by server name.
pub(crate) fn services() -> Vec<(&'static str, Vec<ToolSpec>)> {
    let mut services: Vec<(&str, Vec<ToolSpec>)> = Vec::new();
    for line in lines(include_str!("services.txt")) {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        match (parts.as_slice(), services.last_mut()) {
            ([server], _) => services.push((server, Vec::new())),
            ([name, does, parameters], Some((server, tools))) => {
                tools.push(definition(server, name, does, parameters));
            }
            _ => panic!("{line}"),
        }
    }
    services
}

/// Returns all definitions.
pub(crate) fn definitions() -> Vec<ToolSpec> {
    let services = services().into_iter();
    services.flat_map(|(_, tools)| tools).collect()
}

/// Returns the questions.
pub(crate) fn questions() -> Vec<Question> {
    let questions = lines(include_str!("questions.txt")).map(|line| {
        let [said, looked_for, tools] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let tools = tools.split_whitespace().collect();
        Question {
            said,
            looked_for,
            tools,
        }
    });
    questions.collect()
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Describes a tool like a server: a schema with a description of each parameter, the first of which is required.
fn definition(server: &str, name: &str, does: &str, parameters: &str) -> ToolSpec {
    let names = parameters.split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let mut properties = Map::new();
    for parameter in &names {
        let words = parameter.replace('_', " ");
        properties.insert((*parameter).to_owned(), property(parameter, &words));
    }
    let first: Vec<&str> = names.first().copied().into_iter().collect();
    let schema = json!({
        "type": "object",
        "properties": Value::Object(properties),
        "required": first,
        "additionalProperties": false,
    });
    ToolSpec::new(format!("{server}__{name}").parse().unwrap(), does)
        .parameters(JsonText::from_text(schema.to_string()))
}

fn property(name: &str, words: &str) -> Value {
    let is_count = [
        "limit", "page", "number", "percent", "amount", "quantity", "replicas",
    ];
    let is_list = name.ends_with('s') && !name.ends_with("ss") && !name.ends_with("status");
    let of_text = format!("The {words} to use for this operation.");
    match name {
        _ if is_count.contains(&name) => {
            json!({"type": "integer", "minimum": 0, "description": of_text})
        }
        _ if is_list => {
            json!({"type": "array", "items": {"type": "string"}, "description": of_text})
        }
        _ => json!({"type": "string", "description": of_text}),
    }
}
