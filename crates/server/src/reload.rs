//! Wires an engine from the configuration, and another one when the configuration changes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuraxis::core::with_causes;
use neuraxis::engine::{DecideLater, Runs};
use neuraxis::ports::RequestContext;
use neuraxis_app::{
    App, BuildError, Config, ConfigError, Environment, Sources, Telemetry, register_secrets,
};

use crate::engines::EngineReplacer;
use crate::keys::Keys;
use crate::limits::ClientLimits;
use crate::metrics::Metrics;
use crate::permits::PermitPool;
use crate::recipients::Recipients;
use crate::stop::Hangups;
use crate::tls::Tls;
use crate::token::DecisionToken;

/// How often a server checks for runs that no process drives: those of a server that died, and those with new input in
/// their inbox.
const RECOVERY: Duration = Duration::from_secs(2);

/// How often a server checks whether another process has posted something to the runs in progress here.
const INBOX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What engines are wired with.
#[derive(Debug, Clone)]
pub(crate) struct EngineSetup {
    pub(crate) environment: Environment,
    pub(crate) sources: Sources,
    pub(crate) metrics: Metrics,
    /// The token that a decision about a call must present.
    pub(crate) decisions: Option<DecisionToken>,
    /// The keys of clients, which have a separate file.
    pub(crate) keys: Keys,
    /// Whether only programs on this machine can reach the server.
    pub(crate) is_loopback: bool,
    /// Whether the command line sets the address, which then overrides the configuration.
    pub(crate) is_address_given: bool,
    pub(crate) duty: Duty,
    /// The certificate and its key, which are in separate files too.
    pub(crate) tls: Option<Tls>,
    /// Where traces go, for the lifetime of the process.
    pub(crate) telemetry: Telemetry,
}

/// What the process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// To accept requests, whose runs are driven as configured.
    Serve,
    /// To drive runs.
    Work,
}

