//! Merges configuration and wires an engine; shared by the binaries.
//!
//! **For** the programs of this workspace: [`Config`] is merged from files, variables and flags, each value with its
//! [`Origin`]; [`App`] is an engine with the models, the tools, the policy and the store that the configuration names.
//!
//! **Not for** deciding anything about requests, and not for terminals or sockets: this crate only reads configuration
//! and assembles the parts. Only [`Environment::of_process`] reads the state of the process, and only [`start_runtime`]
//! changes it.
//!
//! ```
//! use neuraxis_app::{App, Config, Environment, Origin, Sources};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::new(std::env::temp_dir())
//!     .with_variable("NEURAXIS_DISCOVERY__LOCAL_SERVERS", "false")
//!     .with_variable("NEURAXIS_STORE__URL", "memory:")
//!     .with_variable("NEURAXIS_MODES__MODERATE__MAX_TURNS", "5");
//! let config = Config::load(&environment, &Sources::default())?;
//! let origin = config.origin("modes.moderate.max_turns");
//! assert_eq!(origin, Origin::Variable("NEURAXIS_MODES__MODERATE__MAX_TURNS".into()));
//!
//! let app = App::builder(&config, &environment).build().await?;
//! assert_eq!(app.notices.len(), 1, "no model is configured");
//! # Ok(())
//! # }
//! ```

mod app;
mod approval_key;
mod candidates;
mod commands;
mod config;
mod discover;
mod environment;
mod instructions;
mod mcp;
mod model_choice;
mod names;
mod private_file;
mod prompts;
mod providers;
mod recordings;
mod secrecy;
mod server_keys;
mod server_token;
mod start;
mod store;
mod telemetry;
mod trust;
mod web;

pub use app::{
    App, AppBuilder, BuildError, folder_warnings, hidden_store_warning, is_project_tool,
    may_be_tool, no_store_warning, tool_names, tool_specs,
};
pub use approval_key::{ApprovalKeyError, ApprovalKeyPlace, approval_key_place};
pub use candidates::{Candidate, candidates};
pub use commands::{command_availability, why_no_commands};
pub use config::{
    AbsentTools, AccessLog, Change, Config, ConfigError, DiscoveryConfig, DriverConfig, DriverKind,
    Fault, FoundFile, JsonLinesSection, McpConfig, McpFault, McpServerSection, ModelConfig, Origin,
    OtlpSection, Pattern, ServerConfig, Setting, Sources, StoreConfig, TelemetryConfig, TlsFiles,
    ToolsConfig, shown_setting, template, usual_key_variables,
};
pub use discover::{
    Choice, Discovery, Endpoint, FoundKey, KeyError, KeySource, LocalServer, ModelError, Obstacle,
    SkippedServer, UnnamedModel, discover, secrets_of,
};
pub use environment::Environment;
pub use instructions::{InstructionFile, holds_instructions, instruction_files, instructions_of};
pub use mcp::start_mcp_server;
pub use model_choice::{ModelChoice, UnknownModel, choose_model};
pub use names::names_tilde;
pub use neuraxis_cassette::Redactor;
pub use neuraxis_mcp::{McpServer, OfferStatus, ReportedTool, ServerNotice, ServerReport};
pub use neuraxis_ports::{ConnectError, OfferedModels, ProviderKind, Readiness};
pub use neuraxis_restate::{AdminError, Registered, Restate, Worker, WorkerError};
pub use neuraxis_sql::{Contents, OpenError};
pub use neuraxis_tools::{CommandAvailability, Commands};
pub use neuraxis_web::{SearchConfig, WebConfig};
pub use private_file::make_folder as make_private_folder;
pub use prompts::{PromptConfig, Prompts};
pub use providers::{Provider, ProviderConfig};
pub use recordings::{CassetteUse, Recordings, secrets_notice};
pub use secrecy::{register_secrets, without_secrets};
pub use server_keys::{Scope, ServerKey, ServerKeyFile, ServerKeysError, UnknownScope};
pub use server_token::{ServerToken, ServerTokenError};
pub use start::{StartError, start_runtime};
pub use store::{OpenStore, SCHEMA_MODULE};
pub use telemetry::{OtlpEndpoint, Telemetry, TelemetryError, TraceDestination};
pub use trust::{FileLock, FolderRules, Forgotten, PinFile, Trust, TrustError, TrustList};
pub use web::{SearchError, search_service};
