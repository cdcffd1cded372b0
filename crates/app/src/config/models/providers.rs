//! Which provider each role has, source by source.

use std::collections::BTreeMap;

use toml::Table;

use crate::providers::Provider;

/// The provider of each role, from a given rank of sources on: files, then variables, then flags.
///
/// A source that names another provider than weaker sources discards their settings for the role: a model name or an
/// address of one provider is useless for another.
#[derive(Debug, Default)]
pub(in crate::config) struct Providers(BTreeMap<String, Vec<(usize, Provider)>>);

impl Providers {
    /// Collects the providers from the sources, the weakest first, each with its rank.
    pub(in crate::config) fn of<'a>(sources: impl IntoIterator<Item = (usize, &'a Table)>) -> Self {
        let mut providers = Self::default();
        for (rank, table) in sources {
            let models = table.get("models").and_then(|models| models.as_table());
            for (role, section) in models.into_iter().flatten() {
                let named = section
                    .get("provider")
                    .and_then(|provider| provider.as_str());
                if let Some(provider) = named.and_then(Provider::named) {
                    providers.add(role, rank, provider);
                }
            }
        }
        providers
    }

    /// Returns the provider of a role at a rank. If no source up to that rank names one, the next source that does
    /// decides.
    pub(in crate::config) fn at(&self, role: &str, rank: usize) -> Option<Provider> {
        let named = self.0.get(role)?;
        let before = named.iter().rev().find(|(from, _)| *from <= rank);
        before.or(named.first()).map(|(_, provider)| *provider)
    }

    /// Returns the provider of a role after all sources.
    pub(in crate::config) fn last(&self, role: &str) -> Option<Provider> {
        self.at(role, usize::MAX)
    }

    /// Returns the rank at which the section of a role starts: weaker sources' settings are for another provider.
    pub(in crate::config) fn begin(&self, role: &str) -> usize {
        match self.0.get(role).map(Vec::as_slice) {
            Some([_, .., (rank, _)]) => *rank,
            _ => 0,
        }
    }

    fn add(&mut self, role: &str, rank: usize, provider: Provider) {
        let named = self.0.entry(role.to_owned()).or_default();
        // Of several sources with the same rank, the last one decides.
        named.retain(|(other, _)| *other != rank);
        if named.last().is_none_or(|(_, last)| *last != provider) {
            named.push((rank, provider));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn providers(said: &[(usize, &str)]) -> Providers {
        let tables: Vec<(usize, Table)> = said
            .iter()
            .map(|(rank, name)| {
                let text = format!("models.coding.provider = '{name}'");
                (*rank, toml::from_str(&text).unwrap())
            })
            .collect();
        Providers::of(tables.iter().map(|(rank, table)| (*rank, table)))
    }

    #[test]
    fn a_different_provider_restarts_the_section_and_the_same_one_does_not() {
        let same = providers(&[(0, "llama"), (2, "llama")]);
        assert_eq!(same.begin("coding"), 0);
        let other = providers(&[(0, "llama"), (2, "openai"), (2, "deepseek")]);
        assert_eq!(other.begin("coding"), 2);
        assert_eq!(other.at("coding", 1), Provider::named("llama"));
        assert_eq!(other.last("coding"), Provider::named("deepseek"));
    }

    #[test]
    fn keys_may_precede_their_provider() {
        let late = providers(&[(2, "openai")]);
        assert_eq!(late.at("coding", 0), Provider::named("openai"));
        assert_eq!(late.begin("coding"), 0);
        assert_eq!(late.last("router"), None);
    }
}
