//! Checks of content that is attached to a message or returned by a tool: it must be what its type says, and within the
//! size limits.
//!
//! Types are detected from the content, never from a name, because a file name, a tool or a server can claim anything.
//! Not for whether a model accepts a type, which `runs/attachments.rs` decides, nor for how it is sent to a provider.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use neuraxis_core::{MediaPart, MediaSource, MediaTypes, Message, ModelRef, Part};

/// The maximum size in bytes of one image, sound or file. In base64 it stays below the 10 MB that Anthropic accepts for
/// one (docs.claude.com/en/docs/build-with-claude/vision), the lowest limit of the providers.
pub const MAX_MEDIA_BYTES: usize = 7 * 1024 * 1024;

/// The maximum total size in bytes of all images, sounds and files of one message or result, including attached texts.
/// In base64 they stay below the 32 MB that Anthropic accepts for a request. A run records them twice, as received and
/// with the model call that first sends them, which leaves a fifth of what it may record for everything else.
pub const MAX_MEDIA_BYTES_IN_ALL: usize = 15 * 1024 * 1024;

/// The maximum number of images, sounds and files of one message or result, including attached texts. Up to this
/// number, Anthropic accepts images of full size.
pub const MAX_MEDIA_PARTS: usize = 20;

/// The maximum size in bytes of an attached text.
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// The maximum number of characters of a file's name that is shown to a model.
const MAX_NAME_CHARS: usize = 120;

/// The maximum number of bytes around a text to name its file: the name twice, in characters of up to four bytes.
const MAX_FRAME_BYTES: usize = 2 * 4 * MAX_NAME_CHARS + 32;

/// Type names with the same meaning: the declared name, and the name that the content is detected as.
const SAME: [(&str, &str); 5] = [
    ("image/jpg", "image/jpeg"),
    ("audio/wav", "audio/x-wav"),
    ("audio/wave", "audio/x-wav"),
    ("audio/mp3", "audio/mpeg"),
    ("image/x-ms-bmp", "image/bmp"),
];

/// Why something cannot be attached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachmentError {
    /// The attachment is empty.
    #[error("it is empty")]
    Empty,
    /// It is too large.
    #[error("it has more than {most} bytes")]
    TooLarge {
        /// The maximum size in bytes.
        most: usize,
    },
    /// All attachments together are too large or too many.
    #[error(
        "with it, the attachments exceed {MAX_MEDIA_PARTS} parts or {MAX_MEDIA_BYTES_IN_ALL} bytes"
    )]
    TooMuch,
    /// Its content is not an image, a sound, a PDF or text, and so cannot be sent.
    #[error("it is {found}, not an image, audio, a PDF or UTF-8 text")]
    NotSendable {
        /// What it looks like.
        found: String,
    },
    /// Its content does not match its declared type.
    #[error("it is declared as {declared}, but its content is {found}")]
    Unlike {
        /// The declared type.
        declared: String,
        /// What its content looks like.
        found: String,
    },
    /// Its content is not base64.
    #[error("its content is not base64")]
    NotBase64,
    /// Its URL is one that no provider may be sent to.
    #[error("its URL is not http(s)")]
    Address,
    /// A user message cannot contain this kind of part.
    #[error("a user message can contain only text, images, audio and files")]
    NotOfAUser,
    /// No model that may serve the request accepts it.
    #[error("no model that may serve this request accepts it")]
    NoModel,
    /// The model that answers does not accept it.
    #[error("{model} accepts {takes}")]
    Unsupported {
        /// The model.
        model: ModelRef,
        /// The types of media that the model accepts.
        takes: MediaTypes,
    },
}

