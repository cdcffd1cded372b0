//! A program's own code around model calls: guardrails.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::log::RunView;
use neuraxis_core::{
    AgentId, AnswerRule, CountLabel, FinishReason, Hook, LiveBody, Message, MicroUsd, Purpose,
    Record, RecordBody, RunId, RunStatus, RunTree, Seq, ToolFailure, ToolOutcome, ToolOutput,
    Transcript,
};
use neuraxis_engine::{
    Agent, AnswerSchema, ClientInput, Event, Orchestrator, OrchestratorBuilder, UserRequest, UuidV7,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    AfterCall, AfterModel, BeforeModel, HookedReply, HookedRequest, ModelHook, RunLog as _,
    async_trait,
};
use neuraxis_testkit::{
    Act, Script, ScriptedAdvisor, ScriptedModel, ScriptedModelHook, ScriptedTool, ScriptedToolHook,
    reply, spec,
};
use tokio::time::Instant;

use crate::support::{FinishedRun, builder, history, process, request, run_to_end};

/// A program with a scripted model.
struct Program {
    hook: Arc<ScriptedModelHook>,
    model: Arc<ScriptedModel>,
    store: Arc<MemoryStore>,
    orchestrator: Orchestrator,
}

impl Program {
    fn new(hook: ScriptedModelHook, model: ScriptedModel) -> Self {
        Self::with(hook, model, |builder| builder)
    }

