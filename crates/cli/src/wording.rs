//! Small words that several commands use.

use std::time::Duration;

use neuraxis_app::{Endpoint, KeySource, Provider};

/// Describes a model's endpoint: which model, where, with which key.
pub(crate) fn described(endpoint: &Endpoint) -> String {
    let mut text = endpoint.info().model.to_string();
    if let Some(address) = &endpoint.address {
        text.push_str(&format!(" at {address}"));
    }
    match &endpoint.key {
        KeySource::None => text,
        source => format!("{text}, key in {source}"),
    }
}

/// Tells whether a name that an endpoint lists is that of the model it is asked for.
pub(crate) fn offers(endpoint: &Endpoint, name: &str) -> bool {
    let asked = endpoint.info().model.model;
    // A llama-server that serves one model takes any name for it, and Ollama adds a tag to those that have none.
    let any = endpoint.provider() == Provider::Llama && *asked == *"default";
    any || name == &*asked || name.strip_suffix(":latest") == Some(&*asked)
}

/// Says how long something took.
pub(crate) fn brief(duration: Duration) -> String {
    match duration.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        millis @ ..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_the_unit_that_fits() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (59_990, "59.9 s"),
            (61_000, "1 min 1 s"),
        ] {
            assert_eq!(brief(Duration::from_millis(millis)), expected);
        }
    }
}
