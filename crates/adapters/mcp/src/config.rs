//! How to reach a server, and which of its tools are used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{ContentHash, SERVER_SEPARATOR};
use neuraxis_ports::Secret;
use url::{Host, Url};

use crate::error::ConnectError;
use crate::stdio::find_program;

/// The maximum length of a server's name, in characters: its tools are named `NAME__TOOL`, and tool names have at most
/// 64.
const MAX_NAME: usize = 32;

/// Variables that programs commonly get and whose values are not secret.
const PLAIN_VARIABLES: [&str; 18] = [
    "APPDATA",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOCALAPPDATA",
    "LOGNAME",
    "PATH",
    "PATHEXT",
    "SHELL",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "USERNAME",
    "USERPROFILE",
];

/// Headers that never hold a secret.
const PLAIN_HEADERS: [&str; 9] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-type",
    "origin",
    "referer",
    "traceparent",
    "user-agent",
];

/// The configuration of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct McpServerConfig {
    /// The server's local name: 1 to 32 of `A-Z a-z 0-9 _ -`, without two consecutive underscores or one at its end.
    pub name: Arc<str>,
    /// How to reach the server: a program to start, or an address.
    pub transport: Transport,
    /// The tools to use, by the server's names for them. All if there is no list.
    pub tools: Option<Vec<String>>,
    /// How long connecting and listing the tools may take. Default: 60 seconds.
    pub start_timeout: Duration,
    /// How long a call may take. Default: the run's own limit.
    pub call_timeout: Option<Duration>,
}

/// How a server is reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Transport {
    /// A program that is started here and communicates over its standard input and output.
    Stdio(StdioConfig),
    /// A service that is reached over streamable HTTP.
    Http(HttpConfig),
}

/// A program to start.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StdioConfig {
    /// The program: a path, or a name that is looked up in the `PATH` variable of `env`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// All of its environment variables: nothing else is inherited from this process.
    pub env: BTreeMap<String, Secret>,
    /// The names of the variables whose values are not secret. The values of all others are removed from everything the
    /// program says. Default: variables that programs commonly get, such as `PATH`.
    pub plain: BTreeSet<String>,
    /// Its working directory. Default: that of this process.
    pub cwd: Option<PathBuf>,
}

/// A service to call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpConfig {
    /// Its address: `https:`, or `http:` if nothing secret is sent or the service is on this machine.
    pub url: String,
    /// The token that is sent as `Authorization: Bearer …`, only to this address.
    pub token: Option<Secret>,
    /// Additional headers that are sent with each request.
    pub headers: BTreeMap<String, Secret>,
    /// The names of the headers whose values are not secret, compared without regard to case. The values of all others
    /// are removed from everything the service says. Default: headers that never hold a secret, such as `Accept`.
    pub plain: BTreeSet<String>,
}

/// What is wrong with a [`McpServerConfig`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFault {
    /// The name cannot be part of a tool's name.
    #[error(
        "{name:?} is not a valid server name: it must be 1 to 32 of A-Z a-z 0-9 _ -, without two underscores in a row or one at the end"
    )]
    Name {
        /// The rejected name.
        name: String,
    },
    /// No program is named.
    #[error("command is empty: set it to the server's program")]
    NoCommand,
    /// The address is invalid.
    #[error("url is not a valid server address ({reason}): write it like https://example.org/mcp")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// A secret would be sent unencrypted.
    #[error(
        "url begins with http: and is not on this machine, so the token or the headers would be sent unencrypted; use https:"
    )]
    Clear,
    /// This build has no TLS support.
    #[error("url begins with https:, and this program was built without the feature tls")]
    NoTls,
    /// A header cannot be sent because of its name.
    #[error(
        "headers.{name} cannot be sent: its name has characters that are not allowed in names of headers"
    )]
    HeaderName {
        /// The header's name.
        name: String,
    },
    /// A header cannot be sent because of its value, which may be secret.
    #[error(
        "headers.{name} cannot be sent: its value has characters that are not allowed in headers"
    )]
    HeaderValue {
        /// The header's name.
        name: String,
    },
    /// The token cannot be sent.
    #[error("the token has characters that are not allowed in headers")]
    Token,
}

