//! Converts a server's answer to a tool's result.
//!
//! Text stays text, structured content stays structured, and images and files are attached for the model to see.
//! Addresses in the answer are passed on but never fetched.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_PAD_INDIFFERENT;
use neuraxis_core::{JsonText, MediaPart, MediaSource, Source, ToolOutput};
use neuraxis_ports::ToolError;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::text::{Secrets, one_line};

/// The maximum number of media parts that are passed on.
const MAX_MEDIA: usize = 8;

/// The maximum size of a media part, in bytes.
const MAX_MEDIA_BYTES: usize = 5 * 1024 * 1024;

/// The text that replaces content of an unknown kind.
const UNKNOWN: &str = "[content of an unknown kind: left out]";

/// The maximum length of an address or a name, in characters.
const MAX_TEXT: usize = 500;

/// The collected parts of an answer.
#[derive(Debug, Default)]
struct Parts {
    texts: Vec<String>,
    media: Vec<MediaPart>,
    /// The web pages among the resources, which an answer may cite.
    sources: Vec<Source>,
}

/// Parses an answer block by block if it has content that the protocol library does not know: unknown blocks are
/// replaced by a remark, and the others are kept. Returns `None` if it is not the answer to a call.
pub(crate) fn in_blocks(mut answer: Value) -> Option<CallToolResult> {
    let content = answer.get_mut("content")?;
    let blocks = match content.take() {
        Value::Array(blocks) => blocks.into_iter().map(as_known_block).collect(),
        text @ Value::String(_) => vec![as_known_block(text)],
        // Programs in Go write an empty list this way.
        Value::Null => Vec::new(),
        _ => return None,
    };
    *content = Value::Array(blocks);
    serde_json::from_value(answer).ok()
}

/// Returns a block that the protocol library knows. A bare string becomes a text block.
fn as_known_block(block: Value) -> Value {
    let text = match block {
        Value::String(text) => text,
        block if ContentBlock::deserialize(&block).is_ok() => return block,
        _ => UNKNOWN.to_owned(),
    };
    json!({"type": "text", "text": text})
}

/// Converts an answer to a tool's output, without the server's secrets.
///
/// # Errors
///
/// What the server says went wrong, for the model to read.
pub(crate) fn output(result: CallToolResult, secrets: &Secrets) -> Result<ToolOutput, ToolError> {
    let mut parts = Parts::default();
    for block in result.content {
        parts.add(block);
    }
    let text = secrets.text(&parts.texts.join("\n\n"));
    let structured = result.structured_content.map(|it| secrets.value(it));
    if result.is_error == Some(true) {
        let structured = structured.map(|value| value.to_string());
        let said = match text.trim().is_empty() {
            true => structured.unwrap_or_else(|| "the tool failed and does not say why".to_owned()),
            false => text,
        };
        return Err(ToolError::new(said));
    }
    let value = match structured {
        None => JsonText::string(&text),
        Some(structured) => {
            let texts: Vec<String> = parts.texts.iter().map(|it| secrets.text(it)).collect();
            structured_value(structured, &text, &texts)?
        }
    };
    let output = ToolOutput::new(value);
    let output = parts.media.into_iter().fold(output, ToolOutput::with_media);
    let sources = parts.sources.into_iter();
    let sources = sources.filter(|source| secrets.text(&source.url) == source.url);
    Ok(sources.fold(output, ToolOutput::with_source))
}

/// Combines structured content with the text, unless the text only repeats it, as servers do for clients that read only
/// text. `texts` are the parts of the text.
fn structured_value(
    structured: Value,
    text: &str,
    texts: &[String],
) -> Result<JsonText, ToolError> {
    // Servers in Python wrap values that are not objects this way, since structured content must be an object.
    let members = structured.as_object().filter(|it| it.len() == 1);
    let wrapped = members.and_then(|it| it.get("result"));
    if wrapped.and_then(Value::as_str) == Some(text) {
        return Ok(JsonText::string(text));
    }
    let is_repeated = text.trim().is_empty()
        || equals(text, &structured)
        || wrapped.is_some_and(|value| equals(text, value) || lists(texts, value));
    let value = match is_repeated {
        true => structured,
        false => json!({"structured": structured, "text": text}),
    };
    Ok(JsonText::encode(&value)?)
}

/// Returns whether a text equals a value, either literally or as JSON.
fn equals(text: &str, value: &Value) -> bool {
    value.as_str() == Some(text)
        || serde_json::from_str::<Value>(text).is_ok_and(|said| said == *value)
}

/// Returns whether the texts are the items of a list, one by one.
fn lists(texts: &[String], value: &Value) -> bool {
    let items = value.as_array().filter(|items| items.len() == texts.len());
    items.is_some_and(|items| {
        texts
            .iter()
            .zip(items)
            .all(|(text, item)| equals(text, item))
    })
}

