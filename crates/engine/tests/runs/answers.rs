//! Answers that must fit a JSON Schema, whatever the models do.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    Advice, BudgetKind, FinishReason, Hook, JsonText, Mode, ModelRequest, PromptReason, RecordBody,
    ReplyFinish, ReplyFormat, RunStatus, ToolChoice, ToolFailure, Transcript,
};
use neuraxis_engine::{
    AnswerFault, AnswerSchema, CatalogError, ForkOptions, Orchestrator, RequestError, RequestPart,
    UserRequest, replay,
};
use neuraxis_memory::MemoryStore;
use neuraxis_testkit::{
    Act, ScriptedAdvisor, ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec,
};

use crate::support::{FinishedRun, builder, policy, request, run_to_end};

const DELFT: &str = r#"{"city":"Delft","people":104000}"#;

fn place() -> AnswerSchema {
    let schema = r#"{"title":"Place","type":"object","required":["city","people"],
        "properties":{"city":{"type":"string"},"people":{"type":"integer","minimum":1}}}"#;
    AnswerSchema::from_json(schema).unwrap()
}

fn asked() -> UserRequest {
    request("Where do I live?").answer(place())
}

fn look() -> Arc<ScriptedTool> {
    Arc::new(ScriptedTool::echoing(spec("look").read_only()))
}

fn deliver(arguments: &str) -> neuraxis_core::Reply {
    reply::calls([("final_answer", arguments)])
}

struct Asked {
    model: Arc<ScriptedModel>,
    finished: FinishedRun,
}

impl Asked {
    fn requests(&self) -> Vec<ModelRequest> {
        self.model.requests()
    }

    /// Returns the last message that the model received in a request.
    fn told(&self, request: usize) -> String {
        let messages = self.requests()[request].messages.clone();
        messages.messages().last().unwrap().text()
    }
}

/// Lets a model answer, and checks that its log replays to the same run.
async fn ask(model: ScriptedModel, tools: &[Arc<ScriptedTool>], request: UserRequest) -> Asked {
    let model = Arc::new(model);
    let orchestrator = builder(model.clone())
        .tools(tools.iter().map(|tool| tool.clone() as Arc<_>))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request).await;
    replay(&Transcript::default(), &finished.records()).unwrap();
    Asked { model, finished }
}

fn assert_answer(finished: &FinishedRun, answer: &str) {
    let result = &finished.result;
    assert_eq!(result.status, RunStatus::Done, "{result:?}");
    assert_eq!(
        result.answer.as_ref().map(JsonText::as_str),
        Some(answer),
        "{result:?}"
    );
    assert_eq!(
        (result.reply.as_str(), &result.answer_fault),
        (answer, &None)
    );
    let json = serde_json::to_value(result).unwrap();
    assert_eq!(
        json["answer"],
        serde_json::from_str::<serde_json::Value>(answer).unwrap(),
        "written in place"
    );
}

fn fault(finished: &FinishedRun) -> &AnswerFault {
    assert_eq!(finished.result.answer, None, "{:?}", finished.result);
    finished.result.answer_fault.as_ref().unwrap()
}

#[tokio::test]
async fn without_tools_the_provider_gets_the_schema_and_the_text_is_the_answer() {
    let model = ScriptedModel::new().then(reply::text(format!("```json\n{DELFT}\n```")));
    let asked = ask(model, &[], asked()).await;
    assert_answer(&asked.finished, DELFT);
    let sent = &asked.requests()[0];
    let format = ReplyFormat::JsonSchema {
        name: "Place".into(),
        schema: place().schema().clone(),
    };
    assert_eq!((&sent.reply_format, sent.tools.len()), (&format, 0));
}

