//! How documents of each kind are handled.

use std::time::Duration;

use neuraxis_core::{JsonText, Source, ToolClass};
use neuraxis_testkit::{WebAnswer, WebSite, tool_context};
use serde_json::json;

use crate::support::{allowing, call, fetch, refused, tool};

const ARTICLE: &str = "<html><head><title>Rivers</title></head><body><nav>Menu</nav><article><h1>Rivers</h1>\
    <p>Rivers carry sediment, and where they slow down it settles, layer upon layer, for thousands of years.</p>\
    <p>See <a href='lakes.html'>lakes</a>.</p><table><tr><th>River</th><th>km</th></tr><tr><td>Elbe</td><td>1,094</td></tr>\
    </table></article></body></html>";

/// The entries of a page that contains text.
const WITH_TEXT: &str =
    "/MediaBox [0 0 612 792] /Contents 3 0 R /Resources << /Font << /F1 4 0 R >> >>";

/// Returns a PDF of one page that contains the text, with a title.
fn pdf(text: &str) -> Vec<u8> {
    let stream = format!("BT /F1 24 Tf 72 720 Td ({text}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
        "<< /Title (A paper) >>".to_owned(),
    ];
    pdf_of(&objects)
}

/// Returns a PDF whose pages each have these entries.
fn pdf_with_pages<'a>(entries: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let text = "BT /F1 24 Tf 72 720 Td (Sediment settles.) Tj ET";
    let entries: Vec<&str> = entries.into_iter().collect();
    let kids: String = (5..5 + entries.len())
        .map(|number| format!(" {number} 0 R"))
        .collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!(
            "<< /Type /Pages /Kids [{kids} ] /Count {} >>",
            entries.len()
        ),
        format!("<< /Length {} >>\nstream\n{text}\nendstream", text.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    let pages = entries.iter();
    objects.extend(pages.map(|entries| format!("<< /Type /Page /Parent 2 0 R {entries} >>")));
    pdf_of(&objects)
}

/// Returns the file with these objects: the first is the catalog, the sixth the information about the document.
fn pdf_of(objects: &[String]) -> Vec<u8> {
    let mut file = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        places.push(file.len());
        file += &format!("{} 0 obj\n{object}\nendobj\n", number + 1);
    }
    let table = file.len();
    file += &format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for place in places {
        file += &format!("{place:010} 00000 n \n");
    }
    let size = objects.len() + 1;
    file += &format!("trailer\n<< /Size {size} /Root 1 0 R /Info 6 0 R >>\n");
    file += &format!("startxref\n{table}\n%%EOF\n");
    file.into_bytes()
}

#[tokio::test]
async fn a_page_is_returned_as_markdown_with_title_and_url() {
    let site = WebSite::start(|_| WebAnswer::page(ARTICLE)).await;
    let tool = tool(&allowing([&site]));
    let page = fetch(&tool, &site.url("/guide/rivers.html#top"))
        .await
        .unwrap();
    assert_eq!(page["title"], "Rivers");
    assert_eq!(page["url"], site.url("/guide/rivers.html"));
    assert_eq!((&page["page"], &page["pages"]), (&json!(1), &json!(1)));
    assert_eq!(page["summary"], "Page 1 of 1.");
    let content = page["content"].as_str().unwrap();
    let link = format!("[lakes]({})", site.url("/guide/lakes.html"));
    assert!(content.contains(&link), "{content}");
    assert!(content.contains("| Elbe"), "{content}");
}

#[tokio::test]
async fn a_long_title_is_cut() {
    let site = WebSite::start(|_| WebAnswer::page(format!("<h1>{}", "word ".repeat(20_000)))).await;
    let page = fetch(&tool(&allowing([&site])), &site.url("/"))
        .await
        .unwrap();
    let title = page["title"].as_str().unwrap();
    assert_eq!(title.chars().count(), 301, "{title}");
    assert!(
        title.starts_with("word word") && title.ends_with('…'),
        "{title}"
    );
}

