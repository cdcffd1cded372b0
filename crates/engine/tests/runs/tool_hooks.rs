//! A program's own code around tool calls.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    ApprovalDecision, CallAdvice, FinishReason, JsonText, Message, Mode, Record, RecordBody, Role,
    RunId, RunStatus, RunTree, Seq, ToolFailure, ToolOutput, ToolSpec, Transcript, Vetted, Vetting,
};
use neuraxis_engine::{
    Agent, ApprovalKey, ClientInput, DecideLater, Orchestrator, OrchestratorBuilder, UuidV7,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    AfterCall, ApproverReply, BeforeCall, RunLog as _, Tool, ToolContext, ToolError, ToolHook,
    async_trait,
};
use neuraxis_testkit::{
    Act, ScriptedApprover, ScriptedModel, ScriptedTool, ScriptedToolHook, reply, spec,
};
use tokio::time::Instant;

use crate::support::{FinishedRun, builder, policy, process, request, run_to_end};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;

/// A program with a tool `pay`, whose model calls it with 1 and then answers.
struct Program {
    hook: Arc<ScriptedToolHook>,
    pay: Arc<ScriptedTool>,
    model: Arc<ScriptedModel>,
    orchestrator: Orchestrator,
}

impl Program {
    fn new(hook: ScriptedToolHook) -> Self {
        Self::with(hook, |builder| builder)
    }

