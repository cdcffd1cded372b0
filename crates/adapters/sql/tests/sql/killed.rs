//! A killed process loses nothing that was acknowledged to it. The process is this same test, started again.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use neuraxis_ports::{RunLog as _, SessionIndex as _};
use neuraxis_sql::SqlStore;

use crate::support::{Busy, config_in, open, records};

/// Tells the test that it is the process to be killed, and where its database is.
const FOLDER: &str = "TEST_NEURAXIS_KILLED_FOLDER";

/// The number of concurrent writing runs.
const RUNS: u64 = 4;

/// The number of times a process is killed.
const ROUNDS: usize = 12;

#[test]
fn acknowledged_records_survive_a_kill() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        write_until_killed(Path::new(&folder));
        return;
    }
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.env(FOLDER, folder.path());
        // At a different point each time: after more and more acknowledgments.
        let acknowledged = kill_after(spawn(child), round * 17);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(check(folder.path(), &acknowledged));
    }
}

/// When a disk accepts no more bytes, the store reports that and stops, and everything acknowledged before is still
/// there.
#[test]
fn a_failing_disk_stops_the_store_and_acknowledged_records_remain() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sh");
    // A file may have 800 blocks of 512 bytes; a write beyond that fails instead of killing the process.
    let limited = "trap '' XFSZ; ulimit -f 800; exec \"$0\" \"$@\"";
    child
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap());
    child.env(FOLDER, folder.path());
    let mut child = spawn(child);
    let mut told = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{told}");
    let refused: Vec<_> = told
        .lines()
        .filter(|line| line.starts_with("refused"))
        .collect();
    assert_eq!(refused.len(), usize::try_from(RUNS).unwrap(), "{told}");
    for line in refused {
        assert!(
            line.contains("Damaged") && line.contains("sessions.db"),
            "{line}"
        );
    }
    let acknowledged = told.lines().filter_map(acknowledgement).collect::<Vec<_>>();
    assert!(!acknowledged.is_empty());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(check(folder.path(), &acknowledged));
}

fn spawn(mut child: Command) -> Child {
    child
        .args(["--exact", "killed::acknowledged_records_survive_a_kill"])
        .args(["--nocapture", "--test-threads", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills a process after `count` acknowledgments, and returns all that it gave.
fn kill_after(mut child: Child, count: usize) -> Vec<(u64, u64)> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    while acknowledged.len() <= count {
        let line = lines.next().expect("it writes on").unwrap();
        acknowledged.extend(acknowledgement(&line));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it printed before it died counts, too.
    acknowledged.extend(
        lines
            .map_while(Result::ok)
            .filter_map(|line| acknowledgement(&line)),
    );
    acknowledged
}

/// Parses `ack RUN SEQ`; `None` for a truncated line.
fn acknowledgement(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("ack ")?.strip_suffix('.')?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

async fn check(folder: &Path, acknowledged: &[(u64, u64)]) {
    let mut config = config_in(folder);
    config.lease = std::time::Duration::ZERO;
    let store = open(&config).await;
    for number in 1..=RUNS {
        let run = neuraxis_testkit::CountingIds::nth_run(number);
        let told = acknowledged.iter().filter(|(of, _)| *of == number);
        let told = told.map(|(_, seq)| *seq).max();
        let Some(told) = told else { continue };
        let kept = records(&store, run).await;
        assert!(
            kept.len() as u64 >= told,
            "run {number}: {} of {told}",
            kept.len()
        );
        assert!(
            kept.iter()
                .zip(1..)
                .all(|(record, seq)| record.seq.0 == seq)
        );
        let session = format!("s{number}").parse().unwrap();
        let head = store.verify(&session, None).await.unwrap();
        assert_eq!(head.records, kept.len() as u64);
        // Another process resumes it.
        assert!(store.begin_run(&session, run).await.is_ok());
    }
}

fn write_until_killed(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut config = config_in(folder);
        // A later process can take the runs over immediately.
        config.lease = std::time::Duration::ZERO;
        let store = open(&config).await;
        let runs = (1..=RUNS).map(|number| tokio::spawn(write(store.clone(), number)));
        for run in runs.collect::<Vec<_>>() {
            run.await.unwrap();
        }
    });
}

async fn write(store: SqlStore, number: u64) {
    let mut busy = Busy::new(&store, number).await;
    let long = "long ".repeat(15_000);
    for step in 0_u64.. {
        let text = if step % 10 == 9 { &long } else { "short" };
        if let Err(error) = busy.warn(&store, text).await {
            println!("refused {error:?}");
            // It is still refused.
            assert_eq!(busy.warn(&store, "short").await, Err(error));
            return;
        }
        println!("ack {number} {}.", busy.records.len());
    }
}
