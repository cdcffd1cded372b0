//! Runs that are forked from others.

use std::sync::Arc;

use neuraxis_brainstem::Refusal;
use neuraxis_core::{
    FinishReason, ForkPoint, ModelRequest, RecordBody, Role, RunId, RunStatus, Seq, SessionId,
    ToolKind, ToolSpec, Transcript, Turn,
};
use neuraxis_engine::{ClientInput, ForkError, ForkOptions, Orchestrator, RequestError};
use neuraxis_ports::{RunLog as _, SessionIndex as _, StoreError};
use neuraxis_testkit::{
    CountingIds, Fault, ScriptedModel, ScriptedTool, StoreOperation, assert_paired, reply, spec,
};

use crate::support::{Store, builder, failing_store, policy, request, run_to_end, session};

struct Forked {
    orchestrator: Orchestrator,
    model: Arc<ScriptedModel>,
    coder: Arc<ScriptedModel>,
    store: Arc<Store>,
    /// The second run of the session: two turns with calls, then an answer.
    run: RunId,
}

async fn two_runs() -> Forked {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::text("Hello."))
            .then(reply::calls([("look", r#"{"n":1}"#)]))
            .then(reply::calls([("look", r#"{"n":2}"#)]))
            .then(reply::text("Two doors.")),
    );
    let coder = Arc::new(ScriptedModel::always(reply::text("by the coder")));
    let store = failing_store();
    let orchestrator = builder(model.clone())
        .model(Role::CODING, coder.clone())
        .store(store.clone())
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .build()
        .unwrap();
    run_to_end(&orchestrator, request("Hi."))
        .await
        .assert_valid(RunStatus::Done);
    let second = run_to_end(&orchestrator, request("What is there?")).await;
    second.assert_valid(RunStatus::Done);
    Forked {
        orchestrator,
        model,
        coder,
        store,
        run: second.result.run_id,
    }
}

fn other() -> SessionId {
    "other".parse().unwrap()
}

fn texts(history: &Transcript) -> Vec<String> {
    history
        .messages()
        .iter()
        .map(|message| message.text())
        .collect()
}

#[tokio::test]
async fn a_fork_shares_the_conversation_up_to_its_turn_and_continues_separately() {
    let world = two_runs().await;
    let before = world.store.history(&session()).await.unwrap();
    let kept = world.store.records(world.run, Seq(0)).await.unwrap();
    world.model.push(reply::text("One door."));
    let options = ForkOptions::new(other());
    let handle = world
        .orchestrator
        .runs()
        .fork(world.run, Turn(1), options)
        .await
        .unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "One door.")
    );
    assert_eq!(result.session_id, other());

    let seed = world.store.session(&other()).await.unwrap().seed;
    assert_eq!(
        texts(&seed),
        ["Hi.", "Hello.", "What is there?", "", r#"{"n":1}"#]
    );
    assert_eq!(
        seed.messages(),
        &before.messages()[..5],
        "shared, not made anew"
    );
    let history = world.store.history(&other()).await.unwrap();
    assert_eq!(texts(&history)[5..], ["One door."]);
    assert_paired(history.messages());
    let sent = world.model.requests().pop().unwrap();
    assert_eq!(sent.messages.messages()[1..], *seed.messages());

    let records = handle.records();
    let RecordBody::RunStarted(started) = &records[0].body else {
        panic!("{records:?}")
    };
    let point = ForkPoint {
        run_id: world.run,
        turn: Turn(1),
    };
    assert_eq!(started.spec.forked_from, Some(point));
    assert_eq!(
        world.store.history(&session()).await.unwrap(),
        before,
        "the old session changed"
    );
    assert_eq!(world.store.records(world.run, Seq(0)).await.unwrap(), kept);
}

#[tokio::test]
async fn a_fork_has_the_title_of_its_source() {
    let world = two_runs().await;
    let runs = world.orchestrator.runs();
    let sessions = world.orchestrator.sessions();
    let title = Some("Two doors");
    sessions.rename(&session(), title).await.unwrap();
    let options = ForkOptions::new(other()).message("And windows?");
    let fork = runs.fork(world.run, Turn(9), options).await.unwrap();
    let forked = sessions.get(fork.session_id()).await.unwrap();
    assert_eq!(forked.title.as_deref(), title);
    sessions.rename(&session(), None).await.unwrap();
    let forked = sessions.get(&other()).await.unwrap();
    assert_eq!(forked.title.as_deref(), title, "it is a title of its own");
}

#[tokio::test]
async fn a_fork_at_each_turn_has_the_conversation_up_to_it() {
    let world = two_runs().await;
    for (turn, messages) in [(0, 3), (1, 5), (2, 7), (3, 8), (99, 8)] {
        world.model.push(reply::text("ok"));
        let id: SessionId = format!("fork-{turn}").parse().unwrap();
        let options = ForkOptions::new(id.clone()).message("And then?");
        let handle = world
            .orchestrator
            .runs()
            .fork(world.run, Turn(turn), options)
            .await
            .unwrap();
        let result = handle.result().await.unwrap();
        assert_eq!(
            result.finish_reason,
            Some(FinishReason::Stop),
            "turn {turn}"
        );
        let seed = world.store.session(&id).await.unwrap().seed;
        assert_eq!(seed.len(), messages, "turn {turn}: {:?}", texts(&seed));
        let history = world.store.history(&id).await.unwrap();
        assert_eq!(texts(&history)[messages..], ["And then?", "ok"]);
        assert_paired(history.messages());
    }
}

#[tokio::test]
async fn a_fork_can_be_forked_and_continues_like_any_session() {
    let world = two_runs().await;
    for answer in ["One door.", "Still one.", "None."] {
        world.model.push(reply::text(answer));
    }
    let first = ForkOptions::new(other());
    let first = world
        .orchestrator
        .runs()
        .fork(world.run, Turn(1), first)
        .await
        .unwrap();
    first.result().await.unwrap();
    let next = neuraxis_engine::UserRequest::new(other(), "Sure?");
    assert_eq!(
        world.orchestrator.handle(next).await.unwrap().reply,
        "Still one."
    );
    let third: SessionId = "third".parse().unwrap();
    let options = ForkOptions::new(third.clone()).message("Look again.");
    let second = world
        .orchestrator
        .runs()
        .fork(first.run_id(), Turn(1), options)
        .await
        .unwrap();
    assert_eq!(second.result().await.unwrap().reply, "None.");
    let history = world.store.history(&third).await.unwrap();
    assert_eq!(texts(&history)[5..], ["One door.", "Look again.", "None."]);
}

#[tokio::test]
async fn another_role_can_serve_the_fork_if_policy_allows_it() {
    let world = two_runs().await;
    let options = ForkOptions::new(other()).role(Role::CODING);
    let handle = world
        .orchestrator
        .runs()
        .fork(world.run, Turn(1), options)
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap().reply, "by the coder");
    assert_eq!(world.coder.calls().len(), 1);

    let options = ForkOptions::new("third".parse().unwrap()).role(Role::new("oracle"));
    let refused = world
        .orchestrator
        .runs()
        .fork(world.run, Turn(1), options)
        .await;
    let Err(ForkError::Request(RequestError::Policy(Refusal::RoleNotAllowed { allowed, .. }))) =
        refused
    else {
        panic!("{refused:?}")
    };
    assert!(allowed.contains(&Role::REASONING), "{allowed:?}");
}

#[tokio::test]
async fn a_fork_has_the_client_instructions_and_tools_of_its_run() {
    let model = Arc::new(ScriptedModel::always(reply::text("ok")));
    for own in ["channels.chat.system_prompt = 'Be kind.'", ""] {
        let orchestrator = builder(model.clone()).policy(policy(own)).build().unwrap();
        let weather = ToolSpec::new("weather".parse().unwrap(), "Tells the weather.");
        let client_input = ClientInput::default().instructions("Never promise refunds.");
        let asked = request("Hi.").with_client_input(client_input.tools([weather]));
        let run = run_to_end(&orchestrator, asked).await.result.run_id;
        let options = ForkOptions::new(other()).message("And now?");
        let fork = orchestrator.runs().fork(run, Turn(1), options).await;
        fork.unwrap().result().await.unwrap();
        let sent = model.requests();
        let [.., before, after] = sent.as_slice() else {
            panic!("two requests");
        };
        let told = |sent: &ModelRequest| sent.messages.messages()[0].text();
        assert!(told(before).ends_with("Never promise refunds."));
        assert_eq!(told(before), told(after));
        assert!(after.tools.iter().any(|tool| tool.kind == ToolKind::Client));
        assert_eq!(before.tools, after.tools);
    }
}

#[tokio::test]
async fn an_invalid_fork_is_refused_and_leaves_no_session() {
    let world = two_runs().await;
    let runs = world.orchestrator.runs();
    let fork = |run, turn, options| runs.fork(run, Turn(turn), options);
    let taken = fork(world.run, 1, ForkOptions::new(session())).await;
    assert!(
        matches!(taken, Err(ForkError::SessionExists(_))),
        "{taken:?}"
    );
    let answered = fork(world.run, 3, ForkOptions::new(other())).await;
    assert!(
        matches!(answered, Err(ForkError::NothingToAnswer)),
        "{answered:?}"
    );
    let unknown = fork(CountingIds::nth_run(77), 1, ForkOptions::new(other())).await;
    assert!(
        matches!(unknown, Err(ForkError::Store(StoreError::NoSuchRun(_)))),
        "{unknown:?}"
    );
    let mode = ForkOptions::new(other()).mode(neuraxis_core::Mode::new("YOLO"));
    let refused = fork(world.run, 1, mode).await;
    assert!(
        matches!(refused, Err(ForkError::Request(RequestError::Policy(_)))),
        "{refused:?}"
    );
    let fault = Fault::Refuse(StoreError::Damaged("page 7".to_owned()));
    world.store.fail_next(StoreOperation::Commit, fault);
    let failed = fork(world.run, 1, ForkOptions::new(other())).await;
    assert!(
        matches!(failed, Err(ForkError::Request(RequestError::Store(_)))),
        "{failed:?}"
    );
    tokio::task::yield_now().await;
    let sessions = world
        .store
        .sessions(&neuraxis_ports::SessionFilter::default())
        .await
        .unwrap();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
}
