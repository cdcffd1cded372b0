//! How tool calls are checked and run.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{PlanName, RunStatus, ToolFailure};
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{builder, policy, request, run_to_end, with_tools};

const PATH_SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#;

#[tokio::test]
async fn calls_with_invalid_arguments_do_not_run_and_the_model_gets_the_reason() {
    let long = format!(r#"{{"path":["{}"]}}"#, "word".repeat(1_000));
    let cases = [
        (long.as_str(), "at /path: value is not of type \"string\""),
        (r#"{"path": 7}"#, "at /path: 7 is not of type \"string\""),
        ("{}", "\"path\" is a required property"),
        (
            r#"{"path":"#,
            "not JSON: EOF while parsing a value at line 1 column 8",
        ),
        (r#"{"path":"a","path":"b"}"#, "it has \"path\" twice"),
        (r#"["a"]"#, "is not of type \"object\""),
        ("null", "is not of type \"object\""),
    ];
    for (arguments, why) in cases {
        let model = ScriptedModel::new()
            .then(reply::calls([("read", arguments)]))
            .then(reply::text("ok"));
        let tool = Arc::new(ScriptedTool::echoing(
            spec("read").read_only().schema(PATH_SCHEMA),
        ));
        let finished = run_to_end(&with_tools(model, vec![tool.clone()]), request("go")).await;
        finished.assert_valid(RunStatus::Done);
        let result = &finished.results()[0];
        assert_eq!(
            result.failure,
            Some(ToolFailure::InvalidArguments),
            "{arguments}"
        );
        let error = result
            .value
            .decode::<std::collections::BTreeMap<String, String>>()
            .unwrap();
        assert!(error["error"].contains(why), "{arguments}: {error:?}");
        assert_eq!(tool.count(), 0, "{arguments} was run");
    }
}

#[tokio::test]
async fn a_call_of_an_unknown_tool_returns_the_names_of_the_known_ones() {
    let model = ScriptedModel::new()
        .then(reply::calls([("raed", "{}")]))
        .then(reply::text("ok"));
    let tools: Vec<Arc<dyn neuraxis_ports::Tool>> = vec![
        Arc::new(ScriptedTool::echoing(spec("read"))),
        Arc::new(ScriptedTool::echoing(spec("look"))),
    ];
    let finished = run_to_end(&with_tools(model, tools), request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let value = finished.results()[0].value.clone();
    assert_eq!(
        value.as_str(),
        r#"{"error":"unknown tool \"raed\"; available tools: read, look, read_output"}"#
    );
}

#[tokio::test]
async fn a_call_of_a_tool_declared_absent_is_denied_with_the_reason() {
    let model = || {
        ScriptedModel::new()
            .then(reply::calls([("deploy", "{}")]))
            .then(reply::text("ok"))
    };
    let absent = |model| {
        let name = "deploy".parse().unwrap();
        builder(model).absent_tool(name, "no cluster is here")
    };
    let finished = run_to_end(&absent(model()).build().unwrap(), request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let result = &finished.results()[0];
    assert_eq!(result.failure, Some(ToolFailure::Denied));
    assert_eq!(
        result.value.as_str(),
        r#"{"error":"denied: there is no tool deploy here: no cluster is here"}"#
    );
    // If the tool is added anyway, it exists.
    let tool = Arc::new(ScriptedTool::echoing(spec("deploy").read_only()));
    let there = absent(model()).tool(tool.clone()).build().unwrap();
    run_to_end(&there, request("go"))
        .await
        .assert_valid(RunStatus::Done);
    assert_eq!(tool.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn read_only_calls_of_one_reply_run_concurrently_and_others_alone() {
    let calls = [("read", "1"), ("read", "2"), ("write", "3"), ("read", "4")];
    let model = ScriptedModel::new()
        .then(reply::calls(calls))
        .then(reply::text("ok"));
    let wait = Duration::from_secs(1);
    let any = r#"{}"#;
    let act = move |arguments: &neuraxis_core::JsonText| Act::value(arguments.as_str()).after(wait);
    let read = Arc::new(ScriptedTool::answering(
        spec("read").read_only().schema(any),
        act,
    ));
    let write = Arc::new(ScriptedTool::answering(
        spec("write").idempotent().schema(any),
        act,
    ));
    let orchestrator = with_tools(model, vec![read.clone(), write.clone()]);
    let started = tokio::time::Instant::now();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(read.most_open_calls(), 2);
    assert_eq!(
        started.elapsed().as_secs(),
        3,
        "two at once, then one, then one"
    );
    let values: Vec<_> = finished
        .results()
        .iter()
        .map(|result| result.value.as_str().to_owned())
        .collect();
    assert_eq!(values, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn a_tool_that_is_unavailable_in_a_turn_is_not_run() {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("ok"));
    let tool = Arc::new(ScriptedTool::echoing(spec("look").read_only()).available_when(|_| false));
    let finished = run_to_end(&with_tools(model, vec![tool.clone()]), request("go")).await;
    assert!(
        finished.results()[0]
            .value
            .as_str()
            .contains("TOOL_NOT_ENABLED")
    );
    assert_eq!(tool.count(), 0);
}

#[test]
fn duplicate_tool_names_and_invalid_schemas_are_refused() {
    let build = |tools: Vec<Arc<dyn neuraxis_ports::Tool>>| {
        crate::support::builder(ScriptedModel::new())
            .tools(tools)
            .build()
            .unwrap_err()
            .to_string()
    };
    let tool = |schema: &str| Arc::new(ScriptedTool::echoing(spec("t").schema(schema))) as Arc<_>;
    assert_eq!(build(vec![tool("{}"), tool("{}")]), "two tools are named t");
    assert!(
        build(vec![tool(r#"{"type": 7}"#)])
            .starts_with("the parameters of tool t are not a JSON Schema")
    );
}

#[tokio::test]
async fn a_step_describes_the_call_and_its_outcome() {
    let model = ScriptedModel::new()
        .then(reply::calls([
            ("look", "{}"),
            ("lost", "{}"),
            ("look", "[]"),
        ]))
        .then(reply::text("ok"));
    let look = ScriptedTool::new(spec("look").read_only()).then(Act::error("too dark"));
    let finished = run_to_end(&with_tools(model, vec![Arc::new(look)]), request("go")).await;
    let steps = &finished.result.steps;
    let text = |step: usize, key: &str| steps[step].metadata.get(key)?.as_str().map(str::to_owned);
    let described: Vec<_> = steps.iter().map(|step| step.description.as_ref()).collect();
    // Two model calls, three tool calls, and a warning about the one that failed and was not retried.
    assert_eq!(described.len(), 6, "{described:?}");
    assert_eq!(text(0, "model_role").as_deref(), Some("reasoning"));
    let failed: Vec<_> = (1..4)
        .map(|step| {
            (
                text(step, "tool_name").unwrap(),
                text(step, "error").unwrap(),
            )
        })
        .collect();
    assert!(
        failed.contains(&("look".to_owned(), "too dark".to_owned())),
        "{failed:?}"
    );
    assert!(failed.iter().any(|(name, _)| name == "lost"), "{failed:?}");
    for step in &steps[1..4] {
        assert!(step.description.ends_with(" failed"), "{step:?}");
        let ran = step.metadata.get("span_id").is_some();
        assert_eq!(ran, step.metadata.get("duration_ms").is_some(), "{step:?}");
    }
    let json = serde_json::to_value(&steps[4]).unwrap();
    assert_eq!(json["metadata"]["purpose"], "turn");
}

#[tokio::test(start_paused = true)]
async fn a_tool_timeout_of_a_mode_or_plan_overrides_a_longer_one_of_the_tool() {
    let slow = || Act::value("1").after(Duration::from_secs(6));
    for (more, plan) in [
        ("[modes.exploratory]\ntool_timeout = '2s'", None),
        ("[plans.short]\ntool_timeout = '2s'", Some("short")),
    ] {
        let spec = spec("slow").read_only().timeout(Duration::from_secs(610));
        let model = ScriptedModel::new()
            .then(reply::calls([("slow", "{}")]))
            .then(reply::text("ok"));
        let orchestrator = builder(model)
            .policy(policy(more))
            .tool(Arc::new(ScriptedTool::always(spec, slow())))
            .build()
            .unwrap();
        let mut asked = request("go");
        asked.plan = plan.map(PlanName::new);
        let finished = run_to_end(&orchestrator, asked).await;
        let failures: Vec<_> = finished.results().iter().map(|it| it.failure).collect();
        assert_eq!(failures, [Some(ToolFailure::Timeout)], "{more}");
    }
}

#[tokio::test]
async fn steps_of_a_result_match_its_records_whenever_they_are_read() {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("ok"));
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let finished = run_to_end(&with_tools(model, vec![look]), request("go")).await;
    let expected = neuraxis_engine::run_steps(&finished.records());
    assert_eq!(expected.len(), 3);
    let (unread, read) = (finished.result.clone(), finished.result);
    assert_eq!(*read.steps, expected);
    assert_eq!(unread, read);
    let json = serde_json::to_value(&read).unwrap();
    assert_eq!(json["steps"], serde_json::to_value(&expected).unwrap());
    assert_eq!((&read.steps).into_iter().count(), 3);
    let owned = |steps: neuraxis_engine::Steps| steps.into_iter().collect::<Vec<_>>();
    assert_eq!(owned(read.steps), expected);
    assert_eq!(owned(unread.steps.clone()), expected);
}