impl Parts {
    fn add(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.texts.push(text.text),
            ContentBlock::Image(image) => self.show("image", &image.mime_type, &image.data),
            ContentBlock::Audio(audio) => self.show("sound", &audio.mime_type, &audio.data),
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    if uri.starts_with("https://") || uri.starts_with("http://") {
                        self.sources.push(Source::new(one_line(&uri, MAX_TEXT)));
                    }
                    self.texts
                        .push(format!("{}:\n{text}", one_line(&uri, MAX_TEXT)));
                }
                ResourceContents::BlobResourceContents {
                    uri,
                    mime_type,
                    blob,
                    ..
                } => {
                    let media_type =
                        mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                    self.texts.push(one_line(&uri, MAX_TEXT));
                    self.show("file", &media_type, &blob);
                }
                _ => self.texts.push(UNKNOWN.to_owned()),
            },
            ContentBlock::ResourceLink(link) => {
                let mut line = format!(
                    "resource {}: {}",
                    one_line(link.title.as_deref().unwrap_or(&link.name), MAX_TEXT),
                    one_line(&link.uri, MAX_TEXT)
                );
                if let Some(media_type) = &link.mime_type {
                    line.push_str(&format!(" ({})", one_line(media_type, MAX_TEXT)));
                }
                if let Some(description) = &link.description {
                    line.push_str(&format!("\n{}", one_line(description, MAX_TEXT)));
                }
                self.texts.push(line);
            }
            _ => self.texts.push(UNKNOWN.to_owned()),
        }
    }

    /// Adds media that models can be shown, and describes any other.
    fn show(&mut self, what: &str, media_type: &str, content: &str) {
        let left_out = |why: &str| {
            format!(
                "[{what}, {}: left out, {why}]",
                one_line(media_type, MAX_TEXT)
            )
        };
        // Some servers break base64 into lines.
        let content: String = content.split_ascii_whitespace().collect();
        let Ok(bytes) = STANDARD_PAD_INDIFFERENT.decode(content) else {
            self.texts.push(left_out("it is not base64"));
            return;
        };
        let Some(media_type) = kind(&bytes) else {
            self.texts.push(left_out("its content cannot be shown"));
            return;
        };
        let why = if bytes.len() > MAX_MEDIA_BYTES {
            format!("it has {} bytes, more than {MAX_MEDIA_BYTES}", bytes.len())
        } else if self.media.len() >= MAX_MEDIA {
            format!("there are more than {MAX_MEDIA}")
        } else {
            self.texts
                .push(format!("[{what}, {media_type}, {} bytes]", bytes.len()));
            self.media.push(MediaPart {
                media_type: media_type.to_owned(),
                source: MediaSource::Base64(STANDARD_PAD_INDIFFERENT.encode(&bytes).into()),
            });
            return;
        };
        self.texts.push(left_out(&why));
    }
}

