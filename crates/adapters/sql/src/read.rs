//! Reads, which bypass the writer: each is one statement, or several over data that no longer changes.

pub(crate) mod history;
pub(crate) mod outputs;
#[cfg(test)]
mod plans;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod session_lists;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod usage;
pub(crate) mod verify;
