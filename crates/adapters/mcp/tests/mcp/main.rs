//! Third-party servers, as they are and as they may be: what each can do to its users.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot set up its world has to fail"
)]

mod hostile;
mod hostile_http;
mod life;
mod messages;
mod pins;
mod questions;
mod real;
mod renewal;
mod secrets;
mod service;
mod support;
