//! Exported sessions: a valid archive can be imported, and is exported again unchanged.

use std::io::Cursor;
use std::sync::Arc;

use neuraxis_engine::{ArchiveReader, ImportError, Sessions, UnfinishedRuns, check_archive};
use neuraxis_memory::MemoryStore;
use tokio::runtime::Builder;

/// Checks an archive, and imports its content into a store.
pub fn archive(input: &[u8]) {
    let checked = check_archive(ArchiveReader::new(input));
    let kept = Sessions::new(Arc::new(MemoryStore::new()));
    let runtime = Builder::new_current_thread().build().unwrap();
    let mut archive = Cursor::new(input);
    let imported = kept.import(&mut archive, UnfinishedRuns::Taken, async |_| {
        Ok::<(), ImportError>(())
    });
    let sessions = match (checked, runtime.block_on(imported)) {
        (Ok(sessions), Ok(imported)) => {
            assert_eq!(sessions.len(), imported.len());
            sessions
        }
        (Ok(_), Err(ImportError::Twice(_) | ImportError::Empty)) | (Err(_), Err(_)) => return,
        (checked, imported) => panic!("checked: {checked:?}\nimported: {imported:?}"),
    };
    for session in sessions {
        let mut out = Vec::new();
        let exported = runtime.block_on(kept.export(&session.id, &mut out));
        exported.unwrap();
        let again = check_archive(ArchiveReader::new(out.as_slice())).unwrap();
        assert_eq!(again, [session]);
    }
}
