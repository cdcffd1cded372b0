//! Why an engine could not be built.

use std::path::PathBuf;

use neuraxis_cassette::CassetteError;
use neuraxis_core::InvalidId;
use neuraxis_restate::ConfigFault;
use neuraxis_sql::OpenError;
use neuraxis_tools::{DefinitionError, ProjectError};

use crate::approval_key::ApprovalKeyError;
use crate::config::{ConfigError, Origin};
use crate::discover::ModelError;
use crate::store::STORES;
use crate::telemetry::TelemetryError;
use crate::web::SearchError;

/// Why an engine could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A model cannot serve.
    #[error("{at:#}: {fault}")]
    Model {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with its key, its address or its table.
        fault: ModelError,
    },
    /// This build does not support such a store.
    #[error("{at:#}: store.url: {}; supported: {STORES}", unsupported(scheme.as_deref()))]
    Store {
        /// Where it is configured.
        at: Origin,
        /// The URL's scheme, if it has one.
        scheme: Option<String>,
    },
    /// The folder of the database file does not exist, and only the user should create it.
    #[error("{at:#}: store.url: there is no folder {}", folder.display())]
    StoreFolder {
        /// Where it is configured.
        at: Origin,
        /// The folder.
        folder: PathBuf,
    },
    /// The database cannot be opened.
    #[error(
        "{at:#}: store.url: the database cannot be opened{}",
        other_file(source)
    )]
    Database {
        /// Where it is configured.
        at: Origin,
        /// The error of the database or the operating system.
        source: OpenError,
    },
    /// There is no key that makes approvals valid.
    #[error("{at:#}: store.approval_key_file: approvals need a key")]
    ApprovalKey {
        /// Where it is configured.
        at: Origin,
        /// Why there is none.
        source: ApprovalKeyError,
    },
    /// The database can be opened, but not now: another process has locked it, or the disk is full.
    #[error("{at:#}: store.url: the database cannot be opened now")]
    DatabaseBusy {
        /// Where it is configured.
        at: Origin,
        /// Whether it is locked or out of space.
        source: OpenError,
    },
    /// The folder for the copy of the log cannot be written.
    #[error("{at:#}: store.log.folder: the log cannot be copied there; name another folder")]
    LogCopy {
        /// Where it is configured.
        at: Origin,
        /// The error of the operating system.
        source: OpenError,
    },
    /// The file tools have no folder.
    #[error("{at:#}: tools.root cannot be used")]
    ProjectRoot {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with the folder.
        source: ProjectError,
    },
    /// The driver of runs cannot be used.
    #[error("{at:#}: {fault}")]
    Driver {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with it.
        fault: Box<ConfigFault>,
    },
    /// Other processes should drive the runs, but only this process knows them.
    #[error(
        "{at:#}: driver.kind: workers resume runs from a shared store, but memory: is private to this process; set \
         store.url"
    )]
    NothingShared {
        /// Where it is configured.
        at: Origin,
    },
    /// The web search cannot be used.
    #[error("{at:#}: {fault}")]
    Search {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with it.
        fault: SearchError,
    },
    /// A web tool is not defined correctly.
    #[error(transparent)]
    WebTool(#[from] InvalidId),
    /// The policy names tools that do not exist.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A built-in tool is not defined correctly.
    #[error(transparent)]
    Tool(#[from] DefinitionError),
    /// Traces cannot be sent where the configuration says.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The recording cannot be created or replayed.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    /// The recording is empty.
    #[error("{} holds no recordings", file.display())]
    EmptyCassette {
        /// The file.
        file: PathBuf,
    },
    /// The engine rejects its parts.
    #[error(transparent)]
    Engine(#[from] neuraxis_engine::BuildError),
}

/// Returns a suggestion for another file if a file cannot be used. If the problem is a server, the content, or the
/// owner of a file, that is no reason to keep sessions elsewhere.
const fn other_file(error: &OpenError) -> &'static str {
    match error {
        OpenError::File { .. } | OpenError::Foreign { .. } => {
            "; set store.url to another file, or to memory: to store nothing"
        }
        _ => "",
    }
}

fn unsupported(scheme: Option<&str>) -> String {
    match scheme {
        Some("memory") => "a store in memory has no address".to_owned(),
        Some(scheme) => format!("this build has no store for {scheme}:"),
        None => "not a URL".to_owned(),
    }
}