    fn with(
        hook: ScriptedToolHook,
        more: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> Self {
        let model = ScriptedModel::new()
            .then(reply::text_and_calls("Paying.", [("pay", r#"{"n":1}"#)]))
            .then(reply::text("Done."));
        let (hook, model) = (Arc::new(hook), Arc::new(model));
        let pay = Arc::new(ScriptedTool::echoing(
            spec("pay").idempotent().schema(SCHEMA),
        ));
        let builder = builder(model.clone())
            .tool(pay.clone())
            .tool_hook(hook.clone());
        Self {
            orchestrator: more(builder).build().unwrap(),
            hook,
            pay,
            model,
        }
    }

    async fn run(&self) -> FinishedRun {
        run_to_end(&self.orchestrator, request("go")).await
    }

    fn paid(&self) -> Vec<String> {
        let calls = self.pay.calls().into_iter();
        calls
            .map(|call| call.arguments.as_str().to_owned())
            .collect()
    }

    fn seen(&self) -> Vec<String> {
        let seen = self.hook.seen().into_iter();
        seen.map(|call| call.arguments.as_str().to_owned())
            .collect()
    }
}

fn rewrites(arguments: &str) -> BeforeCall {
    BeforeCall::rewrite(JsonText::from_text(arguments))
}

fn verdicts(records: &[Arc<Record>]) -> Vec<Vetted> {
    let verdicts = records.iter().filter_map(|record| match &record.body {
        RecordBody::Verdict(vetted) => Some(Vetted::clone(vetted)),
        _ => None,
    });
    verdicts.collect()
}

/// Checks that the log alone leads to the same records, without calling any hook.
fn assert_replays(records: &[Arc<Record>]) {
    let (run, open) = RunTree::restore(Transcript::default(), records).unwrap();
    assert!(run.status().is_ended() && open.is_empty());
}

#[tokio::test]
async fn arguments_rewritten_by_a_hook_are_judged_recorded_and_run() {
    let rules = "[rules.r]\ntools = ['pay']\nanswer = 'deny'\nvalues = { n = ['1'] }\n";
    let program = Program::with(
        ScriptedToolHook::new().before(rewrites(r#"{"n":2}"#)),
        |it| it.policy(policy(rules)),
    );
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(
        (program.seen(), program.paid()),
        (vec![r#"{"n":1}"#.to_owned()], vec![r#"{"n":2}"#.to_owned()])
    );
    let records = finished.records();
    let advised = &verdicts(&records)[0].advised[0];
    assert_eq!(advised.arguments.as_ref().unwrap().as_str(), r#"{"n":2}"#);
    assert_eq!(advised.advice, CallAdvice::Continue);
    let started = records.iter().find_map(|record| match &record.body {
        RecordBody::ToolCall(call) => Some(call.arguments.as_str().to_owned()),
        _ => None,
    });
    assert_eq!(started.unwrap(), r#"{"n":2}"#);
    assert_replays(&records);
}

#[tokio::test]
async fn a_rewritten_call_runs_only_if_policy_and_schema_allow_it() {
    let rules = "[rules.r]\ntools = ['pay']\nanswer = 'deny'\nvalues = { n = ['2'] }\n";
    for (arguments, failure) in [
        (r#"{"n":2}"#, ToolFailure::Denied),
        (r#"{"n":"two"}"#, ToolFailure::InvalidArguments),
        ("{", ToolFailure::InvalidArguments),
    ] {
        let hook = ScriptedToolHook::new().before(rewrites(arguments));
        let program = Program::with(hook, |it| it.policy(policy(rules)));
        let finished = program.run().await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(finished.results()[0].failure, Some(failure), "{arguments}");
        assert!(program.paid().is_empty());
        assert_replays(&finished.records());
    }
}

#[tokio::test]
async fn a_call_refused_by_a_hook_does_not_run_and_the_model_gets_the_reason() {
    let program = Program::new(ScriptedToolHook::new().before(BeforeCall::refuse("not today")));
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    let result = &finished.results()[0];
    assert_eq!(result.failure, Some(ToolFailure::Denied));
    assert_eq!(result.value.as_str(), r#"{"error":"denied: not today"}"#);
    assert!(program.paid().is_empty());
    assert_eq!(finished.result.reply, "Done.");
    assert_replays(&finished.records());
}

#[tokio::test]
async fn a_hook_can_end_the_agent_with_the_text_so_far() {
    let program = Program::new(ScriptedToolHook::new().before(BeforeCall::stop("seen enough")));
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.finish_reason, Some(FinishReason::Stop));
    assert_eq!(finished.result.reply, "Paying.");
    let result = &finished.results()[0];
    assert!(result.value.as_str().contains("seen enough"), "{result:?}");
    assert!(program.paid().is_empty());
    assert_eq!(program.model.calls().len(), 1);
    assert_replays(&finished.records());
}

#[tokio::test]
async fn a_hook_can_require_approval_for_a_call_that_policy_allows() {
    for (approver, runs) in [
        (ScriptedApprover::new().approve(), 1),
        (ScriptedApprover::new().deny("no"), 0),
    ] {
        let approver = Arc::new(approver);
        let hook = ScriptedToolHook::new().before(BeforeCall::ask("It is above 100."));
        let program = Program::with(hook, |it| it.approver(approver.clone()));
        let finished = program.run().await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(approver.asks()[0].reason, "It is above 100.");
        assert!(approver.asks()[0].choices.is_empty());
        assert_eq!(program.paid().len(), runs);
        assert_eq!(
            program.seen().len(),
            1,
            "nobody asks it about what was approved"
        );
        assert_replays(&finished.records());
    }
}

#[tokio::test]
async fn a_hook_checks_arguments_edited_by_an_approver() {
    let hook = ScriptedToolHook::new()
        .before(BeforeCall::ask("Look."))
        .before(BeforeCall::refuse("not 9"));
    let approver = Arc::new(ScriptedApprover::new().approve_with(r#"{"n":9}"#));
    let program = Program::with(hook, |it| it.approver(approver));
    let finished = program.run().await;
    assert_eq!(program.seen(), [r#"{"n":1}"#, r#"{"n":9}"#]);
    assert_eq!(finished.results()[0].failure, Some(ToolFailure::Denied));
    assert!(program.paid().is_empty());
    assert_replays(&finished.records());
}

#[tokio::test]
async fn an_approval_does_not_apply_to_arguments_rewritten_by_a_hook() {
    let hook = ScriptedToolHook::new()
        .before(BeforeCall::Continue)
        .before(rewrites(r#"{"n":3}"#));
    let approver = ScriptedApprover::new()
        .approve_with(r#"{"n":2}"#)
        .deny("not 3");
    let approver = Arc::new(approver);
    let program = Program::with(hook, |it| it.approver(approver.clone()));
    let finished = run_to_end(&program.orchestrator, request("go").mode(Mode::MODERATE)).await;
    finished.assert_valid(RunStatus::Done);
    let asked: Vec<_> = approver
        .asks()
        .into_iter()
        .map(|ask| ask.arguments)
        .collect();
    assert_eq!(asked.last().unwrap().as_str(), r#"{"n":3}"#);
    assert_eq!(finished.results()[0].failure, Some(ToolFailure::Denied));
    assert!(program.paid().is_empty());
    assert_replays(&finished.records());
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_or_times_out_refuses() {
    for hook in [
        ScriptedToolHook::new().panic_before(),
        ScriptedToolHook::new().stay_silent(),
    ] {
        let program = Program::new(hook);
        let began = Instant::now();
        let finished = program.run().await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(finished.results()[0].failure, Some(ToolFailure::Denied));
        assert!(program.paid().is_empty());
        assert!(began.elapsed() <= Duration::from_secs(31));
    }
}

#[tokio::test]
async fn hooks_run_in_order_and_each_sees_the_previous_one_s_changes() {
    let second = ScriptedToolHook::new().before(BeforeCall::ask("Sure?"));
    let second = Arc::new(second);
    let first = ScriptedToolHook::new().before(rewrites(r#"{"n":2}"#));
    let approver = Arc::new(ScriptedApprover::new().approve());
    let program = Program::with(first, |it| {
        it.tool_hook(second.clone() as Arc<dyn ToolHook>)
            .approver(approver)
    });
    program.run().await.assert_valid(RunStatus::Done);
    assert_eq!(second.seen()[0].arguments.as_str(), r#"{"n":2}"#);
    assert_eq!(program.paid(), [r#"{"n":2}"#]);
}

#[tokio::test]
async fn a_hook_can_rewrite_a_result_and_the_original_is_not_recorded() {
    let output = ToolOutput::new(JsonText::string("[hidden]"));
    let program = Program::new(ScriptedToolHook::new().after(AfterCall::rewrite(output)));
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    let result = &finished.results()[0];
    assert_eq!(
        (result.value.as_str(), result.rewritten),
        (r#""[hidden]""#, true)
    );
    let sent = program.model.requests().pop().unwrap();
    let read = sent.messages.messages().last().unwrap().text();
    assert!(read.contains("[hidden]"), "{read}");
    assert_eq!(
        program.hook.results()[0].output.value.as_str(),
        r#"{"n":1}"#
    );
    assert_replays(&finished.records());
}

#[tokio::test]
async fn a_result_withheld_by_a_hook_is_not_read_and_its_call_not_repeated() {
    for (hook, why) in [
        (
            ScriptedToolHook::new().after(AfterCall::withhold("secret")),
            "secret",
        ),
        (
            ScriptedToolHook::new().panic_after(),
            "check of the result failed",
        ),
    ] {
        let program = Program::new(hook);
        let finished = program.run().await;
        finished.assert_valid(RunStatus::Done);
        let result = &finished.results()[0];
        assert_eq!(result.failure, Some(ToolFailure::Permanent));
        assert!(result.value.as_str().contains("it ran"), "{result:?}");
        assert!(result.value.as_str().contains(why), "{result:?}");
        assert_eq!(program.paid().len(), 1);
        assert_replays(&finished.records());
    }
}

#[tokio::test]
async fn hooks_apply_to_ungoverned_runs_and_to_calls_of_sub_agents() {
    let hook = ScriptedToolHook::new().before(rewrites(r#"{"n":2}"#));
    let program = Program::new(hook);
    let agent = program.orchestrator.agent();
    let done = agent.run(vec![Message::user("go")], None).await.unwrap();
    assert_eq!(
        (done.content.as_str(), program.paid()),
        ("Done.", vec![r#"{"n":2}"#.to_owned()])
    );

    let helper = Agent::builder("help")
        .role(Role::new("helper"))
        .tools_named(["pay"])
        .build()
        .unwrap();
    let of_helper = ScriptedModel::new()
        .then(reply::calls([("pay", r#"{"n":5}"#)]))
        .then(reply::text("Helped."));
    let hook = ScriptedToolHook::new()
        .before(BeforeCall::Continue)
        .before(BeforeCall::refuse("no"));
    let program = Program::with(hook, |it| {
        let root = ScriptedModel::new()
            .then(reply::calls([("help", r#"{"task":"pay"}"#)]))
            .then(reply::text("Done."));
        it.agent_tool(helper)
            .model(Role::new("helper"), Arc::new(of_helper))
            .model(Role::REASONING, Arc::new(root))
    });
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    let names: Vec<_> = program
        .hook
        .seen()
        .iter()
        .map(|call| call.tool.name.to_string())
        .collect();
    assert_eq!(names, ["help", "pay"]);
    assert!(program.paid().is_empty());
    assert_replays(&finished.records());
}

#[tokio::test]
async fn a_call_a_hook_asks_about_is_denied_in_a_standalone_run() {
    let hook = ScriptedToolHook::new().before(BeforeCall::ask("It is money."));
    let program = Program::with(hook, |it| it.approver(Arc::new(DecideLater)));
    let agent = program.orchestrator.agent();
    let done = agent.execute(None, "go").await.unwrap();
    assert_eq!(
        (done.status, done.content.as_str()),
        (RunStatus::Done, "Done.")
    );
    let [call] = done.tool_calls.as_slice() else {
        panic!("{:?}", done.tool_calls)
    };
    assert!(!call.success && program.paid().is_empty());
    assert!(
        call.result
            .as_str()
            .contains("no approver is available here")
    );
}

/// What survives a process.
struct World {
    store: Arc<MemoryStore>,
    model: Arc<ScriptedModel>,
    slow: Arc<ScriptedTool>,
    approver: Arc<ScriptedApprover>,
}

impl World {
    fn new(approver: ScriptedApprover) -> Self {
        let slow = Act::value("1").after(Duration::from_secs(9));
        Self {
            store: Arc::new(MemoryStore::new()),
            model: Arc::new(
                ScriptedModel::new()
                    .then(reply::calls([("slow", r#"{"n":1}"#)]))
                    .then(reply::text("ok")),
            ),
            slow: Arc::new(ScriptedTool::always(spec("slow").idempotent(), slow)),
            approver: Arc::new(approver),
        }
    }

    fn engine(&self, hook: &Arc<ScriptedToolHook>) -> OrchestratorBuilder {
        builder(self.model.clone())
            .store(self.store.clone())
            .ids(Arc::new(UuidV7))
            .tool(self.slow.clone())
            .approver(self.approver.clone())
            .tool_hook(hook.clone())
    }

    /// Starts a run in a process that dies while the tool or the hook is working.
    fn dies(&self, hook: ScriptedToolHook) -> RunId {
        let hook = Arc::new(hook);
        process().block_on(async {
            let engine = self.engine(&hook).build().unwrap();
            let (handle, _) = engine.stream(request("go")).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            handle.run_id()
        })
    }

    /// Resumes the run in another process; returns what its hook was asked about.
    fn goes_on(
        &self,
        run: RunId,
        hook: ScriptedToolHook,
        change: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> Vec<String> {
        let hook = Arc::new(hook);
        process().block_on(async {
            let engine = change(self.engine(&hook)).build().unwrap();
            let handle = engine.runs().resume(run, Vec::new()).await.unwrap();
            handle.result().await.unwrap();
        });
        let seen = hook.seen().into_iter();
        seen.map(|call| call.arguments.as_str().to_owned())
            .collect()
    }

    fn records(&self, run: RunId) -> Vec<Arc<Record>> {
        process().block_on(self.store.records(run, Seq(0))).unwrap()
    }

    fn called_with(&self) -> Vec<String> {
        let calls = self.slow.calls().into_iter();
        calls
            .map(|call| call.arguments.as_str().to_owned())
            .collect()
    }
}

#[test]
fn after_a_crash_a_hook_is_not_repeated_if_its_decision_is_recorded() {
    let world = World::new(ScriptedApprover::new());
    let run = world.dies(ScriptedToolHook::new().before(rewrites(r#"{"n":2}"#)));
    let seen = world.goes_on(run, ScriptedToolHook::new(), |it| it);
    assert!(seen.is_empty(), "{seen:?}");
    assert_eq!(world.called_with(), [r#"{"n":2}"#, r#"{"n":2}"#]);
    let records = world.records(run);
    assert_eq!(
        verdicts(&records).len(),
        2,
        "the policy has looked at it again"
    );
    assert_replays(&records);
}

#[test]
fn after_a_crash_during_a_hook_the_hook_is_called_again() {
    let world = World::new(ScriptedApprover::new());
    let run = world.dies(ScriptedToolHook::new().stay_silent());
    let seen = world.goes_on(
        run,
        ScriptedToolHook::new().before(rewrites(r#"{"n":3}"#)),
        |it| it,
    );
    assert_eq!(
        (seen, world.called_with()),
        (vec![r#"{"n":1}"#.to_owned()], vec![r#"{"n":3}"#.to_owned()])
    );
    assert_replays(&world.records(run));
}

#[test]
fn a_hook_is_called_again_if_its_decision_was_signed_with_another_key() {
    let world = World::new(ScriptedApprover::new());
    let run = world.dies(ScriptedToolHook::new());
    let hook = ScriptedToolHook::new().before(BeforeCall::refuse("nobody said so here"));
    let seen = world.goes_on(run, hook, |it| {
        it.approval_key(ApprovalKey::new([8; ApprovalKey::BYTES]))
    });
    assert_eq!(seen, [r#"{"n":1}"#]);
    assert_eq!(world.called_with().len(), 1, "it is not made again");
    assert_replays(&world.records(run));
}

#[test]
fn a_call_a_hook_asks_about_waits_and_runs_once_approved_without_the_hook() {
    let world = World::new(ScriptedApprover::new().then(ApproverReply::Later));
    let run = world.dies(ScriptedToolHook::new().before(BeforeCall::ask("It is above 100.")));
    let hook = Arc::new(ScriptedToolHook::new());
    process().block_on(async {
        let engine = world.engine(&hook).build().unwrap();
        let approvals = engine.approvals();
        let waiting = approvals.list().await.unwrap();
        assert_eq!(waiting[0].request.reason, "It is above 100.");
        let decided = approvals.decide_and_resume(&waiting[0], ApprovalDecision::APPROVE, None);
        let neuraxis_engine::Decided::Continues(handle) = decided.await.unwrap() else {
            panic!("nobody else has it");
        };
        assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    });
    assert!(hook.seen().is_empty());
    assert_eq!(world.called_with().len(), 1);
    let records = world.records(run);
    let asks = |it: &Vetting| matches!(it, Vetting::Ask { .. });
    assert!(
        verdicts(&records)
            .iter()
            .all(|vetted| vetted.calls.iter().all(asks))
    );
    assert_replays(&records);
}

fn pay_of_client() -> ClientInput {
    ClientInput::default().tools([spec("pay").schema(SCHEMA).build()])
}

#[tokio::test]
async fn a_client_tool_call_is_checked_by_hooks_before_the_client_gets_it() {
    let less = BeforeCall::rewrite(JsonText::from_text(r#"{"n":0}"#));
    let refusing = BeforeCall::refuse("no payments from here");
    for (hands_over, said, reason) in [
        (false, refusing.clone(), "no payments from here"),
        (true, refusing, "no payments from here"),
        (true, less, "the call is handed over as it was written"),
    ] {
        let program = Program::new(ScriptedToolHook::new().before(said));
        let client_input = match hands_over {
            true => pay_of_client().hand_over(),
            false => pay_of_client(),
        };
        let finished = run_to_end(
            &program.orchestrator,
            request("go").with_client_input(client_input),
        )
        .await;
        finished.assert_valid(RunStatus::Done);
        let refused = &finished.results()[0];
        assert_eq!(refused.failure, Some(ToolFailure::Denied));
        let read = refused.value.as_str();
        assert!(read.contains(reason), "{read}");
        assert_eq!(program.hook.seen()[0].arguments.as_str(), r#"{"n":1}"#);
        assert_eq!(program.pay.count(), 0);
    }
}

/// A tool that never finds anything to do.
#[derive(Debug)]
struct Unable(ToolSpec);

#[async_trait]
impl Tool for Unable {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn dry_run(&self, _: &JsonText) -> Result<(), ToolError> {
        Err(ToolError::new("there is no such account"))
    }

    async fn call(&self, _: JsonText, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Err(ToolError::new("there is no such account"))
    }
}

#[tokio::test]
async fn a_client_tool_call_is_not_dry_run_with_a_server_tool_of_its_name() {
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", r#"{"n":1}"#)]))
        .then(reply::text("Done."));
    let hook = ScriptedToolHook::new().before(BeforeCall::ask("It is above 100."));
    let orchestrator = builder(model)
        .tool(Arc::new(Unable(spec("pay").schema(SCHEMA).into())))
        .tool_hook(Arc::new(hook))
        .approver(Arc::new(DecideLater))
        .build()
        .unwrap();
    let finished = run_to_end(
        &orchestrator,
        request("go").with_client_input(pay_of_client()),
    )
    .await;
    assert!(finished.results().is_empty(), "{:?}", finished.results());
    assert_eq!(finished.result.status, RunStatus::Waiting);
}

#[tokio::test]
async fn a_client_gets_the_arguments_as_rewritten_by_a_hook() {
    let less = BeforeCall::rewrite(JsonText::from_text(r#"{"n":0}"#));
    let program = Program::new(ScriptedToolHook::new().before(less));
    let finished = run_to_end(
        &program.orchestrator,
        request("go").with_client_input(pay_of_client()),
    )
    .await;
    assert_eq!(finished.result.status, RunStatus::Waiting);
    let pending = &finished.result.pending[0];
    assert_eq!(pending.arguments.as_str(), r#"{"n":0}"#);
}
