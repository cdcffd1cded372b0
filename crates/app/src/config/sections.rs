//! The sections of `neuraxis.toml` in their written form. Those of the policy are defined in `neuraxis-brainstem`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use neuraxis_brainstem::{
    AgentConfig, ChannelConfig, HealthConfig, ModeConfig, PlanConfig, Policy, PolicyConfig,
    PriceConfig, RuleConfig, TaintConfig, TrustConfig,
};
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{AgentName, Channel, Mode, PlanName, Role};
use neuraxis_engine::{OrchestratorBuilder, ResultBounds};
use neuraxis_tools::Commands;
use neuraxis_web::WebConfig;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore};
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use toml::Table;

use super::Layers;
use super::discovery::DiscoveryConfig;
use super::driver::DriverConfig;
use super::mcp::McpConfig;
use super::prices::PriceListConfig;
use super::secret::{may_be_key, sounds_secret};
use super::store::StoreConfig;
use super::telemetry::TelemetryConfig;
use crate::environment::Environment;
use crate::prompts::PromptConfig;

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sections {
    /// The possible keys of a section depend on its provider; `models` checks them.
    pub(super) models: BTreeMap<Role, Table>,
    pub(super) discovery: DiscoveryConfig,
    pub(super) driver: DriverConfig,
    pub(super) store: StoreConfig,
    pub(super) tools: ToolsConfig,
    pub(super) server: ServerConfig,
    pub(super) web: WebConfig,
    pub(super) mcp: McpConfig,
    pub(super) telemetry: TelemetryConfig,
    pub(super) prompts: BTreeMap<String, PromptConfig>,
    modes: BTreeMap<Mode, ModeConfig>,
    channels: BTreeMap<Channel, ChannelConfig>,
    agents: BTreeMap<AgentName, AgentConfig>,
    plans: BTreeMap<PlanName, PlanConfig>,
    rules: BTreeMap<String, RuleConfig>,
    trust: BTreeMap<String, TrustConfig>,
    taint: TaintConfig,
    health: HealthConfig,
    prices: BTreeMap<String, PriceConfig>,
    pub(super) price_list: PriceListConfig,
    /// A section of earlier versions. Its only key no longer has any effect.
    config: RetiredConfig,
}

impl Sections {
    /// Takes the policy's sections out.
    pub(super) fn take_policy(&mut self) -> PolicyConfig {
        let mut policy = PolicyConfig::default();
        policy.modes = std::mem::take(&mut self.modes);
        policy.channels = std::mem::take(&mut self.channels);
        policy.agents = std::mem::take(&mut self.agents);
        policy.plans = std::mem::take(&mut self.plans);
        policy.rules = std::mem::take(&mut self.rules);
        policy.trust = std::mem::take(&mut self.trust);
        policy.taint = std::mem::take(&mut self.taint);
        policy.health = std::mem::take(&mut self.health);
        policy.prices = std::mem::take(&mut self.prices);
        policy.extra_roles = self.models.keys().cloned().collect();
        policy
    }
}

/// A key of earlier versions: what a file of the working directory may set in the policy.
pub(super) const RETIRED_KEY: &str = "config.project_policy";

/// `[config]`, a section of earlier versions.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RetiredConfig {
    #[serde(rename = "project_policy")]
    _project_policy: IgnoredAny,
}

/// `[tools]`: what the built-in tools may access, how many tools a request contains, and how long results may be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolsConfig {
    /// The folder that the file tools are confined to. A relative path counts from the file that sets it, or else from
    /// the working directory, which is the default.
    #[serde(deserialize_with = "folder")]
    pub root: Option<PathBuf>,
    /// The project id that tools receive (`ToolContext::project_id`). None by default.
    pub project_id: Option<String>,
    /// Whether commands may run where nothing confines them: `sandboxed` (they may not), the default, or `unconfined`.
    pub commands: Commands,
    /// Names of additional variables that commands receive, such as those of a proxy or of certificates. Names that
    /// suggest a secret are not allowed. Empty by default.
    #[serde(deserialize_with = "variable_names")]
    pub environment: Vec<String>,
    /// With more tools than this, an agent's requests contain only a few of them, and `find_tools`, with which the
    /// model finds the others. Defaults to 50.
    search_above: Option<u32>,
    /// The maximum number of bytes of a result that a model reads, at least 4,096; the rest is kept with the run and
    /// can be read in pages. Defaults to 65,536.
    #[serde(deserialize_with = "result_bytes")]
    pub max_result_bytes: Option<usize>,
    /// The maximum number of bytes of a result that are kept with the run; of a longer one, the beginning and the end
    /// are kept. At least `max_result_bytes`. Defaults to 8,388,608 (8 MiB).
    pub max_kept_bytes: Option<usize>,
}

