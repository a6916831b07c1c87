//! Tests that a memory with conflict markers is named to the person and kept from models.

use super::*;

const CONFLICT: &str = "---\ndescription: zebra\n---\n\n- The zebra is stabled here\n\n<<<<<<< HEAD\n- \
                        The zebra is striped\n=======\n- The zebra is plain\n>>>>>>> other\n";

/// Returns a sandbox with a trusted checkout that has a pinned memory in conflict, and a pinned one without.
fn in_conflict(text: &str) -> Sandbox {
    let place = Sandbox::new();
    place.run_ok(&["trust", "--yes"]);
    place.create("project/b.md", "---\ndescription: horses\n---\n\n- The horse is brown\n");
    place.create("project/a.md", "- The zebra is stabled here\n");
    place.run_ok(&["pin", "project/a.md", "project/b.md"]);
    fs::write(place.checkout().join(MEMORY), text).unwrap();
    place
}

#[test]
fn the_person_is_told_of_a_conflict() {
    let place = in_conflict(CONFLICT);
    let status = place.run_ok(&["status"]);
    assert!(status.contains("\nconflict   project/a.md\n"), "{status}");
    assert_eq!(place.json(&["status"])["findings"][0]["kind"], "conflict-marker");
    let doctor = place.run(&["doctor"]);
    assert_eq!(doctor.status, 1);
    assert!(doctor.stdout.starts_with("conflict-marker project/a.md\n"), "{}", doctor.stdout);
    let why = place.run_ok(&["context", "--why"]);
    assert!(why.contains("  project/a.md: in conflict; see `lukasa doctor`\n"), "{why}");
    assert!(place.view("project/a.md").contains("plain"), "a person sees it");
}

#[test]
fn no_text_of_a_conflict_reaches_a_model_unasked() {
    // Also when the markers are beyond the part of the file that a listing reads.
    let long =
        format!("- The zebra is stabled here\n{}{CONFLICT}", "- The barn is red\n".repeat(500));
    for text in [CONFLICT, &long] {
        let place = in_conflict(text);
        let context = place.run_ok(&["context"]);
        let line = "(1 more is in conflict after a merge; `lukasa doctor` names the lines)\n";
        assert!(context.contains(line), "{context}");
        assert!(context.contains("The horse is brown"), "{context}");
        let recalled = place.run(&["recall", "Which zebra is stabled here?"]);
        for shown in [&context, &recalled.stdout] {
            assert!(!shown.contains("zebra") && !shown.contains("stripe"), "{shown}");
        }
        // Resolved, it is shown again.
        fs::write(place.checkout().join(MEMORY), "- The zebra is stabled here\n").unwrap();
        assert!(place.run_ok(&["context"]).contains("zebra"));
        assert!(place.run_ok(&["recall", "Which zebra is stabled here?"]).contains("zebra"));
    }
}

#[test]
fn the_curator_leaves_a_conflict_alone() {
    let place = in_conflict(CONFLICT);
    place.run_ok(&["unpin", "project/a.md"]);
    place.run(&["remember", "The zebra eats hay", "--scope", "project"]);
    place.run(&["forget", "zebra"]);
    place.run(&["dream"]);
    assert_eq!(fs::read_to_string(place.checkout().join(MEMORY)).unwrap(), CONFLICT);
}
