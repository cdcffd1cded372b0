//! The page at `/`: its headers, and what a user does with it in a real browser. The scenarios are in `tests/page`;
//! each drives a headless Chromium against the program, with a scripted model, and saves pictures in
//! `target/screenshots`.

use std::path::Path;

use neuraxis_testkit::mcp_script;
use reqwest::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use tokio::process::Command;

use crate::support::Program;

/// An MCP server that asks for something of every kind, and returns the answer as its result.
const SHOP: &str = r#"call() { mine=$id
    printf '%s\n' '{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Which one?","requestedSchema":{"type":"object","properties":{
        "name":{"type":"string","title":"Name","description":"Who gets it.","maxLength":5},
        "pages":{"type":"integer","title":"Pages","minimum":1,"maximum":9,"default":3},
        "gift":{"type":"boolean","title":"Gift"},
        "size":{"type":"string","title":"Size","enum":["s","l"],"enumNames":["Small","Large"]},
        "extras":{"type":"array","title":"Extras","items":{"anyOf":[{"const":"r","title":"Ribbon"},{"const":"c","title":"Card"}]}}
        },"required":["name","size"]}}}' | tr -d '\n'
    echo
    IFS= read -r line
    id=$mine; text "$(printf %s "$line" | tr -d '"\\')"; }"#;

/// Runs a scenario of `tests/page` in a separate folder.
async fn drive(scenario: &str) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let provided =
        |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.sh"), mcp_script(SHOP)).unwrap();
    let driven = Command::new("node")
        .arg(crate_folder.join("tests/page/drive.mjs"))
        .arg(scenario)
        .env("SERVER", env!("CARGO_BIN_EXE_neuraxis-server"))
        .env("PACKAGES", provided("TEST_NEURAXIS_PAGE_DRIVER"))
        .env("CHROMIUM", provided("TEST_NEURAXIS_CHROMIUM"))
        .env("FOLDER", folder.path())
        .env("SCREENSHOTS", crate_folder.join("../../target/screenshots"))
        .kill_on_drop(true)
        .output();
    let driven = driven.await.unwrap();
    let said = String::from_utf8_lossy(&driven.stderr);
    assert!(driven.status.success(), "{scenario}: {said}");
}

macro_rules! scenarios {
    ($(fn $name:ident() = $scenario:literal;)*) => {$(
        #[tokio::test]
        #[ignore = "needs a browser: cargo xtask test provides it"]
        async fn $name() {
            drive($scenario).await;
        }
    )*};
}

