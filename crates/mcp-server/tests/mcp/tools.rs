//! Agents as tools: what is offered, what an answer contains, and what is refused.

use std::sync::Arc;

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{Mode, Role};
use neuraxis_engine::Orchestrator;
use neuraxis_mcp_server::McpServer;
use neuraxis_memory::MemoryStore;
use neuraxis_offline::OfflineModel;
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, reply, spec};
use rmcp::model::RequestMetaObject;
use rmcp::service::ServiceError;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::{ERAS, INITIALIZE, Person, builder, connect, request, server, text, until};

#[tokio::test(start_paused = true)]
async fn each_agent_is_a_tool_in_both_protocol_eras() {
    for era in &ERAS {
        let model = Arc::new(ScriptedModel::new());
        let (server, _) = server(&model, &[]);
        let served = connect(&server, era, &Person::absent()).await;
        let tools = served.client.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["ask", "deep_research", "researcher"]);
        let list = served.client.list_tools(None).await.unwrap();
        let is_short = list.ttl_ms.is_none_or(|time| time <= 60_000);
        assert!(is_short, "they may be others by then: {:?}", list.ttl_ms);
        for tool in &tools {
            assert_eq!(tool.input_schema["required"], json!(["message"]));
            assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "object");
        }
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_text_with_structured_run_data_and_its_session_continues() {
    for era in &ERAS {
        let model = ScriptedModel::new()
            .then(reply::using(reply::text("Ada."), 20, 3))
            .then(reply::text("As I said: Ada."));
        let model = Arc::new(model);
        let (server, _) = server(&model, &[]);
        let served = connect(&server, era, &Person::absent()).await;

        let first = served
            .call("ask", json!({"message": "Who wrote it?"}))
            .await;
        assert_eq!((first.is_error, text(&first)), (Some(false), "Ada."));
        let known = first.structured_content.as_ref().unwrap();
        assert_eq!(known["reply"], "Ada.");
        assert_eq!(known["finish_reason"], "stop");
        assert_eq!(known["status"], "done");
        assert_eq!(known["turns"], 1);
        let usage = json!({"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23});
        assert_eq!(known["usage"], usage);
        assert_eq!(known["trace_id"].as_str().unwrap().len(), 32);
        fits_its_schema(&served.client.list_all_tools().await.unwrap()[0], known);

        let session = &known["session_id"];
        let again = served.call("ask", json!({"message": "Who?", "session": session}));
        assert_eq!(text(&again.await), "As I said: Ada.");
        let count = model.requests().last().unwrap().messages.len();
        assert!(count >= 3, "the conversation continued: {count}");
        served.leave().await;
    }
}

fn fits_its_schema(tool: &rmcp::model::Tool, content: &serde_json::Value) {
    let schema = tool.output_schema.as_ref().unwrap();
    let known = schema["properties"].as_object().unwrap();
    for required in schema["required"].as_array().unwrap() {
        assert!(
            content.get(required.as_str().unwrap()).is_some(),
            "{required}"
        );
    }
    for name in content.as_object().unwrap().keys() {
        assert!(known.contains_key(name), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_an_agent_tool_runs_that_agent() {
    let model = Arc::new(ScriptedModel::always(reply::text("Found.")));
    let (server, _) = server(&model, &[]);
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    served.call("researcher", json!({"message": "tides"})).await;
    let sent = format!("{:?}", model.requests()[0].messages);
    assert!(sent.contains("You research one topic"), "{sent}");
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_return_an_error_that_names_them() {
    let model = Arc::new(ScriptedModel::new());
    let (server, orchestrator) = server(&model, &[]);
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    let long = "x".repeat(1024 * 1024 + 1);
    for (arguments, expected) in [
        (json!({}), "ask: missing argument: message"),
        (json!({"message": 7}), "ask: message: expected a string"),
        (json!({"message": " \n"}), "ask: message: must not be empty"),
        (
            json!({"message": "a\0b"}),
            "ask: message: must not contain the character U+0000",
        ),
        (
            json!({"message": long}),
            "ask: message: exceeds the limit of 1048576 characters",
        ),
        (
            json!({"message": "x", "sesion": "s"}),
            "unknown argument \"sesion\"; known: message, session, channel, mode",
        ),
        (
            json!({"message": "x", "session": "a b"}),
            "ask: session: not a valid session id: it must be 1 to 128",
        ),
        (
            json!({"message": "x", "session": ""}),
            "not a valid session id",
        ),
        (
            json!({"message": "x", "mode": "exploratory"}),
            "cannot be used on channel chat; allowed: conservative, moderate",
        ),
        (
            json!({"message": "x", "mode": "wild"}),
            "mode: \"wild\" cannot be used",
        ),
        (
            json!({"message": "x", "channel": "deep_research"}),
            "channel: clients of this server cannot use deep_research",
        ),
        (json!({"message": "x", "channel": "chatt"}), "chat"),
    ] {
        let refused = served.call("ask", arguments).await;
        assert_eq!(refused.is_error, Some(true), "{expected}");
        assert!(text(&refused).contains(expected), "{}", text(&refused));
    }
    assert!(model.calls().is_empty());
    let session = "s".parse().unwrap();
    assert!(orchestrator.sessions().get(&session).await.is_err());
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_is_a_protocol_error_that_names_the_known_tools() {
    for era in &ERAS {
        let (server, _) = server(&Arc::new(ScriptedModel::new()), &[]);
        let served = connect(&server, era, &Person::absent()).await;
        let refused = served.try_call("aks\n", json!({"message": "x"})).await;
        let Err(ServiceError::McpError(error)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(error.code.0, -32602);
        assert_eq!(
            error.message,
            "unknown tool \"aks\"; known: ask, deep_research, researcher"
        );
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_accepts_no_second_message() {
    let model = Arc::new(ScriptedModel::always(Script::hanging()));
    let (server, _) = server(&model, &[]);
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    let arguments = json!({"message": "x", "session": "s1"});
    let first = served.call("ask", arguments.clone());
    let second = async {
        until("the model is asked", async || model.open_calls() == 1).await;
        served.call("ask", arguments.clone()).await
    };
    tokio::select! {
        _ = first => panic!("it has no end"),
        second = second => {
            assert_eq!(second.is_error, Some(true));
            let text = text(&second);
            assert!(text.starts_with("session s1 is busy with run "), "{text}");
            assert!(text.contains(", `neuraxis approvals show "), "{text}");
            assert!(text.contains(" and `neuraxis runs resume "), "{text}");
        }
    }
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_reported_as_an_error() {
    // Without a script, the model fails.
    let (server, _) = server(&Arc::new(ScriptedModel::new()), &[]);
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    let failed = served.call("ask", json!({"message": "x"})).await;
    assert_eq!(failed.is_error, Some(true));
    assert!(!text(&failed).is_empty());
    let known = failed.structured_content.as_ref().unwrap();
    assert_eq!(known["status"], "failed");
    assert_eq!(known["notice"], text(&failed));
    fits_its_schema(&served.client.list_all_tools().await.unwrap()[0], known);
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_reaches_its_limit_or_no_model_is_an_error_even_when_done() {
    let config = PolicyConfig::from_toml("modes.moderate.max_turns = 1\n").unwrap();
    for (last, is_error) in [("", true), ("A door.", false)] {
        let model = ScriptedModel::new()
            .then(reply::calls([("look", "{}")]))
            .then(reply::text(last));
        let look = ScriptedTool::new(spec("look").read_only()).then(Act::value(r#""a door""#));
        let builder = builder(&Arc::new(model), &[Arc::new(look)]);
        let builder = builder.policy(Policy::layered(config.clone()).unwrap());
        let server = McpServer::new(builder.build().unwrap());
        let served = connect(&server, &INITIALIZE, &Person::absent()).await;
        let done = served.call("ask", json!({"message": "Look."})).await;
        assert_eq!(done.is_error, Some(is_error), "{done:?}");
        assert_eq!(done.structured_content.unwrap()["status"], "done");
        served.leave().await;
    }

    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(OfflineModel))
        .store(Arc::new(MemoryStore::default()))
        .build()
        .unwrap();
    let server = McpServer::new(orchestrator);
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    let poem = json!({"message": "Write me a poem."});
    let done = served.call("ask", poem).await;
    assert_eq!(done.is_error, Some(true), "{done:?}");
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn turns_and_tool_calls_are_reported_as_increasing_progress() {
    for era in &ERAS {
        let model = ScriptedModel::new()
            .then(reply::calls([("look", "{}")]))
            .then(reply::text("A door."));
        let look = ScriptedTool::new(spec("look").read_only()).then(Act::value(r#""a door""#));
        let (server, _) = server(&Arc::new(model), &[Arc::new(look)]);
        let person = Person::absent();
        let served = connect(&server, era, &person).await;
        let done = served
            .call("ask", json!({"message": "What do you see?"}))
            .await;
        assert_eq!(text(&done), "A door.");
        until("all progress is reported", async || {
            person.progress_messages().len() >= 4
        })
        .await;
        assert_eq!(
            person.progress_messages(),
            [
                "turn 1: the model asks for a tool",
                "look is running",
                "look is done",
                "turn 2: the model answers",
            ]
        );
        let numbers: Vec<f64> = person
            .progress
            .lock()
            .unwrap()
            .iter()
            .map(|it| it.0)
            .collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn clients_can_choose_only_among_the_modes_they_are_given() {
    let model = Arc::new(ScriptedModel::always(reply::text("Yes.")));
    let (server, _) = server(&model, &[]);
    let server = server.modes([Mode::EXPLORATORY]);
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    let free = served.call("ask", json!({"message": "x"})).await;
    assert_eq!(text(&free), "Yes.");
    let refused = served
        .call("ask", json!({"message": "x", "mode": "moderate"}))
        .await;
    assert!(text(&refused).contains("allowed: exploratory"));
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_needs_a_permit_and_releases_it() {
    let model = Arc::new(ScriptedModel::always(Script::hanging()));
    let (server, _) = server(&model, &[]);
    let permits = Arc::new(Semaphore::new(1));
    let server = server.run_permits(Arc::clone(&permits));
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    tokio::select! {
        _ = served.call("ask", json!({"message": "x"})) => panic!("it has no end"),
        refused = async {
            until("the model is asked", async || model.open_calls() == 1).await;
            served.call("ask", json!({"message": "y"})).await
        } => assert!(text(&refused).starts_with("the server has reached its limit"), "{refused:?}"),
    }
    served.leave().await;
    until("the permit is free", async || {
        permits.available_permits() == 1
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_run_joins_the_trace_named_by_its_call() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for era in &ERAS {
        let model = Arc::new(ScriptedModel::new().then(reply::text("Ada.")));
        let (server, _) = server(&model, &[]);
        let served = connect(&server, era, &Person::absent()).await;
        let mut call = request("ask", json!({"message": "Who wrote it?"}));
        let mut meta = RequestMetaObject::new();
        meta.set_traceparent(PARENT);
        call.meta = Some(meta);
        let answer = served.client.call_tool(call).await.unwrap();
        let known = answer.structured_content.unwrap();
        assert_eq!(known["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn tools_receive_the_context_added_when_a_request_is_admitted() {
    let tool = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("Seen."));
    let (server, _) = server(&Arc::new(model), &[Arc::clone(&tool)]);
    let server = server.admit(|mut request| {
        request.context = request.context.with(7_u32);
        Ok(request)
    });
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    served.call("ask", json!({"message": "Look."})).await;
    assert_eq!(tool.calls()[0].context.get::<u32>(), Some(&7));
    served.leave().await;
}
