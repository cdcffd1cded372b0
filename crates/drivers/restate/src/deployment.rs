//! What Restate reports about workers: their addresses, and what it found there.

use std::collections::BTreeMap;

use neuraxis_core::jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;

/// The metadata key for the time at which an address of workers was first registered.
pub(crate) const FIRST: &str = "neuraxis-first";

/// The metadata key for the build that workers report.
pub(crate) const BUILD: &str = "neuraxis-build";

/// An address of workers that is registered with Restate.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Deployment {
    pub(crate) id: String,
    /// Its URI for Restate; empty for anything other than an HTTP endpoint, which workers never are.
    #[serde(default)]
    pub(crate) uri: String,
    created_at: Timestamp,
    #[serde(default)]
    metadata: Option<Metadata>,
}

/// The metadata of an address from its last registration.
#[derive(Debug, Clone, Default, Deserialize)]
struct Metadata {
    #[serde(rename = "neuraxis-first")]
    first: Option<Timestamp>,
}

/// The addresses of workers that are registered with Restate, in no particular order.
#[derive(Debug, Deserialize)]
pub(crate) struct Deployments {
    pub(crate) deployments: Vec<Deployment>,
}

/// What workers offered when they were last registered.
#[derive(Debug, Deserialize)]
pub(crate) struct Service {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) deployment_id: String,
    pub(crate) revision: u64,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

/// What workers offered when they were asked just now.
#[derive(Debug, Deserialize)]
pub(crate) struct Discovered {
    pub(crate) services: Vec<Service>,
}

impl Deployment {
    /// Returns `true` if this is the deployment at an address, regardless of how the address is written.
    pub(crate) fn is_at(&self, address: &str) -> bool {
        let parsed = |text: &str| Url::parse(text).ok();
        self.uri == address || (parsed(&self.uri).is_some() && parsed(&self.uri) == parsed(address))
    }

    /// Returns when its address was first registered, however often it was registered again.
    pub(crate) fn first(&self) -> Timestamp {
        let first = self.metadata.as_ref().and_then(|it| it.first);
        first.unwrap_or(self.created_at)
    }
}

impl Service {
    /// Returns the build that the workers reported; empty for builds that do not report one.
    pub(crate) fn build(&self) -> String {
        let build = self.metadata.as_ref().and_then(|it| it.get(BUILD));
        build.cloned().unwrap_or_default()
    }
}