scenarios! {
    fn a_message_is_sent_and_its_answer_is_shown_as_it_arrives() = "sends_and_streams";
    fn a_page_reloaded_mid_stream_resumes_following_the_run() = "reloads_in_mid_stream";
    fn pasted_text_is_sent_in_full_or_not_at_all_with_the_reason() = "sends_all_that_was_pasted_or_nothing";
    fn the_reading_position_stays_while_text_grows() = "keeps_what_is_read_where_it_is_while_it_grows";
    fn a_lost_connection_is_shown_and_loses_nothing() = "survives_a_lost_connection";
    fn a_message_is_sent_once_whatever_happens_to_its_request() = "sends_once_whatever_becomes_of_the_request";
    fn an_answer_from_something_other_than_the_server_is_reported_until_it_is_gone() = "tells_who_answers_in_the_place_of_the_server";
    fn a_view_left_while_loading_holds_no_connection() = "follows_nothing_from_a_view_that_was_left";
    fn hidden_tabs_leave_the_connections_to_the_visible_one() = "leaves_connections_to_the_tab_that_is_seen";
    fn output_that_arrives_while_the_tab_is_hidden_is_shown_once_afterwards() = "misses_and_repeats_nothing_while_nobody_looks";
    fn a_run_started_in_another_tab_is_shown_before_a_message_is_sent() = "shows_what_another_tab_begins";
    fn a_draft_survives_other_views_and_a_reload() = "keeps_what_is_being_written";
    fn creating_a_session_does_not_bring_the_user_back_from_another_view() = "stays_where_the_person_went";
    fn files_are_sent_with_a_message_and_shown_with_it() = "attaches_files";
    fn a_run_can_be_steered_stopped_and_repeated_by_keyboard() = "stops_steers_and_goes_on_by_keyboard";
    fn a_message_that_no_model_received_is_shown_after_the_text() = "shows_what_no_model_heard_behind_what_was_said";
    fn a_message_is_shown_where_a_model_received_it() = "shows_a_message_where_a_model_heard_it";
    fn scrolling_back_a_few_pixels_stops_following_a_growing_answer() = "leaves_whoever_goes_back_where_they_are";
    fn text_growing_at_the_end_is_never_drawn_out_of_sight() = "follows_the_end_in_the_same_frame";
    fn the_first_of_several_questions_is_in_view_and_the_end_once_all_are_decided() = "shows_questions_from_the_first";
    fn loading_earlier_turns_keeps_the_reading_position() = "shows_earlier_turns_without_a_jump";
    fn the_list_shows_the_end_of_a_run_the_page_does_not_follow() = "lists_how_a_run_ends_that_nothing_here_follows";
    fn earlier_turns_neither_change_the_plan_nor_are_announced() = "takes_nothing_that_is_over_for_news";
    fn a_conversation_can_continue_in_a_new_session_from_an_answer() = "goes_on_in_a_new_session";
    fn an_edited_message_is_asked_again_with_the_conversation_before_it() = "asks_again_with_another_message";
    fn an_edited_message_keeps_its_files() = "asks_again_with_the_files_of_the_message";
    fn a_session_is_forked_once_however_often_it_is_requested() = "forks_once_however_often_it_is_asked";
    fn conversations_and_runs_can_be_saved_as_files() = "keeps_conversations_and_runs_as_files";
    fn a_choice_is_explained_and_a_refusal_names_its_rule() = "explains_the_choice";
    fn a_turn_uses_the_stored_choice_before_the_choices_have_loaded() = "sends_what_was_chosen_before_the_choices_are_there";
    fn a_choice_in_one_tab_does_not_affect_another() = "chooses_for_its_own_tab_alone";
    fn on_a_narrow_screen_the_numbers_of_a_run_have_units() = "says_what_the_numbers_of_a_run_count_on_a_narrow_screen";
    fn titles_in_the_list_use_the_available_width_and_the_current_view_is_marked() = "gives_titles_the_room_there_is";
    fn sessions_are_found_by_title_or_id_and_deleted_after_confirmation() = "finds_and_deletes_sessions";
    fn sessions_are_named_by_their_first_message_even_after_many_runs() = "calls_sessions_by_their_first_message";
    fn a_session_gets_a_title_in_the_list_and_above_its_conversation() = "renames_sessions";
    fn a_title_that_could_not_be_saved_is_asked_for_again() = "keeps_a_title_that_could_not_be_saved";
    fn a_session_gets_a_title_on_a_phone() = "renames_on_a_phone";
    fn a_search_finds_sessions_that_are_not_loaded_by_any_message() = "searches_all_sessions";
    fn a_search_is_followed_to_its_end_and_only_the_last_one_counts() = "follows_a_search_to_its_end";
    fn a_long_session_is_shown_whole_although_it_comes_in_pages() = "reads_a_long_session_page_by_page";
    fn the_session_that_was_used_last_is_the_first_of_the_list() = "lists_first_what_was_used_last";
    fn a_session_deleted_elsewhere_is_not_created_again() = "does_not_begin_a_deleted_session_anew";
    fn a_user_with_the_token_approves_exactly_what_is_shown() = "approves_with_the_token";
    fn a_question_shows_everything_that_would_run_whatever_its_arguments_are_named() = "shows_all_that_would_run";
    fn a_run_waits_for_the_remaining_questions_after_one_decision() = "waits_for_the_other_questions";
    fn the_focus_moves_to_the_next_question_without_deciding_it() = "decides_by_keyboard_one_after_the_other";
    fn the_title_of_a_hidden_tab_shows_that_its_run_waits() = "says_in_its_title_that_a_run_waits_while_nobody_looks";
    fn the_title_of_a_hidden_tab_is_reset_when_its_question_is_decided_elsewhere() = "says_in_its_title_that_a_run_waits_no_more_once_that_was_decided_elsewhere";
    fn waiting_sessions_are_at_the_top_of_the_list_however_old_they_are() = "leads_to_what_waits_however_old_it_is";
    fn a_user_can_deny_a_call_with_a_reason_even_after_a_reload() = "denies_with_a_reason";
    fn a_run_that_received_its_client_result_is_shown_in_progress() = "goes_on_with_what_a_client_brings";
    fn a_question_of_a_tool_can_be_filled_in_by_keyboard_and_answered_or_declined() = "answers_what_a_tool_asks";
    fn a_key_that_may_not_decide_sees_that_next_to_the_question() = "says_of_a_key_that_may_not_decide_that_it_may_not";
    fn a_question_that_failed_to_load_can_be_loaded_again() = "asks_again_for_what_could_not_be_loaded";
    fn a_run_that_cannot_be_followed_is_not_shown_as_failed() = "follows_a_run_again_that_it_had_to_leave";
    fn a_required_key_is_requested_and_then_used() = "asks_for_a_key";
    fn a_key_that_a_proxy_adds_decides_without_one_in_the_tab() = "decides_with_a_key_that_a_proxy_adds";
    fn an_insufficient_key_can_be_replaced() = "takes_another_key_in_the_place_of_one";
    fn a_session_of_another_user_is_reported_as_such_and_not_as_missing() = "says_whose_a_session_is_that_takes_no_turn";
    fn a_key_is_offered_only_the_agents_it_may_use() = "offers_a_key_what_it_may_choose";
    fn output_of_models_and_tools_never_runs_on_the_page() = "runs_nothing_of_what_models_say";
    fn an_offered_rule_is_shown_with_its_invisible_characters_made_visible() = "shows_what_an_approval_would_allow_with_signs_that_cannot_be_seen";
    fn user_text_is_shown_unchanged_except_for_bidirectional_overrides() = "shows_what_a_person_wrote_as_it_is";
    fn a_page_of_another_origin_can_neither_call_nor_frame_the_page() = "keeps_pages_of_other_origins_out";
    fn a_front_end_of_a_configured_origin_can_send_requests_from_a_browser() = "lets_a_front_end_of_a_named_origin_ask";
    fn the_page_remains_responsive_with_a_megabyte_of_answer_and_five_thousand_records() = "goes_on_answering_whatever_its_length";
    fn markdown_is_rendered_correctly_and_quickly_whatever_it_contains() = "renders_markdown";
    fn a_run_can_be_inspected_as_a_waterfall_as_records_and_step_by_step() = "shows_what_a_run_did";
    fn touch_targets_on_a_phone_are_large_enough() = "is_pressed_by_fingers";
    fn enter_starts_a_new_line_on_touch_devices() = "begins_lines_where_fingers_write";
    fn each_block_of_an_answer_is_laid_out_in_its_own_text_direction() = "lays_each_text_out_in_its_own_direction";
    fn a_run_in_progress_shows_its_elapsed_time() = "says_for_how_long_a_run_works";
    fn a_low_page_or_a_large_font_leaves_room_for_content_and_controls() = "has_room_however_large_it_is";
    fn an_answer_shows_its_time_and_a_copy_button_its_success() = "says_when_and_that_it_was_copied";
    fn a_missing_session_offers_no_actions() = "offers_nothing_for_a_session_that_is_not_there";
    fn with_forced_colors_lines_and_patterns_replace_colors() = "says_by_lines_what_colors_do_not_say";
    fn a_wide_table_scrolls_instead_of_breaking_words() = "breaks_no_word_of_a_table";
    fn a_failed_command_is_distinguished_from_a_successful_one() = "says_how_a_command_ended";
    fn a_waterfall_and_the_details_of_a_bar_fit_on_a_laptop() = "lays_a_run_out_on_a_laptop";
    fn nothing_is_shown_of_a_run_before_it_has_loaded() = "says_nothing_of_a_run_before_it_is_known";
    fn the_log_of_a_run_in_progress_stays_in_place_when_records_arrive() = "leaves_what_is_read_of_a_run_at_work";
    fn the_durations_of_a_run_in_progress_grow_with_the_clock() = "lets_a_run_at_work_grow_with_the_clock";
    fn the_header_of_a_run_in_progress_is_kept_current() = "says_how_a_run_at_work_stands";
    fn the_replay_of_a_run_in_progress_continues_with_it() = "replays_a_run_at_work_to_where_it_is";
    fn a_page_of_runs_is_added_once_however_often_it_is_requested() = "shows_more_runs_once";
    fn a_duration_is_rounded_before_it_is_split_into_minutes_and_seconds() = "says_how_long_it_took";
    fn an_unknown_cost_is_left_out_and_a_partial_one_is_marked_as_a_lower_bound() = "says_how_sure_a_cost_is";
    fn the_screenshots_of_the_documents_are_taken() = "draws_the_pictures_of_the_documents";
    fn the_work_of_sub_agents_is_shown_within_their_call() = "shows_agents_within_agents";
    fn a_question_is_described_by_its_reasons_and_says_when_it_is_about_to_close() = "describes_a_question_by_its_reasons";
    fn an_answer_has_a_heading_and_a_short_one_is_announced_in_full() = "leads_to_the_answer";
    fn the_focus_is_visible_with_forced_colors_and_never_beneath_a_heading() = "shows_where_the_focus_is";
    fn long_names_take_several_lines_on_an_enlarged_page() = "cuts_no_name_off";
    fn each_view_has_its_own_name_and_can_be_scrolled_by_keyboard() = "names_each_view_and_lets_keys_scroll_it";
    fn a_session_that_begins_to_wait_is_announced_in_every_view() = "announces_that_another_session_waits";
    fn nothing_moves_if_the_user_prefers_reduced_motion() = "moves_nothing_if_that_is_not_wanted";
    fn graphics_and_edges_of_fields_have_enough_contrast() = "draws_what_has_a_meaning_with_contrast";
}

