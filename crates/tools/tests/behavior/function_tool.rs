//! Turning a function into a tool.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use neuraxis_core::{JsonText, Keep, ToolAnnotations, ToolClass, ToolOutput};
use neuraxis_ports::{Isolation, Tool, ToolContext, ToolError};
use neuraxis_tools::{DefinitionError, FunctionTool, NoArguments};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{accepts, call, context, schema};

/// A comment for readers of the code.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Paint {
    /// What to paint.
    title: String,
    /// The colors, in order.
    colors: Vec<Color>,
    /// How many coats.
    coats: Option<u32>,
    /// Where.
    place: Option<Place>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Color {
    Red,
    Blue,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Place {
    /// The room.
    room: String,
}

async fn paint(arguments: Paint, _ctx: ToolContext) -> Result<String, ToolError> {
    let room = arguments
        .place
        .map_or("nowhere".to_owned(), |place| place.room);
    let coats = arguments.coats.unwrap_or(1);
    Ok(format!(
        "{} in {:?}, {coats} times, {room}",
        arguments.title, arguments.colors
    ))
}

fn painter() -> std::sync::Arc<dyn Tool> {
    FunctionTool::new("paint", "Paints.", paint)
        .unwrap()
        .build()
}

async fn refusal(arguments: &str) -> String {
    painter()
        .call(JsonText::from_text(arguments), context())
        .await
        .unwrap_err()
        .message
}

#[test]
fn the_schema_is_inlined_and_minimal() {
    let expected = json!({
        "type": "object",
        "properties": {
            "title": { "description": "What to paint.", "type": "string" },
            "colors": {
                "description": "The colors, in order.",
                "type": "array",
                "items": { "type": "string", "enum": ["red", "blue"] },
            },
            "coats": { "description": "How many coats.", "type": ["integer", "null"], "minimum": 0 },
            "place": {
                "description": "Where.",
                "type": ["object", "null"],
                "properties": { "room": { "description": "The room.", "type": "string" } },
                "additionalProperties": false,
                "required": ["room"],
            },
        },
        "additionalProperties": false,
        "required": ["title", "colors"],
    });
    assert_eq!(schema(painter().as_ref()), expected);
}

#[tokio::test]
async fn optional_arguments_may_be_omitted_or_null() {
    for arguments in [
        json!({ "title": "door", "colors": ["red"] }),
        json!({ "title": "door", "colors": ["red"], "coats": null, "place": null }),
    ] {
        let value = call(painter().as_ref(), arguments, context())
            .await
            .unwrap();
        assert_eq!(value, "door in [Red], 1 times, nowhere");
    }
}

#[test]
fn a_misspelled_argument_violates_the_schema() {
    assert!(!accepts(
        painter().as_ref(),
        &json!({ "title": "door", "colors": [], "coat": 2 })
    ));
}

#[tokio::test]
async fn invalid_arguments_are_refused_with_location_and_reason() {
    let message = refusal(r#"{"title": "door", "colors": ["red", "green"]}"#).await;
    assert!(
        message.starts_with("invalid arguments: at `colors[1]`: unknown variant `green`"),
        "{message}"
    );
    let message = refusal(r#"{"colors": []}"#).await;
    assert!(
        message.starts_with("invalid arguments: missing field `title`"),
        "{message}"
    );
    let message = refusal(r#"{"title": "door", "colors": [], "place": {"room": 7}}"#).await;
    assert!(
        message.starts_with("invalid arguments: at `place.room`: invalid type: integer `7`"),
        "{message}"
    );
    let message = refusal(r#"{"title": "door", "colors": [], "coat": 2}"#).await;
    assert!(message.contains("unknown field `coat`"), "{message}");
}

#[tokio::test]
async fn arguments_that_are_not_one_json_value_are_refused() {
    for broken in ["", "{", r#"{"title": "door", "colors": []} and more"#] {
        let message = refusal(broken).await;
        assert!(
            message.starts_with("the arguments are not one JSON object: "),
            "{broken:?} gave {message}"
        );
    }
}

#[test]
fn a_tool_without_a_class_is_irreversible() {
    assert_eq!(painter().spec().class, ToolClass::Irreversible);
}

#[test]
fn the_options_of_a_tool_are_in_its_spec() {
    let tool = FunctionTool::new("paint", "Paints.", paint)
        .unwrap()
        .class(ToolClass::Idempotent)
        .timeout(Duration::from_secs(7))
        .annotations(ToolAnnotations::default().open_world())
        .non_iterative()
        .build();
    let spec = tool.spec();
    assert_eq!(
        (spec.name.as_str(), &*spec.description),
        ("paint", "Paints.")
    );
    assert_eq!(
        (spec.class, spec.timeout),
        (ToolClass::Idempotent, Some(Duration::from_secs(7)))
    );
    assert!(spec.annotations.open_world && spec.non_iterative);
}

#[test]
fn calls_run_in_their_own_task_unless_the_function_never_blocks() {
    let tool = || FunctionTool::new("paint", "Paints.", paint).unwrap();
    assert_eq!(tool().build().isolation(), Isolation::OwnTask);
    assert_eq!(
        tool().never_blocks().build().isolation(),
        Isolation::RunTask
    );
}

#[tokio::test]
async fn a_closure_can_hold_state_and_take_no_arguments() {
    let greeting = "hello".to_owned();
    let tool = FunctionTool::new("greet", "Greets.", move |_: NoArguments, _ctx| {
        let greeting = greeting.clone();
        async move { Ok(greeting) }
    });
    let tool = tool.unwrap().build();
    assert_eq!(
        call(tool.as_ref(), json!({}), context()).await.unwrap(),
        "hello"
    );
    assert!(!accepts(tool.as_ref(), &json!({ "name": "you" })));
}

#[tokio::test]
async fn a_blocking_function_does_not_block_other_tasks() {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let tool = FunctionTool::blocking("wait", "Waits.", move |_: NoArguments, _ctx| {
        let patience = Duration::from_secs(10);
        let word: String = receiver.lock().unwrap().recv_timeout(patience)?;
        Ok(word)
    });
    let tool = tool.unwrap().build();
    let other = async { sender.send("went on".to_owned()).unwrap() };
    let (said, ()) = tokio::join!(call(tool.as_ref(), json!({}), context()), other);
    assert_eq!(said.unwrap(), "went on");
}

#[tokio::test]
async fn a_cancelled_call_returns_even_if_its_function_blocks() {
    let (sender, receiver) = channel::<()>();
    let receiver = Mutex::new(receiver);
    let tool = FunctionTool::blocking("wait", "Waits.", move |_: NoArguments, _ctx| {
        Ok(receiver.lock().unwrap().recv().is_ok())
    });
    let tool = tool.unwrap().build();
    let ctx = context();
    ctx.cancellation.cancel();
    let stopped = call(tool.as_ref(), json!({}), ctx).await.unwrap_err();
    assert!(stopped.message.starts_with("cancelled"), "{stopped}");
    drop(sender);
}

#[tokio::test]
async fn a_function_may_return_a_full_output() {
    let tool = FunctionTool::with_output("note", "Notes.", async |_: NoArguments, _ctx| {
        let mut output = ToolOutput::new(JsonText::string("a long text"));
        output.keep = Keep::Summary;
        output.summary = Some("short".to_owned());
        Ok(output)
    });
    let output = tool
        .unwrap()
        .build()
        .call(JsonText::from_text("{}"), context())
        .await
        .unwrap();
    assert_eq!(
        (output.keep, output.summary.as_deref()),
        (Keep::Summary, Some("short"))
    );
}

#[tokio::test]
async fn an_error_of_the_function_is_returned_unchanged() {
    let tool = FunctionTool::new("fail", "Fails.", async |_: NoArguments, _ctx| {
        Err::<(), _>(ToolError::temporary("try later"))
    });
    let error = tool
        .unwrap()
        .build()
        .call(JsonText::from_text("{}"), context())
        .await
        .unwrap_err();
    assert_eq!(error, ToolError::temporary("try later"));
}

#[tokio::test]
async fn a_result_that_cannot_be_json_is_an_error_and_not_a_panic() {
    let tool = FunctionTool::new("map", "Maps.", async |_: NoArguments, _ctx| {
        Ok(BTreeMap::from([((1, 2), "a pair is no key")]))
    });
    let error = tool
        .unwrap()
        .build()
        .call(JsonText::from_text("{}"), context())
        .await
        .unwrap_err();
    assert!(
        error
            .message
            .starts_with("the tool's result cannot be written as JSON"),
        "{error}"
    );
}

#[test]
fn an_invalid_tool_name_is_refused() {
    let error = FunctionTool::new("paint it!", "Paints.", paint).unwrap_err();
    assert!(
        matches!(&error, DefinitionError::Name { name, .. } if name == "paint it!"),
        "{error:?}"
    );
}

#[test]
fn an_argument_type_that_is_not_an_object_is_refused() {
    let tool = FunctionTool::new("echo", "Echoes.", async |text: String, _ctx| Ok(text));
    assert_eq!(
        tool.unwrap_err(),
        DefinitionError::ArgumentsNotAnObject {
            name: "echo".to_owned()
        }
    );
    let tool = FunctionTool::new("any", "Takes anything.", async |value: Value, _ctx| {
        Ok(value)
    });
    assert_eq!(
        tool.unwrap_err(),
        DefinitionError::ArgumentsNotAnObject {
            name: "any".to_owned()
        }
    );
}
