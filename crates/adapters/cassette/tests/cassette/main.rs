//! Recording and replaying, from an embedder's point of view.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a recording that is not what the test made is a broken test and must stop at once"
)]

mod conformance;
mod damage;
mod file_format;
mod from_run;
mod limits;
mod matching;
mod recorder;
mod redaction;
mod round_trip;
mod speed;
mod support;
