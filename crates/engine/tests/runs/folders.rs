//! A run continues only in the folder in which it began.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    ApprovalDecision, Interruption, JsonText, RunId, RunStatus, Seq, ToolOutcome, ToolOutput,
};
use neuraxis_engine::{
    Answer, ClientInput, HeldRun, Orchestrator, OrchestratorBuilder, ResumeError, UserRequest,
    UuidV7,
};
use neuraxis_ports::{ApproverReply, RunLog as _};
use neuraxis_testkit::{
    Act, ScriptedApprover, ScriptedModel, ScriptedTool, StoreOperation, reply, spec,
};

use crate::support::{
    Store, builder, failing_store, policy, process, request, run_to_end, session,
};

const WRITES: &str = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;

/// What survives a process: the store, and the world that models and tools change.
struct World {
    store: Arc<Store>,
    model: Arc<ScriptedModel>,
    tool: Arc<ScriptedTool>,
}

impl World {
    fn new(schema: &str) -> Self {
        let model = ScriptedModel::new()
            .then(reply::calls([("put", r#"{"path":"n.txt"}"#)]))
            .then(reply::text("ok"));
        let act = Act::value("1").after(Duration::from_secs(9));
        let tool = ScriptedTool::always(spec("put").idempotent().schema(schema), act);
        Self {
            store: failing_store(),
            model: Arc::new(model),
            tool: Arc::new(tool),
        }
    }

    fn in_folder(&self, folder: Option<&str>) -> Orchestrator {
        self.builder_in(folder).build().unwrap()
    }

    fn builder_in(&self, folder: Option<&str>) -> OrchestratorBuilder {
        let builder = builder(self.model.clone())
            .store(self.store.clone())
            .ids(Arc::new(UuidV7))
            .approver(Arc::new(ScriptedApprover::new().then(ApproverReply::Later)))
            .tool(self.tool.clone());
        folder.into_iter().fold(builder, OrchestratorBuilder::root)
    }

    /// Starts a run in a process that dies in the middle of it.
    fn dies_in(&self, folder: Option<&str>, request: UserRequest) -> RunId {
        process().block_on(async {
            let (handle, _) = self.in_folder(folder).stream(request).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            handle.run_id()
        })
    }

    fn is_refused_in(&self, folder: Option<&str>, run: RunId) {
        let before = process().block_on(self.store.records(run, Seq(0))).unwrap();
        let called = self.tool.count();
        process().block_on(async {
            let elsewhere = self.in_folder(folder);
            let error = elsewhere.runs().resume(run, Vec::new()).await.unwrap_err();
            let is_elsewhere = matches!(
                &error,
                ResumeError::Elsewhere { run: of, folder } if (*of, &**folder) == (run, "/a")
            );
            assert!(is_elsewhere, "{error}");
        });
        assert_eq!(self.tool.count(), called);
        let after = process().block_on(self.store.records(run, Seq(0))).unwrap();
        assert_eq!(before, after);
    }

    fn ends_in(&self, folder: Option<&str>, run: RunId) {
        process().block_on(async {
            let handle = self.in_folder(folder).runs().resume(run, Vec::new()).await;
            let result = handle.unwrap().result().await.unwrap();
            assert_eq!(result.status, RunStatus::Done);
        });
    }
}

#[test]
fn a_run_with_file_tools_is_resumed_only_in_its_own_folder() {
    let world = World::new(WRITES);
    let run = world.dies_in(Some("/a"), request("go"));
    world.is_refused_in(Some("/b"), run);
    world.is_refused_in(None, run);
    world.ends_in(Some("/a"), run);
    assert_eq!(world.tool.count(), 2);
}

#[test]
fn a_run_without_file_tools_is_resumed_in_any_folder() {
    let world = World::new(r#"{"type":"object","properties":{}}"#);
    let run = world.dies_in(Some("/a"), request("go"));
    world.ends_in(Some("/b"), run);
}

#[test]
fn a_run_with_file_tools_in_an_unknown_folder_is_resumed_only_by_a_user() {
    let world = World::new(WRITES);
    let run = world.dies_in(None, request("go"));
    process().block_on(async {
        let refused = world
            .in_folder(Some("/b"))
            .runs()
            .resume(run, Vec::new())
            .await;
        assert!(matches!(refused, Err(ResumeError::NoFolder(of)) if of == run));
    });
    assert_eq!(world.tool.count(), 1);
    process().block_on(async {
        let handle = world.in_folder(Some("/b")).runs().resume_by_user(run).await;
        let result = handle.unwrap().result().await.unwrap();
        assert_eq!(result.status, RunStatus::Done);
    });
    assert_eq!(world.tool.count(), 2);
}

#[tokio::test]
async fn a_run_continues_with_the_result_of_a_client_tool_replacing_a_file_tool() {
    let model = ScriptedModel::new()
        .then(reply::calls([("put", r#"{"path":"n.txt"}"#)]))
        .then(reply::text("ok"));
    let here = ScriptedTool::always(spec("put").idempotent().schema(WRITES), Act::value("1"));
    let orchestrator = builder(model)
        .policy(policy("channels.chat.unlisted_tools = 'withheld'"))
        .root("/a")
        .tool(Arc::new(here))
        .build()
        .unwrap();
    let own = ClientInput::default().tools([spec("put").schema(WRITES).build()]);
    let waiting = run_to_end(&orchestrator, request("go").with_client_input(own))
        .await
        .result;
    assert_eq!(waiting.status, RunStatus::Waiting, "{waiting:?}");
    let answer = Answer::ToolResult {
        call: waiting.pending[0].tool_call_id.clone(),
        outcome: ToolOutcome::done(ToolOutput::new(JsonText::from_text("1"))),
        duration: Duration::ZERO,
    };
    let handle = orchestrator
        .runs()
        .resume(waiting.run_id, vec![answer])
        .await;
    let result = handle.unwrap().result().await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
}

#[test]
fn an_approval_in_another_folder_is_refused_and_not_stored() {
    let world = World::new(WRITES);
    let run = world.dies_in(Some("/a"), UserRequest::new(session(), "go"));
    process().block_on(async {
        let elsewhere = world.in_folder(Some("/b"));
        let waiting = elsewhere.approvals().list().await.unwrap();
        let asked = &waiting.first().unwrap().request;
        let approvals = elsewhere.approvals();
        let decided = approvals.decide(
            run,
            &asked.tool_call_id,
            asked.arguments_hash,
            ApprovalDecision::APPROVE,
            None,
        );
        let error = decided.await.unwrap_err();
        assert!(matches!(error, ResumeError::Elsewhere { .. }), "{error}");
    });
    world.is_refused_in(Some("/b"), run);
    process().block_on(async {
        let recovered = world.in_folder(Some("/b")).runs().recover().await.unwrap();
        assert!(recovered.resumed.is_empty());
        assert!(matches!(
            recovered.left.as_slice(),
            [(left, ResumeError::Elsewhere { .. })] if *left == run
        ));
    });
    assert_eq!(world.tool.count(), 0);
}

#[test]
fn a_run_can_be_cancelled_from_another_folder() {
    for is_waited_for in [false, true] {
        let world = World::new(WRITES);
        let run = world.dies_in(Some("/a"), UserRequest::new(session(), "go"));
        process().block_on(async {
            let elsewhere = world.in_folder(Some("/b"));
            let runs = elsewhere.runs();
            if is_waited_for {
                let pause = async |held: &HeldRun| {
                    held.pause().await;
                    Ok::<_, ResumeError>(())
                };
                let ended = runs.cancel_and_wait(run, "not any more", pause).await;
                ended.unwrap();
            } else {
                runs.cancel(run, "not any more").await.unwrap();
            }
            let ended = runs.result(run).await.unwrap();
            assert_eq!(ended.status, RunStatus::Interrupted);
            assert_eq!(ended.interruption, Some(Interruption::CancelledElsewhere));
        });
        assert_eq!(world.tool.count(), 0);
    }
}

#[test]
fn the_reason_for_cancelling_from_another_folder_follows_the_data_policy() {
    let world = World::new(WRITES);
    let run = process().block_on(async {
        let builder = world.builder_in(Some("/a"));
        let builder = builder.policy(policy("channels.chat.data = { text = false }\n"));
        let orchestrator = builder.build().unwrap();
        let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        handle.run_id()
    });
    process().block_on(async {
        let elsewhere = world.in_folder(Some("/b"));
        let pause = async |held: &HeldRun| {
            held.pause().await;
            Ok::<_, ResumeError>(())
        };
        let runs = elsewhere.runs();
        let ended = runs.cancel_and_wait(run, "a canary", pause);
        ended.await.unwrap();
        let result = runs.result(run).await.unwrap();
        assert_eq!(result.status, RunStatus::Interrupted);
        assert_eq!(result.interruption, Some(Interruption::CancelledElsewhere));
        let records = world.store.records(run, Seq(0)).await.unwrap();
        assert!(!format!("{records:?}").contains("canary"));
    });
}

#[test]
fn recovery_reads_a_run_of_another_folder_less_often_each_time() {
    let world = World::new(WRITES);
    let run = world.dies_in(Some("/a"), request("go"));
    process().block_on(async {
        // Its lease has expired.
        let lease = world.store.begin_run(&session(), run).await.unwrap();
        world.store.release(&lease).await.unwrap();
        let reads = || {
            let calls = world.store.calls();
            let reads = calls
                .iter()
                .filter(|call| **call == StoreOperation::Records);
            reads.count()
        };
        let before = reads();
        let looking = world.in_folder(Some("/b"));
        tokio::spawn(async move {
            let runs = looking.runs();
            runs.keep_recovering(Duration::from_secs(2)).await;
        });
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let times = reads() - before;
        // After 5, 10, 20 seconds and so on, and every 5 minutes from then on.
        assert!((15..=20).contains(&times), "{times}");
    });
    world.ends_in(Some("/a"), run);
}
