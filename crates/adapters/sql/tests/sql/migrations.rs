//! A process that is killed while it upgrades the schema, and one that starts during another's upgrade.

use std::process::{Command, Stdio};
use std::time::Duration;

use neuraxis_ports::SessionIndex as _;
use neuraxis_sql::{SqlConfig, SqlStore};

use crate::support::{Busy, file_config, open, records, server_config};

/// Tells the test that it is the process to be killed, and which database it opens.
const URL: &str = "TEST_NEURAXIS_MIGRATED_URL";

/// The command that opens the database in a separate process, by running a test there.
fn opening(config: &SqlConfig, test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .env(URL, &config.url)
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    child
}

/// Opens the database in a process that is killed after this time, often before it is done.
fn opened_and_killed(config: &SqlConfig, after: Duration) {
    let mut child = opening(config, "migrations::a_killed_migration_starts_again");
    let mut child = child.spawn().unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

async fn works(config: &SqlConfig) {
    let store = open(config).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.finish(&store).await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
    assert!(store.verify(&busy.session, None).await.is_ok());
}

#[test]
fn a_killed_migration_starts_again() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(url) = std::env::var_os(URL) {
        let config = SqlConfig::new(url.into_string().unwrap());
        runtime.block_on(async { drop(SqlStore::open(&config).await) });
        return;
    }
    for round in 0..12 {
        let config = file_config();
        opened_and_killed(&config, Duration::from_millis(round * 2));
        runtime.block_on(works(&config));
    }
}

/// The log of a new file may hold everything while the file has little more than its header.
#[test]
fn concurrent_first_opens_never_mistake_a_new_log_for_a_leftover_one() {
    const NAME: &str =
        "migrations::concurrent_first_opens_never_mistake_a_new_log_for_a_leftover_one";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(url) = std::env::var_os(URL) {
        let config = SqlConfig::new(url.into_string().unwrap());
        runtime.block_on(async { open(&config).await.close().await });
        return;
    }
    for round in 0..6 {
        let config = file_config();
        let children: Vec<_> = (0..4)
            .map(|_| opening(&config, NAME).spawn().unwrap())
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success(), "round {round}");
        }
        runtime.block_on(works(&config));
    }
}

#[test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
fn a_killed_migration_starts_again_on_a_server() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for round in 0..4 {
        let config = server_config();
        opened_and_killed(&config, Duration::from_millis(5 + round * 6));
        runtime.block_on(works(&config));
    }
}
