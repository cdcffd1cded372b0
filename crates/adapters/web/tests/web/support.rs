//! A tool that fetches from a test site, and what it returns.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use neuraxis_core::JsonText;
use neuraxis_ports::{Tool, ToolError, async_trait};
use neuraxis_testkit::{WebSite, tool_context};
use neuraxis_web::{NameLookup, WebConfig, use_convert_helper, web_fetch_with};
use serde_json::{Value, json};

/// Resolves every name to this machine.
#[derive(Debug)]
pub(crate) struct Here;

#[async_trait]
impl NameLookup for Here {
    async fn addresses(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

/// Returns a configuration that allows these sites, without `robots.txt`.
pub(crate) fn allowing<'a>(sites: impl IntoIterator<Item = &'a WebSite>) -> WebConfig {
    let mut config = WebConfig::default();
    let sites = sites.into_iter();
    let hosts = sites.map(|site| site.address().to_string().parse().unwrap());
    config.allow_hosts = hosts.collect();
    config.robots = false;
    config
}

/// Returns the tool, with every name resolved to this machine.
pub(crate) fn tool(config: &WebConfig) -> Arc<dyn Tool> {
    use_convert_helper(env!("CARGO_BIN_EXE_neuraxis-convert"));
    web_fetch_with(config, Arc::new(Here)).unwrap()
}

/// Fetches a page.
pub(crate) async fn fetch(tool: &Arc<dyn Tool>, url: &str) -> Result<Value, ToolError> {
    call(tool, json!({"url": url})).await
}

pub(crate) async fn call(tool: &Arc<dyn Tool>, arguments: Value) -> Result<Value, ToolError> {
    let arguments = JsonText::from_text(arguments.to_string());
    let output = tool.call(arguments, tool_context()).await?;
    Ok(output.value.decode().unwrap())
}

/// Returns the message of a failed call, which begins with the word for its kind.
pub(crate) async fn refused(tool: &Arc<dyn Tool>, url: &str) -> String {
    fetch(tool, url).await.expect_err(url).message
}
