//! The caller: the owner that a request names, and the values that tools read by their type.

use std::sync::{Arc, Mutex};

use neuraxis_core::{
    ApprovalDecision, ContentHash, JsonText, LlmError, LlmErrorKind, Message, Mode, ModelRequest,
    PlanName, Reply, ReplyPart, Role, RunStatus, Seq, SessionId, ToolOutput, ToolSpec, Turn,
};
use neuraxis_engine::{
    DecideError, Decided, Delivery, ForkOptions, Orchestrator, OrchestratorBuilder, RequestError,
    ResumeError, UserRequest,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    ApproverReply, CallContext, LlmClient, ModelInfo, ReplyStream, RequestContext,
    SessionIndex as _, StoreError, StoredContext, Tool, ToolContext, ToolError, TurnContext,
    async_trait,
};
use neuraxis_testkit::{ScriptedApprover, ScriptedModel, reply, spec};
use serde::{Deserialize, Serialize};

use crate::support::{builder, policy, run_to_end};

/// What the program knows about the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Tenant(u32);

impl StoredContext for Tenant {
    const NAME: &'static str = "tenant";
}

type Seen = Arc<Mutex<Vec<(Option<String>, Option<Tenant>)>>>;

/// Records the caller each time it runs.
#[derive(Debug)]
struct WhoAsks {
    spec: ToolSpec,
    seen: Seen,
}

#[async_trait]
impl Tool for WhoAsks {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn should_use(&self, turn: &TurnContext) -> bool {
        turn.request.get::<Tenant>() != Some(&Tenant(13))
    }

    async fn call(&self, _: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        let owner = ctx.owner().map(str::to_owned);
        let given = ctx.get::<Tenant>().cloned();
        let known = given.or(ctx.stored().unwrap());
        self.seen.lock().unwrap().push((owner, known));
        Ok(ToolOutput::new(JsonText::string("noted")))
    }
}

/// A program whose model calls `who` in each run and then answers.
struct Program {
    store: Arc<MemoryStore>,
    seen: Seen,
    orchestrator: Orchestrator,
}

impl Program {
    fn new(runs: usize) -> Self {
        Self::with(runs, |builder| builder)
    }

    fn with(runs: usize, more: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder) -> Self {
        let mut model = ScriptedModel::new();
        for _ in 0..runs {
            let calls = reply::using(reply::calls([("who", "{}")]), 10, 0);
            model = model
                .then(calls)
                .then(reply::using(reply::text("ok"), 200_000, 0));
        }
        let (store, seen) = (Arc::new(MemoryStore::new()), Seen::default());
        let who = WhoAsks {
            spec: spec("who").idempotent().build(),
            seen: Arc::clone(&seen),
        };
        let builder = builder(model).store(store.clone()).tool(Arc::new(who));
        Self {
            store,
            seen,
            orchestrator: more(builder).build().unwrap(),
        }
    }

    async fn owner_of(&self, session: &str) -> Option<String> {
        self.store.session(&id(session)).await.unwrap().owner
    }

    fn seen(&self) -> Vec<(Option<String>, Option<Tenant>)> {
        self.seen.lock().unwrap().clone()
    }
}

fn id(session: &str) -> SessionId {
    session.parse().unwrap()
}

fn ask(session: &str) -> UserRequest {
    UserRequest::new(id(session), "go").mode(Mode::EXPLORATORY)
}

fn ada() -> Option<String> {
    Some("ada".to_owned())
}

#[tokio::test]
async fn a_tool_sees_the_owner_and_the_context_of_the_request() {
    let program = Program::new(2);
    let request = ask("hers")
        .owner("ada")
        .context(Tenant(7))
        .context("unread");
    program.orchestrator.handle(request).await.unwrap();
    // A request without an owner may enter any session, and its tools are told the session's owner.
    program.orchestrator.handle(ask("hers")).await.unwrap();
    assert_eq!(program.seen(), [(ada(), Some(Tenant(7))), (ada(), None)]);
    assert_eq!(program.owner_of("hers").await, ada());
}

#[tokio::test]
async fn policy_rules_and_approvers_know_the_owner_of_the_session() {
    let rules = "[rules.desk]\nanswer = 'allow'\ntools = ['who']\nowners = ['ada']\n\
         [rules.barred]\nanswer = 'deny'\ntools = ['who']\nowners = ['eve']\n";
    let approver = Arc::new(ScriptedApprover::new().approve());
    let program = Program::with(3, |builder| {
        builder.policy(policy(rules)).approver(approver.clone())
    });
    for owner in ["ada", "bob", "eve"] {
        let asked = ask(owner).mode(Mode::MODERATE).owner(owner);
        program.orchestrator.handle(asked).await.unwrap();
    }
    let ran: Vec<_> = program.seen().into_iter().map(|(owner, _)| owner).collect();
    assert_eq!(ran, [ada(), Some("bob".to_owned())]);
    let asked: Vec<_> = approver.turns();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].owner(), Some("bob"));
}

