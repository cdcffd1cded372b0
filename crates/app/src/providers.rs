//! The list of all providers, and what works the same for all of them.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::LazyLock;

use neuraxis_anthropic::AnthropicConfig;
use neuraxis_cassette::CassetteConfig;
use neuraxis_deepseek::DeepSeekConfig;
use neuraxis_llama::LlamaConfig;
use neuraxis_offline::OfflineConfig;
use neuraxis_openai::OpenAiConfig;
use neuraxis_ports::{
    self as ports, ConnectContext, ConnectError, Connection, KeyDiscovery, ProviderKind,
};
use serde::de::{EnumAccess, Error, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Table;

use crate::config::models::{Checked, read};

/// All providers. Those whose key may be found in a variable are in the order in which they are checked.
static PROVIDERS: [&dyn Entry; 6] = [
    &Listed::<OpenAiConfig>::NEW,
    &Listed::<DeepSeekConfig>::NEW,
    &Listed::<AnthropicConfig>::NEW,
    &Listed::<LlamaConfig>::NEW,
    &Listed::<OfflineConfig>::NEW,
    &Listed::<CassetteConfig>::NEW,
];

/// The names of [`PROVIDERS`], for messages.
static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| Provider::all().map(Provider::as_str).collect());

/// One of the providers that this build supports.
#[derive(Clone, Copy)]
pub struct Provider(&'static dyn Entry);

impl Provider {
    /// Returns all providers.
    pub fn all() -> impl Iterator<Item = Self> {
        PROVIDERS.into_iter().map(Self)
    }

    /// Returns their names, in the same order.
    #[must_use]
    pub fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// Returns its name in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.name()
    }

    /// Returns what kind of service or program it is.
    #[must_use]
    pub fn kind(self) -> ProviderKind {
        self.0.kind()
    }

    /// Returns how it works without any configuration, if it can.
    pub(crate) fn key_discovery(self) -> Option<KeyDiscovery> {
        self.0.key_discovery()
    }

    /// Returns the provider of a configuration type.
    pub(crate) fn of<P: ports::Provider>() -> Self {
        Self(&Listed::<P>::NEW)
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::all().find(|provider| provider.as_str() == name)
    }

    /// Parses the provider's own keys in a role's table.
    pub(crate) fn read(self, role: &str, table: &Table) -> Checked<ProviderConfig> {
        self.0.read(role, table).map(ProviderConfig)
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Provider {}

impl Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({self})")
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("Provider", &NAMES, ProviderVisitor)
    }
}

/// Parses a name from a fixed set.
struct ProviderVisitor;

impl<'de> Visitor<'de> for ProviderVisitor {
    type Value = Provider;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("enum Provider")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Provider, A::Error> {
        let (name, variant) = data.variant::<String>()?;
        variant.unit_variant()?;
        Provider::named(&name).ok_or_else(|| A::Error::unknown_variant(&name, &NAMES))
    }
}

/// The keys of a provider's table, with their values.
pub struct ProviderConfig(Box<dyn Keys>);

impl ProviderConfig {
    /// Wraps a provider's configuration.
    pub fn new(config: impl ports::Provider) -> Self {
        Self(Box::new(config))
    }

    /// Returns the provider.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.0.provider()
    }

    /// Returns the configuration as the provider's own type, if it is that provider's.
    #[must_use]
    pub fn get<P: ports::Provider>(&self) -> Option<&P> {
        self.0.as_any().downcast_ref()
    }

    /// Returns its address; `None` if it is not reached over a network.
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        self.0.base_url()
    }

    /// Returns the names of headers that contain secrets, with the variables that hold their values.
    pub(crate) fn secret_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.0.secret_headers().into_iter().flatten();
        headers.map(|(header, variable)| (header.as_str(), variable.as_str()))
    }

    /// Returns its keys with their values, including defaults.
    pub(crate) fn table(&self) -> Table {
        self.0.table()
    }

    /// Returns a file that the table names, other than that of a key: certificates, or a recording.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let mut copy = self.clone();
        copy.file_mut().map(|(_, file)| std::mem::take(file))
    }

    /// Returns the key that names a file, and the file.
    pub(crate) fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        self.0.file_mut()
    }

    /// Connects according to the table. Sends nothing yet.
    pub(crate) fn connect(&self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError> {
        self.0.connect(ctx)
    }
}

impl Clone for ProviderConfig {
    fn clone(&self) -> Self {
        self.0.copied()
    }
}

impl PartialEq for ProviderConfig {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other)
    }
}

impl Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A provider in the list, regardless of its type.
trait Entry: Send + Sync {
    fn name(&self) -> &'static str;
    fn kind(&self) -> ProviderKind;
    fn key_discovery(&self) -> Option<KeyDiscovery>;
    fn read(&self, role: &str, table: &Table) -> Checked<Box<dyn Keys>>;
}

struct Listed<P>(PhantomData<fn() -> P>);

impl<P> Listed<P> {
    const NEW: Self = Self(PhantomData);
}

impl<P: ports::Provider> Entry for Listed<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn kind(&self) -> ProviderKind {
        P::KIND
    }

    fn key_discovery(&self) -> Option<KeyDiscovery> {
        P::KEY_DISCOVERY
    }

    fn read(&self, role: &str, table: &Table) -> Checked<Box<dyn Keys>> {
        Ok(Box::new(read::<P>(role, table)?))
    }
}

/// The keys of a provider's table, regardless of their type.
trait Keys: Debug + Send + Sync {
    fn provider(&self) -> Provider;
    fn as_any(&self) -> &dyn Any;
    fn copied(&self) -> ProviderConfig;
    fn equals(&self, other: &ProviderConfig) -> bool;
    fn base_url(&self) -> Option<&str>;
    fn secret_headers(&self) -> Option<&BTreeMap<String, String>>;
    fn table(&self) -> Table;
    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)>;
    fn connect(&self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError>;
}

impl<P: ports::Provider> Keys for P {
    fn provider(&self) -> Provider {
        Provider::of::<P>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn copied(&self) -> ProviderConfig {
        ProviderConfig::new(self.clone())
    }

    fn equals(&self, other: &ProviderConfig) -> bool {
        other.get::<P>() == Some(self)
    }

    fn base_url(&self) -> Option<&str> {
        <P as ports::Provider>::base_url(self)
    }

    fn secret_headers(&self) -> Option<&BTreeMap<String, String>> {
        <P as ports::Provider>::secret_headers(self)
    }

    fn table(&self) -> Table {
        // Values that were read from TOML can be written as TOML, except for numbers that TOML lacks.
        Table::try_from(self).unwrap_or_default()
    }

    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        <P as ports::Provider>::file_mut(self)
    }

    fn connect(&self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError> {
        <P as ports::Provider>::connect(self.clone(), ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_names_are_unique_and_keys_are_discovered_in_documented_order() {
        let mut names = Provider::names().to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROVIDERS.len());
        let keys = Provider::all().filter_map(|provider| Some(provider.key_discovery()?.key));
        let expected = ["OPENAI_API_KEY", "DEEPSEEK_API_KEY", "ANTHROPIC_API_KEY"];
        assert_eq!(keys.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn provider_settings_are_equal_only_for_the_same_provider() {
        let rules = ProviderConfig::new(OfflineConfig::default());
        let llama = ProviderConfig::new(LlamaConfig::default());
        assert_eq!(rules, rules.clone());
        assert_ne!(rules, llama);
        assert_eq!(llama.provider(), Provider::of::<LlamaConfig>());
        assert!(llama.get::<OfflineConfig>().is_none());
    }
}
