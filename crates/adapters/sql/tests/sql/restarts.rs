//! All committed records are read back exactly, whatever the size of the commits and the number of restarts in between.

use std::sync::Arc;

use neuraxis_core::Record;
use neuraxis_ports::{RunLog as _, Session, SessionIndex as _};
use neuraxis_testkit::{CountingIds, RunLog, START};
use proptest::prelude::*;

use crate::support::{config_in, id, open, records};

/// An event of one of two runs.
#[derive(Debug, Clone)]
enum Move {
    /// It commits this many records, the first with text of this length.
    Commit {
        run: usize,
        records: usize,
        length: usize,
    },
    /// It commits its last step again.
    Repeat { run: usize },
    /// It is resumed.
    BeginAgain { run: usize },
    /// The store is closed and reopened.
    Restart,
    /// The store is dropped while no call is waiting, and reopened.
    Drop,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let commit = (
        0..2_usize,
        1..5_usize,
        prop_oneof![0..50_usize, 60_000..70_000_usize],
    );
    let commit = commit.prop_map(|(run, records, length)| Move::Commit {
        run,
        records,
        length,
    });
    let one = prop_oneof![
        6 => commit,
        1 => (0..2_usize).prop_map(|run| Move::Repeat { run }),
        1 => (0..2_usize).prop_map(|run| Move::BeginAgain { run }),
        1 => Just(Move::Restart),
        1 => Just(Move::Drop),
    ];
    prop::collection::vec(one, 1..25)
}

async fn play(moves: Vec<Move>) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_in(folder.path());
    config.lease = std::time::Duration::ZERO;
    let mut store = open(&config).await;
    let mut logs = Vec::new();
    let mut leases = Vec::new();
    let mut kept: [Vec<Arc<Record>>; 2] = Default::default();
    let mut last: [Vec<Arc<Record>>; 2] = Default::default();
    for number in [1_u64, 2] {
        let session = id(&format!("s{number}"));
        let made = Session::new(session.clone(), START);
        store.create_session(&made).await.unwrap();
        let run = CountingIds::nth_run(number);
        leases.push(store.begin_run(&session, run).await.unwrap());
        logs.push(RunLog::new(run, session));
    }
    for one in moves {
        match one {
            Move::Commit {
                run,
                records,
                length,
            } => {
                let text = "é".repeat(length / 2);
                let step = (0..records)
                    .map(|place| logs[run].warned(if place == 0 { &text } else { "and" }));
                last[run] = step.collect();
                store.commit(&leases[run], &last[run]).await.unwrap();
                kept[run].extend(last[run].iter().cloned());
            }
            Move::Repeat { run } => store.commit(&leases[run], &last[run]).await.unwrap(),
            Move::BeginAgain { run } => {
                let session = leases[run].session.clone();
                leases[run] = store.begin_run(&session, leases[run].run).await.unwrap();
            }
            Move::Restart => {
                store.close().await;
                store = open(&config).await;
            }
            Move::Drop => store = open(&config).await,
        }
        for (run, kept) in kept.iter().enumerate() {
            assert_eq!(&records(&store, leases[run].run).await, kept);
        }
    }
    for lease in &leases {
        assert!(store.verify(&lease.session, None).await.is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_commits_and_restarts_preserves_the_exact_records(moves in moves()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(moves));
    }
}
