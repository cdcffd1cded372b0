//! The section `uptime`.

use serde::Serialize;

use crate::health::report::Findings;
use crate::wording::duration;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::health) struct Uptime {
    pub(in crate::health) seconds: u64,
    pub(in crate::health) booted_at_unix_seconds: u64,
}

impl Findings for Uptime {
    fn summary(&self) -> String {
        duration(self.seconds)
    }
}
