//! Wires an engine as the configuration says, and another one when the configuration has changed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuraxis::core::with_causes;
use neuraxis::engine::{DecideLater, Runs};
use neuraxis::ports::RequestContext;
use neuraxis_app::{
    App, BuildError, Config, ConfigError, Environment, Sources, Telemetry, keep_secrets_out,
};

use crate::engines::Replacing;
use crate::keys::Keys;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::recipients::Recipients;
use crate::slots::Slots;
use crate::stop::Hangups;
use crate::tls::Tls;
use crate::token::DecisionToken;

/// How often a server looks for runs that nobody drives: those of a server that died, and those that somebody posted to.
const RECOVERY: Duration = Duration::from_secs(2);

/// How often a server looks whether another one posted something to the runs at work here.
const HEARING: Duration = Duration::from_secs(1);

/// What engines are wired with.
#[derive(Debug, Clone)]
pub(crate) struct Wiring {
    pub(crate) environment: Environment,
    pub(crate) sources: Sources,
    pub(crate) metrics: Metrics,
    /// What a decision about a call has to show.
    pub(crate) decisions: Option<DecisionToken>,
    /// The keys of clients, which have a file of their own.
    pub(crate) keys: Keys,
    /// Whether only programs on this machine reach the server.
    pub(crate) is_loopback: bool,
    /// Whether the command line says where to listen, whatever the configuration does.
    pub(crate) is_address_given: bool,
    pub(crate) duty: Duty,
    /// The certificate and its key, which are files of their own, too.
    pub(crate) tls: Option<Tls>,
    /// Where traces go, as long as the process lives.
    pub(crate) telemetry: Telemetry,
}

/// What the process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// To take requests, whose runs are driven as the configuration says.
    Serve,
    /// To drive runs.
    Work,
}

