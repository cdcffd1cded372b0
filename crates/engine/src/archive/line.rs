//! The lines of an archive.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{ContentHash, SessionId, Transcript};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A line as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Written {
    /// A session begins.
    Session {
        format: u32,
        id: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
        created_at: Timestamp,
        #[serde(default, skip_serializing_if = "Transcript::is_empty")]
        seed: Transcript,
        head: ContentHash,
    },
    /// The session ends.
    SessionEnd {
        runs: u64,
        records: u64,
        head: ContentHash,
    },
}

/// A line with a record. Beside the others, since a tagged enum would not keep the record's bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) head: ContentHash,
    #[serde(borrow)]
    pub(super) record: &'a RawValue,
}

/// The type of a line with a record.
pub(super) const RECORD: &str = "record";

/// What a line is, whatever else it holds.
#[derive(Debug, Deserialize)]
pub(super) struct Kind {
    #[serde(rename = "type")]
    pub(super) kind: String,
}
