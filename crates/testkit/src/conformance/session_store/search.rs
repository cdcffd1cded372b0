//! Rules for the search for sessions by their titles and messages.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use futures_util::future::join_all;
use neuraxis_ports::{SearchExtent, SessionFilter, SessionSearch, SessionStore, SessionsFound};

use super::titles::withheld;
use super::{Busy, id, session_of};

/// Adds a session with runs that ended, one for each message.
async fn talk(store: &impl SessionStore, name: &str, number: u64, messages: &[&str]) {
    let session = session_of(name, number);
    assert_eq!(store.create_session(&session).await, Ok(()));
    for (run, message) in (number * 100..).zip(messages) {
        let busy = Busy::begin(store, &session.id, run).await;
        busy.finish(store, message, "An answer.").await;
    }
}

async fn call(store: &impl SessionStore, search: &SessionSearch) -> SessionsFound {
    store.search(search).await.expect("the store searches")
}

fn names(found: &SessionsFound) -> String {
    let names = found.sessions.iter().map(|it| it.session.id.to_string());
    names.collect::<Vec<_>>().join(" ")
}

/// Returns the ids of all sessions that a search finds, in order.
async fn found(store: &impl SessionStore, filter: SessionFilter, text: &str) -> String {
    let mut search = filter.containing(text);
    let mut all = Vec::new();
    loop {
        let page = call(store, &search).await;
        all.extend(page.sessions.iter().map(|it| it.session.id.to_string()));
        match page.next {
            Some(next) => search = search.continuing(next),
            None => return all.join(" "),
        }
    }
}

/// A session is found by its title, and by what its user wrote in any of its runs, but not by what was answered.
pub async fn sessions_are_found_by_title_and_by_any_user_message(store: impl SessionStore) {
    talk(
        &store,
        "a",
        1,
        &["Book a hotel.", "And a train?", "Thanks!"],
    )
    .await;
    talk(&store, "b", 2, &["What is a monad?"]).await;
    talk(&store, "c", 3, &[]).await;
    for (name, title) in [("b", "Category theory"), ("c", "Trains")] {
        assert_eq!(store.set_title(&id(name), Some(title)).await, Ok(()));
    }
    for (text, expected) in [
        ("hotel", "a"),
        ("train", "c a"),
        ("Thanks!", "a"),
        ("theory", "b"),
        ("monad", "b"),
        ("answer", ""),
        ("hotel. And", ""),
        ("", "c b a"),
    ] {
        let all = SessionFilter::default();
        assert_eq!(found(&store, all, text).await, expected, "{text}");
    }
    let search = SessionFilter::default().containing("monad");
    let listed = store.summaries(&SessionFilter::default()).await;
    let listed = listed.expect("the store lists");
    assert_eq!(
        call(&store, &search).await.sessions,
        listed.get(1..2).unwrap_or_default()
    );
    assert_eq!(store.delete_session(&id("b")).await, Ok(()));
    assert_eq!(found(&store, SessionFilter::default(), "monad").await, "");
}

/// Upper and lower case are the same in every script, and no character has a special meaning.
pub async fn a_search_ignores_case_and_takes_every_character_literally(store: impl SessionStore) {
    talk(&store, "a", 1, &["Wie heißt die Straße in KÖLN?"]).await;
    talk(&store, "b", 2, &["Москва ΟΔΟΣ"]).await;
    talk(
        &store,
        "c",
        3,
        &["100% of a_b, 'quoted' \"twice\" \\ and a*b?"],
    )
    .await;
    for (text, expected) in [
        ("köln", "a"),
        ("STRASSE", "a"),
        ("straße", "a"),
        ("МОСКВА", "b"),
        ("οδος", "b"),
        ("0% OF A_B", "c"),
        ("'quoted' \"twice\" \\", "c"),
        ("%", "c"),
        ("_", "c"),
        ("a_b", "c"),
        ("k_ln", ""),
        ("k%n", ""),
        ("*", "c"),
        ("köln  ", ""),
    ] {
        let all = SessionFilter::default();
        assert_eq!(found(&store, all, text).await, expected, "{text}");
    }
}

/// A message is searched to its end, however long it is, and not at all if a data policy kept it out of the log.
pub async fn a_message_is_searched_completely_unless_it_is_withheld(store: impl SessionStore) {
    let filler = "lorem ipsum ".repeat(20);
    let long = format!("{filler}the needle");
    let longest = format!("{}the pin", filler.repeat(400));
    talk(&store, "a", 1, &["Short.", &long, "Short."]).await;
    talk(&store, "b", 2, &[&longest]).await;
    let session = session_of("c", 3);
    assert_eq!(store.create_session(&session).await, Ok(()));
    let mut busy = Busy::begin(&store, &session.id, 300).await;
    let started = withheld(&busy.log.started("the needle and the pin"));
    busy.commit(&store, &[started]).await;
    for (text, expected) in [
        ("ipsum", "b a"),
        ("the NEEDLE", "a"),
        ("the pin", "b"),
        ("withheld", ""),
        ("sha256", ""),
        ("…", ""),
    ] {
        let all = SessionFilter::default();
        assert_eq!(found(&store, all, text).await, expected, "{text}");
    }
}

/// A search finds only what its list shows: an owner's own sessions, and those with a prefix.
pub async fn a_search_finds_only_sessions_that_its_filter_selects(store: impl SessionStore) {
    for (number, name) in (1..).zip(["a1", "a2", "b1"]) {
        talk(&store, name, number, &["The same."]).await;
    }
    let of = |owner: &str| SessionFilter::default().owned_by(owner);
    assert_eq!(found(&store, of("owner of a2"), "same").await, "a2");
    assert_eq!(found(&store, of("nobody"), "same").await, "");
    let prefixed = SessionFilter::default().beginning_with("a");
    assert_eq!(found(&store, prefixed, "same").await, "a2 a1");
}

/// A search is read page by page, and ends where the list does.
pub async fn search_results_are_read_page_by_page(store: impl SessionStore) {
    for (number, name) in (1..).zip(["a", "b", "c", "d", "e"]) {
        let message = match name {
            "c" => "Other.",
            _ => "The same.",
        };
        talk(&store, name, number, &[message]).await;
    }
    let mut search = SessionFilter::default().limited_to(2).containing("same");
    let mut pages = Vec::new();
    loop {
        let page = call(&store, &search).await;
        pages.push(names(&page));
        match page.next {
            Some(next) => search = search.continuing(next),
            None => break,
        }
    }
    assert_eq!(pages, ["e d", "b a"]);
    let nothing = SessionFilter::default().containing("nothing of the sort");
    assert_eq!(call(&store, &nothing).await, SessionsFound::default());
}

/// One call examines a limited number of sessions. Its page may be empty and still say where the search continues.
pub async fn one_search_call_examines_a_limited_number_of_sessions(store: impl SessionStore) {
    let count = u64::try_from(SearchExtent::MAX_SESSIONS).unwrap_or(u64::MAX);
    let mut sessions: Vec<_> = (0..=count)
        .map(|number| session_of(&format!("s{number}"), number))
        .collect();
    if let Some(oldest) = sessions.first_mut() {
        oldest.title = Some("The needle".to_owned());
    }
    let created = join_all(sessions.iter().map(|session| store.create_session(session))).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    let search = SessionFilter::default().containing("needle");
    let first = call(&store, &search).await;
    assert_eq!(names(&first), "");
    let next = first.next.expect("more follow");
    assert_eq!(next.id, id("s1"));
    let second = call(&store, &search.continuing(next)).await;
    assert_eq!((names(&second).as_str(), second.next), ("s0", None));
}
