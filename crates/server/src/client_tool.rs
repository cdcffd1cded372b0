//! A tool that a client runs itself, as declared on the server's own API.
//!
//! A call of such a tool makes the run wait for its result, which the client sends to
//! `/api/v1/runs/{id}/tools/{call_id}`. The server executes nothing, and treats the results as untrusted content.

use neuraxis::core::{JsonText, ToolName, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::problem::Problem;
use crate::request_body;

/// A tool that the client runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with the field name")]
pub(crate) struct ClientTool {
    /// The name by which the model calls it. It replaces a tool of the server that has the same name.
    name: ToolName,
    /// What it does and when to call it, as the model reads it; empty by default.
    #[serde(default)]
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    description: Option<String>,
    /// The JSON Schema of its arguments, which must describe an object. By default, any object is accepted.
    #[serde(default)]
    #[schemars(extend("properties" = { "type": { "const": "object" } }))]
    parameters: Option<Map<String, Value>>,
}

/// Converts a client's tools to specifications that the engine offers.
pub(crate) fn specs(tools: Vec<ClientTool>) -> Result<Vec<ToolSpec>, Problem> {
    tools.into_iter().map(ClientTool::spec).collect()
}

impl ClientTool {
    fn spec(self) -> Result<ToolSpec, Problem> {
        let description = self.description.unwrap_or_default();
        request_body::check_no_nul("tools", &description)?;
        let tool = ToolSpec::new(self.name, description);
        let Some(parameters) = self.parameters.map(Value::Object) else {
            return Ok(tool);
        };
        if let Some(path) = request_body::find_nul(&parameters) {
            return Err(request_body::nul_problem(&format!(
                "tools.parameters.{path}"
            )));
        }
        Ok(tool.parameters(JsonText::from_text(parameters.to_string())))
    }
}
