//! `GET /errors/{name}`: the page about a kind of problem, which the `type` of a problem document leads to.
//!
//! The pages are those of `docs/errors`, compiled in. They are sent as plain text, which every browser shows.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderName, header};

use super::{ALL, NOT_FOUND, Problem};
use crate::openapi::{Operation, Tag, operation};

const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// Describes the route.
pub(crate) fn described() -> Operation {
    operation(
        "show_problem",
        Tag::Server,
        "Shows what a kind of problem means and what to do about it.",
    )
    .path::<String>(
        "name",
        "The name of the kind: what follows `/errors/` in the `type` of a problem.",
    )
    .answers_text(CONTENT_TYPE, "The page, in Markdown.")
    .problems(&[&NOT_FOUND])
}

/// `GET /errors/{name}`
pub(crate) async fn show(
    name: Result<Path<String>, PathRejection>,
) -> Result<([(HeaderName, &'static str); 2], &'static str), Problem> {
    let name = name.map(|Path(name)| name).unwrap_or_default();
    let kind = ALL.iter().find(|kind| kind.name == name);
    let kind = kind.ok_or_else(|| Problem::new(&NOT_FOUND, "there is no such kind of problem"))?;
    let headers = [
        (header::CONTENT_TYPE, CONTENT_TYPE),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, kind.page))
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse as _;

    use super::*;

    #[tokio::test]
    async fn the_type_of_each_problem_leads_to_its_page() {
        for kind in ALL {
            let path = kind.page_path();
            let name = path.strip_prefix("/errors/").unwrap().to_owned();
            let (_, page) = show(Ok(Path(name))).await.unwrap();
            assert!(page.contains(&format!("`type`: `{path}`")), "{page}");
        }
        let unknown = show(Ok(Path("README".to_owned()))).await.unwrap_err();
        assert_eq!(unknown.into_response().status(), StatusCode::NOT_FOUND);
    }
}
