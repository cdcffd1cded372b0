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
    fn a_message_is_sent_and_its_answer_shown_as_it_comes() = "sends_and_streams";
    fn a_page_that_is_loaded_anew_in_mid_stream_takes_the_run_up_again() = "reloads_in_mid_stream";
    fn all_that_was_pasted_is_sent_or_nothing_and_why_is_said() = "sends_all_that_was_pasted_or_nothing";
    fn what_is_read_stays_where_it_is_while_it_grows() = "keeps_what_is_read_where_it_is_while_it_grows";
    fn a_lost_connection_is_told_and_nothing_is_lost_with_it() = "survives_a_lost_connection";
    fn a_message_is_sent_once_whatever_becomes_of_its_request() = "sends_once_whatever_becomes_of_the_request";
    fn what_answers_in_the_place_of_the_server_is_told_and_gone_once_it_is_gone() = "tells_who_answers_in_the_place_of_the_server";
    fn a_view_that_is_left_while_it_loads_keeps_no_connection() = "follows_nothing_from_a_view_that_was_left";
    fn tabs_that_nobody_sees_leave_the_connections_to_the_one_that_is_seen() = "leaves_connections_to_the_tab_that_is_seen";
    fn what_comes_while_nobody_looks_is_there_afterwards_once() = "misses_and_repeats_nothing_while_nobody_looks";
    fn a_run_that_another_tab_began_is_shown_and_a_message_makes_way_for_it() = "shows_what_another_tab_begins";
    fn what_is_being_written_is_there_again_after_other_views_and_a_reload() = "keeps_what_is_being_written";
    fn a_session_that_is_made_after_the_person_went_elsewhere_does_not_bring_them_back() = "stays_where_the_person_went";
    fn files_go_with_a_message_and_are_shown_with_it() = "attaches_files";
    fn a_run_is_stopped_steered_and_asked_again_by_keyboard() = "stops_steers_and_goes_on_by_keyboard";
    fn a_message_that_no_model_heard_stands_behind_what_was_said() = "shows_what_no_model_heard_behind_what_was_said";
    fn a_message_stands_where_a_model_heard_it() = "shows_a_message_where_a_model_heard_it";
    fn whoever_goes_back_by_a_few_pixels_while_an_answer_grows_stays_there() = "leaves_whoever_goes_back_where_they_are";
    fn what_grows_at_the_end_is_never_drawn_out_of_sight() = "follows_the_end_in_the_same_frame";
    fn of_several_questions_the_first_is_in_sight_and_the_end_once_all_are_decided() = "shows_questions_from_the_first";
    fn earlier_turns_are_shown_and_what_was_read_stays_where_it_was() = "shows_earlier_turns_without_a_jump";
    fn the_list_tells_that_a_run_has_ended_that_the_page_does_not_follow() = "lists_how_a_run_ends_that_nothing_here_follows";
    fn earlier_turns_neither_change_the_plan_nor_are_announced() = "takes_nothing_that_is_over_for_news";
    fn a_conversation_goes_on_in_a_new_session_from_any_answer() = "goes_on_in_a_new_session";
    fn a_message_is_asked_again_in_other_words_and_what_was_said_before_it_stays() = "asks_again_with_another_message";
    fn a_message_that_is_asked_again_keeps_its_files() = "asks_again_with_the_files_of_the_message";
    fn a_session_is_branched_off_once_however_often_it_is_asked_for() = "forks_once_however_often_it_is_asked";
    fn conversations_and_runs_are_kept_as_files() = "keeps_conversations_and_runs_as_files";
    fn a_choice_is_explained_and_a_refusal_names_its_rule() = "explains_the_choice";
    fn a_turn_is_taken_with_what_was_chosen_before_the_choices_are_there() = "sends_what_was_chosen_before_the_choices_are_there";
    fn what_is_chosen_in_one_tab_changes_nothing_in_another() = "chooses_for_its_own_tab_alone";
    fn on_a_narrow_screen_the_numbers_of_a_run_say_what_they_count() = "says_what_the_numbers_of_a_run_count_on_a_narrow_screen";
    fn a_title_in_the_list_has_the_room_there_is_and_the_view_that_is_shown_is_marked() = "gives_titles_the_room_there_is";
    fn sessions_are_found_by_title_and_id_and_deleted_after_a_question() = "finds_and_deletes_sessions";
    fn sessions_are_called_by_their_first_message_in_long_use_too() = "calls_sessions_by_their_first_message";
    fn a_session_gets_a_title_in_the_list_and_above_its_conversation() = "renames_sessions";
    fn a_title_that_could_not_be_saved_is_asked_for_again() = "keeps_a_title_that_could_not_be_saved";
    fn a_session_gets_a_title_on_a_phone() = "renames_on_a_phone";
    fn a_search_finds_sessions_that_are_not_loaded_by_any_message() = "searches_all_sessions";
    fn a_search_is_followed_to_its_end_and_only_the_last_one_counts() = "follows_a_search_to_its_end";
    fn a_session_that_was_deleted_elsewhere_is_not_begun_anew() = "does_not_begin_a_deleted_session_anew";
    fn a_person_who_has_the_token_approves_exactly_what_is_shown() = "approves_with_the_token";
    fn a_question_shows_all_that_would_run_whatever_its_arguments_are_called() = "shows_all_that_would_run";
    fn a_run_waits_for_the_other_questions_once_one_is_decided() = "waits_for_the_other_questions";
    fn the_focus_goes_from_one_question_to_the_next_and_decides_nothing_there() = "decides_by_keyboard_one_after_the_other";
    fn a_tab_that_nobody_sees_says_in_its_title_that_its_run_waits() = "says_in_its_title_that_a_run_waits_while_nobody_looks";
    fn a_tab_that_nobody_sees_says_no_more_that_its_run_waits_once_that_was_decided_elsewhere() = "says_in_its_title_that_a_run_waits_no_more_once_that_was_decided_elsewhere";
    fn what_waits_is_found_at_the_top_of_the_list_however_old_it_is() = "leads_to_what_waits_however_old_it_is";
    fn a_person_denies_a_call_with_a_reason_after_a_reload_too() = "denies_with_a_reason";
    fn a_run_that_got_its_result_from_a_client_is_shown_at_work() = "goes_on_with_what_a_client_brings";
    fn what_a_tool_asks_is_filled_in_by_keyboard_and_answered_or_declined() = "answers_what_a_tool_asks";
    fn a_key_that_may_not_decide_is_told_so_beside_the_question() = "says_of_a_key_that_may_not_decide_that_it_may_not";
    fn a_question_that_could_not_be_loaded_is_asked_for_again() = "asks_again_for_what_could_not_be_loaded";
    fn a_run_that_cannot_be_followed_for_a_while_is_not_taken_for_one_that_failed() = "follows_a_run_again_that_it_had_to_leave";
    fn a_server_that_wants_a_key_is_shown_one_and_asked_again() = "asks_for_a_key";
    fn another_key_takes_the_place_of_one_that_does_not_do() = "takes_another_key_in_the_place_of_one";
    fn who_does_not_own_a_session_is_told_so_and_not_that_there_is_none() = "says_whose_a_session_is_that_takes_no_turn";
    fn a_key_is_offered_the_agents_that_it_may_use() = "offers_a_key_what_it_may_choose";
    fn nothing_of_what_models_and_tools_say_runs_on_the_page() = "runs_nothing_of_what_models_say";
    fn what_an_approval_would_allow_is_shown_with_signs_that_cannot_be_seen() = "shows_what_an_approval_would_allow_with_signs_that_cannot_be_seen";
    fn what_a_person_wrote_is_shown_as_it_is_but_for_signs_that_turn_others_around() = "shows_what_a_person_wrote_as_it_is";
    fn a_page_of_another_origin_reaches_nothing_and_frames_nothing() = "keeps_pages_of_other_origins_out";
    fn a_front_end_of_an_origin_that_is_named_asks_from_a_browser() = "lets_a_front_end_of_a_named_origin_ask";
    fn a_megabyte_of_answer_and_five_thousand_records_leave_the_page_answering() = "goes_on_answering_whatever_its_length";
    fn markdown_becomes_nodes_and_takes_no_time_whatever_it_is() = "renders_markdown";
    fn a_run_is_looked_at_as_a_waterfall_as_records_and_step_by_step() = "shows_what_a_run_did";
    fn what_is_pressed_on_a_phone_is_large_enough_for_a_finger() = "is_pressed_by_fingers";
    fn enter_begins_a_line_where_fingers_write() = "begins_lines_where_fingers_write";
    fn each_text_of_an_answer_is_laid_out_in_its_own_direction() = "lays_each_text_out_in_its_own_direction";
    fn a_run_at_work_says_for_how_long_it_has_been() = "says_for_how_long_a_run_works";
    fn a_page_that_is_low_or_has_large_letters_has_room_for_what_is_read_and_what_is_pressed() = "has_room_however_large_it_is";
    fn an_answer_says_when_it_was_given_and_a_button_that_it_copied() = "says_when_and_that_it_was_copied";
    fn nothing_is_offered_for_a_session_that_is_not_there() = "offers_nothing_for_a_session_that_is_not_there";
    fn where_the_system_gives_all_colors_lines_and_patterns_say_what_colors_would() = "says_by_lines_what_colors_do_not_say";
    fn the_words_of_a_table_stay_whole_and_it_is_scrolled_instead() = "breaks_no_word_of_a_table";
    fn a_command_that_failed_is_not_taken_for_one_that_did_not() = "says_how_a_command_ended";
    fn a_waterfall_and_what_a_bar_stands_for_have_room_on_a_laptop() = "lays_a_run_out_on_a_laptop";
    fn nothing_is_said_of_a_run_before_it_is_known() = "says_nothing_of_a_run_before_it_is_known";
    fn what_is_read_of_a_run_at_work_stays_as_it_is_when_records_come() = "leaves_what_is_read_of_a_run_at_work";
    fn what_a_run_at_work_takes_grows_with_the_clock() = "lets_a_run_at_work_grow_with_the_clock";
    fn what_stands_above_a_run_at_work_keeps_up_with_it() = "says_how_a_run_at_work_stands";
    fn the_replay_of_a_run_at_work_goes_on_with_it() = "replays_a_run_at_work_to_where_it_is";
    fn a_page_of_runs_is_added_once_however_often_it_is_asked_for() = "shows_more_runs_once";
    fn a_duration_is_rounded_before_it_is_split_into_minutes_and_seconds() = "says_how_long_it_took";
    fn a_cost_is_shown_with_how_sure_it_is() = "says_how_sure_a_cost_is";
    fn the_pictures_of_the_documents_are_drawn() = "draws_the_pictures_of_the_documents";
    fn what_agents_of_agents_do_stands_within_their_call() = "shows_agents_within_agents";
}

#[tokio::test]
async fn the_page_comes_with_a_policy_under_which_nothing_else_runs_and_is_kept_until_it_changes() {
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
async fn the_token_is_printed_to_nobody_but_a_person_at_a_terminal() {
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