impl McpServerConfig {
    /// Creates the configuration of a server with this name, with all its tools.
    pub fn new(name: impl Into<Arc<str>>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            transport,
            tools: None,
            start_timeout: Duration::from_secs(60),
            call_timeout: None,
        }
    }

    /// Checks the configuration before anything is started.
    ///
    /// # Errors
    ///
    /// A [`ConfigFault`] that names the key. It contains no secret.
    pub fn check(&self) -> Result<(), ConfigFault> {
        if !is_name(&self.name) {
            return Err(ConfigFault::Name {
                name: self.name.to_string(),
            });
        }
        match &self.transport {
            Transport::Stdio(stdio) if stdio.command.trim().is_empty() => {
                Err(ConfigFault::NoCommand)
            }
            Transport::Stdio(_) => Ok(()),
            Transport::Http(http) => http.check(),
        }
    }

    /// Checks that the server's program and its working directory exist. Starts nothing, and accepts any service
    /// unchecked.
    ///
    /// # Errors
    ///
    /// A [`ConnectError`] that says what is missing.
    pub fn check_program(&self) -> Result<(), ConnectError> {
        match &self.transport {
            Transport::Stdio(stdio) => find_program(stdio).map(drop),
            Transport::Http(_) => Ok(()),
        }
    }

    /// Returns the identity of the server's program or address: what was accepted for one does not apply to another
    /// that gets the same name.
    #[must_use]
    pub fn identity(&self) -> ContentHash {
        match &self.transport {
            Transport::Stdio(stdio) => {
                let parts = std::iter::once(&stdio.command).chain(&stdio.args);
                let start = ContentHash::of(b"stdio");
                parts.fold(start, |hash, part| {
                    hash.chain(ContentHash::of(part.as_bytes()))
                })
            }
            Transport::Http(http) => {
                ContentHash::of(b"http").chain(ContentHash::of(http.url.trim().as_bytes()))
            }
        }
    }

    /// Returns what must never be shown, whatever the server says: the variables that are not
    /// [plain](StdioConfig::plain), the token, and the headers that are not [plain](HttpConfig::plain).
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        match &self.transport {
            Transport::Stdio(stdio) => {
                let variables = stdio.env.iter();
                let secret = variables.filter(|(name, _)| !stdio.plain.contains(*name));
                // A program rarely repeats the whitespace around a value.
                let bare = secret.map(|(_, value)| value.expose().trim());
                bare.map(Secret::new).collect()
            }
            Transport::Http(http) => {
                let is_plain =
                    |name: &str| http.plain.iter().any(|it| it.eq_ignore_ascii_case(name));
                let headers = http.headers.iter().filter(|(name, _)| !is_plain(name));
                let headers = headers.flat_map(|(_, value)| {
                    // A server may also repeat only the part after the scheme of `Bearer TOKEN`.
                    let bare = value.expose().split_once(' ');
                    let bare = bare.map(|(_, bare)| Secret::new(bare));
                    std::iter::once(value.clone()).chain(bare)
                });
                http.token.iter().cloned().chain(headers).collect()
            }
        }
    }
}

impl StdioConfig {
    /// Creates the configuration of a program with these arguments and no variables.
    pub fn new(
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            plain: PLAIN_VARIABLES.map(str::to_owned).into(),
            cwd: None,
        }
    }
}

