//! `update_plan` replaces the session's plan.

use neuraxis_core::{JsonText, ToolOutput, ToolSignal};
use neuraxis_ports::ToolError;
use serde_json::{Value, json};

use crate::support::{accepts, context};

async fn update(arguments: &Value) -> Result<ToolOutput, ToolError> {
    let tool = neuraxis_tools::update_plan().unwrap();
    assert!(accepts(tool.as_ref(), arguments), "{arguments}");
    let arguments = JsonText::from_text(arguments.to_string());
    tool.call(arguments, context()).await
}

#[tokio::test]
async fn the_complete_list_becomes_the_plan() {
    let plan = json!({ "steps": [
        { "step": "Look", "status": "done" },
        { "step": "Change", "status": "in_progress" },
        { "step": "Test", "status": "pending" },
    ] });
    let output = update(&plan).await.unwrap();
    let Some(ToolSignal::Plan { plan: kept }) = output.signal else {
        panic!("no plan was signalled");
    };
    assert_eq!(kept.decode::<Value>().unwrap(), plan);
    assert_eq!(
        output.value.decode::<Value>().unwrap(),
        json!({ "pending": 1, "in_progress": 1, "done": 1, "summary": "The plan has 3 steps, 1 done. Now: Change" })
    );
}

#[tokio::test]
async fn the_status_completed_is_accepted_as_done() {
    let plan = json!({ "steps": [{ "step": "Look", "status": "completed" }] });
    let output = update(&plan).await.unwrap();
    let plan = JsonText::from_text(r#"{"steps":[{"step":"Look","status":"done"}]}"#);
    assert_eq!(output.signal, Some(ToolSignal::Plan { plan }));
    assert_eq!(output.value.decode::<Value>().unwrap()["done"], 1);
}

#[tokio::test]
async fn an_empty_list_clears_the_plan() {
    let output = update(&json!({ "steps": [] })).await.unwrap();
    let plan = JsonText::from_text(r#"{"steps":[]}"#);
    assert_eq!(output.signal, Some(ToolSignal::Plan { plan }));
    assert!(output.value.as_str().contains("The plan is empty."));
}

#[tokio::test]
async fn a_plan_that_is_too_long_or_has_an_empty_step_is_refused() {
    let step = |text: &str| json!({ "step": text, "status": "pending" });
    for (steps, expected) in [
        (
            vec![step("a"), step("\t")],
            "step 2 is empty; say what to do",
        ),
        (
            vec![step(&"x".repeat(501))],
            "step 1 is longer than 500 characters; shorten it",
        ),
        (
            vec![step("a"); 51],
            "the plan has 51 steps, but at most 50 are allowed; combine some",
        ),
    ] {
        let error = update(&json!({ "steps": steps })).await.unwrap_err();
        assert_eq!(error.message, expected);
    }
}

#[test]
fn only_known_statuses_are_accepted_and_the_call_does_not_count_as_a_turn() {
    let tool = neuraxis_tools::update_plan().unwrap();
    let with = |status: &str| json!({ "steps": [{ "step": "a", "status": status }] });
    for status in ["pending", "in_progress", "done", "completed"] {
        assert!(accepts(tool.as_ref(), &with(status)));
    }
    for status in ["finished", "Done", ""] {
        assert!(!accepts(tool.as_ref(), &with(status)));
    }
    assert!(tool.spec().non_iterative);
}
