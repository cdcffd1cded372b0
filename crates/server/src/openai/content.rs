//! The content of messages: text, images, audio and files, as both protocols write them.

use std::fmt;

use neuraxis::core::{JsonText, MediaPart, MediaSource, Part};
use neuraxis::engine::attachment;
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::attached::{Files, decoded};
use crate::problem::Problem;

/// The maximum length of a part's type that an error repeats, in characters.
const MAX_REPEATED_CHARS: usize = 64;

/// The content of a message: a string, or parts.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "OpenAiContent", untagged)]
pub(super) enum Content {
    /// A text.
    Text(String),
    /// Parts, each with its `type`.
    Parts(Vec<Value>),
}

/// Deserializes a string or a list depending on the JSON type. An error within the list is then reported with its path,
/// which serde's untagged enums lose.
pub(super) struct TextOrList<T, Whole> {
    /// What was expected, for the error if the value is neither.
    pub(super) expected: &'static str,
    pub(super) text: fn(String) -> Whole,
    pub(super) list: fn(Vec<T>) -> Whole,
}

impl<'de, T: Deserialize<'de>, Whole> Visitor<'de> for TextOrList<T, Whole> {
    type Value = Whole;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected)
    }

    fn visit_str<E>(self, text: &str) -> Result<Whole, E> {
        Ok((self.text)(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Whole, E> {
        Ok((self.text)(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Whole, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(self.list)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrList {
            expected: "a string or a list of parts",
            text: Self::Text,
            list: Self::Parts,
        })
    }
}

impl Content {
    /// Parses the parts of a user's message.
    pub(super) fn parts(self, field: &str) -> Result<Vec<Part>, Problem> {
        let parts = match self {
            Self::Text(text) => return Ok(vec![Part::text(text)]),
            Self::Parts(parts) => parts,
        };
        let mut files = Files::default();
        let parts = parts.iter().enumerate();
        let parts = parts.map(|(at, part)| read(part, &format!("{field}[{at}]"), &mut files));
        let mut parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        set_apart(&mut parts);
        Ok(parts)
    }

    /// Parses an answer, whose parts are pieces of one text.
    pub(super) fn text(self, field: &str) -> Result<String, Problem> {
        Ok(self.texts(field)?.concat())
    }

    /// Parses a message of text only, such as instructions or a tool's result, in which each part is a separate text.
    pub(super) fn lines(self, field: &str) -> Result<String, Problem> {
        let mut lines = String::new();
        for text in self.texts(field)? {
            if run_together(&lines, &text) {
                lines.push('\n');
            }
            lines.push_str(&text);
        }
        Ok(lines)
    }

    fn texts(self, field: &str) -> Result<Vec<String>, Problem> {
        let parts = match self {
            Self::Text(text) => return Ok(vec![text]),
            Self::Parts(parts) => parts,
        };
        let parts = parts.iter().enumerate();
        let texts = parts.map(|(at, part)| {
            let text = part.get("text").or_else(|| part.get("refusal"));
            let text = text.and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
                let kind: String = kind.chars().take(MAX_REPEATED_CHARS).collect();
                let why = format!("only text parts are accepted here, not {kind:?}");
                Problem::invalid(&format!("{field}[{at}]"), why)
            })
        });
        texts.collect()
    }
}

/// Ends a text with a line break if the next one would run into it: many models receive adjacent texts as one.
fn set_apart(parts: &mut [Part]) {
    let mut before: Option<&mut String> = None;
    for part in parts {
        let Part::Text(next) = part else {
            before = None;
            continue;
        };
        if let Some(before) = &mut before
            && run_together(before, &next.text)
        {
            before.push('\n');
        }
        // An empty text between two others does not separate them.
        if !next.text.is_empty() {
            before = Some(&mut next.text);
        }
    }
}

/// Returns whether two texts would join without whitespace in between.
pub(super) fn run_together(text: &str, next: &str) -> bool {
    let is_open = |text: &str| !text.is_empty() && !text.ends_with(char::is_whitespace);
    is_open(text) && !next.is_empty() && !next.starts_with(char::is_whitespace)
}

/// Converts the result of a client's tool to JSON: valid JSON stays as it is, any other text becomes a string.
pub(super) fn result(text: &str) -> JsonText {
    let written = JsonText::from_text(text);
    match written.is_valid() {
        true => written,
        false => JsonText::string(text),
    }
}

fn read(part: &Value, field: &str, files: &mut Files) -> Result<Part, Problem> {
    let text_of = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let within = |name: &str, inner: &str| text_of(part.get(name).and_then(|it| it.get(inner)));
    let missing =
        |name: &str| Problem::invalid(&format!("{field}.{name}"), "missing, or not a string");
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    let file = match kind {
        "text" | "input_text" | "output_text" => {
            let text = text_of(part.get("text"));
            return Ok(Part::text(text.ok_or_else(|| missing("text"))?));
        }
        "image_url" | "input_image" => {
            // Responses is flat, Chat Completions nested.
            let url = within("image_url", "url").or_else(|| text_of(part.get("image_url")));
            media("image", &url.ok_or_else(|| missing("image_url"))?, field)?
        }
        "input_audio" => {
            let data = within("input_audio", "data");
            let data = data.ok_or_else(|| missing("input_audio.data"))?;
            embedded("audio", &data, field)?
        }
        "file" | "input_file" => {
            let data = within("file", "file_data").or_else(|| text_of(part.get("file_data")));
            let why = "only inline files are supported, as a data: URL in file_data";
            let data = data.ok_or_else(|| Problem::invalid(field, why))?;
            let name = within("file", "filename").or_else(|| text_of(part.get("filename")));
            media(name.as_deref().unwrap_or("file"), &data, field)?
        }
        _ => {
            let why = "expected a part of type text, image, audio or file";
            return Err(Problem::invalid(&format!("{field}.type"), why));
        }
    };
    let counted = files.add(&file);
    counted.map_err(|error| Problem::invalid(field, error))?;
    Ok(file)
}

fn media(name: &str, url: &str, field: &str) -> Result<Part, Problem> {
    let Some(rest) = after_data(url) else {
        if url.starts_with("https://") || url.starts_with("http://") {
            return Ok(Part::Media(MediaPart {
                // Not fetched here: whichever provider fetches it determines the actual type.
                media_type: type_of(url).to_owned(),
                source: MediaSource::Url(url.to_owned()),
            }));
        }
        return Err(Problem::invalid(
            field,
            "expected a data:, http: or https: URL",
        ));
    };
    // A type with parameters, the last of which says how the data is encoded (RFC 2397, 3).
    let (head, data) = rest.split_once(',').unwrap_or_default();
    match head.rsplit_once(';') {
        Some((_, written)) if written.eq_ignore_ascii_case("base64") => embedded(name, data, field),
        _ => Err(Problem::invalid(
            field,
            "expected a data: URL such as data:image/png;base64,…",
        )),
    }
}

/// Returns what follows `data:`, in any case, because schemes are case-insensitive (RFC 3986, 3.1).
fn after_data(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    scheme.eq_ignore_ascii_case("data").then_some(rest)
}

/// Guesses the type of an image from its address.
fn type_of(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("png") => "image/png",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        _ => "image/jpeg",
    }
}

