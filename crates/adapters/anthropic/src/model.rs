//! Differences between models, as far as their names show them.
//!
//! Based on docs.claude.com/en/docs/about-claude/models and the guides to thinking and to tools there. A model whose
//! name shows nothing is assumed to accept every setting except a temperature.

/// A version of a model family, such as 4.6.
type Version = (u32, u32);

/// The first version that accepts no temperature.
const FIRST_WITHOUT_TEMPERATURE: Version = (4, 7);

/// The first version with a context of a million tokens, and with replies of twice the size.
const FIRST_WITH_LONG_CONTEXT: Version = (4, 6);

/// The first version that accepts a thinking budget in tokens, and the first that no longer does.
const BUDGETS: std::ops::Range<Version> = (3, 7)..(4, 7);

/// The first version that can decide how long it thinks.
const FIRST_ADAPTIVE: Version = (4, 6);

/// The first version that thinks by default.
const FIRST_THINKING_BY_DEFAULT: Version = (5, 0);

/// The first version in which all families accept an effort; Opus accepts one from the version before.
const FIRST_WITH_EFFORT: Version = (4, 6);

/// The first version of Opus whose thinking cannot be turned off; that of Fable and Mythos never can.
const FIRST_ALWAYS_THINKING_OPUS: Version = (5, 5);

/// The first version whose thinking is valid only for the exact beginning of a conversation; earlier for Fable and
/// Mythos.
const FIRST_BOUND: Version = (5, 5);
const FIRST_BOUND_FABLE: Version = (5, 1);

/// The first version of most families that cannot be forced to call a tool.
const FIRST_UNFORCED: Version = (5, 5);

/// What is known about a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelTraits {
    /// It can be forced to call a tool.
    pub(crate) can_be_forced: bool,
    /// It accepts a temperature while it is not thinking.
    pub(crate) takes_temperature: bool,
    /// It accepts a thinking budget in tokens.
    pub(crate) takes_budget: bool,
    /// It can decide how much it thinks.
    pub(crate) is_adaptive: bool,
    /// It thinks by default, as much as it decides.
    pub(crate) thinks_by_default: bool,
    /// Its thinking can be turned off.
    pub(crate) can_stop_thinking: bool,
    /// It accepts its thinking back only after the exact conversation that it was produced for.
    pub(crate) binds_thinking: bool,
    /// It accepts an effort.
    pub(crate) takes_effort: bool,
    /// The maximum number of tokens of a conversation with its reply.
    pub(crate) context_tokens: Option<u64>,
    /// The maximum number of tokens of a reply, including thinking.
    pub(crate) max_output_tokens: Option<u32>,
}

impl ModelTraits {
    /// The assumptions about a model whose name shows nothing: the author of its configuration knows how it thinks.
    pub(crate) const UNKNOWN: Self = Self {
        can_be_forced: true,
        takes_temperature: false,
        takes_budget: true,
        is_adaptive: true,
        thinks_by_default: false,
        can_stop_thinking: true,
        binds_thinking: false,
        takes_effort: true,
        context_tokens: None,
        max_output_tokens: None,
    };

    /// Returns the traits that a model's name shows.
    pub(crate) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let Some((_, rest)) = name.split_once("claude-") else {
            return Self::UNKNOWN;
        };
        let (family, version) = family_and_version(rest);
        let Some(version) = version else {
            return Self::UNKNOWN;
        };
        let is_long = version >= FIRST_WITH_LONG_CONTEXT;
        let is_always_thinking = matches!(family, "fable" | "mythos");
        let is_always_thinking_opus = family == "opus" && version >= FIRST_ALWAYS_THINKING_OPUS;
        let is_unforced = version >= FIRST_UNFORCED && family != "haiku";
        Self {
            can_be_forced: !is_always_thinking && !is_unforced,
            takes_temperature: version < FIRST_WITHOUT_TEMPERATURE,
            takes_budget: BUDGETS.contains(&version),
            is_adaptive: version >= FIRST_ADAPTIVE,
            thinks_by_default: is_always_thinking || version >= FIRST_THINKING_BY_DEFAULT,
            can_stop_thinking: !is_always_thinking && !is_always_thinking_opus,
            binds_thinking: version >= FIRST_BOUND
                || (is_always_thinking && version >= FIRST_BOUND_FABLE),
            takes_effort: version >= FIRST_WITH_EFFORT || (family == "opus" && version == (4, 5)),
            context_tokens: Some(if is_long { 1_000_000 } else { 200_000 }),
            max_output_tokens: Some(match version {
                _ if is_long => 128_000,
                (4, 5) | (3, 7) => 64_000,
                (4, _) if family == "sonnet" => 64_000,
                (4, _) => 32_000,
                (3, 5) => 8_192,
                _ => 4_096,
            }),
        }
    }
}