/// A client around a model that checks which caller a request is for, and what is said.
#[derive(Debug)]
struct Guarded(ScriptedModel);

#[async_trait]
impl LlmClient for Guarded {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        if ctx.request.owner() == Some("bob") {
            let kind = LlmErrorKind::ContentFiltered;
            return Err(LlmError::new(kind, "not for Bob"));
        }
        let mut reply = self.0.respond(request, ctx).await?;
        for part in &mut reply.parts {
            if let ReplyPart::Text(part) = part {
                part.text = part.text.replace("4111", "[card]");
            }
        }
        Ok(reply)
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        self.0.stream_respond(request, ctx).await
    }

    fn info(&self) -> ModelInfo {
        self.0.info()
    }
}

#[tokio::test]
async fn a_model_client_sees_the_owner_and_its_changes_to_a_reply_are_recorded() {
    let model = Guarded(ScriptedModel::always(reply::text("It is 4111.")));
    let orchestrator = builder(ScriptedModel::new())
        .model(Role::REASONING, Arc::new(model))
        .build()
        .unwrap();
    let ask = |session| ask(session).delivery(Delivery::Whole);
    let finished = run_to_end(&orchestrator, ask("hers").owner("ada")).await;
    assert_eq!(finished.result.reply, "It is [card].");
    assert!(
        finished
            .records()
            .iter()
            .all(|record| !record.to_json().contains("4111"))
    );
    let refused = run_to_end(&orchestrator, ask("his").owner("bob")).await;
    assert_eq!(refused.result.status, RunStatus::Failed);
    assert!(refused.kinds().contains(&"llm_failed"));
}

#[tokio::test]
async fn a_tool_can_be_unavailable_to_some_requesters() {
    let program = Program::new(1);
    let result = program
        .orchestrator
        .handle(ask("s").context(Tenant(13)))
        .await;
    assert_eq!(result.unwrap().status, RunStatus::Done);
    assert!(program.seen().is_empty());
}

#[tokio::test]
async fn a_request_in_another_owner_s_session_is_refused_and_writes_nothing() {
    let program = Program::new(3);
    let orchestrator = &program.orchestrator;
    orchestrator.handle(ask("hers").owner("ada")).await.unwrap();
    orchestrator.handle(ask("nobody-s")).await.unwrap();
    let key = "once".parse().unwrap();
    let keyed = ask("keyed").owner("ada").idempotency_key(key);
    orchestrator.handle(keyed.clone()).await.unwrap();
    let repeat = keyed.owner("bob");
    assert!(orchestrator.runs().is_repeat(&repeat).await.is_err());
    let mut unowned = ask("hers");
    unowned.context = RequestContext::default().unowned();
    for (request, session) in [
        (ask("hers").owner("bob"), "hers"),
        (ask("nobody-s").owner("bob"), "nobody-s"),
        (repeat, "keyed"),
        (unowned, "hers"),
    ] {
        let before = program.store.runs(&id(session)).await.unwrap().len();
        let refused = orchestrator.handle(request).await.unwrap_err();
        assert!(
            matches!(&refused, RequestError::OtherOwner { session: of } if of.as_str() == session),
            "{refused}"
        );
        assert!(!refused.to_string().contains("ada"), "{refused}");
        let after = program.store.runs(&id(session)).await.unwrap().len();
        assert_eq!(after, before);
    }
}

#[tokio::test]
async fn a_session_of_somebody_else_is_not_renamed() {
    let program = Program::new(1);
    let runs = program.orchestrator.runs();
    let hers = ask("hers").owner("ada");
    program.orchestrator.handle(hers).await.unwrap();
    let of = |owner: &str| {
        let context = RequestContext::default().owned_by(Some(owner.to_owned()));
        runs.with_context(context)
    };
    for session in ["hers", "nobody-s"] {
        let refused = of("bob").rename_session(&id(session), Some("Mine")).await;
        assert_eq!(refused, Err(StoreError::NoSuchSession(id(session))));
    }
    let renamed = of("ada").rename_session(&id("hers"), Some("Hers")).await;
    assert_eq!(renamed.unwrap().title.as_deref(), Some("Hers"));
    // Without an owner, every session may be entered.
    let renamed = runs.rename_session(&id("hers"), None).await;
    assert_eq!(renamed.unwrap().title, None);
}

