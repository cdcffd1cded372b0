//! Exported sessions: what was found whole can be kept, and comes out of the store as it went in.

use neuraxis_engine::{ArchiveReader, ImportError, check_archive, export_session, import_archive};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::StoreError;
use tokio::runtime::Builder;

/// Checks an archive, and keeps in a store what it holds.
pub fn archive(input: &[u8]) {
    let checked = check_archive(ArchiveReader::new(input));
    let store = MemoryStore::new();
    let runtime = Builder::new_current_thread().build().unwrap();
    let imported = import_archive(&store, ArchiveReader::new(input), |_| true);
    let sessions = match (checked, runtime.block_on(imported)) {
        (Ok(sessions), Ok(())) => sessions,
        // The same session twice, with something else in it.
        (Ok(_), Err(ImportError::Store { source, .. })) => {
            assert!(matches!(source, StoreError::SessionExists(_)), "{source}");
            return;
        }
        (Err(_), Err(_)) => return,
        (checked, imported) => panic!("checked: {checked:?}\nimported: {imported:?}"),
    };
    for session in sessions {
        let mut out = Vec::new();
        let exported = runtime.block_on(export_session(&store, &session.id, &mut out));
        exported.unwrap().unwrap();
        let again = check_archive(ArchiveReader::new(out.as_slice())).unwrap();
        assert_eq!(again, [session]);
    }
}
