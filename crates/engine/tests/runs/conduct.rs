//! How an agent conducts its turns, seen from outside: each setting takes effect whether it is set by a program or by a
//! deployment, and without it the run is different.

use std::sync::Arc;

use neuraxis_core::{
    Citations, DataPolicy, JsonText, LimitReached, ModelRequest, Offer, Opening, RecordBody, Role,
    Seq, ToolChoice, UsageScope,
};
use neuraxis_engine::{Agent, AgentBuilder, OrchestratorBuilder};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::RunLog as _;
use neuraxis_testkit::{ScriptedModel, reply};

use crate::support::{FinishedRun, builder, policy, request, run_to_end};
use crate::written_agents::{look, named};

/// A run, and the requests that each of the two models received in it.
struct Seen {
    finished: FinishedRun,
    /// The log, as it is stored.
    log: String,
    reasoning: Vec<ModelRequest>,
    router: Vec<ModelRequest>,
}

/// A run without a setting, and with it: set by a program, and by a deployment.
struct Compared {
    plain: Seen,
    set: [Seen; 2],
}

/// The models of the reasoning role and of the router.
type Models = fn() -> (ScriptedModel, ScriptedModel);

async fn see(
    models: Models,
    with: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
) -> Seen {
    let (reasoning, router) = models();
    let (reasoning, router) = (Arc::new(reasoning), Arc::new(router));
    let store = Arc::new(MemoryStore::new());
    let orchestrator = builder(reasoning.clone())
        .store(store.clone())
        .model(Role::ROUTER, router.clone())
        .tool(look());
    let orchestrator = with(orchestrator).build().unwrap();
    let finished = run_to_end(&orchestrator, request("go").agent(named("a"))).await;
    let kept = store.records(finished.result.run_id, Seq(0)).await.unwrap();
    Seen {
        log: serde_json::to_string(&kept).unwrap(),
        finished,
        reasoning: reasoning.requests(),
        router: router.requests(),
    }
}

/// Compares the runs of an agent: with `base` and `written_base` only, and with an additional setting, in code and in
/// configuration.
async fn compare_on(
    models: Models,
    (base, written_base): (fn(AgentBuilder) -> AgentBuilder, &str),
    set: impl FnOnce(AgentBuilder) -> AgentBuilder,
    written: &str,
) -> Compared {
    let agent = || base(Agent::builder("a"));
    let plain = agent().build().unwrap();
    let plain = see(models, |builder| builder.agent(plain)).await;
    let in_code = set(agent()).build().unwrap();
    let in_code = see(models, |builder| builder.agent(in_code)).await;
    let text = format!("[agents.a]\n{written_base}\n{written}");
    let in_file = see(models, |builder| builder.policy(policy(&text))).await;
    let set = [in_code, in_file];
    Compared { plain, set }
}

async fn compare(
    models: Models,
    set: impl FnOnce(AgentBuilder) -> AgentBuilder,
    written: &str,
) -> Compared {
    compare_on(models, (|agent| agent, ""), set, written).await
}

