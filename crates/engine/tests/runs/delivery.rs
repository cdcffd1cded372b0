//! Whether streamed or not, the same run writes the same records (loop rule 17), checked for many scripts.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind, Mode, Record, ReplyFinish, Role};
use neuraxis_engine::Delivery;
use neuraxis_testkit::{Act, Script, ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{builder, request, run_to_end};

fn broken(kind: LlmErrorKind) -> LlmError {
    LlmError::new(kind, "as the test wants it")
}

/// The model's scripts in a run, and the mode.
#[expect(clippy::too_many_lines, reason = "a table")]
fn scripts() -> Vec<(&'static str, Mode, Vec<Script>)> {
    let server = || broken(LlmErrorKind::server(Some(503)));
    let call = |name: &str| Script::from(reply::calls([(name, "{}")]));
    let text = || Script::from(reply::text("It is done. ⚖ Ö"));
    let mut table = vec![
        ("a text", vec![text().split(1)]),
        ("nothing", vec![reply::empty().into()]),
        (
            "reasoning",
            vec![Script::from(reply::reasoned("Hm, ö.", "Yes.")).split(2)],
        ),
        (
            "text with a call",
            vec![
                Script::from(reply::text_and_calls("Well. ", [("look", r#"{"at":"ö"}"#)])).split(1),
                text(),
            ],
        ),
        (
            "several calls",
            vec![
                reply::calls([("look", "{}"), ("fail", "{}"), ("look", r#"{"n":2}"#)]).into(),
                text(),
            ],
        ),
        (
            "bad arguments",
            vec![
                reply::calls([("look", "{\"at\":"), ("look", "7")]).into(),
                text(),
            ],
        ),
        (
            "unknown tools",
            vec![call("lost"), call("lost"), call("lost"), text()],
        ),
        (
            "a call again and again",
            (0..6).map(|_| call("look")).chain([text()]).collect(),
        ),
        ("a cut text", vec![reply::cut("It is d").into()]),
        (
            "a refusal",
            vec![reply::of([], ReplyFinish::ContentFilter).into()],
        ),
        ("a failed attempt", vec![server().into(), text()]),
        (
            "a broken stream",
            vec![
                text().split(2).fail_at(3, broken(LlmErrorKind::Connection)),
                text(),
            ],
        ),
        ("a cut stream", vec![text().split(2).cut_at(3), text()]),
        (
            "failure for good",
            vec![broken(LlmErrorKind::Unauthorized).into()],
        ),
        (
            "no end of failures",
            vec![server().into(), server().into(), server().into()],
        ),
        (
            "unreadable",
            vec![broken(LlmErrorKind::InvalidResponse).into(), text()],
        ),
        ("an approval", vec![call("write"), text()]),
        (
            "agents",
            vec![
                reply::calls([("ask", r#"{"of":["a","b"]}"#)]).into(),
                text(),
            ],
        ),
    ];
    let endless = (0..3).map(|turn| {
        let arguments = format!("{{\"n\":{turn}}}");
        Script::from(reply::calls([("look", arguments.as_str())]))
    });
    table.push(("max turns", endless.clone().chain([text()]).collect()));
    table.push((
        "max turns and no words",
        endless
            .chain([call("look"), reply::empty().into()])
            .collect(),
    ));
    let mut scripts: Vec<_> = table
        .into_iter()
        .map(|(name, scripts)| (name, Mode::EXPLORATORY, scripts))
        .collect();
    for (name, mode, _) in &mut scripts {
        if name.starts_with("max turns") {
            *mode = Mode::CONSERVATIVE;
        }
    }
    scripts
}

/// Runs a script and returns its records, without durations.
async fn records(mode: Mode, scripts: Vec<Script>, delivery: Delivery) -> Vec<serde_json::Value> {
    let model = scripts
        .into_iter()
        .fold(ScriptedModel::new(), ScriptedModel::then);
    let agent = crate::support::helper("ask", &[]).fan_out("of");
    let below =
        ScriptedModel::always(Script::from(reply::text("answer")).after(Duration::from_secs(1)));
    let orchestrator = builder(model)
        .model(Role::CODING, Arc::new(below))
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .tool(Arc::new(ScriptedTool::echoing(spec("write"))))
        .tool(Arc::new(ScriptedTool::always(
            spec("fail").read_only(),
            Act::error("no"),
        )))
        .agent_tool(agent.build().unwrap())
        .approver(Arc::new(ScriptedApprover::new().approve()))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go").mode(mode).delivery(delivery)).await;
    finished.assert_valid(finished.result.status);
    finished
        .records()
        .iter()
        .map(|record| timeless(record))
        .collect()
}

fn timeless(record: &Record) -> serde_json::Value {
    let mut record = serde_json::to_value(record).unwrap();
    let fields = record.as_object_mut().unwrap();
    for field in ["active_ms", "duration_ms", "first_delta_ms"] {
        fields.remove(field);
    }
    record
}

#[tokio::test(start_paused = true)]
async fn streamed_and_whole_runs_write_the_same_records_for_every_model_behavior() {
    for (name, mode, scripts) in scripts() {
        let streamed = records(mode.clone(), scripts.clone(), Delivery::Streamed).await;
        let whole = records(mode, scripts, Delivery::Whole).await;
        assert_eq!(streamed, whole, "{name}");
    }
}
