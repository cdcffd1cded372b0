//! Rules as a provider that a configuration can name.

use std::path::PathBuf;
use std::time::Duration;

use neuraxis_core::LlmError;
use neuraxis_ports::{
    ConnectContext, ConnectError, Connection, LlmClient, ModelSource, Offer, Provider,
    ProviderKind, async_trait,
};
use serde::{Deserialize, Serialize};

use crate::model::{OfflineModel, PROVIDER};

/// The table of rules: it has no keys but those that every table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OfflineConfig {}

impl Provider for OfflineConfig {
    const NAME: &'static str = PROVIDER;
    const KIND: ProviderKind = ProviderKind::StandIn("rules answer, not a model");

    fn base_url(&self) -> Option<&str> {
        None
    }

    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        None
    }

    fn connect(self, _ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError> {
        Ok(Connection::new(OfflineModel::new()))
    }
}

#[async_trait]
impl ModelSource for OfflineModel {
    async fn offer(&self, _within: Duration) -> Result<Offer, LlmError> {
        Ok(Offer::new(vec![self.info().model.model.to_string()]))
    }
}
