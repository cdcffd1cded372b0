//! The rules of the [`Ids`] port.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use neuraxis_core::uuid::{Uuid, Variant, Version};
use neuraxis_ports::Ids;

/// Mounts the rules of the [`Ids`](neuraxis_ports::Ids) port as tests.
#[macro_export]
macro_rules! ids_suite {
    ($ids:expr) => {
        $crate::mount_rules! { ids, $ids, [
            ids_are_uuids_of_version_7
            each_id_is_greater_than_the_previous_one
            ids_created_concurrently_are_unique
        ] }
    };
}

/// Every id is a UUID of version 7, as defined in RFC 9562.
pub async fn ids_are_uuids_of_version_7(ids: impl Ids) {
    for _ in 0..1_000 {
        let id = ids.new_id();
        assert_eq!(
            (id.get_version(), id.get_variant()),
            (Some(Version::SortRand), Variant::RFC4122),
            "{id}"
        );
    }
}

/// Each id is greater than the previous one, even within one millisecond.
pub async fn each_id_is_greater_than_the_previous_one(ids: impl Ids) {
    let mut last = Uuid::nil();
    for _ in 0..1_000 {
        let id = ids.new_id();
        assert!(id > last, "{id} came after {last}");
        last = id;
    }
}

/// Ids created by several threads at the same time are all different.
pub async fn ids_created_concurrently_are_unique(ids: impl Ids) {
    let ids: Arc<dyn Ids> = Arc::new(ids);
    let make = |ids: Arc<dyn Ids>| {
        thread::spawn(move || (0..1_000).map(|_| ids.new_id()).collect::<Vec<Uuid>>())
    };
    let threads: Vec<_> = (0..4).map(|_| make(Arc::clone(&ids))).collect();
    let made = threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("an id is created without a panic"));
    assert_eq!(
        made.collect::<BTreeSet<_>>().len(),
        4_000,
        "two ids are the same"
    );
}
