//! What the data policy keeps out of the log appears nowhere: neither in the database nor in the server's own log. A
//! run whose server died cannot resume from such a log, and is ended.

use neuraxis::core::RunStatus;
use neuraxis::ports::SessionIndex as _;
use neuraxis_testkit::assert_nowhere;

use crate::model::{Hold, REFUSE, Said};
use crate::world::{Kept, Program, World};

/// Said by the user and by the model, passed to a tool and returned by it.
const SECRET: &str = "secret-9b1f";

const POLICY: &str = "[channels.chat]\n\
    data = { text = false, tool_calls = false, tool_results = false, reasoning = false }\n";

fn tells_it(results: usize) -> Said {
    match results {
        0 => Said::Calls(&[
            ("look", "{\"n\":\"secret-9b1f\"}"),
            ("note", "{\"n\":\"secret-9b1f\"}"),
        ]),
        _ => Said::Text("It is secret-9b1f, I say."),
    }
}

async fn nothing_withheld_is_stored(kept: Kept) {
    let world = World::configured(Program::WithTools, kept, tells_it, POLICY).await;
    let server = world.start().await;
    let (status, text) = server.turn("whole", SECRET).await;
    assert_eq!(status, 200);
    assert!(text.contains(SECRET), "who asks is told: {text}");
    world.model.hold(2, Hold::Before);
    let client = server.ask();
    world.model.was_asked(2).await;
    client.wait_for("tool_result").await;
    server.kill().await;
    world.model.let_go();
    let run = world.run().await.unwrap();
    world.leases_run_out().await;
    let server = world.start().await;
    world.ended(run).await;
    let summary = world.store.run(run).await.unwrap();
    assert_eq!(summary.status, RunStatus::Interrupted);
    let last = world.records(run).await.last().unwrap().to_json();
    assert!(last.contains("data policy"), "{last}");
    let (status, _) = server.turn("s", SECRET).await;
    assert_eq!(status, 200, "the session is free");
    let (_, text) = server.turn("refused", &format!("{REFUSE}{SECRET}")).await;
    assert!(text.contains("refuses the request"), "{text}");
    assert_nowhere(world.folder(), SECRET);
    server.kill().await;
    assert_nowhere(world.folder(), SECRET);
    if kept == Kept::OnServer {
        assert_eq!(world.rows_with(SECRET).await, 0);
        assert!(
            world.rows_with("scripted").await > 0,
            "nothing is found at all"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withheld_data_appears_nowhere_on_sqlite() {
    nothing_withheld_is_stored(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn withheld_data_appears_nowhere_on_postgres() {
    nothing_withheld_is_stored(Kept::OnServer).await;
}
