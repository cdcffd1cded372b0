//! The kind of a document, by its content type or, failing that, by its first bytes.

use serde::{Deserialize, Serialize};

/// How a document is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A web page.
    Html,
    /// A PDF.
    Pdf,
    /// Something that is text already.
    Text,
}

/// The first bytes of a PDF.
const PDF: &[u8] = b"%PDF-";

impl Kind {
    /// Returns the kind of a document and the name of its encoding, if the content type gives one. If it cannot be
    /// read, returns its type as the error.
    pub(crate) fn of(
        content_type: Option<&str>,
        body: &[u8],
    ) -> Result<(Self, Option<String>), String> {
        let content_type = content_type.unwrap_or_default().trim();
        let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        let essence = essence.trim().to_ascii_lowercase();
        let charset = parameters.split(';').find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let is_charset = name.trim().eq_ignore_ascii_case("charset");
            is_charset.then(|| value.trim().trim_matches(['"', '\'']).to_owned())
        });
        let kind = match essence.as_str() {
            "text/html" | "application/xhtml+xml" => Self::Html,
            "application/pdf" | "application/x-pdf" => Self::Pdf,
            // The server does not know the type, so the bytes decide.
            "" | "application/octet-stream" | "binary/octet-stream" => match guess(body) {
                Some(kind) => kind,
                None if essence.is_empty() => {
                    return Err("something without a content type".to_owned());
                }
                None => return Err(essence),
            },
            other if is_text(other) => Self::Text,
            other => return Err(other.chars().take(100).collect()),
        };
        Ok((kind, charset))
    }

    /// Returns its name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Html => "web pages",
            Self::Pdf => "PDF",
            Self::Text => "texts",
        }
    }
}

fn is_text(essence: &str) -> bool {
    let is_known = matches!(
        essence,
        "application/json"
            | "application/ld+json"
            | "application/x-ndjson"
            | "application/xml"
            | "application/yaml"
            | "application/x-yaml"
            | "application/toml"
            | "application/javascript"
            | "application/x-sh"
            | "application/x-tex"
            | "application/markdown"
    );
    is_known
        || essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml") && !essence.starts_with("image/")
}

fn guess(body: &[u8]) -> Option<Kind> {
    if body.starts_with(PDF) {
        return Some(Kind::Pdf);
    }
    let begin = body.get(..512.min(body.len())).unwrap_or_default();
    if begin.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(begin)
        .trim_start()
        .to_ascii_lowercase();
    if text.starts_with("<!doctype html") || text.starts_with("<html") {
        return Some(Kind::Html);
    }
    std::str::from_utf8(body).is_ok().then_some(Kind::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_kind_follows_the_content_type_or_else_the_content() {
        let of = |content_type: &str, body: &[u8]| {
            Kind::of(Some(content_type), body).map(|(kind, _)| kind)
        };
        for (content_type, kind) in [
            ("text/html; charset=utf-8", Kind::Html),
            ("TEXT/HTML", Kind::Html),
            ("application/xhtml+xml", Kind::Html),
            ("application/pdf", Kind::Pdf),
            ("text/plain", Kind::Text),
            ("text/markdown", Kind::Text),
            ("application/json", Kind::Text),
            ("application/problem+json", Kind::Text),
            ("application/atom+xml", Kind::Text),
        ] {
            assert_eq!(of(content_type, b""), Ok(kind), "{content_type}");
        }
        assert_eq!(of("application/octet-stream", b"%PDF-1.7"), Ok(Kind::Pdf));
        assert_eq!(
            Kind::of(None, b" <!DOCTYPE html>").map(|of| of.0),
            Ok(Kind::Html)
        );
        assert_eq!(
            Kind::of(None, "naïve".as_bytes()).map(|of| of.0),
            Ok(Kind::Text)
        );
        for refused in [
            "image/png",
            "image/svg+xml",
            "video/mp4",
            "application/zip",
            "font/woff2",
        ] {
            assert_eq!(of(refused, b""), Err(refused.to_owned()));
        }
        assert_eq!(
            of("application/octet-stream", b"\0\x01"),
            Err("application/octet-stream".to_owned())
        );
    }

    #[test]
    fn the_charset_is_read_from_the_content_type() {
        let (_, charset) = Kind::of(Some("text/html; a=b; Charset=\"windows-1251\""), b"").unwrap();
        assert_eq!(charset.as_deref(), Some("windows-1251"));
    }
}
