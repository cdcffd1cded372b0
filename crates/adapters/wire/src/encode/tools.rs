//! Encodes the tools on offer, once for all requests that share them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind, ToolSpec};

use super::json::Json;
use super::strict::strict_schema;
use crate::settings::StrictTools;

/// How many lists of tools are kept; each agent of a run has one.
const MOST: usize = 64;

/// How a protocol writes a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ToolForm {
    /// With the function as an object of its own, as Chat Completions has it.
    #[default]
    Nested,
    /// With the function's fields beside the type, as Responses has it.
    Flat,
}

/// The lists of tools that were encoded lately, recognized by where they are in memory. A weak pointer keeps that place
/// from being used for another list.
#[derive(Debug, Default)]
pub(crate) struct ToolsCache {
    form: ToolForm,
    strict: StrictTools,
    kept: Mutex<Vec<(Weak<[ToolSpec]>, Bytes)>>,
}

impl ToolsCache {
    pub(crate) fn new(form: ToolForm, strict: StrictTools) -> Self {
        Self {
            form,
            strict,
            kept: Mutex::default(),
        }
    }

    /// Returns the JSON array of the tools.
    pub(crate) fn encoded(&self, tools: &Arc<[ToolSpec]>) -> Result<Bytes, LlmError> {
        if let Some(bytes) = self.find(tools) {
            return Ok(bytes);
        }
        let bytes = self.encode(tools)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.retain(|(tools, _)| tools.strong_count() > 0);
        }
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push((Arc::downgrade(tools), bytes.clone()));
        Ok(bytes)
    }

    /// Encodes tools as a JSON array, which is not kept.
    pub(crate) fn encode(&self, tools: &[ToolSpec]) -> Result<Bytes, LlmError> {
        let mut bytes = Vec::new();
        let mut json = Json(&mut bytes);
        json.raw("[");
        for (index, tool) in tools.iter().enumerate() {
            if index > 0 {
                json.raw(",");
            }
            self.write(tool, &mut json)?;
        }
        json.raw("]");
        Ok(bytes.into())
    }

    fn write(&self, tool: &ToolSpec, json: &mut Json<'_>) -> Result<(), LlmError> {
        if !tool.parameters.is_valid() {
            let said = format!("the schema of the tool {} is not JSON", tool.name);
            return Err(LlmError::new(LlmErrorKind::BadRequest, said));
        }
        let strict = match self.strict {
            StrictTools::WherePossible => strict_schema(tool.parameters.as_str()),
            StrictTools::Unsaid => None,
        };
        json.raw(r#"{"type":"function","#);
        if self.form == ToolForm::Nested {
            json.raw(r#""function":{"#);
        }
        json.raw(r#""name":"#);
        json.string(tool.name.as_str());
        json.raw(r#","description":"#);
        json.string(&tool.description);
        json.raw(r#","parameters":"#);
        json.raw(strict.as_deref().unwrap_or(tool.parameters.as_str()));
        // Responses demands the field.
        if self.strict == StrictTools::WherePossible || self.form == ToolForm::Flat {
            json.raw(r#","strict":"#);
            json.raw(if strict.is_some() { "true" } else { "false" });
        }
        json.raw(match self.form {
            ToolForm::Nested => "}}",
            ToolForm::Flat => "}",
        });
        Ok(())
    }

    fn find(&self, tools: &Arc<[ToolSpec]>) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Arc::as_ptr(tools);
        kept.iter()
            .find(|(known, _)| std::ptr::addr_eq(known.as_ptr(), place))
            .map(|(_, bytes)| bytes.clone())
    }
}