    fn with(
        hook: ScriptedModelHook,
        model: ScriptedModel,
        more: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> Self {
        let (hook, model) = (Arc::new(hook), Arc::new(model));
        let store = Arc::new(MemoryStore::new());
        let builder = builder(model.clone())
            .store(store.clone())
            .model_hook(hook.clone());
        Self {
            orchestrator: more(builder).build().unwrap(),
            hook,
            model,
            store,
        }
    }

    async fn run(&self) -> FinishedRun {
        let finished = run_to_end(&self.orchestrator, request("my number is 123")).await;
        assert_replays(&finished.records());
        finished
    }

    /// Returns the texts in the requests that the model received, in order.
    fn sent(&self) -> Vec<Vec<String>> {
        let requests = self.model.requests().into_iter();
        let texts = requests.map(|request| {
            let messages = request.messages.messages().iter();
            messages.map(|message| message.text()).collect()
        });
        texts.collect()
    }
}

/// Checks that the log alone leads to the same records, and to the same conversation that readers of the log see.
fn assert_replays(records: &[Arc<Record>]) {
    let (run, open) = RunTree::restore(Transcript::default(), records).unwrap();
    assert!(run.status().is_ended() && open.is_empty());
    let view = RunView::of(records);
    let read = view.conversation(AgentId::ROOT).unwrap();
    assert_eq!(read.messages(), run.messages());
}

/// Returns the text that a user who assembles the pieces reads in the end, and whether anything was retracted.
fn shown(finished: &FinishedRun) -> (String, bool) {
    let (mut text, mut taken_back) = (String::new(), false);
    for event in &finished.events {
        if let Event::Live(live) = event {
            match &live.body {
                LiveBody::TextDelta { text: more } => text.push_str(more),
                LiveBody::TextRetracted => {
                    text.clear();
                    taken_back = true;
                }
                _ => {}
            }
        }
    }
    (text, taken_back)
}

/// A model that says something word by word.
fn talking(text: &str) -> Script {
    let pace = Duration::from_secs(1);
    Script::from(reply::text(text)).split(4).paced(pace)
}

fn log(finished: &FinishedRun) -> String {
    let records = finished.records().into_iter();
    records.map(|record| record.to_json()).collect()
}

#[tokio::test]
async fn a_refused_request_is_not_sent_and_the_user_gets_the_hook_s_message() {
    let refuses = BeforeModel::refuse("a number", "Please do not tell me numbers.");
    let program = Program::new(
        ScriptedModelHook::new().before(refuses),
        ScriptedModel::new(),
    );
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.finish_reason, Some(FinishReason::Refused));
    assert_eq!(finished.result.reply, "Please do not tell me numbers.");
    assert!(program.model.calls().is_empty());
    assert!(log(&finished).contains(r#""reason":"a number""#));
    let kept = history(program.store.as_ref()).await;
    let last = kept.messages().last().unwrap().text();
    assert_eq!(last, "Please do not tell me numbers.");
}

#[tokio::test]
async fn text_that_replaces_the_user_s_is_sent_now_and_in_later_runs() {
    let hook = ScriptedModelHook::new().before(BeforeModel::replace_text("my number is ###"));
    let model = ScriptedModel::new()
        .then(reply::text("Noted."))
        .then(reply::text("I do not know it."));
    let program = Program::new(hook, model);
    program.run().await.assert_valid(RunStatus::Done);
    let again = run_to_end(&program.orchestrator, request("What is my number?")).await;
    again.assert_valid(RunStatus::Done);
    for sent in program.sent() {
        assert!(sent.contains(&"my number is ###".to_owned()), "{sent:?}");
        assert!(sent.iter().all(|text| !text.contains("123")), "{sent:?}");
    }
    let asked = program.hook.requests();
    assert_eq!(asked[0].text, "my number is 123");
    assert_eq!(asked[0].purpose, Purpose::Turn);
    assert!(asked.iter().all(|request| request.is_first));
}

#[tokio::test]
async fn a_note_is_sent_with_the_request_and_hooks_see_the_previous_one_s_result() {
    let second = Arc::new(ScriptedModelHook::new().before(BeforeModel::note("Be kind.")));
    let first = ScriptedModelHook::new().before(BeforeModel::replace_text("hello"));
    let model = ScriptedModel::always(reply::text("Hello."));
    let program = Program::with(first, model, |it| {
        it.model_hook(second.clone() as Arc<dyn ModelHook>)
    });
    program.run().await.assert_valid(RunStatus::Done);
    let seen = &second.requests()[0];
    assert_eq!(seen.text, "hello");
    let last = seen.messages.messages().last().unwrap().text();
    assert_eq!(last, "hello");
    let sent = program.sent().remove(0);
    assert_eq!(sent[sent.len() - 2..], ["hello", "Be kind."]);
}

#[tokio::test]
async fn each_request_is_checked_and_a_hook_can_end_the_agent_with_the_text_so_far() {
    let hook = ScriptedModelHook::new()
        .before(BeforeModel::Continue)
        .before(BeforeModel::stop("seen enough"));
    let model = ScriptedModel::new().then(reply::text_and_calls("Looking.", [("look", "{}")]));
    let program = Program::with(hook, model, |it| {
        it.tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
    });
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "Looking.");
    let asked = program.hook.requests();
    let firsts: Vec<_> = asked.iter().map(|request| request.is_first).collect();
    assert_eq!(firsts, [true, false]);
    let last = asked[1].messages.messages().last().unwrap();
    assert!(matches!(**last, Message::Tool(_)), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rewritten_reply_is_never_recorded_and_its_streamed_text_is_retracted() {
    let hook = ScriptedModelHook::new().after(AfterModel::rewrite("Call 555-###."));
    let model = ScriptedModel::new().then(talking("Call 555-1234."));
    let program = Program::new(hook, model);
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "Call 555-###.");
    assert!(!log(&finished).contains("1234"), "{}", log(&finished));
    assert_eq!(shown(&finished), ("Call 555-###.".to_owned(), true));
    assert_eq!(program.hook.replies()[0].text(), "Call 555-1234.");
}

#[tokio::test]
async fn text_not_yet_checked_by_a_hook_is_shown_only_where_hooks_allow_streaming() {
    let hook = ScriptedModelHook::new()
        .holding_text()
        .after(AfterModel::rewrite("Fine."));
    let model = ScriptedModel::new().then(Script::from(reply::text("Fire!")).split(1));
    let finished = Program::new(hook, model).run().await;
    assert_eq!(shown(&finished), (String::new(), false));
    assert_eq!(finished.result.reply, "Fine.");
}

#[tokio::test]
async fn a_refused_reply_ends_the_agent_and_none_of_its_calls_run() {
    let hook = ScriptedModelHook::new().after(AfterModel::refuse("a secret", "I cannot say."));
    let model = ScriptedModel::new().then(reply::text_and_calls("It is 42.", [("tell", "{}")]));
    let tell = Arc::new(ScriptedTool::echoing(spec("tell").read_only()));
    let program = Program::with(hook, model, |it| it.tool(tell.clone()));
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.finish_reason, Some(FinishReason::Refused));
    assert_eq!(finished.result.reply, "I cannot say.");
    assert_eq!(shown(&finished).0, "I cannot say.");
    assert_eq!(tell.count(), 0);
    assert!(!log(&finished).contains("It is 42."));
}

#[tokio::test]
async fn a_rejected_reply_runs_nothing_and_the_model_is_asked_again_with_the_reason() {
    let hook = ScriptedModelHook::new()
        .after(AfterModel::ask_again("Do not pay."))
        .after(AfterModel::ask_again("Be brief."));
    let model = ScriptedModel::new()
        .then(reply::text_and_calls("Paying.", [("pay", "{}")]))
        .then(reply::text("A long story."))
        .then(reply::text("No."));
    let pay = Arc::new(ScriptedTool::echoing(spec("pay").read_only()));
    let program = Program::with(hook, model, |it| it.tool(pay.clone()));
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "No.");
    assert_eq!(shown(&finished).0, "No.");
    assert_eq!(pay.count(), 0);
    let sent = program.sent();
    assert!(sent[1].last().unwrap().contains("Do not pay."), "{sent:?}");
    assert_eq!(sent[2].last().unwrap(), "Be brief.");
    assert_eq!(RunView::of(&finished.records()).text(), "No.");
}

