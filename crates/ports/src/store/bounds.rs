//! How much a store keeps of one run, and what every store can hold.

use neuraxis_core::{InboxEntry, RunId};

use super::StoreError;

/// The most bytes of an owner's name.
pub const MAX_OWNER_BYTES: usize = 1_024;

/// The most bytes of an input's id.
pub const MAX_INPUT_ID_BYTES: usize = 256;

/// The most bytes of an inbox entry as JSON: 2 MiB.
pub const MAX_INPUT_BYTES: usize = 2 * 1024 * 1024;

/// The most entries that wait in one inbox.
pub const MAX_INBOX_ENTRIES: usize = 1_024;

/// How long one run may become. The numbers of its records are those of Temporal's workflow histories, which warn at 10,240 events or
/// 10 MiB and end at 51,200 or 50 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBounds {
    /// Records, from which on the store warns.
    pub warn_records: u64,
    /// Bytes, from which on the store warns.
    pub warn_bytes: u64,
    /// The most records.
    pub max_records: u64,
    /// The most bytes.
    pub max_bytes: u64,
    /// The most bytes of the [long outputs](super::LongOutput) beside it, taken together: 64 MiB, eight of the longest that
    /// an engine keeps unless it is told otherwise. They do not count toward the bytes of the run.
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

/// How long a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSize {
    /// Records.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Whether a commit holds the end of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No record comes after it, so that it may use what is kept back for the end.
    Ends,
    /// More records are to come: room for the end has to stay.
    GoesOn,
}

impl RunSize {
    /// Returns the size after a commit of so many records and bytes.
    #[must_use]
    pub const fn with(self, records: u64, bytes: u64) -> Self {
        Self {
            records: self.records.saturating_add(records),
            bytes: self.bytes.saturating_add(bytes),
        }
    }

    /// Checks that a run may become so long. Its end is always taken, so that it can have one; that, too, at most a
    /// half over the bounds.
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
            Ending::GoesOn => (bounds.max_records, bounds.max_bytes),
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

    /// Tells whether a commit brought the run over a bound from which on a store warns.
    #[must_use]
    pub const fn has_crossed(self, before: Self, bounds: &RunBounds) -> bool {
        let is_over = self.records >= bounds.warn_records || self.bytes >= bounds.warn_bytes;
        let was_over = before.records >= bounds.warn_records || before.bytes >= bounds.warn_bytes;
        is_over && !was_over
    }
}

/// Checks that every store can keep an inbox entry, and returns how many bytes it takes; for implementations of
/// [`SessionStore`](super::SessionStore).
///
/// # Errors
///
/// [`StoreError::Invalid`].
pub fn check_input(entry: &InboxEntry) -> Result<String, StoreError> {
    let rule = "1 to 256 bytes, without NUL";
    check_text("input id", entry.id.as_str(), MAX_INPUT_ID_BYTES, rule)?;
    let unwritable = StoreError::Invalid {
        what: "input",
        rule: "at most 2 MiB as JSON",
    };
    if entry.id.as_str().is_empty() || entry.id != entry.input.id() {
        return Err(StoreError::Invalid {
            what: "input id",
            rule: "the id of its input, not empty",
        });
    }
    let text = neuraxis_core::JsonText::encode(entry).map_err(|_| unwritable.clone())?;
    if text.as_str().len() > MAX_INPUT_BYTES {
        return Err(unwritable);
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
