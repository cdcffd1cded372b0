//! The attribute that turns a function into a tool.

use neuraxis_core::{JsonText, ToolClass, ToolOutput};
use neuraxis_ports::{Isolation, Persistence, Tool, ToolContext, ToolError};
use neuraxis_tools::tool;
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::context;

#[derive(Serialize)]
struct Weather {
    celsius: f64,
}

/// Tells the weather in a city.
///
/// Ask for one city at a time.
#[tool(
    class = "read_only",
    open_world,
    timeout_ms = 500,
    crate = "neuraxis_tools"
)]
async fn weather(
    /// The city, such as `Delft`.
    city: String,
    /// How many days ahead. By default 0.
    #[schemars(range(max = 7))]
    days: Option<u8>,
) -> Result<Weather, std::num::ParseFloatError> {
    let celsius: f64 = city.parse()?;
    Ok(Weather {
        celsius: celsius + f64::from(days.unwrap_or_default()),
    })
}

/// Says who calls.
#[tool(name = "who-calls", never_blocks, crate = "neuraxis_tools")]
async fn who_calls(
    /// The call that is under way.
    ctx: ToolContext,
) -> String {
    ctx.tool_call_id.to_string()
}

/// Refuses.
#[tool(crate = "neuraxis_tools")]
async fn refuse(why: String) -> Result<ToolOutput, ToolError> {
    if why.is_empty() {
        return Ok(ToolOutput::new(JsonText::string("nothing to refuse")));
    }
    Err(ToolError::permanent(why))
}

/// An error that could also be encoded as JSON.
#[derive(Debug, Serialize, thiserror::Error)]
#[error("the archive is closed")]
struct Closed;

type Reply<T> = Result<T, Closed>;

/// Opens the archive.
#[tool(crate = "neuraxis_tools")]
async fn open(key: Option<String>) -> Reply<String> {
    key.ok_or(Closed)
}

/// Opens the archive and tells where to find it.
#[tool(crate = "neuraxis_tools")]
async fn open_there(key: Option<String>) -> Reply<ToolOutput> {
    let key = key.ok_or(Closed)?;
    Ok(ToolOutput::new(JsonText::string(&key)))
}

/// Says something again.
#[tool(crate = "neuraxis_tools")]
async fn echo(echo: String) -> ToolOutput {
    ToolOutput::new(JsonText::string(&echo))
}

async fn value(tool: &dyn Tool, arguments: &Value) -> Result<Value, ToolError> {
    let arguments = JsonText::from_text(arguments.to_string());
    let output = tool.call(arguments, context()).await?;
    Ok(output.value.decode().unwrap())
}

#[tokio::test]
async fn the_function_remains_and_its_tool_has_its_comments_and_options() {
    assert!(weather("11.5".to_owned(), None).await.is_ok());
    let tool = weather::tool().unwrap();
    let spec = tool.spec();
    assert_eq!(spec.name.as_str(), "weather");
    assert_eq!(
        &*spec.description,
        "Tells the weather in a city.\n\nAsk for one city at a time."
    );
    assert_eq!(
        (spec.class, spec.annotations.open_world),
        (ToolClass::ReadOnly, true)
    );
    assert_eq!(spec.timeout.unwrap().as_millis(), 500);
    let schema: serde_json::Value = spec.parameters.decode().unwrap();
    assert_eq!(
        schema["properties"]["city"],
        json!({"type": "string", "description": "The city, such as `Delft`."})
    );
    assert_eq!(schema["properties"]["days"]["maximum"], 7);
    assert_eq!(schema["required"], json!(["city"]));
    assert_eq!(schema["additionalProperties"], false);
}

#[tokio::test]
async fn a_call_runs_the_function_and_returns_its_error() {
    let tool = weather::tool().unwrap();
    let output = value(&*tool, &json!({"city": "11.5", "days": 2}))
        .await
        .unwrap();
    assert_eq!(output, json!({"celsius": 13.5}));
    let error = value(&*tool, &json!({"city": "Delft"})).await.unwrap_err();
    assert_eq!(error, ToolError::new("invalid float literal"));
    let error = value(&*tool, &json!({"town": "Delft"})).await.unwrap_err();
    assert!(error.message.contains("town"), "{error}");
}

#[tokio::test]
async fn a_function_may_take_only_the_context() {
    let tool = who_calls::tool().unwrap();
    assert_eq!(tool.spec().name.as_str(), "who-calls");
    assert_eq!(
        (tool.spec().class, tool.isolation()),
        (ToolClass::Irreversible, Isolation::RunTask)
    );
    let ctx = context();
    let id = ctx.tool_call_id.to_string();
    let output = tool.call(JsonText::from_text("{}"), ctx).await.unwrap();
    assert_eq!(output.value, JsonText::string(&id));
}

#[tokio::test]
async fn the_persistence_of_an_error_is_preserved() {
    let tool = refuse::tool().unwrap();
    let error = value(&*tool, &json!({"why": "closed"})).await.unwrap_err();
    assert_eq!(error.persistence, Persistence::Permanent);
    let output = value(&*tool, &json!({"why": ""})).await.unwrap();
    assert_eq!(output, json!("nothing to refuse"));
}

#[tokio::test]
async fn an_error_is_recognized_under_any_result_alias() {
    for tool in [open::tool().unwrap(), open_there::tool().unwrap()] {
        let error = value(&*tool, &json!({})).await.unwrap_err();
        assert_eq!(error, ToolError::new("the archive is closed"));
        let output = value(&*tool, &json!({"key": "k"})).await.unwrap();
        assert_eq!(output, json!("k"));
    }
}

#[tokio::test]
async fn a_parameter_may_have_the_name_of_its_function() {
    let tool = echo::tool().unwrap();
    let output = value(&*tool, &json!({"echo": "hello"})).await.unwrap();
    assert_eq!(output, json!("hello"));
}