#[tokio::test]
async fn rejections_of_a_reply_are_limited_and_a_rejected_reply_is_never_shown() {
    let again = || AfterModel::ask_again("Do not say 42.");
    let asked = AnswerRule::RETRIES + 1;
    let hook = (0..asked).fold(ScriptedModelHook::new(), |hook, _| hook.after(again()));
    let program = Program::new(hook, ScriptedModel::always(reply::text("It is 42.")));
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Failed);
    assert!(
        !finished.result.reply.contains("It is 42."),
        "{:?}",
        finished.result
    );
    assert_eq!(program.model.calls().len(), asked as usize);
    assert_eq!(shown(&finished).0, "");
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_hook_stops_the_model_call_in_progress() {
    #[derive(Debug)]
    struct Slow;
    #[async_trait]
    impl ModelHook for Slow {
        fn timing(&self) -> neuraxis_ports::HookTiming {
            neuraxis_ports::HookTiming::Alongside
        }
        async fn before(&self, _: &HookedRequest) -> BeforeModel {
            tokio::time::sleep(Duration::from_secs(5)).await;
            BeforeModel::refuse("slow", "No.")
        }
    }
    for (model, cost) in [
        // It is still talking when the hook refuses, so its usage is unknown …
        (talking("One two three").hang_at(2), Some(MicroUsd(0))),
        // … or has already said what it wants to do, for which there is no price.
        (reply::calls([("pay", "{}")]).into(), None),
    ] {
        let pay = Arc::new(ScriptedTool::echoing(spec("pay").read_only()));
        let program = Program::with(
            ScriptedModelHook::new(),
            ScriptedModel::new().then(model),
            |it| it.tool(pay.clone()).model_hook(Arc::new(Slow)),
        );
        let began = Instant::now();
        let finished = program.run().await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        assert_eq!(finished.result.finish_reason, Some(FinishReason::Refused));
        assert_eq!(shown(&finished), ("No.".to_owned(), true));
        assert_eq!((pay.count(), program.model.open_calls()), (0, 0));
        let told = (finished.result.cost, finished.result.cost_label);
        assert_eq!(told, (cost, CountLabel::Unknown));
    }
}