/// Calls `look` and then answers. The router does the same.
fn looks() -> (ScriptedModel, ScriptedModel) {
    let model = || {
        ScriptedModel::answering(|request| {
            let may_call = request.tool_choice != ToolChoice::None && !request.tools.is_empty();
            match may_call && !has_called(request) {
                true => reply::calls([("look", r#"{"n":1}"#)]),
                false => reply::text("Seen."),
            }
        })
    };
    (model(), model())
}

/// Returns `true` if the conversation in a request contains calls.
fn has_called(request: &ModelRequest) -> bool {
    let mut messages = request.messages.messages().iter();
    messages.any(|message| message.tool_calls().next().is_some())
}

#[tokio::test]
async fn an_agent_can_limit_the_turns_in_which_tools_are_called() {
    let seen = compare(
        looks,
        |agent| agent.offer(Offer::FirstTurns(1)),
        "offer = { first_turns = 1 }",
    );
    let seen = seen.await;
    assert_eq!(seen.plain.reasoning[1].tool_choice, ToolChoice::Auto);
    for set in &seen.set {
        assert_eq!(set.reasoning[1].tool_choice, ToolChoice::None);
        assert_eq!(set.reasoning[1].tools, set.reasoning[0].tools);
    }
    let seen = compare(looks, |agent| agent.offer(Offer::Never), "offer = 'never'").await;
    assert!(!seen.plain.reasoning[0].tools.is_empty());
    for set in &seen.set {
        assert!(set.reasoning[0].tools.is_empty());
        assert_eq!(set.finished.results().len(), 0);
    }
}

#[tokio::test]
async fn an_agent_can_set_roles_for_the_first_turn_and_for_turns_after_calls() {
    let asked = |seen: &Seen| (seen.reasoning.len(), seen.router.len());
    let first = compare(
        looks,
        |agent| agent.first_role(Role::ROUTER),
        "first_role = 'router'",
    )
    .await;
    let later = compare(
        looks,
        |agent| agent.after_calls_role(Role::ROUTER),
        "after_calls_role = 'router'",
    )
    .await;
    for compared in [&first, &later] {
        assert_eq!(asked(&compared.plain), (2, 0));
        for set in &compared.set {
            assert_eq!(asked(set), (1, 1));
        }
    }
    for (first, later) in first.set.iter().zip(&later.set) {
        assert!(has_called(&first.reasoning[0]) && !has_called(&first.router[0]));
        assert!(!has_called(&later.reasoning[0]) && has_called(&later.router[0]));
    }
}

#[tokio::test]
async fn an_agent_can_make_a_tool_result_the_answer() {
    let seen = compare(
        looks,
        |agent| agent.stop_after("look"),
        "stop_after = ['look']",
    )
    .await;
    assert_eq!(seen.plain.finished.result.reply, "Seen.");
    for set in &seen.set {
        assert_eq!(set.finished.result.reply, r#"{"n":1}"#);
        assert_eq!(set.reasoning.len(), 1);
    }
}

#[tokio::test]
async fn an_agent_can_have_malformed_arguments_repaired() {
    let models: Models = || {
        let fenced = reply::calls([("look", "```json\n{\"n\":1}\n```")]);
        let model = ScriptedModel::new().then(fenced).then(reply::text("Seen."));
        (model, ScriptedModel::new())
    };
    let seen = compare(
        models,
        |agent| agent.lenient_arguments(true),
        "lenient_arguments = true",
    )
    .await;
    let failed = |seen: &Seen| seen.finished.results()[0].failure.is_some();
    assert!(failed(&seen.plain));
    for set in &seen.set {
        assert!(!failed(set), "{:?}", set.finished.results());
    }
}

#[tokio::test]
async fn an_agent_sets_whether_a_reached_limit_asks_for_a_last_answer() {
    let models: Models = || {
        let model = ScriptedModel::answering(|request| match request.tool_choice {
            ToolChoice::None => reply::text("All I have."),
            _ => reply::calls([("look", "{}")]),
        });
        (model, ScriptedModel::new())
    };
    let one_turn: (fn(AgentBuilder) -> AgentBuilder, &str) =
        (|agent| agent.max_turns(1), "max_turns = 1");
    let seen = compare_on(
        models,
        one_turn,
        |agent| agent.limit_reached(LimitReached::Finish),
        "limit_reached = 'finish'",
    )
    .await;
    assert_eq!(seen.plain.finished.result.reply, "All I have.");
    for set in &seen.set {
        assert_eq!(set.reasoning.len(), 1);
        assert_ne!(set.finished.result.reply, "All I have.");
        assert_eq!(
            set.finished.result.finish_reason,
            seen.plain.finished.result.finish_reason
        );
    }
}

#[tokio::test]
async fn data_an_agent_excludes_from_the_log_is_in_no_record() {
    let models: Models = || {
        let calls = reply::calls([("look", r#"{"word":"heron"}"#)]);
        let model = ScriptedModel::new().then(calls);
        (
            model.then(reply::text("A kingfisher.")),
            ScriptedModel::new(),
        )
    };
    let nothing_said = DataPolicy {
        text: false,
        tool_results: false,
        tool_calls: false,
        ..DataPolicy::ALL
    };
    let seen = compare(
        models,
        |agent| agent.data(nothing_said),
        "data = { text = false, tool_calls = false, tool_results = false }",
    )
    .await;
    for word in ["heron", "kingfisher"] {
        assert!(seen.plain.log.contains(word), "{word}");
        for set in &seen.set {
            assert!(!set.log.contains(word), "{word}");
        }
    }
    for set in &seen.set {
        assert_eq!(set.finished.result.reply, "A kingfisher.");
    }
}

#[tokio::test]
async fn an_agent_can_have_a_small_model_choose_what_a_first_tool_gathers() {
    let gather = Opening::Gather {
        role: Role::ROUTER,
        tool: "look".parse().unwrap(),
        default_arguments: JsonText::from_text(r#"{"n":7}"#),
    };
    let models: Models = || {
        let answers = || ScriptedModel::always(reply::text("Seen."));
        (answers(), answers())
    };
    let seen = compare(
        models,
        |agent| agent.opening(gather),
        r#"opening = { gather = { role = "router", tool = "look", default_arguments = '{"n":7}' } }"#,
    )
    .await;
    assert_eq!(
        (seen.plain.reasoning.len(), seen.plain.router.len()),
        (1, 0)
    );
    for set in &seen.set {
        let offered = set.router[0].tools.iter().map(|tool| tool.name.as_str());
        assert_eq!(offered.collect::<Vec<_>>(), ["look"]);
        // It made no call, so the default call is made.
        assert_eq!(set.finished.results()[0].value.as_str(), r#"{"n":7}"#);
        assert!(set.reasoning[0].tools.is_empty());
    }
}

#[tokio::test]
async fn an_agent_sets_whether_usage_of_its_sub_agents_counts() {
    let models: Models = || {
        let leads = ScriptedModel::answering(|request| {
            let reply = match has_called(request) {
                true => reply::text("Done."),
                false => reply::calls([("below", r#"{"task":"help"}"#)]),
            };
            reply::using(reply, 10, 0)
        });
        let works = ScriptedModel::always(reply::using(reply::text("Helped."), 1_000, 0));
        (leads, works)
    };
    let leading: (fn(AgentBuilder) -> AgentBuilder, &str) = (
        |agent| {
            let below = Agent::builder("below").role(Role::ROUTER).build().unwrap();
            agent.agent(below)
        },
        "agents = ['below']",
    );
    let seen = compare_on(
        models,
        leading,
        |agent| agent.usage(UsageScope::Own),
        "usage = 'own'\n[agents.below]\nrole = 'router'",
    )
    .await;
    let told = |seen: &Seen| seen.finished.result.usage.total.prompt.tokens;
    assert_eq!(told(&seen.plain), 1_020);
    for set in &seen.set {
        assert_eq!((set.router.len(), told(set)), (1, 20));
    }
}

#[tokio::test]
async fn an_agent_can_have_links_to_unread_pages_removed() {
    let models: Models = || {
        let reply = reply::text("It rains ([source](https://nowhere.example/rain)).");
        (ScriptedModel::always(reply), ScriptedModel::new())
    };
    let seen = compare(
        models,
        |agent| agent.citations(Citations::Checked),
        "citations = 'checked'",
    )
    .await;
    assert!(seen.plain.finished.result.reply.contains("nowhere.example"));
    for set in &seen.set {
        let reply = &set.finished.result.reply;
        assert!(
            reply.contains("It rains") && !reply.contains("nowhere.example"),
            "{reply}"
        );
    }
}

/// Calls an agent that starts the next one, as deep as allowed.
fn nested() -> (ScriptedModel, ScriptedModel) {
    let model = ScriptedModel::answering(|request| {
        let starts = request
            .tools
            .iter()
            .find(|it| ["one", "two", "three"].contains(&it.name.as_str()));
        match starts {
            Some(tool) if !has_called(request) => {
                reply::calls([(tool.name.as_str(), r#"{"task":"deeper"}"#)])
            }
            _ => reply::text("Deep."),
        }
    });
    (model, ScriptedModel::new())
}

const NESTED: &str = "agents = ['one']";

/// The agents that are started, each by the previous one.
const BELOW: &str = "[agents.one]\nagents = ['two']\ntools = []\n[agents.two]\nagents = ['three']\ntools = []\n[agents.three]\ntools = []";

/// Returns how many agents were started, and the tools of the last one's first request.
fn started(seen: &Seen) -> (usize, bool) {
    let records = seen.finished.records();
    let agents = records.iter().map(|record| record.agent).max();
    let last = seen.reasoning.iter().find(|request| {
        let messages = request.messages.messages();
        messages.last().is_some_and(|it| it.text() == "deeper") && request.tools.is_empty()
    });
    let refused = seen
        .finished
        .results()
        .iter()
        .any(|it| it.failure.is_some());
    assert!(!refused, "{:?}", seen.finished.results());
    (usize::try_from(agents.unwrap().0).unwrap(), last.is_some())
}

#[tokio::test]
async fn sub_agent_depth_is_limited_by_policy_agent_and_program() {
    let of = |limits: &'static str, modes: &'static str, most: Option<u32>| async move {
        let text = format!("{modes}\n[agents.a]\n{NESTED}\ntools = []\n{limits}\n{BELOW}");
        let seen = see(nested, |builder| {
            let builder = builder.policy(policy(&text));
            match most {
                Some(depth) => builder.agent_limits(neuraxis_core::AgentLimits { depth, total: 9 }),
                None => builder,
            }
        });
        started(&seen.await)
    };
    let raised = "modes.exploratory.max_agent_depth = 3";
    assert_eq!(of("", "", None).await, (2, true));
    assert_eq!(of("max_agent_depth = 1", "", None).await, (1, true));
    assert_eq!(of("", raised, None).await, (3, true));
    // An agent and a program can only lower the limit.
    assert_eq!(of("max_agent_depth = 3", "", None).await, (2, true));
    assert_eq!(of("max_agent_depth = 1", raised, None).await, (1, true));
    assert_eq!(of("", raised, Some(1)).await, (1, true));
    assert_eq!(of("max_agent_depth = 0", "", None).await.0, 0);
}

#[tokio::test]
async fn the_number_of_sub_agents_is_limited_by_policy_or_program() {
    let models: Models = || {
        let model = ScriptedModel::answering(|request| {
            let leads = request.tools.iter().any(|it| it.name.as_str() == "one");
            match leads && !has_called(request) {
                true => reply::calls([("one", r#"{"task":"a"}"#), ("one", r#"{"task":"b"}"#)]),
                false => reply::text("Done."),
            }
        });
        (model, ScriptedModel::new())
    };
    let base = "[agents.a]\nagents = ['one']\n[agents.one]\ntools = []\n";
    let failed = |seen: &Seen| {
        let results = seen.finished.results();
        results.iter().filter(|it| it.failure.is_some()).count()
    };
    let plain = see(models, |builder| builder.policy(policy(base))).await;
    assert_eq!(failed(&plain), 0);
    for more in [
        "modes.exploratory.max_agents = 1",
        "channels.chat.max_agents = 1",
    ] {
        let text = format!("{more}\n{base}");
        let seen = see(models, |builder| builder.policy(policy(&text))).await;
        assert_eq!(failed(&seen), 1, "{more}");
        let records = seen.finished.records();
        let said = records.iter().any(|record| match &record.body {
            RecordBody::Decision(decision) => decision
                .reasons
                .iter()
                .any(|reason| reason.starts_with("At most 1 sub-agents are started, set by")),
            _ => false,
        });
        assert!(said, "{more}");
    }
    let limits = neuraxis_core::AgentLimits { depth: 2, total: 1 };
    let seen = see(models, |builder| {
        builder.policy(policy(base)).agent_limits(limits)
    })
    .await;
    assert_eq!(failed(&seen), 1);
    // When it runs alone, the agent's own setting applies.
    let model = Arc::new(models().0);
    let below = Agent::builder("one").build().unwrap();
    let agent = Agent::builder("a").model(model).agent(below).max_agents(1);
    let done = agent.build().unwrap().execute(None, "go").await.unwrap();
    let failed = done.tool_calls.iter().filter(|call| !call.success);
    assert_eq!(failed.count(), 1, "{:?}", done.tool_calls);
}
