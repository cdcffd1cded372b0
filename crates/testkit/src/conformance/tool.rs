//! The rules of the [`Tool`] port.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use neuraxis_core::{JsonText, ToolClass, ToolOutput};
use neuraxis_ports::{Tool, ToolError};

use super::promptly;
use crate::call::tool_context;

/// Mounts the rules of the [`Tool`](neuraxis_ports::Tool) port as tests. Takes the tool in an `Arc`, as a builder does,
/// and arguments as JSON with which it succeeds; it is called with them several times. Questions of the tool are not
/// answered, so a tool that fails without an answer does not pass. The rules are also functions of
/// [`conformance::tool`](crate::conformance::tool), for tools that can keep only some of them.
#[macro_export]
macro_rules! tool_suite {
    ($tool:expr, $arguments:expr) => {
        $crate::mount_rules! { tool, ($tool, $arguments), [
            the_spec_has_a_description_and_an_object_schema
            the_spec_is_unchanged_after_a_call
            the_value_and_metadata_are_json_on_one_line
            a_cancelled_call_ends_promptly
            a_dropped_call_leaves_the_tool_usable
            concurrent_read_only_calls_all_succeed
        ] }
    };
}

/// The spec has a description, and its parameters are the schema of an object.
pub async fn the_spec_has_a_description_and_an_object_schema<T: Tool + ?Sized>(
    (tool, _): (Arc<T>, &str),
) {
    let spec = tool.spec();
    assert!(
        !spec.description.trim().is_empty(),
        "{} has no description",
        spec.name
    );
    let schema: serde_json::Value = spec.parameters.decode().expect("the schema is JSON");
    assert_eq!(
        schema.get("type"),
        Some(&"object".into()),
        "the schema must describe an object"
    );
}

/// The spec is part of every prompt and does not change.
pub async fn the_spec_is_unchanged_after_a_call<T: Tool + ?Sized>(
    (tool, arguments): (Arc<T>, &str),
) {
    let before = tool.spec().clone();
    call(&*tool, arguments).await.expect("the call succeeds");
    assert_eq!(*tool.spec(), before);
}

/// The value, and the metadata if there is any, is one JSON value on one line.
pub async fn the_value_and_metadata_are_json_on_one_line<T: Tool + ?Sized>(
    (tool, arguments): (Arc<T>, &str),
) {
    let output = call(&*tool, arguments).await.expect("the call succeeds");
    for json in [Some(output.value), output.metadata].into_iter().flatten() {
        assert!(json.is_valid(), "not JSON: {json}");
        assert!(
            !json.as_str().contains(['\n', '\r']),
            "more than one line: {json}"
        );
    }
}

/// A call that is cancelled from the start, or while it runs, ends promptly.
pub async fn a_cancelled_call_ends_promptly<T: Tool + ?Sized>((tool, arguments): (Arc<T>, &str)) {
    let cancelled = tool_context();
    cancelled.cancellation.cancel();
    let running = tool_context();
    let token = running.cancellation.clone();
    let arguments = JsonText::from_text(arguments);
    let early = tool.call(arguments.clone(), cancelled);
    let _: Result<ToolOutput, ToolError> =
        promptly("a call that was cancelled from the start continues", early).await;

    let mut late = tool.call(arguments, running);
    if (&mut late).now_or_never().is_none() {
        token.cancel();
        let _: Result<ToolOutput, ToolError> =
            promptly("a call that was cancelled while running continues", late).await;
    }
}

/// A call whose future is dropped midway leaves the tool usable.
pub async fn a_dropped_call_leaves_the_tool_usable<T: Tool + ?Sized>(
    (tool, arguments): (Arc<T>, &str),
) {
    let dropped = tool
        .call(JsonText::from_text(arguments), tool_context())
        .now_or_never();
    drop(dropped);
    call(&*tool, arguments)
        .await
        .expect("the next call succeeds");
}

/// Read-only calls run at the same time without interfering with each other.
pub async fn concurrent_read_only_calls_all_succeed<T: Tool + ?Sized>(
    (tool, arguments): (Arc<T>, &str),
) {
    if tool.spec().class != ToolClass::ReadOnly {
        return;
    }
    for result in join_all((0..4).map(|_| call(&*tool, arguments))).await {
        result.expect("every call succeeds");
    }
}

async fn call(tool: &(impl Tool + ?Sized), arguments: &str) -> Result<ToolOutput, ToolError> {
    promptly(
        "the call hangs",
        tool.call(JsonText::from_text(arguments), tool_context()),
    )
    .await
}
