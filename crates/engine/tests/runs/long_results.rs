//! Results that are too long for a model: cut around a marker, kept beside the run, and read in pages.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    ForkPoint, JsonText, LlmError, LlmErrorKind, MAX_ERROR_CHARS, ModelRequest, READ_OUTPUT,
    ReasoningPart, RecordBody, ReplyPart, Role, RunId, RunStatus, Seq, SessionId, ToolCallId,
    ToolFailure, ToolResult, Turn,
};
use neuraxis_engine::{ForkOptions, Orchestrator, OrchestratorBuilder, ResultBounds, UserRequest};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    OutputPlace, RunLog as _, RunOutputs as _, Session, SessionIndex as _, SessionStore, StoreError,
};
use neuraxis_testkit::{
    Act, CountingIds, Fault, RunLog, START, Script, ScriptedModel, ScriptedTool, StoreOperation,
    reply, spec,
};
use serde_json::Value;

use crate::support::{
    FinishedRun, builder, failing_store, policy, process, request, run_to_end, session,
};

/// Enough lines that a model reads only a part of them.
fn long() -> String {
    (1..=20_000)
        .map(|number| format!("line {number} of \"it\"\n"))
        .collect()
}

fn big() -> ScriptedTool {
    let value = JsonText::string(&long());
    ScriptedTool::always(spec("big").read_only(), Act::value(value.as_str()))
}

