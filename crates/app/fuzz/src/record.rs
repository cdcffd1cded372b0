//! Logs of runs: what is read is written unchanged, and a run is rebuilt from its records or refused.

use std::str;

use neuraxis_core::{Record, RunTree, Transcript};
use neuraxis_engine::read_log;

/// Reads records, one per line, and rebuilds a run from them.
pub fn record(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    for line in text.lines() {
        if let Ok(record) = Record::from_json(line) {
            let written = record.to_json();
            let again = Record::from_json(&written).unwrap();
            assert_eq!(again, record);
            assert_eq!(again.to_json(), written);
        }
    }
    if let Ok(records) = read_log(text)
        && let Ok((run, _)) = RunTree::restore(Transcript::default(), &records)
    {
        let (again, _) = RunTree::restore(Transcript::default(), &records).unwrap();
        assert_eq!(again.status(), run.status());
    }
}
