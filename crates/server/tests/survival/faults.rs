//! Databases that are locked, full, damaged, silent or half migrated while a server is running. Each test holds a run
//! between two of its turns, causes the fault, and checks the whole run afterward.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use neuraxis::core::RunId;
use neuraxis::ports::SessionIndex as _;
use neuraxis_sql::{SqlConfig, SqlStore};

use crate::model::Hold;
use crate::points::{one_reading, two_turns};
use crate::server::{Client, Server};
use crate::world::{Kept, Program, Terms, World, until};

/// A database with a short timeout.
const IMPATIENT: &str = "patience_ms = 300";

/// Starts a turn and waits until its second model call is held up.
async fn held(world: &World, server: &Server) -> (Client, RunId) {
    let before = world.model.asked(3);
    world.model.hold(3, Hold::Before);
    let client = server.ask();
    until("the model is asked", async || world.model.asked(3) > before).await;
    (client, world.run().await.unwrap())
}

/// Lets the run end, and checks it with the server stopped.
async fn ends_whole(world: &World, server: Server, client: Client, run: RunId) {
    world.model.let_go();
    world.ended(run).await;
    client.wait_for("final").await;
    server.kill().await;
    world.check(run, &client.received().await).await;
    assert_eq!(world.effects("begun", "").len(), 5);
}

/// A turn of another session is refused as temporarily unavailable, in time.
async fn is_unavailable(server: &Server, within: Duration) {
    let began = Instant::now();
    let (status, text) = server.turn("new", "go").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("/errors/store-unavailable"), "{text}");
    assert!(began.elapsed() < within, "{:?}", began.elapsed());
}

