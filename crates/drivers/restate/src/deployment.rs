//! What Restate tells of workers: at which addresses they are, and what it found there.

use std::collections::BTreeMap;

use neuraxis_core::jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;

/// The metadata in which an address of workers keeps when it was registered first.
pub(crate) const FIRST: &str = "neuraxis-first";

/// The metadata in which workers say of which build they are.
pub(crate) const BUILD: &str = "neuraxis-build";

/// An address of workers that Restate knows.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Deployment {
    pub(crate) id: String,
    /// Where Restate reaches it; empty for what is no HTTP endpoint, which workers are not.
    #[serde(default)]
    pub(crate) uri: String,
    created_at: Timestamp,
    #[serde(default)]
    metadata: Option<Metadata>,
}

/// What was said of an address when it was registered last.
#[derive(Debug, Clone, Default, Deserialize)]
struct Metadata {
    #[serde(rename = "neuraxis-first")]
    first: Option<Timestamp>,
}

/// The addresses of workers that Restate knows, in no order.
#[derive(Debug, Deserialize)]
pub(crate) struct Deployments {
    pub(crate) deployments: Vec<Deployment>,
}

/// What workers offer, as Restate found it when they were registered last.
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
    /// Tells whether it is the one at an address, however that is written.
    pub(crate) fn is_at(&self, address: &str) -> bool {
        let parsed = |text: &str| Url::parse(text).ok();
        self.uri == address || (parsed(&self.uri).is_some() && parsed(&self.uri) == parsed(address))
    }

    /// Returns when its address was registered first, however often that was repeated.
    pub(crate) fn first(&self) -> Timestamp {
        let first = self.metadata.as_ref().and_then(|it| it.first);
        first.unwrap_or(self.created_at)
    }
}

impl Service {
    /// Returns the build that they said they are; empty for builds that did not say so.
    pub(crate) fn build(&self) -> String {
        let build = self.metadata.as_ref().and_then(|it| it.get(BUILD));
        build.cloned().unwrap_or_default()
    }
}