#[tokio::test]
async fn a_fork_belongs_to_its_owner_and_other_owners_cannot_make_one() {
    let program = Program::new(2);
    let runs = program.orchestrator.runs();
    let hers = ask("hers").owner("ada").context(Tenant(7));
    let ran = program.orchestrator.handle(hers).await.unwrap();
    let options = || {
        ForkOptions::new(id("fork"))
            .message("again")
            .mode(Mode::EXPLORATORY)
    };
    let bob = runs.with_context(RequestContext::default().owned_by(Some("bob".to_owned())));
    let refused = bob.fork(ran.run_id, Turn(9), options()).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("does not belong to this owner"),
        "{refused}"
    );
    let given = runs.with_context(RequestContext::default().with(Tenant(8)));
    let fork = given.fork(ran.run_id, Turn(9), options()).await.unwrap();
    fork.result().await.unwrap();
    assert_eq!(program.owner_of("fork").await, ada());
    assert_eq!(
        program.seen(),
        [(ada(), Some(Tenant(7))), (ada(), Some(Tenant(8)))]
    );
}

#[tokio::test]
async fn a_daily_budget_applies_to_its_owner_in_a_new_session_too() {
    let plan = PlanName::new("team");
    let program = Program::with(2, |builder| {
        let rules = policy("plans.team.day = { max_tokens = 100000 }\n");
        builder.policy(rules).default_plan(plan)
    });
    let orchestrator = &program.orchestrator;
    orchestrator.handle(ask("one").owner("ada")).await.unwrap();
    let spent = orchestrator.handle(ask("two").owner("ada")).await.unwrap();
    assert!(spent.reply.contains("today's budget"), "{}", spent.reply);
    orchestrator
        .handle(ask("three").owner("bob"))
        .await
        .unwrap();
    let owners: Vec<_> = program.seen().into_iter().map(|(owner, _)| owner).collect();
    assert_eq!(owners, [ada(), Some("bob".to_owned())]);
}

/// A run of Ada's that waits for approval.
async fn waits(approver: ScriptedApprover) -> Program {
    let program = Program::with(1, |builder| builder.approver(Arc::new(approver)));
    let request = ask("hers")
        .mode(Mode::MODERATE)
        .owner("ada")
        .context(Tenant(7));
    let result = program.orchestrator.handle(request).await.unwrap();
    assert_eq!(result.status, RunStatus::Waiting);
    program
}

#[tokio::test]
async fn a_resumed_run_knows_its_owner_but_needs_its_context_given_again() {
    for given in [None, Some(Tenant(9))] {
        let program = waits(ScriptedApprover::new().then(ApproverReply::Later)).await;
        let mut approvals = program.orchestrator.approvals();
        if let Some(tenant) = given.clone() {
            approvals = approvals.with_context(RequestContext::default().with(tenant));
        }
        let waiting = approvals.list().await.unwrap();
        let decided = approvals.decide_and_resume(&waiting[0], ApprovalDecision::APPROVE, None);
        let Decided::Continues(handle) = decided.await.unwrap() else {
            panic!("nobody else has it");
        };
        handle.result().await.unwrap();
        assert_eq!(program.seen(), [(ada(), given)]);
    }
}

#[tokio::test]
async fn stored_context_survives_resuming_and_forking_unless_replaced() {
    for (given, expected) in [(None, Tenant(7)), (Some(Tenant(9)), Tenant(9))] {
        let later = ScriptedApprover::new().then(ApproverReply::Later);
        let program = Program::with(2, |builder| builder.approver(Arc::new(later)));
        let request = ask("hers").mode(Mode::MODERATE).owner("ada");
        let request = request.stored_context(&Tenant(7)).unwrap();
        let result = program.orchestrator.handle(request).await.unwrap();
        assert_eq!(result.status, RunStatus::Waiting);
        let mut approvals = program.orchestrator.approvals();
        if let Some(tenant) = &given {
            let context = RequestContext::default().with_stored(tenant).unwrap();
            approvals = approvals.with_context(context);
        }
        let waiting = approvals.list().await.unwrap();
        let decided = approvals.decide_and_resume(&waiting[0], ApprovalDecision::APPROVE, None);
        let Decided::Continues(handle) = decided.await.unwrap() else {
            panic!("nobody else has it");
        };
        let run = handle.result().await.unwrap().run_id;
        assert_eq!(program.seen(), [(ada(), Some(expected))]);

        let options = ForkOptions::new(id("fork")).message("again");
        let options = options.mode(Mode::EXPLORATORY);
        let runs = program.orchestrator.runs();
        let fork = runs.fork(run, Turn(9), options).await.unwrap();
        fork.result().await.unwrap();
        assert_eq!(program.seen().last(), Some(&(ada(), Some(Tenant(7)))));
    }
}