impl ToolsConfig {
    /// Returns the number of tools above which an agent searches for tools.
    #[must_use]
    pub fn search_above(&self) -> u32 {
        let usual = OrchestratorBuilder::SEARCH_TOOLS_ABOVE;
        self.search_above.unwrap_or(usual)
    }

    /// Returns the limits on the length of tool results.
    #[must_use]
    pub fn result_bounds(&self) -> ResultBounds {
        let usual = ResultBounds::default();
        ResultBounds::new(
            self.max_result_bytes.unwrap_or_else(|| usual.max_bytes()),
            self.max_kept_bytes
                .unwrap_or_else(|| usual.max_kept_bytes()),
        )
    }
}

/// Reads the name of a folder. An empty name is rejected: it would mean the working directory, which a variable should
/// name only on purpose.
fn folder<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let folder = PathBuf::deserialize(deserializer)?;
    if folder.as_os_str().is_empty() {
        return Err(D::Error::custom(
            "expected a folder, found an empty string: name one, such as \".\" for the working directory, or leave it \
             out",
        ));
    }
    Ok(Some(folder))
}

fn result_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let bytes = usize::deserialize(deserializer)?;
    if bytes < ResultBounds::MIN_BYTES {
        let least = ResultBounds::MIN_BYTES;
        return Err(D::Error::custom(format!("expected at least {least} bytes")));
    }
    Ok(Some(bytes))
}

fn variable_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    for name in &names {
        // A potential key is not shown.
        if !is_name_of_variable(name) || may_be_key(name) {
            return Err(D::Error::custom(
                "expected variable names, such as \"HTTPS_PROXY\", without values",
            ));
        }
        if sounds_secret(name) {
            return Err(D::Error::custom(format!(
                "{name} looks like a secret, which commands never get: name variables for proxies, certificates and \
                 the like"
            )));
        }
    }
    Ok(names)
}

/// Returns whether programs can look up a variable by this name; some do so for `http_proxy`.
fn is_name_of_variable(text: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.chars().all(is_of_name) && text.starts_with(|first: char| !first.is_ascii_digit())
}

/// `[server]`: how to reach `neuraxis-server`, and what its clients may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The address and port to listen on; port 0 means any free port. Defaults to `127.0.0.1:8787`.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    /// The plan that limits every request: one of `[plans.NAME]`. None by default.
    pub plan: Option<PlanName>,
    /// The modes that clients may choose. Defaults to those that let tools do no more than `moderate` does.
    pub modes: Option<Vec<Mode>>,
    /// The maximum number of turns that may run at the same time. Defaults to 1,024.
    pub max_runs: Option<NonZeroU32>,
    /// The maximum number of turns that one owner of keys may run at the same time, if the key sets none. Unlimited by
    /// default.
    pub max_runs_per_owner: Option<NonZeroU32>,
    /// How long a question that a tool asks during its call stays open, in milliseconds; 0 declines it immediately.
    /// Defaults to 300,000.
    pub question_ms: u64,
    /// The file with the keys of clients, relative to the working directory; the server does not start if it does not
    /// exist. Defaults to `server-keys.json` in the user's data folder, which need not exist.
    pub keys: Option<PathBuf>,
    /// Origins of pages that may call the server in addition to those of its own address, such as
    /// `https://chat.example.com`.
    pub origins: Vec<String>,
    /// Whether an encrypting proxy is in front of the server, so that keys do not cross a network in plain text.
    /// Defaults to `false`.
    pub behind_proxy: bool,
    /// The format of the access log, with one line on standard error for each response. By default, such lines are only
    /// logged for debugging (`debug`).
    pub access_log: Option<AccessLog>,
    /// `[server.tls]`: the server's certificate. Without it, the server does not use TLS.
    pub tls: Option<TlsFiles>,
}