#[tokio::test]
async fn a_concurrent_hook_without_objection_changes_nothing_and_runs_once() {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("Done."));
    let program = Program::with(ScriptedModelHook::new().alongside(), model, |it| {
        it.tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
    });
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "Done.");
    assert_eq!(program.hook.requests().len(), 1);
    assert!(!finished.kinds().contains(&"advised"));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_times_out_or_is_too_late_refuses() {
    let late = BeforeModel::note("too late");
    for hook in [
        ScriptedModelHook::new().panic_before(),
        ScriptedModelHook::new().silent_before(),
        ScriptedModelHook::new().before(BeforeModel::replace_text(" ")),
        ScriptedModelHook::new().panic_after(),
        ScriptedModelHook::new().silent_after(),
        ScriptedModelHook::new().alongside().panic_before(),
        ScriptedModelHook::new().alongside().silent_before(),
        ScriptedModelHook::new().alongside().before(late),
    ] {
        let program = Program::new(hook, ScriptedModel::always(reply::text("It is 42.")));
        let began = Instant::now();
        let finished = program.run().await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(finished.result.finish_reason, Some(FinishReason::Refused));
        assert!(
            finished.result.reply.contains("a required check failed"),
            "{:?}",
            finished.result
        );
        assert!(!log(&finished).contains("It is 42"));
        assert!(began.elapsed() <= Duration::from_secs(31));
    }
}

