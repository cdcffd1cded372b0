//! The sections of `neuraxis.toml`, as they are written. Those of the policy are defined in `neuraxis-brainstem`.

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
    /// Which keys a section may have depends on its provider: `models` checks them.
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
    /// A section of earlier versions. Its one key has no effect any more.
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

/// What earlier versions knew: what a file of the working directory may say about the policy.
pub(super) const RETIRED_KEY: &str = "config.project_policy";

/// `[config]`, which earlier versions had.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RetiredConfig {
    #[serde(rename = "project_policy")]
    _project_policy: IgnoredAny,
}

/// `[tools]`: what the built-in tools may see, how many tools a request holds, and how long results may be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolsConfig {
    /// The folder that the file tools are confined to. A relative one counts from the file that names it, or else from
    /// the working directory, which it also is by default.
    #[serde(deserialize_with = "folder")]
    pub root: Option<PathBuf>,
    /// What tools are told as the project that they work for (`ToolContext::project_id`); nothing if left out.
    pub project_id: Option<String>,
    /// Whether commands may run where nothing confines them: `sandboxed` (they may not) if left out, or `unconfined`.
    pub commands: Commands,
    /// The variables that commands get besides the usual ones, by their names: those of a proxy, or of certificates. None that
    /// sounds like a secret; none if left out.
    #[serde(deserialize_with = "variable_names")]
    pub environment: Vec<String>,
    /// With more tools than this an agent's requests hold a few of them, and `find_tools` by which the model finds the
    /// others; 50 if left out.
    search_above: Option<u32>,
    /// The most bytes of a result that a model reads, at least 4,096: the rest is kept beside the run, to be read in pages.
    /// 65,536 if left out.
    #[serde(deserialize_with = "result_bytes")]
    pub max_result_bytes: Option<usize>,
    /// The most bytes of a result that are kept beside the run; of a longer one, its beginning and its end. At least
    /// `max_result_bytes`; 8,388,608 (8 MiB) if left out.
    pub max_kept_bytes: Option<usize>,
}

impl ToolsConfig {
    /// Returns with how many tools more than which an agent searches them.
    #[must_use]
    pub fn search_above(&self) -> u32 {
        let usual = OrchestratorBuilder::SEARCH_TOOLS_ABOVE;
        self.search_above.unwrap_or(usual)
    }

    /// Returns how long results of tools may be.
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

/// Reads the name of a folder. An empty one names none: it would be the working directory, which a variable may name on purpose
/// only.
fn folder<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let folder = PathBuf::deserialize(deserializer)?;
    if folder.as_os_str().is_empty() {
        return Err(D::Error::custom(
            "expected a folder, found an empty text: name one, such as \".\" for the working directory, or leave it out",
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
        // What may be a key is not shown.
        if !is_name_of_variable(name) || may_be_key(name) {
            return Err(D::Error::custom(
                "expected names of variables, such as \"HTTPS_PROXY\", without values",
            ));
        }
        if sounds_secret(name) {
            return Err(D::Error::custom(format!(
                "{name} sounds like a secret, and commands get none: name variables of a proxy, of certificates and the like"
            )));
        }
    }
    Ok(names)
}

/// Tells whether programs can look a variable up by this name; `http_proxy` is one that they do.
fn is_name_of_variable(text: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.chars().all(is_of_name) && text.starts_with(|first: char| !first.is_ascii_digit())
}

/// `[server]`: how `neuraxis-server` is reached, and what its clients may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The address and port to listen on; port 0 is any that is free. `127.0.0.1:8787`.
    #[serde(deserialize_with = "socket_address")]
    pub listen: SocketAddr,
    /// The plan that limits every request: one of `[plans.NAME]`. None if left out.
    pub plan: Option<PlanName>,
    /// The modes that clients may choose. If left out, those that let tools do no more than `moderate` does.
    pub modes: Option<Vec<Mode>>,
    /// How many turns may be at work at the same time; 1,024 if left out.
    pub max_runs: Option<NonZeroU32>,
    /// How many turns of one owner of keys may be at work at the same time, where the key does not say; any number if left out.
    pub max_runs_per_owner: Option<NonZeroU32>,
    /// How long a question that a tool asks in the middle of its call is open, in milliseconds; declined at once if 0. 300,000.
    pub question_ms: u64,
    /// The file of the keys of clients, relative to the working directory; a server does not start if it is not there. The file
    /// `server-keys.json` in the user's data folder if left out, which need not be there.
    pub keys: Option<PathBuf>,
    /// Origins of pages that may ask besides those of the server's own address, such as `https://chat.example.com`.
    pub origins: Vec<String>,
    /// Whether a proxy that encrypts stands before the server, so that keys do not cross a network in the clear. `false`.
    pub behind_proxy: bool,
    /// The form of the access log, a line on standard error for each answer. If left out, such lines are for who looks for
    /// defects (`debug`).
    pub access_log: Option<AccessLog>,
    /// `[server.tls]`: the certificate that the server shows; without it, it speaks no TLS.
    pub tls: Option<TlsFiles>,
}

/// The form of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AccessLog {
    /// As the other lines of the log are, at `info`.
    Text,
    /// An object of JSON on each line, whatever else is logged.
    Json,
}

impl AccessLog {
    /// Returns the word for it in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// `[server.tls]`: the files of a certificate. Paths count from the folder of the file that names them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The certificate chain in PEM, the server's own first.
    pub certificate: PathBuf,
    /// Its private key in PEM, which not everybody may read.
    pub key: PathBuf,
}

impl ServerConfig {
    /// The default of [`max_runs`](Self::max_runs): two cores hold a thousand streams, and not two thousand.
    pub const MAX_RUNS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1_023);

    /// Returns the modes that clients may choose, by this policy.
    #[must_use]
    pub fn modes_of(&self, policy: &Policy) -> Vec<Mode> {
        let usual = || policy.modes_no_freer_than(&Mode::MODERATE);
        self.modes.clone().unwrap_or_else(usual)
    }
}

impl TlsFiles {
    /// Tells whether the private keys in a PEM file are encrypted, so that a server can read none of them.
    #[must_use]
    pub fn is_encrypted(pem: &[u8]) -> bool {
        let pem = String::from_utf8_lossy(pem);
        let kinds: Vec<&str> = pem.lines().filter_map(kind_of_key).collect();
        let are_all = !kinds.is_empty() && kinds.iter().all(|kind| *kind == "ENCRYPTED ");
        // The second is the older form, which looks like any other key but for this.
        are_all || pem.contains("Proc-Type: 4,ENCRYPTED")
    }

    /// Returns when the first certificate of a PEM file expires; `None` if there is none that can be read.
    #[must_use]
    pub fn expires_at(pem: &[u8]) -> Option<Timestamp> {
        let certificate = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
        let parsed = ParsedCertificate::try_from(&certificate).ok()?;
        // Whom it is signed by is of no interest: its time is looked at before that.
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

    /// Lets paths count from the files that name them.
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

/// Returns what stands before the kind in a line with which a private key begins, such as `RSA `.
fn kind_of_key(line: &str) -> Option<&str> {
    let name = line.trim_end().strip_prefix("-----BEGIN ")?;
    name.strip_suffix("PRIVATE KEY-----")
}

/// The port that `neuraxis-server` listens on unless another is asked for.
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