/// The format of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AccessLog {
    /// Like other log lines, at level `info`.
    Text,
    /// A JSON object on each line, whatever else is logged.
    Json,
}

impl AccessLog {
    /// Returns its name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// `[server.tls]`: the files of a certificate. Paths count from the folder of the file that sets them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The certificate chain in PEM, the server's own first.
    pub certificate: PathBuf,
    /// Its private key in PEM, which must not be readable by everyone.
    pub key: PathBuf,
}

impl ServerConfig {
    /// The default of [`max_runs`](Self::max_runs): two cores can serve a thousand streams, but not two thousand.
    pub const MAX_RUNS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1_023);

    /// Returns the modes that clients may choose under this policy.
    #[must_use]
    pub fn modes_of(&self, policy: &Policy) -> Vec<Mode> {
        let usual = || policy.modes_no_freer_than(&Mode::MODERATE);
        self.modes.clone().unwrap_or_else(usual)
    }
}

impl TlsFiles {
    /// Returns whether the private keys in a PEM file are encrypted, so that a server can read none of them.
    #[must_use]
    pub fn is_encrypted(pem: &[u8]) -> bool {
        let pem = String::from_utf8_lossy(pem);
        let kinds: Vec<&str> = pem.lines().filter_map(kind_of_key).collect();
        let are_all = !kinds.is_empty() && kinds.iter().all(|kind| *kind == "ENCRYPTED ");
        // The second check is for the older format, which otherwise looks like an unencrypted key.
        are_all || pem.contains("Proc-Type: 4,ENCRYPTED")
    }

    /// Returns when the first certificate of a PEM file expires; `None` if there is no readable one.
    #[must_use]
    pub fn expires_at(pem: &[u8]) -> Option<Timestamp> {
        let certificate = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
        let parsed = ParsedCertificate::try_from(&certificate).ok()?;
        // The issuer does not matter: the expiry is checked before the signature.
        let (nobody, later) = (RootCertStore::empty(), UnixTime::since_unix_epoch(NEVER));
        match verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], later, &[]) {
            Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
                not_after,
                ..
            })) => {
                let seconds = i64::try_from(not_after.as_secs()).ok()?;
                Timestamp::from_second(seconds).ok()
            }
            _ => None,
        }
    }

    /// Resolves paths relative to the files that set them.
    pub(super) fn resolved(self, layers: &Layers, environment: &Environment) -> Self {
        let Self { certificate, key } = self;
        Self {
            certificate: layers.resolved(environment, "server.tls.certificate", &certificate),
            key: layers.resolved(environment, "server.tls.key", &key),
        }
    }
}

/// The year 10000, after which no certificate can be valid (RFC 5280, section 4.1.2.5).
const NEVER: Duration = Duration::from_secs(253_402_300_800);

/// Returns what precedes the kind in the first line of a private key, such as `RSA `.
fn kind_of_key(line: &str) -> Option<&str> {
    let name = line.trim_end().strip_prefix("-----BEGIN ")?;
    name.strip_suffix("PRIVATE KEY-----")
}

/// The default port of `neuraxis-server`.
const DEFAULT_PORT: u16 = 8787;

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            plan: None,
            modes: None,
            max_runs: None,
            max_runs_per_owner: None,
            question_ms: 300_000,
            keys: None,
            origins: Vec::new(),
            behind_proxy: false,
            access_log: None,
            tls: None,
        }
    }
}

fn socket_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let malformed = "expected an IP address and a port, such as 127.0.0.1:8787 or [::1]:8787";
    text.parse().map_err(|_| D::Error::custom(malformed))
}
