//! Wires an engine as the configuration says.

use std::sync::Arc;

use neuraxis_engine::{Orchestrator, SystemClock};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{SessionStore, Tool};
use neuraxis_tools::{DefinitionError, ProjectError};

use crate::config::{Config, Origin};
use crate::discover::{ModelError, discover};
use crate::environment::Environment;
use crate::names::shown;

/// The schemes of the stores that this build has.
const STORES: &str = "memory:";

/// An engine, ready for requests.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct App {
    /// The engine.
    pub orchestrator: Orchestrator,
    /// What a user should know before the first answer, a sentence each.
    pub notices: Vec<String>,
}

impl App {
    /// Wires an engine.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the place of the value that cannot be used, and what can.
    pub async fn build(config: &Config, environment: &Environment) -> Result<Self, BuildError> {
        let discovery = discover(config.models(), config.discovery(), environment)
            .await
            .map_err(|fault| {
                let at = config.origin(&fault.key());
                BuildError::Model { at, fault }
            })?;
        let notice = discovery.choice.notice();
        let builder = Orchestrator::builder()
            .policy(config.policy().clone())
            .store(store(config)?)
            .tools(tools(config)?);
        let models = discovery.models.into_iter();
        let builder = models.fold(builder, |builder, (role, client)| {
            builder.model(role, client)
        });
        Ok(Self {
            orchestrator: builder.build()?,
            notices: notice.into_iter().collect(),
        })
    }
}

fn store(config: &Config) -> Result<Arc<dyn SessionStore>, BuildError> {
    let url = &config.store().url;
    if url == "memory:" {
        return Ok(Arc::new(MemoryStore::new()));
    }
    // No more than the scheme is repeated: the rest may hold a password.
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    Err(BuildError::Store {
        at: config.origin("store.url"),
        scheme: scheme.map(shown),
    })
}

fn tools(config: &Config) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    let mut tools = neuraxis_tools::built_in(Arc::new(SystemClock))?;
    let files = neuraxis_tools::project_files(config.project_root());
    tools.extend(files.map_err(|source| BuildError::ProjectRoot {
        at: config.origin("tools.root"),
        source,
    })?);
    Ok(tools)
}

/// Why no engine could be wired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A model cannot serve.
    #[error("{at:#}: {fault}")]
    Model {
        /// Where it is configured.
        at: Origin,
        /// Why not.
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
    /// The file tools have no folder.
    #[error("{at:#}: tools.root cannot be used")]
    ProjectRoot {
        /// Where it is configured.
        at: Origin,
        /// Why not.
        source: ProjectError,
    },
    /// A built-in tool is not defined as it should be.
    #[error(transparent)]
    Tool(#[from] DefinitionError),
    /// The engine refuses its parts.
    #[error(transparent)]
    Engine(#[from] neuraxis_engine::BuildError),
}

fn unsupported(scheme: Option<&str>) -> String {
    match scheme {
        Some("memory") => "a store in memory has no address".to_owned(),
        Some(scheme) => format!("this build has no store for {scheme}:"),
        None => "not a URL".to_owned(),
    }
}