#[tokio::test]
async fn an_invalid_answer_is_reported_with_its_location_and_corrected() {
    let model = ScriptedModel::new()
        .then(reply::text(r#"{"city":"Delft","people":"many"}"#))
        .then(reply::text("Delft."))
        .then(reply::text(DELFT));
    let asked = ask(model, &[], asked()).await;
    assert_answer(&asked.finished, DELFT);
    let told = asked.told(1);
    assert!(told.contains("at /people"), "{told}");
    assert!(!told.contains("many"), "it is not quoted: {told}");
    let told = asked.told(2);
    assert!(told.contains("not JSON"), "{told}");
    let records = asked.finished.records();
    let reasons = records.iter().filter_map(|record| match &record.body {
        RecordBody::PromptInjected(told) => Some(told.reason),
        _ => None,
    });
    let reasons: Vec<_> = reasons.collect();
    assert_eq!(reasons, [PromptReason::AnswerAgain; 2], "on record");
}

#[tokio::test]
async fn a_run_without_a_valid_answer_fails_after_the_allowed_retries() {
    for (retries, requests) in [(0, 1), (2, 3)] {
        let model = ScriptedModel::always(reply::text(r#"{"city":"Delft"}"#));
        let request = request("Where?").answer(place().retries(retries));
        let asked = ask(model, &[], request).await;
        assert_eq!(asked.requests().len(), requests);
        let finished = &asked.finished;
        finished.assert_valid(RunStatus::Failed);
        let reason = finished.result.finish_reason.as_ref().unwrap();
        assert!(matches!(reason, FinishReason::InvalidAnswer(why) if why.contains("people")));
        assert!(matches!(fault(finished), AnswerFault::NotSchema(why) if why.contains("people")));
        let reply = &finished.result.reply;
        assert!(reply.starts_with(r#"{"city":"Delft"}"#), "{reply}");
        assert!(
            reply.contains("the answer does not fit the schema"),
            "{reply}"
        );
        assert!(!reply.contains("Answer again"), "to the model: {reply}");
        let json = serde_json::to_value(&finished.result).unwrap();
        let told = json["answer_fault"].as_str().unwrap();
        assert!(
            told.contains("people") && json.get("answer").is_none(),
            "{json}"
        );
    }
}

#[tokio::test]
async fn with_tools_a_tool_delivers_the_answer_after_other_calls() {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", r#"{"at":"the map"}"#)]))
        .then(deliver(DELFT));
    let look = look();
    let asked = ask(model, std::slice::from_ref(&look), asked()).await;
    assert_answer(&asked.finished, DELFT);
    assert_eq!((look.count(), asked.requests().len()), (1, 2));
    for sent in asked.requests() {
        assert!(sent.reply_format.is_text(), "it would suppress calls");
        let names: Vec<_> = sent.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["look", "read_output", "final_answer"]);
        assert_eq!(sent.tools[2].parameters, *place().schema());
    }
    asked.finished.assert_valid(RunStatus::Done);
}

#[tokio::test]
async fn invalid_answer_arguments_are_an_error_that_the_model_corrects() {
    let model = ScriptedModel::new()
        .then(deliver(r#"{"city":"Delft""#))
        .then(deliver(r#"{"city":"Delft","people":0}"#))
        .then(deliver(DELFT));
    let asked = ask(model, &[look()], asked()).await;
    assert_answer(&asked.finished, DELFT);
    assert!(asked.told(1).contains("not JSON"), "{}", asked.told(1));
    assert!(asked.told(2).contains("at /people"), "{}", asked.told(2));
    let failures: Vec<_> = asked
        .finished
        .results()
        .iter()
        .map(|result| result.failure)
        .collect();
    let invalid = Some(ToolFailure::InvalidArguments);
    assert_eq!(failures, [invalid, invalid, None]);
}

#[tokio::test]
async fn invalid_answers_by_tool_are_retried_as_often_as_invalid_texts() {
    let model = ScriptedModel::answering(|request| {
        let turn = request.messages.len();
        deliver(&format!(r#"{{"turn":{turn}}}"#))
    });
    let asked = ask(model, &[look()], asked()).await;
    assert_eq!(asked.requests().len(), 3);
    asked.finished.assert_valid(RunStatus::Failed);
    assert!(matches!(fault(&asked.finished), AnswerFault::NotSchema(_)));
}

#[tokio::test]
async fn a_repeated_invalid_answer_stops_the_run_with_the_reason() {
    let wrong = || deliver(r#"{"city":"Delft"}"#);
    let model = ScriptedModel::new()
        .then(wrong())
        .then(wrong())
        .then(wrong())
        .then(reply::text("I cannot say."));
    let asked = ask(model, &[look()], asked()).await;
    let result = &asked.finished.result;
    let repeated = FinishReason::Budget(BudgetKind::RepeatedCalls);
    assert_eq!(result.finish_reason, Some(repeated), "{result:?}");
    let fault = fault(&asked.finished);
    assert!(
        matches!(fault, AnswerFault::NotSchema(why) if why.contains("people")),
        "{fault:?}"
    );
}

#[tokio::test]
async fn a_valid_text_is_an_answer_and_an_invalid_one_is_referred_to_the_answer_tool() {
    let model = ScriptedModel::new().then(reply::text(DELFT));
    let asked = ask(model, &[look()], self::asked()).await;
    assert_answer(&asked.finished, DELFT);

    let model = ScriptedModel::new()
        .then(reply::text("You live in Delft."))
        .then(deliver(DELFT));
    let asked = ask(model, &[look()], self::asked()).await;
    assert_answer(&asked.finished, DELFT);
    assert!(
        asked.told(1).contains("calling final_answer"),
        "{}",
        asked.told(1)
    );
}

#[tokio::test]
async fn a_provider_refusal_is_reported_as_one_and_a_refusal_in_words_as_not_json() {
    let withheld = reply::of(reply::text("I can't.").parts, ReplyFinish::ContentFilter);
    for tools in [vec![], vec![look()]] {
        let model = ScriptedModel::always(withheld.clone());
        let asked = ask(model, &tools, asked()).await;
        assert_eq!(fault(&asked.finished), &AnswerFault::Refused);
        assert_eq!(asked.requests().len(), 1, "nobody insists");
        assert_eq!(asked.finished.result.reply, "I can't.");
    }
    let model = ScriptedModel::always(reply::text("I would rather not."));
    let asked = ask(model, &[look()], asked()).await;
    assert!(matches!(fault(&asked.finished), AnswerFault::NotJson(_)));
    assert!(
        asked
            .finished
            .result
            .reply
            .starts_with("I would rather not.")
    );
}

#[tokio::test]
async fn a_truncated_answer_is_retried_and_finally_reported_as_truncated() {
    let model = ScriptedModel::new()
        .then(reply::cut(r#"{"city":"De"#))
        .then(reply::text(DELFT));
    let asked = ask(model, &[], self::asked()).await;
    assert_answer(&asked.finished, DELFT);
    assert!(asked.told(1).contains("be shorter"), "{}", asked.told(1));

    let model = ScriptedModel::always(reply::cut(r#"{"city":"De"#));
    let asked = ask(model, &[], self::asked()).await;
    assert_eq!(asked.requests().len(), 3);
    assert_eq!(
        fault(&asked.finished),
        &AnswerFault::StoppedEarly(FinishReason::Length)
    );
    asked.finished.assert_valid(RunStatus::Done);
}

#[tokio::test]
async fn calls_next_to_the_answer_run_before_the_run_ends() {
    let put = Arc::new(ScriptedTool::echoing(spec("put").idempotent()));
    for calls in [
        [("put", "{}"), ("final_answer", DELFT)],
        [("final_answer", DELFT), ("put", "{}")],
    ] {
        let before = put.count();
        let model = ScriptedModel::new().then(reply::calls(calls));
        let asked = ask(model, std::slice::from_ref(&put), asked()).await;
        assert_answer(&asked.finished, DELFT);
        assert_eq!(put.count(), before + 1);
        asked.finished.assert_valid(RunStatus::Done);
    }
    // If there are several, one that fits is enough.
    for calls in [
        [("final_answer", "{}"), ("final_answer", DELFT)],
        [("final_answer", DELFT), ("final_answer", "{}")],
    ] {
        let model = ScriptedModel::new().then(reply::calls(calls));
        let asked = ask(model, std::slice::from_ref(&put), asked()).await;
        assert_answer(&asked.finished, DELFT);
    }
}

#[tokio::test]
async fn at_the_turn_limit_the_last_answer_is_requested_as_json() {
    let looks = |request: &ModelRequest| {
        let turn = request.messages.len();
        reply::calls([("look", &*format!(r#"{{"n":{turn}}}"#))])
    };
    for (last, answer) in [(DELFT, Some(DELFT)), ("Delft.", None)] {
        let model = ScriptedModel::answering(move |request| {
            match request.tool_choice == ToolChoice::None {
                true => reply::text(last),
                false => looks(request),
            }
        });
        let asked = ask(model, &[look()], asked()).await;
        let requests = asked.requests();
        let sent = requests.last().unwrap();
        assert!(
            matches!(&sent.reply_format, ReplyFormat::JsonSchema { schema, .. } if schema == place().schema()),
            "{:?}",
            sent.reply_format
        );
        let result = &asked.finished.result;
        assert_eq!(result.finish_reason, Some(FinishReason::MaxTurns));
        assert_eq!(result.answer.as_ref().map(JsonText::as_str), answer);
        if answer.is_none() {
            let early = AnswerFault::StoppedEarly(FinishReason::MaxTurns);
            assert_eq!(fault(&asked.finished), &early);
        }
    }
    // A model that calls the tool anyway has answered.
    let model =
        ScriptedModel::answering(
            move |request| match request.tool_choice == ToolChoice::None {
                true => deliver(DELFT),
                false => looks(request),
            },
        );
    let asked = ask(model, &[look()], asked()).await;
    assert_answer(&asked.finished, DELFT);
}

#[tokio::test]
async fn an_answer_needs_no_approval_and_other_calls_still_do() {
    let approver = Arc::new(ScriptedApprover::new().deny("no"));
    let send = Arc::new(ScriptedTool::echoing(spec("send")));
    let model = ScriptedModel::new()
        .then(reply::calls([("send", "{}")]))
        .then(deliver(DELFT));
    let orchestrator = builder(model)
        .tools([send.clone() as Arc<_>])
        .approver(approver.clone())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, asked().mode(Mode::MODERATE)).await;
    assert_answer(&finished, DELFT);
    let asks = approver.asks();
    let names: Vec<_> = asks.iter().map(|ask| &*ask.name).collect();
    assert_eq!((names, send.count()), (vec!["send"], 0));
}

#[tokio::test]
async fn an_answer_does_not_count_toward_the_tool_call_limit() {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}"), ("final_answer", DELFT)]))
        .then(reply::text("too late"));
    let orchestrator = builder(model)
        .tools([look() as Arc<_>])
        .tool_call_limit(1)
        .build()
        .unwrap();
    assert_answer(&run_to_end(&orchestrator, asked()).await, DELFT);
}

#[tokio::test]
async fn an_advisor_that_offers_no_tools_leaves_the_answer_tool() {
    let advisor = Arc::new(ScriptedAdvisor::new().then(Advice::Offer { tools: Vec::new() }));
    let model = Arc::new(ScriptedModel::new().then(deliver(DELFT)));
    let orchestrator = builder(model.clone())
        .tools([look() as Arc<_>])
        .advisor([Hook::ToolsSelected], advisor)
        .build()
        .unwrap();
    assert_answer(&run_to_end(&orchestrator, asked()).await, DELFT);
    let names: Vec<_> = model.requests()[0]
        .tools
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(names, ["final_answer"]);
}

#[tokio::test]
async fn an_advisor_can_reject_answers_with_or_without_a_schema() {
    for request in [request("Where?"), asked()] {
        let message = "Name no city.".to_owned();
        let advisor = Arc::new(ScriptedAdvisor::new().then(Advice::TurnDown { message }));
        let model = Arc::new(ScriptedModel::always(reply::text(DELFT)));
        let orchestrator = builder(model.clone())
            .advisor([Hook::Answer], advisor.clone())
            .build()
            .unwrap();
        let finished = run_to_end(&orchestrator, request).await;
        assert_eq!(finished.result.reply, DELFT);
        let sent = model.requests();
        assert_eq!((sent.len(), advisor.questions().len()), (2, 2));
        let last = sent[1].messages.messages().last().unwrap().text();
        assert_eq!(last, "Name no city.");
    }
}

#[tokio::test]
async fn the_name_of_the_answer_tool_is_reserved() {
    let tool = ScriptedTool::echoing(spec("final_answer"));
    let built = builder(ScriptedModel::new()).tool(Arc::new(tool)).build();
    let neuraxis_engine::BuildError::Tool(error) = built.unwrap_err() else {
        panic!("another error")
    };
    assert!(
        matches!(&error, CatalogError::ReservedName(name) if name.as_str() == "final_answer"),
        "{error}"
    );
    // If no structured answer is requested, the tool does not exist.
    let model = ScriptedModel::new()
        .then(deliver(DELFT))
        .then(reply::text("ok"));
    let asked = ask(model, &[look()], request("hi")).await;
    let failure = asked.finished.results()[0].failure;
    assert_eq!(failure, Some(ToolFailure::UnknownTool));
    assert_eq!(
        (
            &asked.finished.result.answer,
            &asked.finished.result.answer_fault
        ),
        (&None, &None)
    );
}

fn world(store: &Arc<MemoryStore>, model: ScriptedModel) -> Orchestrator {
    let slow = Act::value("1").after(Duration::from_secs(10));
    let slow = ScriptedTool::always(spec("slow").idempotent(), slow);
    builder(model)
        .store(store.clone())
        .ids(Arc::new(neuraxis_engine::UuidV7))
        .tool(Arc::new(slow))
        .build()
        .unwrap()
}

#[test]
fn an_answer_call_made_before_a_crash_is_delivered_by_the_resuming_process() {
    for calls in [
        // Allowed, but not started when the process dies: it is checked again.
        [("slow", "{}"), ("final_answer", DELFT)],
        // Delivered before the crash, beside a call that is made again.
        [("final_answer", DELFT), ("slow", "{}")],
    ] {
        let store = Arc::new(MemoryStore::new());
        let process = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().start_paused(true).build().unwrap()
        };
        let run = process().block_on(async {
            let model = ScriptedModel::new().then(reply::calls(calls));
            let (handle, _) = world(&store, model).stream(asked()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            handle.run_id()
        });
        process().block_on(async {
            let orchestrator = world(&store, ScriptedModel::new());
            let open = orchestrator.runs().open_calls(run).await.unwrap();
            let allowed = open
                .iter()
                .all(|open| open.verdict == neuraxis_core::Verdict::Allow);
            assert!(allowed, "{open:?}");
            let handle = orchestrator.runs().resume(run, Vec::new()).await.unwrap();
            let result = handle.result().await.unwrap();
            assert_eq!(result.status, RunStatus::Done, "{result:?}");
            assert_eq!(result.answer, Some(JsonText::from_text(DELFT)));
            replay(&Transcript::default(), &handle.records()).unwrap();
        });
    }
}

#[tokio::test]
async fn a_log_with_an_answer_replays_from_every_step() {
    let model = ScriptedModel::new()
        .then(reply::text("Delft."))
        .then(deliver("{}"))
        .then(deliver(DELFT));
    let records = ask(model, &[look()], asked()).await.finished.records();
    for end in 1..records.len() {
        let is_step = records[end].active_ms.is_some() || end == 1;
        let report = replay(&Transcript::default(), &records[..end]);
        assert_eq!(report.is_ok(), is_step, "up to record {end}");
    }
}

#[tokio::test]
async fn a_repeated_keyed_request_must_have_the_same_answer_schema() {
    let orchestrator = builder(ScriptedModel::always(reply::text(DELFT)))
        .build()
        .unwrap();
    let keyed = |request: UserRequest| request.idempotency_key("k".parse().unwrap());
    let first = orchestrator.handle(keyed(asked())).await.unwrap();
    let again = orchestrator.handle(keyed(asked())).await.unwrap();
    assert_eq!(
        (again.run_id, &again.answer),
        (first.run_id, &first.answer),
        "read from its log"
    );
    assert!(first.answer.is_some());
    let other = orchestrator
        .handle(keyed(request("Where do I live?")))
        .await;
    let Err(RequestError::KeyReused(differences)) = other else {
        panic!("{other:?}")
    };
    assert_eq!(differences.parts(), [RequestPart::Answer]);
}

#[tokio::test]
async fn a_fork_uses_the_answer_schema_of_its_run() {
    let orchestrator = builder(ScriptedModel::always(reply::text(DELFT)))
        .build()
        .unwrap();
    let first = orchestrator.handle(asked()).await.unwrap();
    let options = ForkOptions::new("fork".parse().unwrap()).message("And my brother?");
    let turn = neuraxis_core::Turn(1);
    let runs = orchestrator.runs();
    let fork = runs.fork(first.run_id, turn, options).await.unwrap();
    let result = fork.result().await.unwrap();
    assert_eq!(result.answer, first.answer);
}

#[tokio::test]
async fn without_offered_tools_the_answer_is_the_text() {
    let none = policy("channels.chat.unlisted_tools = 'withheld'");
    let model = Arc::new(ScriptedModel::always(reply::text(DELFT)));
    let orchestrator = builder(model.clone())
        .tools([look() as Arc<_>])
        .policy(none)
        .build()
        .unwrap();
    assert_answer(&run_to_end(&orchestrator, asked()).await, DELFT);
    assert!(!model.requests()[0].reply_format.is_text());
}

#[tokio::test]
async fn a_waiting_run_reports_waiting_instead_of_an_answer() {
    let model = ScriptedModel::new().then(reply::calls([("pick", "{}")]));
    let orchestrator = builder(model)
        .client_tool(spec("pick").read_only().build())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, asked()).await;
    assert_eq!(finished.result.status, RunStatus::Waiting);
    assert_eq!(fault(&finished), &AnswerFault::Waiting);
}

mod property {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const TEXTS: [&str; 9] = [
        DELFT,
        "```\n{\"city\":\"a\",\"people\":1}\n```",
        "{}",
        r#"{"city":"Delft","people":0}"#,
        r#"{"city":"Delft","people":1.5}"#,
        "[]",
        "no",
        "",
        r#"{"city":"a","city":4,"people":2}"#,
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn every_given_answer_is_valid_and_a_run_without_one_gives_the_reason(
            said in prop::collection::vec((any::<bool>(), any::<bool>(), select(TEXTS.to_vec())), 1..6),
            with_tools: bool,
        ) {
            let mut model = ScriptedModel::new();
            for (calls, cut, text) in said {
                model = model.then(match (calls, cut) {
                    (true, _) => deliver(text),
                    (false, true) => reply::cut(text),
                    (false, false) => reply::text(text),
                });
            }
            for _ in 0..10 {
                model = model.then(reply::text(DELFT));
            }
            let tools = if with_tools { vec![look()] } else { Vec::new() };
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(true).build().unwrap();
            let finished = runtime.block_on(ask(model, &tools, asked())).finished;
            let result = &finished.result;
            prop_assert_eq!(result.answer.is_some(), result.answer_fault.is_none());
            if let Some(answer) = &result.answer {
                prop_assert_eq!(result.status, RunStatus::Done);
                prop_assert_eq!(place().read(answer.as_str()).unwrap(), answer.clone());
                prop_assert_eq!(&result.reply, answer.as_str());
            }
        }
    }
}
