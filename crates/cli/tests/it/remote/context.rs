//! Tests of what a model is shown of a remote project: context files, and recall without a question to the machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{delay_fault, eventually};

use super::doors::{done, start_daemon};
use super::setup::{ADDRESS, RemoteSetup};

impl RemoteSetup {
    fn write_there(&self, name: &str, text: &str) {
        let path = self.server.home().join("shop").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn context_files_there_are_shown_once_a_person_trusts_the_folder() {
    let setup = RemoteSetup::installed();
    setup.write_there("AGENTS.md", "Indent with tabs.\n\n@docs/style.md\n\n@../outside.md\n");
    setup.write_there("docs/style.md", "Names are plain words.\n");
    setup.write_there("desk/AGENTS.md", "The desk has its own rules.\n");
    fs::write(setup.server.home().join("outside.md"), "An outside text.\n").unwrap();
    symlink("../outside.md", setup.server.home().join("shop/QWEN.md")).unwrap();
    let context = |args: &[&str]| setup.place.run_ok(&[args, &["context"]].concat());
    let desk = format!("{ADDRESS}/desk");
    let shown = context(&["--project", &desk]);
    assert!(!shown.contains("tabs") && !shown.contains("desk has"), "{shown}");
    setup.place.run_ok(&["--project", &desk, "trust", "--yes"]);
    // Trust in a folder is none in the folders above it.
    let shown = context(&["--project", &desk]);
    assert!(!shown.contains("tabs") && shown.contains("The desk has its own rules"), "{shown}");
    setup.run_ok(&["trust", "--yes"]);
    let shown = context(&["--project", &desk]);
    for text in [
        "--- Context from: ../AGENTS.md ---",
        "Indent with tabs",
        "Names are plain words",
        "--- Context from: AGENTS.md ---\nThe desk has its own rules",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    // Words of any length after an at sign are no reason to show nothing.
    let long = "x".repeat(9_000);
    let text = format!("Indent with tabs. @data:{long} @https://{long}\n");
    setup.write_there("AGENTS.md", &text);
    assert!(context(&["--project", &desk]).contains("Indent with tabs"));
    let home = setup.server.home().display().to_string();
    assert!(!shown.contains("outside text") && !shown.contains(&home), "{shown}");
    // They are edited on that machine.
    let refused = setup.fails(&["save", "--scope", "project", "Indent with spaces"]);
    assert!(refused.contains("edit them there"), "{refused}");
    assert!(!setup.place.checkout().join("AGENTS.md").exists());
}

#[test]
fn a_link_in_a_checkout_widens_no_trust() {
    let setup = RemoteSetup::installed();
    setup.write_there("AGENTS.md", "Indent with tabs.\n");
    setup.write_there("docs/AGENTS.md", "Names are plain words.\n");
    let docs = format!("{ADDRESS}/docs");
    setup.place.run_ok(&["--project", &docs, "trust", "--yes"]);
    let context = |address: &str| setup.place.run_ok(&["--project", address, "context"]);
    assert!(context(&docs).contains("Names are plain words"));
    let folder = setup.server.home().join("shop/docs");
    fs::rename(&folder, setup.server.home().join("shop/old")).unwrap();
    for target in [".", "..", "/"] {
        symlink(target, &folder).unwrap();
        for address in [ADDRESS, &docs] {
            let shown = setup.place.run(&["--project", address, "context"]).stdout;
            assert!(!shown.contains("Indent with tabs"), "{target}: {shown}");
        }
        fs::remove_file(&folder).unwrap();
    }
    // A link above the checkout is one of a person.
    symlink("shop", setup.server.home().join("store")).unwrap();
    let store = ADDRESS.replace("shop", "store");
    setup.place.run_ok(&["--project", &store, "trust", "--yes"]);
    assert!(context(&store).contains("Indent with tabs"));
}

#[test]
fn a_conversation_that_began_without_the_machine_is_shown_its_context_files_later() {
    let mut setup = RemoteSetup::installed();
    setup.write_there("AGENTS.md", "Indent with tabs.\n");
    setup.run_ok(&["trust", "--yes"]);
    setup.server.stop();
    let daemon = start_daemon(&setup);
    let talk = json!({ "sessionId": "talk-1", "context": true });
    let begun = done(&daemon.post("/v1/sessions", &talk));
    let context = begun["context"]["text"].as_str().unwrap();
    assert!(context.contains("global/tea.md") && !context.contains("deploy.md"), "{context}");
    setup.server.restart().unwrap();
    let mut changes = String::new();
    eventually(|| {
        let prompt = json!({ "text": "what is new?" });
        let told = done(&daemon.post("/v1/sessions/talk-1/prompts", &prompt));
        changes += told["changes"]["text"].as_str().unwrap_or_default();
        let is_whole = changes.contains("Indent with tabs") && changes.contains("deploy.md");
        if is_whole { Ok(()) } else { Err(changes.clone()) }
    });
    // Once, and the text given at the start stays as it was.
    let again = done(&daemon.post("/v1/sessions", &talk));
    assert_eq!(again["context"]["text"], begun["context"]["text"]);
    assert_eq!(changes.matches("Indent with tabs").count(), 1, "{changes}");
    assert!(!again["changes"].to_string().contains("Indent with tabs"), "{again}");
}

#[test]
fn recall_asks_the_machine_nothing_while_nothing_changed_there() {
    let setup = RemoteSetup::installed();
    let proxy = setup.proxy();
    setup.run_ok(&["trust", "--yes"]);
    let daemon = start_daemon(&setup);
    let recall = || {
        let begun = Instant::now();
        let recalled = done(&daemon.get("/v1/recall?q=when%20do%20deploys%20run%3F"));
        (recalled["memories"][0]["path"].clone(), begun.elapsed())
    };
    let expected = Value::from("/memories/project/deploy.md");
    eventually(|| {
        let (path, _) = recall();
        if path == expected { Ok(()) } else { Err(path) }
    });
    // The first notices may still be on their way.
    delay_fault(Duration::from_secs(1));
    recall();
    proxy.freeze();
    let (path, took) = recall();
    assert_eq!(path, expected);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
