//! Sets up connections: certificates, proxies, and the headers of each request.

#[cfg(feature = "tls")]
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
#[cfg(feature = "tls")]
use reqwest::Certificate;
use reqwest::{ClientBuilder, Proxy, Url};

use super::address::{self, EndpointError, cause, is_loopback};
use super::config::{EndpointConfig, KeyHeader};
use crate::errors::{ProxyInUse, variable_of_certificates};

/// The maximum size of a certificate file in bytes.
#[cfg(feature = "tls")]
const MAX_CA_FILE: u64 = 4 * 1024 * 1024;

/// How often to ping an HTTP/2 connection with pending calls, and how long to wait for the reply. One connection
/// carries all calls, and a dead one is as silent as a model that is thinking.
#[cfg(feature = "tls")]
const ASK_AFTER: Duration = Duration::from_secs(30);
#[cfg(feature = "tls")]
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Creates the connection pool of a server. Uses HTTP/2 if the server offers it over TLS.
pub(super) fn client(
    config: &EndpointConfig,
    base: &Url,
) -> Result<reqwest::Client, EndpointError> {
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // One attempt: no copy of a request is kept for a retry.
        .retry(reqwest::retry::never().max_retries_per_request(0))
        .connect_timeout(config.timeouts.connect)
        .pool_idle_timeout(config.keep_idle);
    if let Some(proxy) = &config.proxy {
        builder = builder.proxy(read_proxy(proxy)?);
    } else if is_loopback(base) {
        builder = builder.no_proxy();
    }
    builder = with_tls(builder, config, base)?;
    builder.build().map_err(|error| unprepared(cause(&error)))
}

/// Returns the error for a client that could not be built. A machine without certificates is not a wrong address.
fn unprepared(cause: String) -> EndpointError {
    match cause.contains("CA certificates") {
        true => EndpointError::NoCertificates {
            reason: cause,
            variable: variable_of_certificates(),
        },
        false => EndpointError::Client(cause),
    }
}

/// Returns which proxy connects to a server, as far as this can be determined.
pub(super) fn proxy_in_use(config: &EndpointConfig, base: &Url) -> Option<ProxyInUse> {
    match &config.proxy {
        Some(proxy) => {
            let url = Url::parse(proxy.trim()).ok()?;
            Some(ProxyInUse::Configured(address::name(&url)))
        }
        None if is_loopback(base) => None,
        None => {
            let named = variable_of_proxy(base.scheme(), |name| std::env::var(name).ok());
            named.map(ProxyInUse::FromVariable)
        }
    }
}

/// Returns the variable that names the proxy for addresses of a scheme.
fn variable_of_proxy(
    scheme: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<&'static str> {
    let names = match scheme {
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let is_set = |name: &&'static str| variable(name).is_some_and(|it| !it.trim().is_empty());
    names.into_iter().find(is_set)
}

/// Sets up trusted certificates, and HTTP/2, which is used only over TLS.
#[cfg(feature = "tls")]
fn with_tls(
    builder: ClientBuilder,
    config: &EndpointConfig,
    base: &Url,
) -> Result<ClientBuilder, EndpointError> {
    let mut builder = builder
        .http2_keep_alive_interval(ASK_AFTER)
        .http2_keep_alive_timeout(ANSWER_WITHIN);
    if let Some(path) = &config.ca_file {
        let unusable = |reason: String| EndpointError::CaFile {
            path: path.display().to_string(),
            reason,
        };
        let size = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
        if size.len() > MAX_CA_FILE {
            return Err(unusable(format!("it has more than {MAX_CA_FILE} bytes")));
        }
        let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
        let certificates =
            Certificate::from_pem_bundle(&pem).map_err(|error| unusable(cause(&error)))?;
        if certificates.is_empty() {
            return Err(unusable("it contains no certificate".to_owned()));
        }
        builder = builder.tls_certs_merge(certificates);
    } else if !uses_tls(config, base) && !may_use_tls(config, base) {
        // Reading the machine's certificates takes longer than a whole exchange on loopback.
        builder = builder.tls_certs_only([]);
    }
    Ok(builder)
}

/// Refuses configurations that need TLS: this program was built without it. Ignores a proxy from the environment: it
/// may be for other servers.
#[cfg(not(feature = "tls"))]
fn with_tls(
    builder: ClientBuilder,
    config: &EndpointConfig,
    base: &Url,
) -> Result<ClientBuilder, EndpointError> {
    if uses_tls(config, base) || config.ca_file.is_some() {
        return Err(EndpointError::NoTls);
    }
    Ok(builder)
}

/// Returns whether a server, or its configured proxy, is reached over TLS.
fn uses_tls(config: &EndpointConfig, base: &Url) -> bool {
    base.scheme() == "https" || config.proxy.as_deref().is_some_and(is_https)
}

/// Returns whether a server may be reached over TLS through a proxy from the environment.
#[cfg(feature = "tls")]
fn may_use_tls(config: &EndpointConfig, base: &Url) -> bool {
    let is_asked = config.proxy.is_none() && !is_loopback(base);
    is_asked && environment_uses_tls(|name| std::env::var(name).ok())
}

/// Returns whether the environment names a proxy for `http:` servers that is reached over TLS.
#[cfg(feature = "tls")]
fn environment_uses_tls(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        .into_iter()
        .filter_map(variable)
        .any(|proxy| is_https(&proxy))
}

fn is_https(proxy: &str) -> bool {
    proxy.trim_start().starts_with("https:")
}

fn read_proxy(text: &str) -> Result<Proxy, EndpointError> {
    let refused = |reason: &str| EndpointError::Proxy {
        reason: reason.to_owned(),
    };
    let url = Url::parse(text.trim()).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("it begins with neither http: nor https:"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused(
            "it has a user name or password, which are allowed only in the variable HTTPS_PROXY",
        ));
    }
    Proxy::all(url).map_err(|error| refused(&cause(&error)))
}

