//! Shows what model adapters warn of during a call: what the user should know about how the answer came about, such as
//! that the model accepted no tools. Also shows that the store is being migrated, which cannot be undone.
//!
//! Other log output of the crates is not shown: the command line keeps no log.

use std::fmt::Debug;

use neuraxis_app::SCHEMA_MODULE;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::progress;

/// The modules whose warnings concern a single call, or the store. Warnings about what a model never accepts, such as a
/// temperature, would appear with each command.
const SHOWN: [&str; 4] = [
    "neuraxis_wire",
    "neuraxis_anthropic::decode",
    "neuraxis_anthropic::encode::schema",
    SCHEMA_MODULE,
];

/// Shows such warnings from now on.
pub(crate) fn show() {
    // This fails only if a subscriber is already set, and the program sets one nowhere else.
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
        progress::warn(&warning.into_text());
    }

    // Spans are never enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of a warning, with its model and reason.
#[derive(Default)]
struct Warning {
    message: String,
    model: Option<String>,
    error: Option<String>,
}

impl Warning {
    fn into_text(self) -> String {
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
