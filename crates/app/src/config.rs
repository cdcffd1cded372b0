//! Configuration: merged from files, variables and flags, each of which is checked separately first.

mod addresses;
mod answers;
mod change;
pub(crate) mod discovery;
mod driver;
mod error;
mod folder_rules;
mod found;
mod key;
mod layer;
mod layers;
mod mcp;
pub(crate) mod models;
mod named;
mod origin;
mod own_files;
mod position;
mod prices;
mod project;
mod read;
pub(crate) mod secret;
mod sections;
mod settings;
mod sources;
mod store;
mod telemetry;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use neuraxis_brainstem::Policy;
use neuraxis_core::{Role, ToolName};
use neuraxis_web::WebConfig;

pub use change::Change;
pub use discovery::{DiscoveryConfig, usual_key_variables};
pub use driver::{DriverConfig, DriverKind};
pub use error::{ConfigError, Fault};
pub use found::FoundFile;
use layers::Layers;
pub use mcp::{McpConfig, McpFault, McpServerSection};
pub use models::ModelConfig;
pub use named::AbsentTools;
pub use origin::Origin;
use prices::PriceListConfig;
use read::LoadedSources;
pub use secret::shown_setting;
pub use sections::{AccessLog, ServerConfig, TlsFiles, ToolsConfig};
pub use settings::Setting;
pub use sources::{Sources, template};
pub use store::StoreConfig;
pub use telemetry::{JsonLinesSection, OtlpSection, Pattern, TelemetryConfig};

use crate::approval_key;
use crate::environment::Environment;
use crate::prompts::PromptConfig;
use crate::trust::FolderRules;

/// The effective configuration.
#[derive(Debug, Clone)]
pub struct Config {
    models: BTreeMap<Role, ModelConfig>,
    discovery: DiscoveryConfig,
    driver: DriverConfig,
    store: StoreConfig,
    /// The file with the approval key, if there is one.
    approval_key_file: Option<PathBuf>,
    server: ServerConfig,
    tools: ToolsConfig,
    web: WebConfig,
    mcp: McpConfig,
    telemetry: TelemetryConfig,
    prompts: BTreeMap<String, PromptConfig>,
    project_root: PathBuf,
    policy: Policy,
    price_list: PriceListConfig,
    found: Option<FoundFile>,
    folder_rules: Option<FolderRules>,
    too_wide_root: Option<&'static str>,
    notices: Vec<String>,
    layers: Layers,
    files: Vec<PathBuf>,
}

impl Config {
    /// Merges the sources: the user's own file, then that of the working directory (or instead of both, the one file
    /// that [`Sources`] names), then `NEURAXIS_…` variables, then flags. Each overrides single keys of those before it.
    ///
    /// The file of the working directory may have come with the project. Until a user [trusted](crate::TrustList)
    /// exactly this content, it may only tighten the policy and narrow the folder of the tools. Its other keys are
    /// ignored, and a [notice](Self::notices) lists them; nothing in it is an error. None of this applies to a file
    /// that [`Sources`] names.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names file, line and column, or the variable or flag, with the key that was most likely
    /// meant.
    pub fn load(environment: &Environment, sources: &Sources) -> Result<Self, ConfigError> {
        let LoadedSources {
            layers,
            providers,
            mut files,
            mut found,
            untrusted,
        } = read::read_all(environment, sources)?;
        let (mut layers, mut ignored) = match untrusted {
            Some(project) => layers.with_untrusted(project, environment),
            None => (layers, Vec::new()),
        };
        let stored_rules = layers.add_folder_rules(environment, sources)?;
        let mut sections = layers.sections()?;
        named::check_roles(&sections, &layers)?;
        named::check_prompts(&sections, &layers)?;
        let models = layers.models(environment, &sections.models, &providers)?;
        addresses::check_keys(&models, &layers)?;
        web::check_key(&layers)?;
        telemetry::check_key(&layers, environment)?;
        let mcp = std::mem::take(&mut sections.mcp).checked(&layers, environment)?;
        let mut policy = sections.take_policy();
        answers::inline_schemas(&mut policy, &layers, environment)?;
        let policy = layers.policy(policy)?;
        let (policy, loosening) = layers.tightened(policy);
        let price_list = sections.price_list.resolved(&layers, environment);
        let policy = price_list.applied(policy, &layers, found.as_ref())?;
        ignored.extend(loosening);
        if let Some(found) = &mut found {
            found.add_changes(ignored);
        }
        let unused = named::check_use(models.keys(), &policy, &layers)?;
        named::check_plan(&sections.server, &policy, &layers)?;
        named::check_modes(&sections.server, &policy, &layers)?;
        let tls = sections.server.tls.take();
        sections.server.tls = tls.map(|files| files.resolved(&layers, environment));
        let telemetry = sections.telemetry.resolved(&layers, environment);
        let project_root = layers.project_root(environment, &sections.tools);
        let too_wide_root = layers.too_wide_root(environment, &project_root);
        let mut notices = Vec::from_iter(found.as_ref().and_then(FoundFile::notice));
        notices.extend(stored_rules.notice);
        notices.extend(layers.retired());
        notices.extend(unused);
        notices.extend(addresses::unprotected(&models, &layers));
        notices.extend(web::unprotected(&sections.web, &layers));
        notices.extend(prices::notices(&models, &policy, &layers));
        notices.extend(too_wide_root.map(|what| project::not_offered(&project_root, what)));
        let store = sections.store.in_place(environment);
        let approval_key_file = approval_key::shown_file(&store, environment);
        let read_rules = stored_rules.rules.iter().filter(|_| stored_rules.are_read);
        files.extend(read_rules.map(|rules| rules.file().to_owned()));
        Ok(Self {
            models,
            server: sections.server,
            web: sections.web,
            mcp,
            telemetry,
            prompts: sections.prompts,
            discovery: sections.discovery,
            driver: sections.driver,
            store,
            approval_key_file,
            tools: sections.tools,
            project_root,
            policy,
            price_list,
            found,
            folder_rules: stored_rules.rules,
            too_wide_root,
            notices,
            layers,
            files,
        })
    }