#[tokio::test]
async fn an_agent_s_hooks_check_only_its_own_calls_and_global_hooks_check_all() {
    let own = Arc::new(ScriptedModelHook::new().after(AfterModel::rewrite("Helped, they say.")));
    let of_tools = Arc::new(ScriptedToolHook::new());
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let of_helper = ScriptedModel::new()
        .then(reply::text("Helped."))
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("Looked."));
    let helper = Agent::builder("help")
        .model(Arc::new(of_helper))
        .tool(look)
        .model_hook(own.clone())
        .tool_hook(of_tools.clone())
        .build()
        .unwrap();
    let root = ScriptedModel::new()
        .then(reply::calls([("help", r#"{"task":"help me"}"#)]))
        .then(reply::text("Done."));
    let program = Program::with(ScriptedModelHook::new(), root, |it| {
        it.agent_tool(helper.clone())
    });
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(
        finished.results()[0].value.as_str(),
        r#""Helped, they say.""#
    );
    let texts = |hook: &ScriptedModelHook| {
        let asked = hook.requests().into_iter();
        asked.map(|request| request.text).collect::<Vec<_>>()
    };
    assert_eq!(texts(&own), ["help me"]);
    let seen = texts(&program.hook);
    assert_eq!(seen, ["my number is 123", "help me", "my number is 123"]);

    // Its hooks also apply when it runs alone.
    let done = helper.execute(None, "go").await.unwrap();
    assert_eq!(done.content, "Looked.");
    assert_eq!(texts(&own), ["help me", "go", "go"]);
    assert_eq!(of_tools.seen().len(), 1);
}

#[tokio::test]
async fn a_replaced_sub_agent_task_is_the_one_its_model_reads() {
    let hook = ScriptedModelHook::new()
        .before(BeforeModel::Continue)
        .before(BeforeModel::replace_text("another task"));
    let of_helper = Arc::new(ScriptedModel::always(reply::text("Helped.")));
    let helper = Agent::builder("help")
        .model(of_helper.clone())
        .build()
        .unwrap();
    let root = ScriptedModel::new()
        .then(reply::calls([("help", r#"{"task":"help me"}"#)]))
        .then(reply::text("Done."));
    let program = Program::with(hook, root, |it| it.agent_tool(helper));
    let finished = program.run().await;
    finished.assert_valid(RunStatus::Done);
    let sent = of_helper.requests().remove(0).messages;
    assert_eq!(sent.last_user_text(), "another task");
    let view = RunView::of(&finished.records());
    let read = view.conversation(AgentId(1)).unwrap();
    assert_eq!(read.messages()[..sent.len()], *sent.messages());
}

#[tokio::test]
async fn a_structured_answer_is_checked_and_changed_by_hooks() {
    let schema = r#"{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}"#;
    let schema = AnswerSchema::from_json(schema).unwrap();
    let hook = ScriptedModelHook::new()
        .after(AfterModel::Keep)
        .after(AfterModel::rewrite(r#"{"city":"Delft"}"#));
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::calls([("final_answer", r#"{"city":"Gouda"}"#)]));
    let program = Program::with(hook, model, |it| {
        it.tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
    });
    let finished = run_to_end(&program.orchestrator, request("Where?").answer(schema)).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, r#"{"city":"Delft"}"#);
    let replies = program.hook.replies();
    assert_eq!(replies[1].text(), r#"{"city":"Gouda"}"#);
    let answers: Vec<_> = replies.iter().map(HookedReply::is_answer).collect();
    assert_eq!(answers, [false, true]);
    assert_replays(&finished.records());
}

#[tokio::test]
async fn an_advisor_amends_requests_before_hooks_and_both_know_the_owner() {
    let advisor = ScriptedAdvisor::new().then(neuraxis_core::Advice::Amend {
        text: Some("hello".to_owned()),
        notes: Vec::new(),
    });
    let advisor = Arc::new(advisor);
    let model = ScriptedModel::always(reply::text("Hello."));
    let program = Program::with(ScriptedModelHook::new(), model, |it| {
        it.advisor([Hook::Request], advisor.clone())
    });
    let asked = UserRequest::new("s".parse().unwrap(), "my number is 123");
    let finished = run_to_end(&program.orchestrator, asked.owner("ada")).await;
    finished.assert_valid(RunStatus::Done);
    let subject = advisor.questions()[0].subject.clone();
    assert_eq!(
        subject.as_str(),
        r#"{"purpose":"turn","is_first":true,"text":"my number is 123"}"#
    );
    let seen = &program.hook.requests()[0];
    assert_eq!((seen.text.as_str(), seen.owner()), ("hello", Some("ada")));
    assert_eq!(advisor.turns()[0].owner(), Some("ada"));
}

/// What survives a process.
struct World {
    store: Arc<MemoryStore>,
    model: Arc<ScriptedModel>,
}

impl World {
    fn new(model: ScriptedModel) -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            model: Arc::new(model),
        }
    }

    fn engine(&self, hook: &Arc<ScriptedModelHook>) -> OrchestratorBuilder {
        builder(self.model.clone())
            .store(self.store.clone())
            .ids(Arc::new(UuidV7))
            .model_hook(hook.clone())
    }

    /// Starts a run in a process that dies five seconds later.
    fn dies(&self, hook: ScriptedModelHook) -> RunId {
        let hook = Arc::new(hook);
        process().block_on(async {
            let engine = self.engine(&hook).build().unwrap();
            let asked = request("my number is 123");
            let (handle, _) = engine.stream(asked).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            handle.run_id()
        })
    }

    /// Resumes the run in another process; returns how often its hook was asked about requests, and the reply.
    fn goes_on(&self, run: RunId, hook: ScriptedModelHook) -> (usize, String) {
        let hook = Arc::new(hook);
        let reply = process().block_on(async {
            let engine = self.engine(&hook).build().unwrap();
            let handle = engine.runs().resume(run, Vec::new()).await.unwrap();
            handle.result().await.unwrap().reply
        });
        let records = process().block_on(self.store.records(run, Seq(0))).unwrap();
        assert_replays(&records);
        (hook.requests().len(), reply)
    }
}

#[test]
fn after_a_crash_a_hook_is_not_repeated_if_its_decision_is_recorded() {
    let slow = Script::from(reply::text("lost")).after(Duration::from_secs(9));
    let world = World::new(ScriptedModel::new().then(slow).then(reply::text("ok")));
    let run = world.dies(ScriptedModelHook::new().before(BeforeModel::replace_text("###")));
    let refuses = BeforeModel::refuse("asked again", "no");
    let (asked, reply) = world.goes_on(run, ScriptedModelHook::new().before(refuses));
    assert_eq!((asked, reply.as_str()), (0, "ok"));
    for request in world.model.requests() {
        assert_eq!(request.messages.last_user_text(), "###");
    }
}

#[test]
fn after_a_crash_during_a_hook_the_hook_is_called_again() {
    let world = World::new(ScriptedModel::always(reply::text("ok")));
    let run = world.dies(ScriptedModelHook::new().silent_before());
    assert!(world.model.calls().is_empty());
    let refuses = BeforeModel::refuse("a number", "no");
    let (asked, reply) = world.goes_on(run, ScriptedModelHook::new().before(refuses));
    assert_eq!((asked, reply.as_str()), (1, "no"));
}

#[test]
fn after_a_crash_a_reply_not_yet_checked_does_not_count() {
    let model = ScriptedModel::new()
        .then(reply::text("It is 42."))
        .then(reply::text("It is 43."));
    let world = World::new(model);
    let run = world.dies(ScriptedModelHook::new().silent_after());
    let (_, reply) = world.goes_on(run, ScriptedModelHook::new());
    assert_eq!(reply, "It is 43.");
    let alongside = World::new(ScriptedModel::always(reply::text("It is 42.")));
    let run = alongside.dies(ScriptedModelHook::new().alongside().silent_before());
    let refuses = BeforeModel::refuse("a number", "no");
    let hook = ScriptedModelHook::new().alongside().before(refuses);
    let (asked, reply) = alongside.goes_on(run, hook);
    assert_eq!((asked, reply.as_str()), (1, "no"));
}

#[tokio::test(start_paused = true)]
async fn a_client_supplied_result_is_checked_by_hooks_like_any_result() {
    for (later, with_request) in [(false, false), (true, false), (false, true), (true, true)] {
        let hook = match later {
            // The other tool is done by then.
            true => ScriptedToolHook::new().after(AfterCall::Keep),
            false => ScriptedToolHook::new(),
        };
        let hook = Arc::new(hook.after(AfterCall::withhold("secret")));
        let model = ScriptedModel::new()
            .then(reply::calls([("pick", "{}"), ("slow", "{}")]))
            .then(reply::text("Done."));
        let wait = Duration::from_secs(if later { 0 } else { 50 });
        let slow = ScriptedTool::always(spec("slow").read_only(), Act::value("1").after(wait));
        let pick = spec("pick").read_only().build();
        let builder = builder(model).tool(Arc::new(slow)).tool_hook(hook.clone());
        let (builder, asked) = match with_request {
            true => (
                builder,
                request("go").with_client_input(ClientInput::default().tools([pick])),
            ),
            false => (builder.client_tool(pick), request("go")),
        };
        let orchestrator = builder.build().unwrap();
        let (handle, _events) = orchestrator.stream(asked).await.unwrap();
        let pending = loop {
            let waits = |record: &Arc<Record>| match &record.body {
                RecordBody::ToolCall(call) if call.name.as_ref() == "pick" => {
                    Some(call.tool_call_id.clone())
                }
                _ => None,
            };
            if later {
                handle.result().await.unwrap();
            }
            if let Some(call) = handle.records().iter().find_map(waits) {
                break call;
            }
            tokio::task::yield_now().await;
        };
        let crimson = neuraxis_core::JsonText::from_text("\"crimson\"");
        let mut outcome = ToolOutcome::done(ToolOutput::new(crimson));
        outcome.failure = later.then_some(ToolFailure::Cancelled);
        let duration = Duration::from_secs(1);
        let handle = if later {
            let answer = neuraxis_engine::Answer::ToolResult {
                call: pending,
                outcome,
                duration,
            };
            let runs = orchestrator.runs();
            runs.resume(handle.run_id(), vec![answer]).await.unwrap()
        } else {
            handle.supply_result(&pending, outcome, duration).unwrap();
            handle
        };
        handle.result().await.unwrap();
        let records = handle.records();
        assert!(
            records
                .iter()
                .all(|record| !record.to_json().contains("crimson"))
        );
        let results = hook.results().into_iter();
        assert!(
            results
                .into_iter()
                .any(|it| it.output.value.as_str() == "\"crimson\"")
        );
        let (run, _) = RunTree::restore(Transcript::default(), &records).unwrap();
        assert_eq!(run.status(), RunStatus::Done);
    }
}
