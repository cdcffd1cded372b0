//! A recording as a provider that a configuration can name.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use neuraxis_core::LlmError;
use neuraxis_ports::{
    ConnectContext, ConnectError, Connection, LlmClient, ModelSource, OfferedModels, Provider,
    ProviderKind, Secret, async_trait,
};

use crate::{Cassette, CassetteClient, CassetteConfig, CassetteError, Redactor};

/// The recordings that one configuration replays. Roles that name the same recording share it, including which
/// exchanges were played.
#[derive(Debug, Default)]
pub struct OpenCassettes {
    open: Mutex<Vec<(CassetteConfig, Cassette)>>,
    redactor: OnceLock<Redactor>,
}

impl OpenCassettes {
    /// Sets an additional redactor for recordings opened from now on: it removes secrets from requests, in addition to
    /// those in the connection's context. The recordings were made without these secrets, and could not match a request
    /// that contains one. Only the first call has an effect.
    pub fn redact(&self, redactor: Redactor) {
        let _ = self.redactor.set(redactor);
    }

    /// Returns all of them, in the order in which they were opened.
    #[must_use]
    pub fn all(&self) -> Vec<Cassette> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().map(|(_, cassette)| cassette.clone()).collect()
    }

    fn open(&self, config: CassetteConfig, secrets: &[Secret]) -> Result<Cassette, CassetteError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cassette)) = open.iter().find(|(other, _)| *other == config) {
            return Ok(cassette.clone());
        }
        let besides = self.redactor.get().cloned().unwrap_or_default();
        let redactor = Redactor::new(secrets.iter().map(Secret::expose)).and(besides);
        let cassette = Cassette::open(&config, redactor)?;
        open.push((config, cassette.clone()));
        Ok(cassette)
    }
}

impl Provider for CassetteConfig {
    const NAME: &'static str = "cassette";
    const KIND: ProviderKind =
        ProviderKind::StandIn("a recording can only answer recorded requests");

    fn base_url(&self) -> Option<&str> {
        None
    }

    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        Some(("file", &mut self.file))
    }

    fn connect(self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError> {
        let open = ctx.shared.get::<OpenCassettes>();
        let cassette = open.open(self, ctx.secrets);
        let cassette = cassette.map_err(|error| ConnectError::new("file", error))?;
        Ok(Connection::new(cassette.client(ctx.role.clone())))
    }
}

#[async_trait]
impl ModelSource for CassetteClient {
    async fn offer(&self, _within: Duration) -> Result<OfferedModels, LlmError> {
        let info = self.info();
        let mut offer = OfferedModels::new(vec![info.model.model.to_string()]);
        offer.context_tokens = info.context_tokens;
        Ok(offer)
    }
}
