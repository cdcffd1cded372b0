//! Encodes the tools on offer, once for all requests that share them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind, ToolSpec};

use super::json::Json;

/// How many lists of tools are kept; each agent of a run has one.
const MOST: usize = 64;

/// The lists of tools that were encoded lately, recognized by where they are in memory. A weak pointer keeps that place
/// from being used for another list.
#[derive(Debug, Default)]
pub(super) struct ToolsCache(Mutex<Vec<(Weak<[ToolSpec]>, Bytes)>>);

impl ToolsCache {
    /// Returns the JSON array of the tools.
    pub(super) fn encoded(&self, tools: &Arc<[ToolSpec]>) -> Result<Bytes, LlmError> {
        if let Some(bytes) = self.find(tools) {
            return Ok(bytes);
        }
        let bytes = encode_tools(tools)?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.retain(|(tools, _)| tools.strong_count() > 0);
        }
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push((Arc::downgrade(tools), bytes.clone()));
        Ok(bytes)
    }

    fn find(&self, tools: &Arc<[ToolSpec]>) -> Option<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Arc::as_ptr(tools);
        kept.iter()
            .find(|(known, _)| std::ptr::addr_eq(known.as_ptr(), place))
            .map(|(_, bytes)| bytes.clone())
    }
}

/// Encodes tools as a JSON array.
pub(super) fn encode_tools(tools: &[ToolSpec]) -> Result<Bytes, LlmError> {
    let mut bytes = Vec::new();
    let mut json = Json(&mut bytes);
    json.raw("[");
    for (index, tool) in tools.iter().enumerate() {
        if !tool.parameters.is_valid() {
            let said = format!("the schema of the tool {} is not JSON", tool.name);
            return Err(LlmError::new(LlmErrorKind::BadRequest, said));
        }
        if index > 0 {
            json.raw(",");
        }
        json.raw(r#"{"type":"function","function":{"name":"#);
        json.string(tool.name.as_str());
        json.raw(r#","description":"#);
        json.string(&tool.description);
        json.raw(r#","parameters":"#);
        json.raw(tool.parameters.as_str());
        json.raw("}}");
    }
    json.raw("]");
    Ok(bytes.into())
}
