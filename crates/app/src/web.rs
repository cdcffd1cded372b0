//! The web tools, configured by the section `[web]`.

use std::sync::Arc;

use neuraxis_ports::{Secret, Tool, WebSearch};
use neuraxis_web::{SearchConfigError, web_fetch, web_search};

use crate::app::BuildError;
use crate::config::Config;
use crate::config::secret::shown_variable;
use crate::discover::in_variable;
use crate::environment::Environment;

/// The tool that always exists.
pub(crate) const FETCH: &str = "web_fetch";

/// The tool that exists only if a service is configured. Rules may name it anyway.
pub(crate) const SEARCH: &str = "web_search";

/// Why the configured search cannot be used. Never contains the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A setting of the section is missing or invalid.
    #[error("web.search: {0}")]
    Config(#[from] SearchConfigError),
    /// The variable of the key is not set, or is empty.
    #[error(
        "web.search: the environment variable {variable} that api_key_env names is not set or is empty; export it first"
    )]
    NoVariable {
        /// The variable.
        variable: String,
    },
}

impl SearchError {
    /// Returns the dotted path of the faulty key.
    fn key(&self) -> String {
        let key = match self {
            Self::Config(error) => error.key(),
            Self::NoVariable { .. } => "api_key_env",
        };
        format!("web.search.{key}")
    }
}

/// Returns the service that `web_search` uses; `None` if none is configured.
///
/// # Errors
///
/// [`BuildError::Search`] if a setting is missing or invalid.
pub fn search_service(
    config: &Config,
    environment: &Environment,
) -> Result<Option<Arc<dyn WebSearch>>, BuildError> {
    let search = &config.web().search;
    if !search.is_configured() {
        return Ok(None);
    }
    let connected = key(config, environment).and_then(|key| Ok(search.connect(key)?));
    let connected = connected.map_err(|fault| BuildError::Search {
        at: config.origin_around(&fault.key()),
        fault,
    });
    connected.map(Some)
}

/// Reads the key of the service, if the configuration names one.
fn key(config: &Config, environment: &Environment) -> Result<Option<Secret>, SearchError> {
    let Some(variable) = &config.web().search.api_key_env else {
        return Ok(None);
    };
    let missing = || SearchError::NoVariable {
        variable: shown_variable(variable).to_owned(),
    };
    let key = in_variable(variable, environment).ok_or_else(missing)?;
    Ok(Some(key))
}

/// Returns the key of the service, for redaction.
pub(crate) fn secret(config: &Config, environment: &Environment) -> Option<Secret> {
    key(config, environment).ok().flatten()
}

/// Returns the tools.
pub(crate) fn tools(
    config: &Config,
    environment: &Environment,
) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    let mut tools = vec![web_fetch(config.web())?];
    if let Some(service) = search_service(config, environment)? {
        tools.push(web_search(service)?);
    }
    Ok(tools)
}
