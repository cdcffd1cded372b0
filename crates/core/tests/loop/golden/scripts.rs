//! The scripts behind the logs that the machine wrote. Each log was then checked line by line against the rules. Since
//! then it is data like the others, and the script shows how it was produced.
//!
//! `UPDATE_GOLDEN=1` rewrites the logs: only for a new version of the loop.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use neuraxis_core::{
    Advice, AgentSpec, Hook, Input, Limits, Message, Part, Profile, ReasoningPart, ReplyFinish,
    Role, RoleDowngraded, RunSpec, ToolSpec, Transcript,
};

use crate::support::*;

/// A script, the name of its log, and the history that its run continued.
type Scripted = (&'static str, Transcript, fn(Transcript) -> Script);

fn scripts() -> [Scripted; 6] {
    [
        ("compaction", long_history(), compaction),
        ("budget_end", Transcript::default(), budget_end),
        ("hook_stop", Transcript::default(), hook_stop),
        ("nested_approval", Transcript::default(), nested_approval),
        (
            "checked_and_escalated",
            Transcript::default(),
            checked_and_escalated,
        ),
        ("giving_way", thoughtful_history(), giving_way),
    ]
}

fn some_tools(names: &[&str]) -> Arc<[ToolSpec]> {
    let is_named = |tool: &ToolSpec| names.contains(&tool.name.as_str());
    tools().into_iter().filter(is_named).collect()
}

fn asked(question: &str, profile: Profile, names: &[&str]) -> RunSpec {
    let mut root = AgentSpec::new(profile, Role::REASONING);
    root.tools = some_tools(names);
    RunSpec::new(run_id(), [Message::user(question)], root)
}

/// Two exchanges of about 80 tokens each.
fn long_history() -> Transcript {
    let menu =
        "Monday soup, Tuesday rice, Wednesday pasta, Thursday fish, Friday pizza. ".repeat(2);
    [
        Message::user("What is for lunch this week? I am allergic to nuts, please remember that."),
        Message::assistant(menu.trim()),
        Message::user("And what was it last week?"),
        Message::assistant(menu.trim()),
    ]
    .into_iter()
    .collect()
}

/// The history no longer fits: the router summarizes its first exchange, and the answer follows.
fn compaction(history: Transcript) -> Script {
    let mut spec = asked("Which day should I skip?", Profile::main_thread(), &[]);
    spec.root.system_prompt = Some("You know the canteen.".into());
    spec.root.context_tokens = Some(140);
    spec.root.max_output_tokens = Some(20);
    let mut run = Script::start_after(spec, history);
    run.at(900).reply(says(
        "The user is allergic to nuts. The week: soup, rice, pasta, fish, pizza.",
    ));
    run.at(1_700)
        .reply(says("None: no meal is said to hold nuts."));
    run
}

/// One tool call is allowed: the second of the reply does not run, and a last answer follows.
fn budget_end(_: Transcript) -> Script {
    let mut spec = asked("Compare both files.", Profile::main_thread(), &[READ]);
    spec.root.limits = Limits {
        max_tool_calls: Some(1),
        ..Limits::default()
    };
    let mut run = Script::start(spec);
    let both = [(READ, r#"{"path":"a"}"#), (READ, r#"{"path":"b"}"#)];
    run.at(800).reply(calls("I read both.", &both));
    run.at(801).allow();
    run.at(830).finish(0, done(r#"{"lines":3}"#));
    run.at(1_500)
        .reply(says("a has 3 lines; b I could not read."));
    run
}

/// The hook lets the loop continue after the first turn, and ends it before the calls of the second are processed.
fn hook_stop(_: Transcript) -> Script {
    let mut profile = Profile::main_thread();
    profile.hooks = vec![Hook::Progress, Hook::ProcessCalls];
    let mut run = Script::start(asked("Clean up my inbox.", profile, &[READ, SEND]));
    run.at(700).reply(calls("Let me look.", &[(READ, "{}")]));
    run.at(710).advise(Advice::Continue);
    run.at(711).allow();
    run.at(740).finish(0, done("[\"spam\",\"a letter\"]"));
    run.at(750).advise(Advice::Continue);
    run.at(1_400)
        .reply(calls("I answer the letter.", &[(SEND, r#"{"to":"bob"}"#)]));
    run.at(1_410).advise(Advice::Stop {
        reason: "nothing may be sent today".to_owned(),
    });
    run
}

/// An agent two levels deep wants to send something; a user edits the recipient, and the answers are passed up again.
fn nested_approval(_: Transcript) -> Script {
    let mut spec = asked(
        "Find out and tell Bob.",
        Profile::main_thread(),
        &[RESEARCH],
    );
    let mut agent = AgentSpec::new(Profile::researcher(), Role::REASONING);
    agent.tools = some_tools(&[SEND, RESEARCH]);
    agent.fan_out = Some("topics".to_owned());
    spec.agents.insert(RESEARCH.parse().unwrap(), agent);
    let mut run = Script::start(spec);
    run.at(500).reply(research(&["prices"]));
    run.at(501).allow();
    run.at(1_000).reply_as(1, research(&["tell Bob"]));
    run.at(1_001).allow_as(1);
    run.at(1_500)
        .reply_as(2, calls("", &[(SEND, r#"{"to":"all"}"#)]));
    run.at(1_501).vet_as(2, [asks()]);
    run.decide(approve_with(r#"{"to":"bob"}"#));
    run.at(1_502).vet_as(2, [asks()]);
    run.at(1_600).finish_as(2, 0, done("{\"sent\":1}"));
    run.at(2_000).reply_as(2, says("Bob knows."));
    run.at(2_500)
        .reply_as(1, says("Prices fell, and Bob knows."));
    run.at(3_000).reply(says("Prices fell; Bob has been told."));
    run
}

/// A model chooses the router. Its draft is rejected, so a larger role, served by another one, answers; that draft is
/// accepted.
fn checked_and_escalated(_: Transcript) -> Script {
    let mut spec = asked(
        "What color is the sky on Mars?",
        Profile::main_thread(),
        &[],
    );
    spec.decision = Some(
        decided(|decision| {
            routes(decision);
            checks(decision);
            escalates(decision, 1, true);
        })
        .into(),
    );
    let mut run = Script::start(spec);
    run.at(200).reply(says("router"));
    run.at(700).reply(says("Blue."));
    run.at(1_200).reply(says("Red."));
    let mut butterscotch = run.replied(says("Butterscotch, by day."));
    if let Input::ModelReplied(replied) = &mut butterscotch {
        replied.served_by = Role::REASONING;
        replied.downgraded = Some(Box::new(RoleDowngraded {
            from: Role::CODING,
            to: Role::REASONING,
            reason: "Role coding failed 3 times.".to_owned(),
            left_out: 0,
        }));
    }
    run.at(2_100).send(butterscotch);
    run.at(2_600).reply(says("ACCEPT"));
    run
}

/// The long history, and reasoning of about 60 tokens before each answer.
fn thoughtful_history() -> Transcript {
    let thought =
        "The user asks about the menu. I know it from the list of the canteen. ".repeat(3);
    let history = long_history();
    let messages = history.messages().iter().map(|message| {
        let mut message = Message::clone(message);
        if let Message::Assistant(reply) = &mut message {
            let thought = ReasoningPart {
                text: thought.trim().to_owned(),
                ..ReasoningPart::default()
            };
            reply.parts.insert(0, Part::Reasoning(thought));
        }
        message
    });
    messages.collect()
}

/// Room is made by removing the reasoning of earlier turns. The model's call is cut off twice in the same place, an
/// agent ends at its limit, and a message that fits no context is left out.
fn giving_way(history: Transcript) -> Script {
    let mut spec = asked(
        "Which day should I skip?",
        Profile::main_thread(),
        &[RESEARCH],
    );
    spec.root.context_tokens = Some(300);
    spec.root.max_output_tokens = Some(20);
    let mut agent = AgentSpec::new(Profile::researcher(), Role::REASONING);
    agent.tools = some_tools(&[READ]);
    agent.limits.max_tool_calls = Some(1);
    spec.agents.insert(RESEARCH.parse().unwrap(), agent);
    let mut run = Script::start_after(spec, history);
    for time in [400, 800] {
        let cut = calls("", &[(RESEARCH, r#"{"task":"nuts, fish and"#)]);
        run.at(time).reply(ended(cut, ReplyFinish::Length));
    }
    run.at(1_200)
        .reply(calls("", &[(RESEARCH, r#"{"task":"nuts"}"#)]));
    run.at(1_201).allow();
    run.at(1_500).reply_as(1, calls_to(&[READ, READ]));
    run.at(1_501).allow_as(1);
    run.at(1_510).finish_as(1, 0, done(r#""no nuts""#));
    run.at(1_600)
        .steer(&"And what about this list? ".repeat(120));
    run.at(1_800).reply_as(1, says("No meal holds nuts."));
    run.at(2_000).reply(says("None."));
    run
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the logs are compared as they stand on disk, which this test may just have written"
)]
fn each_golden_log_is_the_output_of_its_script() {
    for (name, history, script) in scripts() {
        let run = script(history.clone());
        assert!(run.tree.status().is_ended(), "{name}");
        let log = to_lines(&run.records).join("\n") + "\n";
        let lines = history.messages().iter().map(|message| {
            let json = serde_json::to_string(&**message).unwrap();
            format!("  {json}")
        });
        let beside = format!("[\n{}\n]\n", lines.collect::<Vec<_>>().join(",\n"));
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let path = folder.join(format!("{name}.jsonl"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &log).unwrap();
            if !history.is_empty() {
                fs::write(folder.join(format!("{name}.history.json")), beside).unwrap();
            }
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), log, "{name}");
    }
}
