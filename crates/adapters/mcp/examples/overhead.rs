//! Measures the overhead of a call compared with the bare SDK: the same server, started in the same way, called
//! alternately.
//!
//! `cargo run --release -p neuraxis-mcp --example overhead -- mcp-server-everything stdio`

use std::sync::Arc;
use std::time::{Duration, Instant};

use neuraxis_core::{AgentId, EffectId, JsonText, RunId, ToolCallId, Turn};
use neuraxis_mcp::{McpServer, McpServerConfig, MemoryPins, StdioConfig, Transport};
use neuraxis_ports::{Secret, ToolContext, ToolSource, TurnContext};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use tokio::process::Command;

/// The number of measured calls for each side, after the same number of warm-up calls.
const CALLS: u32 = 2_000;

fn context() -> ToolContext {
    let run = RunId(Default::default());
    let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
    let call = ToolCallId::from_text("call_1");
    ToolContext::new(turn, call, EffectId { run, number: 1 })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let command = args
        .next()
        .unwrap_or_else(|| "mcp-server-everything".to_owned());
    let args: Vec<String> = args.collect();

    let mut bare = Command::new(&command)
        .args(&args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let pipes = (bare.stdout.take(), bare.stdin.take());
    let (Some(stdout), Some(stdin)) = pipes else {
        return Err("the server has no input and output".into());
    };
    let bare = ().serve((stdout, stdin)).await?;

    let mut program = StdioConfig::new(command, args);
    for (name, value) in std::env::vars() {
        program.env.insert(name, Secret::new(&value));
    }
    let config = McpServerConfig::new("every", Transport::Stdio(program));
    let server = McpServer::start(config, Arc::new(MemoryPins::default()))?;
    server.ready().await?;
    let tools = server.tools();
    let echo = tools
        .iter()
        .find(|tool| tool.spec().name.as_str() == "every__echo");
    let echo = echo.ok_or("the server has no tool echo")?;

    let arguments = JsonText::from_text(r#"{"message":"hello"}"#);
    let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
    for round in 0..CALLS * 2 {
        let started = Instant::now();
        let params = CallToolRequestParams::new("echo").with_arguments(arguments.decode()?);
        bare.call_tool(params).await?;
        let between = Instant::now();
        echo.call(arguments.clone(), context()).await?;
        if round >= CALLS {
            theirs += between - started;
            ours += between.elapsed();
        }
    }
    let of = |all: Duration| all.as_secs_f64() * 1e6 / f64::from(CALLS);
    let (ours, theirs) = (of(ours), of(theirs));
    #[expect(clippy::print_stdout, reason = "it is what the example is for")]
    {
        println!(
            "the SDK alone {theirs:.0} µs, with everything {ours:.0} µs a call: {:.2}",
            ours / theirs
        );
    }
    bare.cancel().await?;
    server.shutdown().await;
    Ok(())
}
