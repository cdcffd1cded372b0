//! Tools of a source, which can change while the process runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_core::{ApprovalDecision, JsonText, Mode, ToolFailure, ToolOutput, ToolSpec};
use neuraxis_engine::{DecideError, HeldRun, ResumeError, ResumedBy, UserRequest};
use neuraxis_ports::{
    Approver as _, Field, FieldKind, Question, QuestionReply, Tool, ToolContext, ToolError,
    ToolSource, async_trait,
};
use neuraxis_testkit::{Script, ScriptedApprover, ScriptedTool, reply, spec};

use crate::support::{World, echoing, later, nobody};

const TRUST: &str = "[trust.shop]\ntools = ['shop__*']\nclass = 'read_only'\nopen_world = false";

#[derive(Debug, Default)]
struct Shop {
    version: AtomicU64,
    tools: Mutex<Vec<Arc<dyn Tool>>>,
}

impl Shop {
    fn sells(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) {
        *self.tools.lock().unwrap() = tools.into_iter().collect();
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

impl ToolSource for Shop {
    fn name(&self) -> &str {
        "shop"
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.lock().unwrap().clone()
    }
}

fn world(shop: &Arc<Shop>, approver: ScriptedApprover) -> World {
    let shop = Arc::clone(shop);
    World::with(TRUST, approver, |it| it.tool_source(shop))
}

async fn failure(world: &World, tool: &str) -> Option<ToolFailure> {
    let ran = world.calls(Mode::MODERATE, &[(tool, "{}")]).await;
    ran.results().first()?.failure
}

#[tokio::test]
async fn the_next_run_has_added_tools_and_no_removed_ones() {
    let shop = Arc::new(Shop::default());
    let world = world(&shop, nobody());
    let count = || world.orchestrator.tools().specs().count();
    let before = count();
    assert_eq!(
        failure(&world, "shop__list").await,
        Some(ToolFailure::UnknownTool)
    );
    shop.sells([echoing(spec("shop__list")) as Arc<dyn Tool>]);
    assert_eq!(count(), before + 1);
    assert_eq!(failure(&world, "shop__list").await, None);
    shop.sells([echoing(spec("shop__find")) as Arc<dyn Tool>]);
    assert_eq!(failure(&world, "shop__find").await, None);
    assert_eq!(
        failure(&world, "shop__list").await,
        Some(ToolFailure::UnknownTool)
    );
}

#[tokio::test]
async fn tools_with_conflicting_or_foreign_names_are_left_out_and_the_rest_are_kept() {
    let shop = Arc::new(Shop::default());
    let world = world(&shop, nobody());
    let known: Vec<ToolSpec> = world.orchestrator.tools().specs().cloned().collect();
    let built_in = known[0].name.as_str();
    let tools = [
        built_in,
        "shop__list",
        "shop__list",
        "other__list",
        "shop__",
    ];
    shop.sells(tools.map(|name| echoing(spec(name)) as Arc<dyn Tool>));
    let tools = world.orchestrator.tools();
    let names: Vec<_> = tools.specs().skip(known.len()).collect();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].name.as_str(), "shop__list");
    assert_eq!(tools.specs().next(), known.first(), "it is still ours");
}

/// A tool that asks which one to take.
#[derive(Debug)]
struct Asking(ToolSpec);

#[async_trait]
impl Tool for Asking {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        let kind = FieldKind::Boolean;
        let question = Question::new("shop", "Wrap it?").field(Field::new("wrap", kind));
        match ctx.questions.ask(&question).await {
            QuestionReply::Answered(answer) => Ok(ToolOutput::new(answer)),
            _ => Err(ToolError::permanent("nobody wants it")),
        }
    }
}

