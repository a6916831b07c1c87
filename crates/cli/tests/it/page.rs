//! Tests of the page in a real browser: a person uses it while agents write at the same time.

use std::ffi::OsStr;
use std::path::Path;

use crate::sandbox::Sandbox;

/// Runs a scenario of `tests/page/scenarios.mjs` in a new sandbox.
fn play(scenario: &str) {
    play_in(&Sandbox::new(), scenario, &[]);
}

/// Runs a scenario with these variables.
pub(crate) fn play_in(place: &Sandbox, scenario: &str, variables: &[(&str, &OsStr)]) {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/scenarios.mjs");
    let mut node =
        place.program(&crate::mcp_clients::tool("LUKASA_TEST_NODE").display().to_string());
    let modules = crate::mcp_clients::tool("LUKASA_TEST_NODE_MODULES");
    node.arg(scripts)
        .arg(scenario)
        .env("LUKASA_TEST_NODE_MODULES", modules)
        .env("LUKASA_TEST_PROGRAM", env!("CARGO_BIN_EXE_lukasa"))
        .env("LUKASA_TEST_CHECKOUT", place.checkout())
        .env("LUKASA_TEST_HOME", place.home())
        .envs(variables.iter().copied());
    // Developers set these variables for screenshots or for other numbers.
    for name in ["LUKASA_TEST_SHOTS", "LUKASA_TEST_MEMORIES", "LUKASA_TEST_CHROMIUM"] {
        node.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    let ended = node.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let complained = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{scenario}: {said}\n{complained}");
}

#[test]
fn a_person_edits_pins_deletes_and_undoes() {
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
fn the_changes_of_a_session_are_shown_and_undone_together() {
    play("sessions");
}

#[test]
fn problems_are_shown_with_a_link_to_their_fix() {
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
fn typed_text_survives_leaving_saving_deleting_and_the_session() {
    play("drafts");
}

#[test]
fn writes_of_agents_and_the_end_of_the_daemon_show_at_once() {
    play("live");
}

#[test]
fn a_waiting_memory_is_read_and_accepted() {
    play("inbox");
}

#[test]
fn the_result_of_a_background_review_is_shown_with_its_reason() {
    play("reviews");
}

#[test]
fn memories_are_shown_as_text() {
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
fn screenshots_can_be_taken() {
    play("pictures");
}

#[test]
fn the_page_is_fast_with_a_thousand_memories() {
    play("many");
}
