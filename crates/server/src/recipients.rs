//! Where conversations are sent: the model of each role and its host, worded for the log.

use std::collections::BTreeMap;

use axum::http::Uri;
use neuraxis::Orchestrator;
use neuraxis::core::Role;
use neuraxis_app::Config;

/// The model of each role, such as `openai/gpt-5 at api.openai.com`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recipients(BTreeMap<Role, String>);

impl Recipients {
    /// Returns the recipients of an engine wired from a configuration.
    pub(crate) fn of(orchestrator: &Orchestrator, config: &Config) -> Self {
        let models = orchestrator.models().map(|(role, info)| {
            let (provider, model) = (&info.model.provider, &info.model.model);
            let configured = config.models().get(role);
            let url = configured.and_then(|model| model.provider.base_url());
            let place = url.and_then(place_of).map(|place| format!(" at {place}"));
            let description = format!("{provider}/{model}{}", place.unwrap_or_default());
            (role.clone(), description)
        });
        Self(models.collect())
    }

    /// Describes those that have changed since, or returns `None` if none has.
    pub(crate) fn changed_since(&self, before: &Self) -> Option<String> {
        let new = self.0.iter();
        let new = new.filter(|(role, description)| before.0.get(*role) != Some(*description));
        let new = new.map(|(role, description)| format!("{role}: {description}"));
        let gone = before.0.keys().filter(|role| !self.0.contains_key(*role));
        let gone = gone.map(|role| format!("{role}: none"));
        let changed: Vec<String> = new.chain(gone).collect();
        (!changed.is_empty()).then(|| changed.join(", "))
    }
}

/// Returns the host and port of a URL, and nothing else of it, because the rest may be secret.
fn place_of(url: &str) -> Option<String> {
    let url: Uri = url.trim().parse().ok()?;
    let port = url.port_u16().map(|port| format!(":{port}"));
    Some(format!("{}{}", url.host()?, port.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_and_removed_recipients_are_named() {
        let recipients = |all: &[(Role, &str)]| {
            let all = all.iter().cloned();
            Recipients(
                all.map(|(role, description)| (role, description.to_owned()))
                    .collect(),
            )
        };
        let before = recipients(&[(Role::REASONING, "a/m at x"), (Role::ROUTER, "b/m")]);
        assert_eq!(before.changed_since(&before), None);
        let now = recipients(&[(Role::REASONING, "a/m at y")]);
        let changed = now.changed_since(&before).unwrap();
        assert_eq!(changed, "reasoning: a/m at y, router: none");
    }

    #[test]
    fn only_the_host_and_port_of_an_address_are_named() {
        for (url, place) in [
            ("https://me:word@api.example/v1?key=k", Some("api.example")),
            ("http://127.0.0.1:8080/v1", Some("127.0.0.1:8080")),
            ("nothing like it", None),
        ] {
            assert_eq!(place_of(url).as_deref(), place, "{url}");
        }
    }
}
