//! Reaches a server over streamable HTTP.
//!
//! Requests go only to the configured address: redirects are not followed, and addresses that a server names are not
//! fetched.

mod client;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::sync::Notify;

use self::client::Client;
use crate::config::{ConfigFault, HttpConfig, is_loopback};
use crate::error::{ConnectError, innermost};

/// How long establishing a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of requests, over all sessions together, that may wait for an answer at the same time; further
/// requests wait until an answer has arrived.
const MAX_REQUESTS: usize = 256;

/// Prepares the transport to a server; `changed` is notified when its tools may have changed. Sends nothing yet.
pub(crate) fn transport(
    config: &HttpConfig,
    changed: Arc<Notify>,
) -> Result<StreamableHttpClientTransport<Client>, ConnectError> {
    let url = config.parsed()?;
    let mut client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("neuraxis/", env!("CARGO_PKG_VERSION")));
    if is_loopback(&url) {
        client = client.no_proxy();
    }
    #[cfg(feature = "tls")]
    if url.scheme() == "http" {
        // Loading the machine's certificates takes longer than a whole exchange on loopback.
        client = client.tls_certs_only([]);
    }
    let client = client.build().map_err(|error| {
        // The cause is on this machine, such as its certificates.
        ConnectError::Protocol(format!("cannot set up connections: {}", innermost(&error)))
    })?;
    let mut headers = HashMap::new();
    for (name, value) in &config.headers {
        // The errors themselves say nothing more.
        let header = HeaderName::try_from(name.as_str())
            .map_err(|_| ConfigFault::HeaderName { name: name.clone() })?;
        let mut value = HeaderValue::try_from(value.expose())
            .map_err(|_| ConfigFault::HeaderValue { name: name.clone() })?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    let mut transport = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    if let Some(token) = &config.token {
        HeaderValue::try_from(token.expose()).map_err(|_| ConfigFault::Token)?;
        transport = transport.auth_header(token.expose());
    }
    let transport = transport
        .custom_headers(headers)
        .max_concurrent_requests(MAX_REQUESTS);
    Ok(StreamableHttpClientTransport::with_client(
        Client::new(client, changed),
        transport,
    ))
}

#[cfg(test)]
mod tests {
    use neuraxis_ports::Secret;

    use super::*;

    #[tokio::test]
    async fn a_header_that_cannot_be_sent_says_whether_its_name_or_its_value_is_at_fault() {
        let fault = |name: &str, value: &str| {
            let mut config = HttpConfig::new("http://127.0.0.1:1/mcp");
            config.headers.insert(name.to_owned(), Secret::new(value));
            transport(&config, Arc::default())
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(fault("x-team", "blue"), None);
        let of_name = fault("x team", "s3cret").unwrap();
        assert!(of_name.contains("its name"), "{of_name}");
        let of_value = fault("x-team", "s3cr\net").unwrap();
        assert!(
            of_value.contains("headers.x-team") && of_value.contains("its value"),
            "{of_value}"
        );
        assert!(!of_value.contains("s3cr"), "{of_value}");
    }
}
