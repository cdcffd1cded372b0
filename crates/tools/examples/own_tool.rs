//! A tool of your own alongside the built-in ones, each called once.
//!
//! Run it with `cargo run -p neuraxis-tools --example own_tool`.

use std::io::Write;
use std::sync::Arc;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::uuid::Uuid;
use neuraxis_core::{AgentId, EffectId, JsonText, RunId, ToolCallId, ToolClass, Turn};
use neuraxis_ports::{Clock, ToolContext, ToolError, TurnContext};
use neuraxis_tools::{FunctionTool, built_in, project_files};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountWords {
    /// The text whose words are to be counted.
    text: String,
}

async fn count_words(arguments: CountWords, _ctx: ToolContext) -> Result<usize, ToolError> {
    Ok(arguments.text.split_whitespace().count())
}

#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own = FunctionTool::new("count_words", "Counts the words of a text.", count_words)?;
    let mut tools = vec![own.class(ToolClass::ReadOnly).build()];
    tools.extend(built_in(Arc::new(WallClock))?);
    tools.extend(project_files(env!("CARGO_MANIFEST_DIR"))?);

    let calls = [
        (
            "count_words",
            r#"{"text": "a tool is a function with a schema"}"#,
        ),
        ("current_time", r#"{"time_zone": "Asia/Tokyo"}"#),
        ("list_files", r#"{"glob": "*.toml"}"#),
        (
            "search_files",
            r#"{"pattern": "fn main", "glob": "examples/*.rs"}"#,
        ),
        (
            "system_health",
            r#"{"sections": ["memory", "disks", "uptime"]}"#,
        ),
    ];
    let mut out = std::io::stdout().lock();
    for (name, arguments) in calls {
        let Some(tool) = tools.iter().find(|tool| tool.spec().name.as_str() == name) else {
            continue;
        };
        let output = tool.call(JsonText::from_text(arguments), context()).await?;
        writeln!(out, "{name} {arguments}\n  {}\n", output.value)?;
    }
    Ok(())
}

/// Returns the context of a call; the engine creates it from the run it drives.
fn context() -> ToolContext {
    let run = RunId(Uuid::nil());
    let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
    ToolContext::new(
        turn,
        ToolCallId::from_text("call_1"),
        EffectId { run, number: 1 },
    )
}
