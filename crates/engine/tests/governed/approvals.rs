//! Approvals: at any depth, several at the same time, with edited arguments, and by any process.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    AgentId, ApprovalDecided, ApprovalDecision, Channel, ContentHash, FinishReason, InboxEntry,
    InboxInput, InputId, Mode, Record, RecordBody, Role, RunOutcome, RunStatus, RunUsage, Seq,
    ToolFailure, ToolSpec,
};
use neuraxis_engine::{
    Agent, ClientInput, ClientInputError, DecideError, Decided, FoundApprovals, RequestError,
    ResumeError, UserRequest, WaitingApproval,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog, StoreError};
use neuraxis_testkit::{
    FailingStore, Fault, ScriptedApprover, ScriptedModel, StoreOperation, reply, spec,
};

use crate::support::{World, json, later, results};

fn agent(name: &'static str, role: Role, tools: &[&str]) -> Agent {
    let agent = Agent::builder(name).role(role);
    let agent = agent.tools_named(tools.iter().copied());
    agent.build().unwrap()
}

const TASK: &str = r#"{"task":"Do it."}"#;

/// A world whose root agent calls an agent that calls an agent that calls `put`.
fn two_deep() -> World {
    let outer = ScriptedModel::new()
        .then(reply::calls([("inner", TASK)]))
        .then(reply::text("The inner one did it."));
    let inner = ScriptedModel::new()
        .then(reply::calls([("put", r#"{"n":1}"#)]))
        .then(reply::text("Put."));
    let (first, second) = (Role::new("outer"), Role::new("inner"));
    World::with("", later(2), |builder| {
        builder
            .model(first.clone(), Arc::new(outer))
            .model(second.clone(), Arc::new(inner))
            .agent_tool(agent("outer", first, &["inner"]))
            .agent_tool(agent("inner", second, &["put"]))
    })
}

#[tokio::test]
async fn an_approval_inside_a_nested_sub_agent_can_be_decided_and_the_run_continues() {
    let world = two_deep();
    let ran = world.calls(Mode::MODERATE, &[("outer", TASK)]).await;
    assert_eq!(ran.result.status, RunStatus::Waiting);
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    assert_eq!((waiting.len(), waiting[0].agent), (1, AgentId(2)));
    assert_eq!(waiting[0].request.name, "put".into());
    assert_eq!(world.orchestrator.tools().specs().count(), 9);
    let edited = ApprovalDecision::approve_with(json(r#"{"n":2}"#));
    world.decide(&waiting[0], edited).await;
    assert_eq!(world.tools.put.calls()[0].arguments.as_str(), r#"{"n":2}"#);
    let run = world.orchestrator.approvals().list().await.unwrap();
    assert!(run.is_empty());
    let results = results(&world.records_of(&ran).await);
    assert_eq!(results.last().unwrap().name, "outer".into());
    assert!(results.iter().all(|result| result.failure.is_none()));
}

#[tokio::test]
async fn approvals_are_listed_across_sessions_and_decided_one_by_one() {
    let world = World::new("", later(3));
    let puts = [("put", r#"{"n":1}"#), ("put", r#"{"n":2}"#)];
    world.model.push(reply::calls(puts));
    let first = world.ask("one", Mode::MODERATE).await;
    world.model.push(reply::calls([("send", "{}")]));
    let second = world.ask("two", Mode::MODERATE).await;
    world.model.push(reply::text("Done."));
    world.model.push(reply::text("Done."));
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    let listed: Vec<_> = waiting
        .iter()
        .map(|it| (it.session_id.as_str(), it.request.name.as_ref()))
        .collect();
    assert_eq!(listed, [("one", "put"), ("one", "put"), ("two", "send")]);
    assert_eq!(waiting[0].request.arguments.as_str(), r#"{"n":1}"#);

    world.decide(&waiting[2], ApprovalDecision::APPROVE).await;
    assert_eq!(world.tools.send.count(), 1);
    let done = world.store.as_ref();
    let summary = neuraxis_ports::SessionIndex::run(done, second.result.run_id).await;
    assert_eq!(summary.unwrap().status, RunStatus::Done);

    let reason = Some("not this one".to_owned());
    world
        .decide(&waiting[1], ApprovalDecision::Deny { reason })
        .await;
    let left = world.orchestrator.approvals().list().await.unwrap();
    assert_eq!(left.len(), 1, "the other question is still open");
    world.decide(&left[0], ApprovalDecision::APPROVE).await;
    assert_eq!(world.tools.put.count(), 1);
    let results = results(&world.records_of(&first).await);
    assert_eq!(results.iter().filter(|it| it.failure.is_none()).count(), 1);
    let denied = results.iter().find(|it| it.failure.is_some()).unwrap();
    assert_eq!(denied.failure, Some(ToolFailure::Denied));
    assert!(
        denied.value.as_str().contains("not this one"),
        "the model hears why"
    );
}

#[tokio::test]
async fn waiting_approvals_are_paged_by_run_and_verified_only_on_request() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let world = World::with("", later(4), |builder| builder.store(store.clone()));
    let puts = [("put", r#"{"n":1}"#), ("put", r#"{"n":2}"#)];
    for (session, calls) in [
        ("one", &puts[..]),
        ("two", &puts[..1]),
        ("three", &puts[..1]),
    ] {
        world.model.push(reply::calls(calls.iter().copied()));
        world.ask(session, Mode::MODERATE).await;
    }
    let altered = StoreError::Damaged("it was altered".to_owned());
    store.fail_next(StoreOperation::Verify, Fault::Refuse(altered));
    let approvals = world.orchestrator.approvals();
    let sessions = |found: &FoundApprovals| -> Vec<String> {
        let sessions = found.waiting.iter().map(|it| it.session_id.to_string());
        sessions.collect()
    };
    let first = approvals.page(None, 2).await.unwrap();
    assert_eq!(sessions(&first), ["one", "one", "two"]);
    assert_eq!(first.next, Some(first.waiting[2].run_id));
    let second = approvals.page(first.next, 2).await.unwrap();
    assert_eq!(sessions(&second), ["three"]);
    assert_eq!(second.next, None);
    let run = second.waiting[0].run_id;
    assert_eq!(second.waiting[0].altered, None);
    let run = neuraxis_ports::SessionIndex::run(store.as_ref(), run).await;
    let looked_at = approvals.of_run(&run.unwrap()).await.unwrap();
    assert_eq!(looked_at[0].altered.as_deref(), Some("it was altered"));
    assert_eq!(approvals.list().await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_decision_about_other_arguments_or_no_open_call_is_refused() {
    let world = World::new("", later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", r#"{"n":1}"#)]).await;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    let call = &waiting[0].request.tool_call_id;
    let other = ContentHash::of(b"{\"n\":9}");
    let run = ran.result.run_id;
    let approvals = world.orchestrator.approvals();
    let decide = |call, hash| {
        let approve = ApprovalDecision::APPROVE;
        approvals.decide(run, call, hash, approve, None)
    };
    let refused = decide(call, other).await;
    assert!(
        matches!(refused, Err(ResumeError::NotAsked(_))),
        "{refused:?}"
    );
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    let late = decide(call, waiting[0].request.arguments_hash).await;
    assert!(matches!(late, Err(ResumeError::NotAsked(_))), "{late:?}");
    assert_eq!(world.tools.put.count(), 1);
}

#[tokio::test]
async fn edited_arguments_that_the_tool_cannot_accept_are_refused_and_the_call_waits() {
    let world = World::new("", later(1));
    world.calls(Mode::MODERATE, &[("put", r#"{"n":1}"#)]).await;
    let approvals = world.orchestrator.approvals();
    let waiting = approvals.list().await.unwrap();
    let asked = &waiting[0].request;
    for (edited, why) in [(r#"{"n":2"#, "not JSON"), ("[2]", "object")] {
        let refused = approvals.decide(
            waiting[0].run_id,
            &asked.tool_call_id,
            asked.arguments_hash,
            ApprovalDecision::approve_with(json(edited)),
            None,
        );
        let refused = refused.await.unwrap_err();
        assert_eq!(refused.kind(), "invalid_arguments");
        assert!(refused.to_string().contains(why), "{refused}");
    }
    assert_eq!(approvals.list().await.unwrap(), waiting);
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    assert_eq!(world.tools.put.calls()[0].arguments.as_str(), r#"{"n":1}"#);
}

#[tokio::test]
async fn edited_arguments_are_judged_again_and_can_be_denied_by_a_rule() {
    let rules = "[rules.no]\nanswer = 'deny'\ntools = ['put']\npaths = ['secrets/**']";
    let world = World::new(rules, later(1));
    let ran = world
        .calls(Mode::MODERATE, &[("put", r#"{"path":"a"}"#)])
        .await;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    let edited = ApprovalDecision::approve_with(json(r#"{"path":"secrets/a"}"#));
    world.decide(&waiting[0], edited).await;
    assert_eq!(world.tools.put.count(), 0);
    let results = results(&world.records_of(&ran).await);
    assert_eq!(results[0].failure, Some(ToolFailure::Denied));
}

/// A world in which a call waits for approval, and its store.
async fn waits() -> (World, Arc<FailingStore<MemoryStore>>, WaitingApproval) {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let world = World::with("", later(1), |builder| builder.store(store.clone()));
    world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    let waiting = waiting.into_iter().next().unwrap();
    (world, store, waiting)
}

/// Decides about the call while another process holds its run.
async fn decide_elsewhere(
    (world, store, waiting): &(World, Arc<FailingStore<MemoryStore>>, WaitingApproval),
    decision: ApprovalDecision,
) -> Result<Decided, DecideError> {
    for _ in 0..2 {
        let busy = StoreError::SessionBusy {
            session: waiting.session_id.clone(),
            run: waiting.run_id,
        };
        store.fail_next(StoreOperation::BeginRun, Fault::Refuse(busy));
    }
    let approvals = world.orchestrator.approvals();
    let decided = approvals.decide_and_resume(waiting, decision, None).await;
    store.repair();
    decided
}

fn is_answered_before(decided: &Result<Decided, DecideError>) -> bool {
    matches!(decided, Err(DecideError::Resume(ResumeError::NotAsked(_))))
}

const DENY: ApprovalDecision = ApprovalDecision::Deny { reason: None };

#[tokio::test(start_paused = true)]
async fn the_first_of_several_answers_to_a_run_held_elsewhere_counts() {
    let at_hand = waits().await;
    for _ in 0..2 {
        let denied = decide_elsewhere(&at_hand, DENY).await;
        assert!(matches!(denied, Ok(Decided::LeftToHolder)), "{denied:?}");
    }
    let approved = decide_elsewhere(&at_hand, ApprovalDecision::APPROVE).await;
    assert!(is_answered_before(&approved), "{approved:?}");
    let (world, store, waiting) = at_hand;
    let (run, request) = (waiting.run_id, &waiting.request);
    let (call, hash) = (&request.tool_call_id, request.arguments_hash);
    let approvals = world.orchestrator.approvals();
    let posted = approvals.decide(run, call, hash, ApprovalDecision::APPROVE, None);
    assert!(matches!(posted.await, Err(ResumeError::NotAsked(_))));
    world.orchestrator.runs().recover().await.unwrap();
    world.settled().await;
    let records = store.records(run, Seq(0)).await.unwrap();
    assert_eq!(results(&records)[0].failure, Some(ToolFailure::Denied));
    assert!(world.tools.put.calls().is_empty());
}

#[tokio::test]
async fn an_answer_to_an_already_answered_question_is_refused() {
    let world = World::new("", later(2));
    let puts = [("put", r#"{"n":1}"#), ("put", r#"{"n":2}"#)];
    world.calls(Mode::MODERATE, &puts).await;
    let approvals = world.orchestrator.approvals();
    // Two users read the open questions before either answers.
    let open = approvals.list().await.unwrap();
    let decide = |decision| approvals.decide_and_resume(&open[0], decision, None);
    let approved = decide(ApprovalDecision::APPROVE).await.unwrap();
    let Decided::Continues(run) = approved else {
        unreachable!("nobody else has the run");
    };
    // The other call still waits, so the run is released.
    assert_eq!(run.result().await.unwrap().status, RunStatus::Waiting);
    let denied = decide(DENY).await;
    assert!(is_answered_before(&denied), "{denied:?}");
    world.settled().await;
    let again = decide(ApprovalDecision::APPROVE).await;
    assert!(matches!(again, Ok(Decided::Continues(_))), "{again:?}");
    world.settled().await;
    world.decide(&open[1], ApprovalDecision::APPROVE).await;
    assert_eq!(world.tools.put.count(), 2);
}

#[tokio::test]
async fn a_previously_posted_answer_counts_and_a_different_one_is_refused() {
    let (world, store, waiting) = waits().await;
    let (run, request) = (waiting.run_id, &waiting.request);
    let approvals = world.orchestrator.approvals();
    let denied = ApprovalDecided {
        id: InputId::new(format!("answer-{}", request.effect_id)),
        tool_call_id: request.tool_call_id.clone(),
        arguments_hash: request.arguments_hash,
        decision: DENY,
        by: None,
        code: None,
        given_before: None,
    };
    let denied = InboxInput::ApprovalDecided(approvals.sign(run, denied));
    store.post(run, &InboxEntry::new(denied)).await.unwrap();
    let approve = ApprovalDecision::APPROVE;
    let approved = approvals.decide_and_resume(&waiting, approve, None).await;
    assert!(is_answered_before(&approved), "{approved:?}");
    world.settled().await;
    let records = store.records(run, Seq(0)).await.unwrap();
    assert_eq!(results(&records)[0].failure, Some(ToolFailure::Denied));
    assert_eq!(world.tools.put.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_decision_whose_text_must_not_be_stored_counts_without_the_store() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let policy = "channels.code_task.data = { text = false }\n";
    let silent = ScriptedApprover::new().stay_silent();
    let world = World::with(policy, silent, |builder| builder.store(store.clone()));
    world.model.push(reply::calls([("put", "{}")]));
    world.model.push(reply::text("ok"));
    let request = UserRequest::new("one".parse().unwrap(), "go")
        .mode(Mode::MODERATE)
        .channel(Channel::CODE_TASK);
    let (handle, _events) = world.orchestrator.stream(request).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let approvals = world.orchestrator.approvals();
    let waiting = approvals.list().await.unwrap();
    let denied = ApprovalDecision::Deny {
        reason: Some("a canary".to_owned()),
    };
    let decided = approvals.decide_and_resume(&waiting[0], denied, None).await;
    assert!(matches!(decided, Ok(Decided::LeftToHolder)), "{decided:?}");
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    assert!(!store.calls().contains(&StoreOperation::Post));
    assert_eq!(world.tools.put.count(), 0);
}

/// Decides about the call while another process holds its run, which soon continues differently.
async fn decide_while(
    body: impl FnOnce(&WaitingApproval) -> RecordBody,
) -> Result<Decided, DecideError> {
    let at_hand = waits().await;
    let (_, store, waiting) = &at_hand;
    let (store, session, run) = (
        Arc::clone(store),
        waiting.session_id.clone(),
        waiting.run_id,
    );
    let body = body(waiting);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let store = store.inner();
        let records = store.records(run, Seq(0)).await.unwrap();
        let mut next = Record::clone(records.last().unwrap());
        next.seq = Seq(next.seq.0 + 1);
        next.body = body;
        let lease = store.begin_run(&session, run).await.unwrap();
        store.commit(&lease, &[Arc::new(next)]).await.unwrap();
    });
    decide_elsewhere(&at_hand, ApprovalDecision::APPROVE).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_overtaken_by_another_is_refused() {
    // The user of that process had already answered, but the answer was not recorded yet.
    let approved = decide_while(|waiting| {
        RecordBody::ApprovalDecided(Box::new(ApprovalDecided {
            id: InputId::new("there"),
            tool_call_id: waiting.request.tool_call_id.clone(),
            arguments_hash: waiting.request.arguments_hash,
            decision: DENY,
            by: None,
            code: None,
            given_before: None,
        }))
    });
    let approved = approved.await;
    assert!(is_answered_before(&approved), "{approved:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_run_that_ends_elsewhere_is_not_reported_as_left_to_it() {
    let approved = decide_while(|_| {
        RecordBody::Final(Box::new(RunOutcome {
            content: "stopped there".to_owned(),
            finish_reason: FinishReason::Cancelled,
            turns: 1,
            usage: RunUsage::default(),
            sources: Vec::new(),
            unheard: 0,
            failed_call: None,
            interruption: None,
        }))
    });
    let approved = approved.await;
    assert!(
        matches!(
            approved,
            Err(DecideError::StoredOnly(ResumeError::Ended(_)))
        ),
        "{approved:?}"
    );
}

/// Such a run could not be read back: any later decision or client result would end it.
#[tokio::test]
async fn a_run_with_an_incomplete_log_never_waits_and_gives_the_reason() {
    let policy = "[channels.code_task]\ndata = { reasoning = false }\n";
    let world = World::new(policy, later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", r#"{"n":7}"#)]).await;
    assert_eq!(ran.result.status, RunStatus::Done);
    let results = results(&world.records_of(&ran).await);
    let told = results[0].value.as_str();
    assert!(
        told.contains("cannot wait for it: the data policy"),
        "{told}"
    );
    assert_eq!(world.tools.put.count(), 0);

    let weather = || {
        [ToolSpec::new(
            "weather".parse().unwrap(),
            "Tells the weather.",
        )]
    };
    let asks = |session: &str, client_input| {
        let request = UserRequest::new(session.parse().unwrap(), "Cold?");
        let request = request
            .mode(Mode::MODERATE)
            .channel(Channel::new("code_task"));
        world
            .orchestrator
            .handle(request.with_client_input(client_input))
    };
    let waits = asks("waits", ClientInput::default().tools(weather())).await;
    let withheld = ClientInputError::Withheld("reasoning");
    assert!(
        matches!(&waits, Err(RequestError::ClientInput(error)) if *error == withheld),
        "{waits:?}"
    );
    // The advice that a server's client can follow comes first: clients cannot choose how a run ends.
    let advice = withheld.to_string();
    assert!(advice.contains("; supply no tools, or "), "{advice}");
    let handed_over = ClientInput::default().tools(weather()).hand_over();
    assert!(asks("handed-over", handed_over).await.is_ok());
}

#[tokio::test]
async fn a_run_with_an_incomplete_log_does_not_wait_for_a_registered_client_tool() {
    let policy = "[channels.code_task]\ndata = { reasoning = false }\n";
    let pick = || spec("pick").read_only().build();
    let world = World::with(policy, later(0), |builder| builder.client_tool(pick()));
    let ran = world.calls(Mode::MODERATE, &[("pick", "{}")]).await;
    assert_eq!(ran.result.status, RunStatus::Done);
    let results = results(&world.records_of(&ran).await);
    assert_eq!(results[0].failure, Some(ToolFailure::NotEnabled));
    let told = results[0].value.as_str();
    assert!(told.contains("the data policy does not store"), "{told}");

    let world = World::with("", later(0), |builder| builder.client_tool(pick()));
    let ran = world.calls(Mode::MODERATE, &[("pick", "{}")]).await;
    assert_eq!(ran.result.status, RunStatus::Waiting, "where all is kept");
}
