//! Databases that go with the test.

use std::path::Path;

use neuraxis_sql::{SqlConfig, SqlStore};
use tempfile::TempDir;

/// A folder for the files of a test.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A database in a file of a folder.
pub(crate) fn config(folder: &Path) -> SqlConfig {
    SqlConfig::new(format!("sqlite://{}", folder.join("sessions.db").display()))
}

/// A store in a new file. The folder is left to the system: it must outlive the store.
pub(crate) async fn store_in_file() -> SqlStore {
    let folder = folder().keep();
    SqlStore::open(&config(&folder)).await.unwrap()
}
