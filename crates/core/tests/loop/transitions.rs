//! The table of state transitions in `docs/state-transitions.md`: for each phase an agent can be in, and each input that
//! may come, what the machine does. The table is made by asking the machine; `UPDATE_DOCS=1` writes it anew.

mod inputs;
mod states;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use neuraxis_core::{AgentId, Effect, InputError, RunTree, Step};

use inputs::INPUTS;
use states::{STATES, State};

const HEADER: &str = "\
# State transitions

This page is made from the code by `crates/core/tests/loop/transitions.rs`, which fails when they differ.
`UPDATE_DOCS=1 cargo test -p neuraxis-core transitions` writes it anew.

Each section is a phase that an agent can be in; each row is an input and what follows.
An answer is one to what the agent is waiting for, or, where it waits for nothing, to what it waited for last.
*Records* are those of the step, the first being its cause; *asks for* are its effects; *phase* is the agent's afterwards.
\"changes nothing\" is what a duplicate or a late input does; \"refused\" names the error, and the run is as it was.
Time is told to an agent with ten seconds, of which two are kept back: \"nearly up\" is at eight, \"up\" at ten.
";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the page is compared as it stands on disk, which this test may just have written"
)]
fn the_table_of_state_transitions_is_that_of_the_code() {
    let table = table();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-transitions.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &table).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == table,
        "docs/state-transitions.md is not what the code does; UPDATE_DOCS=1 writes it anew"
    );
}

#[test]
fn every_state_of_the_table_is_the_phase_it_names() {
    for state in STATES {
        let run = (state.reach)();
        assert_eq!(phase(&run.tree, state.agent), state.phase, "{}", state.name);
    }
}

fn table() -> String {
    let mut text = HEADER.to_owned();
    for state in STATES {
        let (name, phase) = (state.name, state.phase);
        write!(text, "\n## {name}\n\nPhase: {phase}.\n\n").unwrap();
        text.push_str("| input | records | asks for | phase |\n| --- | --- | --- | --- |\n");
        for input in INPUTS {
            let row = row(&state, input.name, input.make);
            text.push_str(&row);
        }
    }
    text
}

fn row(state: &State, name: &str, make: inputs::Make) -> String {
    let mut run = (state.reach)();
    let input = make(&mut run, state);
    match run.try_send(input) {
        Err(error) => format!("| {name} | refused: {} | | |\n", error_name(&error)),
        Ok(step) if step.records.is_empty() => format!("| {name} | changes nothing | | |\n"),
        Ok(step) => {
            let phase = phase(&run.tree, state.agent);
            format!(
                "| {name} | {} | {} | {phase} |\n",
                records(&step),
                effects(&step)
            )
        }
    }
}

fn error_name(error: &InputError) -> String {
    let debug = format!("{error:?}");
    let end = debug.find(|c: char| !c.is_ascii_alphanumeric());
    format!("`{}`", &debug[..end.unwrap_or(debug.len())])
}

fn records(step: &Step) -> String {
    let records = step.records.iter();
    let kinds = records.map(|record| format!("`{}`", record.body.kind()));
    kinds.collect::<Vec<_>>().join(", ")
}

fn effects(step: &Step) -> String {
    let names = step.effects.iter().map(|effect| match effect {
        Effect::CallModel(call) => format!("model call ({:?}) for {}", call.purpose, call.agent),
        Effect::Vet(vet) => format!("vetting for {}", vet.agent),
        Effect::RunTool(run) => format!("tool for {}", run.agent),
        Effect::CancelModel(_) => "cancelling a model call".to_owned(),
        Effect::CancelTool(_) => "cancelling a tool".to_owned(),
        Effect::AskApproval(ask) => format!("approval for {}", ask.agent),
        Effect::Consult(consult) => format!("hook ({:?}) for {}", consult.hook, consult.agent),
        Effect::Finish(outcome) => format!("finish: {}", outcome.finish_reason),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the phase of an agent as its state says, in words.
fn phase(tree: &RunTree, agent: AgentId) -> String {
    let state: serde_json::Value = serde_json::to_value(tree).unwrap();
    let agent = usize::try_from(agent.0).unwrap();
    let phase = &state["agents"][agent]["phase"];
    if let Some(name) = phase.as_str() {
        return name.to_lowercase();
    }
    if let Some(call) = phase.get("Model") {
        return format!("model ({})", call["planned"]["purpose"].as_str().unwrap());
    }
    if let Some(consulting) = phase.get("Consulting") {
        return format!("consulting ({})", consulting["hook"].as_str().unwrap());
    }
    let calls = phase["Tools"]["calls"].as_array().unwrap().iter();
    let states = calls.map(|call| {
        let state = &call["state"];
        let name = state
            .as_object()
            .and_then(|state| state.keys().next().cloned());
        let name = name.or_else(|| state.as_str().map(str::to_owned)).unwrap();
        let is_clients = state["Running"]["kind"] == "client";
        if is_clients {
            "running by the client".to_owned()
        } else {
            name.to_lowercase()
        }
    });
    format!("tools ({})", states.collect::<Vec<_>>().join(", "))
}