    /// Returns the section `[models.ROLE]`.
    #[must_use]
    pub const fn models(&self) -> &BTreeMap<Role, ModelConfig> {
        &self.models
    }

    /// Returns the section `[discovery]`.
    #[must_use]
    pub const fn discovery(&self) -> &DiscoveryConfig {
        &self.discovery
    }

    /// Returns the sections `[prompts.NAME]`. Files in the user's configuration folder can also be prompts:
    /// [`Prompts`](crate::Prompts).
    #[must_use]
    pub const fn prompts(&self) -> &BTreeMap<String, PromptConfig> {
        &self.prompts
    }

    /// Returns the section `[store]`.
    #[must_use]
    pub const fn store(&self) -> &StoreConfig {
        &self.store
    }

    /// Returns the section `[server]`.
    #[must_use]
    pub const fn server(&self) -> &ServerConfig {
        &self.server
    }

    /// Returns the section `[tools]`.
    #[must_use]
    pub const fn tools(&self) -> &ToolsConfig {
        &self.tools
    }

    /// Returns the section `[mcp]`.
    #[must_use]
    pub const fn mcp(&self) -> &McpConfig {
        &self.mcp
    }

    /// Returns where the section of an MCP server is written.
    #[must_use]
    pub fn mcp_origin(&self, name: &str) -> Origin {
        mcp::origin_of(&self.layers, name)
    }

    /// Returns the folder that the file tools are confined to.
    #[must_use]
    pub fn project_root(&self) -> &Path {
        &self.project_root
    }

    /// Returns whether the tools that work in [that folder](Self::project_root) are offered. They are not if the folder
    /// contains everything of the user or of the machine, unless a variable or a flag names it.
    #[must_use]
    pub const fn offers_project_tools(&self) -> bool {
        self.too_wide_root.is_none()
    }

    /// Returns why they are not [offered](Self::offers_project_tools), and how to change that.
    #[must_use]
    pub fn why_no_project_tools(&self) -> Option<String> {
        let what = self.too_wide_root?;
        Some(project::not_offered(&self.project_root, what))
    }

    /// Returns the file that was found in the working directory, and how much of it applies; `None` if there is none,
    /// or if [`Sources`] name a file.
    #[must_use]
    pub const fn found(&self) -> Option<&FoundFile> {
        self.found.as_ref()
    }

    /// Returns the rules that the user allowed for the folder of the tools by answering a question, and where more of
    /// them can be kept. `None` if such rules do not apply: if the [`Sources`] do not enable them or name a file, or if
    /// the user has no data folder.
    #[must_use]
    pub const fn folder_rules(&self) -> Option<&FolderRules> {
        self.folder_rules.as_ref()
    }

    /// Returns the policy that results from the policy sections, such as `[modes]`, `[channels]` and `[plans]`.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns notices about models without a known price although money is limited, and about prices of providers that
    /// do not exist. They are also among the [notices](Self::notices).
    #[must_use]
    pub fn price_notices(&self) -> Vec<String> {
        prices::notices(&self.models, &self.policy, &self.layers)
    }

    /// Checks that the tool names in the policy are among `tools`. Returns notices about names that match nothing now,
    /// a sentence each.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] with the location of a name that is most likely a typo, and the tool that was meant.
    pub fn check_tools(&self, tools: &[ToolName]) -> Result<Vec<String>, ConfigError> {
        named::check_tools(&self.policy, &self.layers, &self.mcp, tools)
    }

    /// Checks that no agent which others may call has the same name as one of these tools, none of which may start
    /// agents.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] with the location of the agent's name, or of its `tool_name`.
    pub fn check_agents(&self, tools: &[ToolName]) -> Result<(), ConfigError> {
        named::check_agents(&self.policy, &self.layers, tools)
    }

    /// Returns all names in the policy that match none of these tools, instead of stopping at the first.
    #[must_use]
    pub fn absent_tools(&self, tools: &[ToolName]) -> AbsentTools {
        named::absent_tools(&self.policy, &self.layers, &self.mcp, tools)
    }

    /// Returns notices about where the configuration comes from, a sentence each.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns the files that were read, the weakest first.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns where the value of a key, given by its dotted path, comes from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.layers.origin(key)
    }

    /// Returns where the value of a key comes from, or else the nearest table around it that is set.
    pub(crate) fn origin_around(&self, key: &str) -> Origin {
        self.layers.origin_around(key)
    }
}

#[cfg(test)]
mod tests;
