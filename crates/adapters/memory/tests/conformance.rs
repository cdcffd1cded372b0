//! The store follows the rules of its port.

use neuraxis_memory::MemoryStore;

neuraxis_testkit::session_store_suite!(MemoryStore::new());
