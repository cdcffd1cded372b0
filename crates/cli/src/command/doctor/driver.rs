//! Checks whether runs can be handed over, if servers do not drive them themselves.

use std::error::Error;

use neuraxis_app::{AdminError, Config, DriverKind, Restate, shown_setting};

use super::Requests;
use super::check::{Check, Outcome};

const NAME: &str = "driver";

/// Checks whether Restate answers and can reach the workers for new runs, unless nothing may be sent. Checks nothing if
/// runs are driven by the process that starts them.
pub(super) async fn check(config: &Config, requests: Requests) -> Option<Check> {
    if config.driver().kind == DriverKind::Local {
        return None;
    }
    let restate = match Restate::new(&config.driver().restate) {
        Ok(restate) => restate,
        Err(fault) => {
            return Some(Check::here(NAME, Outcome::Failed, fault.to_string()));
        }
    };
    if config.store().is_in_memory() {
        let detail =
            "workers resume runs from a shared store, but memory: is private to one process";
        let check = Check::here(NAME, Outcome::Failed, detail);
        return Some(check.fix("set store.url to the URL of a Postgres server"));
    }
    if requests == Requests::NotSent {
        let detail = "Restate was not contacted (--offline)";
        return Some(Check::here(NAME, Outcome::Skipped, detail));
    }
    Some(match restate.check().await {
        Ok(workers) => {
            let detail = format!(
                "Restate answers, and reaches workers at {} ({}, revision {})",
                shown(&workers.address),
                workers.deployment,
                workers.revision
            );
            match config.driver().restate.advertised() {
                Some(own) if !is_same(&own, &workers.address) => {
                    let own = shown(&own);
                    let detail =
                        format!("{detail}; this configuration's workers would be at {own}");
                    Check::here(NAME, Outcome::Warning, detail).fix(
                        "start `neuraxis-server worker` with this configuration; new runs go to the newest address \
                         that answers",
                    )
                }
                _ => Check::here(NAME, Outcome::Ok, detail),
            }
        }
        Err(error) => {
            let fix = match &error {
                AdminError::NoWorker | AdminError::NoneAnswers { .. } => {
                    "start `neuraxis-server worker` with this configuration"
                }
                _ => "start Restate, or fix [driver.restate]; see `neuraxis help scale`",
            };
            let mut detail = error.to_string();
            if let Some(cause) = error.source() {
                detail = format!("{detail}: {cause}");
            }
            Check::here(NAME, Outcome::Failed, detail).fix(fix)
        }
    })
}

/// Returns whether two addresses are the same: Restate adds a slash to those without a path.
fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Returns the address of workers without a password, for display.
fn shown(address: &str) -> String {
    shown_setting("driver.restate.advertise", address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_address_is_shown_without_its_password() {
        assert_eq!(shown("http://me:hunter2@host:9080"), "http://***@host:9080");
        assert_eq!(shown("http://host:9080/"), "http://host:9080/");
    }
}
