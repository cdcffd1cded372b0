//! The rules of the [`SessionStore`] port.

pub mod beginnings;
pub mod carried;
pub mod inbox;
pub mod integrity;
pub mod keys;
pub mod leases;
pub mod outputs;
pub mod records;
pub mod runs;
pub mod search;
pub mod sessions;
pub mod stats;
pub mod summaries;
pub mod titles;

use std::sync::Arc;

use neuraxis_core::{Message, Record, RunId, Seq, SessionId};
use neuraxis_ports::{RunLease, Session, SessionStore};

use crate::clock::CountingIds;
use crate::clock::START;
use crate::reply;
use crate::run_log::RunLog;

/// Mounts the rules of the [`SessionStore`](neuraxis_ports::SessionStore) port as tests. Takes an empty store. If that
/// needs something that is not available everywhere, put it after `ignored because "needs …":`.
///
/// Each rule uses one store that stays open. The adapter must test separately what is read back after it is opened
/// again, including the seeds of sessions, which are not serialized with them, and what a second store over the same
/// data sees and takes over.
#[macro_export]
macro_rules! session_store_suite {
    (ignored because $why:literal: $store:expr) => {
        $crate::session_store_suite! { @ ($why) $store }
    };
    (@ $mark:tt $store:expr) => {
        $crate::mount_rules! { $mark session_store::sessions, $store, [
            a_session_is_found_after_it_was_created
            a_session_id_is_taken_once
            an_unknown_session_is_named_in_the_error
            sessions_are_listed_the_newest_first
            a_deleted_session_is_gone_with_its_runs
            a_deleted_session_id_may_be_used_again
            a_busy_session_is_not_deleted
            a_session_that_went_on_is_not_deleted_as_it_was_read
            an_ended_run_adds_its_messages_to_the_history
            a_run_at_work_adds_nothing_to_the_history
            sessions_do_not_mix
            a_seed_comes_back_and_begins_the_history
            sessions_are_listed_page_by_page
            an_owner_s_sessions_are_listed_alone
            sessions_are_found_by_the_beginning_of_their_ids
            an_owner_that_cannot_be_kept_is_refused
            old_sessions_are_pruned_and_busy_ones_stay
        ] }
        $crate::mount_rules! { $mark session_store::titles, $store, [
            a_title_is_set_replaced_and_removed
            a_session_is_created_with_its_title
            an_invalid_title_is_refused
            a_title_belongs_to_its_session
            a_title_is_set_while_a_run_is_in_progress
            a_list_shows_how_sessions_began_and_how_they_stand
            pages_of_both_lists_show_the_same_sessions
            a_first_message_is_short_and_readable
        ] }
        $crate::mount_rules! { $mark session_store::search, $store, [
            sessions_are_found_by_title_and_by_any_message
            a_search_ignores_case_and_takes_every_character_literally
            a_message_is_searched_whole_unless_it_is_withheld
            a_search_stays_within_its_list
            a_search_is_read_page_by_page
            one_call_of_a_search_examines_a_limited_number_of_sessions
        ] }
        $crate::mount_rules! { $mark session_store::runs, $store, [
            a_busy_session_takes_no_second_run
            of_runs_that_begin_at_once_one_wins
            a_run_with_an_answer_frees_its_session
            a_failed_run_frees_its_session
            the_end_of_a_sub_agent_does_not_free_the_session
            a_waiting_run_keeps_its_session
            a_run_that_never_began_gives_its_session_back
            a_run_with_records_is_not_abandoned
            a_run_knows_the_history_it_began_with
            leases_of_a_session_rise
            a_run_that_begins_again_makes_its_older_lease_stale
            an_ended_run_does_not_begin_again
            a_run_of_another_session_does_not_begin
            a_new_session_is_made_with_its_run
            a_session_that_is_there_is_not_made_anew
            of_runs_that_make_a_session_at_once_one_wins
        ] }
        $crate::mount_rules! { $mark session_store::beginnings, $store, [
            a_run_begins_with_the_records_of_its_first_step
            a_run_begun_again_has_to_begin_with_the_same_records
            a_run_may_end_as_it_begins
            a_run_whose_first_records_are_refused_does_not_begin
            a_session_says_where_it_stands
            a_run_goes_on_from_the_one_that_was_the_last
            of_runs_that_go_on_from_one_run_at_once_one_wins
            runs_of_many_sessions_begin_at_once
        ] }
        $crate::mount_rules! { $mark session_store::keys, $store, [
            a_key_holds_one_run_of_its_session
            an_ended_run_holds_its_key
            a_run_begun_again_keeps_the_request_it_has
            a_key_is_checked_before_a_session_is_created
            a_run_that_never_began_gives_its_key_back
            of_runs_that_begin_at_once_under_a_key_one_wins
        ] }
        $crate::mount_rules! { $mark session_store::records, $store, [
            a_run_has_no_records_before_its_first_commit
            an_unknown_run_is_named_in_the_error
            records_come_back_as_they_were_committed
            records_are_read_after_a_given_one
            a_gap_in_the_records_is_refused
            a_record_is_committed_once
            the_last_commit_of_a_run_may_be_repeated
            records_out_of_order_are_refused_all
            records_of_another_run_are_refused
            an_ended_run_takes_no_more_records
            a_lease_of_nobody_is_refused
            a_commit_of_nothing_changes_nothing
            a_dropped_commit_has_happened_whole_or_not_at_all
            hostile_texts_and_long_values_come_back_as_they_were
            nothing_follows_the_end_of_a_run_within_a_commit
            a_run_as_long_as_a_run_may_be_takes_nothing_but_its_end
            runs_that_commit_at_once_keep_their_order
        ] }
        $crate::mount_rules! { $mark session_store::leases, $store, [
            a_released_run_stays_unfinished_and_keeps_its_session
            an_owner_s_unfinished_runs_are_found_alone
            a_released_lease_writes_nothing_more
            an_imported_run_says_so_until_it_is_begun_again
            a_released_run_is_taken_up_again
            a_run_whose_lease_was_let_run_out_is_taken_up_at_once
            a_lease_is_renewed_by_its_holder_alone
            a_lease_says_how_long_it_lasts
            a_run_that_somebody_drives_is_not_left
            a_run_that_waits_is_due_once_something_was_posted_to_it
            a_run_says_until_when_it_is_held_while_it_is
            a_lease_of_an_older_holder_is_good_for_nothing
        ] }
        $crate::mount_rules! { $mark session_store::inbox, $store, [
            what_is_posted_waits_in_its_order_until_it_is_settled
            an_entry_posted_twice_is_kept_once
            another_input_under_the_same_id_is_refused
            a_commit_takes_the_entries_that_its_records_hold
            a_client_s_result_is_taken_with_its_record
            a_refused_commit_takes_nothing
            an_entry_that_was_taken_is_still_known
            what_a_run_did_not_take_goes_with_its_end
            an_unknown_or_ended_run_takes_no_entries
            an_inbox_is_bounded
            a_run_says_whether_it_has_mail
            runs_with_mail_are_found_until_they_took_it
            an_entry_that_cannot_be_kept_is_refused
        ] }
        $crate::mount_rules! { $mark session_store::outputs, $store, [
            an_output_comes_back_page_by_page_as_it_was_kept
            a_page_begins_at_a_byte_or_a_line
            a_page_never_splits_a_character
            an_output_kept_again_takes_the_place_of_the_first
            outputs_of_a_run_are_listed
            what_is_not_kept_is_named_in_the_error
            a_run_keeps_no_more_than_it_may
            a_lease_that_is_void_keeps_no_output
            outputs_go_with_their_session
        ] }
        $crate::mount_rules! { $mark session_store::stats, $store, [
            runs_add_up_by_day_model_role_tool_and_agent
            statistics_hold_an_owner_s_runs_alone
            statistics_begin_at_a_time
            more_runs_than_a_page_holds_add_up
            what_is_deleted_no_longer_counts
        ] }
        $crate::mount_rules! { $mark session_store::summaries, $store, [
            a_run_is_told_in_a_few_words
            a_waiting_run_says_what_it_waits_for
            runs_are_listed_in_their_order
            runs_of_all_sessions_are_listed_by_their_ids
            an_owner_s_runs_are_listed_alone
            what_is_unknown_is_named_in_every_question
            metrics_add_up_over_runs_at_work_and_ended_ones
            usage_counts_from_a_time_on
            time_is_what_runs_were_active
        ] }
        $crate::mount_rules! { $mark session_store::carried, $store, [
            untrusted_content_of_a_session_is_known
            untrusted_content_that_a_run_begins_with_is_known
            an_answer_is_remembered_listed_and_taken_back
            answers_that_were_imported_count_for_nothing
            numbers_of_answers_never_come_back
            a_refused_commit_lets_nothing_be_remembered
            the_last_plan_of_a_session_is_known
            what_a_session_carries_goes_with_it
        ] }
        $crate::mount_rules! { $mark session_store::integrity, $store, [
            the_chain_of_a_session_is_that_of_its_records
            an_expected_head_is_compared
        ] }
    };
    ($store:expr) => {
        $crate::session_store_suite! { @ () $store }
    };
}

