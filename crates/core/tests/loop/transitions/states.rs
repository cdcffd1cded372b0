//! Each phase of an agent, with a run that has an agent in it.

use std::time::Duration;

use neuraxis_core::{AgentId, ClientTools, Hook, JsonText, Opening, Role, RunSpec};

use crate::support::*;

/// An agent in a phase.
pub(super) struct State {
    pub(super) name: &'static str,
    pub(super) phase: &'static str,
    pub(super) agent: AgentId,
    pub(super) reach: fn() -> Script,
}

const fn root(name: &'static str, phase: &'static str, reach: fn() -> Script) -> State {
    State {
        name,
        phase,
        agent: AgentId::ROOT,
        reach,
    }
}

const fn sub_agent(
    name: &'static str,
    phase: &'static str,
    agent: u32,
    reach: fn() -> Script,
) -> State {
    State {
        name,
        phase,
        agent: AgentId(agent),
        reach,
    }
}

pub(super) const STATES: [State; 21] = [
    sub_agent("A queued sub-agent", "queued", 2, || {
        let mut spec = in_time();
        spec.root.profile.parallel_agents = 1;
        let mut run = Script::start(spec);
        run.reply(research(&["a", "b"])).allow();
        run
    }),
    root("Waiting for a model: a turn", "model (turn)", || {
        Script::start(in_time())
    }),
    sub_agent(
        "Waiting for a model: a turn of a sub-agent",
        "model (turn)",
        1,
        || {
            let mut run = Script::start(in_time());
            run.reply(research(&["a"])).allow();
            run
        },
    ),
    root(
        "Waiting for a model: the choice of an opening",
        "model (gather)",
        || {
            let mut spec = in_time();
            spec.root.profile.opening = Opening::Gather {
                role: Role::ROUTER,
                tool: READ.parse().unwrap(),
                default_arguments: JsonText::from_text("{}"),
            };
            Script::start(spec)
        },
    ),
    root(
        "Waiting for a model: the choice of the role",
        "model (routing)",
        || {
            let mut spec = in_time();
            spec.decision = Some(decided(routes).into());
            Script::start(spec)
        },
    ),
    root(
        "Waiting for a model: the check of a draft",
        "model (self_check)",
        || {
            let mut spec = in_time();
            spec.decision = Some(decided(checks).into());
            let mut run = Script::start(spec);
            run.reply(says("Blue."));
            run
        },
    ),
    root(
        "Waiting for a model: a summary",
        "model (compaction)",
        || {
            let mut spec = in_time();
            spec.root.context_tokens = Some(300);
            let history =
                ["q", "a", "q", "a"].map(|text| neuraxis_core::Message::user(text.repeat(100)));
            Script::start_after(spec, history.into_iter().collect())
        },
    ),
    root(
        "Waiting for a model: the last answer",
        "model (last_answer)",
        || {
            let mut spec = in_time();
            spec.root.limits.max_turns = Some(1);
            let mut run = Script::start(spec);
            run.reply(calls("So far.", &[(READ, "{}")]))
                .allow()
                .finish(0, done("1"));
            run
        },
    ),
    root(
        "Waiting for tools: a call is checked",
        "tools (vetting)",
        || {
            let mut run = Script::start(in_time());
            run.reply(calls_to(&[SEND]));
            run
        },
    ),
    root(
        "Waiting for tools: the user must decide",
        "tools (asking)",
        || {
            let mut run = Script::start(in_time());
            run.reply(calls_to(&[SEND])).vet([asks()]);
            run
        },
    ),
    root(
        "Waiting for tools: a call that reads runs",
        "tools (running)",
        || {
            let mut run = Script::start(in_time());
            run.reply(calls_to(&[READ])).allow();
            run
        },
    ),
    root(
        "Waiting for tools: a call that writes runs, the next is ready",
        "tools (running, ready)",
        || {
            let mut run = Script::start(in_time());
            run.reply(calls_to(&[SEND, READ])).allow();
            run
        },
    ),
    root(
        "Waiting for tools: the client runs the call",
        "tools (running by the client)",
        || {
            let mut run = Script::start(in_time());
            run.reply(calls_to(&[PICK])).allow();
            run
        },
    ),
    root(
        "Waiting for tools: a call is handed over, another runs",
        "tools (handedover, running)",
        || {
            let mut spec = in_time();
            spec.client_tools = ClientTools::HandOver;
            let mut run = Script::start(spec);
            run.reply(calls_to(&[PICK, READ])).allow();
            run
        },
    ),
    root(
        "Waiting for tools: agents work on the call",
        "tools (delegated)",
        || {
            let mut run = Script::start(in_time());
            run.reply(research(&["a"])).allow();
            run
        },
    ),
    root(
        "Waiting for a hook: tools selected",
        "consulting (tools_selected)",
        || Script::start(hooked(Hook::ToolsSelected)),
    ),
    root(
        "Waiting for a hook: progress",
        "consulting (progress)",
        || {
            let mut run = Script::start(hooked(Hook::Progress));
            run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
            run
        },
    ),
    root(
        "Waiting for a hook: calls to process",
        "consulting (process_calls)",
        || {
            let mut run = Script::start(hooked(Hook::ProcessCalls));
            run.reply(calls_to(&[READ]));
            run
        },
    ),
    root(
        "Waiting for a hook: an answer",
        "consulting (answer)",
        || {
            let mut run = Script::start(hooked(Hook::Answer));
            run.reply(says("Blue."));
            run
        },
    ),
    root(
        "Waiting for a hook: a request",
        "consulting (request)",
        || Script::start(hooked(Hook::Request)),
    ),
    root("Ended", "ended", || {
        let mut run = Script::start(in_time());
        run.reply(says("Blue."));
        run
    }),
];

/// Ten seconds, with sub-agents.
fn in_time() -> RunSpec {
    let mut spec = researching();
    spec.root.limits.deadline = Some(Duration::from_secs(10));
    researcher(&mut spec).limits.deadline = Some(Duration::from_secs(10));
    spec
}

fn hooked(hook: Hook) -> RunSpec {
    let mut spec = in_time();
    spec.root.profile.hooks = vec![hook];
    spec
}
