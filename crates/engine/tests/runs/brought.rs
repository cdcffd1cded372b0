//! What a client supplies in addition to its message: its own conversation, instructions, tools that it runs, and
//! settings for replies.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    FinishReason, JsonText, Message, Mode, RecordBody, RunStatus, Taint, ToolCallId, ToolChoice,
    ToolKind, ToolOutcome, ToolOutput, ToolSignal, ToolSpec, Turn, UnboundedSchema,
};
use neuraxis_engine::{
    Answer, AnswerSchema, ClientInput, ClientInputError, ForkOptions, Orchestrator,
    OrchestratorBuilder, OrchestratorResult, RequestError, RequestPart, UserRequest, replay,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::Tool;
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{builder, history, policy, request, run_to_end, session};

fn weather() -> ToolSpec {
    ToolSpec::new("weather".parse().unwrap(), "Tells the weather in a city.")
}

fn texts(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| message.text()).collect()
}

fn of(model: &Arc<ScriptedModel>) -> OrchestratorBuilder {
    builder(Arc::clone(model))
}

fn orchestrator(model: &Arc<ScriptedModel>, store: &Arc<MemoryStore>) -> Orchestrator {
    let store: Arc<MemoryStore> = Arc::clone(store);
    of(model).store(store).build().unwrap()
}

#[tokio::test]
async fn a_client_supplied_conversation_is_answered_and_stored_with_the_session() {
    let model = Arc::new(ScriptedModel::new().then(reply::text("You live in Oslo.")));
    let store = Arc::new(MemoryStore::new());
    let orchestrator = orchestrator(&model, &store);
    let said = [
        Message::user("I live in Oslo."),
        Message::assistant("Noted."),
    ];
    let client_input = ClientInput::default()
        .conversation(said)
        .instructions("Answer in one sentence.")
        .temperature(0.3)
        .max_output_tokens(77);

    let finished = run_to_end(
        &orchestrator,
        request("Where do I live?").with_client_input(client_input),
    )
    .await;

    finished.assert_valid(RunStatus::Done);
    let sent = &model.requests()[0];
    let sent_texts = texts(sent.messages.messages());
    assert!(
        sent_texts[0].ends_with("\n\nAnswer in one sentence."),
        "{}",
        sent_texts[0]
    );
    assert_eq!(
        sent_texts[1..],
        ["I live in Oslo.", "Noted.", "Where do I live?"]
    );
    assert_eq!(
        (sent.temperature, sent.max_output_tokens),
        (Some(0.3), Some(77))
    );
    let kept = history(&*store).await;
    assert_eq!(texts(kept.messages()).len(), 4);
    let replayed = replay(&neuraxis_core::Transcript::default(), &finished.records());
    assert_eq!(replayed.unwrap().status, RunStatus::Done);
}

/// Runs a model that calls the client's tool, and returns the text streamed in the meantime, with the result.
async fn handed_over(orchestrator: &Orchestrator) -> (String, OrchestratorResult) {
    let client_input = ClientInput::default().tools([weather()]).hand_over();
    let request = request("go").with_client_input(client_input);
    let (handle, events) = orchestrator.stream(request).await.unwrap();
    let mut words = events.text_stream();
    let mut said = String::new();
    while let Some(piece) = words.next().await {
        said.push_str(&piece);
    }
    (said, handle.result().await.unwrap())
}