#[tokio::test]
async fn a_fetched_page_can_be_cited_by_its_requested_and_its_final_url() {
    let site = WebSite::start(|request| match request.path() {
        "/old" => WebAnswer::redirect("/rivers"),
        _ => WebAnswer::page(ARTICLE),
    })
    .await;
    let tool = tool(&allowing([&site]));
    for (path, expected) in [
        ("/rivers#x", vec!["/rivers"]),
        ("/old", vec!["/rivers", "/old"]),
    ] {
        let arguments = JsonText::from_text(json!({"url": site.url(path)}).to_string());
        let output = tool.call(arguments, tool_context()).await.unwrap();
        let expected: Vec<Source> = expected
            .into_iter()
            .map(|path| Source::new(site.url(path)).titled("Rivers"))
            .collect();
        assert_eq!(output.sources, expected, "{path}");
    }
}

#[tokio::test]
async fn a_pdf_is_returned_as_text() {
    let site = WebSite::start(|request| match request.path() {
        "/untyped" => WebAnswer::document("application/octet-stream", pdf("Sediment settles.")),
        _ => WebAnswer::document("application/pdf", pdf("Sediment settles.")),
    })
    .await;
    let tool = tool(&allowing([&site]));
    for path in ["/paper.pdf", "/untyped"] {
        let page = fetch(&tool, &site.url(path)).await.unwrap();
        assert_eq!(page["content"], "Sediment settles.", "{page}");
        assert_eq!(page["title"], "A paper");
    }
}

#[tokio::test]
async fn a_page_of_a_pdf_that_cannot_be_read_is_named_in_its_place() {
    let site = WebSite::start(|_| {
        let body = pdf_with_pages([WITH_TEXT, "/Contents 3 0 R", WITH_TEXT]);
        WebAnswer::document("application/pdf", body)
    })
    .await;
    let page = fetch(&tool(&allowing([&site])), &site.url("/"))
        .await
        .unwrap();
    assert_eq!(
        page["content"],
        "Sediment settles.\n\n[page 2 could not be read]\n\nSediment settles."
    );
    assert_eq!(page["summary"], "Page 1 of 1.");
}

#[tokio::test]
async fn a_pdf_with_too_many_pages_is_truncated_and_says_so() {
    let site = WebSite::start(|request| {
        let empty = match request.path() {
            "/longer" => 2_000,
            _ => 1_999,
        };
        let empty = (0..empty).map(|_| "/MediaBox [0 0 612 792]");
        let body = pdf_with_pages([WITH_TEXT].into_iter().chain(empty));
        WebAnswer::document("application/pdf", body)
    })
    .await;
    let mut config = allowing([&site]);
    config.convert_timeout = Duration::from_secs(60);
    let tool = tool(&config);
    for (path, said) in [
        ("/long", "Page 1 of 1."),
        (
            "/longer",
            "Page 1 of 1. The document continues, but no more of it is read.",
        ),
    ] {
        let page = fetch(&tool, &site.url(path)).await.unwrap();
        assert_eq!(page["content"], "Sediment settles.");
        assert_eq!(page["summary"], said, "{path}");
    }
}

#[tokio::test]
async fn a_damaged_or_malicious_pdf_is_an_error_of_the_call() {
    // A form that draws itself: following it exhausts the stack.
    let mut endless = String::from_utf8(pdf("x")).unwrap();
    endless = endless.replace("/Font << /F1 5 0 R >>", "/XObject << /X 4 0 R >>");
    endless = endless.replace(
        "<< /Length",
        "<< /Type /XObject /Subtype /Form /Resources << /XObject << /X 4 0 R >> >> /Length",
    );
    endless = endless.replace(
        "BT /F1 24 Tf 72 720 Td (x) Tj ET",
        "/X Do                           ",
    );
    let site = WebSite::start(move |request| {
        let body = match request.path() {
            "/endless" => endless.clone().into_bytes(),
            "/half" => pdf("x").split_at(200).0.to_vec(),
            _ => b"%PDF-1.7 and nothing more".to_vec(),
        };
        WebAnswer::document("application/pdf", body)
    })
    .await;
    let tool = tool(&allowing([&site]));
    for path in ["/endless", "/half", "/empty"] {
        let message = refused(&tool, &site.url(path)).await;
        assert!(message.starts_with("unreadable: "), "{path}: {message}");
    }
}

