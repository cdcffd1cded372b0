//! Token usage: counts with labels for how reliable they are, summed over attempts, calls and agents.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::Role;

/// How a count was obtained; when two labels meet in a sum, the weaker one stays.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CountLabel {
    /// Reported by the provider.
    #[default]
    Measured,
    /// Estimated by Neuraxis.
    Estimated,
    /// Not reported; the number is a lower bound.
    Unknown,
}

impl CountLabel {
    /// Returns the label's name in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
            Self::Unknown => "unknown",
        }
    }
}

/// A number of tokens and how it was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCount {
    /// The number; a lower bound if the label is unknown.
    pub tokens: u64,
    /// How it was obtained.
    pub label: CountLabel,
}

impl TokenCount {
    /// Creates a count that a provider reported.
    #[must_use]
    pub const fn measured(tokens: u64) -> Self {
        Self {
            tokens,
            label: CountLabel::Measured,
        }
    }

    /// Creates an estimated count.
    #[must_use]
    pub const fn estimated(tokens: u64) -> Self {
        Self {
            tokens,
            label: CountLabel::Estimated,
        }
    }

    /// An unknown count.
    pub const UNKNOWN: Self = Self {
        tokens: 0,
        label: CountLabel::Unknown,
    };
}

impl AddAssign for TokenCount {
    fn add_assign(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.label = self.label.max(other.label);
    }
}

/// The tokens that one or more model calls used. The default is zero, all measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "UsageWire", into = "UsageWire")]
pub struct Usage {
    /// The tokens that were sent, including cached tokens.
    pub prompt: TokenCount,
    /// The tokens that were returned, including reasoning.
    pub completion: TokenCount,
    /// Prompt and completion.
    pub total: TokenCount,
    /// The part of the completion that was reasoning.
    pub reasoning: TokenCount,
    /// The part of the prompt that came from the provider's cache.
    pub cached: TokenCount,
    /// The part of the completion that was tool calls.
    pub action: TokenCount,
    /// The part of the prompt that the provider wrote to its cache, which some providers bill separately; `None` if the
    /// provider does not count writes.
    pub cache_written: Option<TokenCount>,
}

impl Usage {
    /// Unknown usage.
    pub const UNKNOWN: Self = Self {
        prompt: TokenCount::UNKNOWN,
        completion: TokenCount::UNKNOWN,
        total: TokenCount::UNKNOWN,
        reasoning: TokenCount::UNKNOWN,
        cached: TokenCount::UNKNOWN,
        action: TokenCount::UNKNOWN,
        cache_written: None,
    };

    const FIELDS: [&'static str; 7] = [
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "reasoning_tokens",
        "cached_tokens",
        "action_tokens",
        "cache_write_tokens",
    ];

    /// Returns the tokens used, as far as reported: the provider's total, or the sum of its parts.
    #[must_use]
    pub fn all_tokens(&self) -> u64 {
        let parts = self.prompt.tokens.saturating_add(self.completion.tokens);
        self.total.tokens.max(parts)
    }

    fn counts(&self) -> [TokenCount; 7] {
        [
            self.prompt,
            self.completion,
            self.total,
            self.reasoning,
            self.cached,
            self.action,
            self.cache_written.unwrap_or_default(),
        ]
    }

    /// Returns zero tokens with these labels: adding it to a sum affects only how reliable the sum is.
    pub(crate) fn labels_alone(mut self) -> Self {
        let counts = [
            &mut self.prompt,
            &mut self.completion,
            &mut self.total,
            &mut self.reasoning,
            &mut self.cached,
            &mut self.action,
        ];
        for count in counts {
            count.tokens = 0;
        }
        self.cache_written = None;
        self
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt += other.prompt;
        self.completion += other.completion;
        self.total += other.total;
        self.reasoning += other.reasoning;
        self.cached += other.cached;
        self.action += other.action;
        if let Some(written) = other.cache_written {
            *self.cache_written.get_or_insert_default() += written;
        }
    }
}

/// The wire format: plain numbers under the usual field names, and labels only if a count is not measured.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct UsageWire {
    /// The tokens that were sent, including cached ones.
    #[serde(default)]
    prompt_tokens: u64,
    /// The tokens that were returned, including reasoning and tool calls.
    #[serde(default)]
    completion_tokens: u64,
    /// Prompt and completion together.
    #[serde(default)]
    total_tokens: u64,
    /// The part of the completion that was reasoning.
    #[serde(default)]
    reasoning_tokens: u64,
    /// The part of the prompt that came from the provider's cache.
    #[serde(default)]
    cached_tokens: u64,
    /// The part of the completion that was tool calls.
    #[serde(default)]
    action_tokens: u64,
    /// The part of the prompt that the provider wrote to its cache. Absent if the provider does not count this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
    /// How each count was obtained, by the name of its field. A count that is not listed was measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, CountLabel>,
}

impl From<Usage> for UsageWire {
    fn from(usage: Usage) -> Self {
        let labels = Usage::FIELDS.iter().zip(usage.counts());
        let labels = labels.filter(|(_, count)| count.label != CountLabel::Measured);
        Self {
            prompt_tokens: usage.prompt.tokens,
            completion_tokens: usage.completion.tokens,
            total_tokens: usage.total.tokens,
            reasoning_tokens: usage.reasoning.tokens,
            cached_tokens: usage.cached.tokens,
            action_tokens: usage.action.tokens,
            cache_write_tokens: usage.cache_written.map(|count| count.tokens),
            labels: labels
                .map(|(field, count)| ((*field).to_owned(), count.label))
                .collect(),
        }
    }
}