/// Parses what follows `claude-`: `opus-4-8`, `sonnet-4-5-20250929`, or, for older models, `3-5-haiku-latest`.
fn family_and_version(rest: &str) -> (&str, Option<Version>) {
    let end = rest
        .find(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '-' | '.'))
        .unwrap_or(rest.len());
    let words = || {
        let rest = rest.get(..end).unwrap_or_default();
        rest.split(['-', '.'])
    };
    let family = words().find(|word| word.starts_with(|letter: char| letter.is_ascii_alphabetic()));
    // A date has eight digits.
    let mut numbers = words()
        .filter(|word| word.len() <= 2)
        .filter_map(|word| word.parse().ok());
    let version = numbers
        .next()
        .map(|major| (major, numbers.next().unwrap_or(0)));
    (family.unwrap_or_default(), version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_and_sizes_are_derived_from_model_names() {
        for (name, forced, temperature, context, output) in [
            ("claude-fable-5-2", false, false, 1_000_000, 128_000),
            ("claude-mythos-5", false, false, 1_000_000, 128_000),
            ("claude-opus-5-5", false, false, 1_000_000, 128_000),
            ("claude-opus-7", false, false, 1_000_000, 128_000),
            (
                "claude-sonnet-5-5-20261001",
                false,
                false,
                1_000_000,
                128_000,
            ),
            ("claude-haiku-5-5", true, false, 1_000_000, 128_000),
            ("claude-opus-5", true, false, 1_000_000, 128_000),
            ("claude-opus-5-20260601", true, false, 1_000_000, 128_000),
            ("claude-opus-4-8", true, false, 1_000_000, 128_000),
            ("claude-sonnet-4-6", true, true, 1_000_000, 128_000),
            (
                "anthropic/claude-sonnet-4.6",
                true,
                true,
                1_000_000,
                128_000,
            ),
            (
                "us.anthropic.claude-opus-4-6-v1:0",
                true,
                true,
                1_000_000,
                128_000,
            ),
            ("claude-sonnet-4-5-20250929", true, true, 200_000, 64_000),
            ("claude-sonnet-4@20250514", true, true, 200_000, 64_000),
            ("claude-opus-4-1-20250805", true, true, 200_000, 32_000),
            ("claude-3-7-sonnet-latest", true, true, 200_000, 64_000),
            ("claude-3-5-haiku-20241022", true, true, 200_000, 8_192),
            ("claude-3-haiku-20240307", true, true, 200_000, 4_096),
        ] {
            let traits = ModelTraits::of(name);
            let is = (traits.can_be_forced, traits.takes_temperature);
            assert_eq!(is, (forced, temperature), "{name}");
            let sizes = (traits.context_tokens, traits.max_output_tokens);
            assert_eq!(sizes, (Some(context), Some(output)), "{name}");
        }
    }

    #[test]
    fn thinking_traits_are_derived_from_model_names() {
        for (name, budget, adaptive, stops, effort) in [
            ("claude-fable-5-2", false, true, false, true),
            ("claude-mythos-5", false, true, false, true),
            ("claude-opus-5-5", false, true, false, true),
            ("claude-sonnet-5-5", false, true, true, true),
            ("claude-haiku-5-5", false, true, true, true),
            ("claude-opus-5", false, true, true, true),
            ("claude-opus-4-7", false, true, true, true),
            ("claude-opus-4-6", true, true, true, true),
            ("anthropic/claude-sonnet-4.6", true, true, true, true),
            ("claude-opus-4-5-20251101", true, false, true, true),
            ("claude-sonnet-4-5", true, false, true, false),
            ("claude-haiku-4-5", true, false, true, false),
            ("claude-opus-4-1", true, false, true, false),
            ("claude-3-7-sonnet-latest", true, false, true, false),
            ("claude-3-5-haiku-20241022", false, false, true, false),
            ("my-gateway-model", true, true, true, true),
        ] {
            let traits = ModelTraits::of(name);
            let thinks = (traits.takes_budget, traits.is_adaptive);
            assert_eq!(thinks, (budget, adaptive), "{name}");
            let is = (traits.can_stop_thinking, traits.takes_effort);
            assert_eq!(is, (stops, effort), "{name}");
        }
    }

    #[test]
    fn default_and_bound_thinking_are_derived_from_model_names() {
        for (name, by_default, bound) in [
            ("claude-fable-5-2", true, true),
            ("claude-mythos-5", true, false),
            ("claude-opus-5-5", true, true),
            ("claude-opus-5", true, false),
            ("claude-sonnet-5", true, false),
            ("claude-haiku-5-5", true, true),
            ("claude-opus-4-8", false, false),
            ("claude-sonnet-4-6", false, false),
            ("my-gateway-model", false, false),
        ] {
            let traits = ModelTraits::of(name);
            let is = (traits.thinks_by_default, traits.binds_thinking);
            assert_eq!(is, (by_default, bound), "{name}");
        }
    }

    #[test]
    fn an_unrecognized_model_name_has_unknown_traits() {
        for name in [
            "",
            "my-gateway-model",
            "claude-",
            "claude-opus",
            "claude-opus-20991231",
        ] {
            assert_eq!(ModelTraits::of(name), ModelTraits::UNKNOWN, "{name}");
        }
    }
}
