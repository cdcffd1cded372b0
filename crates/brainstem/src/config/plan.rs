//! `[plans.NAME]`: limits that a key or a user has.

use serde::{Deserialize, Serialize};

use super::section::section_with_limits;

section_with_limits! {
    /// `[plans.NAME]`: limits that a key or a user has. They can only tighten those of mode and channel.
    pub struct PlanConfig {}
}