async fn a_lock(kept: Kept) {
    let terms = Terms {
        store: IMPATIENT,
        ..Terms::default()
    };
    let world = World::on(Program::WithTools, kept, two_turns, terms).await;
    let server = world.start().await;
    let (client, run) = held(&world, &server).await;
    let locked = world.lock().await;
    is_unavailable(&server, Duration::from_secs(10)).await;
    locked.open().await;
    ends_whole(&world, server, client, run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_survives_a_locked_file() {
    a_lock(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_survives_a_full_disk_and_earlier_results_remain_readable() {
    let terms = Terms {
        pages: Some(400),
        ..Terms::default()
    };
    let world = World::on(Program::WithTools, Kept::InFile, two_turns, terms).await;
    let server = world.start().await;
    let ask_before = || {
        let request = server.request("before", "go");
        request.header("idempotency-key", "before").send()
    };
    let before = ask_before().await.unwrap().text().await.unwrap();
    let (client, run) = held(&world, &server).await;
    world.fill(3_000_000).await;
    is_unavailable(&server, Duration::from_secs(60)).await;
    let read = ask_before().await.unwrap();
    assert_eq!(read.status(), 200);
    assert_eq!(read.text().await.unwrap(), before, "reading goes on");
    let filler = "filler".parse().unwrap();
    world.store.delete_session(&filler).await.unwrap();
    world.model.let_go();
    world.ended(run).await;
    client.wait_for("final").await;
    let (status, text) = server.turn("new", "go").await;
    assert_eq!(status, 200, "it recovers: {text}");
    server.kill().await;
    world.check(run, &client.received().await).await;
}

/// Another program holds an exclusive lock on the file while a server starts that finds a run left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_listens_before_it_can_resume_the_runs_left_behind() {
    let world = World::new(Program::Real, Kept::InFile, one_reading).await;
    let server = world.start().await;
    world.model.hold(1, Hold::Before);
    let client = server.ask();
    world.model.was_asked(1).await;
    let run = world.run().await.unwrap();
    server.kill().await;
    let received = client.received().await;
    world.model.let_go();
    world.leases_run_out().await;
    let locked = world.lock().await;
    let started = tokio::time::timeout(Duration::from_secs(10), world.start()).await;
    let server = started.expect("it waits for nobody");
    locked.open().await;
    world.ended(run).await;
    server.kill().await;
    world.check(run, &received).await;
}

/// A write to the disk fails: the store accepts no more writes until the server is restarted on a working disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_survives_a_failed_disk() {
    let world = World::new(Program::WithTools, Kept::InFile, two_turns).await;
    let server = world.start_with_blocks(2_000).await;
    let (client, run) = held(&world, &server).await;
    let before = world.records(run).await;
    world.fill(2_000_000).await;
    for _ in 0..2 {
        let (status, text) = server.turn("new", "go").await;
        assert_eq!(status, 500, "{text}");
        assert!(text.contains("/errors/store-failed"), "{text}");
    }
    world.model.let_go();
    world.model.has_given(2).await;
    server.kill().await;
    let received = client.received().await;
    assert_eq!(world.records(run).await, before, "nothing more was kept");
    let log = fs::read_to_string(world.folder().join("log")).unwrap();
    assert!(
        log.contains("disk I/O error") && log.contains("sessions.db"),
        "{log}"
    );

    world.leases_run_out().await;
    let server = world.start().await;
    world.ended(run).await;
    server.kill().await;
    world.check(run, &received).await;
}

/// Starts the server, which must not start. Returns how it ended and its output.
async fn refuses_to_start(world: &World) -> (Option<i32>, String) {
    let log = world.folder().join("log");
    let before = fs::read_to_string(&log).unwrap_or_default().len();
    let ended = world.command(&[]).status();
    let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
    let said = fs::read_to_string(&log).unwrap();
    (ended.unwrap().unwrap().code(), said[before..].to_owned())
}

fn overwrite(file: &Path, bytes: &[u8]) {
    let mut file = fs::File::options().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_prevents_the_start_and_is_left_unchanged() {
    let world = World::new(Program::Real, Kept::InFile, crate::points::one_reading).await;
    let server = world.start().await;
    let client = server.ask();
    client.wait_for("final").await;
    let run = world.run().await.unwrap();
    server.kill().await;
    let received = client.received().await;
    world.store.close().await;
    world.checkpoint().await;
    let file = world.folder().join("sessions.db");
    let whole = fs::read(&file).unwrap();
    overwrite(&file, &[0x5a; 4_096]);
    let damaged = fs::read(&file).unwrap();
    for _ in 0..2 {
        let (code, said) = refuses_to_start(&world).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("sessions.db"), "{said}");
        assert_eq!(fs::read(&file).unwrap(), damaged, "it was written to");
    }

    // Restoring the page restores everything.
    overwrite(&file, &whole[..4_096]);
    let world = world.reopened().await;
    let server = world.start().await;
    server.kill().await;
    world.check(run, &received).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_run_survives_an_unresponsive_database_server() {
    let terms = Terms {
        store: IMPATIENT,
        proxied: true,
        ..Terms::default()
    };
    let world = World::on(Program::WithTools, Kept::OnServer, two_turns, terms).await;
    let server = world.start().await;
    let (client, run) = held(&world, &server).await;
    let proxy = world.proxy.as_ref().unwrap();
    proxy.fall_silent();
    is_unavailable(&server, Duration::from_secs(5)).await;
    proxy.speak();
    ends_whole(&world, server, client, run).await;
}

/// The server is repeatedly killed while it migrates an old file, and then left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_killed_with_its_server_restarts_cleanly() {
    const OLD: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../adapters/sql/tests/sql/schema-1.db"
    );
    let world = World::new(Program::WithTools, Kept::InFile, two_turns).await;
    world.store.close().await;
    let file = world.folder().join("sessions.db");
    for round in 0..6 {
        for beside in ["sessions.db-wal", "sessions.db-shm"] {
            // They are removed on closing, but not by a kill.
            let _ = fs::remove_file(world.folder().join(beside));
        }
        fs::copy(OLD, &file).unwrap();
        let mut dying = world.command(&[]).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(4 + round * 4)).await;
        dying.kill().await.unwrap();
        let config = SqlConfig::new(format!("sqlite://{}", file.display()));
        let old = SqlStore::open(&config).await.unwrap();
        for session in old.sessions(&Default::default()).await.unwrap() {
            assert!(old.verify(&session.id, None).await.is_ok(), "round {round}");
        }
        old.close().await;
    }
    let world = world.reopened().await;
    let server = world.start().await;
    let client = server.ask();
    client.wait_for("final").await;
    let run = world.run().await.unwrap();
    server.kill().await;
    world.check(run, &client.received().await).await;
}
