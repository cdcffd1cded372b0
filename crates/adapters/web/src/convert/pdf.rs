//! Converts a PDF to text, page by page.
//!
//! The PDF library panics on much that occurs in real files, so each page is read separately, and an unreadable page
//! affects only itself. The text names it in its place: a page that is left out silently would be taken not to exist.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Dictionary, Document, Object, ObjectId, PlainTextOutput, output_doc_page};

use super::{Readable, clean};

/// The maximum number of pages that are read of a document.
const MAX_PAGES: usize = 2_000;

/// The maximum number of bytes of text that are read of a document.
const MAX_TEXT: usize = 8 << 20;

/// The id of a page tree with a single page that is given to the library, which walks the whole tree for each page. No
/// object in a file has this id.
const TREE: ObjectId = (0, 0);

/// Reads a document.
pub(super) fn read(bytes: &[u8]) -> Result<Readable, String> {
    let mut document =
        Document::load_mem(bytes).map_err(|error| format!("it is not a readable PDF ({error})"))?;
    if document.is_encrypted() {
        let opened = document.decrypt("");
        opened.map_err(|_| "the PDF is encrypted with a password".to_owned())?;
    }
    let pages: Vec<ObjectId> = document.page_iter().take(MAX_PAGES + 1).collect();
    if let Ok(catalog) = document.catalog_mut() {
        catalog.set("Pages", TREE);
    }
    let mut is_cut = pages.len() > MAX_PAGES;
    let (mut content, mut has_text, mut has_unread) = (String::new(), false, false);
    for (number, page) in (1..=MAX_PAGES).zip(pages) {
        if content.len() > MAX_TEXT {
            is_cut = true;
            break;
        }
        if let Some(text) = read_page(&mut document, page) {
            let text = clean(&text);
            has_text |= !text.trim().is_empty();
            content.push_str(text.trim());
        } else {
            has_unread = true;
            content.push_str(&format!("[page {number} could not be read]"));
        }
        content.push_str("\n\n");
    }
    if !has_text {
        return Err(match has_unread {
            false => "the PDF contains no text; it may consist of scanned images".to_owned(),
            true => "no page of the PDF can be read".to_owned(),
        });
    }
    Ok(Readable {
        title: title(&document),
        content: content.trim().to_owned(),
        is_cut,
    })
}

fn read_page(document: &mut Document, page: ObjectId) -> Option<String> {
    let mut tree = Dictionary::new();
    tree.set("Kids", vec![Object::from(page)]);
    document.set_object(TREE, tree);
    let read = catch_unwind(AssertUnwindSafe(|| {
        let mut text = String::new();
        let mut output = PlainTextOutput::new(&mut text);
        output_doc_page(document, &mut output, 1).ok()?;
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
    let words: Vec<&str> = title.split_whitespace().collect();
    let title = clean(&words.join(" "));
    (!title.is_empty()).then_some(title)
}
