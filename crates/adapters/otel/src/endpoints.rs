//! What a program knows about the models and MCP servers that its runs use, but records do not contain: which model was
//! requested, and at which address.

use std::collections::BTreeMap;

use neuraxis_core::{ModelRef, Role, SERVER_SEPARATOR};
use opentelemetry::KeyValue;
use url::Url;

use crate::names;

/// The models by role, and the MCP servers by the prefix of their tools' names. A run that was resumed from another
/// process may have used others, so its records take precedence.
///
/// ```
/// use neuraxis_core::{ModelRef, Role};
/// use neuraxis_otel::Endpoints;
///
/// let model = ModelRef::new("openai", "gpt-5");
/// let endpoints = Endpoints::default()
///     .model(Role::REASONING, model, Some("https://api.openai.com/v1"))
///     .mcp_server("files", None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    models: BTreeMap<Role, (ModelRef, Option<Server>)>,
    mcp: BTreeMap<String, Option<Server>>,
}

/// The address of a server, as spans name it.
#[derive(Debug, Clone)]
struct Server {
    host: String,
    port: Option<u16>,
}

impl Server {
    fn of(address: &str) -> Option<Self> {
        let url: Url = address.parse().ok()?;
        let host = url.host_str()?.to_owned();
        let port = url.port_or_known_default();
        Some(Self { host, port })
    }

    fn attributes(&self) -> impl Iterator<Item = KeyValue> {
        let port = self
            .port
            .map(|port| KeyValue::new(names::SERVER_PORT, i64::from(port)));
        let host = KeyValue::new(names::SERVER_ADDRESS, self.host.clone());
        std::iter::once(host).chain(port)
    }
}

impl Endpoints {
    /// Adds the model that serves a role, with its server's address if it is reached over a network.
    #[must_use]
    pub fn model(mut self, role: Role, model: ModelRef, address: Option<&str>) -> Self {
        let server = address.and_then(Server::of);
        self.models.insert(role, (model, server));
        self
    }

    /// Adds an MCP server, with its address unless it is a program that is started here.
    #[must_use]
    pub fn mcp_server(mut self, name: impl Into<String>, address: Option<&str>) -> Self {
        let server = address.and_then(Server::of);
        self.mcp.insert(name.into(), server);
        self
    }

    /// Returns the model that a role requested: the model of a failed attempt; otherwise the model configured for the
    /// role, if it can be the one that answered; otherwise the model that answered.
    pub(crate) fn requested_model<'a>(
        &'a self,
        role: &Role,
        failed: Option<&'a ModelRef>,
        answered: Option<&'a ModelRef>,
    ) -> Option<&'a ModelRef> {
        let configured = self.models.get(role).map(|(model, _)| model);
        let configured = configured
            .filter(|model| answered.is_none_or(|answered| answered.provider == model.provider));
        failed.or(configured).or(answered)
    }

    /// Returns the attributes of the server of a role's model.
    pub(crate) fn server_of(&self, role: &Role) -> Vec<KeyValue> {
        let server = self
            .models
            .get(role)
            .and_then(|(_, server)| server.as_ref());
        server.into_iter().flat_map(Server::attributes).collect()
    }

    /// Returns the attributes of a tool call as an MCP request; empty if the tool does not belong to an MCP server.
    pub(crate) fn mcp_call(&self, tool: &str) -> Vec<KeyValue> {
        let mut parts = tool
            .match_indices(SERVER_SEPARATOR)
            .map(|(end, _)| tool.split_at(end).0);
        let Some(server) = parts.find_map(|name| self.mcp.get(name)) else {
            return Vec::new();
        };
        let transport = if server.is_some() { "tcp" } else { "pipe" };
        let method = KeyValue::new(names::MCP_METHOD, "tools/call");
        let transport = KeyValue::new(names::NETWORK_TRANSPORT, transport);
        let server = server.iter().flat_map(Server::attributes);
        [method, transport].into_iter().chain(server).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_of_an_mcp_tool_states_how_its_server_is_reached() {
        let endpoints = Endpoints::default()
            .mcp_server("files", None)
            .mcp_server("far__away", Some("https://mcp.example:8443/x"));
        let said = |tool: &str| {
            let all = endpoints.mcp_call(tool).into_iter();
            let all = all.map(|it| format!("{}={}", it.key, it.value.as_str()));
            all.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            said("files__read"),
            "mcp.method.name=tools/call network.transport=pipe"
        );
        assert_eq!(
            said("far__away__look"),
            "mcp.method.name=tools/call network.transport=tcp server.address=mcp.example server.port=8443"
        );
        assert_eq!(said("read_file"), "");
        assert_eq!(said("other__read"), "");
    }

    #[test]
    fn the_requested_model_is_the_configured_one_unless_another_failed_or_answered() {
        let asked = ModelRef::new("openai", "gpt-5");
        let endpoints = Endpoints::default().model(Role::REASONING, asked.clone(), None);
        let dated = ModelRef::new("openai", "gpt-5-2025-08-07");
        let named =
            |failed, answered| endpoints.requested_model(&Role::REASONING, failed, answered);
        assert_eq!(named(None, Some(&dated)), Some(&asked));
        assert_eq!(named(None, None), Some(&asked));
        let other = ModelRef::new("anthropic", "claude");
        assert_eq!(named(None, Some(&other)), Some(&other));
        assert_eq!(named(Some(&other), None), Some(&other));
        assert_eq!(endpoints.requested_model(&Role::ROUTER, None, None), None);
    }
}
