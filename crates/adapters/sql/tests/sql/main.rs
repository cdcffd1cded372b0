//! The store on both databases.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod sqlite_conformance;
mod support;
