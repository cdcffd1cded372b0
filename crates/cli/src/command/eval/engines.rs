//! The engines that cases run on: one with the configured models, one for each recording, and none if everything is
//! already stored.

use std::path::PathBuf;

use neuraxis::cassette::{CassetteConfig, CassetteError, ToolResults};
use neuraxis::evals::{Case, CaseFault, EvalFile, Evals, Source, judge};
use neuraxis_app::{
    App, BuildError, CassetteUse, Config, OpenStore, Telemetry, may_be_tool, no_store_warning,
};

use crate::error::CommandError;
use crate::progress;
use crate::setup::Loaded;

/// The engines that cases run on.
#[derive(Debug)]
pub(super) struct Engines {
    /// The engine with the configured models, or with what answers instead of them; also used for judges.
    models: Option<App>,
    /// The engines with a recording that a case names.
    cassettes: Vec<(PathBuf, App)>,
    store: OpenStore,
    /// The destination of the traces of all engines.
    telemetry: Telemetry,
    is_replay: bool,
}

impl Engines {
    /// Opens what the cases in a file need, and no more: models are only looked for if one is called.
    pub(super) async fn open(
        loaded: &Loaded,
        file: &EvalFile,
        cassette: CassetteUse,
    ) -> Result<Self, CommandError> {
        let is_replay = matches!(cassette, CassetteUse::Replay(_));
        // All engines share one exporter of traces. Nothing is sent yet.
        let telemetry = Telemetry::start(&loaded.config, &loaded.environment);
        let telemetry = telemetry.map_err(BuildError::from)?;
        let mut engines = Self {
            models: None,
            cassettes: Vec::new(),
            store: OpenStore::open(&loaded.config, &loaded.environment).await?,
            telemetry,
            is_replay,
        };
        if let Some(notice) = no_store_warning(&loaded.config, &loaded.environment) {
            progress::notice(&notice);
        }
        if let Err(error) = engines.build(loaded, file, cassette).await {
            // Errors of the recordings result from the first one.
            let _ = engines.end().await;
            return Err(error);
        }
        Ok(engines)
    }

    /// Builds the engines that the cases in a file need.
    async fn build(
        &mut self,
        loaded: &Loaded,
        file: &EvalFile,
        cassette: CassetteUse,
    ) -> Result<(), CommandError> {
        let asks = |case: &Case| case.source == Source::Models || case.needs_a_judge();
        // A replayed recording is opened even if no case uses it, so that an unusable one is noticed.
        if self.is_replay || file.cases.iter().any(asks) {
            let app = app(loaded, cassette, &self.store, &self.telemetry).await?;
            for notice in &app.notices {
                progress::notice(notice);
            }
            self.models = Some(app);
        } else {
            if let CassetteUse::Record(recording) = &cassette {
                let recording = recording.display();
                progress::warn(&format!("no case asks a model: {recording} is not created"));
            }
            loaded.warn_settings_ignored();
        }
        for file in file.cassettes() {
            let mut config = CassetteConfig::new(&file);
            config.tool_results = ToolResults::Ignore;
            let cassette = CassetteUse::Replay(config);
            let app = app(loaded, cassette, &self.store, &self.telemetry).await?;
            self.cassettes.push((file, app));
        }
        Ok(())
    }

    /// Returns whether runs still exist after the command has ended.
    pub(super) const fn stores_runs(&self) -> bool {
        self.store.is_persistent()
    }

    /// Returns whether all models are replaced by one recording.
    pub(super) const fn replays(&self) -> bool {
        self.is_replay
    }

    /// Returns the runner of cases for these engines.
    pub(super) fn evals(&self) -> Evals {
        let evals = match &self.models {
            Some(app) => Evals::new(&app.orchestrator),
            None => Evals::of_stored_runs(self.store.sessions()),
        };
        let cassettes = self.cassettes.iter();
        cassettes.fold(evals, |evals, (file, app)| {
            evals.cassette(file.clone(), app.orchestrator.clone())
        })
    }

    /// Checks whether everything that the cases in a file name exists.
    pub(super) fn check(&self, config: &Config, file: &EvalFile) -> Result<(), CaseFault> {
        let cassettes = self.cassettes.iter().map(|(_, app)| app);
        let apps: Vec<&App> = self.models.iter().chain(cassettes).collect();
        let knows_tool = |name: &str| {
            let mut apps = apps.iter();
            apps.any(|app| may_be_tool(&app.orchestrator.tools(), config, name))
        };
        let evals = self.evals().judge(file.judge.clone());
        evals.check(&file.cases, knows_tool)
    }

    /// Ends the engines, and prints warnings about the recordings.
    pub(super) async fn close(&self) -> Result<(), CommandError> {
        for notice in self.end().await.map_err(CommandError::failed)? {
            progress::warn(&notice);
        }
        Ok(())
    }

    /// Ends the engines, and returns warnings about the recordings, one sentence each.
    async fn end(&self) -> Result<Vec<String>, CassetteError> {
        let cassettes = self.cassettes.iter().map(|(_, app)| app);
        for app in self.models.iter().chain(cassettes) {
            app.stop_servers().await;
        }
        let models = self.models.as_ref();
        let finished = models.map_or(Ok(Vec::new()), |app| app.recordings.finish());
        for notice in self.telemetry.close().await {
            progress::warn(&notice);
        }
        self.store.close().await;
        finished
    }
}

async fn app(
    loaded: &Loaded,
    cassette: CassetteUse,
    store: &OpenStore,
    telemetry: &Telemetry,
) -> Result<App, CommandError> {
    let judge = judge().map_err(CommandError::failed)?;
    let app = loaded.app().cassette(cassette).store(store.clone());
    let app = app.telemetry(telemetry.clone());
    Ok(app.extend(|builder| builder.agent(judge)).build().await?)
}
