//! `[mcp.servers.NAME]`: the MCP servers whose tools are offered.

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neuraxis_core::duration_text;
use neuraxis_mcp::{ConfigFault, HttpConfig, McpServerConfig, StdioConfig, Transport};
use neuraxis_ports::Secret;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::error::{ConfigError, Fault};
use super::key::as_key;
use super::layer::Layer;
use super::secret::{
    SHORTEST_SECRET, may_be_secret, may_be_secret_header, shown_argument, shown_variable,
    sounds_secret,
};
use super::{Layers, Origin};
use crate::discover::key_from_file;
use crate::environment::Environment;

/// The variables that every program needs, and that reveal only the user's name. A server receives these and its own.
const BASE: [&str; 11] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// Additional variables that Windows programs need.
#[cfg(windows)]
const SYSTEM: [&str; 7] = [
    "APPDATA",
    "LOCALAPPDATA",
    "PATHEXT",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
];
#[cfg(not(windows))]
const SYSTEM: [&str; 0] = [];

/// The keys that say where a server is.
const RECIPIENT_KEYS: [&str; 4] = ["command", "args", "cwd", "url"];

/// The keys for what is sent to it.
const SENT_KEYS: [&str; 6] = [
    "env",
    "pass_env",
    "token_env",
    "token_file",
    "headers",
    "headers_env",
];

/// Those keys that are tables: entries of several sources are merged.
const MERGED: [&str; 3] = ["env", "headers", "headers_env"];

/// `[mcp]`: servers of the Model Context Protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct McpConfig {
    /// The servers, by the names that prefix their tools.
    pub servers: BTreeMap<String, McpServerSection>,
}

/// `[mcp.servers.NAME]`: a program to start (`command`), or a service to connect to (`url`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct McpServerSection {
    /// Whether it is used. Defaults to `true`.
    pub enabled: bool,
    /// The program: a path, or a name that is looked up in `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Additional variables for the program, besides the few that every program needs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of variables that it receives from this environment. Use this for secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass_env: Vec<String>,
    /// Its working directory. Defaults to the current one. A relative path counts from the file that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The variable that holds the token, which is sent as `Authorization: Bearer …`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// The file that contains the token. A relative path counts from the file that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Headers that are sent with each request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers with the names of the variables that hold their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers_env: BTreeMap<String, String>,
    /// The tools that are offered, by the server's names for them. Defaults to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// How long startup waits for the server before continuing without it. Defaults to `"10s"`.
    #[serde(with = "duration_text")]
    pub start_timeout: Duration,
    /// The time limit of a call. Defaults to that of the mode.
    #[serde(
        with = "duration_text::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub call_timeout: Option<Duration>,
}

impl Default for McpServerSection {
    fn default() -> Self {
        Self {
            enabled: true,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            cwd: None,
            url: None,
            token_env: None,
            token_file: None,
            headers: BTreeMap::new(),
            headers_env: BTreeMap::new(),
            tools: None,
            start_timeout: Duration::from_secs(10),
            call_timeout: None,
        }
    }
}

/// Why a server with a well-formed section cannot be reached. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpFault {
    /// A variable is not set.
    #[error("{key} names the variable {variable}, which is not set")]
    NoVariable {
        /// The key that names it.
        key: String,
        /// The variable.
        variable: String,
    },
    /// The token file cannot be used.
    #[error("token_file: {reason}")]
    NoTokenFile {
        /// Which file, and why.
        reason: String,
    },
    /// A setting that can never work.
    #[error(transparent)]
    Config(#[from] ConfigFault),
}

impl McpServerSection {
    /// Resolves the section into what a client needs: reads the variables and the file that it names.
    ///
    /// # Errors
    ///
    /// A [`McpFault`] that names the key.
    pub fn resolved(
        &self,
        name: &str,
        environment: &Environment,
    ) -> Result<McpServerConfig, McpFault> {
        let transport = match (&self.command, &self.url) {
            (_, Some(url)) => Transport::Http(self.http(url, environment)?),
            (command, None) => {
                let command = command.as_deref().unwrap_or_default();
                Transport::Stdio(self.stdio(command, environment)?)
            }
        };
        let mut config = McpServerConfig::new(name, transport);
        config.tools.clone_from(&self.tools);
        config.call_timeout = self.call_timeout;
        config.start_timeout = config.start_timeout.max(self.start_timeout);
        config.check()?;
        Ok(config)
    }