impl HttpConfig {
    /// Creates the configuration of a service that needs no token.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            headers: BTreeMap::new(),
            plain: PLAIN_HEADERS.map(str::to_owned).into(),
        }
    }

    fn check(&self) -> Result<(), ConfigFault> {
        let url = self.parsed()?;
        let is_secret = self.token.is_some() || !self.headers.is_empty();
        if url.scheme() == "http" && is_secret && !is_loopback(&url) {
            return Err(ConfigFault::Clear);
        }
        if url.scheme() == "https" && !cfg!(feature = "tls") {
            return Err(ConfigFault::NoTls);
        }
        Ok(())
    }

    pub(crate) fn parsed(&self) -> Result<Url, ConfigFault> {
        let fault = |reason: &str| ConfigFault::Url {
            reason: reason.to_owned(),
        };
        let url = Url::parse(self.url.trim()).map_err(|error| fault(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(fault("it begins with neither http: nor https:"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fault(
                "it has a user name or password; use token_env or token_file",
            ));
        }
        Ok(url)
    }
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"_-".contains(&letter);
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(is_letter)
        && !name.contains(SERVER_SEPARATOR)
        && !name.ends_with('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(url: &str) -> Result<(), ConfigFault> {
        let mut http = HttpConfig::new(url);
        http.token = Some(Secret::new("t-canary"));
        McpServerConfig::new("shop", Transport::Http(http)).check()
    }

    #[test]
    fn plain_http_is_allowed_only_to_loopback_addresses() {
        for url in [
            "https://example.org/mcp",
            "http://127.0.0.1:1/",
            "http://[::1]/",
            "http://localhost/",
        ] {
            assert_eq!(http(url), Ok(()), "{url}");
        }
        for url in [
            "http://example.org/mcp",
            "http://10.0.0.1/",
            "http://localhost.example.org/",
        ] {
            assert_eq!(http(url), Err(ConfigFault::Clear), "{url}");
        }
        for url in ["", "file:///etc/passwd", "https://me:t-canary@example.org/"] {
            let fault = http(url).unwrap_err();
            assert!(matches!(fault, ConfigFault::Url { .. }), "{url}");
            assert!(!fault.to_string().contains("canary"), "{fault}");
        }
    }

    #[test]
    fn an_ambiguous_or_invalid_server_name_is_refused() {
        let transport = || Transport::Stdio(StdioConfig::new("server", [""; 0]));
        for name in ["a", "every-thing_2", "A1"] {
            assert_eq!(McpServerConfig::new(name, transport()).check(), Ok(()));
        }
        let long = "x".repeat(MAX_NAME + 1);
        for name in ["", "a__b", "a_", "a b", "a.b", "ä", "a\n", &long] {
            assert!(
                McpServerConfig::new(name, transport()).check().is_err(),
                "{name:?}"
            );
        }
    }

    #[test]
    fn variables_and_headers_are_secret_unless_known_to_be_plain() {
        let mut program = StdioConfig::new("server", [""; 0]);
        for (name, value) in [("PATH", "/bin"), ("SHOP_KEY", "k-canary"), ("MODE", "fast")] {
            program.env.insert(name.to_owned(), Secret::new(value));
        }
        program.plain.insert("MODE".to_owned());
        let exposed = |transport| -> Vec<String> {
            let secrets = McpServerConfig::new("shop", transport).secrets();
            secrets.iter().map(|it| it.expose().to_owned()).collect()
        };
        assert_eq!(exposed(Transport::Stdio(program)), ["k-canary"]);
        let mut http = HttpConfig::new("https://example.org/");
        http.token = Some(Secret::new("t-canary"));
        for (name, value) in [
            ("Accept", "text/plain"),
            ("Authorization", "Basic h-canary"),
            ("X-MCP-Toolsets", "issues"),
        ] {
            http.headers.insert(name.to_owned(), Secret::new(value));
        }
        http.plain.insert("x-mcp-toolsets".to_owned());
        assert_eq!(
            exposed(Transport::Http(http)),
            ["t-canary", "Basic h-canary", "h-canary"]
        );
    }

    #[test]
    fn servers_with_different_programs_or_addresses_have_different_identities() {
        let of = |transport| McpServerConfig::new("shop", transport).identity();
        let stdio = |args: &[&str]| of(Transport::Stdio(StdioConfig::new("server", args.to_vec())));
        let all = [
            stdio(&[]),
            stdio(&["a", "b"]),
            stdio(&["a b"]),
            of(Transport::Http(HttpConfig::new("https://a/"))),
            of(Transport::Http(HttpConfig::new("https://b/"))),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| other != one));
        }
    }
}
