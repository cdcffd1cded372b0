//! `neuraxis runs output`.

use std::io;

use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::core::{RunId, ToolCallId};
use neuraxis::engine::Sessions;
use neuraxis::ports::{OutputHead, OutputPlace};
use serde_json::json;

use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::listing::{Format, Listing};
use crate::output::Output;
use crate::progress;

/// How many bytes are read at a time.
const PAGE_BYTES: usize = 256 * 1024;

const HEADING: &str = "       BYTES       LINES  TOOL              CALL";

const EXAMPLES: &str = "\
Examples:
  neuraxis runs output last
  neuraxis runs output last a0_1_0 | less
  neuraxis runs output last a0_1_0 > build.log";

/// Show the long outputs of a run's tool calls, of which the model read only a part
///
/// Without a call, lists the stored outputs; with one, prints everything that is stored of it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunOutput {
    /// The run: its id, the beginning or end of its id, or last
    #[arg(add = ArgValueCompleter::new(completion::runs))]
    run: String,

    /// The call, or the end of its id
    call: Option<String>,

    /// How to print the list
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "call")]
    format: Format,
}

impl RunOutput {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let run = lookup::run(sessions, &self.run).await?.run_id;
        let outputs = sessions.outputs(run).await?;
        match &self.call {
            None => list(&outputs, self.format),
            Some(call) => {
                let call = find(&outputs, run, call)?;
                print(sessions, run, call).await
            }
        }
    }
}

fn list(outputs: &[OutputHead], format: Format) -> Result<(), CommandError> {
    let mut listing = Listing::new(format, HEADING);
    for output in outputs {
        let (bytes, lines, call) = (output.bytes, output.lines, &output.call);
        let tool = one_line(&output.tool);
        let line = format!("{bytes:>12}{lines:>12}  {tool:<16}  {call}");
        listing.item(&line, &json!(output))?;
    }
    listing.end()?;
    if outputs.is_empty() && format == Format::Text {
        progress::notice("this run has no stored output; its tools' results are in its records");
    }
    Ok(())
}

/// Returns the call with this end of its id, since ids of one run begin alike.
fn find<'a>(
    outputs: &'a [OutputHead],
    run: RunId,
    end: &str,
) -> Result<&'a ToolCallId, CommandError> {
    let ends = |output: &&OutputHead| output.call.as_str().ends_with(end);
    let mut found = outputs.iter().filter(ends).map(|output| &output.call);
    let hint = format!("`neuraxis runs output {run}` lists the stored outputs");
    match (found.next(), found.next()) {
        (Some(call), None) => Ok(call),
        (None, _) => {
            let why = anyhow::anyhow!(
                "this run has no stored output of a call {:?}",
                one_line(end)
            );
            Err(CommandError::failed(why).hint(hint))
        }
        (Some(first), Some(_)) if first.as_str() == end => Ok(first),
        (Some(_), Some(_)) => {
            let why = anyhow::anyhow!("several calls end with {:?}", one_line(end));
            Err(CommandError::usage(why).hint(hint))
        }
    }
}

/// Prints an output piece by piece, so that it is never in memory as a whole.
async fn print(sessions: &Sessions, run: RunId, call: &ToolCallId) -> Result<(), CommandError> {
    let mut output = Output::new();
    let (mut next, mut ends_line) = (Some(OutputPlace::Byte(0)), true);
    while let Some(from) = next {
        let page = sessions.output_page(run, call, from, PAGE_BYTES).await?;
        match output.text(&page.text) {
            // The reader has closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            printed => printed?,
        }
        ends_line = page.text.ends_with('\n');
        next = page.next();
    }
    if output.is_terminal() && !ends_line {
        output.line("")?;
    }
    Ok(())
}
