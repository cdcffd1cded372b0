//! The page at `/`, where a user chats, decides about calls and inspects runs. It is a client of the server's own API
//! and nothing more.
//!
//! All of it is compiled in, and it loads nothing from elsewhere. Text from models and tools reaches it only as text;
//! if some of it were ever interpreted as more, the browser would still run nothing but these files.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use neuraxis::core::ContentHash;

use crate::caller::Admission;
use crate::openapi::DescribedRouter;
use crate::problem::Problem;
use crate::routes::nothing_here;

/// The content security policy of the page: it may only do what these files are for, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page refers to its files without versions, so a browser revalidates them each time.
const CACHING: &str = "no-cache";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// A file of the page.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    content: &'static str,
}

/// Lists files, with the name and type of each.
macro_rules! assets {
    ($($name:literal: $content_type:ident,)*) => {
        [$(Asset {
            name: $name,
            content_type: $content_type,
            content: include_str!(concat!("../page/", $name)),
        }),*]
    };
}

const INDEX: &str = "index.html";

static ASSETS: LazyLock<Vec<(Asset, String)>> = LazyLock::new(|| {
    let assets = assets! {
        "index.html": HTML,
        "icon.svg": IMAGE,
        "base.css": STYLE,
        "chat.css": STYLE,
        "run.css": STYLE,
        "access.js": SCRIPT,
        "agent.js": SCRIPT,
        "anchor.js": SCRIPT,
        "api.js": SCRIPT,
        "app.js": SCRIPT,
        "approval.js": SCRIPT,
        "card.js": SCRIPT,
        "chat.js": SCRIPT,
        "choices.js": SCRIPT,
        "composer.js": SCRIPT,
        "detail.js": SCRIPT,
        "diff.js": SCRIPT,
        "dom.js": SCRIPT,
        "export.js": SCRIPT,
        "files.js": SCRIPT,
        "fork.js": SCRIPT,
        "format.js": SCRIPT,
        "highlight.js": SCRIPT,
        "inline.js": SCRIPT,
        "log.js": SCRIPT,
        "markdown.js": SCRIPT,
        "plan.js": SCRIPT,
        "question.js": SCRIPT,
        "replay.js": SCRIPT,
        "run.js": SCRIPT,
        "runs.js": SCRIPT,
        "search.js": SCRIPT,
        "session.js": SCRIPT,
        "sessions.js": SCRIPT,
        "stats.js": SCRIPT,
        "storage.js": SCRIPT,
        "stream.js": SCRIPT,
        "timeline.js": SCRIPT,
        "tool.js": SCRIPT,
        "turn.js": SCRIPT,
    };
    let tagged = assets.into_iter().map(|asset| {
        let tag = format!("\"{}\"", ContentHash::of(asset.content.as_bytes()));
        (asset, tag)
    });
    tagged.collect()
});

/// Returns the routes of the page.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> DescribedRouter<S> {
    DescribedRouter::new()
        .get_undescribed("/", Admission::Open, index)
        .get_undescribed("/assets/{name}", Admission::Open, asset)
}

/// `GET /`
async fn index(headers: HeaderMap) -> Result<Response, Problem> {
    file(INDEX, &headers)
}

/// `GET /assets/{name}`
async fn asset(
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match name {
        Ok(Path(name)) if name != INDEX => file(&name, &headers),
        _ => Err(nothing_here()),
    }
}

fn file(name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let mut all = ASSETS.iter();
    let (asset, tag) = all
        .find(|(asset, _)| asset.name == name)
        .ok_or_else(nothing_here)?;
    let always = [
        (header::ETAG, tag.as_str()),
        (header::CACHE_CONTROL, CACHING),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ];
    if headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .any(|known| names(known, tag))
    {
        return Ok((StatusCode::NOT_MODIFIED, always).into_response());
    }
    let content_type = [(header::CONTENT_TYPE, asset.content_type)];
    Ok((always, content_type, asset.content).into_response())
}

/// Prevents windows that the page opens from accessing it.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Prevents pages of other origins from loading the files.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Returns whether a header contains a tag, which a proxy may have turned into a weak one.
fn names(known: &HeaderValue, tag: &str) -> bool {
    let mut tags = known.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_and_loads_nothing_from_elsewhere() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let files = fs::read_dir(folder).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let served = ASSETS.iter().map(|(asset, _)| asset.name.to_owned());
        assert_eq!(
            served.collect::<BTreeSet<_>>(),
            files.collect::<BTreeSet<_>>()
        );
        for (asset, _) in ASSETS.iter() {
            let known = ["http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"];
            let rest = known.iter().fold(asset.content.to_owned(), |text, known| {
                text.replace(known, "")
            });
            for elsewhere in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(
                    !rest.contains(elsewhere),
                    "{} holds {elsewhere}",
                    asset.name
                );
            }
        }
    }

    #[test]
    fn an_etag_matches_alone_in_a_list_and_as_a_weak_tag() {
        let names = |known: &'static str| names(&HeaderValue::from_static(known), "\"a\"");
        assert!(names("\"a\"") && names("W/\"a\"") && names("\"b\", \"a\"") && names("*"));
        assert!(!names("\"b\"") && !names("a") && !names(""));
    }
}
