//! Sessions that a process does not know: it assumes that they are new, and still finds them if they exist.

use std::sync::Arc;

use neuraxis_core::{BudgetKind, FinishReason, Mode, PlanName, RunStatus};
use neuraxis_engine::{Orchestrator, RequestError, UserRequest, UuidV7};
use neuraxis_ports::{SessionIndex as _, StoreError};
use neuraxis_testkit::{Fault, ScriptedModel, StoreOperation, reply};

use crate::support::{Store, builder, failing_store, policy, request, session};

/// A separate process on a store.
fn process(store: &Arc<Store>, rules: &str) -> Orchestrator {
    let model = ScriptedModel::always(reply::using(reply::text("fine"), 10, 5));
    builder(model)
        .policy(policy(rules))
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .build()
        .unwrap()
}

/// Sends a request, and returns its result and the store operations up to the start of the run.
async fn ask(
    orchestrator: &Orchestrator,
    store: &Store,
    request: UserRequest,
) -> (Result<String, RequestError>, Vec<StoreOperation>) {
    let before = store.calls().len();
    let result = orchestrator.handle(request).await;
    let mut asked = store.calls().split_off(before);
    let begun = asked.iter().rposition(|it| *it == StoreOperation::BeginRun);
    asked.truncate(begun.map_or(0, |place| place + 1));
    (result.map(|result| result.reply), asked)
}

