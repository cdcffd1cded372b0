//! Warns once, as a record, when the log of a run grows long.

use crate::ids::AgentId;
use crate::record::{RecordBody, Warning};
use crate::run::RunTree;
use crate::run::draft::Draft;

/// The records from which on a log is long: where Temporal warns of a workflow's history.
const LONG_RECORDS: u64 = 10_240;

/// The bytes from which on a log is long, by the weight of its records: where Temporal warns of a workflow's history.
const LONG_BYTES: u64 = 10 * 1024 * 1024;

impl RunTree {
    /// Weighs what a step recorded, and adds a warning if the log has become long with it.
    pub(super) fn mind_the_log(&mut self, draft: &mut Draft) {
        let weight = draft.records.iter().map(|record| record.weight());
        self.log_bytes = weight.fold(self.log_bytes, u64::saturating_add);
        let is_long = self.seq.0 >= LONG_RECORDS || self.log_bytes >= LONG_BYTES;
        // Nothing follows the end of a run.
        if !is_long || self.warned_of_log || self.status.is_ended() || draft.records.is_empty() {
            return;
        }
        self.warned_of_log = true;
        let (records, bytes) = (self.seq.0, self.log_bytes);
        let warning = Warning {
            code: "long_log".to_owned(),
            message: format!(
                "the log of this run grows long: {records} records of about {bytes} bytes"
            ),
        };
        self.record(
            draft,
            AgentId::ROOT,
            None,
            RecordBody::Warning(Box::new(warning)),
        );
    }
}