/// Creates a part from a file's content, for attaching it to a message. The type is detected from the content: an
/// image, a sound or a PDF becomes media, and UTF-8 text becomes a text part that names the file.
///
/// ```
/// use neuraxis_core::Part;
/// use neuraxis_engine::attachment;
///
/// let notes = attachment("notes.txt", b"Buy milk.")?;
/// assert_eq!(notes, Part::text("\n\n[file notes.txt]\nBuy milk.\n[end of file notes.txt]"));
/// assert!(attachment("picture.png", b"PK\x03\x04, in truth an archive").is_err());
/// # Ok::<(), neuraxis_engine::AttachmentError>(())
/// ```
///
/// # Errors
///
/// An [`AttachmentError`] if the content is empty, too large or of a kind that no model accepts.
pub fn attachment(name: &str, content: &[u8]) -> Result<Part, AttachmentError> {
    if content.is_empty() {
        return Err(AttachmentError::Empty);
    }
    if let Some(written) = as_text(content) {
        return text(name, written);
    }
    match recognized(content) {
        Some(found) if is_media(found) => {
            let most = MAX_MEDIA_BYTES;
            if content.len() > most {
                return Err(AttachmentError::TooLarge { most });
            }
            let part = MediaPart::embedded(found, STANDARD.encode(content));
            Ok(Part::Media(part))
        }
        found => Err(AttachmentError::NotSendable {
            found: found.map_or_else(|| unrecognized(content), str::to_owned),
        }),
    }
}

/// Describes content of an unknown kind. Content with a NUL is not treated as text.
fn unrecognized(content: &[u8]) -> String {
    let text = std::str::from_utf8(content).unwrap_or_default();
    let strange = text.chars().find(|letter| !is_of_text(*letter));
    match strange.filter(|_| !text.contains('\0')) {
        Some(letter) => {
            let letter = letter.escape_unicode();
            format!("UTF-8 with the control character {letter}")
        }
        None => "of an unknown kind".to_owned(),
    }
}

/// Returns the content if it is text: UTF-8 without control characters that text does not contain. This check comes
/// before those for format signatures, because some signatures consist of letters. Only content that begins like a PDF
/// is never treated as text.
fn as_text(content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    let is_text = !text.starts_with("%PDF-") && text.chars().all(is_of_text);
    is_text.then_some(text)
}

fn is_of_text(letter: char) -> bool {
    !letter.is_control() || matches!(letter, '\t' | '\n' | '\r' | '\x0c' | '\x1b')
}

fn text(name: &str, text: &str) -> Result<Part, AttachmentError> {
    let most = MAX_TEXT_BYTES;
    if text.len() > most {
        return Err(AttachmentError::TooLarge { most });
    }
    let letters = name.chars().filter(|letter| !letter.is_control());
    let name: String = letters.take(MAX_NAME_CHARS).collect();
    Ok(Part::text(format!(
        "\n\n[file {name}]\n{text}\n[end of file {name}]"
    )))
}

/// How text parts are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// As files, which count toward the limits like all others.
    Attached,
    /// As the user's words: without limits on number and length, like a message without parts.
    InMessage,
}

/// Checks the parts that a user attaches, or of which a message consists. An error includes the number of the part,
/// starting at 1.
pub(crate) fn check_parts(parts: &[Part], texts: Texts) -> Result<(), (usize, AttachmentError)> {
    let mut sum = Sum::default();
    for (number, part) in (1..).zip(parts) {
        let checked = match part {
            Part::Text(_) if texts == Texts::InMessage => Ok(()),
            Part::Text(text) if text.text.len() > MAX_TEXT_BYTES + MAX_FRAME_BYTES => {
                let most = MAX_TEXT_BYTES;
                Err(AttachmentError::TooLarge { most })
            }
            // The lines that name the file around its text do not count as its bytes.
            Part::Text(text) => sum.add(text.text.len().min(MAX_TEXT_BYTES)),
            Part::Media(part) => check(part).and_then(|()| sum.add(bytes_of(part))),
            _ => Err(AttachmentError::NotOfAUser),
        };
        checked.map_err(|error| (number, error))?;
    }
    Ok(())
}

/// Checks the media that a tool returned in addition to its value. They must contain their content: with a URL, the
/// tool would decide what a provider fetches.
pub(crate) fn check_result(media: &[MediaPart]) -> Result<(), AttachmentError> {
    let mut sum = Sum::default();
    for part in media {
        if let MediaSource::Url(_) = part.source {
            return Err(AttachmentError::Address);
        }
        check(part)?;
        sum.add(bytes_of(part))?;
    }
    Ok(())
}

