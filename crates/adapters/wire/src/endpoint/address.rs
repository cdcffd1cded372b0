//! Addresses of model servers: which are accepted, and how messages show them.

use std::error::Error;
use std::net::IpAddr;

use neuraxis_ports::ConnectError;
use reqwest::Url;

/// Why a server cannot be used as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The address is invalid. It is not repeated: it may hold a password.
    #[error("base_url is not a valid address ({reason}): write it like http://127.0.0.1:8080")]
    NoUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// The address has a part that it must not have.
    #[error("base_url must not have {part}: write it like http://127.0.0.1:8080")]
    UnwantedPart {
        /// The part, without its content.
        part: &'static str,
    },
    /// The scheme is neither HTTP nor HTTPS.
    #[error("base_url begins with {scheme}:, but must begin with http: or https:")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// Not a valid header name.
    #[error("{0:?} is not a valid HTTP header name")]
    HeaderName(String),
    /// A header's value has characters that cannot be sent. It is not repeated: it may be a key.
    #[error("the value of the header {0} has characters that cannot be sent, such as a line break")]
    HeaderValue(String),
    /// The file of trusted certificates cannot be read.
    #[error("ca_file {path} cannot be used: {reason}")]
    CaFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The proxy's address cannot be used. It is not repeated: it may hold a password.
    #[error("proxy is not a valid address ({reason}): write it like http://127.0.0.1:3128")]
    Proxy {
        /// What is wrong with it.
        reason: String,
    },
    /// The address, the proxy or `ca_file` requires TLS, and the program was built without the feature `tls`.
    #[error("https: is not supported: this program was built without the feature `tls`")]
    NoTls,
    /// The machine has no certificates to trust.
    #[error(
        "this machine has no certificates to trust ({reason}): install them (usually the package ca-certificates), or \
         set ca_file to a file of certificates{}", replacement(*variable)
    )]
    NoCertificates {
        /// The error of the TLS library.
        reason: String,
        /// The variable that names other certificates to use instead of the machine's, if one is set.
        variable: Option<&'static str>,
    },
    /// The connections cannot be prepared.
    #[error("cannot set up connections: {0}")]
    Client(String),
}

impl EndpointError {
    /// Returns the invalid key of a provider's configuration table; all providers reached over HTTP use the same names.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::CaFile { .. } | Self::NoCertificates { .. } => "ca_file",
            Self::Proxy { .. } => "proxy",
            Self::HeaderName(_) | Self::HeaderValue(_) => "headers",
            Self::NoUrl { .. }
            | Self::UnwantedPart { .. }
            | Self::Scheme { .. }
            | Self::NoTls
            | Self::Client(_) => "base_url",
        }
    }
}

/// Returns what to check about the variable that replaces the machine's certificates, if one is set.
fn replacement(variable: Option<&'static str>) -> String {
    let check = |name| format!("; {name} is set, and replaces them: check that it is right");
    variable.map(check).unwrap_or_default()
}

impl From<EndpointError> for ConnectError {
    fn from(error: EndpointError) -> Self {
        Self::new(error.key(), error)
    }
}

/// A resolved address on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route(Url);

impl Route {
    pub(super) fn new(base: &Url, path: &str, query: &[(String, String)]) -> Self {
        let mut url = base.clone();
        let base_path = url.path().trim_end_matches('/');
        let full = format!("{base_path}/{path}");
        url.set_path(&full);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Self(url)
    }

    /// Adds a field to the query of the address.
    #[must_use]
    pub fn with_query(mut self, name: &str, value: &str) -> Self {
        self.0.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(super) const fn url(&self) -> &Url {
        &self.0
    }
}

/// Parses the address of a server.
pub(super) fn parse(text: &str) -> Result<Url, EndpointError> {
    let url = Url::parse(text.trim()).map_err(|error| EndpointError::NoUrl {
        reason: error.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EndpointError::Scheme {
            scheme: url.scheme().to_owned(),
        });
    }
    let unwanted = [
        (
            "a user name or password",
            !url.username().is_empty() || url.password().is_some(),
        ),
        ("a query", url.query().is_some()),
        ("a fragment", url.fragment().is_some()),
    ];
    match unwanted.into_iter().find(|(_, is_there)| *is_there) {
        Some((part, _)) => Err(EndpointError::UnwantedPart { part }),
        None => Ok(url),
    }
}

/// Returns the part of an address that messages show: scheme, host and port.
pub(super) fn name(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

/// Returns the target of a redirect from `from`, without path and query, which may hold secrets.
pub(super) fn redirect_target(from: &str, location: Option<&str>) -> String {
    let Some(location) = location else {
        return "no location".to_owned();
    };
    let target = Url::parse(from).and_then(|base| base.join(location));
    match target {
        Ok(target) if name(&target) == from => "another path of the same server".to_owned(),
        Ok(target) => name(&target),
        Err(_) => "an invalid location".to_owned(),
    }
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Returns the innermost cause of an error: the outer ones repeat the address, or only say "error".
pub(crate) fn cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_appended_to_the_path_of_the_base_url() {
        for (base, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/models"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/models"),
            (
                "https://example.com/llm/",
                "https://example.com/llm/v1/models",
            ),
        ] {
            let route = Route::new(&parse(base).unwrap(), "v1/models", &[]);
            assert_eq!(route.url().as_str(), expected);
        }
    }

    #[test]
    fn a_query_is_appended_to_the_route() {
        let base = parse("https://example.com/openai/deployments/d").unwrap();
        let query = [("api-version".to_owned(), "2026-01-01 a&b".to_owned())];
        let route = Route::new(&base, "chat/completions", &query);
        assert_eq!(
            route.url().as_str(),
            "https://example.com/openai/deployments/d/chat/completions?api-version=2026-01-01+a%26b"
        );
        let route = Route::new(&base, "models", &[]).with_query("limit", "9 0");
        assert_eq!(route.url().query(), Some("limit=9+0"));
    }

    #[test]
    fn an_unusable_base_url_is_refused_without_repeating_it() {
        for (text, message) in [
            ("127.0.0.1:8080", "base_url is not a valid address"),
            ("localhost:8080", "base_url begins with localhost:"),
            ("http://", "base_url is not a valid address"),
            ("ftp://x", "base_url begins with ftp:"),
            (
                "http://me:canary@x",
                "base_url must not have a user name or password",
            ),
            ("http://x/?key=canary", "base_url must not have a query"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.starts_with(message), "{text}: {said}");
            assert!(!said.contains("canary"), "{said}");
        }
    }

    #[test]
    fn loopback_is_recognized_by_name_and_by_address() {
        for (address, expected) in [
            ("http://localhost:1", true),
            ("http://127.8.9.1", true),
            ("http://[::1]:8080", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&parse(address).unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_redirect_target_is_named_only_by_its_host() {
        let from = "http://127.0.0.1:8080";
        for (location, expected) in [
            (
                Some("https://evil.example/steal?key=canary"),
                "https://evil.example",
            ),
            (
                Some("https://user:canary@evil.example"),
                "https://evil.example",
            ),
            (Some("/login"), "another path of the same server"),
            (Some("http://["), "an invalid location"),
            (None, "no location"),
        ] {
            assert_eq!(redirect_target(from, location), expected);
        }
    }
}
