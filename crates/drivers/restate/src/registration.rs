//! Where Restate sends new runs: to the youngest address of workers that answers.
//!
//! Restate itself sends them to the address that was registered last, even if no worker is alive there. It also treats
//! a known address as registered without asking what it offers. So the workers manage this. Each registers its address
//! when it starts, and again when runs go to an older address or to one where no worker answers. A rollout is a new
//! address; a rollback is the end of the workers at the younger address. A worker that restarts while a younger address
//! answers changes nothing.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use tokio::time::sleep;

use crate::admin::{AdminError, Registered, Restate};
use crate::config::without_secrets;
use crate::deployment::Deployment;

/// The initial pause before a worker retries a failed registration; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// How often a worker checks where new runs go.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How many checks in a row must find no worker at the younger address before runs are taken from it: its workers may
/// be restarting.
const MAX_FAILED_CHECKS: u32 = 2;

/// A worker's registration with Restate.
#[derive(Debug, Clone)]
pub(crate) struct Registration {
    pub(crate) restate: Restate,
    /// The address at which Restate reaches workers of this build.
    pub(crate) address: String,
    /// Identifies what they offer: it differs whenever the offer does.
    pub(crate) build: String,
}

/// The result of a check of where new runs go.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// New runs go to this address, and Restate knows what this build offers.
    Here,
    /// New runs go to this address, but Restate knows what a different build offers.
    OtherBuild,
    /// New runs should go to this address, but do not.
    Due,
    /// New runs go to this younger address.
    Younger(String),
}

impl Registration {
    /// Registers the worker, retrying as often as necessary, then makes sure forever that new runs go to workers that
    /// are alive.
    pub(crate) async fn maintain(self) -> Infallible {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.begin().await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::warn!(error, "could not register with Restate yet");
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        let mut failed_checks = 0;
        loop {
            sleep(CHECK_INTERVAL).await;
            match self.check_once(&mut failed_checks).await {
                Ok(()) => {}
                Err(error) => {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::debug!(error, "cannot determine which workers new runs go to");
                }
            }
        }
    }

    /// Registers a worker that is starting. Returns `false` if that must be retried: behind a load balancer, another
    /// build may have answered.
    async fn begin(&self) -> Result<bool, AdminError> {
        let address = without_secrets(&self.address);
        match self.find().await? {
            Finding::Here => {
                tracing::info!(address, "already registered with Restate");
                return Ok(true);
            }
            Finding::Younger(by) => {
                if self.restate.reaches(&by).await? {
                    let by = without_secrets(&by);
                    tracing::info!(address, by, "new runs go to workers that started later");
                    return Ok(true);
                }
            }
            Finding::Due | Finding::OtherBuild => {}
        }
        self.register().await
    }

    /// Checks once where new runs go, and takes them over if no worker receives them.
    async fn check_once(&self, failed_checks: &mut u32) -> Result<(), AdminError> {
        let is_due = match self.find().await? {
            // The worker that started last defines what is offered here. Otherwise builds that share an address would
            // keep reregistering in turn.
            Finding::Here | Finding::OtherBuild => false,
            Finding::Due => true,
            Finding::Younger(by) => {
                match self.restate.reaches(&by).await? {
                    true => *failed_checks = 0,
                    false => *failed_checks += 1,
                }
                *failed_checks >= MAX_FAILED_CHECKS
            }
        };
        if is_due {
            *failed_checks = 0;
            self.register().await?;
        }
        Ok(())
    }

    async fn register(&self) -> Result<bool, AdminError> {
        let found = self.restate.register(&self.address).await?;
        let is_ours = found == self.build;
        let address = without_secrets(&self.address);
        match is_ours {
            true => tracing::info!(address, "registered with Restate"),
            false => tracing::info!(
                address,
                found,
                "registered with Restate, but a worker of another build answered"
            ),
        }
        Ok(is_ours)
    }

    async fn find(&self) -> Result<Finding, AdminError> {
        let (latest, known) = self.restate.workers().await?;
        Ok(self.finding(latest.as_ref(), &known))
    }

    fn finding(&self, latest: Option<&Registered>, known: &[Deployment]) -> Finding {
        let deployment = |address: &str| known.iter().find(|known| known.is_at(address));
        let Some((latest, youngest)) =
            latest.and_then(|latest| Some((latest, deployment(&latest.address)?)))
        else {
            return Finding::Due;
        };
        if youngest.is_at(&self.address) {
            return match latest.build == self.build {
                true => Finding::Here,
                false => Finding::OtherBuild,
            };
        }
        match deployment(&self.address) {
            Some(own) if own.first() < youngest.first() => Finding::Younger(latest.address.clone()),
            _ => Finding::Due,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::RestateConfig;

    fn deployment(address: &str, made: &str, first: Option<&str>) -> Deployment {
        let metadata = first.map(|first| json!({ "neuraxis-first": first }));
        serde_json::from_value(json!({
            "id": address, "uri": address, "created_at": made, "metadata": metadata
        }))
        .unwrap()
    }

    fn registered(address: &str, build: &str) -> Registered {
        Registered {
            deployment: address.to_owned(),
            revision: 1,
            address: address.to_owned(),
            build: build.to_owned(),
        }
    }

    #[test]
    fn new_runs_go_to_the_most_recently_registered_address() {
        let worker = Registration {
            restate: Restate::new(&RestateConfig::default()).unwrap(),
            address: "http://one:9080".to_owned(),
            build: "1".to_owned(),
        };
        // Restate adds a slash at the end.
        let one = deployment("http://one:9080/", "2026-01-01T00:00:00Z", None);
        let two = deployment("http://two:9080/", "2026-01-02T00:00:00Z", None);
        let find = |latest: Option<Registered>, known: &[Deployment]| {
            worker.finding(latest.as_ref(), known)
        };
        assert_eq!(find(None, &[]), Finding::Due);
        let at_one = || Some(registered("http://one:9080/", "1"));
        assert_eq!(find(at_one(), std::slice::from_ref(&one)), Finding::Here);
        let other = Some(registered("http://one:9080/", "0"));
        assert_eq!(find(other, std::slice::from_ref(&one)), Finding::OtherBuild);
        let at_two = || Some(registered("http://two:9080/", "1"));
        let both = [one, two.clone()];
        let younger = Finding::Younger("http://two:9080/".to_owned());
        assert_eq!(find(at_two(), &both), younger);
        // This address is not registered yet.
        assert_eq!(find(at_two(), std::slice::from_ref(&two)), Finding::Due);
        // An older address took the runs while no worker was alive here, which makes it no younger.
        let first = Some("2025-01-01T00:00:00Z");
        let old = deployment("http://two:9080/", "2026-02-01T00:00:00Z", first);
        let one = deployment("http://one:9080/", "2026-01-01T00:00:00Z", None);
        assert_eq!(find(at_two(), &[one, old]), Finding::Due);
    }
}
