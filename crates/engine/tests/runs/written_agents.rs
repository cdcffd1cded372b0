//! Agents defined in code or in configuration: every setting, and how they run alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use neuraxis_core::{
    AgentName, AgentSpec, Compaction, DataPolicy, FinishReason, Keep, LimitReached, MicroUsd,
    NoCalls, Offer, Parallel, RecordBody, Repeats, ResultRule, Role, RunSpec, RunStatus,
    ToolChoice, UnknownTool,
};
use neuraxis_engine::{Agent, AgentBuilder, BuildError, Event, RequestError};
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{FinishedRun, builder, policy, request, run_to_end};

pub(crate) fn named(name: &'static str) -> AgentName {
    AgentName::new(name)
}

pub(crate) fn look() -> Arc<ScriptedTool> {
    Arc::new(ScriptedTool::echoing(spec("look").read_only()))
}

pub(crate) fn started(finished: &FinishedRun) -> RunSpec {
    let records = finished.records();
    let started = records.iter().find_map(|record| match &record.body {
        RecordBody::RunStarted(started) => Some((*started.spec).clone()),
        _ => None,
    });
    started.unwrap()
}

pub(crate) fn tools(agent: &AgentSpec) -> Vec<&str> {
    agent.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// Every setting, each with a value other than the default.
fn set(agent: AgentBuilder) -> AgentBuilder {
    let mut rule = ResultRule::new("look".parse().unwrap());
    rule.max_chars = Some(10);
    rule.keep = Some(Keep::Summary);
    rule.then = Some(ToolChoice::None);
    rule.note = Some("Mind the units.".to_owned());
    agent
        .instructions("You help.")
        .description("Helps.")
        .temperature(0.25)
        .max_output_tokens(99)
        .max_turns(2)
        .max_tool_calls(3)
        .max_tokens(4_000_000)
        .max_cost(MicroUsd(5_000_000))
        .deadline(Duration::from_secs(6))
        .tool_timeout(Duration::from_secs(7))
        .parallel(Parallel::All)
        .unknown_tool(UnknownTool::Stop)
        .stop_on_error(true)
        .limit_reached(LimitReached::Finish)
        .no_calls(NoCalls::Remind {
            prompt: "Call submit.".to_owned(),
            at_most: 2,
        })
        .offer(Offer::FirstTurns(3))
        .tool_choice(ToolChoice::Required)
        .first_role(Role::ROUTER)
        .after_calls_role(Role::REASONING)
        .stop_after("look")
        .results(rule)
        .lenient_arguments(true)
        .digest_after(4)
        .compaction(Compaction::Drop)
        .repeats(Repeats { warn: 5, stop: 6 })
        .data(DataPolicy::ALL)
        .parallel_agents(7)
        .tool_retries(0)
        .context_tokens(8_000)
        .fan_out("of")
        .tool_name("ask_helper")
}

/// The same, in a deployment's configuration.
const SET: &str = r#"
    [agents.helper]
    instructions = "You help."
    description = "Helps."
    temperature = 0.25
    max_output_tokens = 99
    max_turns = 2
    max_tool_calls = 3
    max_tokens = 4_000_000
    max_cost_micro_usd = 5_000_000
    deadline = "6s"
    tool_timeout = "7s"
    parallel = "all"
    unknown_tool = "stop"
    stop_on_error = true
    limit_reached = "finish"
    no_calls = { remind = { prompt = "Call submit.", at_most = 2 } }
    offer = { first_turns = 3 }
    tool_choice = "required"
    first_role = "router"
    after_calls_role = "reasoning"
    stop_after = ["look"]
    results.look = { max_chars = 10, keep = "summary", then = "none", note = "Mind the units." }
    lenient_arguments = true
    digest_after = 4
    compaction = "drop"
    repeats = { warn = 5, stop = 6 }
    parallel_agents = 7
    tool_retries = 0
    context_tokens = 8_000
    fan_out = "of"
    tool_name = "ask_helper"
"#;

#[tokio::test(start_paused = true)]
async fn an_agent_written_in_code_runs_like_one_from_a_policy_file() {
    let ask = || request("go").agent(named("helper"));
    let model = || ScriptedModel::always(reply::text("ok"));
    let in_code = set(Agent::builder("helper")).build().unwrap();
    let in_code = builder(model())
        .tool(look())
        .agent(in_code)
        .build()
        .unwrap();
    let in_file = builder(model())
        .tool(look())
        .policy(policy(SET))
        .build()
        .unwrap();
    let in_code = started(&run_to_end(&in_code, ask()).await).root;
    assert_eq!(in_code, started(&run_to_end(&in_file, ask()).await).root);
    // Not used as the agent that answers by default.
    let plain = builder(model()).tool(look()).build().unwrap();
    let plain = started(&run_to_end(&plain, request("go")).await).root;
    assert_eq!(in_code.system_prompt.as_deref(), Some("You help."));
    assert_eq!(
        (in_code.temperature, in_code.context_tokens),
        (Some(0.25), Some(8_000))
    );
    assert_eq!(in_code.max_output_tokens, Some(99));
    assert_eq!(in_code.tool_choice, Some(ToolChoice::Required));
    let both = (
        serde_json::to_value(&in_code.profile).unwrap(),
        serde_json::to_value(&plain.profile).unwrap(),
    );
    for key in [
        "name",
        "parallel",
        "unknown_tool",
        "tool_errors",
        "limit_reached",
        "no_calls",
        "offer",
        "roles",
        "stop_after",
        "results",
        "arguments",
        "digest_after",
        "compaction",
        "repeats",
        "parallel_agents",
        "tool_retries",
    ] {
        assert_ne!(both.0.get(key), both.1.get(key), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_settings_of_an_agent_apply_when_it_runs_standalone() {
    let model = Arc::new(ScriptedModel::always(reply::text("ok")));
    let agent = set(Agent::builder("helper"))
        .model(model.clone())
        .tool(look());
    let agent = agent.build().unwrap();
    let (run, _) = agent
        .stream(vec![neuraxis_core::Message::user("go")], None)
        .await
        .unwrap();
    let done = run.execution().await;
    let RecordBody::RunStarted(started) = &run.records()[0].body else {
        panic!("a log begins with its start")
    };
    let root = &started.spec.root;
    let limits = root.limits;
    assert_eq!(
        (limits.max_turns, limits.max_tool_calls),
        (Some(2), Some(3))
    );
    assert_eq!(limits.max_tokens, Some(4_000_000));
    assert_eq!(limits.max_cost, Some(MicroUsd(5_000_000)));
    assert_eq!(limits.deadline, Some(Duration::from_secs(6)));
    assert_eq!(limits.max_tool_timeout, Some(Duration::from_secs(7)));
    assert_eq!(root.profile.parallel, Parallel::All);
    assert_eq!(root.profile.repeats, Repeats { warn: 5, stop: 6 });
    let sent = &model.requests()[0];
    assert_eq!(
        (sent.temperature, sent.max_output_tokens),
        (Some(0.25), Some(99))
    );
    assert_eq!(sent.tool_choice, ToolChoice::Required);
    assert_eq!(sent.messages.messages()[0].text(), "You help.");
    // It was reminded, in a turn that was its second and last.
    assert_eq!((done.turns, done.status), (2, RunStatus::Done));
    assert!(
        model.requests()[1]
            .messages
            .messages()
            .iter()
            .any(|it| it.text() == "Call submit.")
    );
}

#[tokio::test]
async fn a_system_prompt_replaces_an_agent_s_instructions_and_an_empty_one_sends_none() {
    let sent = |instructed: bool, prompt: Option<&'static str>| async move {
        let model = Arc::new(ScriptedModel::always(reply::text("ok")));
        let agent = Agent::builder("a").model(model.clone());
        let agent = match instructed {
            true => agent.instructions("Be kind."),
            false => agent,
        };
        agent.build().unwrap().execute(prompt, "hi").await.unwrap();
        let sent = model.requests()[0].messages.clone();
        let texts = sent.messages().iter().map(|message| message.text());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(sent(false, None).await, ["hi"]);
    assert_eq!(sent(true, None).await, ["Be kind.", "hi"]);
    assert_eq!(sent(true, Some("Be brief.")).await, ["Be brief.", "hi"]);
    assert_eq!(sent(true, Some("")).await, ["hi"]);
}

#[tokio::test]
async fn a_turn_limit_ends_a_standalone_agent_with_an_answer() {
    let calls = AtomicU32::new(0);
    let model = ScriptedModel::answering(move |request| match request.tool_choice {
        ToolChoice::None => reply::text("what I have"),
        _ => {
            let n = calls.fetch_add(1, Ordering::SeqCst);
            reply::calls([("look", format!("{{\"n\":{n}}}").as_str())])
        }
    });
    let agent = Agent::builder("a").model(Arc::new(model)).tool(look());
    let done = agent
        .max_turns(3)
        .build()
        .unwrap()
        .execute(None, "go")
        .await
        .unwrap();
    assert_eq!(done.finish_reason, FinishReason::MaxTurns);
    assert_eq!(
        (done.content.as_str(), done.tool_calls.len()),
        ("what I have", 3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_standalone_agent_streams_and_is_cancelled_with_its_handle() {
    let words = Script::from(reply::text("one two three")).split(3);
    let model = Arc::new(ScriptedModel::new().then(words).then(Script::hanging()));
    let agent = Agent::builder("a").model(model.clone()).build().unwrap();
    let hi = || vec![neuraxis_core::Message::user("hi")];
    let (run, mut events) = agent.stream(hi(), None).await.unwrap();
    let mut live = 0;
    while let Some(event) = events.next().await {
        live += u32::from(matches!(event, Event::Live(_)));
    }
    assert!(live > 0, "nothing was shown before it was on record");
    assert_eq!(run.execution().await.content, "one two three");

    let (run, _events) = agent.stream(hi(), None).await.unwrap();
    while model.open_calls() == 0 {
        tokio::task::yield_now().await;
    }
    drop(run);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(model.open_calls(), 0);
}

#[tokio::test]
async fn an_agent_without_a_model_cannot_run_standalone() {
    let agent = Agent::builder("a").role(Role::CODING).build().unwrap();
    let refused = agent.execute(None, "hi").await.unwrap_err();
    assert!(matches!(refused, RequestError::NoModel(_)), "{refused}");
    assert!(
        refused.to_string().contains("agent a has no model"),
        "{refused}"
    );
}

#[test]
fn an_invalid_agent_is_refused_with_the_reason() {
    let model = || Arc::new(ScriptedModel::new());
    let refused = |agent: AgentBuilder| agent.build().unwrap_err().to_string();
    let said = refused(Agent::builder("no good"));
    assert!(said.contains("invalid name \"no good\""), "{said}");
    let said = refused(Agent::builder("a").temperature(3.0));
    assert!(
        said.starts_with("agents.a.temperature must be between 0 and 2"),
        "{said}"
    );
    let said = refused(Agent::builder("a").tool_name("a b"));
    assert!(said.contains("\"a b\" is not a valid tool name"), "{said}");
    let said = refused(Agent::builder("a").role(Role::CODING).model(model()));
    assert!(said.contains("both a model and a role"), "{said}");
    let twice = Agent::builder("a").model(model()).tool(look()).tool(look());
    assert!(matches!(twice.build(), Err(BuildError::Tool(_))));
    let one = || Agent::builder("a").build().unwrap();
    let two = builder(ScriptedModel::new())
        .agent(one())
        .agent(one())
        .build();
    assert!(matches!(two, Err(BuildError::DuplicateAgent(_))));
    let strange = Agent::builder("a")
        .role(Role::new("coder"))
        .build()
        .unwrap();
    let said = builder(ScriptedModel::new())
        .agent(strange)
        .build()
        .unwrap_err()
        .to_string();
    assert!(
        said.starts_with("agents.a.role: unknown role \"coder\""),
        "{said}"
    );
}