/// Recognizes the media types that models are shown. The type that the server states is ignored: a result with a part
/// whose stated type does not match its content is refused as a whole, although the call may have taken effect.
fn kind(content: &[u8]) -> Option<&'static str> {
    let begins = |with: &[u8]| content.starts_with(with);
    if begins(b"\x89PNG") {
        Some("image/png")
    } else if begins(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if begins(b"GIF8") {
        Some("image/gif")
    } else if begins(b"RIFF") && content.get(8..12) == Some(b"WEBP".as_slice()) {
        Some("image/webp")
    } else if begins(b"%PDF") {
        Some("application/pdf")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(result: Value) -> Result<ToolOutput, ToolError> {
        output(serde_json::from_value(result).unwrap(), &Secrets::default())
    }

    #[test]
    fn text_results_stay_text_and_structured_results_keep_their_structure() {
        let text =
            of(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}));
        assert_eq!(text.unwrap().value.as_text(), "a\n\nb");
        let repeated = of(json!({
            "content": [{"type": "text", "text": "{\"t\": 1}"}],
            "structuredContent": {"t": 1},
        }));
        assert_eq!(repeated.unwrap().value.as_str(), r#"{"t":1}"#);
        let both = of(json!({
            "content": [{"type": "text", "text": "one"}],
            "structuredContent": {"t": 1},
        }));
        assert_eq!(
            both.unwrap().value.as_str(),
            r#"{"structured":{"t":1},"text":"one"}"#
        );
    }

    #[test]
    fn text_that_repeats_the_structured_result_is_dropped() {
        let said = |texts: &[&str], result: Value| {
            let texts = texts.iter().map(|it| json!({"type": "text", "text": it}));
            let content: Vec<Value> = texts.collect();
            let structured = json!({"result": result});
            let output = of(json!({"content": content, "structuredContent": structured}));
            output.unwrap().value.as_str().to_owned()
        };
        assert_eq!(said(&["one two"], json!("one two")), r#""one two""#);
        assert_eq!(said(&["5"], json!(5)), r#"{"result":5}"#);
        let list = said(&["a", "{\n  \"t\": 1\n}"], json!(["a", {"t": 1}]));
        assert_eq!(list, r#"{"result":["a",{"t":1}]}"#);
        let whole = said(&["[1, 2]"], json!([1, 2]));
        assert_eq!(whole, r#"{"result":[1,2]}"#);
        let other = said(&["a", "c"], json!(["a", "b"]));
        assert_eq!(
            other,
            r#"{"structured":{"result":["a","b"]},"text":"a\n\nc"}"#
        );
        let more = said(&["a", "b"], json!(["a"]));
        assert!(more.contains("structured"), "{more}");
    }

    #[test]
    fn unknown_content_is_omitted_and_the_rest_is_kept() {
        let read = |answer| in_blocks(answer).map(|result| output(result, &Secrets::default()));
        let video = json!({"content": [
            {"type": "video", "data": "", "mimeType": "video/mp4"},
            {"type": "text", "text": "keep me"},
            "and me",
        ]});
        let kept = read(video).unwrap().unwrap().value.as_text().into_owned();
        assert_eq!(kept, format!("{UNKNOWN}\n\nkeep me\n\nand me"));
        let plain = read(json!({"content": "plain", "structuredContent": {"t": 1}}));
        assert_eq!(
            plain.unwrap().unwrap().value.as_str(),
            r#"{"structured":{"t":1},"text":"plain"}"#
        );
        let failed = read(json!({"content": [{"type": "video"}], "isError": true}));
        assert_eq!(failed.unwrap().unwrap_err().message, UNKNOWN);
        let empty = read(json!({"content": null})).unwrap().unwrap();
        assert_eq!(empty.value.as_text(), "");
        for none in [json!({"content": 7}), json!({"tools": []}), json!(7)] {
            assert!(in_blocks(none.clone()).is_none(), "{none}");
        }
    }

    #[test]
    fn a_failed_call_is_an_error_that_the_model_can_read() {
        let failed =
            of(json!({"content": [{"type": "text", "text": "no such city"}], "isError": true}));
        assert_eq!(failed.unwrap_err().message, "no such city");
        let silent = of(json!({"content": [], "isError": true}));
        assert!(silent.unwrap_err().message.contains("does not say why"));
    }

    #[test]
    fn images_and_files_become_media_and_links_become_text() {
        let png = STANDARD_PAD_INDIFFERENT.encode(b"\x89PNG\r\n\x1a\n");
        let output = of(json!({"content": [
            {"type": "image", "data": png, "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRiQAAABXQVZF", "mimeType": "audio/wav"},
            {"type": "image", "data": "%%%", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "demo://1", "mimeType": "text/plain", "text": "hello"}},
            {"type": "resource", "resource": {"uri": "demo://2", "mimeType": "image/png", "blob": png}},
            {"type": "resource", "resource": {"uri": "https://a.example/b", "text": "page"}},
            {"type": "resource_link", "uri": "demo://3", "name": "three", "mimeType": "text/plain"},
        ]}))
        .unwrap();
        assert_eq!(output.media.len(), 2);
        assert_eq!(output.sources, [Source::new("https://a.example/b")]);
        let text = output.value.as_text();
        for said in [
            "[image, image/png, 8 bytes]",
            "[sound, audio/wav: left out, its content cannot be shown]",
            "[image, image/png: left out, it is not base64]",
            "demo://1:\nhello",
            "[file, image/png, 8 bytes]",
            "resource three: demo://3 (text/plain)",
        ] {
            assert!(text.contains(said), "{said} in {text}");
        }
    }

    #[test]
    fn images_are_decoded_from_any_base64_variant() {
        let padded = "iVBORw0KGgo=";
        for data in [padded, "iVBORw0KGgo", " iVBORw0K\r\nGgo=\r\n"] {
            let block = json!({"type": "image", "data": data, "mimeType": "Image/PNG; x=1"});
            let output = of(json!({"content": [block]})).unwrap();
            let expected = MediaPart {
                media_type: "image/png".to_owned(),
                source: MediaSource::Base64(padded.into()),
            };
            assert_eq!(output.media, [expected], "{data:?}");
        }
    }

    #[test]
    fn the_type_of_an_image_is_detected_from_its_content() {
        let contents: [(&[u8], &str); 5] = [
            (b"\x89PNG\r\n\x1a\n", "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\x04\0\0\0WEBP", "image/webp"),
            (b"%PDF-1.7", "application/pdf"),
        ];
        for (content, is) in contents {
            let data = STANDARD_PAD_INDIFFERENT.encode(content);
            let image = json!({"type": "image", "data": data, "mimeType": "image/jpg"});
            let output = of(json!({"content": [{"type": "text", "text": "Booked."}, image]}));
            let output = output.unwrap();
            let types = output.media.iter().map(|part| part.media_type.as_str());
            assert_eq!(types.collect::<Vec<_>>(), [is]);
        }
        for content in ["", "PK\u{3}\u{4}"] {
            let data = STANDARD_PAD_INDIFFERENT.encode(content);
            let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
            let output = of(json!({"content": [{"type": "text", "text": "Booked."}, image]}));
            let output = output.unwrap();
            assert!(output.media.is_empty(), "{content:?}");
            let told = "[image, image/png: left out, its content cannot be shown]";
            assert_eq!(output.value.as_text(), format!("Booked.\n\n{told}"));
        }
    }
}
