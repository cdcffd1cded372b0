//! The store follows the rules of its port on SQLite.

use crate::support::store_in_file;

neuraxis_testkit::session_store_suite!(store_in_file().await);
