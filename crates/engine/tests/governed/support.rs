//! What the tests share: a world of scripted components under a policy.

use std::sync::Arc;

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{
    ApprovalDecision, Channel, JsonText, Mode, Record, RecordBody, Role, RunStatus, SessionId,
    ToolResult, Vetting,
};
use neuraxis_engine::{
    ApprovalKey, Orchestrator, OrchestratorBuilder, OrchestratorResult, UserRequest,
    WaitingApproval,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{Approver, ApproverReply, RunLog as _};
use neuraxis_testkit::{
    CountingIds, ScriptedApprover, ScriptedModel, ScriptedTool, SpecBuilder, VirtualClock, reply,
    spec,
};

/// The tools of these tests, each counting its calls.
pub(crate) struct Tools {
    /// Reads local data.
    pub(crate) look: Arc<ScriptedTool>,
    /// Reads third-party content.
    pub(crate) fetch: Arc<ScriptedTool>,
    /// Writes; writing twice is the same as writing once.
    pub(crate) put: Arc<ScriptedTool>,
    /// Sends something irreversible.
    pub(crate) send: Arc<ScriptedTool>,
    /// Runs commands.
    pub(crate) command: Arc<ScriptedTool>,
}

pub(crate) fn echoing(spec: SpecBuilder) -> Arc<ScriptedTool> {
    Arc::new(ScriptedTool::echoing(spec))
}

impl Tools {
    pub(crate) fn new() -> Self {
        Self {
            look: echoing(spec("look").read_only()),
            fetch: echoing(spec("fetch").read_only().open_world()),
            put: echoing(spec("put").idempotent().schema(
                r#"{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"}}}"#,
            )),
            send: echoing(spec("send")),
            command: echoing(spec("run_command").open_world().destructive()),
        }
    }

    pub(crate) fn all(&self) -> [&Arc<ScriptedTool>; 5] {
        [
            &self.look,
            &self.fetch,
            &self.put,
            &self.send,
            &self.command,
        ]
    }
}

/// Everything that a test checks.
pub(crate) struct World {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) approver: Arc<ScriptedApprover>,
    pub(crate) tools: Tools,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) store: Arc<MemoryStore>,
}

impl World {
    /// A world under the built-in policy, overlaid with a deployment's own.
    pub(crate) fn new(policy: &str, approver: ScriptedApprover) -> Self {
        Self::with(policy, approver, |builder| builder)
    }

    pub(crate) fn with(
        policy: &str,
        approver: ScriptedApprover,
        change: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> Self {
        let (model, approver) = (Arc::new(ScriptedModel::new()), Arc::new(approver));
        let (clock, store) = (Arc::new(VirtualClock::new()), Arc::new(MemoryStore::new()));
        let tools = Tools::new();
        let builder = Orchestrator::builder()
            .policy(layered(policy))
            .model(Role::REASONING, model.clone())
            .store(store.clone())
            .clock(clock.clone())
            .ids(Arc::new(CountingIds::default()))
            .root("/project")
            .approval_key(ApprovalKey::new([7; ApprovalKey::BYTES]))
            .approver(approver.clone() as Arc<dyn Approver>);
        let builder = tools
            .all()
            .into_iter()
            .fold(builder, |builder, tool| builder.tool(tool.clone()));
        Self {
            orchestrator: change(builder).build().unwrap(),
            model,
            approver,
            tools,
            clock,
            store,
        }
    }

    /// Lets the model make these calls in one batch and then answer, in the session `s`.
    pub(crate) async fn calls(&self, mode: Mode, calls: &[(&str, &str)]) -> Ran {
        self.calls_in("s", mode, &[calls]).await
    }

    /// Lets the model make one batch after the other and then answer.
    pub(crate) async fn calls_in(
        &self,
        session: &str,
        mode: Mode,
        batches: &[&[(&str, &str)]],
    ) -> Ran {
        for batch in batches {
            self.model.push(reply::calls(batch.iter().copied()));
        }
        self.model.push(reply::text("Done."));
        self.ask(session, mode).await
    }

    pub(crate) async fn ask(&self, session: &str, mode: Mode) -> Ran {
        let request = UserRequest::new(session.parse().unwrap(), "Please do it.")
            .mode(mode)
            .channel(Channel::CODE_TASK);
        let (handle, _) = self.orchestrator.stream(request).await.unwrap();
        let result = handle.result().await.unwrap();
        Ran {
            records: handle.records(),
            result,
        }
    }

    /// Decides about a waiting call, and lets its run continue until it ends or waits.
    pub(crate) async fn decide(&self, waiting: &WaitingApproval, decision: ApprovalDecision) {
        let request = &waiting.request;
        let approvals = self.orchestrator.approvals();
        let decided = approvals.decide(
            waiting.run_id,
            &request.tool_call_id,
            request.arguments_hash,
            decision,
            Some("ada".to_owned()),
        );
        decided.await.unwrap();
        self.settled().await;
    }

    /// Waits until this process is driving no run.
    pub(crate) async fn settled(&self) {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn records_of(&self, run: &Ran) -> Vec<Arc<Record>> {
        let run = run.result.run_id;
        self.store
            .records(run, neuraxis_core::Seq(0))
            .await
            .unwrap()
    }
}

/// A run that ended or waits.
pub(crate) struct Ran {
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) result: OrchestratorResult,
}

impl Ran {
    pub(crate) fn is_done(&self) -> &Self {
        assert_eq!(self.result.status, RunStatus::Done, "{:?}", self.result);
        self
    }

    pub(crate) fn results(&self) -> Vec<ToolResult> {
        results(&self.records)
    }

    pub(crate) fn vettings(&self) -> Vec<Vetting> {
        let verdicts = self.records.iter().filter_map(|record| match &record.body {
            RecordBody::Verdict(vetted) => Some(vetted.calls.clone()),
            _ => None,
        });
        verdicts.flatten().collect()
    }
}

pub(crate) fn results(records: &[Arc<Record>]) -> Vec<ToolResult> {
    let results = records.iter().filter_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some((**result).clone()),
        _ => None,
    });
    results.collect()
}

pub(crate) fn layered(policy: &str) -> Policy {
    let config = PolicyConfig::from_named_toml("neuraxis.toml", policy).unwrap();
    Policy::layered(config).unwrap()
}

pub(crate) fn nobody() -> ScriptedApprover {
    ScriptedApprover::new()
}

pub(crate) fn later(times: usize) -> ScriptedApprover {
    (0..times).fold(ScriptedApprover::new(), |approver, _| {
        approver.then(ApproverReply::Later)
    })
}

pub(crate) fn session(name: &str) -> SessionId {
    name.parse().unwrap()
}

pub(crate) fn json(text: &str) -> JsonText {
    JsonText::from_text(text)
}