    /// Returns the arguments of the program for display, without potential secrets.
    #[must_use]
    pub fn shown_args(&self) -> Vec<String> {
        let before = self.args.iter().map(|argument| Some(argument.as_str()));
        let before = iter::once(None).chain(before);
        let args = before.zip(&self.args);
        args.map(|(before, argument)| shown_argument(before, argument))
            .collect()
    }

    fn stdio(&self, command: &str, environment: &Environment) -> Result<StdioConfig, McpFault> {
        let mut program = StdioConfig::new(command, &self.args);
        program.cwd = Some(match &self.cwd {
            Some(folder) => environment.working_dir().join(folder),
            None => environment.working_dir().to_owned(),
        });
        for name in BASE.iter().chain(&SYSTEM) {
            if let Some(value) = environment.text(name) {
                program
                    .env
                    .insert((*name).to_owned(), Secret::verbatim(value));
            }
        }
        // Variables that are passed on replace those of the same name in `env`.
        let written = self.env.iter();
        for (name, value) in written.filter(|(name, _)| !self.pass_env.contains(name)) {
            program.env.insert(name.clone(), Secret::verbatim(value));
            if !may_be_secret(name, value) {
                program.plain.insert(name.clone());
            }
        }
        for name in &self.pass_env {
            let value = environment.text(name).filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| no_variable("pass_env", name))?;
            // A short word, such as `true`, is not a secret; hiding it would remove it from every text that contains
            // it.
            if value.trim().len() < SHORTEST_SECRET && !sounds_secret(name) {
                program.plain.insert(name.clone());
            }
            program.env.insert(name.clone(), Secret::verbatim(value));
        }
        Ok(program)
    }

    fn http(&self, url: &str, environment: &Environment) -> Result<HttpConfig, McpFault> {
        let mut address = HttpConfig::new(url);
        address.token = match (&self.token_env, &self.token_file) {
            (Some(name), _) => Some(variable(environment, "token_env", name)?),
            (None, Some(file)) => Some(token(&environment.working_dir().join(file))?),
            (None, None) => None,
        };
        // Keyed by lower-case name: a header is sent once, with the last value, whatever its spelling.
        let mut headers_to_send = BTreeMap::new();
        for (header, value) in &self.headers {
            // A word such as `issues` is not a secret; hiding it would also remove it from the names of tools.
            let is_plain = !may_be_secret_header(header, value);
            headers_to_send.insert(
                header.to_ascii_lowercase(),
                (header, Secret::new(value), is_plain),
            );
        }
        for (header, name) in &self.headers_env {
            let key = format!("headers_env.{header}");
            let value = variable(environment, &key, name)?;
            let is_short = value.expose().trim().len() < SHORTEST_SECRET;
            let is_plain = is_short && !sounds_secret(header) && !sounds_secret(name);
            headers_to_send.insert(header.to_ascii_lowercase(), (header, value, is_plain));
        }
        for (header, value, is_plain) in headers_to_send.into_values() {
            if is_plain {
                address.plain.insert(header.clone());
            }
            address.headers.insert(header.clone(), value);
        }
        Ok(address)
    }

    /// Returns an error about a section that can work nowhere.
    fn fault(&self, table: &str) -> Option<Fault> {
        let fault = |key: &str, expected: &str, found: &str| Fault::WrongType {
            key: format!("{table}.{key}"),
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        match (&self.command, &self.url) {
            (None, None) => Some(Fault::MissingKey {
                table: table.to_owned(),
                missing: "command\" (a program) or \"url".to_owned(),
            }),
            (Some(_), Some(_)) => Some(fault("url", "either command or url", "both")),
            (Some(_), None) => {
                let is_set = self.token_env.is_some()
                    || self.token_file.is_some()
                    || !self.headers.is_empty()
                    || !self.headers_env.is_empty();
                is_set.then(|| {
                    fault(
                        "command",
                        "env or pass_env for values passed to a program",
                        "a token or headers",
                    )
                })
            }
            (None, Some(_)) if self.token_env.is_some() && self.token_file.is_some() => Some(
                fault("token_file", "either token_env or token_file", "both"),
            ),
            (None, Some(_)) => {
                let is_set =
                    !self.env.is_empty() || !self.pass_env.is_empty() || !self.args.is_empty();
                is_set.then(|| {
                    fault(
                        "url",
                        "headers or a token for values sent to a service",
                        "args, env or pass_env",
                    )
                })
            }
        }
    }

    pub(super) fn table(&self) -> Table {
        // Strings, lists and tables with string keys: serializing them cannot fail.
        match Value::try_from(self) {
            Ok(Value::Table(table)) => table,
            _ => Table::new(),
        }
    }
}