/// Calls the tool `big` first, then does what the marker in the last result says, until there is no more.
fn reader() -> ScriptedModel {
    ScriptedModel::answering(|request: &ModelRequest| {
        let Some(last) = last_result(request) else {
            return Script::from(reply::calls([("big", "{}")]));
        };
        let next = match serde_json::from_str::<Value>(&last) {
            Ok(page) => page
                .get("next_offset")
                .map(std::string::ToString::to_string),
            Err(_) => Some(after(&last, "\"offset\":")),
        };
        match next {
            Some(offset) => {
                let arguments = format!(r#"{{"call":"{}","offset":{offset}}}"#, call_of(request));
                Script::from(reply::calls([(READ_OUTPUT, arguments.as_str())]))
            }
            None => Script::from(reply::text("I have read it.")),
        }
    })
}

fn last_result(request: &ModelRequest) -> Option<String> {
    let messages = request.messages.messages();
    let results = messages
        .iter()
        .rev()
        .filter_map(|message| match message.as_ref() {
            neuraxis_core::Message::Tool(tool) => Some(tool.content.as_text().into_owned()),
            _ => None,
        });
    results.into_iter().next()
}

/// Returns the call that the marker in the first result names.
fn call_of(request: &ModelRequest) -> String {
    let messages = request.messages.messages();
    let mut results = messages
        .iter()
        .filter_map(|message| match message.as_ref() {
            neuraxis_core::Message::Tool(tool) => Some(tool.content.as_text()),
            _ => None,
        });
    let first = results.find(|text| text.contains(READ_OUTPUT)).unwrap();
    after(&first, "\"call\":\"")
}

fn after(text: &str, mark: &str) -> String {
    let (_, behind) = text.split_once(mark).unwrap();
    let is_end = |letter: char| matches!(letter, '"' | ',' | '}');
    behind.split(is_end).next().unwrap().to_owned()
}

fn page_text(result: &ToolResult) -> String {
    let page: Value = result.value.decode().unwrap();
    page["text"].as_str().unwrap().to_owned()
}

async fn whole(store: &dyn SessionStore, run: RunId, call: &ToolCallId) -> String {
    let all = usize::MAX;
    let page = store
        .output_page(run, call, OutputPlace::Byte(0), all)
        .await;
    page.unwrap().text
}

fn with(
    store: &Arc<impl SessionStore>,
    model: ScriptedModel,
    tool: ScriptedTool,
) -> OrchestratorBuilder {
    builder(model).store(store.clone()).tool(Arc::new(tool))
}

#[tokio::test]
async fn a_model_reads_a_long_result_completely_in_pages() {
    let store = Arc::new(MemoryStore::new());
    let orchestrator = with(&store, reader(), big()).build().unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let results = finished.results();
    let bound = ResultBounds::default().max_bytes();
    for result in &results {
        assert!(result.value.as_str().len() <= bound, "{}", result.name);
        assert!(!result.untrusted);
    }
    let shown = results[0].value.as_text().into_owned();
    let marker = shown.lines().find(|line| line.starts_with('[')).unwrap();
    let (head, _) = shown.split_once(marker).unwrap();
    let pages: String = results[1..].iter().map(page_text).collect();
    assert_eq!(format!("{head}{pages}"), long());
    assert!(results.len() > 5, "it takes several pages");
    let run = finished.result.run_id;
    assert_eq!(
        whole(store.as_ref(), run, &results[0].tool_call_id).await,
        long()
    );
    assert_eq!(
        store.outputs(run).await.unwrap().len(),
        1,
        "pages are kept nowhere"
    );
    // The record contains what the model read.
    let last: Value = results.last().unwrap().value.decode().unwrap();
    assert_eq!(
        (&last["total_bytes"], &last["total_lines"]),
        (&long().len().into(), &20_000.into())
    );
}

#[tokio::test]
async fn a_model_finds_lines_of_a_long_result_by_a_pattern() {
    let model = ScriptedModel::answering(|request: &ModelRequest| {
        let found = last_result(request);
        match (found, request.messages.len()) {
            (None, _) => Script::from(reply::calls([("big", "{}")])),
            (Some(_), 2..=5) => {
                let call = call_of(request);
                let calls = [
                    format!(r#"{{"call":"{call}","pattern":"line 1999[0-9]"}}"#),
                    format!(r#"{{"call":"{call}","pattern":"LINE","line":3}}"#),
                    format!(r#"{{"call":"{call}","pattern":"(?i)LINE","line":3}}"#),
                    format!(r#"{{"call":"{call}","pattern":"line (","line":3}}"#),
                    format!(r#"{{"call":"{call}","line":3,"offset":3}}"#),
                    format!(r#"{{"call":"{call}","line":20000}}"#),
                    format!(r#"{{"call":"{call}","line":20001}}"#),
                ];
                Script::from(reply::calls(
                    calls.iter().map(|it| (READ_OUTPUT, it.as_str())),
                ))
            }
            _ => Script::from(reply::text("Found.")),
        }
    });
    let finished = run_to_end(
        &builder(model).tool(Arc::new(big())).build().unwrap(),
        request("go"),
    )
    .await;
    finished.assert_valid(RunStatus::Done);
    let mut found: Vec<_> = finished.results();
    found.sort_by_key(|result| result.index);
    let found: Vec<Value> = found
        .iter()
        .skip(1)
        .map(|it| it.value.decode().unwrap())
        .collect();
    let lines = |value: &Value| value["matches"].as_array().unwrap().len();
    assert_eq!(
        (lines(&found[0]), &found[0]["matches"][3]["line"]),
        (10, &19_993.into())
    );
    assert_eq!(found[0]["matches"][3]["text"], "line 19993 of \"it\"");
    assert_eq!(lines(&found[1]), 0);
    // As many as fit, and where to continue.
    assert_eq!(found[2]["matches"][0]["line"], 3);
    assert_eq!(found[2]["next_line"], 3 + lines(&found[2]));
    let error = |value: &Value| value["error"].as_str().unwrap().to_owned();
    assert!(
        error(&found[3]).starts_with("the pattern cannot be used: "),
        "{}",
        found[3]
    );
    assert_eq!(error(&found[4]), "give offset or line, not both");
    assert_eq!(found[5]["text"], "line 20000 of \"it\"\n");
    assert!(error(&found[6]).starts_with("nothing is there: the output has "));
}

#[tokio::test]
async fn a_pattern_finds_a_line_anywhere_in_the_output() {
    // The lines are so long that every piece a search reads, except the last, ends within a line.
    let line = "0123456789".repeat(4_000);
    let long: String = (1..=60)
        .map(|number| format!("<{number}>{line}</{number}>\n"))
        .collect();
    let tool = ScriptedTool::always(
        spec("big").read_only(),
        Act::value(JsonText::string(&long).as_str()),
    );
    let model = ScriptedModel::answering(|request: &ModelRequest| match request.messages.len() {
        ..=2 => Script::from(reply::calls([("big", "{}")])),
        3..=4 => {
            let arguments = format!(r#"{{"call":"{}","pattern":"^<.*>$"}}"#, call_of(request));
            Script::from(reply::calls([(READ_OUTPUT, arguments.as_str())]))
        }
        _ => Script::from(reply::text("Found.")),
    });
    let orchestrator = builder(model).tool(Arc::new(tool)).build().unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    let found: Value = finished.results()[1].value.decode().unwrap();
    let lines = found["matches"].as_array().unwrap().iter();
    let lines: Vec<u64> = lines.map(|it| it["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, (1..=60).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_match_in_a_long_line_is_shown_with_its_surrounding_text() {
    // The first match crosses the end of what is searched at a time.
    let (x, y) = ("x".repeat(256 * 1024 - 3), "y".repeat(300_000));
    let long = format!("{x}needle{y}needle{y}\n{}needle\n", "z".repeat(2_000));
    let tool = ScriptedTool::always(
        spec("big").read_only(),
        Act::value(JsonText::string(&long).as_str()),
    );
    let model = ScriptedModel::answering(|request: &ModelRequest| match request.messages.len() {
        ..=2 => Script::from(reply::calls([("big", "{}")])),
        3..=4 => {
            // `^` must not match at the start of a piece within a line.
            let arguments = format!(r#"{{"call":"{}","pattern":"needle|^y"}}"#, call_of(request));
            Script::from(reply::calls([(READ_OUTPUT, arguments.as_str())]))
        }
        _ => Script::from(reply::text("Found.")),
    });
    let orchestrator = builder(model).tool(Arc::new(tool)).build().unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    let found: Value = finished.results()[1].value.decode().unwrap();
    let matches = found["matches"].as_array().unwrap();
    let places: Vec<_> = matches
        .iter()
        .map(|it| (it["line"].as_u64().unwrap(), it["offset"].as_u64().unwrap()))
        .collect();
    let offsets: Vec<_> = long
        .match_indices("needle")
        .map(|(at, _)| at as u64)
        .collect();
    assert_eq!(places, [(1, offsets[0]), (1, offsets[1]), (2, offsets[2])]);
    let shown = |at: usize| matches[at]["text"].as_str().unwrap();
    assert_eq!(
        shown(0),
        format!("…{}needle{}…", "x".repeat(100), "y".repeat(294))
    );
    assert_eq!(shown(2), format!("…{}needle", "z".repeat(100)));
    assert_eq!(found["summary"], "2 lines fit the pattern.");
}

#[tokio::test]
async fn a_long_error_is_cut_and_stored_like_a_long_value() {
    let store = Arc::new(MemoryStore::new());
    let fails = ScriptedTool::always(spec("big").read_only(), Act::error(&long()));
    let model = ScriptedModel::new()
        .then(reply::calls([("big", "{}")]))
        .then(reply::text("ok"));
    let finished = run_to_end(&with(&store, model, fails).build().unwrap(), request("go")).await;
    let result = &finished.results()[0];
    assert_eq!(result.failure, Some(ToolFailure::Permanent));
    assert!(result.value.as_str().len() <= MAX_ERROR_CHARS);
    let message = result.value.error_message().unwrap();
    assert!(
        message.starts_with("line 1 of") && message.contains(READ_OUTPUT),
        "{message}"
    );
    assert!(message.ends_with("line 20000 of \"it\"\n"), "{message}");
    assert_eq!(
        whole(store.as_ref(), finished.result.run_id, &result.tool_call_id).await,
        long()
    );
}

#[tokio::test]
async fn an_agent_with_a_small_context_gets_shorter_results() {
    let model = ScriptedModel::new()
        .then(reply::calls([("big", "{}")]))
        .then(reply::text("ok"))
        .with_context(16_000);
    let finished = run_to_end(
        &builder(model).tool(Arc::new(big())).build().unwrap(),
        request("go"),
    )
    .await;
    let length = finished.results()[0].value.as_str().len();
    assert!((12_000..=16_000).contains(&length), "{length}");
}

#[tokio::test]
async fn tool_definitions_reduce_the_space_for_results_in_a_small_context() {
    let model = ScriptedModel::new()
        .then(reply::calls([("big", "{}")]))
        .then(reply::text("ok"))
        .with_context(16_000);
    // About 8,000 tokens.
    let spec = spec("big").read_only().describe(&"word ".repeat(6_400));
    let value = JsonText::string(&long());
    let tool = ScriptedTool::always(spec, Act::value(value.as_str()));
    let orchestrator = builder(model).tool(Arc::new(tool)).build().unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    let length = finished.results()[0].value.as_str().len();
    assert!((4_000..=8_000).contains(&length), "{length}");
}

#[tokio::test(start_paused = true)]
async fn an_overflow_by_a_result_suggests_how_to_free_space() {
    for thinks in [false, true] {
        let model = ScriptedModel::answering(move |request: &ModelRequest| {
            if last_result(request).is_some() {
                let overflow = LlmErrorKind::ContextOverflow {
                    limit: Some(2_000),
                    needed: Some(3_000),
                };
                return Script::from(LlmError::new(overflow, "too long"));
            }
            let mut calls = reply::calls([("big", "{}")]);
            if thinks {
                let thought = ReasoningPart {
                    text: "Hm.".into(),
                    ..ReasoningPart::default()
                };
                calls.parts.insert(0, ReplyPart::Reasoning(thought));
            }
            Script::from(calls)
        });
        let orchestrator = builder(model).tool(Arc::new(big())).build().unwrap();
        let reply = run_to_end(&orchestrator, request("go")).await.result.reply;
        assert!(
            reply.contains("fewer tools (channels.NAME.tools)"),
            "{reply}"
        );
        assert_eq!(reply.contains("echo_reasoning"), thinks, "{reply}");
    }
}

#[tokio::test]
async fn results_of_one_reply_share_the_space_for_one_in_a_small_context() {
    let model = ScriptedModel::new()
        .then(reply::calls([
            ("big", "{}"),
            ("big", r#"{"n":2}"#),
            ("big", r#"{"n":3}"#),
        ]))
        .then(reply::calls([("big", r#"{"n":4}"#)]))
        .then(reply::text("ok"))
        .with_context(16_000);
    let orchestrator = builder(model).tool(Arc::new(big())).build().unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    let results = finished.results();
    let lengths: Vec<usize> = results.iter().map(|it| it.value.as_str().len()).collect();
    assert!(
        lengths[..3].iter().all(|it| (3_500..=5_333).contains(it)),
        "{lengths:?}"
    );
    assert!((12_000..=16_000).contains(&lengths[3]), "{lengths:?}");
}

#[tokio::test]
async fn the_reason_for_not_storing_an_output_is_reported() {
    let answers = || {
        ScriptedModel::new()
            .then(reply::calls([("big", "{}")]))
            .then(reply::text("ok"))
    };
    let told = |finished: &FinishedRun| finished.results()[0].value.as_text().into_owned();
    // An agent that runs alone keeps nothing.
    let agent = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(answers()))
        .tool(Arc::new(big()))
        .build_agent()
        .unwrap();
    let done = agent.execute("You look.", "go").await.unwrap();
    let alone = done.tool_calls[0].result.as_text().into_owned();
    assert!(alone.contains("and not kept, since nothing of this run is; ask for less]"));
    assert!(!alone.contains(READ_OUTPUT));
    // Results that a policy keeps out of the store are not kept either.
    let store = Arc::new(MemoryStore::new());
    let withheld = with(&store, answers(), big())
        .policy(policy("channels.chat.data = { tool_results = false }"));
    let finished = run_to_end(&withheld.build().unwrap(), request("go")).await;
    assert!(told(&finished).contains("not kept, since results of tools are not stored here"));
    assert_eq!(store.outputs(finished.result.run_id).await, Ok(Vec::new()));
    // A store that is full or fails does not end the run.
    for (error, why) in [
        (
            StoreError::OutputsTooLarge {
                run: finished.result.run_id,
                bytes: 2,
                most: 1,
            },
            "since the run has kept as much as it may;",
        ),
        (
            StoreError::Damaged("page 7".to_owned()),
            "since the store could not take it;",
        ),
    ] {
        let store = failing_store();
        store.fail_next(StoreOperation::KeepOutput, Fault::Refuse(error));
        let finished = run_to_end(
            &with(&store, answers(), big()).build().unwrap(),
            request("go"),
        )
        .await;
        finished.assert_valid(RunStatus::Done);
        assert!(told(&finished).contains(why), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_briefly_unavailable_store_is_retried() {
    let store = failing_store();
    let away = || StoreError::Unavailable("for a moment".to_owned());
    store.fail_next(StoreOperation::KeepOutput, Fault::Refuse(away()));
    store.fail_next(StoreOperation::KeepOutput, Fault::LoseAnswer(away()));
    let finished = run_to_end(
        &with(&store, reader(), big()).build().unwrap(),
        request("go"),
    )
    .await;
    finished.assert_valid(RunStatus::Done);
    let kept = store
        .calls()
        .into_iter()
        .filter(|it| *it == StoreOperation::KeepOutput);
    assert_eq!(kept.count(), 3);
}

#[test]
fn a_crash_while_storing_an_output_leaves_no_record_naming_a_missing_one() {
    let after_it = Fault::AnswerLate(Duration::from_secs(3_600));
    for (fault, kept_before) in [(Fault::Hang, 0), (after_it, 1)] {
        let store = failing_store();
        let orchestrator = |model| {
            let ids = Arc::new(neuraxis_engine::UuidV7);
            with(&store, model, big()).ids(ids).build().unwrap()
        };
        store.fail_next(StoreOperation::KeepOutput, fault);
        let run = process().block_on(async {
            let (handle, _) = orchestrator(reader()).stream(request("go")).await.unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
            handle.run_id()
        });
        process().block_on(async {
            let records = store.records(run, Seq(0)).await.unwrap();
            let is_result = |body: &RecordBody| matches!(body, RecordBody::ToolResult(_));
            assert!(!records.iter().any(|record| is_result(&record.body)));
            assert_eq!(store.outputs(run).await.unwrap().len(), kept_before);
            let handle = orchestrator(reader())
                .runs()
                .resume(run, Vec::new())
                .await
                .unwrap();
            let result = handle.result().await.unwrap();
            assert_eq!(result.reply, "I have read it.");
            let records = store.records(run, Seq(0)).await.unwrap();
            let first = records.iter().find_map(|record| match &record.body {
                RecordBody::ToolResult(result) => Some(result.clone()),
                _ => None,
            });
            let call = first.unwrap().tool_call_id;
            assert_eq!(whole(store.as_ref(), run, &call).await, long());
        });
    }
}

#[tokio::test]
async fn a_fork_reads_outputs_of_its_conversation_and_other_sessions_cannot() {
    let store = Arc::new(MemoryStore::new());
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("big", "{}")]))
            .then(reply::text("It is long.")),
    );
    let orchestrator = with(&store, ScriptedModel::new(), big())
        .model(Role::REASONING, model.clone())
        .build()
        .unwrap();
    let first = run_to_end(&orchestrator, request("go")).await;
    let (run, call) = (first.result.run_id, first.results()[0].tool_call_id.clone());
    let read = format!(r#"{{"call":"{call}","line":7}}"#);
    let reads = || {
        model.push(reply::calls([(READ_OUTPUT, read.as_str())]));
        model.push(reply::text("Read."));
    };
    let runs = orchestrator.runs();
    let fork = |id: &str, run| {
        let options = ForkOptions::new(id.parse().unwrap()).message("Read on.");
        runs.fork(run, Turn(1), options)
    };
    // A later run of the session, a fork, and a fork of that.
    reads();
    let later = run_to_end(&orchestrator, request("Read on.")).await;
    assert!(page_text(&later.results()[0]).starts_with("line 7 of"));
    let mut from = run;
    for id in ["fork", "fork-of-the-fork"] {
        reads();
        let handle = fork(id, from).await.unwrap();
        handle.result().await.unwrap();
        let records = handle.records();
        let read = records.iter().find_map(|record| match &record.body {
            RecordBody::ToolResult(result) => Some(result.clone()),
            _ => None,
        });
        assert!(page_text(&read.unwrap()).starts_with("line 7 of"), "{id}");
        from = handle.run_id();
    }
    // The error is the same for another owner's output and for one that does not exist.
    let mut said = Vec::new();
    for (id, arguments) in [
        ("other", read.clone()),
        ("other", read.replace("_a0_", "_a9_")),
        ("s", read.replace("_a0_", "_a9_")),
        ("s", r#"{"call":"the first one"}"#.to_owned()),
    ] {
        model.push(reply::calls([(READ_OUTPUT, arguments.as_str())]));
        model.push(reply::text("No."));
        let session: SessionId = id.parse().unwrap();
        let mode = neuraxis_core::Mode::EXPLORATORY;
        let finished = run_to_end(&orchestrator, UserRequest::new(session, "go").mode(mode)).await;
        let error = finished.results()[0].value.error_message().unwrap();
        said.push(error.replace("_a9_", "_a0_"));
    }
    assert_eq!(
        said[0],
        format!(
            "no long output of call \"{call}\" is kept in this session: give the call that the marker names"
        )
    );
    assert!(said[1] == said[0] && said[2] == said[0], "{said:?}");
    // It is deleted with its session, and a fork that still exists says so.
    orchestrator.sessions().delete(&session()).await.unwrap();
    reads();
    let orphan = UserRequest::new("fork".parse().unwrap(), "And now?");
    let finished = run_to_end(&orchestrator, orphan.mode(neuraxis_core::Mode::EXPLORATORY)).await;
    assert_eq!(
        finished.results()[0].value.error_message(),
        Some(said.swap_remove(0))
    );
}

#[tokio::test]
async fn a_forged_fork_of_another_owner_s_run_cannot_read_its_outputs() {
    let store = Arc::new(MemoryStore::new());
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("big", "{}")]))
            .then(reply::text("It is long.")),
    );
    let orchestrator = with(&store, ScriptedModel::new(), big())
        .model(Role::REASONING, model.clone())
        .build()
        .unwrap();
    let of = |session: &str, owner: &str| {
        let request = UserRequest::new(session.parse().unwrap(), "go").owner(owner);
        request.mode(neuraxis_core::Mode::EXPLORATORY)
    };
    let first = run_to_end(&orchestrator, of("hers", "ada")).await;
    let call = first.results()[0].tool_call_id.clone();
    let read = format!(r#"{{"call":"{call}","line":7}}"#);
    // The same claim by the same owner shows that the owner makes the difference.
    for (number, owner) in [(101, "eve"), (102, "ada")] {
        let session: SessionId = format!("of-{owner}").parse().unwrap();
        let created = Session::new(session.clone(), START).owned_by(owner);
        store.create_session(&created).await.unwrap();
        let forged = CountingIds::nth_run(number);
        let mut log = RunLog::new(forged, session.clone());
        let mut started = Arc::unwrap_or_clone(log.started("Go on."));
        let RecordBody::RunStarted(body) = &mut started.body else {
            panic!("{started:?}")
        };
        Arc::make_mut(&mut body.spec).forked_from = Some(ForkPoint {
            run_id: first.result.run_id,
            turn: Turn(1),
        });
        let records = [
            Arc::new(started),
            log.replied(reply::text("Gladly.")),
            log.finished("Gladly."),
        ];
        let lease = store.begin_run(&session, forged).await.unwrap();
        store.commit(&lease, &records).await.unwrap();

        model.push(reply::calls([(READ_OUTPUT, read.as_str())]));
        model.push(reply::text("Done."));
        let finished = run_to_end(&orchestrator, of(session.as_str(), owner)).await;
        let result = &finished.results()[0];
        let refused = result.value.error_message();
        assert_eq!(refused.is_some(), owner == "eve", "{owner}: {result:?}");
        if let Some(said) = refused {
            assert!(said.contains("is kept in this session"), "{said}");
        }
    }
}

#[tokio::test]
async fn the_read_output_tool_is_offered_with_any_tool_run_here_and_only_then() {
    let offered = async |builder: OrchestratorBuilder, model: &Arc<ScriptedModel>| {
        let builder = builder.model(Role::REASONING, model.clone());
        run_to_end(&builder.build().unwrap(), request("Hello.")).await;
        let requests = model.requests();
        let tools = requests.last().unwrap().tools.iter();
        tools.map(|tool| tool.name.to_string()).collect::<Vec<_>>()
    };
    let model = Arc::new(ScriptedModel::always(reply::text("Hello.")));
    let none = builder(ScriptedModel::new());
    assert_eq!(offered(none, &model).await, Vec::<String>::new());
    let elsewhere = builder(ScriptedModel::new()).client_tool(spec("open_page").into());
    assert_eq!(offered(elsewhere, &model).await, ["open_page"]);
    let here = || builder(ScriptedModel::new()).tool(Arc::new(big()));
    assert_eq!(offered(here(), &model).await, ["big", READ_OUTPUT]);
    // A channel that lists its tools offers it with them, and a rule may remove it: then no marker names it.
    let named = policy("channels.chat.tools = ['big']\nchannels.chat.unlisted_tools = 'withheld'");
    assert_eq!(
        offered(here().policy(named), &model).await,
        ["big", READ_OUTPUT]
    );
    let denied = policy("[rules.none]\nanswer = 'deny'\ntools = ['read_output']");
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("big", "{}")]))
            .then(reply::text("ok")),
    );
    let denied = here().policy(denied).model(Role::REASONING, model.clone());
    let finished = run_to_end(&denied.build().unwrap(), request("go")).await;
    let told = finished.results()[0].value.as_text().into_owned();
    assert!(
        told.contains("; no tool here reads what is kept of them; ask for less]"),
        "{told}"
    );
    assert_eq!(model.requests()[0].tools.len(), 1);
}

#[test]
fn the_name_of_the_read_output_tool_is_reserved() {
    let tool = ScriptedTool::echoing(spec(READ_OUTPUT));
    let refused = builder(ScriptedModel::new()).tool(Arc::new(tool)).build();
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the tool name read_output is reserved: the engine has its own tool of this name, with which models read long results; choose another name"
    );
}