#[tokio::test]
async fn text_documents_are_returned_unchanged_in_their_own_encoding() {
    let site = WebSite::start(|request| match request.path() {
        "/json" => WebAnswer::json(r#"{"a": [1, 2]}"#),
        "/markdown" => WebAnswer::document("text/markdown", "# Title\n\n| a |\n"),
        "/latin" => WebAnswer::document("text/plain; charset=iso-8859-1", b"caf\xe9".to_vec()),
        _ => WebAnswer::document(
            "text/html",
            b"<meta charset=koi8-r><p>\xf0\xf2\xe9\xf7\xe5\xf4</p>".to_vec(),
        ),
    })
    .await;
    let tool = tool(&allowing([&site]));
    for (path, content) in [
        ("/json", r#"{"a": [1, 2]}"#),
        ("/markdown", "# Title\n\n| a |"),
        ("/latin", "café"),
        ("/koi8", "ПРИВЕТ"),
    ] {
        let page = fetch(&tool, &site.url(path)).await.unwrap();
        assert_eq!(page["content"], content, "{path}");
    }
}

#[tokio::test]
async fn a_document_that_is_not_text_is_refused_by_its_type() {
    let site = WebSite::start(|_| WebAnswer::document("image/png", b"\x89PNG".to_vec())).await;
    let message = refused(&tool(&allowing([&site])), &site.url("/")).await;
    assert!(
        message.starts_with("content_type: image/png cannot be read as text"),
        "{message}"
    );
}

#[tokio::test]
async fn a_long_document_is_paged_and_fetched_once() {
    let lines: Vec<String> = (0..600)
        .map(|n| format!("Line {n} of a long document."))
        .collect();
    let text = lines.join("\n");
    let expected = text.clone();
    let site = WebSite::start(move |_| WebAnswer::document("text/plain", text.clone())).await;
    let mut config = allowing([&site]);
    config.page_chars = 5_000;
    let tool = tool(&config);
    let url = site.url("/long.txt");
    let first = fetch(&tool, &url).await.unwrap();
    let pages = first["pages"].as_u64().unwrap();
    assert!(pages > 3, "{pages}");
    let said = format!("Page 1 of {pages}. Call web_fetch with page = 2 for the next.");
    assert_eq!(first["summary"], said);
    let mut whole = Vec::new();
    for number in 1..=pages {
        let page = call(&tool, json!({"url": url, "page": number}))
            .await
            .unwrap();
        assert_eq!(page["page"], number);
        whole.push(page["content"].as_str().unwrap().to_owned());
    }
    assert_eq!(whole.join("\n"), expected);
    let beyond = call(&tool, json!({"url": url, "page": pages + 1}))
        .await
        .unwrap_err();
    assert!(
        beyond.message.starts_with("no_such_page: "),
        "{}",
        beyond.message
    );
    assert_eq!(site.targets(), ["/long.txt"]);
}

#[tokio::test]
async fn an_unknown_argument_is_named_and_the_tool_is_read_only_and_open_world() {
    let tool = tool(&allowing([]));
    let none = tool_context();
    let error = tool
        .call(JsonText::from_text(r#"{"uri":"x"}"#), none)
        .await
        .unwrap_err();
    assert!(
        error.message.contains("unknown field `uri`"),
        "{}",
        error.message
    );
    let spec = tool.spec();
    assert_eq!(spec.class, ToolClass::ReadOnly);
    assert!(
        spec.annotations.open_world,
        "what it brings is written by strangers"
    );
}
