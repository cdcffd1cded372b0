//! The records of a run, as a cassette.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_cassette::{Cassette, CassetteError, Redactor};
use neuraxis_core::{
    AgentSpec, Attempt, CallModel, Effect, Input, JsonText, LlmError, LlmErrorKind, Message,
    ModelFailed, ModelReplied, ModelRequest, NextAttempt, Profile, Record, Reply, Role, RunSpec,
    RunTree, Stamp, Step, ToolClass, ToolFinished, ToolOutcome, ToolOutput, Transcript, Vetted,
    Vetting,
};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{CountingIds, START, call_context, reply, spec};

use crate::support::{CassetteFile, options};

/// A run driven by hand: a failed attempt, a reply with a call, its result, the answer.
struct Run {
    tree: RunTree,
    records: Vec<Arc<Record>>,
    effects: Vec<Effect>,
    requests: Vec<ModelRequest>,
}

fn history() -> Transcript {
    [Message::user("Hi."), Message::assistant("Hello.")]
        .into_iter()
        .collect()
}

fn stamp() -> Stamp {
    Stamp::new(START, Duration::ZERO)
}

impl Run {
    fn start(context_tokens: Option<u64>, max_output_tokens: Option<u32>) -> Self {
        let mut agent = AgentSpec::new(Profile::main_thread(), Role::REASONING);
        agent.system_prompt = Some("You are brief.".into());
        agent.context_tokens = context_tokens;
        agent.max_output_tokens = max_output_tokens;
        agent.tools = [spec("look").read_only().build()].into();
        let spec = RunSpec::new(
            CountingIds::nth_run(1),
            [Message::user("What is up?")],
            agent,
        );
        let (tree, step) = RunTree::start(spec, history(), stamp());
        let mut run = Self {
            tree,
            records: Vec::new(),
            effects: Vec::new(),
            requests: Vec::new(),
        };
        run.note(step);
        run
    }

    fn note(&mut self, step: Step) {
        self.records.extend(step.records);
        self.effects = step.effects;
    }

    fn send(&mut self, input: Input) {
        let step = self.tree.advance(stamp(), input).unwrap();
        self.note(step);
    }

    fn model_call(&mut self) -> CallModel {
        let [Effect::CallModel(call)] = self.effects.as_slice() else {
            panic!("{:?}", self.effects)
        };
        let call = call.clone();
        self.requests.push(call.request.clone());
        *call
    }

    fn replies(&mut self, call: &CallModel, attempt: u32, reply: Reply) {
        self.send(Input::ModelReplied(ModelReplied {
            effect_id: call.effect_id,
            attempt: Attempt(attempt),
            reply: Arc::new(reply),
            served_by: Role::REASONING,
            downgraded: None,
            cost: None,
            cost_label: Default::default(),
            duration: Duration::from_millis(7),
            first_delta: None,
        }));
    }