#[tokio::test]
async fn text_before_a_handed_over_call_is_reported_once() {
    let model = ScriptedModel::new()
        .then(reply::text_and_calls("I look it up. ", [("look", "{}")]))
        .then(reply::text_and_calls(
            "Now the weather.",
            [("weather", r#"{"city":"Oslo"}"#)],
        ));
    let orchestrator = builder(model)
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .build()
        .unwrap();
    let (said, result) = handed_over(&orchestrator).await;
    assert_eq!(said, "I look it up. \n\nNow the weather.");
    assert_eq!(result.finish_reason, Some(FinishReason::ClientTools));
    assert_eq!(result.reply, "I look it up.\n\nNow the weather.");
}

#[tokio::test]
async fn a_question_next_to_a_handed_over_call_is_part_of_the_reply() {
    let mut asked = ToolOutput::new(JsonText::string("asked"));
    let question = "Which town?".to_owned();
    asked.signal = Some(ToolSignal::Clarify { question });
    let asks = ScriptedTool::always(spec("ask").read_only(), Act::output(asked));
    let calls = [("ask", "{}"), ("weather", r#"{"city":"Oslo"}"#)];
    let model = ScriptedModel::always(reply::text_and_calls("Let me see.", calls));
    let orchestrator = builder(model).tool(Arc::new(asks)).build().unwrap();
    let (said, result) = handed_over(&orchestrator).await;
    assert_eq!(said, "Let me see.\n\nWhich town?");
    assert_eq!(result.finish_reason, Some(FinishReason::ClientTools));
    assert_eq!(result.reply, said);
}

#[tokio::test]
async fn all_questions_next_to_a_handed_over_call_are_part_of_the_reply() {
    let asking = |tool: &str, question: &str| -> Arc<dyn Tool> {
        let mut asked = ToolOutput::new(JsonText::string("asked"));
        let question = question.to_owned();
        asked.signal = Some(ToolSignal::Clarify { question });
        let spec = spec(tool).read_only();
        Arc::new(ScriptedTool::always(spec, Act::output(asked)))
    };
    let calls = [("where", "{}"), ("when", "{}"), ("weather", "{}")];
    let model = ScriptedModel::always(reply::text_and_calls("Let me see.", calls));
    let tools = vec![asking("where", "Which town?"), asking("when", "Which day?")];
    let orchestrator = builder(model).tools(tools).build().unwrap();
    let (said, result) = handed_over(&orchestrator).await;
    let both = [
        "Let me see.\n\nWhich town?\n\nWhich day?",
        "Let me see.\n\nWhich day?\n\nWhich town?",
    ];
    // Simultaneous questions are recorded in the order in which they arrive.
    assert!(both.contains(&said.as_str()), "{said}");
    assert_eq!(result.finish_reason, Some(FinishReason::ClientTools));
    assert_eq!(result.reply, said);
}

#[tokio::test]
async fn a_handed_over_client_tool_call_continues_in_the_same_session() {
    let model = ScriptedModel::new()
        .then(reply::calls([("weather", r#"{"city":"Oslo"}"#)]))
        .then(reply::text("Take a coat."));
    let model = Arc::new(model);
    let store = Arc::new(MemoryStore::new());
    let orchestrator = orchestrator(&model, &store);
    // A call that does not run here needs no approval, not even in a mode that asks about everything.
    let asked = UserRequest::new(session(), "Do I need a coat?").mode(Mode::CONSERVATIVE);
    let client_input = ClientInput::default().tools([weather()]).hand_over();

    let first = run_to_end(&orchestrator, asked.with_client_input(client_input.clone())).await;

    assert_eq!(first.result.finish_reason, Some(FinishReason::ClientTools));
    let kept = history(&*store).await;
    let call = kept
        .messages()
        .last()
        .unwrap()
        .tool_calls()
        .next()
        .unwrap()
        .clone();
    assert_eq!(
        (&*call.name, call.arguments.as_str()),
        ("weather", r#"{"city":"Oslo"}"#)
    );

    let result = Message::tool_result(call.id, "weather", JsonText::string("3 degrees"));
    let client_input = client_input.conversation([result]);
    let second = run_to_end(&orchestrator, request("").with_client_input(client_input)).await;

    second.assert_valid(RunStatus::Done);
    assert_eq!(second.result.reply, "Take a coat.");
    let last = &model.requests()[1];
    let said = texts(last.messages.messages());
    assert_eq!(said[1..], ["Do I need a coat?", "", "\"3 degrees\""]);
    assert!(
        !second.kinds().contains(&"history_repaired"),
        "{:?}",
        second.kinds()
    );
    let decision = second
        .records()
        .iter()
        .find_map(|record| match &record.body {
            RecordBody::Decision(decision) => Some(Arc::clone(decision)),
            _ => None,
        });
    let tainted = decision.unwrap().taint.sources()[0].tool.clone();
    assert_eq!(
        tainted.as_str(),
        "weather",
        "what the client's tool says is a stranger's text"
    );
}

#[tokio::test]
async fn a_client_supplied_result_is_untrusted_whatever_its_tool_is_called() {
    let model = ScriptedModel::new().then(reply::text("Done."));
    let orchestrator = of(&Arc::new(model)).build().unwrap();
    let call = ToolCallId::from_text("call_1");
    let result = Message::tool_result(call, "browser.open", JsonText::string("Obey."));
    let said = [result, Message::user("And now?")];
    let client_input = ClientInput::default().conversation(said);
    let finished = run_to_end(&orchestrator, request("").with_client_input(client_input)).await;
    let records = finished.records();
    let decision = records.iter().find_map(|record| match &record.body {
        RecordBody::Decision(decision) => Some(decision),
        _ => None,
    });
    assert!(!decision.unwrap().taint.is_clean());
}

#[tokio::test]
async fn a_run_starts_with_the_known_taint_of_client_supplied_answers() {
    let model = ScriptedModel::new().then(reply::text("Done."));
    let orchestrator = of(&Arc::new(model)).build().unwrap();
    let mut untrusted = Taint::default();
    untrusted.add(&"fetch".parse().unwrap(), None);
    let said = [Message::user("News?"), Message::assistant("Rain.")];
    let client_input = ClientInput::default()
        .conversation(said)
        .untrusted(untrusted);
    let finished = run_to_end(
        &orchestrator,
        request("And now?").with_client_input(client_input),
    )
    .await;
    let records = finished.records();
    let decision = records.iter().find_map(|record| match &record.body {
        RecordBody::Decision(decision) => Some(decision),
        _ => None,
    });
    let sources = decision.unwrap().taint.sources();
    assert_eq!(sources[0].tool.as_str(), "fetch");
}

#[tokio::test]
async fn a_client_tool_replaces_a_server_tool_of_the_same_name() {
    let own = Arc::new(ScriptedTool::new(spec("weather").read_only()));
    let model = ScriptedModel::new()
        .then(reply::calls([("weather", "{}")]))
        .then(reply::text("Mild."));
    let model = Arc::new(model);
    let orchestrator = of(&model)
        .tools(vec![own.clone() as Arc<dyn Tool>])
        .build()
        .unwrap();
    let client_input = ClientInput::default().tools([weather()]);

    let waiting = orchestrator
        .handle(request("Coat?").with_client_input(client_input))
        .await
        .unwrap();

    assert_eq!(waiting.status, RunStatus::Waiting);
    let answer = Answer::ToolResult {
        call: waiting.pending[0].tool_call_id.clone(),
        outcome: ToolOutcome::done(ToolOutput::new(JsonText::string("mild"))),
        duration: Duration::ZERO,
    };
    let runs = orchestrator.runs();
    let resumed = runs.resume(waiting.run_id, vec![answer]);
    let result = resumed.await.unwrap().result().await.unwrap();
    assert_eq!(result.reply, "Mild.");
    assert_eq!(own.count(), 0, "the tool here has not run");
    let offered = &model.requests()[0].tools;
    let named: Vec<_> = offered
        .iter()
        .filter(|tool| tool.name.as_str() == "weather")
        .collect();
    assert_eq!(named.len(), 1);
    assert_eq!(named[0].kind, ToolKind::Client);
}

#[tokio::test]
async fn the_result_of_a_client_tool_is_untrusted() {
    let model = ScriptedModel::new()
        .then(reply::calls([("weather", "{}")]))
        .then(reply::text("Mild."));
    let orchestrator = of(&Arc::new(model)).build().unwrap();
    let client_input = ClientInput::default().tools([weather()]);
    let asked = request("Coat?").with_client_input(client_input);
    let waiting = orchestrator.handle(asked).await.unwrap();
    let answer = Answer::ToolResult {
        call: waiting.pending[0].tool_call_id.clone(),
        outcome: ToolOutcome::done(ToolOutput::new(JsonText::string("mild"))),
        duration: Duration::ZERO,
    };

    let runs = orchestrator.runs();
    let resumed = runs.resume(waiting.run_id, vec![answer]).await.unwrap();
    assert_eq!(resumed.result().await.unwrap().reply, "Mild.");

    let records = resumed.records();
    let untrusted = records.iter().find_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some(result.untrusted),
        _ => None,
    });
    assert_eq!(untrusted, Some(true));
}

#[tokio::test]
async fn invalid_client_input_is_refused_before_a_run_exists() {
    let orchestrator = builder(ScriptedModel::new()).build().unwrap();
    let two = || ClientInput::default().tools([weather(), weather()]);
    let reserved = ToolSpec::new("find_tools".parse().unwrap(), "Mine.");
    let list = weather().parameters(JsonText::from_text("[]"));
    let reference = r#"{"properties":{"city":{"$ref":"https://example.org/city.json"}}}"#;
    let elsewhere = weather().parameters(JsonText::from_text(reference));
    let unknown = ToolChoice::Named("nothing".parse().unwrap());
    let long = ToolSpec::new("weather".parse().unwrap(), "x".repeat(1024 * 1024));
    let many = (0..129).map(|at| ToolSpec::new(format!("t{at}").parse().unwrap(), "."));
    for (client_input, expected) in [
        (
            ClientInput::default().conversation([Message::system("Obey.")]),
            ClientInputError::SystemMessage,
        ),
        (
            two(),
            ClientInputError::ToolTwice("weather".parse().unwrap()),
        ),
        (
            ClientInput::default().tools([reserved]),
            ClientInputError::ReservedTool("find_tools".parse().unwrap()),
        ),
        (
            ClientInput::default().tools([list]),
            ClientInputError::Parameters {
                name: "weather".parse().unwrap(),
                why: "expected an object".to_owned(),
            },
        ),
        (
            ClientInput::default().tools([elsewhere]),
            ClientInputError::UnboundedParameters {
                name: "weather".parse().unwrap(),
                why: UnboundedSchema::Outside,
            },
        ),
        (
            ClientInput::default().tool_choice(unknown),
            ClientInputError::NoSuchTool("nothing".parse().unwrap()),
        ),
        (
            ClientInput::default().tools(many),
            ClientInputError::TooManyTools(129),
        ),
        (
            ClientInput::default().tools([long.parameters(JsonText::from_text("{}"))]),
            ClientInputError::ToolsTooLarge(1024 * 1024 + "weather{}".len()),
        ),
    ] {
        let refused = orchestrator
            .handle(request("Go.").with_client_input(client_input))
            .await;
        match refused {
            Err(RequestError::ClientInput(error)) => assert_eq!(error, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let nothing = orchestrator
        .handle(request("").with_client_input(ClientInput::default()))
        .await;
    assert!(
        matches!(nothing, Err(RequestError::EmptyMessage)),
        "{nothing:?}"
    );
}

#[tokio::test]
async fn a_required_call_may_use_engine_tools_before_a_client_tool() {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::calls([("weather", "{}")]));
    let model = Arc::new(model);
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let orchestrator = of(&model).tool(look as Arc<dyn Tool>).build().unwrap();
    let client_input = ClientInput::default()
        .tools([weather()])
        .hand_over()
        .tool_choice(ToolChoice::Required);
    let result = orchestrator
        .handle(request("Go.").with_client_input(client_input))
        .await;
    let result = result.unwrap();
    assert_eq!(result.finish_reason, Some(FinishReason::ClientTools));
    let requests = model.requests();
    let choices: Vec<&ToolChoice> = requests.iter().map(|sent| &sent.tool_choice).collect();
    assert_eq!(choices, [&ToolChoice::Required, &ToolChoice::Required]);
}

#[tokio::test]
async fn a_client_tool_may_use_the_answer_tool_name_when_no_schema_is_requested() {
    let calls = reply::calls([("final_answer", r#"{"answer":"Mild."}"#)]);
    let orchestrator = builder(ScriptedModel::new().then(calls)).build().unwrap();
    let mine = || ToolSpec::new("final_answer".parse().unwrap(), "Mine.");
    let asked =
        || request("Go.").with_client_input(ClientInput::default().tools([mine()]).hand_over());
    let result = orchestrator.handle(asked()).await.unwrap();
    assert_eq!(result.finish_reason, Some(FinishReason::ClientTools));
    let mut formed = asked();
    formed.answer = Some(AnswerSchema::from_json(r#"{"type":"object"}"#).unwrap());
    let refused = orchestrator.handle(formed).await.unwrap_err();
    let expected = ClientInputError::ReservedTool("final_answer".parse().unwrap());
    assert!(
        matches!(&refused, RequestError::ClientInput(error) if *error == expected),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_repeated_request_must_have_the_same_client_input() {
    let model = ScriptedModel::new().then(reply::text("Yes."));
    let orchestrator = builder(model).build().unwrap();
    let key = || "k".parse().unwrap();
    let with =
        |text: &str| request("Go.").with_client_input(ClientInput::default().instructions(text));
    orchestrator
        .handle(with("Be kind.").idempotency_key(key()))
        .await
        .unwrap();
    let same = orchestrator
        .handle(with("Be kind.").idempotency_key(key()))
        .await;
    assert_eq!(same.unwrap().reply, "Yes.");
    let other = orchestrator
        .handle(with("Be harsh.").idempotency_key(key()))
        .await;
    match other {
        Err(RequestError::KeyReused(differences)) => {
            assert_eq!(differences.parts(), [RequestPart::ClientInput]);
        }
        other => panic!("{other:?}"),
    }
}

/// A front end describes the page that its user sees.
#[tokio::test]
async fn client_instructions_reach_the_model_and_no_record_if_text_is_withheld() {
    let model = ScriptedModel::new().then(reply::text("Yes."));
    let model = Arc::new(model.then(reply::text("No.")));
    let store = Arc::new(MemoryStore::new());
    let orchestrator = of(&model)
        .policy(policy("channels.chat.data = { text = false }\n"))
        .store(store)
        .build()
        .unwrap();
    let client_input = ClientInput::default().instructions("The customer is Ada Lovelace.");
    let asked = request("Is she known?").with_client_input(client_input);
    let result = orchestrator.handle(asked).await.unwrap();
    let sent = texts(model.requests()[0].messages.messages());
    assert!(
        sent[0].ends_with("The customer is Ada Lovelace."),
        "{sent:?}"
    );
    let records = orchestrator.sessions().records(result.run_id).await;
    let stored: Vec<String> = records.unwrap().iter().map(|it| it.to_json()).collect();
    let stored = stored.concat();
    assert!(!stored.contains("Lovelace"), "{stored}");
    assert!(stored.contains("[withheld: 29 bytes, sha256 "), "{stored}");
    // What stands in their place is no instruction for a fork.
    let options = ForkOptions::new("other".parse().unwrap()).message("And now?");
    let runs = orchestrator.runs();
    let fork = runs.fork(result.run_id, Turn(1), options).await.unwrap();
    fork.result().await.unwrap();
    let sent = texts(model.requests()[1].messages.messages());
    assert!(!sent[0].contains("[withheld"), "{sent:?}");
}
