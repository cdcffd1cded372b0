//! A user with 25 servers of 20 tools each: what requests hold, what is found, and that neither changes what may be called.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

mod finding;
mod going_on;
mod requests;
mod services;
mod support;