/// Returns the media that a conversation received since the last reply of a model.
pub(crate) fn latest(messages: &[Message]) -> impl Iterator<Item = &MediaPart> {
    let latest = messages.iter().rev();
    let given = latest.take_while(|message| !matches!(message, Message::Assistant(_)));
    given.flat_map(Message::media)
}

/// Counts parts and bytes.
#[derive(Debug, Default)]
struct Sum {
    parts: usize,
    bytes: usize,
}

impl Sum {
    fn add(&mut self, bytes: usize) -> Result<(), AttachmentError> {
        self.parts += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        match self.parts > MAX_MEDIA_PARTS || self.bytes > MAX_MEDIA_BYTES_IN_ALL {
            true => Err(AttachmentError::TooMuch),
            false => Ok(()),
        }
    }
}

/// Returns how many bytes of a part are sent; 0 if it is given by a URL.
fn bytes_of(part: &MediaPart) -> usize {
    part.bytes().unwrap_or(0)
}

fn check(part: &MediaPart) -> Result<(), AttachmentError> {
    let content = match &part.source {
        MediaSource::Base64(content) => content,
        MediaSource::Url(url) => {
            let url = url.trim_start().to_ascii_lowercase();
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            return is_web.then_some(()).ok_or(AttachmentError::Address);
        }
    };
    if part.bytes().is_some_and(|bytes| bytes > MAX_MEDIA_BYTES) {
        let most = MAX_MEDIA_BYTES;
        return Err(AttachmentError::TooLarge { most });
    }
    let content = STANDARD.decode(content.as_bytes());
    let content = content.map_err(|_| AttachmentError::NotBase64)?;
    if content.is_empty() {
        return Err(AttachmentError::Empty);
    }
    let declared = part.media_type.as_str();
    let found = recognized(&content);
    if found == Some(usual(declared)) && is_media(usual(declared)) {
        return Ok(());
    }
    Err(AttachmentError::Unlike {
        declared: declared.chars().take(MAX_NAME_CHARS).collect(),
        found: found.unwrap_or("of an unknown kind").to_owned(),
    })
}

fn usual(media_type: &str) -> &str {
    let same = SAME.iter().find(|(name, _)| *name == media_type);
    same.map_or(media_type, |(_, usual)| usual)
}

/// Detects the type of content from its first bytes.
fn recognized(content: &[u8]) -> Option<&'static str> {
    infer::get(content).map(|format| format.mime_type())
}

fn is_media(media_type: &str) -> bool {
    media_type.starts_with("image/")
        || media_type.starts_with("audio/")
        || media_type == "application/pdf"
}

#[cfg(test)]
mod tests {
    use neuraxis_ports::RunBounds;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    fn media(media_type: &str, content: &[u8]) -> MediaPart {
        MediaPart::embedded(media_type, STANDARD.encode(content))
    }

    #[test]
    fn types_are_detected_from_content_and_never_from_names() {
        let part = attachment("report.txt", PNG).unwrap();
        assert_eq!(part, Part::Media(media("image/png", PNG)));
        let pdf = attachment("x", b"%PDF-1.7\n").unwrap();
        assert!(matches!(pdf, Part::Media(part) if part.media_type == "application/pdf"));
        let Part::Text(text) = attachment("a\u{1b}[2J\n.md", "é".as_bytes()).unwrap() else {
            panic!("no text");
        };
        assert_eq!(text.text, "\n\n[file a[2J.md]\né\n[end of file a[2J.md]");
    }

    #[test]
    fn text_is_not_mistaken_for_a_format_whose_signature_is_letters() {
        for content in [
            "BM is how a bitmap begins",
            "ID3 and \u{1b}[1mbold",
            "<html>",
        ] {
            let part = attachment("x", content.as_bytes()).unwrap();
            assert!(matches!(part, Part::Text(_)), "{content}");
        }
    }

