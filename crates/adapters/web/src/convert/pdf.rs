//! Makes text of a PDF, page by page.
//!
//! The library that reads it panics at much that real files hold; so each page is read on its own, and one that cannot be read
//! costs nothing but itself.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, Object, PlainTextOutput, output_doc_page};

use super::{Readable, clean};

/// The most pages that are read of a document.
const MAX_PAGES: u32 = 2_000;

/// The most bytes of text that are read of a document.
const MAX_TEXT: usize = 8 << 20;

/// Reads a document.
pub(super) fn read(bytes: &[u8]) -> Result<Readable, String> {
    let mut document = Document::load_mem(bytes)
        .map_err(|error| format!("it is no PDF that can be read ({error})"))?;
    if document.is_encrypted() {
        let opened = document.decrypt("");
        opened.map_err(|_| "the PDF is encrypted with a password".to_owned())?;
    }
    let mut content = String::new();
    let mut unread = 0_u32;
    let pages = document.get_pages().len();
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    for page in 1..=pages.min(MAX_PAGES) {
        match read_page(&document, page) {
            Some(text) => {
                content.push_str(text.trim());
                content.push_str("\n\n");
            }
            None => unread += 1,
        }
        if content.len() > MAX_TEXT {
            break;
        }
    }
    let content = clean(content.trim());
    if content.trim().is_empty() {
        return Err(match unread {
            0 => "the PDF holds no text; it may be one of scanned images".to_owned(),
            _ => "no page of the PDF can be read".to_owned(),
        });
    }
    Ok(Readable {
        title: title(&document),
        content,
    })
}

fn read_page(document: &Document, page: u32) -> Option<String> {
    let read = catch_unwind(AssertUnwindSafe(|| {
        let mut text = String::new();
        let mut output = PlainTextOutput::new(&mut text);
        output_doc_page(document, &mut output, page).ok()?;
        drop(output);
        Some(text)
    }));
    read.ok().flatten()
}

fn title(document: &Document) -> Option<String> {
    let info = document.trailer.get(b"Info").ok()?;
    let (_, info) = document.dereference(info).ok()?;
    let title = info.as_dict().ok()?.get(b"Title").ok()?;
    let (_, title) = document.dereference(title).ok()?;
    let title = match title {
        Object::String(bytes, _) => match bytes.strip_prefix(&[0xfe, 0xff]) {
            Some(wide) => encoding_rs::UTF_16BE.decode(wide).0,
            None => encoding_rs::WINDOWS_1252.decode(bytes).0,
        },
        _ => return None,
    };
    let title = clean(title.trim());
    (!title.is_empty()).then_some(title)
}
