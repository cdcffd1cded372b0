//! JSON kept as text: arguments and results pass through the core without being parsed into a tree.
//!
//! The exact bytes matter (they are hashed, shown for approval and sent again), so they are never re-encoded.

mod layout;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::ids::{InvalidId, serialize_as_text};

pub use layout::laid_out_json;

/// A string that is, or claims to be, JSON. Model output may be anything; [`JsonText::is_valid`] checks it.
///
/// Cloning shares the string. It serializes as a string; a record's `value` is embedded as JSON instead.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Wraps a string as it is, valid or not.
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Encodes a value.
    ///
    /// # Errors
    ///
    /// If the value cannot be written as JSON, for example a map whose keys are not strings.
    pub fn encode(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// Encodes a string as a JSON string.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::encode(text).unwrap_or_else(|_| Self::from_text("\"\""))
    }

    /// Creates the result of a failed call, `{"error": "…"}`.
    #[must_use]
    pub fn error(message: &str) -> Self {
        Self(format!("{{\"error\":{}}}", Self::string(message)).into())
    }

    /// Returns the message of an [`error`](Self::error); `None` if this is not one.
    #[must_use]
    pub fn error_message(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Failed {
            error: String,
        }
        let failed: Failed = self.decode().ok()?;
        Some(failed.error)
    }

    /// Decodes the text.
    ///
    /// # Errors
    ///
    /// If the text is not JSON or does not have the shape of `T`; the error names line and column.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Returns what a reader should see: a JSON string without its quotes and escapes, borrowed if it has no escapes,
    /// and anything else unchanged.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        // Most values are objects. Creating a parse error for each of them would cost more than this check.
        let is_text = self.0.trim_start().starts_with('"');
        let text = is_text.then(|| self.decode::<Text<'_>>());
        match text {
            Some(Ok(text)) => text.0,
            Some(Err(_)) | None => Cow::Borrowed(&self.0),
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is one JSON value.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        serde_json::from_str::<&RawValue>(&self.0).is_ok()
    }

    /// Returns the text if it is one JSON value on one line without surrounding whitespace; otherwise returns the text
    /// as a JSON string. A record's `value` must have this form, since a log has one record per line.
    #[must_use]
    pub fn into_value(self) -> Self {
        // Whitespace around a value would be lost when it is read back from its record.
        let value = self.0.trim_matches([' ', '\t', '\n', '\r']);
        if !self.is_valid() || value.contains(['\n', '\r']) {
            Self::string(&self.0)
        } else if value.len() < self.0.len() {
            Self::from_text(value)
        } else {
            self
        }
    }

    /// Returns the SHA-256 of the exact bytes.
    #[must_use]
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({})", self.0)
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Strips the Markdown code fence that models often put around JSON, and surrounding whitespace.
#[must_use]
pub fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text
        .strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"))
    else {
        return text;
    };
    // The language, if given, ends at the line break.
    inner
        .split_once('\n')
        .filter(|(language, _)| !language.contains('{'))
        .map_or(inner, |(_, rest)| rest)
        .trim()
}

/// Embeds a [`JsonText`] as JSON inside the surrounding JSON. For fields that `serde_json` reads directly, not through
/// `flatten` or a tagged enum. Such a field holds what [`JsonText::into_value`] returns.
pub(crate) mod embedded {
    use super::{Deserialize, Deserializer, JsonText, RawValue, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        text: &JsonText,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(text.as_str()) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => text.serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<JsonText, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(JsonText::from_text(Box::<str>::from(raw)))
    }
}

/// Like [`embedded`], for an optional text.
pub(crate) mod optional_embedded {
    use super::{Deserialize, Deserializer, JsonText, RawValue, Serializer, embedded};

    pub(crate) fn serialize<S: Serializer>(
        text: &Option<JsonText>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match text {
            Some(text) => embedded::serialize(text, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<JsonText>, D::Error> {
        let raw = Option::<Box<RawValue>>::deserialize(deserializer)?;
        Ok(raw.map(|raw| JsonText::from_text(Box::<str>::from(raw))))
    }
}

/// Returns whether a field has its default, so that it is omitted when serialized.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A SHA-256 hash, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Hashes bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the hash of a sequence that had the hash `self` and continues with `item`.
    #[must_use]
    pub fn chain(self, item: ContentHash) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(item.0);
        Self(hasher.finalize().into())
    }

    /// Wraps a SHA-256 digest.
    pub(crate) const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Creates a hash from 32 bytes; `None` for any other length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The start of a chain: all zeros.
    pub const EMPTY: Self = Self([0; 32]);
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

impl FromStr for ContentHash {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidId {
            what: "hash",
            rule: "64 hexadecimal digits",
        })?;
        Ok(Self(bytes))
    }
}

serialize_as_text!(ContentHash);
