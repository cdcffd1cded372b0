//! The rules of the [`WebSearch`] port.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use neuraxis_ports::{SearchHit, WebSearch, WebSearchError};

use super::promptly;

/// The key that the suite's services accept. It must not be revealed anywhere.
pub const SEARCH_KEY: &str = "sk-canary-4711";

/// The behavior of a search service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchScene {
    /// It finds these pages, however many are requested.
    Finds(Vec<SearchHit>),
    /// It refuses the key, and repeats it in its answer.
    RefusesKey,
    /// It receives too many requests, and asks to be called again in seven seconds.
    IsBusy,
    /// It refuses the query with status 422, and repeats the key in its answer.
    RefusesQuestion,
    /// It fails with status 503.
    Fails,
    /// It answers with a web page.
    IsNoService,
    /// It accepts the query and does not answer.
    IsSilent,
}

/// Returns the queries that a service has received so far.
pub type ReceivedQueries = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

type Made = Pin<Box<dyn Future<Output = (Arc<dyn WebSearch>, ReceivedQueries)> + Send>>;

/// The subject of the suite: a function that creates an adapter with the key [`SEARCH_KEY`] and a timeout of less than
/// two seconds, in front of a service with the given behavior, and returns it with access to the queries that the
/// service received.
pub struct Subject(Box<dyn Fn(SearchScene) -> Made + Send + Sync>);

impl Subject {
    /// Wraps a function that creates an adapter.
    pub fn new<M, F>(make: M) -> Self
    where
        M: Fn(SearchScene) -> F + Send + Sync + 'static,
        F: Future<Output = (Arc<dyn WebSearch>, ReceivedQueries)> + Send + 'static,
    {
        Self(Box::new(move |scene| Box::pin(make(scene))))
    }

    async fn search(
        &self,
        scene: SearchScene,
        query: &str,
        most: u32,
    ) -> Result<Vec<SearchHit>, WebSearchError> {
        let (search, _) = (self.0)(scene).await;
        let most = NonZeroU32::new(most).expect("the suite asks for something");
        promptly("the search hangs", search.search(query, most)).await
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subject")
    }
}

/// Mounts the rules of the [`WebSearch`](neuraxis_ports::WebSearch) port as tests. Takes a
/// [`Subject`](crate::conformance::web_search::Subject).
#[macro_export]
macro_rules! web_search_suite {
    ($subject:expr) => {
        $crate::mount_rules! { web_search, $subject, [
            hits_are_returned_complete_and_in_the_order_of_the_service
            no_more_hits_are_returned_than_requested
            an_empty_result_is_not_an_error
            a_query_reaches_the_service_unchanged
            a_refused_key_is_reported_without_revealing_it
            the_retry_delay_of_a_busy_service_is_reported
            a_refused_query_is_reported_without_revealing_the_key
            a_failing_service_is_reported_as_a_temporary_error
            a_web_page_as_an_answer_is_an_invalid_response
            a_search_of_a_silent_service_times_out
            a_dropped_search_leaves_the_adapter_usable
        ] }
    };
}

fn hits(count: usize) -> Vec<SearchHit> {
    let hit = |number| {
        let url = format!("https://example.org/{number}?a=b&c=d");
        SearchHit::new(format!("Page {number} – é"), url, format!("about {number}"))
    };
    (0..count).map(hit).collect()
}

/// The best hit comes first, with title, URL and excerpt.
pub async fn hits_are_returned_complete_and_in_the_order_of_the_service(subject: Subject) {
    let found = subject
        .search(SearchScene::Finds(hits(3)), "rivers", 10)
        .await;
    assert_eq!(found.expect("pages are found"), hits(3));
}

/// Services return a page of hits, however many were requested.
pub async fn no_more_hits_are_returned_than_requested(subject: Subject) {
    let found = subject
        .search(SearchScene::Finds(hits(9)), "rivers", 2)
        .await;
    assert_eq!(found.expect("pages are found"), hits(2));
}

/// An empty result is not an error.
pub async fn an_empty_result_is_not_an_error(subject: Subject) {
    let found = subject
        .search(SearchScene::Finds(Vec::new()), "rivers", 5)
        .await;
    assert_eq!(found, Ok(Vec::new()));
}

/// Characters with a meaning in a URL or in JSON have none in a query.
pub async fn a_query_reaches_the_service_unchanged(subject: Subject) {
    let question = "a&b=c #d \"e\" \\ 50% + Zürich 東京";
    let (search, asked) = (subject.0)(SearchScene::Finds(hits(1))).await;
    let found = search.search(question, NonZeroU32::MIN).await;
    found.expect("a page is found");
    assert_eq!(asked(), [question]);
}

/// The key is wrong, and no error contains it.
pub async fn a_refused_key_is_reported_without_revealing_it(subject: Subject) {
    let found = subject.search(SearchScene::RefusesKey, "rivers", 5).await;
    let error = found.expect_err("the key is refused");
    assert_eq!(error, WebSearchError::Unauthorized);
    assert_hidden(&error);
}

/// The service's waiting time is reported.
pub async fn the_retry_delay_of_a_busy_service_is_reported(subject: Subject) {
    let found = subject.search(SearchScene::IsBusy, "rivers", 5).await;
    let error = found.expect_err("the service is busy");
    let retry_after = Some(Duration::from_secs(7));
    assert_eq!(error, WebSearchError::RateLimited { retry_after });
    assert!(error.is_temporary());
}

/// The service rejects the query; a retry does not help.
pub async fn a_refused_query_is_reported_without_revealing_the_key(subject: Subject) {
    let found = subject
        .search(SearchScene::RefusesQuestion, "rivers", 5)
        .await;
    let error = found.expect_err("the question is refused");
    assert!(matches!(error, WebSearchError::Refused { .. }), "{error}");
    assert!(!error.is_temporary());
    assert_hidden(&error);
}

/// The service is temporarily broken.
pub async fn a_failing_service_is_reported_as_a_temporary_error(subject: Subject) {
    let found = subject.search(SearchScene::Fails, "rivers", 5).await;
    let error = found.expect_err("the service fails");
    assert_eq!(error, WebSearchError::Failing { status: 503 });
    assert!(error.is_temporary());
}

/// Something other than a search service answers at that address.
pub async fn a_web_page_as_an_answer_is_an_invalid_response(subject: Subject) {
    let found = subject.search(SearchScene::IsNoService, "rivers", 5).await;
    let error = found.expect_err("a web page is not an answer");
    assert!(
        matches!(error, WebSearchError::InvalidResponse { .. }),
        "{error}"
    );
}

/// A search ends within its timeout.
pub async fn a_search_of_a_silent_service_times_out(subject: Subject) {
    let found = subject.search(SearchScene::IsSilent, "rivers", 5).await;
    assert_eq!(found, Err(WebSearchError::Timeout));
}

/// A search whose future is dropped midway leaves the adapter usable.
pub async fn a_dropped_search_leaves_the_adapter_usable(subject: Subject) {
    let (search, _) = (subject.0)(SearchScene::Finds(hits(1))).await;
    let dropped = search.search("rivers", NonZeroU32::MIN).now_or_never();
    drop(dropped);
    let next = search.search("rivers", NonZeroU32::MIN);
    promptly("the next search hangs", next)
        .await
        .expect("the next search succeeds");
}

fn assert_hidden(error: &WebSearchError) {
    let text = format!("{error} {error:?}");
    assert!(!text.contains("canary"), "the key is exposed: {text}");
}
