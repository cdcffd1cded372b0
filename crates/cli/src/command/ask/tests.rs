//! Tests of runs that the offline model cannot produce.

use std::sync::Arc;

use neuraxis::Orchestrator;
use neuraxis::Role;
use neuraxis::core::{LlmError, LlmErrorKind};
use neuraxis::memory::MemoryStore;
use neuraxis_testkit::{Script, ScriptedModel, reply};

use super::answer::{AnswerPrinter, Change, PrintTiming};
use super::follow::check_outcome;
use super::outcome::Outcome;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use neuraxis::UserRequest;

/// Asks a scripted model. Returns what is printed, with ‹void› after text that became void, and the outcome.
async fn ask(model: ScriptedModel, timing: PrintTiming) -> (String, Result<(), CommandError>) {
    let orchestrator = Orchestrator::builder()
        .store(Arc::new(MemoryStore::new()))
        .model(Role::REASONING, Arc::new(model))
        .build()
        .unwrap();
    let request = UserRequest::new("s".parse().unwrap(), "How are you?");
    let (handle, mut events) = orchestrator.stream(request).await.unwrap();
    let mut answer = AnswerPrinter::new(timing);
    let mut printed = String::new();
    while let Some(event) = events.next().await {
        match answer.handle_event(&event) {
            Change::None => {}
            Change::More(text) => printed.push_str(&text),
            Change::Void(end) => printed = format!("{printed}{end}‹void›"),
        }
    }
    let result = handle.result().await.unwrap();
    let records = handle.records();
    let outcome = Outcome::of(&result, &records);
    printed.push_str(&match outcome.text.as_str() {
        "" => answer.end(),
        said => answer.finish(said),
    });
    let interrupt = Interrupt::watch(|_| {});
    let verdict = check_outcome(&result, &outcome, &interrupt, &records, |_| false);
    (printed, verdict)
}

fn told(verdict: Result<(), CommandError>) -> String {
    anstream::adapter::strip_str(&verdict.unwrap_err().render(None)).to_string()
}

#[tokio::test]
async fn a_failed_run_prints_its_reply_and_returns_an_error_with_the_reason() {
    let refusal = LlmError::new(LlmErrorKind::Unauthorized, "no such key");
    let (printed, verdict) = ask(ScriptedModel::always(refusal), PrintTiming::Immediately).await;
    insta::assert_snapshot!(format!("{printed}---\n{}", told(verdict)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_at_a_rate_limit_names_how_to_continue() {
    let retry_after = None;
    let limited = LlmError::new(LlmErrorKind::RateLimited { retry_after }, "too many");
    let (_, verdict) = ask(ScriptedModel::always(limited), PrintTiming::Immediately).await;
    let told = told(verdict);
    assert!(told.contains(" runs show "), "{told}");
    let next = " shows all its steps; the next message in session s continues from there";
    assert!(told.contains(next), "{told}");
}

/// Returns a model whose first attempt breaks off.
fn breaking() -> ScriptedModel {
    let broken = LlmError::new(LlmErrorKind::Connection, "reset by peer");
    ScriptedModel::new()
        .then(
            Script::from(reply::text("I am fi"))
                .split(3)
                .fail_at(2, broken),
        )
        .then(reply::text("I am well."))
}

#[tokio::test(start_paused = true)]
async fn text_of_a_failed_attempt_is_followed_by_that_of_the_next() {
    let (printed, verdict) = ask(breaking(), PrintTiming::Immediately).await;
    assert_eq!(printed, "I am f\n‹void›\nI am well.\n");
    assert!(verdict.is_ok());
}

#[tokio::test(start_paused = true)]
async fn with_delayed_printing_text_of_a_failed_attempt_is_never_printed() {
    let (printed, verdict) = ask(breaking(), PrintTiming::OnceComplete).await;
    assert_eq!(printed, "I am well.\n");
    assert!(verdict.is_ok());
}

#[tokio::test]
async fn a_cancelled_run_gives_no_hint() {
    let orchestrator = Orchestrator::builder()
        .store(Arc::new(MemoryStore::new()))
        .model(
            Role::REASONING,
            Arc::new(ScriptedModel::new().then(Script::hanging())),
        )
        .build()
        .unwrap();
    let request = UserRequest::new("s".parse().unwrap(), "How are you?");
    let (run, _events) = orchestrator.stream(request).await.unwrap();
    run.cancel("nobody needs it").unwrap();
    let result = run.result().await.unwrap();
    let records = run.records();
    let outcome = Outcome::of(&result, &records);
    let interrupt = Interrupt::watch(|_| {});
    let told = told(check_outcome(
        &result,
        &outcome,
        &interrupt,
        &records,
        |_| false,
    ));
    assert!(told.contains("Cancelled before"), "{told}");
    assert!(!told.contains("hint: "), "{told}");
}
