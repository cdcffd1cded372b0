//! The models that answer: configured ones, discovered ones, or a recording of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use neuraxis_cassette::{Cassette, CassetteConfig};
use neuraxis_core::Role;
use neuraxis_engine::SystemClock;
use neuraxis_ports::{Clock, LlmClient};

use super::BuildError;
use crate::config::Config;
use crate::discover::{discover, secrets_of};
use crate::environment::Environment;
use crate::providers::Provider;
use crate::recordings::Recordings;
use crate::secrecy::redacting;

/// The models that answer, by the roles they serve.
pub(super) struct Models {
    pub(super) clients: Vec<(Role, Arc<dyn LlmClient>)>,
    /// Their addresses, without potential secrets.
    pub(super) addresses: BTreeMap<Role, String>,
    pub(super) notices: Vec<String>,
    pub(super) recordings: Recordings,
}

/// Discovers the models that answer, and records them on request.
pub(super) async fn discovered(
    config: &Config,
    environment: &Environment,
    file: Option<PathBuf>,
) -> Result<Models, BuildError> {
    let discovery = discover(config, environment).await;
    let mut notices = Vec::from_iter(discovery.notices());
    let mut recordings = Recordings::replaying(discovery.cassettes);
    let mut addresses = BTreeMap::new();
    let endpoints = discovery.endpoints.into_iter();
    let endpoints: Vec<_> = endpoints
        .map(|(role, endpoint)| {
            let endpoint = endpoint.map_err(|fault| BuildError::Model {
                at: fault.origin(config),
                fault,
            })?;
            // The user who configured it may not remember that it is not a model.
            if endpoint.provider() == Provider::of::<CassetteConfig>() {
                let notice = endpoint.info().notice.into_iter();
                notices.extend(notice.map(|notice| format!("{role}: {notice}")));
            }
            if let Some(address) = &endpoint.address {
                addresses.insert(role.clone(), address.clone());
            }
            Ok((role, endpoint.client()))
        })
        .collect::<Result<_, BuildError>>()?;
    let secrets = secrets_of(config, environment);
    if let Some(file) = file {
        let file = environment.working_dir().join(file);
        recordings.record(file, SystemClock.now(), secrets.clone())?;
    }
    let models = endpoints.into_iter();
    let models = models.map(|(role, client)| {
        let client = recordings.wrap(&role, redacting(client, &secrets));
        (role, client)
    });
    Ok(Models {
        clients: models.collect(),
        addresses,
        notices,
        recordings,
    })
}

/// Lets a recording answer.
pub(super) fn replayed(
    config: &Config,
    environment: &Environment,
    recorded: &CassetteConfig,
) -> Result<Models, BuildError> {
    let redactor = secrets_of(config, environment);
    let cassette = Cassette::open(recorded, redactor)?;
    let models = cassette.roles().into_iter().map(|role| {
        let client: Arc<dyn LlmClient> = Arc::new(cassette.client(role.clone()));
        (role, client)
    });
    let clients: Vec<_> = models.collect();
    if clients.is_empty() {
        return Err(BuildError::EmptyCassette {
            file: recorded.file.clone(),
        });
    }
    let file = recorded.file.display();
    Ok(Models {
        clients,
        addresses: BTreeMap::new(),
        notices: vec![format!("replaying {file}: no model is asked")],
        recordings: Recordings::replaying(vec![cassette]),
    })
}
