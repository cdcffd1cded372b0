//! Images, sounds and files in messages: how to create, find and display them.
//!
//! This module does not check whether the content matches its declared type (the code that accepts it does), nor who
//! may be sent it.

use std::fmt;
use std::sync::Arc;

use super::{MediaPart, MediaSource, Message, Part};

impl MediaPart {
    /// Creates a part with inline content, in base64.
    ///
    /// ```
    /// use neuraxis_core::MediaPart;
    ///
    /// let pixel = MediaPart::embedded("image/gif", "R0lGODlhAQABAAAAACw=");
    /// assert_eq!(pixel.to_string(), "image/gif, 14 bytes");
    /// ```
    pub fn embedded(media_type: impl Into<String>, base64: impl Into<Arc<str>>) -> Self {
        Self {
            media_type: media_type.into(),
            source: MediaSource::Base64(base64.into()),
        }
    }

    /// Returns the size of the content in bytes; `None` if it is at a URL.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        match &self.source {
            // Every four characters encode three bytes, and the last ones may be padding.
            MediaSource::Base64(content) => Some(content.trim_end_matches('=').len() * 3 / 4),
            MediaSource::Url(_) => None,
        }
    }
}

/// Describes the part for users: its type and size, never its content.
impl fmt::Display for MediaPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.media_type;
        match self.bytes() {
            Some(bytes @ 0..1_024) => write!(f, "{kind}, {bytes} bytes"),
            Some(bytes) => write!(f, "{kind}, {} KiB", bytes / 1_024),
            None => write!(f, "{kind}, at an address"),
        }
    }
}

/// Which media types a model accepts in messages beside text, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MediaTypes {
    /// Not known: everything that the protocol can express is sent, and the server may refuse it.
    #[default]
    Unknown,
    /// Only these, such as `image/png`, or `image/*` for all of a kind.
    Only(&'static [&'static str]),
}

impl MediaTypes {
    /// Text only.
    pub const NONE: Self = Self::Only(&[]);

    /// Returns whether a model is known to reject media of a type.
    #[must_use]
    pub fn refuses(self, media_type: &str) -> bool {
        match self {
            Self::Unknown => false,
            Self::Only(_) => !self.takes(media_type),
        }
    }

    /// Returns whether a model is known to accept media of a type.
    #[must_use]
    pub fn takes(self, media_type: &str) -> bool {
        let is_it = |known: &&str| match known.strip_suffix('*') {
            Some(kind) => media_type.starts_with(kind),
            None => *known == media_type,
        };
        matches!(self, Self::Only(types) if types.iter().any(is_it))
    }
}

/// Lists the types for users.
impl fmt::Display for MediaTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown types"),
            Self::Only([]) => f.write_str("only text"),
            Self::Only(types) => write!(f, "text, {}", types.join(", ")),
        }
    }
}

impl From<MediaPart> for Part {
    fn from(part: MediaPart) -> Self {
        Self::Media(part)
    }
}

impl Message {
    /// Returns the images, sounds and files of a message.
    pub fn media(&self) -> impl Iterator<Item = &MediaPart> {
        let (parts, of_tool): (&[Part], &[MediaPart]) = match self {
            Self::System { .. } => (&[], &[]),
            Self::User { parts } => (parts, &[]),
            Self::Assistant(message) => (&message.parts, &[]),
            Self::Tool(tool) => (&[], &tool.media),
        };
        let parts = parts.iter().filter_map(|part| match part {
            Part::Media(part) => Some(part),
            _ => None,
        });
        parts.chain(of_tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_media_types_known_to_be_unsupported_are_refused() {
        assert!(!MediaTypes::Unknown.refuses("image/png"));
        assert!(MediaTypes::NONE.refuses("image/png"));
        let images = MediaTypes::Only(&["image/png"]);
        assert!(!images.refuses("image/png"));
        assert!(images.refuses("audio/wav"));
        assert!(images.takes("image/png") && !MediaTypes::Unknown.takes("image/png"));
        assert_eq!(images.to_string(), "text, image/png");
        let all_images = MediaTypes::Only(&["image/*"]);
        assert!(all_images.takes("image/avif") && all_images.refuses("audio/wav"));
    }

    #[test]
    fn a_part_is_named_by_type_and_size() {
        for (content, said) in [("", "0 bytes"), ("QUI=", "2 bytes"), ("QUJD", "3 bytes")] {
            let part = MediaPart::embedded("image/png", content);
            assert_eq!(part.to_string(), format!("image/png, {said}"));
        }
        let large = MediaPart::embedded("image/png", "A".repeat(4_096 * 4));
        assert_eq!(large.to_string(), "image/png, 12 KiB");
        let source = MediaSource::Url("https://example.com/secret".to_owned());
        let media_type = "image/png".to_owned();
        let far = MediaPart { media_type, source };
        assert_eq!(far.to_string(), "image/png, at an address");
    }
}