/// A session with a run in progress.
struct Busy {
    session: SessionId,
    log: RunLog,
    lease: RunLease,
}

#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
impl Busy {
    /// Adds the session `main` and starts its first run.
    async fn new(store: &impl SessionStore) -> Self {
        let session = id("main");
        store
            .create_session(&session_of("main", 0))
            .await
            .expect("the session is new");
        Self::begin(store, &session, 1).await
    }

    /// Starts a run of a session that is free.
    async fn begin(store: &impl SessionStore, session: &SessionId, number: u64) -> Self {
        let run = CountingIds::nth_run(number);
        let lease = store
            .begin_run(session, run)
            .await
            .expect("the session is free");
        assert_eq!(
            (&lease.session, lease.run),
            (session, run),
            "the lease is for something else"
        );
        Self {
            session: session.clone(),
            log: RunLog::new(run, session.clone()),
            lease,
        }
    }

    /// Commits records, which must succeed.
    async fn commit(&self, store: &impl SessionStore, records: &[Arc<Record>]) {
        store
            .commit(&self.lease, records)
            .await
            .expect("the records follow");
    }

    /// Completes the run with one question and one answer.
    async fn finish(
        mut self,
        store: &impl SessionStore,
        question: &str,
        answer: &str,
    ) -> Vec<Arc<Record>> {
        let records = vec![
            self.log.started(question),
            self.log.replied(reply::text(answer)),
            self.log.finished(answer),
        ];
        self.commit(store, &records).await;
        records
    }
}

#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
fn id(text: &str) -> SessionId {
    text.parse().expect("a valid session id")
}

/// Returns a session created the given number of seconds after [`START`].
fn session_of(text: &str, seconds: u64) -> Session {
    let at = START
        .checked_add(std::time::Duration::from_secs(seconds))
        .unwrap_or(START);
    let mut session = Session::new(id(text), at);
    session.owner = Some(format!("owner of {text}"));
    session
}

#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
async fn records(store: &impl SessionStore, run: RunId) -> Vec<Arc<Record>> {
    store.records(run, Seq(0)).await.expect("the run is known")
}

#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
async fn history(store: &impl SessionStore, session: &SessionId) -> Vec<String> {
    let history = store.history(session).await.expect("the session is known");
    history
        .messages()
        .iter()
        .map(|message| Message::text(message))
        .collect()
}
