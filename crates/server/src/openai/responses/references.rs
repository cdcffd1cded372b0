//! Items that a client only names, as it may where responses are kept. What they say is put back, so that the conversation is
//! the one of a client that sends all of it.

use neuraxis::Orchestrator;
use neuraxis::core::{RunId, with_causes};
use serde_json::{from_value, to_value};

use super::input::Item;
use super::items::may_be_void;
use super::kept;
use super::output::ResponseOut;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::refusal::internal;

/// What the ids of thoughts begin with. A model is not told again what another thought.
const OF_THOUGHTS: &str = "rs_";

/// What the ids of messages begin with.
const OF_MESSAGES: &str = "msg_";

/// The most characters of an id that an answer repeats.
const MAX_REPEATED_CHARS: usize = 64;

/// Puts items in the place of those that only name them. Those of the run that goes on are left: its session holds them.
pub(super) async fn look_up(
    items: &mut [Item],
    goes_on: Option<RunId>,
    orchestrator: &Orchestrator,
    caller: &Caller,
) -> Result<(), Problem> {
    // The items of one response stand beside each other.
    let mut response: Option<ResponseOut> = None;
    for (at, item) in items.iter_mut().enumerate() {
        let Some(id) = item.named().filter(|id| !id.starts_with(OF_THOUGHTS)) else {
            continue;
        };
        let run = run_of(id).ok_or_else(|| unknown(at, id))?;
        if goes_on == Some(run) {
            continue;
        }
        if response.as_ref().is_none_or(|it| it.run() != run) {
            response = kept(orchestrator, caller, run).await?;
        }
        let response = response.as_ref().ok_or_else(|| unknown(at, id))?;
        let found = match response.item(id) {
            Some(found) => found,
            // What was told and stands no more.
            None if id.starts_with(OF_MESSAGES) && may_be_void(id, response.count()) => continue,
            None => return Err(unknown(at, id)),
        };
        // It is told in the form in which it may be sent.
        let sent = to_value(found).and_then(from_value);
        *item = sent.map_err(|error| internal(&with_causes(&error)))?;
    }
    Ok(())
}

/// Returns the run that an item is of.
fn run_of(id: &str) -> Option<RunId> {
    let (_, id) = id.split_once('_')?;
    let (run, _) = id.split_once('_')?;
    run.parse().ok().map(RunId)
}

fn unknown(at: usize, id: &str) -> Problem {
    let id: String = id.chars().take(MAX_REPEATED_CHARS).collect();
    let why = format!("there is no item {id:?} here: send it whole");
    Problem::invalid(&format!("input[{at}].id"), why)
}
