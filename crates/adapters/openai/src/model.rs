//! The differences between models, as far as their names tell.
//!
//! Sources: OpenAI's guides to reasoning (platform.openai.com/docs/guides/reasoning) and, for tools on Chat
//! Completions, github.com/openai/openai-openapi/issues/541.

use neuraxis_core::MediaTypes;

/// The first version of GPT that refuses function tools on Chat Completions while it reasons.
const FIRST_TO_REFUSE_TOOLS: (u32, u32) = (5, 4);

/// The first version of GPT that reasons.
const FIRST_TO_REASON: (u32, u32) = (5, 0);

/// What is known about a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelTraits {
    /// Whether the model reasons. If so, it takes instructions in the developer role, and refuses a temperature.
    pub(crate) reasons: bool,
    /// Whether the model refuses function tools on Chat Completions while it reasons, which it does unless reasoning is
    /// turned off.
    pub(crate) refuses_tools_on_chat: bool,
}

impl ModelTraits {
    /// Returns the traits that a model's name implies. An unknown name is taken for a model that does not reason.
    pub(crate) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let name = name.rsplit_once('/').map_or(&*name, |(_, name)| name);
        let name = name.strip_prefix("ft:").unwrap_or(name);
        let version = name.strip_prefix("gpt-").and_then(version);
        let is_o = name
            .strip_prefix('o')
            .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
        // The models behind ChatGPT do not reason.
        let is_chat = name.contains("-chat");
        let is_gpt = version.is_some_and(|version| version >= FIRST_TO_REASON) && !is_chat;
        Self {
            reasons: is_o || is_gpt || name.starts_with("codex-"),
            refuses_tools_on_chat: is_gpt
                && version.is_some_and(|version| version >= FIRST_TO_REFUSE_TOOLS),
        }
    }
}

/// Returns the maximum number of prompt tokens of an OpenAI model, by its name.
///
/// Source: platform.openai.com/docs/models. For models that reserve a part of their context for the reply, this is the
/// remainder. A GPT newer than the listed ones is taken to have at least as much as the newest of them. An unknown name
/// gives no size.
pub(crate) fn context_tokens(name: &str) -> Option<u64> {
    let name = name.to_ascii_lowercase();
    let name = name
        .strip_prefix("ft:")
        .map_or(&*name, |tuned| tuned.split(':').next().unwrap_or_default());
    let is = |family: &str| name == family || name.strip_prefix(family).is_some_and(is_variant);
    let reasons = ModelTraits::of(name).reasons;
    Some(match name.strip_prefix("gpt-").and_then(version) {
        Some(version) if version >= FIRST_TO_REASON && reasons => 272_000,
        Some(version) if version >= FIRST_TO_REASON => 128_000,
        Some((4, 1)) => 1_047_576,
        _ if is("gpt-4o") || is("gpt-4-turbo") || is("chatgpt-4o") => 128_000,
        _ if is("o1-mini") || is("o1-preview") => 128_000,
        _ if is("o1") || is("o3") || is("o4") => 200_000,
        _ if is("gpt-4") => 8_192,
        _ if is("gpt-3.5-turbo") => 16_385,
        _ => return None,
    })
}

/// Images and documents, as OpenAI's guides list them (platform.openai.com/docs/guides/images-vision and
/// /docs/guides/pdf-files): its models that accept images also read PDFs.
const SEEN: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/gif",
    "application/pdf",
];

/// Returns the media types that an OpenAI model accepts, by its name (platform.openai.com/docs/models). A GPT newer
/// than the listed ones is taken to accept what the newest of them do. An unknown name gives no answer.
pub(crate) fn media_types(name: &str) -> MediaTypes {
    let name = name.to_ascii_lowercase();
    let name = name
        .strip_prefix("ft:")
        .map_or(&*name, |tuned| tuned.split(':').next().unwrap_or_default());
    let is = |family: &str| name == family || name.strip_prefix(family).is_some_and(is_variant);
    match name.strip_prefix("gpt-").and_then(version) {
        _ if name.contains("-audio") || name.contains("-search") => MediaTypes::Unknown,
        Some(version) if version >= (4, 1) => MediaTypes::Only(SEEN),
        _ if is("gpt-4o") || is("gpt-4-turbo") || is("chatgpt-4o") => MediaTypes::Only(SEEN),
        _ if is("o1-mini") || is("o1-preview") || is("o3-mini") => MediaTypes::NONE,
        _ if is("o1") || is("o3") || is("o4") => MediaTypes::Only(SEEN),
        _ if is("gpt-4") || is("gpt-3.5-turbo") => MediaTypes::NONE,
        _ => MediaTypes::Unknown,
    }
}

