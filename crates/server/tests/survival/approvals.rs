//! A run that waits for a user keeps waiting through any number of crashes.

use neuraxis::core::{
    ApprovalDecided, ApprovalDecision, ApprovalRequested, InboxEntry, InboxInput, InputId,
    RecordBody, RunId, RunStatus,
};
use neuraxis::ports::{RunLog as _, SessionIndex as _};

use crate::model::Said;
use crate::world::{Kept, Program, World, until};

pub(crate) fn asks_first(results: usize) -> Said {
    match results {
        0 => Said::Calls(&[("look", "{\"n\":1}"), ("pay_asked", "{\"n\":2}")]),
        2 => Said::Text("All is done."),
        other => panic!("a conversation with {other} results"),
    }
}

async fn questions(world: &World, run: RunId) -> Vec<ApprovalRequested> {
    let records = world.records(run).await;
    let asked = records.iter().filter_map(|record| match &record.body {
        RecordBody::ApprovalRequested(asked) => Some(ApprovalRequested::clone(asked)),
        _ => None,
    });
    asked.collect()
}

/// An approval of what the run asks, as any process could write it.
pub(crate) async fn approval(world: &World, run: RunId, id: &str) -> ApprovalDecided {
    let asked = questions(world, run).await.pop().unwrap();
    ApprovalDecided {
        id: InputId::new(id.to_owned()),
        tool_call_id: asked.tool_call_id,
        arguments_hash: asked.arguments_hash,
        decision: ApprovalDecision::APPROVE,
        by: Some("somebody".to_owned()),
        code: None,
        given_before: None,
    }
}

async fn waits_for_approval(kept: Kept) {
    let world = World::new(Program::WithTools, kept, asks_first).await;
    let server = world.start().await;
    let client = server.ask();
    client.wait_for("waiting").await;
    server.kill().await;
    let received = client.received().await;
    let run = world.run().await.unwrap();
    for _ in 0..2 {
        world.leases_run_out().await;
        let server = world.start().await;
        // The question was asked again, and the run waits again.
        until("the run waits", async || {
            let run = world.store.run(run).await.unwrap();
            let left = world.store.unfinished().await.unwrap();
            run.status == RunStatus::Waiting && !left.is_empty()
        })
        .await;
        server.kill().await;
        assert_eq!(world.effects("begun", "pay_asked"), []);
    }
    // Any process that can write to the database can store an approval there, but not a valid one.
    let post = async |decided: ApprovalDecided| {
        let entry = InboxEntry::new(InboxInput::ApprovalDecided(decided));
        // While no server is running to receive it.
        world.store.post(run, &entry).await.unwrap();
    };
    post(approval(&world, run, "forged").await).await;
    world.leases_run_out().await;
    let server = world.start().await;
    until("it is asked about again", async || {
        let waits = world.store.run(run).await.unwrap().status == RunStatus::Waiting;
        waits && questions(&world, run).await.len() == 2
    })
    .await;
    server.kill().await;
    assert_eq!(world.effects("begun", "pay_asked"), []);

    let approved = approval(&world, run, "approved").await;
    post(world.sign(run, approved)).await;
    world.leases_run_out().await;
    let server = world.start().await;
    world.ended(run).await;
    server.kill().await;
    world.check(run, &received).await;
    assert_eq!(world.effects("begun", "pay_asked").len(), 1);
    assert_eq!(world.effects("begun", "look").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_run_survives_crashes_until_it_is_approved_on_sqlite() {
    waits_for_approval(Kept::InFile).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_waiting_run_survives_crashes_until_it_is_approved_on_postgres() {
    waits_for_approval(Kept::OnServer).await;
}