/// Why a configuration is not taken.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Wiring {
    /// Wires an engine: on the store of another one, whose place it is to take, if there is one.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names what cannot be used.
    pub(crate) async fn build(
        &self,
        config: &Config,
        former: Option<&App>,
    ) -> Result<App, BuildError> {
        keep_secrets_out(config, &self.environment);
        // Without a place for the token only who has a key could decide.
        let takes_decisions = self.environment.data_dir().is_some() || self.keys.are_needed();
        if !takes_decisions {
            // The engine says of each tool what this means, in the words of whoever writes programs.
            tracing::warn!(
                "nobody can approve calls here: that takes a folder for the server's data (HOME, XDG_DATA_HOME) or clients with keys"
            );
        }
        let (sink, plan) = (self.metrics.trace_sink(), config.server().plan.clone());
        // Only clients of this process could answer.
        let question_ms = match self.duty {
            Duty::Serve => config.server().question_ms,
            Duty::Work => 0,
        };
        let replaced = former.map(|former| former.orchestrator.clone());
        let mut app = App::builder(config, &self.environment).extend(move |builder| {
            let builder = builder.verify_sessions().trace_sink(sink);
            let builder = match &replaced {
                Some(replaced) => builder.replaces(replaced),
                None => builder,
            };
            // Whoever is to decide may come at any time, over any connection.
            let builder = match takes_decisions {
                true => builder.approver(Arc::new(DecideLater)),
                false => builder,
            };
            let builder = match question_ms {
                1.. if takes_decisions => {
                    builder.questions_open_for(Duration::from_millis(question_ms))
                }
                _ => builder,
            };
            match plan {
                Some(plan) => builder.default_plan(plan),
                None => builder,
            }
        });
        app = app.telemetry(self.telemetry.clone());
        if let Some(former) = former {
            // Some of what it names stays in force, and its runs go on.
            app = app.store(former.opened()).beside(former);
        }
        if self.duty == Duty::Serve {
            app = app.driven_as_configured();
        }
        let app = app.build().await?;
        self.metrics.begin_models_of(&app.orchestrator);
        for notice in &app.notices {
            tracing::warn!("{notice}");
        }
        self.keys.tell_of_missing_plans(config.policy());
        Ok(app)
    }

    /// Returns what a configuration lets clients use.
    pub(crate) fn limits(&self, config: &Config) -> Limits {
        let server = config.server();
        Limits {
            modes: server.modes.clone(),
            max_runs: server.max_runs.unwrap_or(Limits::MAX_RUNS),
            max_runs_per_owner: server.max_runs_per_owner,
            decisions: self.decisions,
            keys: self.keys.clone(),
            any_host: !self.is_loopback || server.behind_proxy,
            origins: server.origins.clone(),
            slots: None,
        }
    }

    /// Reads the configuration again whenever the process is told to, and puts an engine that is wired by it in the place of
    /// the one there is. A configuration that cannot be used is told of in the log, and changes nothing. To be dropped once the
    /// server stops: runs that a new engine took up then would die with the process. `started` is the configuration that the
    /// process was started with: some of it stays in force, however often another one is read. Runs that go on take `slots`.
    pub(crate) async fn keep_reloading(
        self,
        started: Config,
        current: Arc<Mutex<App>>,
        replacing: Replacing,
        slots: Slots,
        mut hangups: Hangups,
    ) {
        let mut recipients = Recipients::of(&locked(&current).orchestrator, &started);
        while hangups.next().await {
            if let Some(tls) = &self.tls {
                tls.read_again();
            }
            let app = locked(&current);
            match self.reload(&app).await {
                Ok((new, by)) => {
                    self.tell_what_stays(&started, &by);
                    let (orchestrator, limits) = (new.orchestrator.clone(), self.limits(&by));
                    let policy_hash = orchestrator.policy().hash();
                    let now = Recipients::of(&orchestrator, &by);
                    let Some(over) = replacing.begin(orchestrator, limits).await else {
                        return;
                    };
                    // Not before: the server may have stopped meanwhile.
                    recover_in_the_background(&new, &slots);
                    *current.lock().unwrap_or_else(PoisonError::into_inner) = new;
                    tokio::spawn(async move {
                        let _ = over.await;
                        // Nothing calls their tools any more.
                        app.stop_servers().await;
                    });
                    tracing::info!(
                        %policy_hash, models = now.changed_since(&recipients),
                        "the configuration was read again: new turns follow it"
                    );
                    recipients = now;
                }
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::error!(%error, "the configuration is not taken: the former one stays in force");
                }
            }
        }
    }

    async fn reload(&self, app: &App) -> Result<(App, Config), Refused> {
        let config = Config::load(&self.environment, &self.sources)?;
        let app = self.build(&config, Some(app)).await?;
        Ok((app, config))
    }

    /// Says which changes since the start need a new one.
    fn tell_what_stays(&self, started: &Config, now: &Config) {
        let (before, after) = (started.server(), now.server());
        let moves = before.listen != after.listen && !self.is_address_given;
        for (key, is_changed) in [
            ("server.listen", moves),
            ("server.keys", before.keys != after.keys),
            ("server.tls", before.tls != after.tls),
            ("server.access_log", before.access_log != after.access_log),
            ("server.max_runs", before.max_runs != after.max_runs),
            ("store", started.store() != now.store()),
            ("telemetry", started.telemetry() != now.telemetry()),
        ] {
            if is_changed {
                tracing::warn!(
                    "{key} has changed, which takes effect once the server is started anew"
                );
            }
        }
    }
}

/// Returns the app that serves now.
pub(crate) fn locked(current: &Mutex<App>) -> App {
    let current = current.lock().unwrap_or_else(PoisonError::into_inner);
    current.clone()
}

/// Lets runs go on that nobody drives, for as long as the engine takes new ones; each takes a slot, also of its owner's. Those at
/// work hear of what other processes post to them, their live events go to other processes, and those of runs elsewhere come, for
/// as long as any is at work or followed.
pub(crate) fn recover_in_the_background(app: &App, slots: &Slots) {
    let slots = slots.clone();
    let runs = app.orchestrator.runs().with_context_of_each(move |run| {
        RequestContext::default().with(slots.overdraw(run.owner.as_deref()))
    });
    tokio::spawn(async move {
        // Nobody who asks waits for it: a store that takes nothing may hold it up for long.
        let recovering = async {
            recover(&runs).await;
            runs.keep_recovering(RECOVERY).await;
        };
        tokio::join!(
            recovering,
            runs.keep_hearing(HEARING),
            runs.keep_live_exchange()
        )
    });
}

/// Lets runs go on that a process left at work when it died.
async fn recover(runs: &Runs) {
    match runs.recover().await {
        Ok(recovered) => {
            for run in &recovered.resumed {
                tracing::info!(run = %run.run_id(), "an interrupted run goes on");
            }
            for (run, error) in &recovered.left {
                tracing::warn!(%run, error = %with_causes(error), "an interrupted run cannot go on");
            }
        }
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "nobody knows which runs were interrupted");
        }
    }
}
