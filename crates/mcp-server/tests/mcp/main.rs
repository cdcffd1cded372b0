//! The official client against the server, in both eras of the protocol.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot set up its world has to fail"
)]

mod approvals;
mod endings;
mod http;
mod lines;
mod questions;
mod sessions;
mod support;
mod tools;