/// Returns the headers of each request.
pub(super) fn headers(config: &EndpointConfig) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    let agent = concat!("neuraxis/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    if let Some(key) = &config.api_key {
        match &config.key_header {
            KeyHeader::Bearer => {
                let value = format!("Bearer {}", key.expose());
                let name = header::AUTHORIZATION;
                let value = secret_value(name.as_str(), &value)?;
                headers.insert(name, value);
            }
            KeyHeader::Named(name) => {
                headers.insert(header_name(name)?, secret_value(name, key.expose())?);
            }
        }
    }
    for (name, value) in &config.headers {
        headers.insert(header_name(name)?, secret_value(name, value.expose())?);
    }
    for (name, value) in &config.plain_headers {
        let value = HeaderValue::try_from(value)
            .map_err(|_| EndpointError::HeaderValue(name.to_owned()))?;
        headers.insert(header_name(name)?, value);
    }
    Ok(headers)
}

fn header_name(name: &str) -> Result<HeaderName, EndpointError> {
    HeaderName::try_from(name).map_err(|_| EndpointError::HeaderName(name.to_owned()))
}

fn secret_value(name: &str, value: &str) -> Result<HeaderValue, EndpointError> {
    let mut value =
        HeaderValue::try_from(value).map_err(|_| EndpointError::HeaderValue(name.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_addresses_and_configured_https_proxies_certainly_use_tls() {
        for (base, proxy, expected) in [
            ("http://models:8080", None, false),
            ("http://models:8080", Some("http://proxy:3128"), false),
            ("http://models:8080", Some(" https://proxy:3128"), true),
            ("https://models", None, true),
        ] {
            let mut config = EndpointConfig::new(base);
            config.proxy = proxy.map(str::to_owned);
            let base = Url::parse(base).unwrap();
            assert_eq!(uses_tls(&config, &base), expected, "{base} {proxy:?}");
        }
    }

    #[test]
    fn the_proxy_variable_is_that_of_the_scheme() {
        for (scheme, set, expected) in [
            ("https", "HTTP_PROXY HTTPS_PROXY", Some("HTTPS_PROXY")),
            ("https", "https_proxy all_proxy", Some("https_proxy")),
            ("https", "all_proxy", Some("all_proxy")),
            ("https", "HTTP_PROXY NO_PROXY", None),
            ("http", "HTTP_PROXY HTTPS_PROXY", Some("HTTP_PROXY")),
        ] {
            let is_set = |asked: &str| set.split(' ').any(|name| name == asked);
            let variable = |asked: &str| is_set(asked).then(|| "http://proxy:3128".to_owned());
            assert_eq!(variable_of_proxy(scheme, variable), expected, "{set}");
        }
        assert_eq!(variable_of_proxy("https", |_| Some(" ".to_owned())), None);
    }

    #[cfg(feature = "tls")]
    #[test]
    fn an_https_proxy_in_the_environment_is_detected() {
        for (name, proxy, expected) in [
            ("HTTP_PROXY", "https://proxy:3128", true),
            ("all_proxy", "https://proxy:3128", true),
            ("HTTP_PROXY", "http://proxy:3128", false),
            ("HTTPS_PROXY", "https://proxy:3128", false),
            ("NO_PROXY", "https://proxy:3128", false),
        ] {
            let variable = |asked: &str| (asked == name).then(|| proxy.to_owned());
            assert_eq!(environment_uses_tls(variable), expected, "{name}");
        }
        assert!(!environment_uses_tls(|_| None));
    }

    #[test]
    fn a_machine_without_certificates_is_not_called_a_wrong_address() {
        let error = unprepared("No CA certificates were loaded from the system".to_owned());
        assert_eq!(error.key(), "ca_file");
        let told = error.to_string();
        assert!(
            told.starts_with("this machine has no certificates"),
            "{told}"
        );
        let named = EndpointError::NoCertificates {
            reason: "none".to_owned(),
            variable: Some("SSL_CERT_FILE"),
        };
        assert!(named.to_string().contains("SSL_CERT_FILE is set"));
        assert_eq!(unprepared("other".to_owned()).key(), "base_url");
    }
}
