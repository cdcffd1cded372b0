//! The rules of the [`SessionStore`] port.

pub mod activity;
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
            a_session_is_read_back_as_it_was_created
            a_second_session_with_the_same_id_is_refused
            an_unknown_session_is_named_in_the_error
            sessions_are_listed_newest_first
            deleting_a_session_deletes_its_runs
            the_id_of_a_deleted_session_can_be_reused
            a_busy_session_is_not_deleted
            a_session_that_changed_since_it_was_read_is_not_deleted
            an_ended_run_adds_its_messages_to_the_history
            a_run_in_progress_adds_nothing_to_the_history
            concurrent_runs_of_several_sessions_stay_separate
            a_seed_is_stored_unchanged_and_begins_the_history
            sessions_are_listed_page_by_page
            listing_by_owner_returns_only_that_owners_sessions
            sessions_are_found_by_a_prefix_of_their_ids
            an_invalid_owner_name_is_refused
            old_sessions_are_pruned_and_busy_ones_stay
        ] }
        $crate::mount_rules! { $mark session_store::titles, $store, [
            a_title_is_set_replaced_and_removed
            a_session_can_be_created_with_a_title
            an_invalid_title_is_refused
            a_title_is_deleted_with_its_session
            a_title_can_be_set_while_a_run_is_in_progress
            a_list_shows_the_first_message_and_last_run_of_each_session
            pages_of_sessions_and_of_summaries_show_the_same_sessions
            a_long_first_message_is_clipped_and_a_withheld_one_is_not_shown
        ] }
        $crate::mount_rules! { $mark session_store::activity, $store, [
            a_session_is_active_when_a_run_begins_and_when_it_ends
            the_first_records_of_a_run_count_as_activity
            pages_by_last_activity_lack_only_sessions_that_are_used_meanwhile
        ] }
        $crate::mount_rules! { $mark session_store::search, $store, [
            sessions_are_found_by_title_and_by_any_user_message
            a_search_ignores_case_and_takes_every_character_literally
            a_message_is_searched_completely_unless_it_is_withheld
            a_search_finds_only_sessions_that_its_filter_selects
            search_results_are_read_page_by_page
            one_search_call_examines_a_limited_number_of_sessions
        ] }
        $crate::mount_rules! { $mark session_store::runs, $store, [
            a_busy_session_accepts_no_second_run
            only_one_of_many_concurrent_runs_gets_the_session
            a_run_that_ends_with_an_answer_frees_its_session
            a_failed_run_frees_its_session
            the_end_of_a_sub_agent_does_not_free_the_session
            a_waiting_run_keeps_its_session
            an_abandoned_run_frees_its_session
            a_run_with_records_cannot_be_abandoned
            trimming_does_not_change_the_history_that_a_run_began_with
            the_lease_tokens_of_a_session_increase
            resuming_a_run_makes_its_older_lease_stale
            an_ended_run_cannot_be_resumed
            a_run_of_one_session_cannot_begin_in_another
            a_new_session_is_created_with_its_run
            an_existing_session_is_not_created_again
            only_one_of_many_concurrent_runs_creates_the_session
        ] }
        $crate::mount_rules! { $mark session_store::beginnings, $store, [
            the_first_records_of_a_run_are_stored_when_it_begins
            a_run_cannot_be_begun_again_with_different_records
            a_run_may_end_with_its_first_records
            a_run_whose_first_records_are_refused_does_not_begin
            a_continuation_names_the_last_run_unless_one_is_in_progress
            a_run_begins_only_if_its_predecessor_is_the_last_run
            only_one_of_many_concurrent_runs_with_the_same_predecessor_begins
            concurrent_runs_of_many_sessions_do_not_interfere
        ] }
        $crate::mount_rules! { $mark session_store::keys, $store, [
            only_one_run_of_a_session_begins_under_a_key
            an_ended_run_keeps_its_key
            a_resumed_run_keeps_its_original_request
            a_key_is_checked_before_a_session_is_created
            an_abandoned_run_releases_its_key
            only_one_of_several_concurrent_runs_begins_under_a_key
        ] }
        $crate::mount_rules! { $mark session_store::records, $store, [
            a_run_has_no_records_before_its_first_commit
            an_unknown_run_is_named_in_the_error
            records_are_read_back_as_they_were_committed
            records_are_read_after_a_given_one
            a_gap_in_the_records_is_refused
            a_repeated_commit_stores_no_record_twice
            the_last_commit_of_a_run_may_be_repeated
            a_commit_with_records_out_of_order_is_refused_as_a_whole
            records_of_another_run_are_refused
            an_ended_run_accepts_no_more_records
            a_forged_lease_is_refused
            an_empty_commit_changes_nothing
            a_dropped_commit_stores_all_of_its_records_or_none
            hostile_texts_and_long_values_are_read_back_unchanged
            a_commit_with_a_record_after_the_end_of_the_run_is_refused
            a_run_at_its_maximum_length_accepts_only_its_end
            concurrent_commits_keep_the_records_of_each_run_in_order
        ] }
        $crate::mount_rules! { $mark session_store::leases, $store, [
            a_released_run_stays_unfinished_and_keeps_its_session
            unfinished_runs_can_be_listed_by_owner
            a_released_lease_can_neither_commit_nor_be_renewed
            an_imported_run_is_marked_as_imported_until_it_is_resumed
            a_released_run_is_resumed_with_a_new_lease
            a_run_with_an_expired_lease_can_be_resumed_immediately
            only_the_current_holder_can_renew_a_lease
            a_lease_reports_the_length_that_the_store_uses
            a_run_that_a_process_drives_is_not_listed_as_unfinished
            a_waiting_run_is_due_once_input_is_posted_to_it
            every_query_reports_the_lease_end_only_while_the_run_is_held
            the_lease_of_a_previous_holder_is_refused
        ] }
        $crate::mount_rules! { $mark session_store::inbox, $store, [
            entries_stay_in_the_order_they_were_posted_until_settled
            an_entry_posted_twice_is_stored_once
            a_different_input_with_the_same_id_is_refused
            a_commit_removes_the_entries_that_its_records_contain
            committing_a_client_result_removes_its_inbox_entry
            a_refused_commit_removes_no_entries
            a_taken_entry_does_not_return_when_it_is_posted_again
            entries_that_were_not_taken_are_deleted_when_the_run_ends
            an_unknown_or_ended_run_accepts_no_entries
            a_full_inbox_refuses_entries_until_one_is_settled
            a_run_reports_whether_it_has_mail
            runs_with_mail_are_found_until_it_is_settled_or_they_end
            an_invalid_entry_is_refused
        ] }
        $crate::mount_rules! { $mark session_store::outputs, $store, [
            the_pages_of_an_output_join_to_the_whole_output
            a_page_starts_at_a_given_byte_or_line
            a_page_never_splits_a_character
            an_output_stored_again_replaces_the_first_one
            outputs_of_a_run_are_listed
            a_missing_output_or_run_is_named_in_the_error
            the_outputs_of_a_run_are_limited_in_total_size
            no_output_is_stored_under_a_stale_lease
            outputs_are_deleted_with_their_session
        ] }
        $crate::mount_rules! { $mark session_store::stats, $store, [
            statistics_sum_runs_by_day_model_role_tool_and_agent
            statistics_of_an_owner_count_only_that_owners_runs
            statistics_count_runs_from_an_exact_time
            more_runs_than_fit_in_one_page_are_each_counted_once
            runs_of_a_deleted_session_are_no_longer_counted
        ] }
        $crate::mount_rules! { $mark session_store::summaries, $store, [
            a_summary_shows_the_state_of_a_run_from_start_to_end
            a_waiting_run_reports_what_it_waits_for
            runs_of_a_session_are_listed_in_the_order_they_began
            runs_of_all_sessions_are_listed_by_descending_id
            listing_by_owner_returns_only_that_owners_runs
            an_unknown_session_or_run_is_named_in_every_error
            session_metrics_sum_runs_in_progress_and_ended_runs
            usage_is_counted_from_a_given_time
            the_time_a_session_used_is_the_active_time_of_its_runs
        ] }
        $crate::mount_rules! { $mark session_store::carried, $store, [
            untrusted_content_of_a_session_is_known
            untrusted_content_in_the_first_records_of_a_run_is_known
            grants_are_remembered_listed_and_revoked
            imported_grants_do_not_count
            grant_numbers_are_never_reused
            a_session_carries_nothing_from_a_refused_commit
            the_last_plan_of_a_session_is_known
            carried_state_is_deleted_with_its_session
        ] }
        $crate::mount_rules! { $mark session_store::integrity, $store, [
            the_chain_of_a_session_covers_all_its_records
            verification_accepts_only_heads_that_the_session_has_had
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
