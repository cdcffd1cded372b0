//! Encodes the offered tools, once for all requests that share them.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind, ToolSpec};

use super::json::JsonWriter;
use super::strict::strict_schema;
use super::tool_schema::{ToolSchema, tool_schema};
use crate::settings::{PropertyNames, StrictTools};

/// The maximum number of cached tool lists; each agent of a run has one.
const MAX_LISTS: usize = 64;

/// A tool as it is described to a server.
#[derive(Debug, Clone, Copy)]
pub struct ToolDefinition<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its purpose, and the refused parts of its schema, in words.
    pub description: &'a str,
    /// The JSON Schema of its arguments, in its strict form if it is strict: always that of an object.
    pub schema: &'a str,
    /// Whether the model is forced to follow the schema; `None` with [`StrictTools::Unspecified`].
    pub is_strict: Option<bool>,
}

impl ToolDefinition<'_> {
    /// Writes `name`, `description` and `parameters`, as fields of an object that has been started.
    pub fn write_function(&self, json: &mut JsonWriter<'_>) {
        json.raw(r#""name":"#);
        json.string(self.name);
        json.raw(r#","description":"#);
        json.string(self.description);
        json.raw(r#","parameters":"#);
        json.raw(self.schema);
    }
}

/// Writes a tool in a protocol's form: one JSON object.
pub type WriteTool = fn(&ToolDefinition<'_>, &mut JsonWriter<'_>);

/// Recently encoded tool lists, at most 64, identified by their address in memory. A weak pointer keeps that address
/// from being reused for another list.
#[derive(Debug)]
pub struct ToolsCache {
    strict: StrictTools,
    names: PropertyNames,
    write: WriteTool,
    lists: Mutex<Vec<(Weak<[ToolSpec]>, Bytes)>>,
}

impl ToolsCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(strict: StrictTools, names: PropertyNames, write: WriteTool) -> Self {
        Self {
            strict,
            names,
            write,
            lists: Mutex::default(),
        }
    }

    /// Returns the JSON array of the tools.
    ///
    /// # Errors
    ///
    /// [`LlmErrorKind::BadRequest`] if a tool's schema is not JSON.
    pub fn encoded(&self, tools: &Arc<[ToolSpec]>) -> Result<Bytes, LlmError> {
        if let Some(bytes) = self.find(tools) {
            return Ok(bytes);
        }
        let bytes = self.encode(tools)?;
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.len() >= MAX_LISTS {
            lists.retain(|(tools, _)| tools.strong_count() > 0);
        }
        if lists.len() >= MAX_LISTS {
            lists.remove(0);
        }
        lists.push((Arc::downgrade(tools), bytes.clone()));
        Ok(bytes)
    }

    /// Encodes tools as a JSON array, without caching it.
    ///
    /// # Errors
    ///
    /// Same as [`encoded`](Self::encoded).
    pub fn encode(&self, tools: &[ToolSpec]) -> Result<Bytes, LlmError> {
        let mut bytes = Vec::new();
        let mut json = JsonWriter::new(&mut bytes);
        json.raw("[");
        for tool in tools {
            json.begin_item();
            self.write(tool, &mut json)?;
        }
        json.raw("]");
        Ok(bytes.into())
    }

    fn write(&self, tool: &ToolSpec, json: &mut JsonWriter<'_>) -> Result<(), LlmError> {
        if !tool.parameters.is_valid() {
            let said = format!("the schema of the tool {} is not JSON", tool.name);
            return Err(LlmError::new(LlmErrorKind::BadRequest, said));
        }
        let strict = match self.strict {
            StrictTools::WherePossible => Some(strict_schema(tool.parameters.as_str())),
            StrictTools::Unspecified => None,
        };
        let is_strict = strict.as_ref().map(Option::is_some);
        let schema = match strict.flatten() {
            Some(schema) => ToolSchema {
                sent: schema.into(),
                note: None,
            },
            None => tool_schema(tool.parameters.as_str(), self.names),
        };
        let description: Cow<'_, str> = match schema.note {
            Some(note) => format!("{}\n\n{note}", tool.description).into(),
            None => (&*tool.description).into(),
        };
        let definition = ToolDefinition {
            name: tool.name.as_str(),
            description: &description,
            schema: &schema.sent,
            is_strict,
        };
        (self.write)(&definition, json);
        Ok(())
    }

    fn find(&self, tools: &Arc<[ToolSpec]>) -> Option<Bytes> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(tools);
        lists
            .iter()
            .find(|(known, _)| std::ptr::addr_eq(known.as_ptr(), address))
            .map(|(_, bytes)| bytes.clone())
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::JsonText;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_tool_schema_is_sent_as_an_object_without_unsupported_keywords() {
        let branches = json!([{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {}]);
        let schemas = [
            json!({"type": "object", "anyOf": branches}),
            json!({"type": "object", "oneOf": [{"type": "object", "properties": {}}]}),
            json!({"type": ["object", "null"]}),
            json!({}),
            json!({"type": "object", "properties": {}, "enum": [{}]}),
        ];
        let tools = schemas.map(|schema| {
            ToolSpec::new("pay".parse().unwrap(), "Pays.")
                .parameters(JsonText::from_text(schema.to_string()))
        });
        let write: WriteTool = |tool, json| {
            json.raw("{");
            tool.write_function(json);
            json.raw("}");
        };
        for strict in [StrictTools::WherePossible, StrictTools::Unspecified] {
            let cache = ToolsCache::new(strict, PropertyNames::Any, write);
            let sent = cache.encode(&tools).unwrap();
            let sent: Vec<Value> = serde_json::from_slice(&sent).unwrap();
            for tool in &sent {
                let root = tool["parameters"].as_object().unwrap();
                assert_eq!(root["type"], "object");
                for refused in ["anyOf", "oneOf", "allOf", "enum", "not"] {
                    assert!(!root.contains_key(refused), "{tool}");
                }
            }
            let told = sent[0]["description"].as_str().unwrap();
            assert!(told.starts_with("Pays.\n\n"), "{told}");
            assert!(told.ends_with(&json!({"anyOf": branches}).to_string()));
            assert_eq!(sent[0]["parameters"]["properties"]["a"]["type"], "string");
        }
    }
}
