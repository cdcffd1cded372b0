//! Says in English what records hold.