/// Returns whether the text after a family's name is that of a variant.
fn is_variant(rest: &str) -> bool {
    rest.starts_with('-')
}

/// Parses a version such as the one in `5.4-mini`.
fn version(text: &str) -> Option<(u32, u32)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let number = text.get(..end.unwrap_or(text.len()))?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_sizes_are_derived_from_model_names() {
        for (name, tokens) in [
            ("gpt-5.4-mini", Some(272_000)),
            ("gpt-5", Some(272_000)),
            ("gpt-7", Some(272_000)),
            ("gpt-5-chat-latest", Some(128_000)),
            ("gpt-4.1-nano", Some(1_047_576)),
            ("GPT-4o-mini", Some(128_000)),
            ("ft:gpt-4o-mini:me:x:1", Some(128_000)),
            ("gpt-4-turbo-2024-04-09", Some(128_000)),
            ("gpt-4", Some(8_192)),
            ("gpt-4-0613", Some(8_192)),
            ("gpt-3.5-turbo", Some(16_385)),
            ("o1", Some(200_000)),
            ("o1-mini", Some(128_000)),
            ("o4-mini-2026-01-01", Some(200_000)),
            ("gpt-oss-120b", None),
            ("olmo-3", None),
            ("my-deployment", None),
            ("gpt-test", None),
            ("", None),
        ] {
            assert_eq!(context_tokens(name), tokens, "{name}");
        }
    }

    #[test]
    fn accepted_media_types_are_derived_from_model_names() {
        for (name, images) in [
            ("gpt-5.4-mini", Some(true)),
            ("gpt-7", Some(true)),
            ("gpt-4.1-nano", Some(true)),
            ("GPT-4o-mini", Some(true)),
            ("ft:gpt-4o-mini:me:x:1", Some(true)),
            ("o4-mini-2026-01-01", Some(true)),
            ("o1", Some(true)),
            ("o3-mini", Some(false)),
            ("o1-mini", Some(false)),
            ("gpt-4", Some(false)),
            ("gpt-4-0613", Some(false)),
            ("gpt-3.5-turbo", Some(false)),
            ("gpt-4o-audio-preview", None),
            ("gpt-oss-120b", None),
            ("my-deployment", None),
            ("", None),
        ] {
            let media = media_types(name);
            let known = match media {
                MediaTypes::Unknown => None,
                MediaTypes::Only(_) => Some(media.takes("image/png")),
            };
            assert_eq!(known, images, "{name}");
        }
    }

    #[test]
    fn traits_are_derived_from_model_names() {
        for (name, reasons, refuses) in [
            ("gpt-5.6", true, true),
            ("gpt-5.5-mini", true, true),
            ("gpt-5.4-2026-03-05", true, true),
            ("openai/GPT-5.4", true, true),
            ("gpt-6", true, true),
            ("gpt-5.3-codex", true, false),
            ("gpt-5", true, false),
            ("gpt-5-mini", true, false),
            ("gpt-5-chat-latest", false, false),
            ("o3", true, false),
            ("o4-mini-2026-01-01", true, false),
            ("codex-mini-latest", true, false),
            ("gpt-4o", false, false),
            ("gpt-4.1-mini", false, false),
            ("ft:gpt-4o-mini:me:x:1", false, false),
            ("gpt-3.5-turbo", false, false),
            ("chatgpt-4o-latest", false, false),
            ("gpt-oss-120b", false, false),
            ("olmo-3", false, false),
            ("my-deployment", false, false),
            ("", false, false),
            ("gpt-99999999999.1", false, false),
        ] {
            let traits = ModelTraits::of(name);
            assert_eq!(
                (traits.reasons, traits.refuses_tools_on_chat),
                (reasons, refuses),
                "{name}"
            );
        }
    }
}