#[tokio::test]
async fn a_tool_can_ask_the_approver_and_is_declined_where_there_is_none() {
    let tool = || Arc::new(Asking(spec("shop__buy").build())) as Arc<dyn Tool>;
    let shop = Arc::new(Shop::default());
    shop.sells([tool()]);
    let answer = QuestionReply::Answered(JsonText::from_text(r#"{"wrap":true}"#));
    let asked = world(&shop, ScriptedApprover::new().answering(answer));
    let ran = asked.calls(Mode::MODERATE, &[("shop__buy", "{}")]).await;
    assert_eq!(ran.results()[0].value.as_str(), r#"{"wrap":true}"#);
    let declined = world(&shop, nobody());
    assert_eq!(
        failure(&declined, "shop__buy").await,
        Some(ToolFailure::Permanent)
    );
    let question = Question::new("shop", "Really?");
    assert_eq!(nobody().answer(&question).await, QuestionReply::Declined);
}

/// A run that waits for approval of these calls, in a shop that sells one tool.
async fn waiting_for(calls: &[(&str, &str)]) -> (Arc<Shop>, Arc<ScriptedTool>, World) {
    let (shop, buy) = (Arc::new(Shop::default()), echoing(spec("shop__buy")));
    shop.sells([buy.clone() as Arc<dyn Tool>]);
    let source = Arc::clone(&shop);
    let world = World::with("", later(calls.len()), |it| it.tool_source(source));
    world.calls(Mode::MODERATE, calls).await;
    (shop, buy, world)
}

#[tokio::test]
async fn an_approval_is_not_consumed_while_the_server_is_away() {
    let (shop, buy, world) = waiting_for(&[("shop__buy", "{}")]).await;
    let approvals = world.orchestrator.approvals();
    let waiting = approvals.list().await.unwrap();
    shop.sells([]);
    let approve = ApprovalDecision::APPROVE;
    let refused = approvals.decide_and_resume(&waiting[0], approve, None);
    let refused = refused.await;
    let Err(DecideError::Resume(ResumeError::ServerAway { server, .. })) = &refused else {
        unreachable!("{refused:?}");
    };
    assert_eq!(&**server, "shop");
    shop.sells([buy.clone() as Arc<dyn Tool>]);
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    assert_eq!(buy.count(), 1);
}

#[tokio::test]
async fn a_parked_run_is_not_resumed_while_its_server_is_away_but_can_be_denied() {
    let (shop, buy, world) = waiting_for(&[("shop__buy", "{}")]).await;
    let approvals = world.orchestrator.approvals();
    let waiting = approvals.list().await.unwrap();
    shop.sells([]);
    let pause = async |_: &HeldRun| Ok::<_, ResumeError>(());
    let runs = world.orchestrator.runs();
    let again = runs.resume_when_free(waiting[0].run_id, ResumedBy::Engine, pause);
    let again = again.await;
    assert!(
        matches!(again, Err(ResumeError::ServerAway { .. })),
        "{again:?}"
    );
    let deny = ApprovalDecision::Deny { reason: None };
    world.decide(&waiting[0], deny).await;
    assert!(approvals.list().await.unwrap().is_empty());
    assert_eq!(buy.count(), 0);
}

#[tokio::test]
async fn an_approval_is_not_consumed_by_another_while_the_server_is_away() {
    let calls = [("put", r#"{"n":1}"#), ("shop__buy", "{}")];
    let (shop, buy, world) = waiting_for(&calls).await;
    let approvals = world.orchestrator.approvals();
    let waiting = approvals.list().await.unwrap();
    // It waits for the previous call.
    world.decide(&waiting[1], ApprovalDecision::APPROVE).await;
    shop.sells([]);
    let approve = ApprovalDecision::APPROVE;
    let refused = approvals.decide_and_resume(&waiting[0], approve, None);
    let refused = refused.await;
    assert!(
        matches!(
            &refused,
            Err(DecideError::Resume(ResumeError::ServerAway { .. }))
        ),
        "{refused:?}"
    );
    shop.sells([buy.clone() as Arc<dyn Tool>]);
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    assert_eq!((world.tools.put.count(), buy.count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_run_waits_up_to_a_minute_for_the_server_of_its_tools() {
    let minute = Duration::from_secs(60);
    let shop = Arc::new(Shop::default());
    let sell = |shop: &Shop| shop.sells([echoing(spec("shop__list")) as Arc<dyn Tool>]);
    sell(&shop);
    let before = world(&shop, nobody());
    let slow = Script::from(reply::text("Done.")).after(minute);
    before.model.push(slow);
    let request = UserRequest::new("s".parse().unwrap(), "List it.");
    let handle = before.orchestrator.runs().start(request).await.unwrap();
    before.settled().await;
    assert_eq!(
        before.orchestrator.suspend(Duration::ZERO).await,
        [handle.run_id()]
    );

    let next = |shop: &Arc<Shop>| {
        let (shop, store) = (Arc::clone(shop), before.store.clone());
        World::with(TRUST, nobody(), |it| it.tool_source(shop).store(store))
    };
    let taken_up = async |world: &World| {
        let recovered = world.orchestrator.runs().recover().await.unwrap();
        assert!(recovered.left.is_empty(), "{:?}", recovered.left);
        recovered.resumed.len()
    };
    let (late, never) = (Arc::new(Shop::default()), Arc::new(Shop::default()));
    let (with_late, with_none) = (next(&late), next(&never));
    assert_eq!(taken_up(&with_late).await, 0);
    sell(&late);
    assert_eq!(taken_up(&with_late).await, 1);
    assert_eq!(
        with_late.orchestrator.suspend(Duration::ZERO).await,
        [handle.run_id()]
    );
    assert_eq!(taken_up(&with_none).await, 0);
    tokio::time::advance(minute).await;
    assert_eq!(taken_up(&with_none).await, 1);
}
