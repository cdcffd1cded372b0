//! How much a store keeps of one run, and what every store must be able to hold.

use neuraxis_core::{InboxEntry, RunId};

use super::StoreError;

/// The maximum length of an owner's name in bytes.
pub const MAX_OWNER_BYTES: usize = 1_024;

/// The maximum length of an input's id in bytes.
pub const MAX_INPUT_ID_BYTES: usize = 256;

/// The maximum size of an inbox entry as JSON, in bytes: 2 MiB.
pub const MAX_INPUT_BYTES: usize = 2 * 1024 * 1024;

/// The maximum number of entries that wait in one inbox.
pub const MAX_INBOX_ENTRIES: usize = 1_024;

/// Limits on the size of one run. The limits on its records are those of Temporal's workflow histories, which warn at
/// 10,240 events or 10 MiB and end at 51,200 events or 50 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBounds {
    /// The number of records from which on the store warns.
    pub warn_records: u64,
    /// The number of bytes from which on the store warns.
    pub warn_bytes: u64,
    /// The maximum number of records.
    pub max_records: u64,
    /// The maximum number of bytes.
    pub max_bytes: u64,
    /// The maximum total size in bytes of the run's [long outputs](super::LongOutput): 64 MiB, eight of the longest
    /// that an engine keeps by default. They do not count toward the bytes of the run.
    pub max_output_bytes: u64,
}

impl Default for RunBounds {
    fn default() -> Self {
        Self {
            warn_records: 10_240,
            warn_bytes: 10 * 1024 * 1024,
            max_records: 51_200,
            max_bytes: 50 * 1024 * 1024,
            max_output_bytes: 64 * 1024 * 1024,
        }
    }
}

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSize {
    /// The number of records.
    pub records: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// Whether a commit contains the end of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No record comes after it, so it may use the space that is reserved for the end.
    Ends,
    /// More records will come: space for the end must remain.
    Continues,
}

impl RunSize {
    /// Returns the size after a commit of this many records and bytes.
    #[must_use]
    pub const fn with(self, records: u64, bytes: u64) -> Self {
        Self {
            records: self.records.saturating_add(records),
            bytes: self.bytes.saturating_add(bytes),
        }
    }

    /// Checks that a run may grow to this size. The end of a run may exceed the limits by half of them, so every run
    /// can end.
    ///
    /// # Errors
    ///
    /// [`StoreError::RunTooLarge`].
    pub const fn check(
        self,
        bounds: &RunBounds,
        run: RunId,
        ending: Ending,
    ) -> Result<(), StoreError> {
        let (max_records, max_bytes) = match ending {
            Ending::Continues => (bounds.max_records, bounds.max_bytes),
            Ending::Ends => (
                bounds.max_records.saturating_add(bounds.max_records / 2),
                bounds.max_bytes.saturating_add(bounds.max_bytes / 2),
            ),
        };
        if self.records > max_records || self.bytes > max_bytes {
            return Err(StoreError::RunTooLarge {
                run,
                records: self.records,
                bytes: self.bytes,
            });
        }
        Ok(())
    }

    /// Returns whether a commit took the run over a limit from which on a store warns.
    #[must_use]
    pub const fn has_crossed(self, before: Self, bounds: &RunBounds) -> bool {
        let is_over = self.records >= bounds.warn_records || self.bytes >= bounds.warn_bytes;
        let was_over = before.records >= bounds.warn_records || before.bytes >= bounds.warn_bytes;
        is_over && !was_over
    }
}

/// Checks that every store can hold an inbox entry, and returns the entry as JSON; for implementations of
/// [`SessionStore`](super::SessionStore).
///
/// # Errors
///
/// [`StoreError::Invalid`].
pub fn check_input(entry: &InboxEntry) -> Result<String, StoreError> {
    let rule = "1 to 256 bytes, without NUL";
    check_text("input id", entry.id.as_str(), MAX_INPUT_ID_BYTES, rule)?;
    let too_large = StoreError::Invalid {
        what: "input",
        rule: "at most 2 MiB as JSON",
    };
    if entry.id.as_str().is_empty() || entry.id != entry.input.id() {
        return Err(StoreError::Invalid {
            what: "input id",
            rule: "the id of its input, not empty",
        });
    }
    let text = neuraxis_core::JsonText::encode(entry).map_err(|_| too_large.clone())?;
    if text.as_str().len() > MAX_INPUT_BYTES {
        return Err(too_large);
    }
    Ok(text.as_str().to_owned())
}

pub(super) fn check_text(
    what: &'static str,
    text: &str,
    most: usize,
    rule: &'static str,
) -> Result<(), StoreError> {
    if text.len() > most || text.contains('\0') {
        return Err(StoreError::Invalid { what, rule });
    }
    Ok(())
}