impl McpConfig {
    /// Returns the secrets that are sent to the enabled servers. A server that cannot be started as configured has
    /// none, since nothing is sent to it.
    pub(crate) fn secrets(&self, environment: &Environment) -> Vec<Secret> {
        let used = self.servers.iter().filter(|(_, server)| server.enabled);
        let resolved = used.filter_map(|(name, server)| server.resolved(name, environment).ok());
        resolved.flat_map(|config| config.secrets()).collect()
    }

    /// Checks the servers, and resolves paths relative to the files that set them.
    pub(super) fn checked(
        mut self,
        layers: &Layers,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        for (name, server) in &mut self.servers {
            let table = format!("mcp.servers.{}", as_key(name));
            // This section disables a server that other sources may define under this name.
            if !server.enabled && server.command.is_none() && server.url.is_none() {
                continue;
            }
            if let Some(fault) = server.fault(&table) {
                return Err(layers.fault_at(&table, fault));
            }
            for (key, path) in [
                ("cwd", &mut server.cwd),
                ("token_file", &mut server.token_file),
            ] {
                if let Some(path) = path {
                    *path = layers.resolved(environment, &format!("{table}.{key}"), path);
                }
            }
            // What needs no variable is checked immediately; the rest when it is used.
            let sample = server.without_secrets().resolved(name, environment);
            if let Err(McpFault::Config(fault)) = sample {
                let fault = Fault::NotToml(format!("{table}: {fault}"));
                return Err(layers.fault_at(&table, fault));
            }
            layers.check_recipients(&table)?;
            layers.check_variables(&table)?;
        }
        Ok(self)
    }
}

impl McpServerSection {
    fn without_secrets(&self) -> Self {
        Self {
            pass_env: Vec::new(),
            token_env: None,
            token_file: None,
            headers_env: BTreeMap::new(),
            ..self.clone()
        }
    }
}

impl Layers {
    /// Checks that nothing which the user names is sent to a program or an address that the file of the working
    /// directory names, whether that file is trusted or not.
    fn check_recipients(&self, table: &str) -> Result<(), ConfigError> {
        let recipient = RECIPIENT_KEYS
            .iter()
            .find_map(|key| self.set_by(table, key, Layer::is_found));
        let sent = SENT_KEYS
            .iter()
            .find_map(|key| self.set_by(table, key, |layer| !layer.is_found()));
        match (recipient, sent) {
            (Some((address, at)), Some((key, key_at))) => Err(ConfigError::KeyElsewhere {
                at,
                address,
                key,
                key_at: Box::new(key_at),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the file of the working directory, trusted or not, sets no variables for a program that the user
    /// names or passes something to: a variable such as `LD_PRELOAD` makes any program do anything, with everything
    /// that it receives.
    fn check_variables(&self, table: &str) -> Result<(), ConfigError> {
        let variables = self.set_by(table, "env", Layer::is_found);
        let own = ["command"]
            .iter()
            .chain(&SENT_KEYS)
            .find_map(|key| self.set_by(table, key, |layer| !layer.is_found()));
        match (variables, own) {
            (Some((variables, at)), Some((key, key_at))) => Err(ConfigError::VariablesElsewhere {
                at,
                variables,
                key,
                key_at: Box::new(key_at),
            }),
            _ => Ok(()),
        }
    }

    /// Returns a key of a server's section and where it is set, if a matching source contributes to its value.
    fn set_by(
        &self,
        table: &str,
        name: &str,
        is_meant: impl Fn(&Layer) -> bool,
    ) -> Option<(String, Origin)> {
        let key = format!("{table}.{name}");
        let mut layers = self.0.iter().rev().filter(|layer| layer.sets(&key));
        let layer = match MERGED.contains(&name) {
            true => layers.find(|layer| is_meant(layer)),
            false => layers.next().filter(|layer| is_meant(layer)),
        }?;
        let at = layer.origin(&key);
        Some((key, at))
    }
}

/// Returns where a server's section is, for messages.
pub(super) fn origin_of(layers: &Layers, name: &str) -> Origin {
    layers.origin_around(&format!("mcp.servers.{}", as_key(name)))
}

fn variable(environment: &Environment, key: &str, name: &str) -> Result<Secret, McpFault> {
    let value = environment.filled(name).map(Secret::new);
    value.ok_or_else(|| no_variable(key, name))
}

fn no_variable(key: &str, name: &str) -> McpFault {
    McpFault::NoVariable {
        key: key.to_owned(),
        variable: shown_variable(name).to_owned(),
    }
}

fn token(file: &Path) -> Result<Secret, McpFault> {
    key_from_file(file).map_err(|error| McpFault::NoTokenFile {
        reason: error.to_string(),
    })
}