impl From<UsageWire> for Usage {
    fn from(wire: UsageWire) -> Self {
        let count = |field: &str, tokens| TokenCount {
            tokens,
            label: wire
                .labels
                .get(field)
                .copied()
                .unwrap_or(CountLabel::Measured),
        };
        Self {
            prompt: count("prompt_tokens", wire.prompt_tokens),
            completion: count("completion_tokens", wire.completion_tokens),
            total: count("total_tokens", wire.total_tokens),
            reasoning: count("reasoning_tokens", wire.reasoning_tokens),
            cached: count("cached_tokens", wire.cached_tokens),
            action: count("action_tokens", wire.action_tokens),
            cache_written: wire
                .cache_write_tokens
                .map(|tokens| count("cache_write_tokens", tokens)),
        }
    }
}

/// The usage of a whole run: in total and per role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunUsage {
    /// The total.
    #[serde(flatten)]
    pub total: Usage,
    /// Per role that served a call.
    #[serde(default, skip_serializing_if = "RoleUsage::is_empty")]
    pub roles: RoleUsage,
}

/// Usage per role. A list, because a run has few roles and its usage is reported often.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleUsage(Vec<(Role, Usage)>);

impl RoleUsage {
    /// Returns the usage of the calls that a role served.
    #[must_use]
    pub fn get(&self, role: &Role) -> Option<&Usage> {
        let mut all = self.0.iter();
        all.find_map(|(known, usage)| (known == role).then_some(usage))
    }

    /// Returns all roles that served a call, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Role, &Usage)> {
        self.0.iter().map(|(role, usage)| (role, usage))
    }

    /// Returns whether no role served a call.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, role: &Role, usage: Usage) {
        match self.0.binary_search_by(|(known, _)| known.cmp(role)) {
            Ok(place) => {
                if let Some((_, sum)) = self.0.get_mut(place) {
                    *sum += usage;
                }
            }
            Err(place) => {
                // Most runs have only one role.
                self.0.reserve_exact(1);
                self.0.insert(place, (role.clone(), usage));
            }
        }
    }
}

impl std::ops::Index<&Role> for RoleUsage {
    type Output = Usage;

    /// Returns the usage of the calls that a role served: zero if it served none.
    fn index(&self, role: &Role) -> &Usage {
        const NONE: Usage = Usage {
            prompt: TokenCount::measured(0),
            completion: TokenCount::measured(0),
            total: TokenCount::measured(0),
            reasoning: TokenCount::measured(0),
            cached: TokenCount::measured(0),
            action: TokenCount::measured(0),
            cache_written: None,
        };
        self.get(role).unwrap_or(&NONE)
    }
}

impl<'a> IntoIterator for &'a RoleUsage {
    type Item = (&'a Role, &'a Usage);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, (Role, Usage)>,
        fn(&'a (Role, Usage)) -> (&'a Role, &'a Usage),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(role, usage)| (role, usage))
    }
}

impl Serialize for RoleUsage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for RoleUsage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let roles = BTreeMap::<Role, Usage>::deserialize(deserializer)?;
        Ok(Self(roles.into_iter().collect()))
    }
}

impl RunUsage {
    /// Adds the usage of another part of the run.
    pub fn merge(&mut self, other: &Self) {
        self.total += other.total;
        for (role, usage) in other.roles.iter() {
            self.roles.add(role, *usage);
        }
    }

    /// Adds the usage of one attempt of a model call.
    pub fn add(&mut self, role: &Role, usage: Usage) {
        self.total += usage;
        self.roles.add(role, usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_sum_has_the_label_of_its_weakest_part() {
        let mut count = TokenCount::measured(5);
        count += TokenCount::estimated(2);
        assert_eq!(count, TokenCount::estimated(7));
        count += TokenCount::UNKNOWN;
        assert_eq!((count.tokens, count.label), (7, CountLabel::Unknown));
    }

    #[test]
    fn labels_are_written_only_for_counts_that_are_not_measured() {
        let usage = Usage {
            prompt: TokenCount::measured(3),
            reasoning: TokenCount::UNKNOWN,
            ..Usage::default()
        };
        let text = serde_json::to_string(&usage).unwrap();
        assert!(
            text.ends_with(r#""labels":{"reasoning_tokens":"unknown"}}"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), usage);
    }
    #[test]
    fn cache_writes_are_added_up_and_reported_only_if_a_provider_counts_them() {
        let text = serde_json::to_string(&Usage::default()).unwrap();
        assert!(!text.contains("cache_write"), "{text}");
        let mut usage = Usage {
            cache_written: Some(TokenCount::measured(5)),
            ..Usage::default()
        };
        usage += Usage::UNKNOWN;
        usage += Usage {
            cache_written: Some(TokenCount::estimated(2)),
            ..Usage::default()
        };
        assert_eq!(usage.cache_written, Some(TokenCount::estimated(7)));
        let text = serde_json::to_string(&usage).unwrap();
        assert!(text.contains(r#""cache_write_tokens":7"#), "{text}");
        assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), usage);
    }
}
