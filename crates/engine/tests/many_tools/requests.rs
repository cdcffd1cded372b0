//! The contents of requests, and the results of calls.

use std::sync::Arc;

use neuraxis_core::{AgentName, ModelRequest, RecordBody, Role, ToolFailure, Transcript};
use neuraxis_engine::{BuildError, CatalogError, Orchestrator};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{World, asked, assert_replays, names, results};

const SEARCH: &[(&str, &str)] = &[("find_tools", r#"{"query":"silence an alert grafana"}"#)];

#[tokio::test]
async fn a_request_starts_with_a_few_tools_and_found_ones_are_appended() {
    let world = World::new();
    let call: &[_] = &[("grafana__silence_alert", r#"{"matchers":["a"]}"#)];
    let records = world.run("How much is 2 + 2?", &[SEARCH, call]).await;
    let offered = world.offered();
    assert_eq!(offered[0][..3], ["calculate", "read_output", "find_tools"]);
    assert!(offered[0].len() <= 13, "{offered:?}");
    assert!(!offered[0].contains(&"grafana__silence_alert".to_owned()));
    // The definitions before the tools found are the same, byte for byte.
    let before =
        |request: &ModelRequest| serde_json::to_string(&request.tools[..offered[0].len()]).unwrap();
    let requests = world.model.requests();
    assert_eq!(before(&requests[0]), before(&requests[1]));
    assert!(offered[1][offered[0].len()..].contains(&"grafana__silence_alert".to_owned()));
    assert_eq!(
        offered[2], offered[1],
        "a call of what is there adds nothing"
    );
    assert!(Arc::ptr_eq(&requests[1].tools, &requests[2].tools));
    let results = results(&records);
    assert!(results.iter().all(|result| result.failure.is_none()));
    assert!(results[0].value.as_str().contains("grafana__silence_alert"));
    assert_replays(&Transcript::default(), &records);
}

#[tokio::test]
async fn tools_matching_the_message_are_offered_at_once() {
    let world = World::new();
    let close: &[_] = &[("homeassistant__close_cover", r#"{"entity":"bedroom"}"#)];
    world.run("Close the blinds in the bedroom", &[close]).await;
    let offered = world.offered();
    assert_eq!(offered[0][3], "homeassistant__close_cover");
    assert_eq!(offered[0], offered[1]);
}

#[tokio::test]
async fn a_called_tool_that_was_not_offered_runs_and_is_added() {
    let world = World::new();
    let right: &[_] = &[("jira__get_issue", r#"{"key":"A-1"}"#)];
    let wrong: &[_] = &[("jira__log_work", r#"{"ticket":"A-1"}"#)];
    let records = world.run("Hello!", &[right, wrong]).await;
    let results = results(&records);
    assert_eq!(results[0].failure, None);
    // The model is told what was wrong, and the next request contains the schema.
    assert_eq!(results[1].failure, Some(ToolFailure::InvalidArguments));
    let offered = world.offered();
    assert_eq!(
        offered[1],
        [&offered[0][..], &["jira__get_issue".to_owned()]].concat()
    );
    assert_eq!(
        offered[2],
        [&offered[1][..], &["jira__log_work".to_owned()]].concat()
    );
    assert_replays(&Transcript::default(), &records);
}

#[tokio::test]
async fn tools_the_decision_excludes_are_neither_offered_nor_found_nor_run() {
    let world = World::with(
        "[rules.no_grafana]\ntools = ['grafana__*']\nanswer = 'deny'\nreason = 'not here'\n",
        |builder| builder,
    );
    let call: &[_] = &[("grafana__silence_alert", r#"{"matchers":["a"]}"#)];
    let records = world
        .run("Silence the alert of Grafana", &[SEARCH, call])
        .await;
    let results = results(&records);
    assert!(
        !results[0].value.as_str().contains("grafana__"),
        "{:?}",
        results[0].value
    );
    assert_eq!(results[1].failure, Some(ToolFailure::UnknownTool));
    assert!(
        results[1]
            .value
            .as_str()
            .contains("call find_tools to find others")
    );
    for request in world.model.requests() {
        assert!(
            !names(&request)
                .iter()
                .any(|name| name.starts_with("grafana"))
        );
        assert!(
            !serde_json::to_string(&*request.tools)
                .unwrap()
                .contains("grafana")
        );
    }
}

#[tokio::test]
async fn an_empty_query_or_a_search_without_matches_is_reported() {
    let world = World::new();
    let empty: &[_] = &[("find_tools", "{}")];
    let strange: &[_] = &[("find_tools", r#"{"query":"xyzzy"}"#)];
    let records = world.run("Hello!", &[empty, strange]).await;
    let results = results(&records);
    assert_eq!(results[0].failure, Some(ToolFailure::InvalidArguments));
    assert!(results[1].value.as_str().contains("other English words"));
    let offered = world.offered();
    assert_eq!(offered[0], offered[2]);
}

#[tokio::test]
async fn below_the_limit_every_request_lists_every_tool() {
    let world = World::with("", |builder| builder.search_tools_above(501));
    world.run("Hello!", &[]).await;
    let offered = world.offered();
    assert_eq!(offered[0].len(), 502, "and what reads long results");
    let records = world.run("Hello!", &[SEARCH]).await;
    assert_eq!(results(&records)[0].failure, Some(ToolFailure::UnknownTool));
    let RecordBody::RunStarted(started) = &records[0].body else {
        panic!("{records:?}")
    };
    assert_eq!(started.spec.root.search, None);
}

#[tokio::test]
async fn an_agent_always_has_its_named_tools_and_finds_only_its_own() {
    let world = World::with(
        "[agents.ops]\ninstructions = 'Operate.'\ntools = ['kubernetes__drain_node', 'kubernetes__*', 'grafana__*', 'sentry__*']\n",
        |builder| builder,
    );
    world.model.push(reply::calls([(
        "find_tools",
        r#"{"query":"drain node spotify playlist"}"#,
    )]));
    world.model.push(reply::text("Done."));
    let request = asked("Hello!").agent(AgentName::new("ops"));
    world.orchestrator.handle(request).await.unwrap();
    let offered = world.offered();
    assert_eq!(
        offered[0],
        ["kubernetes__drain_node", "read_output", "find_tools"]
    );
    assert!(offered[1].len() > 2);
    assert!(!offered[1].iter().any(|name| name.starts_with("spotify")));
}

#[tokio::test]
async fn a_sub_agent_searches_its_own_tools() {
    let world = World::with(
        "[agents.lead]\ninstructions = 'Lead.'\ntools = ['calculate']\nagents = ['helper']\n\
         [agents.helper]\ndescription = 'Helps.'\ninstructions = 'Help.'\ntools = ['grafana__*', 'sentry__*', 'kubernetes__*']\n",
        |builder| builder,
    );
    let call: &[_] = &[("grafana__silence_alert", r#"{"matchers":["a"]}"#)];
    world
        .model
        .push(reply::calls([("helper", r#"{"task":"Silence it."}"#)]));
    for batch in [SEARCH, call] {
        world.model.push(reply::calls(batch.iter().copied()));
    }
    world.model.push(reply::text("Silenced."));
    world.model.push(reply::text("Done."));
    let request = asked("Hello!").agent(AgentName::new("lead"));
    let (handle, _) = world.orchestrator.stream(request).await.unwrap();
    assert_eq!(handle.result().await.unwrap().reply, "Done.");
    let offered = world.offered();
    let few = ["calculate", "helper", "read_output"];
    assert_eq!(offered[0], few, "few are not searched");
    assert_eq!(offered[1], ["read_output", "find_tools"]);
    assert!(offered[2].contains(&"grafana__silence_alert".to_owned()));
    assert_eq!(offered[4], offered[0]);
    assert_replays(&Transcript::default(), &handle.records());
}

#[tokio::test]
async fn in_a_small_context_only_fitting_tools_are_added_but_all_stay_callable() {
    let small = Arc::new(ScriptedModel::new().with_context(2_000));
    // Messages that do not fit beside the tools are dropped without a summary, which the same model would have to
    // write.
    let drops = "[agents.main_thread]\ncompaction = 'drop'\n";
    let world = World::with(drops, |builder| {
        builder.model(Role::REASONING, small.clone())
    });
    for topic in ["alert", "issue", "song", "pod", "invoice"] {
        let query = format!(r#"{{"query":"list {topic}"}}"#);
        small.push(reply::calls([("find_tools", query.as_str())]));
    }
    small.push(reply::calls([(
        "weather__get_tides",
        r#"{"location":"Kiel"}"#,
    )]));
    small.push(reply::text("Done."));
    let (handle, _) = world
        .orchestrator
        .stream(asked("Create an issue"))
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap().reply, "Done.");
    assert_eq!(results(&handle.records())[5].failure, None);
    let taken: Vec<usize> = small.requests().iter().map(tokens).collect();
    assert!(
        taken.iter().all(|tokens| *tokens <= taken[0].max(1_000)),
        "{taken:?}"
    );
}

fn tokens(request: &ModelRequest) -> usize {
    let bytes = request.tools.iter().map(|tool| {
        tool.name.as_str().len() + tool.description.len() + tool.parameters.as_str().len()
    });
    bytes.sum::<usize>() / 4
}

#[test]
fn the_name_of_the_search_tool_is_reserved() {
    let tool = ScriptedTool::echoing(spec("find_tools"));
    let builder = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(ScriptedModel::new()))
        .tool(Arc::new(tool));
    let error = builder.build_agent().unwrap_err();
    assert!(
        matches!(error, BuildError::Tool(CatalogError::ReservedName(_))),
        "{error:?}"
    );
    assert!(error.to_string().contains("find_tools"), "{error}");
}
