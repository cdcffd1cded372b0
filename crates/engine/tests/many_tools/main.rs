//! A user with 25 servers of 20 tools each: what requests contain, what is found, and that neither changes which tools
//! may be called.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

mod finding;
mod going_on;
mod requests;
mod services;
mod support;