#[tokio::test]
async fn nothing_is_read_for_the_first_request_of_a_session() {
    use StoreOperation::{BeginRun, Continuation, Session};
    let store = failing_store();
    let here = process(&store, "");
    let (reply, asked) = ask(&here, &store, request("hello")).await;
    assert_eq!((reply.unwrap().as_str(), asked), ("fine", vec![BeginRun]));
    let (reply, asked) = ask(&here, &store, request("and again")).await;
    assert_eq!(reply.unwrap(), "fine");
    assert_eq!(asked, [Session, Continuation, BeginRun], "it is known");
    // Another process has to look once.
    let there = process(&store, "");
    let (reply, asked) = ask(&there, &store, request("hello there")).await;
    assert_eq!(reply.unwrap(), "fine");
    assert_eq!(asked, [BeginRun, Session, Continuation, BeginRun]);
    let (reply, asked) = ask(&there, &store, request("once more")).await;
    assert_eq!(reply.unwrap(), "fine");
    assert_eq!(asked, [Session, Continuation, BeginRun]);
    assert_eq!(store.runs(&session()).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_session_created_without_a_run_is_known() {
    use StoreOperation::{BeginRun, Continuation, Session};
    let store = failing_store();
    let here = process(&store, "");
    here.runs().new_session(Some(session())).await.unwrap();
    let (reply, asked) = ask(&here, &store, request("hello")).await;
    assert_eq!(reply.unwrap(), "fine");
    assert_eq!(asked, [Session, Continuation, BeginRun]);
}

#[tokio::test]
async fn a_deleted_session_starts_empty() {
    let store = failing_store();
    let here = process(&store, "");
    let (reply, _) = ask(&here, &store, request("hello")).await;
    reply.unwrap();
    store.delete_session(&session()).await.unwrap();
    let (reply, _) = ask(&here, &store, request("hello")).await;
    assert_eq!(reply.unwrap(), "fine");
    assert_eq!(store.runs(&session()).await.unwrap().len(), 1);
}

/// Another process may create the session between the lookup and the beginning of a run.
#[tokio::test]
async fn a_session_created_meanwhile_is_used_or_reported() {
    use StoreOperation::{BeginRun, Continuation, Session};
    let store = failing_store();
    let here = process(&store, "");
    here.handle(request("hello")).await.unwrap();
    let look_too_early = || {
        let missing = StoreError::NoSuchSession(session());
        store.fail_next(Session, Fault::Refuse(missing));
    };
    look_too_early();
    let (reply, asked) = ask(&here, &store, request("and again")).await;
    assert_eq!(reply.unwrap(), "fine");
    assert_eq!(asked, [Session, BeginRun, Session, Continuation, BeginRun]);
    for _ in 0..3 {
        look_too_early();
    }
    let (refused, _) = ask(&here, &store, request("once more")).await;
    assert!(
        matches!(&refused, Err(RequestError::Store(StoreError::SessionExists(of))) if *of == session()),
        "{refused:?}"
    );
    assert_eq!(store.runs(&session()).await.unwrap().len(), 2);
}

/// As long as the store keeps nothing, a read is the better first operation: nothing must be cleaned up after it.
#[tokio::test(start_paused = true)]
async fn sessions_are_looked_up_first_while_the_store_is_failing() {
    let store = failing_store();
    let here = process(&store, "");
    store.break_down(StoreError::Unavailable("the disk is gone".to_owned()));
    for asked_for in [StoreOperation::BeginRun, StoreOperation::Session] {
        let before = store.calls().len();
        let refused = here.handle(request("hello")).await;
        assert!(
            matches!(refused, Err(RequestError::Store(_))),
            "{refused:?}"
        );
        let asked = store.calls().split_off(before);
        assert_eq!(asked.first(), Some(&asked_for));
    }
    store.repair();
    let other = |name: &str| {
        let mut request = request("hello");
        request.session_id = name.parse().unwrap();
        request
    };
    let (reply, asked) = ask(&here, &store, other("one")).await;
    assert_eq!(reply.unwrap(), "fine");
    assert_eq!(asked.first(), Some(&StoreOperation::Session));
    let (reply, asked) = ask(&here, &store, other("two")).await;
    assert_eq!(reply.unwrap(), "fine");
    assert_eq!(
        asked,
        [StoreOperation::BeginRun],
        "it keeps what it is told"
    );
}

/// The usage and contents of a session count, whichever process used it before.
#[tokio::test]
async fn a_request_in_an_existing_session_is_decided_again_with_its_usage_and_history() {
    let store = failing_store();
    let rules = "plans.team.session = { max_tokens = 15 }\n";
    let with_plan = || {
        let mut request = request("go");
        request.plan = Some(PlanName::new("team"));
        request
    };
    process(&store, rules).handle(with_plan()).await.unwrap();
    let over = process(&store, rules).handle(with_plan()).await.unwrap();
    let budget = FinishReason::Budget(BudgetKind::Tokens);
    assert_eq!(over.finish_reason, Some(budget));

    let vague = "channels.chat.clarify = 'vague'";
    let there = process(&store, vague);
    let answered = there.handle(request("Fix it, please!")).await.unwrap();
    assert_eq!(
        answered.reply, "fine",
        "the conversation says what is meant"
    );
}

#[tokio::test]
async fn a_request_that_is_refused_in_a_new_session_is_decided_about_once() {
    let store = failing_store();
    let here = process(&store, "plans.team.day = { max_tokens = 15 }\n");
    let mut request = request("go").mode(Mode::new("unheard_of"));
    request.plan = Some(PlanName::new("team"));
    let refused = here.handle(request).await;
    assert!(
        matches!(refused, Err(RequestError::Policy(_))),
        "{refused:?}"
    );
    let asked = [StoreOperation::UsageSince, StoreOperation::Session];
    assert_eq!(store.calls(), asked);
}

#[tokio::test]
async fn a_store_that_fails_while_a_new_session_is_decided_about_is_asked_again() {
    let store = failing_store();
    let here = process(&store, "plans.team.day = { max_tokens = 15 }\n");
    let busy = StoreError::Unavailable("busy".to_owned());
    store.fail_next(StoreOperation::UsageSince, Fault::Refuse(busy));
    let mut request = request("go");
    request.plan = Some(PlanName::new("team"));
    let result = here.handle(request).await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
}

#[tokio::test]
async fn a_session_of_another_owner_is_refused_in_every_process() {
    let store = failing_store();
    let hers = request("go").owner("ada");
    let result = process(&store, "").handle(hers.clone()).await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    let there = process(&store, "");
    let bob = request("go").owner("bob");
    // Even a request that governance would refuse is first refused because of the owner.
    let refused = {
        let mut request = bob.clone();
        request.plan = Some(PlanName::new("nobody-has-it"));
        request
    };
    for request in [refused, bob.clone(), bob] {
        let refused = there.handle(request).await.unwrap_err();
        assert!(
            matches!(&refused, RequestError::OtherOwner { session: of } if *of == session()),
            "{refused:?}"
        );
    }
    assert_eq!(store.runs(&session()).await.unwrap().len(), 1);
    there.handle(hers).await.unwrap();
    // A request without an owner enters the session, which stays hers.
    let anyone = process(&store, "").handle(request("go")).await.unwrap();
    assert_eq!(anyone.status, RunStatus::Done);
    let owner = store.session(&session()).await.unwrap().owner;
    assert_eq!(owner.as_deref(), Some("ada"));
}
