//! `system_health`, on the machine the tests run on.

use std::sync::Arc;

use neuraxis_core::ProgressSteps;
use neuraxis_ports::{Progress, Tool};
use neuraxis_tools::system_health;
use serde_json::{Value, json};

use crate::support::{RecordedProgress, accepts, call, context};

fn tool() -> Arc<dyn Tool> {
    system_health().unwrap()
}

async fn report(arguments: Value) -> Value {
    call(tool().as_ref(), arguments, context()).await.unwrap()
}

fn keys(report: &Value) -> Vec<&str> {
    report
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[tokio::test]
async fn only_the_requested_sections_are_reported() {
    let report = report(json!({ "sections": ["uptime", "memory"] })).await;
    assert_eq!(keys(&report), ["summary", "warnings", "memory", "uptime"]);
    let summary = report["summary"].as_array().unwrap();
    assert_eq!(summary.len(), 2);
    assert!(
        summary[0].as_str().unwrap().starts_with("Memory: "),
        "{summary:?}"
    );
    assert!(
        summary[1].as_str().unwrap().starts_with("Uptime: "),
        "{summary:?}"
    );
}

#[tokio::test]
async fn all_sections_are_reported_when_none_is_named() {
    let all = [
        "cpu",
        "memory",
        "disks",
        "temperatures",
        "load",
        "uptime",
        "processes",
        "errors",
    ];
    let report = report(json!({ "sections": null })).await;
    assert_eq!(keys(&report), [&["summary", "warnings"][..], &all].concat());
    assert_eq!(report["summary"].as_array().unwrap().len(), all.len());
    for section in all {
        // A section has either data or a reason why there is none; an empty object would be neither.
        let data = &report[section];
        assert!(
            data["unavailable"].is_string() || data.as_object().is_none_or(|data| data.len() > 1),
            "{section}: {data}"
        );
    }
}

#[tokio::test]
async fn memory_and_processors_are_read_from_the_real_machine() {
    let report = report(json!({ "sections": ["memory", "cpu"] })).await;
    let (total, used) = (
        report["memory"]["total_bytes"].as_u64().unwrap(),
        report["memory"]["used_bytes"].as_u64(),
    );
    assert!(total > 64 << 20 && used.unwrap() <= total, "{report}");
    let cores = report["cpu"]["logical_cores"].as_u64().unwrap();
    assert!(
        cores >= 1
            && report["cpu"]["per_core_used_percent"]
                .as_array()
                .unwrap()
                .len() as u64
                == cores,
        "{report}"
    );
    let used = report["cpu"]["used_percent"].as_f64().unwrap();
    assert!((0.0..=100.0).contains(&used), "{report}");
}

#[tokio::test]
async fn processes_are_reported_without_command_lines_or_environments() {
    let report = report(json!({ "sections": ["processes"] })).await;
    for list in ["top_by_cpu", "top_by_memory"] {
        let processes = report["processes"][list].as_array().unwrap();
        assert!((1..=5).contains(&processes.len()), "{report}");
        for process in processes {
            assert_eq!(
                keys(process),
                ["name", "pid", "cpu_percent", "memory_bytes"]
            );
        }
    }
}

#[tokio::test]
async fn each_section_is_reported_as_progress() {
    let recorded = Arc::new(RecordedProgress::default());
    let mut ctx = context();
    ctx.progress = Progress::to(Arc::clone(&recorded) as _);
    call(
        tool().as_ref(),
        json!({ "sections": ["load", "uptime"] }),
        ctx,
    )
    .await
    .unwrap();
    let step = |name: &str, done| {
        (
            name.to_owned(),
            Some(ProgressSteps {
                done,
                total: Some(2),
            }),
        )
    };
    assert_eq!(
        *recorded.0.lock().unwrap(),
        [step("Load", 0), step("Uptime", 1), step("Done", 2)]
    );
}

#[tokio::test]
async fn a_cancelled_call_does_not_run() {
    let ctx = context();
    ctx.cancellation.cancel();
    let error = call(tool().as_ref(), json!({}), ctx).await.unwrap_err();
    assert!(error.message.starts_with("cancelled: "), "{error}");
}

#[test]
fn an_unknown_section_violates_the_schema() {
    assert!(!accepts(tool().as_ref(), &json!({ "sections": ["gpu"] })));
    assert!(accepts(tool().as_ref(), &json!({ "sections": [] })));
}