/// Creates a part from content in base64. The content determines its type, whatever its sender calls it.
fn embedded(name: &str, data: &str, field: &str) -> Result<Part, Problem> {
    let part = decoded(data).and_then(|content| attachment(name, &content));
    part.map_err(|error| Problem::invalid(field, error))
}

#[cfg(test)]
mod tests {
    use neuraxis::core::Message;
    use serde_json::json;

    use super::*;

    fn parts(content: Value) -> Result<Vec<Part>, Problem> {
        let content: Content = serde_json::from_value(content).unwrap();
        content.parts("messages[0].content")
    }

    /// The first bytes of a PNG, by which its content is recognized.
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUg==";

    #[test]
    fn content_of_both_api_formats_becomes_the_same_parts() {
        let image = format!("data:image/png;base64,{PNG}");
        let chat = json!([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": image}}]);
        let flat = json!([{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": image}]);
        assert_eq!(parts(chat).unwrap(), parts(flat).unwrap());
        assert_eq!(parts(json!("Hi.")).unwrap(), [Part::text("Hi.")]);
        let sound = json!([{"type": "input_audio", "input_audio": {"data": "SUQzBAAAAAAAAP/7", "format": "mp3"}}]);
        let sound = parts(sound).unwrap();
        let [Part::Media(sound)] = sound.as_slice() else {
            panic!("{sound:?}");
        };
        assert_eq!(sound.media_type, "audio/mpeg");
    }

    #[test]
    fn the_type_of_a_file_comes_from_its_content_not_its_url() {
        for head in [
            "data:image/jpeg;base64",
            "data:image/png;charset=utf-8;base64",
            "DATA:;BASE64",
        ] {
            let url = format!("{head},\n{PNG}\n");
            let image = parts(json!([{"type": "image_url", "image_url": {"url": url}}]));
            let expected = MediaPart::embedded("image/png", PNG);
            assert_eq!(image.unwrap(), [Part::Media(expected)], "{head}");
        }
        let url = "data:application/octet-stream;base64,TWlsay4=";
        let nested = json!([{"type": "file", "file": {"filename": "list.txt", "file_data": url}}]);
        let flat = json!([{"type": "input_file", "filename": "list.txt", "file_data": url}]);
        let text = "\n\n[file list.txt]\nMilk.\n[end of file list.txt]";
        for file in [nested, flat] {
            assert_eq!(parts(file).unwrap(), [Part::text(text)]);
        }
    }

    #[test]
    fn text_files_count_towards_the_attachment_limit_of_a_message() {
        let file =
            json!({"type": "file", "file": {"file_data": "data:text/plain;base64,aGVsbG8="}});
        let flat = json!({"type": "input_file", "file_data": "data:text/plain;base64,aGVsbG8="});
        let text = json!({"type": "text", "text": "hello"});
        for file in [file, flat] {
            let mut content = vec![text.clone(); 21];
            content.extend(vec![file.clone(); 20]);
            assert_eq!(parts(json!(content)).unwrap().len(), 41);
            content.push(file);
            let refused = format!("{:?}", parts(json!(content)).unwrap_err());
            let told = "messages[0].content[41]: with it, the attachments exceed 20 parts";
            assert!(refused.contains(told), "{refused}");
        }
    }

    #[test]
    fn invalid_content_is_refused_with_its_path() {
        for (content, place) in [
            (json!([{"type": "text"}]), "messages[0].content[0].text"),
            (json!(["Hi."]), "messages[0].content[0].type"),
            (
                json!([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]),
                "messages[0].content[0]",
            ),
            (
                json!([{"type": "image_url", "image_url": {"url": "data:image/png,raw"}}]),
                "messages[0].content[0]",
            ),
            (
                json!([{"type": "input_file", "file_id": "file-1"}]),
                "messages[0].content[0]",
            ),
            (
                json!([{"type": "input_audio", "input_audio": {"data": "?!", "format": "wav"}}]),
                "messages[0].content[0]: its content is not base64",
            ),
            (
                json!([
                    {"type": "text", "text": "Look."},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,UEsDBA=="}}
                ]),
                "messages[0].content[1]: it is application/zip",
            ),
        ] {
            let text = format!("{:?}", parts(content).unwrap_err());
            assert!(text.contains(place), "{text}");
        }
    }

    #[test]
    fn non_text_content_is_refused_by_type_when_only_text_is_allowed() {
        for kind in ["input_image", "input_file"] {
            let content = json!([{"type": kind, "file_id": "file-1"}]);
            let content: Content = serde_json::from_value(content).unwrap();
            let refused = content.lines("input[0].output").unwrap_err();
            let refused = format!("{refused:?}");
            assert!(refused.contains("input[0].output[0]"), "{refused}");
            assert!(refused.contains(kind), "{refused}");
        }
    }

    #[test]
    fn adjacent_texts_are_separated_and_the_pieces_of_an_answer_are_joined() {
        let content = |texts: &[&str]| -> Content {
            let parts = texts
                .iter()
                .map(|text| json!({"type": "text", "text": text}));
            serde_json::from_value(parts.collect()).unwrap()
        };
        let pieces = |texts: &[&str]| -> Vec<String> {
            let parts = content(texts).parts("content").unwrap();
            let told = parts.into_iter().map(|part| match part {
                Part::Text(part) => part.text,
                other => panic!("{other:?}"),
            });
            told.collect()
        };
        let cases: [(&[&str], &str); 6] = [
            (&["3 ", "degrees"], "3 degrees"),
            (&["3", "\n\n[file a]"], "3\n\n[file a]"),
            (
                &[r#"{"row":1}"#, r#"{"row":2}"#],
                "{\"row\":1}\n{\"row\":2}",
            ),
            (&["Be brief.", ""], "Be brief."),
            (&["", "Be brief."], "Be brief."),
            (&["a", "", "b"], "a\nb"),
        ];
        for (texts, apart) in cases {
            assert_eq!(content(texts).lines("content").unwrap(), apart);
            assert_eq!(pieces(texts).concat(), apart);
            let answer = content(texts).text("content").unwrap();
            assert_eq!(answer, texts.concat());
        }
        let file = json!({"type": "file", "file": {"filename": "n.txt", "file_data": "data:text/plain;base64,TWlsay4="}});
        let question = json!({"type": "text", "text": "What is in it?"});
        let told = parts(json!([file, question])).unwrap();
        let text = Message::User { parts: told }.text();
        assert!(
            text.ends_with("[end of file n.txt]\nWhat is in it?"),
            "{text}"
        );
    }

    #[test]
    fn a_result_is_parsed_as_json_or_else_taken_as_text() {
        assert_eq!(result(r#"{"n": 1}"#).as_str(), r#"{"n": 1}"#);
        assert_eq!(result("3 degrees").as_str(), r#""3 degrees""#);
    }
}
