//! The store on both databases.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod bounds;
mod faults;
mod fencing;
mod file;
mod killed;
mod postgres_conformance;
mod postgres_faults;
mod restarts;
mod sqlite_conformance;
mod support;
mod tampering;