    #[test]
    fn empty_oversized_or_unsendable_attachments_are_refused() {
        assert_eq!(attachment("x", b""), Err(AttachmentError::Empty));
        for content in [b"PK\x03\x04 zip".as_slice(), b"a\0b", b"caf\xe9"] {
            let error = attachment("x", content).unwrap_err();
            assert!(
                matches!(error, AttachmentError::NotSendable { .. }),
                "{error}"
            );
        }
        let bell = attachment("x", b"ding \x07").unwrap_err().to_string();
        assert!(bell.contains("the control character \\u{7}, "), "{bell}");
        let mut large = PNG.to_vec();
        large.resize(MAX_MEDIA_BYTES, 0);
        assert!(attachment("x", &large).is_ok());
        large.push(0);
        let most = MAX_MEDIA_BYTES;
        assert_eq!(
            attachment("x", &large),
            Err(AttachmentError::TooLarge { most })
        );
        let text = "x".repeat(MAX_TEXT_BYTES + 1);
        assert!(attachment("x", text.as_bytes()).is_err());
    }

    #[test]
    fn media_of_a_tool_must_be_embedded_and_match_its_declared_type() {
        assert_eq!(check_result(&[media("image/png", PNG)]), Ok(()));
        assert_eq!(
            check_result(&[media("image/jpg", b"\xff\xd8\xff\xe0")]),
            Ok(())
        );
        let unlike = check_result(&[media("image/png", b"<html><script>")]).unwrap_err();
        assert_eq!(
            unlike.to_string(),
            "it is declared as image/png, but its content is text/html"
        );
        let zip = check_result(&[media("application/zip", b"PK\x03\x04")]);
        assert!(
            matches!(zip, Err(AttachmentError::Unlike { .. })),
            "{zip:?}"
        );
        let not_base64 = MediaPart::embedded("image/png", "?!");
        assert_eq!(check_result(&[not_base64]), Err(AttachmentError::NotBase64));
        let far = MediaPart {
            media_type: "image/png".to_owned(),
            source: MediaSource::Url("https://example.com/x.png".to_owned()),
        };
        assert_eq!(
            check_result(std::slice::from_ref(&far)),
            Err(AttachmentError::Address)
        );
        assert_eq!(check_parts(&[Part::Media(far)], Texts::Attached), Ok(()));
        let many = vec![media("image/png", PNG); MAX_MEDIA_PARTS + 1];
        assert_eq!(check_result(&many), Err(AttachmentError::TooMuch));
    }

    #[test]
    fn a_part_that_users_cannot_send_is_refused_with_its_number() {
        let call = Part::Reasoning(neuraxis_core::ReasoningPart::default());
        let parts = [Part::text("a"), call];
        assert_eq!(
            check_parts(&parts, Texts::Attached),
            Err((2, AttachmentError::NotOfAUser))
        );
    }

    #[test]
    fn attached_texts_count_as_files_and_message_texts_do_not() {
        let small = vec![Part::text("a"); MAX_MEDIA_PARTS + 1];
        let too_many = Err((MAX_MEDIA_PARTS + 1, AttachmentError::TooMuch));
        assert_eq!(check_parts(&small, Texts::Attached), too_many);
        assert_eq!(check_parts(&small, Texts::InMessage), Ok(()));
        let long = [Part::text("x".repeat(2 * MAX_TEXT_BYTES))];
        let most = MAX_TEXT_BYTES;
        let too_large = Err((1, AttachmentError::TooLarge { most }));
        assert_eq!(check_parts(&long, Texts::Attached), too_large);
        assert_eq!(check_parts(&long, Texts::InMessage), Ok(()));
        let text = attachment("name", "x".repeat(MAX_TEXT_BYTES).as_bytes()).unwrap();
        let mut large = PNG.to_vec();
        large.resize(MAX_MEDIA_BYTES, 0);
        let mut parts = vec![Part::Media(media("image/png", &large)); 2];
        parts.push(text);
        assert_eq!(check_parts(&parts, Texts::Attached), Ok(()), "15 MiB");
        parts.push(Part::text("a"));
        let too_much = Err((parts.len(), AttachmentError::TooMuch));
        assert_eq!(check_parts(&parts, Texts::Attached), too_much);
    }

    #[test]
    fn attachments_recorded_twice_leave_room_in_the_run() {
        let written = MAX_MEDIA_BYTES_IN_ALL.div_ceil(3) * 4;
        let most = usize::try_from(RunBounds::default().max_bytes).unwrap();
        assert!(2 * written <= most / 5 * 4, "{written} of {most}");
    }
}
