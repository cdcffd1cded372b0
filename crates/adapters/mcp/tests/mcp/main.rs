//! Servers of other people, as they are and as they may be: what each can do to those who use it.
#![cfg(unix)]

mod hostile;
mod life;
mod questions;
mod real;
mod support;
