//! Agents defined in code or in configuration, in sessions and as tools of other agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use neuraxis_core::{
    AgentId, Channel, Mode, Parallel, RecordBody, Role, RunStatus, ToolFailure, Transcript, Turn,
};
use neuraxis_engine::{
    Agent, AgentBuilder, ApprovalKey, Decided, ForkOptions, RequestError, RequestPart, replay,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::ApproverReply;
use neuraxis_testkit::{Act, Script, ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{builder, policy, request, run_to_end};
use crate::written_agents::{look, named, started, tools};

/// A lead that knows `calculate` and calls a writer; only the writer knows `write`.
fn lead(writer: Arc<ScriptedModel>, write: &Arc<ScriptedTool>) -> Agent {
    let writer = Agent::builder("writer")
        .description("Writes.")
        .model(writer)
        .tool(write.clone())
        .tools_named(["peek"])
        .build()
        .unwrap();
    Agent::builder("lead")
        .instructions("You lead.")
        .tools_named(["look"])
        .agent(writer)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_sub_agent_uses_tools_hidden_from_its_parent_and_each_call_is_judged() {
    let write = Arc::new(ScriptedTool::echoing(spec("write")));
    let peek = Arc::new(ScriptedTool::echoing(spec("peek").read_only()));
    let writer = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("peek", "{}"), ("write", r#"{"n":1}"#)]))
            .then(reply::text("written")),
    );
    let root = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([
                ("write", "{}"),
                ("writer", r#"{"task":"Write it."}"#),
            ]))
            .then(reply::text("done")),
    );
    let approver = Arc::new(ScriptedApprover::new().approve());
    let orchestrator = builder(root.clone())
        .tools([look() as Arc<_>, peek.clone() as Arc<_>])
        .agent(lead(writer.clone(), &write))
        .approver(approver.clone())
        .build()
        .unwrap();
    let asked = request("go").mode(Mode::MODERATE).agent(named("lead"));
    let finished = run_to_end(&orchestrator, asked).await;
    finished.assert_valid(RunStatus::Done);
    let spec = started(&finished);
    assert_eq!(tools(&spec.root), ["look", "writer", "read_output"]);
    assert_eq!(
        tools(spec.agents.values().next().unwrap()),
        ["peek", "write", "read_output"]
    );
    // The root cannot call it, the writer could, and the user was asked.
    let first = &finished.results()[0];
    assert_eq!(
        (&*first.name, first.failure),
        ("write", Some(ToolFailure::UnknownTool))
    );
    assert_eq!((write.count(), peek.count()), (1, 1));
    assert_eq!(
        (approver.asks().len(), approver.asks()[0].agent),
        (1, AgentId(1))
    );
    assert_eq!(writer.requests().len(), 2);
    // No other agent is offered the writer's tool, nor served by its model.
    let other = orchestrator
        .decide(&request("go").mode(Mode::MODERATE))
        .unwrap();
    assert!(
        !other
            .tools
            .iter()
            .any(|tool| ["write", "writer"].contains(&tool.as_str()))
    );
    assert!(other.sub_agent_tools.is_empty());
    assert_eq!(other.allowed_roles, [Role::REASONING]);
}

#[tokio::test]
async fn an_agent_and_its_sub_agents_run_standalone_on_their_own_models_and_tools() {
    let write = Arc::new(ScriptedTool::echoing(spec("write")));
    let writer = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("write", "{}")]))
            .then(reply::text("written")),
    );
    let root = ScriptedModel::new()
        .then(reply::calls([("writer", r#"{"task":"Write it."}"#)]))
        .then(reply::text("done"));
    let below = Agent::builder("writer")
        .model(writer.clone())
        .tool(write.clone());
    let agent = Agent::builder("lead")
        .model(Arc::new(root))
        .agent(below.build().unwrap())
        .build()
        .unwrap();
    let done = agent.execute(None, "go").await.unwrap();
    assert_eq!((done.content.as_str(), write.count()), ("done", 1));
    assert_eq!(
        writer.requests()[0].messages.messages()[0].text(),
        "Write it."
    );
    let names: Vec<_> = done.tool_calls.iter().map(|call| &*call.name).collect();
    assert_eq!(names, ["writer", "write"]);
}

#[tokio::test]
async fn an_unknown_agent_is_refused_with_a_suggestion_and_creates_no_session() {
    let orchestrator = builder(ScriptedModel::new()).build().unwrap();
    let asked = request("go").agent(named("resercher"));
    let refused = orchestrator.handle(asked).await.unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("unknown agent \"resercher\" (did you mean researcher?)"),
        "{said}"
    );
    assert!(
        orchestrator
            .sessions()
            .runs(&crate::support::session())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn generated_instructions_are_made_once_and_replay_reads_them() {
    let made = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&made);
    let agent = Agent::builder("guide").instructions_with(move |about| {
        count.fetch_add(1, Ordering::SeqCst);
        let (session, channel) = (about.session_id.unwrap(), about.channel.unwrap());
        format!(
            "{} in {session} on {channel}: {}",
            about.agent,
            about.message.unwrap()
        )
    });
    let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
        .agent(agent.build().unwrap())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("Where?").agent(named("guide"))).await;
    let told = "guide in s on chat: Where?";
    assert_eq!(started(&finished).root.system_prompt.as_deref(), Some(told));
    replay(&Transcript::default(), &finished.records()).unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_request_whose_instructions_fail_is_refused_and_frees_its_session() {
    let guide = Agent::builder("guide")
        .description("Guides.")
        .instructions_with(|about| match about.message {
            Some("Where?") => panic!("nobody knows"),
            _ => "You guide.".to_owned(),
        })
        .build()
        .unwrap();
    let lead = Agent::builder("lead").agent(guide.clone()).build().unwrap();
    let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
        .agent(guide)
        .agent(lead)
        .build()
        .unwrap();
    for agent in ["guide", "lead"] {
        let refused = orchestrator
            .handle(request("Where?").agent(named(agent)))
            .await;
        assert!(
            matches!(&refused, Err(RequestError::Instructions(of)) if *of == named("guide")),
            "{refused:?}"
        );
        let next = orchestrator
            .handle(request("Who?").agent(named(agent)))
            .await;
        assert_eq!(next.unwrap().reply, "ok");
    }
}

#[tokio::test]
async fn policy_instructions_replace_those_generated_by_code() {
    let made = |name: &'static str| Agent::builder(name).instructions_with(|_| "Made.".to_owned());
    let told = async |guide: AgentBuilder, rules: &str| {
        let helper = made("helper").description("Helps.").build().unwrap();
        let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
            .policy(policy(rules))
            .agent(guide.agent(helper).build().unwrap())
            .build()
            .unwrap();
        let finished = run_to_end(&orchestrator, request("Where?").agent(named("guide"))).await;
        let spec = started(&finished);
        let below = spec.agents.into_values().next().unwrap();
        let texts = [spec.root.system_prompt, below.system_prompt];
        texts.map(|text| text.map(|text| text.to_string()).unwrap_or_default())
    };
    assert_eq!(told(made("guide"), "").await, ["Made.", "Made."]);
    let of_guide = "[agents.guide]\ninstructions = 'Guide.'\n";
    assert_eq!(told(made("guide"), of_guide).await, ["Guide.", "Made."]);
    let of_both = format!("{of_guide}[agents.helper]\ninstructions = ''\nmax_turns = 2\n");
    assert_eq!(told(made("guide"), &of_both).await, ["Guide.", ""]);
    let other = "[agents.guide]\nmax_turns = 2\n";
    assert_eq!(told(made("guide"), other).await, ["Made.", "Made."]);
    // In code, the later setting applies.
    let said = made("guide").instructions("Said.");
    assert_eq!(told(said, "").await, ["Said.", "Made."]);
    let made_after_all = Agent::builder("guide").instructions("Said.");
    let made_after_all = made_after_all.instructions_with(|_| "Made.".to_owned());
    assert_eq!(told(made_after_all, "").await, ["Made.", "Made."]);
}

#[tokio::test]
async fn a_fork_uses_the_agent_of_its_run_unless_another_is_named() {
    let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
        .policy(policy(
            "[agents.one]\nmax_turns = 2\n[agents.two]\nmax_turns = 3",
        ))
        .build()
        .unwrap();
    let first = run_to_end(&orchestrator, request("go").agent(named("one"))).await;
    let run = first.result.run_id;
    let fork = |session: &str| ForkOptions::new(session.parse().unwrap()).message("and?");
    for (options, turns, agent) in [
        (fork("x"), 2, "one"),
        (fork("y").agent(named("two")), 3, "two"),
    ] {
        let handle = orchestrator
            .runs()
            .fork(run, Turn(1), options)
            .await
            .unwrap();
        handle.result().await.unwrap();
        let RecordBody::RunStarted(started) = &handle.records()[0].body else {
            panic!("a log begins with its start")
        };
        assert_eq!(started.spec.root.limits.max_turns, Some(turns));
        assert_eq!(started.spec.root.profile.name, agent);
    }
}

#[tokio::test]
async fn a_sub_agent_run_waiting_for_approval_continues_in_another_engine() {
    let store = Arc::new(MemoryStore::new());
    let write = Arc::new(ScriptedTool::echoing(spec("write")));
    let engine = |root: ScriptedModel, writer: ScriptedModel| {
        builder(root)
            .tool(look())
            .tool(Arc::new(ScriptedTool::echoing(spec("peek").read_only())))
            .agent(lead(Arc::new(writer), &write))
            .approval_key(ApprovalKey::new([7; ApprovalKey::BYTES]))
            .approver(Arc::new(ScriptedApprover::new().then(ApproverReply::Later)))
            .store(store.clone())
            .build()
            .unwrap()
    };
    let first = engine(
        ScriptedModel::new().then(reply::calls([("writer", r#"{"task":"Write it."}"#)])),
        ScriptedModel::new().then(reply::calls([("write", r#"{"n":1}"#)])),
    );
    let asked = request("go").mode(Mode::MODERATE).agent(named("lead"));
    let finished = run_to_end(&first, asked).await;
    assert_eq!(finished.result.status, RunStatus::Waiting);
    drop(first);
    let second = engine(
        ScriptedModel::new().then(reply::text("done")),
        ScriptedModel::new().then(reply::text("written")),
    );
    let waiting = second.approvals().list().await.unwrap();
    assert_eq!((waiting.len(), waiting[0].agent), (1, AgentId(1)));
    let approve = neuraxis_core::ApprovalDecision::APPROVE;
    let approvals = second.approvals();
    let decided = approvals.decide_and_resume(&waiting[0], approve, None);
    let Decided::Continues(handle) = decided.await.unwrap() else {
        panic!("nobody else has the run")
    };
    assert_eq!(handle.result().await.unwrap().reply, "done");
    assert_eq!(write.count(), 1);
}

#[tokio::test]
async fn a_program_s_agent_replaces_a_built_in_one_and_policy_settings_override_it() {
    let own = || Agent::builder("researcher").max_turns(3).digest_after(7);
    let model = Arc::new(ScriptedModel::always(reply::text("ok")));
    let alone = own().model(model).build().unwrap();
    let hi = vec![neuraxis_core::Message::user("hi")];
    let (run, _) = alone.stream(hi, None).await.unwrap();
    run.execution().await;
    let RecordBody::RunStarted(of_run) = &run.records()[0].body else {
        panic!("a log begins with its start")
    };
    let root = &of_run.spec.root;
    assert_eq!(
        (root.limits.max_turns, root.profile.digest_after),
        (Some(3), Some(7))
    );
    assert_eq!((&root.fan_out, &root.system_prompt), (&None, &None));
    let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
        .policy(policy("[agents.researcher]\nmax_turns = 2"))
        .agent(own().build().unwrap())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go").agent(named("researcher"))).await;
    let root = started(&finished).root;
    assert_eq!(
        (root.limits.max_turns, root.profile.digest_after),
        (Some(2), Some(7))
    );
}

#[tokio::test]
async fn another_agent_under_the_same_idempotency_key_is_a_different_request() {
    let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
        .build()
        .unwrap();
    let key = || "k".parse().unwrap();
    let first = request("go").idempotency_key(key());
    orchestrator.handle(first).await.unwrap();
    let other = request("go")
        .idempotency_key(key())
        .agent(named("researcher"));
    let refused = orchestrator.handle(other).await.unwrap_err();
    let RequestError::KeyReused(differences) = refused else {
        panic!("{refused}")
    };
    assert_eq!(differences.parts(), [RequestPart::Agent]);
}

#[tokio::test(start_paused = true)]
async fn deep_research_researches_its_topics_in_parallel() {
    let root = ScriptedModel::answering(|request| {
        let is_lead = request.messages.messages()[0]
            .text()
            .starts_with("You lead");
        let has_results = request
            .messages
            .messages()
            .iter()
            .any(|it| it.text().contains("about tides"));
        if !is_lead {
            let topic = request.messages.messages()[1].text();
            let answer = Script::from(reply::text(format!("about {topic}")));
            return answer.after(Duration::from_secs(10));
        }
        if has_results || request.messages.len() > 3 {
            return reply::text("ACCEPT").into();
        }
        reply::calls([("research", r#"{"topics":["tides","moons"]}"#)]).into()
    });
    let orchestrator = builder(root)
        .tool(Arc::new(ScriptedTool::always(
            spec("web_search").read_only(),
            Act::value("\"a page\""),
        )))
        .build()
        .unwrap();
    let before = tokio::time::Instant::now();
    let asked = request("Why are there tides?").channel(Channel::DEEP_RESEARCH);
    let finished = run_to_end(&orchestrator, asked).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(before.elapsed(), Duration::from_secs(10));
    assert_eq!(
        finished.results()[0].value.as_str(),
        r#"["about tides","about moons"]"#
    );
    let spec = started(&finished);
    assert_eq!(
        (spec.root.limits.max_tool_calls, spec.root.profile.parallel),
        (Some(50), Parallel::None)
    );
    assert_eq!(tools(&spec.root), ["web_search", "research", "read_output"]);
    let researcher = &spec.agents.values().next().unwrap();
    assert_eq!(tools(researcher), ["web_search", "read_output"]);
    assert_eq!(researcher.profile.digest_after, Some(2));
}
