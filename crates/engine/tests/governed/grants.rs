//! "Allow for this session": grants are remembered with the session, limited by the policy, listed and revoked.

use neuraxis_core::{
    AgentId, ApprovalDecision, Channel, GrantScope, Mode, RecordBody, Role, RunStatus, ToolFailure,
    Vetting,
};
use neuraxis_engine::{Agent, UserRequest, UuidV7};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{ApproverReply, RunLog as _, SessionIndex as _};
use neuraxis_testkit::{
    FailingStore, Fault, ScriptedApprover, ScriptedModel, StoreOperation, reply,
};

use std::sync::Arc;
use std::time::Duration;

use crate::support::{World, json, later, nobody, session};

const PUT: (&str, &str) = ("put", r#"{"n":1}"#);
const OTHER: (&str, &str) = ("put", r#"{"n":2}"#);

fn for_session(scope: GrantScope) -> ScriptedApprover {
    ScriptedApprover::new().approve_for_session(scope)
}

fn these_arguments() -> GrantScope {
    GrantScope::Arguments {
        hash: json(PUT.1).hash(),
    }
}

#[tokio::test]
async fn a_tool_approved_for_the_session_needs_no_further_approval_in_it() {
    let world = World::new("", for_session(GrantScope::Tool));
    world.calls(Mode::MODERATE, &[PUT]).await.is_done();
    let ran = world.calls(Mode::MODERATE, &[OTHER]).await;
    assert_eq!(world.approver.asks().len(), 1);
    assert_eq!(world.tools.put.count(), 2);
    let Vetting::Run { grant, reason, .. } = &ran.vettings()[0] else {
        panic!("it runs")
    };
    assert_eq!(*grant, Some(1));
    assert_eq!(
        reason.as_deref(),
        Some("Remembered answer 1 allows it for the session.")
    );
    let elsewhere = world.calls_in("t", Mode::MODERATE, &[&[OTHER]]).await;
    assert_eq!(
        elsewhere.results()[0].failure,
        Some(ToolFailure::Denied),
        "another session remembers nothing"
    );
}

#[tokio::test]
async fn an_approval_for_specific_arguments_is_bound_to_their_hash() {
    let world = World::new("", for_session(these_arguments()));
    let ran = world.calls(Mode::MODERATE, &[PUT, PUT, OTHER]).await;
    let failures: Vec<_> = ran.results().iter().map(|result| result.failure).collect();
    assert_eq!(world.tools.put.count(), 1, "{failures:?}");
    let again = world.calls(Mode::MODERATE, &[PUT]).await;
    assert!(again.results()[0].failure.is_none());
    assert_eq!(world.tools.put.count(), 2);
}

#[tokio::test]
async fn remembered_answers_are_listed_and_revoked_one_by_one() {
    let world = World::new(
        "",
        for_session(GrantScope::Tool).approve_for_session(GrantScope::Tool),
    );
    world.calls(Mode::MODERATE, &[PUT]).await;
    world.calls(Mode::MODERATE, &[("send", "{}")]).await;
    let remembered = world
        .orchestrator
        .approvals()
        .grants(&session("s"))
        .await
        .unwrap();
    let listed: Vec<_> = remembered.grants().iter().collect();
    assert_eq!((listed.len(), listed[0].id, listed[1].id), (2, 1, 2));
    assert_eq!(listed[0].tool.as_str(), "put");
    assert_eq!(listed[0].by.as_deref(), Some("tester"));
    assert!(
        world
            .orchestrator
            .approvals()
            .revoke(&session("s"), 1)
            .await
            .unwrap()
    );
    assert!(
        !world
            .orchestrator
            .approvals()
            .revoke(&session("s"), 1)
            .await
            .unwrap()
    );
    let ran = world.calls(Mode::MODERATE, &[PUT, ("send", "{}")]).await;
    assert_eq!(ran.results()[0].failure, Some(ToolFailure::Denied));
    assert_eq!(ran.results()[1].failure, None);
    let nowhere = world
        .orchestrator
        .approvals()
        .revoke(&session("nowhere"), 1)
        .await;
    assert!(matches!(
        nowhere,
        Err(neuraxis_ports::StoreError::NoSuchSession(_))
    ));
}

#[tokio::test]
async fn a_grant_revoked_while_a_run_is_in_progress_no_longer_counts_in_it() {
    let world = World::new("", for_session(GrantScope::Tool).then(ApproverReply::Later));
    world.calls(Mode::MODERATE, &[PUT]).await;
    let ran = world
        .calls_in("s", Mode::MODERATE, &[&[("send", "{}")], &[PUT]])
        .await;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    assert_eq!(waiting.len(), 1, "{:?}", ran.result);
    assert!(
        world
            .orchestrator
            .approvals()
            .revoke(&session("s"), 1)
            .await
            .unwrap()
    );
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    assert_eq!(world.tools.send.count(), 1);
    assert_eq!(
        world.tools.put.count(),
        1,
        "it was asked about and nobody was there"
    );
}

#[tokio::test]
async fn policy_limits_how_much_can_be_remembered() {
    let rules = "[rules.care]\nanswer = 'ask'\ntools = ['put']\nremember = 'arguments'\n\
                 [rules.never]\nanswer = 'ask'\ntools = ['send']\nremember = 'never'\n";
    let approver = for_session(GrantScope::Tool).approve_for_session(GrantScope::Tool);
    let world = World::new(rules, approver);
    let ran = world.calls(Mode::MODERATE, &[PUT, ("send", "{}")]).await;
    assert!(ran.results().iter().all(|result| result.failure.is_none()));
    let remembered = world
        .orchestrator
        .approvals()
        .grants(&session("s"))
        .await
        .unwrap();
    assert!(
        remembered.grants().is_empty(),
        "allowed this once: {remembered:?}"
    );
    assert!(world.approver.asks()[1].choices.is_empty());
    let again = world.calls(Mode::MODERATE, &[PUT]).await;
    assert_eq!(again.results()[0].failure, Some(ToolFailure::Denied));
}

#[tokio::test]
async fn a_remembered_answer_does_not_outlive_its_policy_or_override_a_denial() {
    let world = World::new("", for_session(GrantScope::Tool));
    world.calls(Mode::MODERATE, &[PUT]).await;
    let stricter = World::with(
        "[rules.no]\nanswer = 'deny'\ntools = ['put']",
        nobody(),
        |it| it.store(world.store.clone()).ids(Arc::new(UuidV7)),
    );
    let changed = World::with("[modes.moderate]\nmax_turns = 9", nobody(), |it| {
        it.store(world.store.clone()).ids(Arc::new(UuidV7))
    });
    for other in [stricter, changed] {
        let ran = other.calls(Mode::MODERATE, &[PUT]).await;
        assert!(ran.results()[0].failure.is_some());
        assert_eq!(other.tools.put.count(), 0);
    }
}

#[tokio::test]
async fn a_remembered_answer_does_not_count_after_untrusted_content() {
    let approver = for_session(GrantScope::Tool).approve();
    let world = World::new("", approver);
    world.calls(Mode::MODERATE, &[PUT]).await;
    let ran = world
        .calls_in("s", Mode::MODERATE, &[&[("fetch", "{}")], &[PUT]])
        .await;
    assert_eq!(world.tools.fetch.count(), 1);
    assert_eq!(ran.results()[1].failure, Some(ToolFailure::Denied));
}

#[tokio::test]
async fn a_tool_returning_untrusted_content_is_never_remembered_and_asks_again() {
    let approver = for_session(GrantScope::Tool).approve();
    let world = World::new("", approver);
    let calls: &[(&str, &str)] = &[("run_command", r#"{"command":"ls"}"#)];
    world
        .calls_in("s", Mode::MODERATE, &[calls, calls])
        .await
        .is_done();
    assert_eq!(world.tools.command.count(), 2, "each time a person said so");
    let asks = world.approver.asks();
    assert!(asks.iter().all(|ask| ask.choices.is_empty()), "{asks:?}");
    assert!(!asks[0].reason.contains("untrusted"), "{}", asks[0].reason);
    assert!(
        asks[1]
            .reason
            .contains("untrusted content (from run_command)"),
        "{}",
        asks[1].reason
    );
    let remembered = world
        .orchestrator
        .approvals()
        .grants(&session("s"))
        .await
        .unwrap();
    assert!(remembered.grants().is_empty());
}

#[tokio::test]
async fn what_a_session_remembers_is_checked_against_its_log_once_a_run_unless_it_changes() {
    let failing = Arc::new(FailingStore::new(MemoryStore::new()));
    let approver = for_session(GrantScope::Tool).approve_for_session(GrantScope::Tool);
    let world = World::with("", approver, |builder| builder.store(failing.clone()));
    let checks = || {
        let calls = failing.calls();
        let checks = calls.iter().filter(|it| **it == StoreOperation::Verify);
        checks.count()
    };
    world.calls(Mode::MODERATE, &[PUT]).await.is_done();
    let before = checks();
    let batches: [&[_]; 3] = [&[PUT], &[OTHER], &[PUT]];
    let ran = world.calls_in("s", Mode::MODERATE, &batches).await;
    ran.is_done();
    assert_eq!(world.tools.put.count(), 4);
    assert_eq!(checks() - before, 1);
    // The answer about the second tool is another one to check.
    let batches: [&[_]; 4] = [&[PUT], &[("send", "{}")], &[PUT], &[PUT]];
    let ran = world.calls_in("s", Mode::MODERATE, &batches).await;
    ran.is_done();
    assert_eq!(checks() - before, 3);
}

#[tokio::test]
async fn an_approval_that_cannot_be_remembered_still_applies_to_its_call() {
    let failing = Arc::new(FailingStore::new(MemoryStore::new()));
    let away = neuraxis_ports::StoreError::Unavailable("for a moment".to_owned());
    // Grants are read whenever the call is judged: before the user is asked, and after the user has answered.
    let looks = |times| {
        for _ in 0..times {
            failing.fail_next(StoreOperation::Carried, Fault::AnswerLate(Duration::ZERO));
        }
        failing.fail_next(StoreOperation::Carried, Fault::Refuse(away.clone()));
    };
    looks(1);
    let approver = for_session(GrantScope::Tool);
    let world = World::with("", approver, |builder| builder.store(failing.clone()));
    let ran = world.calls(Mode::MODERATE, &[PUT]).await;
    assert!(ran.is_done().results()[0].failure.is_none());
    let claims = |found: &Vetting| matches!(found, Vetting::Run { grant: Some(_), .. });
    assert!(
        !ran.vettings().iter().any(claims),
        "no remembered answer lets it run"
    );
    let remembered = failing.carried(&session("s")).await.unwrap().remembered;
    assert!(remembered.grants().is_empty());
    // If the grants cannot be read, the user is asked.
    looks(0);
    let ran = world.calls(Mode::MODERATE, &[PUT]).await;
    assert_eq!(ran.results()[0].failure, Some(ToolFailure::Denied));
}

#[tokio::test(start_paused = true)]
async fn an_unrecorded_grant_of_a_cancelled_sub_agent_lets_nothing_run() {
    let failing = Arc::new(FailingStore::new(MemoryStore::new()));
    let approver = for_session(GrantScope::Tool);
    let helper = ScriptedModel::new().then(reply::calls([PUT]));
    let role = Role::new("helper");
    let agent = Agent::builder("help").role(role.clone());
    let agent = agent.tools_named(["put"]).build().unwrap();
    let world = World::with("", approver, |builder| {
        let builder = builder.store(failing.clone());
        builder.model(role, Arc::new(helper)).agent_tool(agent)
    });
    world
        .model
        .push(reply::calls([("help", r#"{"task":"Do it."}"#)]));
    world.model.push(reply::calls([OTHER]));
    world.model.push(reply::text("Done."));
    // Before the user is asked, and after the user has answered.
    for seconds in [0, 10] {
        let late = Fault::AnswerLate(Duration::from_secs(seconds));
        failing.fail_next(StoreOperation::Carried, late);
    }
    let request = UserRequest::new(session("s"), "Please do it.").mode(Mode::MODERATE);
    let request = request.channel(Channel::CODE_TASK);
    let (handle, _) = world.orchestrator.stream(request).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    handle.cancel_agent(AgentId(1), "enough").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    assert_eq!(world.tools.put.count(), 0);
    assert_eq!(world.approver.asks().len(), 2, "the person is asked again");
}

#[tokio::test]
async fn an_approval_for_the_session_stores_exactly_one_grant() {
    let world = World::new("", later(1));
    world.calls(Mode::MODERATE, &[PUT]).await;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    let decision = ApprovalDecision::approve_for_session(GrantScope::Tool);
    world.decide(&waiting[0], decision).await;
    let remembered = world
        .orchestrator
        .approvals()
        .grants(&session("s"))
        .await
        .unwrap();
    assert_eq!(remembered.grants().len(), 1);
    assert_eq!(remembered.grants()[0].by.as_deref(), Some("ada"));
    // If the same records are committed again, as by a process that took over in between, the session remembers the
    // same grants.
    let records = world
        .store
        .records(waiting[0].run_id, neuraxis_core::Seq(0));
    let records = records.await.unwrap();
    let mut ran = records.iter().filter_map(|record| match &record.body {
        RecordBody::Verdict(vetted) => Some(vetted.calls.clone()),
        _ => None,
    });
    let last = ran.next_back().unwrap();
    assert!(
        matches!(last[0], Vetting::Run { grant: Some(1), .. }),
        "{last:?}"
    );
}
