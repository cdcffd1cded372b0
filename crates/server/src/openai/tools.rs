//! The tools that a client sends, whether one must be called, and the requested format of the answer. The two
//! protocols differ in the nesting of their fields.

use std::collections::BTreeSet;

use neuraxis::AnswerSchema;
use neuraxis::core::{JsonText, ToolChoice, ToolName, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::problem::Problem;

/// A tool as a client sends it: with its function nested (Chat Completions) or flat (Responses).
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiTool")]
#[serde(expecting = "a tool, which is an object")]
pub(super) struct ToolIn {
    /// `function`, which is the default.
    #[serde(rename = "type", default)]
    kind: Option<String>,
    /// The function, in the form of Chat Completions.
    function: Option<FunctionIn>,
    #[serde(flatten)]
    flat: FunctionIn,
}

/// A function that the client runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiFunction")]
#[serde(expecting = "a function, which is an object")]
struct FunctionIn {
    /// The name by which the model calls it.
    name: Option<String>,
    /// What it does and when to call it.
    description: Option<String>,
    /// The JSON Schema of its arguments, which must describe an object.
    parameters: Option<Value>,
}

/// Parses a client's tools and which of them may or must be called. Tools excluded by the choice are not offered.
pub(super) fn offered(
    sent: Vec<ToolIn>,
    choice: &Value,
) -> Result<(Vec<ToolSpec>, Option<ToolChoice>), Problem> {
    let mut tools = tools(sent)?;
    only_allowed(&mut tools, choice)?;
    Ok((tools, tool_choice(choice)?))
}

fn tools(tools: Vec<ToolIn>) -> Result<Vec<ToolSpec>, Problem> {
    let tools = tools.into_iter().enumerate();
    tools.map(|(at, tool)| one(at, tool)).collect()
}

fn one(at: usize, tool: ToolIn) -> Result<ToolSpec, Problem> {
    let field = |name: &str| format!("tools[{at}].{name}");
    let kind = tool.kind.unwrap_or_else(|| "function".to_owned());
    if kind != "function" {
        let why =
            "only function tools are accepted; the server's own tools run without being named";
        return Err(Problem::invalid(&field("type"), why));
    }
    let function = tool.function.unwrap_or(tool.flat);
    let name = function.name.unwrap_or_default();
    let name: ToolName = name
        .parse()
        .map_err(|error| Problem::invalid(&field("function.name"), error))?;
    let spec = ToolSpec::new(name, function.description.unwrap_or_default());
    Ok(match function.parameters {
        Some(Value::Null) | None => spec,
        Some(schema) => spec.parameters(JsonText::from_text(schema.to_string())),
    })
}

/// Drops the tools that the choice excludes. A client cannot exclude the server's own tools.
fn only_allowed(tools: &mut Vec<ToolSpec>, choice: &Value) -> Result<(), Problem> {
    if choice.get("type").and_then(Value::as_str) != Some("allowed_tools") {
        return Ok(());
    }
    let (place, nested) = match choice.get("allowed_tools") {
        Some(nested) => ("tool_choice.allowed_tools.tools", nested),
        None => ("tool_choice.tools", choice),
    };
    let named = nested.get("tools").and_then(Value::as_array);
    let named = named
        .ok_or_else(|| Problem::invalid(place, "expected the list of tools that may be called"))?;
    let mut allowed = BTreeSet::new();
    for (at, function) in named.iter().enumerate() {
        let function = function.get("function").unwrap_or(function);
        let name = function.get("name").and_then(Value::as_str);
        let is_sent = |name: &&str| tools.iter().any(|tool| tool.name.as_str() == *name);
        let name = name.filter(is_sent).ok_or_else(|| {
            let why = "expected the name of a function in tools";
            Problem::invalid(&format!("{place}[{at}]"), why)
        })?;
        allowed.insert(name);
    }
    tools.retain(|tool| allowed.contains(tool.name.as_str()));
    Ok(())
}

/// Parses whether a tool must be called.
fn tool_choice(choice: &Value) -> Result<Option<ToolChoice>, Problem> {
    let wrong = || {
        let why = "expected none, auto, required, or a named function";
        Problem::invalid("tool_choice", why)
    };
    let of_word = |word: &str| match word {
        "none" => Ok(Some(ToolChoice::None)),
        "auto" => Ok(None),
        "required" | "any" => Ok(Some(ToolChoice::Required)),
        _ => Err(wrong()),
    };
    match choice {
        Value::Null => Ok(None),
        Value::String(word) => of_word(word),
        Value::Object(fields) => {
            let kind = fields.get("type").and_then(Value::as_str);
            if kind == Some("allowed_tools") {
                let nested = fields.get("allowed_tools").unwrap_or(choice);
                return of_word(nested.get("mode").and_then(Value::as_str).unwrap_or("auto"));
            }
            let nested = fields.get("function").unwrap_or(choice);
            let name = nested.get("name").and_then(Value::as_str);
            let name = name.and_then(|name| name.parse().ok());
            name.map(|name| Some(ToolChoice::Named(name)))
                .ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// The format of the answer, with its schema nested (Chat Completions) or flat (Responses).
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiFormat")]
#[serde(expecting = "an object with the field type")]
pub(super) struct FormatIn {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    kind: String,
    /// The schema, in the form of Chat Completions.
    json_schema: Option<SchemaIn>,
    #[serde(flatten)]
    flat: SchemaIn,
}

impl FormatIn {
    /// Returns the type of the format.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }
}

/// A schema with its name.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiSchema")]
#[serde(expecting = "an object that may have the fields name and schema")]
struct SchemaIn {
    /// The name of the schema.
    name: Option<String>,
    /// The JSON Schema, which must describe an object.
    schema: Option<Value>,
}

/// Parses the format of the answer. Returns `None` if any text is allowed.
pub(super) fn answer(field: &str, format: FormatIn) -> Result<Option<AnswerSchema>, Problem> {
    let schema = match format.kind.as_str() {
        "text" => return Ok(None),
        "json_object" => SchemaIn::default(),
        "json_schema" => format.json_schema.unwrap_or(format.flat),
        _ => {
            let why = "expected text, json_object or json_schema";
            return Err(Problem::invalid(&format!("{field}.type"), why));
        }
    };
    let text = schema.schema.map(|schema| schema.to_string());
    let text = text.unwrap_or_else(|| r#"{"type":"object"}"#.to_owned());
    let wrong = |error: &dyn std::fmt::Display| Problem::invalid(field, error);
    let answer = AnswerSchema::from_json(text).map_err(|error| wrong(&error))?;
    let answer = match schema.name {
        Some(name) => answer.named(&name).map_err(|error| wrong(&error))?,
        None => answer,
    };
    Ok(Some(answer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_read_nested_and_flat() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let nested = json!({"type": "function", "function": {"name": "weather", "description": "d", "parameters": schema}});
        let flat = json!({"type": "function", "name": "weather", "description": "d", "parameters": schema, "strict": true});
        for tool in [nested, flat] {
            let tool = serde_json::from_value(tool).unwrap();
            let read = tools(vec![tool]).unwrap().remove(0);
            assert_eq!((read.name.as_str(), &*read.description), ("weather", "d"));
            assert_eq!(read.parameters.decode::<Value>().unwrap(), schema);
        }
        for (tool, part) in [
            (json!({"type": "web_search"}), "tools[0].type"),
            (json!({"type": "function"}), "tools[0].function.name"),
            (
                json!({"type": "function", "name": "no spaces"}),
                "tools[0].function.name",
            ),
        ] {
            let refused = tools(vec![serde_json::from_value(tool).unwrap()]);
            let text = format!("{:?}", refused.unwrap_err());
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn every_form_of_tool_choice_is_read() {
        let named = || Some(ToolChoice::Named("weather".parse().unwrap()));
        for (choice, expected) in [
            (json!(null), None),
            (json!("auto"), None),
            (json!("none"), Some(ToolChoice::None)),
            (json!("required"), Some(ToolChoice::Required)),
            (
                json!({"type": "function", "function": {"name": "weather"}}),
                named(),
            ),
            (json!({"type": "function", "name": "weather"}), named()),
            (
                json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}),
                Some(ToolChoice::Required),
            ),
            (json!({"type": "allowed_tools", "mode": "auto"}), None),
        ] {
            assert_eq!(tool_choice(&choice).unwrap(), expected, "{choice}");
        }
        for choice in [json!("maybe"), json!(3), json!({"type": "function"})] {
            assert!(tool_choice(&choice).is_err(), "{choice}");
        }
    }

    #[test]
    fn only_the_tools_named_by_allowed_tools_are_offered() {
        let tool = |name: &str| json!({"type": "function", "name": name});
        let sent = || -> Vec<ToolIn> {
            let tools = json!([tool("weather"), tool("news")]);
            serde_json::from_value(tools).unwrap()
        };
        let function = json!({"type": "function", "function": {"name": "news"}});
        let nested = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [function]}});
        let flat = json!({"type": "allowed_tools", "mode": "required", "tools": [tool("news")]});
        for choice in [nested, flat] {
            let (tools, choice) = offered(sent(), &choice).unwrap();
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            assert_eq!((names, choice), (vec!["news"], Some(ToolChoice::Required)));
        }
        for (tools, place) in [
            (json!([tool("clock")]), "tool_choice.tools[0]"),
            (json!([tool("news"), 5]), "tool_choice.tools[1]"),
            (json!("news"), "tool_choice.tools"),
        ] {
            let choice = json!({"type": "allowed_tools", "mode": "auto", "tools": tools});
            let text = format!("{:?}", offered(sent(), &choice).unwrap_err());
            assert!(text.contains(&format!("{place}: ")), "{text}");
        }
    }

    #[test]
    fn the_answer_format_is_read_nested_and_flat() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let nested = json!({"type": "json_schema", "json_schema": {"name": "Count", "schema": schema, "strict": true}});
        let flat = json!({"type": "json_schema", "name": "Count", "schema": schema});
        let read =
            |format: Value| answer("response_format", serde_json::from_value(format).unwrap());
        for format in [nested, flat] {
            assert_eq!(read(format).unwrap().unwrap().name(), "Count");
        }
        assert_eq!(read(json!({"type": "text"})).unwrap(), None);
        assert!(read(json!({"type": "json_object"})).unwrap().is_some());
        for format in [
            json!({"type": "xml"}),
            json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}}),
        ] {
            assert!(read(format).is_err());
        }
    }
}
