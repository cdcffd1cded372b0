//! Whatever is changed behind the store's back is found.

use neuraxis_ports::{SessionStore, StoreError};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::support::{Busy, config_in, open};

/// Keeps three runs of a session, changes the file with a statement, and returns what verifying says.
async fn after(statements: &[&str]) -> Result<(), StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    for number in 2..=3 {
        busy.warn(&store, "slow").await.unwrap();
        busy.warn(&store, &"long ".repeat(20_000)).await.unwrap();
        busy.finish(&store).await.unwrap();
        let run = neuraxis_testkit::CountingIds::nth_run(number);
        busy.lease = store.begin_run(&busy.session, run).await.unwrap();
        busy.log = neuraxis_testkit::RunLog::new(run, busy.session.clone());
        let started = [busy.log.started("And?")];
        store.commit(&busy.lease, &started).await.unwrap();
    }
    let head = store.verify(&busy.session, None).await.unwrap();
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    for statement in statements {
        let done = sqlx::query(AssertSqlSafe(*statement))
            .execute(&mut raw)
            .await;
        assert!(done.unwrap().rows_affected() > 0, "{statement} did nothing");
    }
    store.verify(&busy.session, Some(head.hash)).await.map(drop)
}

#[tokio::test]
async fn an_untouched_session_is_whole() {
    assert_eq!(
        after(&["UPDATE runs SET holder = 'somebody'"]).await,
        Ok(())
    );
}

#[tokio::test]
async fn each_change_is_found_and_placed() {
    let cases: [(&str, &[&str]); 8] = [
        (
            "a changed record",
            &[
                "UPDATE steps SET body = CAST(replace(CAST(body AS TEXT), 'slow', 'fast') AS BLOB) WHERE run = 1 AND first_seq = 2",
            ],
        ),
        (
            "a record removed from the middle",
            &["DELETE FROM steps WHERE run = 1 AND first_seq = 2"],
        ),
        (
            "records that changed places",
            &[
                "UPDATE steps SET first_seq = 100 WHERE run = 1 AND first_seq = 1",
                "UPDATE steps SET first_seq = 1, last_seq = 1 WHERE run = 1 AND first_seq = 2",
                "UPDATE steps SET first_seq = 2, last_seq = 2 WHERE run = 1 AND first_seq = 100",
            ],
        ),
        (
            "a record cut off at the end of a run",
            &[
                "DELETE FROM steps WHERE run = 2 AND first_seq = (SELECT max(first_seq) FROM steps WHERE run = 2)",
            ],
        ),
        (
            "a changed long value",
            &["UPDATE payloads SET body = CAST('{}' AS BLOB) WHERE run = 1"],
        ),
        (
            "a removed long value",
            &["DELETE FROM payloads WHERE run = 1"],
        ),
        (
            "a removed run",
            &[
                "DELETE FROM steps WHERE run = 2",
                "DELETE FROM payloads WHERE run = 2",
                "DELETE FROM runs WHERE key = 2",
            ],
        ),
        ("another owner", &["UPDATE sessions SET owner = 'mallory'"]),
    ];
    for (what, statements) in cases {
        let found = after(statements).await;
        let Err(StoreError::Damaged(told)) = found else {
            panic!("{what} was not found: {found:?}")
        };
        assert!(told.contains("run "), "{what}: {told}");
    }
}

/// The last run of a session, gone with all that points at it, is missed only by who knows where the chain ended.
#[tokio::test]
async fn a_session_cut_off_at_its_end_is_found_by_its_expected_head() {
    let cut = after(&[
        "DELETE FROM steps WHERE run = 3",
        "DELETE FROM runs WHERE key = 3",
    ]);
    let Err(StoreError::Damaged(told)) = cut.await else {
        panic!("the cut was not found")
    };
    assert!(told.contains("ends with"), "{told}");
}
