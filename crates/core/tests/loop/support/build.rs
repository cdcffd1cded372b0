//! Short ways to write tools, specs, replies and verdicts.

use neuraxis_core::uuid::Uuid;
use neuraxis_core::{
    AgentSpec, JsonText, Limits, Message, ModelRef, Profile, Reply, ReplyFinish, ReplyPart,
    RequestedCall, Role, RunId, RunSpec, TextPart, TokenCount, ToolAnnotations, ToolClass,
    ToolFailure, ToolKind, ToolOutcome, ToolOutput, ToolSpec, Usage, Vetting,
};

/// Reads a file: read-only.
pub(crate) const READ: &str = "read_file";
/// Writes a file: idempotent.
pub(crate) const PUT: &str = "put_file";
/// Sends a mail: must never run twice.
pub(crate) const SEND: &str = "send_mail";
/// Lets the user pick a color: the caller runs it.
pub(crate) const PICK: &str = "pick_color";
/// Takes a note: read-only and non-iterative.
pub(crate) const NOTE: &str = "take_note";
/// Starts sub-agents.
pub(crate) const RESEARCH: &str = "research";

/// The id of every scripted run.
pub(crate) fn run_id() -> RunId {
    RunId(Uuid::from_u128(0x0195_5f00_7a00_7000_8000_0000_0000_0001))
}

/// The assumed size of their definitions, in tokens, before any report by a provider: 569 bytes.
pub(crate) const DEFINITIONS: u64 = 143;

/// All the tools above.
pub(crate) fn tools() -> Vec<ToolSpec> {
    vec![
        tool(READ, ToolClass::ReadOnly),
        tool(PUT, ToolClass::Idempotent),
        tool(SEND, ToolClass::Irreversible),
        ToolSpec {
            kind: ToolKind::Client,
            ..tool(PICK, ToolClass::Irreversible)
        },
        ToolSpec {
            non_iterative: true,
            ..tool(NOTE, ToolClass::ReadOnly)
        },
        ToolSpec {
            kind: ToolKind::Agent,
            ..tool(RESEARCH, ToolClass::Irreversible)
        },
    ]
}

fn tool(name: &str, class: ToolClass) -> ToolSpec {
    ToolSpec {
        name: name.parse().unwrap(),
        description: "for tests".into(),
        parameters: JsonText::from_text(r#"{"type":"object"}"#),
        class,
        annotations: ToolAnnotations::default(),
        kind: ToolKind::Server,
        non_iterative: false,
        timeout: None,
    }
}

/// The main thread with all tools, default limits and one question.
pub(crate) fn spec() -> RunSpec {
    let mut root = AgentSpec::new(Profile::main_thread(), Role::REASONING);
    root.tools = tools().into();
    RunSpec::new(run_id(), [Message::user("Please help.")], root)
}

/// Like [`spec`], with a profile changed by the test.
pub(crate) fn spec_with_profile(change: impl FnOnce(&mut Profile)) -> RunSpec {
    let mut spec = spec();
    change(&mut spec.root.profile);
    spec
}

/// Like [`spec`], with limits changed by the test.
pub(crate) fn spec_with_limits(change: impl FnOnce(&mut Limits)) -> RunSpec {
    let mut spec = spec();
    change(&mut spec.root.limits);
    spec
}

/// Like [`spec`], with a tool that has each topic of a list researched by a separate agent, which also has all tools.
pub(crate) fn researching() -> RunSpec {
    let mut spec = spec();
    let mut agent = AgentSpec::new(Profile::researcher(), Role::REASONING);
    agent.system_prompt = Some("Research one topic.".into());
    agent.tools = tools().into();
    agent.fan_out = Some("topics".to_owned());
    spec.agents.insert(RESEARCH.parse().unwrap(), agent);
    spec
}

/// Returns the agent that researches, for the test to change.
pub(crate) fn researcher(spec: &mut RunSpec) -> &mut AgentSpec {
    spec.agents.get_mut(&RESEARCH.parse().unwrap()).unwrap()
}

/// A reply that has topics researched.
pub(crate) fn research(topics: &[&str]) -> Reply {
    calls("", &[(RESEARCH, &topics_of(topics))])
}

/// The arguments that have topics researched.
pub(crate) fn topics_of(topics: &[&str]) -> String {
    let topics: Vec<_> = topics.iter().map(|topic| format!("{topic:?}")).collect();
    format!("{{\"topics\":[{}]}}", topics.join(","))
}

/// A reply with one text part.
pub(crate) fn says(text: &str) -> Reply {
    calls(text, &[])
}

/// A reply with text and calls, each a tool and its arguments.
pub(crate) fn calls(text: &str, calls: &[(&str, &str)]) -> Reply {
    let text = (!text.is_empty()).then(|| {
        ReplyPart::Text(TextPart {
            text: text.to_owned(),
            state: None,
        })
    });
    let calls = calls.iter().map(|(name, arguments)| {
        ReplyPart::ToolCall(RequestedCall {
            provider_id: None,
            name: (*name).into(),
            arguments: JsonText::from_text(*arguments),
            state: None,
        })
    });
    let parts: Vec<_> = text.into_iter().chain(calls).collect();
    let calls_tools = parts
        .iter()
        .any(|part| matches!(part, ReplyPart::ToolCall(_)));
    Reply {
        parts,
        finish: if calls_tools {
            ReplyFinish::ToolCalls
        } else {
            ReplyFinish::Stop
        },
        usage: usage(10, 2),
        model: ModelRef::new("test", "m"),
        advice: None,
    }
}

/// A reply with only calls, with empty arguments.
pub(crate) fn calls_to(names: &[&str]) -> Reply {
    let named: Vec<_> = names.iter().map(|name| (*name, "{}")).collect();
    calls("", &named)
}

/// A reply with one call, with different arguments in every turn.
pub(crate) fn another_call_to(name: &str, turn: u32) -> Reply {
    calls("", &[(name, &format!("{{\"turn\":{turn}}}"))])
}

/// The same reply, cut off or withheld.
pub(crate) fn ended(mut reply: Reply, finish: ReplyFinish) -> Reply {
    reply.finish = finish;
    reply
}

/// Measured usage with these numbers of prompt and completion tokens.
pub(crate) fn usage(prompt: u64, completion: u64) -> Usage {
    Usage {
        prompt: TokenCount::measured(prompt),
        completion: TokenCount::measured(completion),
        total: TokenCount::measured(prompt + completion),
        ..Usage::default()
    }
}

/// A call that returned a value, given as JSON.
pub(crate) fn done(value: &str) -> ToolOutcome {
    ToolOutcome::done(ToolOutput::new(JsonText::from_text(value)))
}

/// A call that failed permanently.
pub(crate) fn failed(message: &str) -> ToolOutcome {
    ToolOutcome::failed(ToolFailure::Permanent, message)
}

/// The call may run as a tool that only reads.
pub(crate) const fn reads() -> Vetting {
    Vetting::run(ToolClass::ReadOnly)
}

/// The call may run as a tool whose effect is irreversible.
pub(crate) const fn writes() -> Vetting {
    Vetting::run(ToolClass::Irreversible)
}

/// A user must approve the call, which is irreversible.
pub(crate) fn asks() -> Vetting {
    Vetting::ask(ToolClass::Irreversible, "it sends something")
}

/// Policy forbids the call.
pub(crate) fn denies() -> Vetting {
    Vetting::deny("not in this mode")
}
