//! The tools as a model calls them, against sites and services on loopback.

mod bounds;
mod documents;
mod guard;
mod polite;
mod search;
mod support;
