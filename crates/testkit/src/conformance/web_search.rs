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
            hits_come_in_the_order_of_the_service_with_all_that_it_says
            no_more_hits_come_than_were_asked_for
            nothing_found_is_no_error
            the_question_arrives_as_it_was_asked
            a_refused_key_is_said_to_be_refused_and_not_repeated
            a_busy_service_says_when_to_come_back
            a_refused_question_is_said_to_be_refused_without_the_key
            a_service_that_fails_may_be_asked_again
            what_is_no_service_gives_an_answer_that_cannot_be_read
            a_silent_service_is_not_waited_for_forever
            a_dropped_search_does_no_harm
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
pub async fn hits_come_in_the_order_of_the_service_with_all_that_it_says(subject: Subject) {
    let found = subject
        .search(SearchScene::Finds(hits(3)), "rivers", 10)
        .await;
    assert_eq!(found.expect("pages are found"), hits(3));
}

/// Services return a page of hits, however many were requested.
pub async fn no_more_hits_come_than_were_asked_for(subject: Subject) {
    let found = subject
        .search(SearchScene::Finds(hits(9)), "rivers", 2)
        .await;
    assert_eq!(found.expect("pages are found"), hits(2));
}

/// An empty result is not an error.
pub async fn nothing_found_is_no_error(subject: Subject) {
    let found = subject
        .search(SearchScene::Finds(Vec::new()), "rivers", 5)
        .await;
    assert_eq!(found, Ok(Vec::new()));
}

/// Characters with a meaning in a URL or in JSON have none in a query.
pub async fn the_question_arrives_as_it_was_asked(subject: Subject) {
    let question = "a&b=c #d \"e\" \\ 50% + Zürich 東京";
    let (search, asked) = (subject.0)(SearchScene::Finds(hits(1))).await;
    let found = search.search(question, NonZeroU32::MIN).await;
    found.expect("a page is found");
    assert_eq!(asked(), [question]);
}

/// The key is wrong, and no error contains it.
pub async fn a_refused_key_is_said_to_be_refused_and_not_repeated(subject: Subject) {
    let found = subject.search(SearchScene::RefusesKey, "rivers", 5).await;
    let error = found.expect_err("the key is refused");
    assert_eq!(error, WebSearchError::Unauthorized);
    assert_hidden(&error);
}

/// The service's waiting time is reported.
pub async fn a_busy_service_says_when_to_come_back(subject: Subject) {
    let found = subject.search(SearchScene::IsBusy, "rivers", 5).await;
    let error = found.expect_err("the service is busy");
    let retry_after = Some(Duration::from_secs(7));
    assert_eq!(error, WebSearchError::RateLimited { retry_after });
    assert!(error.is_temporary());
}

/// The service rejects the query; a retry does not help.
pub async fn a_refused_question_is_said_to_be_refused_without_the_key(subject: Subject) {
    let found = subject
        .search(SearchScene::RefusesQuestion, "rivers", 5)
        .await;
    let error = found.expect_err("the question is refused");
    assert!(matches!(error, WebSearchError::Refused { .. }), "{error}");
    assert!(!error.is_temporary());
    assert_hidden(&error);
}

/// The service is temporarily broken.
pub async fn a_service_that_fails_may_be_asked_again(subject: Subject) {
    let found = subject.search(SearchScene::Fails, "rivers", 5).await;
    let error = found.expect_err("the service fails");
    assert_eq!(error, WebSearchError::Failing { status: 503 });
    assert!(error.is_temporary());
}

/// Something other than a search service answers at that address.
pub async fn what_is_no_service_gives_an_answer_that_cannot_be_read(subject: Subject) {
    let found = subject.search(SearchScene::IsNoService, "rivers", 5).await;
    let error = found.expect_err("a web page is not an answer");
    assert!(
        matches!(error, WebSearchError::InvalidResponse { .. }),
        "{error}"
    );
}

/// A search ends within its timeout.
pub async fn a_silent_service_is_not_waited_for_forever(subject: Subject) {
    let found = subject.search(SearchScene::IsSilent, "rivers", 5).await;
    assert_eq!(found, Err(WebSearchError::Timeout));
}

/// A search whose future is dropped midway leaves the adapter usable.
pub async fn a_dropped_search_does_no_harm(subject: Subject) {
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