/// Why a configuration is rejected.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl EngineSetup {
    /// Wires an engine. If `former` is given, the engine uses its store and will replace it.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] that names what cannot be used.
    pub(crate) async fn build(
        &self,
        config: &Config,
        former: Option<&App>,
    ) -> Result<App, BuildError> {
        register_secrets(config, &self.environment);
        // Without a location for the token, only a client with a key can decide.
        let takes_decisions = self.environment.data_dir().is_some() || self.keys.are_needed();
        if !takes_decisions {
            // The engine warns about each tool too, but in terms meant for programmers.
            tracing::warn!(
                "calls cannot be approved on this server: that needs a data folder (HOME, XDG_DATA_HOME), or clients \
                 with keys"
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
            // A decision may come at any time, over any connection.
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
            // Some of the former settings stay in force, and the former engine's runs continue.
            app = app.store(former.open_store()).protecting_files_of(former);
        }
        if self.duty == Duty::Serve {
            app = app.driven_as_configured();
        }
        let app = app.build().await?;
        self.metrics.begin_models_of(&app.orchestrator);
        for notice in &app.notices {
            tracing::warn!("{notice}");
        }
        self.keys.warn_about_missing_plans(config.policy());
        let has_origins = !config.server().origins.is_empty();
        if has_origins && self.duty == Duty::Serve && !self.keys.are_needed() {
            tracing::warn!(
                "[server] origins has no effect until there are keys; create one with `neuraxis-server keys create`"
            );
        }
        Ok(app)
    }

    /// Returns the limits on clients from a configuration.
    pub(crate) fn limits(&self, config: &Config) -> ClientLimits {
        let server = config.server();
        ClientLimits {
            modes: server.modes.clone(),
            max_runs: server.max_runs.unwrap_or(ClientLimits::MAX_RUNS),
            max_runs_per_owner: server.max_runs_per_owner,
            decisions: self.decisions,
            keys: self.keys.clone(),
            any_host: !self.is_loopback || server.behind_proxy,
            origins: server.origins.clone(),
            permits: None,
        }
    }

    /// Rereads the configuration whenever the process is signalled to, and replaces the current engine by one wired
    /// from it. A configuration that cannot be used is logged and changes nothing. Drop this once the server stops:
    /// runs that a new engine resumed then would die with the process. `started` is the configuration that the process
    /// was started with; some of its settings stay in force across reloads. Resumed runs take `permits`.
    pub(crate) async fn keep_reloading(
        self,
        started: Config,
        current: Arc<Mutex<App>>,
        replacer: EngineReplacer,
        permits: PermitPool,
        mut hangups: Hangups,
    ) {
        let mut recipients = Recipients::of(&locked(&current).orchestrator, &started);
        while hangups.next().await {
            if let Some(tls) = &self.tls {
                tls.reread();
            }
            let app = locked(&current);
            match self.reload(&app).await {
                Ok((new, by)) => {
                    self.warn_restart_needed(&started, &by);
                    let (orchestrator, limits) = (new.orchestrator.clone(), self.limits(&by));
                    let policy_hash = orchestrator.policy().hash();
                    let now = Recipients::of(&orchestrator, &by);
                    let Some(former_idle) = replacer.replace(orchestrator, limits).await else {
                        return;
                    };
                    // Only now: the server may have stopped meanwhile.
                    recover_in_the_background(&new, &permits);
                    *current.lock().unwrap_or_else(PoisonError::into_inner) = new;
                    tokio::spawn(async move {
                        let _ = former_idle.await;
                        // No call uses their tools any more.
                        app.stop_servers().await;
                    });
                    tracing::info!(
                        %policy_hash, models = now.changed_since(&recipients),
                        "reloaded the configuration; it applies to new turns"
                    );
                    recipients = now;
                }
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::error!(%error, "cannot load the new configuration; the previous one remains in force");
                }
            }
        }
    }

    async fn reload(&self, app: &App) -> Result<(App, Config), ReloadError> {
        let config = Config::load(&self.environment, &self.sources)?;
        let app = self.build(&config, Some(app)).await?;
        Ok((app, config))
    }

    /// Warns about changed settings that require a restart.
    fn warn_restart_needed(&self, started: &Config, now: &Config) {
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
                tracing::warn!("{key} has changed; the change takes effect after a restart");
            }
        }
    }
}

/// Returns the app that currently serves.
pub(crate) fn locked(current: &Mutex<App>) -> App {
    let current = current.lock().unwrap_or_else(PoisonError::into_inner);
    current.clone()
}

/// Resumes runs that no process drives, for as long as the engine accepts new ones; each takes a permit, which also
/// counts for its owner. Also exchanges data with other processes while runs are in progress or followed: runs here
/// receive what other processes post to them, and live events are sent to and received from other processes.
pub(crate) fn recover_in_the_background(app: &App, permits: &PermitPool) {
    let permits = permits.clone();
    let runs = app.orchestrator.runs().with_context_of_each(move |run| {
        RequestContext::default().with(permits.take_regardless(run.owner.as_deref()))
    });
    tokio::spawn(async move {
        // No request waits for this: a store that accepts no writes may delay it for a long time.
        let recovering = async {
            recover(&runs).await;
            runs.keep_recovering(RECOVERY).await;
        };
        tokio::join!(
            recovering,
            runs.keep_checking_inboxes(INBOX_CHECK_INTERVAL),
            runs.keep_live_exchange()
        )
    });
}

/// Resumes runs that were in progress in a process that died.
async fn recover(runs: &Runs) {
    match runs.recover().await {
        Ok(recovered) => {
            for run in &recovered.resumed {
                tracing::info!(run = %run.run_id(), "resumed an interrupted run");
            }
            for (run, error) in &recovered.left {
                tracing::warn!(%run, error = %with_causes(error), "cannot resume an interrupted run");
            }
        }
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "cannot determine which runs were interrupted");
        }
    }
}