    fn whole() -> Self {
        let mut run = Self::start(None, None);
        let call = run.model_call();
        run.send(Input::ModelFailed(ModelFailed {
            cost: None,
            cost_label: Default::default(),
            model: None,
            effect_id: call.effect_id,
            attempt: Attempt(1),
            error: LlmError::new(LlmErrorKind::Timeout, "nothing came"),
            next: NextAttempt::Follows,
            served_by: Role::REASONING,
            downgraded: None,
            degraded: None,
            duration: Duration::from_millis(30),
        }));
        run.replies(&call, 2, reply::calls([("look", r#"{"at":"the sky"}"#)]));
        let [Effect::Vet(vet)] = run.effects.as_slice() else {
            panic!("{:?}", run.effects)
        };
        run.send(Input::Vetted(Vetted {
            effect_id: vet.effect_id,
            calls: vec![Vetting::run(ToolClass::ReadOnly)],
            granted: Vec::new(),
            advised: Vec::new(),
        }));
        let [Effect::RunTool(tool)] = run.effects.as_slice() else {
            panic!("{:?}", run.effects)
        };
        run.send(Input::ToolFinished(ToolFinished {
            effect_id: tool.effect_id,
            attempt: Attempt(1),
            outcome: ToolOutcome {
                output: ToolOutput::new(JsonText::string("blue")),
                failure: None,
            },
            duration: Duration::from_millis(1),
            by: None,
        }));
        let call = run.model_call();
        run.replies(&call, 1, reply::text("Blue."));
        run
    }
}

#[tokio::test]
async fn a_run_replays_its_model_calls_including_failed_attempts() {
    let run = Run::whole();
    let cassette = Cassette::from_records(history(), &run.records, Redactor::default()).unwrap();
    assert_eq!(cassette.len(), 3);
    assert!(
        cassette
            .not_captured()
            .iter()
            .any(|what| what.starts_with("stream pieces"))
    );
    let client = cassette.client(Role::REASONING);
    let [first, second] = run.requests.as_slice() else {
        panic!("two requests")
    };
    let failed = client.respond(first, &call_context()).await.unwrap_err();
    assert_eq!(failed, LlmError::new(LlmErrorKind::Timeout, "nothing came"));
    assert_eq!(
        client
            .respond(first, &call_context())
            .await
            .unwrap()
            .calls()
            .count(),
        1
    );
    assert_eq!(
        client
            .respond(second, &call_context())
            .await
            .unwrap()
            .text(),
        "Blue."
    );
    assert!(cassette.unused().is_empty());
}

#[tokio::test]
async fn a_cassette_made_from_a_run_is_saved_and_reopened() {
    let run = Run::whole();
    let cassette = Cassette::from_records(history(), &run.records, Redactor::default()).unwrap();
    let cassette_file = CassetteFile::new();
    assert_eq!(
        cassette
            .save(cassette_file.path(), options())
            .unwrap()
            .exchanges,
        3
    );
    insta::assert_snapshot!(cassette_file.text());

    let read = cassette_file.open();
    assert_eq!(read.not_captured(), cassette.not_captured());
    let second = &run.requests[1];
    let client = read.client(Role::REASONING);
    assert_eq!(
        client
            .respond(second, &call_context())
            .await
            .unwrap()
            .text(),
        "Blue."
    );
}

#[test]
fn the_context_size_of_the_agent_is_kept_in_the_cassette() {
    let mut run = Run::start(Some(8_000), None);
    let call = run.model_call();
    run.replies(&call, 1, reply::text("Blue."));
    let cassette = Cassette::from_records(history(), &run.records, Redactor::default()).unwrap();
    let cassette_file = CassetteFile::new();
    cassette.save(cassette_file.path(), options()).unwrap();
    for cassette in [cassette, cassette_file.open()] {
        let info = cassette.client(Role::REASONING).info();
        assert_eq!(info.context_tokens, Some(8_000));
    }
}

#[tokio::test]
async fn a_call_with_a_shortened_reply_limit_matches_its_recording() {
    let mut run = Run::start(Some(1_000), Some(1_000));
    let call = run.model_call();
    let asked = run.tree.with_shorter_reply(&call, 1_000).unwrap().request;
    assert!(asked.max_output_tokens < call.request.max_output_tokens);
    run.replies(&call, 1, reply::text("Blue."));
    let cassette = Cassette::from_records(history(), &run.records, Redactor::default()).unwrap();
    let client = cassette.client(Role::REASONING);
    let replied = client.respond(&asked, &call_context()).await;
    assert_eq!(replied.unwrap().text(), "Blue.");
}

#[test]
fn an_open_run_yields_the_calls_recorded_so_far() {
    let mut run = Run::whole();
    // Cut before the step of the last reply: what that step recorded is at the end.
    let last = run
        .records
        .iter()
        .rposition(|record| record.body.kind() == "llm_call")
        .unwrap();
    run.records.truncate(last);
    let cassette = Cassette::from_records(history(), &run.records, Redactor::default()).unwrap();
    assert_eq!(cassette.len(), 2);
}

#[test]
fn inconsistent_run_records_are_refused() {
    let run = Run::whole();
    for (history, records) in [
        (Transcript::default(), run.records.as_slice()),
        (history(), &run.records[1..]),
        (history(), &[]),
    ] {
        let error = Cassette::from_records(history, records, Redactor::default()).unwrap_err();
        assert!(matches!(error, CassetteError::Run { .. }), "{error}");
    }
}