#[tokio::test]
async fn a_run_of_another_owner_cannot_be_decided_or_resumed() {
    let program = waits(ScriptedApprover::new().then(ApproverReply::Later)).await;
    let bob = RequestContext::default().owned_by(Some("bob".to_owned()));
    let approvals = program.orchestrator.approvals().with_context(bob.clone());
    assert!(approvals.list().await.unwrap().is_empty(), "it is Ada's");
    let unowned = RequestContext::default().unowned();
    let of_nobody = program.orchestrator.approvals().with_context(unowned);
    assert!(of_nobody.list().await.unwrap().is_empty(), "it is Ada's");
    let all = program.orchestrator.approvals();
    let waiting = all.list().await.unwrap().remove(0);
    let decided = approvals.decide_and_resume(&waiting, ApprovalDecision::APPROVE, None);
    let Err(DecideError::Resume(ResumeError::OtherOwner { session })) = decided.await else {
        panic!("it is Ada's");
    };
    assert_eq!(session, id("hers"));
    // The error does not reveal whether a call waits, either.
    let (run, call) = (waiting.run_id, &waiting.request.tool_call_id);
    let other = ContentHash::of(b"other arguments");
    let refused = approvals.decide(run, call, other, ApprovalDecision::APPROVE, None);
    let refused = refused.await;
    assert!(
        matches!(refused, Err(ResumeError::OtherOwner { .. })),
        "{refused:?}"
    );
    let runs = program.orchestrator.runs().with_context(bob);
    let refused = runs.cancel(run, "mine now").await;
    assert!(
        matches!(refused, Err(ResumeError::OtherOwner { .. })),
        "{refused:?}"
    );
    assert!(program.seen().is_empty());
    assert_eq!(all.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_run_of_another_owner_cannot_be_read_or_ended() {
    let program = waits(ScriptedApprover::new().then(ApproverReply::Later)).await;
    let all = program.orchestrator.approvals();
    let run = all.list().await.unwrap()[0].run_id;
    let summary = program.orchestrator.runs().summary(run).await.unwrap();
    let bob = RequestContext::default().owned_by(Some("bob".to_owned()));
    let runs = program.orchestrator.runs().with_context(bob.clone());
    let no_such_run = |error: &StoreError| *error == StoreError::NoSuchRun(run);
    assert!(
        runs.attach(run, Seq(0))
            .await
            .is_err_and(|it| no_such_run(&it))
    );
    assert!(runs.summary(run).await.is_err_and(|it| no_such_run(&it)));
    let result = runs.result(run).await;
    assert!(
        matches!(&result, Err(ResumeError::Store(error)) if no_such_run(error)),
        "{result:?}"
    );
    let calls = runs.open_calls(run).await;
    assert!(matches!(&calls, Err(ResumeError::Store(error)) if no_such_run(error)));
    for refused in [
        runs.close(run, "because").await,
        runs.abandon_unbegun(&id("hers"), run).await,
    ] {
        assert!(
            matches!(&refused, Err(ResumeError::OtherOwner { session }) if *session == id("hers")),
            "{refused:?}"
        );
    }
    let approvals = all.with_context(bob);
    assert!(approvals.of_run(&summary).await.unwrap().is_empty());
    let no_session = StoreError::NoSuchSession(id("hers"));
    let remembered = approvals.grants(&id("hers")).await;
    assert_eq!(remembered.unwrap_err(), no_session);
    assert_eq!(approvals.revoke(&id("hers"), 1).await, Err(no_session));

    assert_eq!(all.of_run(&summary).await.unwrap().len(), 1);
    let hers = RequestContext::default().owned_by(ada());
    let runs = program.orchestrator.runs().with_context(hers);
    assert_eq!(runs.summary(run).await.unwrap().status, RunStatus::Waiting);
    assert!(runs.attach(run, Seq(0)).await.is_ok());
    runs.cancel(run, "mine").await.unwrap();
}

#[tokio::test]
async fn a_run_without_a_session_has_a_context_too() {
    let program = Program::new(2);
    let agent = program.orchestrator.agent();
    let context = RequestContext::default().owned_by(ada()).with(Tenant(7));
    let hers = agent.clone().with_context(context);
    hers.run(vec![Message::user("go")], None).await.unwrap();
    agent.execute("", "go").await.unwrap();
    assert_eq!(program.seen(), [(ada(), Some(Tenant(7))), (None, None)]);
}
