//! `neuraxis runs resume`.

use clap::Args;
use neuraxis_app::{App, Tape};

use crate::approve::WhenAway;
use crate::command::ask::{Format, Reception, watch};
use crate::command::{held, lookup};
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs resume 0199f3a1
  neuraxis runs resume 0199f3a1 --cancel";

/// Take up a run that was left behind
///
/// A run whose process died goes on from its last record: model calls that were answered are not made again, and tools that
/// were finished do not run again. A call that was under way runs again only if that does no harm. One that waits for an
/// approval asks for it again. A process that died keeps its run for as long as store.lease_ms says: that is waited for, and
/// one that turns out to be alive keeps it. With --cancel, a process that is alive is told to end the run.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Resume {
    /// The run, or the beginning of its id
    id: String,

    /// End it instead of letting it go on; its history stays valid
    #[arg(long)]
    cancel: bool,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object a line for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Resume {
    pub(super) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        // A question that waited through the death of a process is not denied because nobody sits here either.
        let away = match setup.config()?.store().is_in_memory() {
            true => WhenAway::Deny,
            false => WhenAway::Wait,
        };
        let mut reception = Reception::new(setup, away)?;
        let app = reception.app(setup, Tape::Off).await?;
        let done = self.take_up(&app, &mut reception).await;
        app.close().await;
        done
    }

    async fn take_up(self, app: &App, reception: &mut Reception) -> Result<(), CommandError> {
        let run = lookup::run(app.store.as_ref(), &self.id).await?;
        let id = run.run_id;
        if run.records == 0 {
            held::release(app, &run).await?;
            let session = run.session;
            let line = format!("run {id} had not begun: session {session} is free again");
            return Ok(Output::new().line(&line)?);
        }
        if self.cancel {
            held::end(app, id).await?;
            return Ok(Output::new().line(&format!("run {id} has ended"))?);
        }
        lookup::unaltered(app.store.as_ref(), &run.session).await?;
        let handle = held::take_up(app, id).await?;
        let events = handle.events();
        watch(app, self.format, (&handle, events), reception).await
    }
}
