//! Why no engine could be wired.

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

/// Why no engine could be wired.
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
    /// This build has no such store.
    #[error("{at:#}: store.url: {}; supported: {STORES}", unsupported(scheme.as_deref()))]
    Store {
        /// Where it is configured.
        at: Origin,
        /// The URL's scheme, if it has one.
        scheme: Option<String>,
    },
    /// The folder of the database's file is not there, and nobody but the user should make it.
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
        /// What the database, or the operating system, said.
        source: OpenError,
    },
    /// There is no key by which approvals count.
    #[error("{at:#}: store.approval_key_file: approvals need a key")]
    ApprovalKey {
        /// Where it is configured.
        at: Origin,
        /// Why there is none.
        source: ApprovalKeyError,
    },
    /// The database would open, but not now: another process keeps it locked, or the disk is full.
    #[error("{at:#}: store.url: the database cannot be opened now")]
    DatabaseBusy {
        /// Where it is configured.
        at: Origin,
        /// Whether it is locked or has no room.
        source: OpenError,
    },
    /// The folder that the log is to be copied to cannot be written.
    #[error("{at:#}: store.log.folder: the log cannot be copied there; name another folder")]
    LogCopy {
        /// Where it is configured.
        at: Origin,
        /// What the operating system said.
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
    /// What drives runs cannot be used.
    #[error("{at:#}: {fault}")]
    Driver {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with it.
        fault: Box<ConfigFault>,
    },
    /// Other processes are to drive runs that this one alone knows of.
    #[error(
        "{at:#}: driver.kind: workers take runs up from a store that they share, and memory: is this process's own; set store.url"
    )]
    NothingShared {
        /// Where it is configured.
        at: Origin,
    },
    /// The search of the web cannot be used.
    #[error("{at:#}: {fault}")]
    Search {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with it.
        fault: SearchError,
    },
    /// A tool of the web is not defined as it should be.
    #[error(transparent)]
    WebTool(#[from] InvalidId),
    /// The policy names tools that there are not.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A built-in tool is not defined as it should be.
    #[error(transparent)]
    Tool(#[from] DefinitionError),
    /// Traces cannot go where the configuration says.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The recording cannot be made or replayed.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    /// The recording is one of nothing.
    #[error("{} holds no recordings", file.display())]
    EmptyCassette {
        /// The file.
        file: PathBuf,
    },
    /// The engine refuses its parts.
    #[error(transparent)]
    Engine(#[from] neuraxis_engine::BuildError),
}

/// Says what else can be used where a file cannot. What is wrong with a server, or with what is kept, is no reason to keep it elsewhere;
/// nor is whose a file is.
const fn other_file(error: &OpenError) -> &'static str {
    match error {
        OpenError::File { .. } | OpenError::Foreign { .. } => {
            "; set store.url to another file, or to memory: to keep nothing"
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