#[tokio::test]
async fn the_page_has_a_strict_content_security_policy_and_is_cached_until_it_changes() {
    let program = Program::start().await;
    let client = program.client();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/assets/app.js", "text/javascript; charset=utf-8"),
        ("/assets/base.css", "text/css; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
    ] {
        let response = client.get(path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let headers = response.headers().clone();
        assert_eq!(headers[CONTENT_TYPE], content_type);
        let policy = headers["content-security-policy"].to_str().unwrap();
        let parts: Vec<&str> = policy.split(';').map(str::trim).collect();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(parts.contains(&part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["cache-control"], "no-cache");
        let known = client.get(path).header(IF_NONE_MATCH, &headers[ETAG]);
        assert_eq!(known.send().await.unwrap().status(), 304, "{path}");
        let other = client.get(path).header(IF_NONE_MATCH, "\"other\"");
        assert_eq!(other.send().await.unwrap().status(), 200, "{path}");
    }
    for path in [
        "/assets/nothing.js",
        "/assets/index.html",
        "/assets/",
        "/assets/..%2Fsrc%2Fmain.rs",
        "/assets/%00",
        "/assets/%FF",
    ] {
        let response = client.get(path).send().await.unwrap();
        assert_eq!(response.status(), 404, "{path}");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_token_is_printed_only_to_a_terminal() {
    let program = Program::start().await;
    let file = program.folder().join(".local/share/neuraxis/server.token");
    let token = std::fs::read_to_string(file).unwrap();
    let log = program.log();
    assert!(log.contains("server.token"), "{log}");
    assert!(!log.contains(token.trim()), "{log}");
    let mut program = program;
    program.signal(rustix::process::Signal::TERM);
    assert!(program.exit().await.success());
    assert_eq!(
        program.rest_of_stdout().await,
        "",
        "only the line that says where it listens"
    );
}
