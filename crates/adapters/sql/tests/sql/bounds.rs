//! A run is limited in bytes as well as in records.

use neuraxis_ports::{RunBounds, RunLog as _, RunStart, SessionIndex as _, StoreError};
use neuraxis_sql::SqlConfig;

use crate::support::{Busy, on_both, open, records};

on_both! {
    a_run_over_its_byte_limit_accepts_only_its_end
    an_imported_run_may_use_the_space_reserved_for_its_end
}

async fn a_run_over_its_byte_limit_accepts_only_its_end(mut config: SqlConfig) {
    config.bounds = RunBounds {
        max_bytes: 100_000,
        ..RunBounds::default()
    };
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    let long = "x".repeat(90_000);
    busy.warn(&store, &long).await.unwrap();
    let refused = busy.warn(&store, &long).await;
    assert!(
        matches!(refused, Err(StoreError::RunTooLarge { records: 3, .. })),
        "{refused:?}"
    );
    // The refused step changed nothing, not even the store's cached state of the run.
    busy.warn(&store, "short").await.unwrap();
    busy.finish(&store).await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
    assert!(store.verify(&busy.session, None).await.is_ok());
}

/// In the store it comes from, it was one step.
async fn an_imported_run_may_use_the_space_reserved_for_its_end(mut config: SqlConfig) {
    config.bounds = RunBounds {
        max_bytes: 100_000,
        ..RunBounds::default()
    };
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    let start = RunStart::new(busy.session.clone(), busy.run()).imported();
    busy.lease = store.begin(&start).await.unwrap();
    let long = "x".repeat(60_000);
    busy.warn(&store, &long).await.unwrap();
    busy.warn(&store, &long).await.unwrap();
    let refused = busy.warn(&store, &long).await;
    assert!(
        matches!(refused, Err(StoreError::RunTooLarge { records: 4, .. })),
        "{refused:?}"
    );
    busy.finish(&store).await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
    assert!(store.verify(&busy.session, None).await.is_ok());
}
