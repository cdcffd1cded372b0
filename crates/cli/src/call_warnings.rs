//! Shows what the adapters of models warn of while a call is made: what whoever reads the answer should know of how it came about,
//! such as that the model took no tools. And that the store is brought up to date, which is not taken back.
//!
//! Not the rest of what the crates log: the command line keeps no log.

use std::fmt::Debug;

use neuraxis_app::SCHEMA_MODULE;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::progress;

/// The modules whose warnings are about what one call met, or about the store. Those about what a model never takes, such as a
/// temperature, would come with each command.
const SHOWN: [&str; 4] = [
    "neuraxis_wire",
    "neuraxis_anthropic::decode",
    "neuraxis_anthropic::encode::schema",
    SCHEMA_MODULE,
];

/// Shows such warnings from now on.
pub(crate) fn show() {
    // It fails only where something listens already, and this is the only place of the program where that begins.
    let _ = tracing::subscriber::set_global_default(CallWarnings);
}

struct CallWarnings;

impl Subscriber for CallWarnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_shown = || {
            SHOWN
                .iter()
                .any(|module| metadata.target().starts_with(module))
        };
        metadata.is_event() && *metadata.level() == Level::WARN && is_shown()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut warning = Warning::default();
        event.record(&mut warning);
        progress::warn(&warning.told());
    }

    // No span is enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What a warning says, of which model, and why.
#[derive(Default)]
struct Warning {
    message: String,
    model: Option<String>,
    error: Option<String>,
}

impl Warning {
    fn told(self) -> String {
        let model = self.model.map(|model| format!("{model}: "));
        let error = self.error.map(|error| format!(" ({error})"));
        [
            model.unwrap_or_default(),
            self.message,
            error.unwrap_or_default(),
        ]
        .concat()
    }
}

impl Visit for Warning {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        match field.name() {
            "message" => self.message = value,
            "model" => self.model = Some(value),
            "error" => self.error = Some(value),
            _ => {}
        }
    }
}
