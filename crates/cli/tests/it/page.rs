//! The page for people, in a real browser: what a person does there, beside agents that write at the same time.

use std::path::Path;

use crate::sandbox::Sandbox;

/// Plays a scenario of `tests/page/scenarios.mjs` in a place of its own.
fn play(scenario: &str) {
    let place = Sandbox::new();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/scenarios.mjs");
    let mut node =
        place.program(&crate::mcp_clients::tool("LUKASA_TEST_NODE").display().to_string());
    let modules = crate::mcp_clients::tool("LUKASA_TEST_NODE_MODULES");
    node.arg(scripts)
        .arg(scenario)
        .env("LUKASA_TEST_NODE_MODULES", modules)
        .env("LUKASA_TEST_PROGRAM", env!("CARGO_BIN_EXE_lukasa"))
        .env("LUKASA_TEST_CHECKOUT", place.checkout())
        .env("LUKASA_TEST_HOME", place.home());
    // Given by whoever wants pictures, or other numbers.
    for name in ["LUKASA_TEST_SHOTS", "LUKASA_TEST_MEMORIES", "LUKASA_TEST_CHROMIUM"] {
        node.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    let ended = node.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let complained = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{scenario}: {said}\n{complained}");
}

#[test]
fn a_person_edits_pins_deletes_and_takes_back() {
    play("curate");
}

#[test]
fn several_are_moved_and_deleted_as_one_change() {
    play("several");
}

#[test]
fn memories_are_filtered_and_a_folder_is_deleted_as_a_whole() {
    play("find");
}

#[test]
fn what_a_session_did_is_seen_and_taken_back_as_one() {
    play("sessions");
}

#[test]
fn what_is_wrong_is_told_and_leads_to_where_it_is_mended() {
    play("care");
}

#[test]
fn settings_and_trust_are_changed_and_an_agent_sees_what_it_sees() {
    play("settings");
}

#[test]
fn nothing_is_overwritten_and_nothing_typed_is_lost() {
    play("conflict");
}

#[test]
fn what_was_typed_outlives_leaving_saving_deleting_and_the_session() {
    play("drafts");
}

#[test]
fn what_agents_write_is_seen_at_once_and_a_daemon_that_died_is_told() {
    play("live");
}

#[test]
fn what_waits_for_a_review_is_read_and_accepted() {
    play("inbox");
}

#[test]
fn what_a_background_review_saved_is_told_with_its_reason() {
    play("reviews");
}

#[test]
fn what_memories_say_is_shown_as_text() {
    play("hostile");
}

#[test]
fn every_view_is_accessible_light_dark_and_on_a_phone() {
    play("look");
}

#[test]
fn memories_are_found_pinned_and_opened_by_the_keyboard_alone() {
    play("keyboard");
}

#[test]
fn the_pictures_can_be_made() {
    play("pictures");
}

#[test]
fn a_thousand_memories_are_no_burden() {
    play("many");
}
