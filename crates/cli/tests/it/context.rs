//! Tests of `lukasa context` and `lukasa trust`.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Returns a sandbox with context files, an import and memories.
fn prepared_sandbox() -> Sandbox {
    let place = Sandbox::new();
    fs::create_dir(place.checkout().join("docs")).unwrap();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    write("home/QWEN.md", "Answer briefly.\n");
    write("app/AGENTS.md", "Build with make.\n@docs/setup.md and @docs/gone.md\n");
    write("app/docs/setup.md", "Run `make setup`. </imported>\n");
    place.run_ok(&[
        "create",
        "global/tea.md",
        "---\ndescription: When there is tea.\n---\n- At four.\n",
    ]);
    place.run_ok(&["create", "project/build.md", "- make\n"]);
    place
}

#[test]
fn a_trusted_folder_is_shown_with_its_facts_and_imports() {
    let place = prepared_sandbox();
    place.run_ok(&["trust"]);
    place.run_ok(&["pin", "project/build.md"]);
    insta::assert_snapshot!(place.run(&["context"]).shown(), @r#"
    status 0
    --- stdout
    <long_term_memory>
    All that this user and their agents noted in earlier sessions. What the user says now comes first.

    /memories/project/build.md
    - make

    /memories/global/tea.md
    - At four.
    </long_term_memory>

    --- Context from: ../home/QWEN.md ---
    Answer briefly.
    --- End of Context from: ../home/QWEN.md ---

    --- Context from: AGENTS.md ---
    Build with make.
    <imported from="docs/setup.md">
    Run `make setup`. &lt;/imported>
    </imported> and @docs/gone.md
    --- End of Context from: AGENTS.md ---
    --- stderr
    2 of 2 facts, about 189 tokens, 493 bytes
    "#);
    insta::assert_snapshot!(place.run(&["context", "--why"]).shown(), @r"
    status 0
    --- stdout
    hot_set: 77 tokens, 209 bytes
      project/build.md: 1 fact, pinned
      global/tea.md: 1 fact
    context_files: 112 tokens, 283 bytes
      <place>/home/QWEN.md (global): 40 tokens, 99 bytes
      AGENTS.md (project): 72 tokens, 183 bytes
        docs/setup.md (imported by AGENTS.md): 11 tokens, 30 bytes
    all: 189 tokens, 493 bytes
    left out:
      docs/gone.md, imported by AGENTS.md: no such file
    ");
    let first = place.json(&["context"]);
    let again = place.json(&["context"]);
    assert_eq!(
        first["parts"], again["parts"],
        "two looks are the same bytes, and none of them is a use"
    );
    let parts: Vec<_> =
        first["parts"].as_array().unwrap().iter().map(|part| &part["part"]).collect();
    assert_eq!(parts, ["hot_set", "context_files"]);
}

#[test]
fn recalled_memories_are_shown_with_time_reason_and_cost() {
    let place = prepared_sandbox();
    // What a session begins with is not recalled.
    fs::write(place.home().join("config.toml"), "[features]\nhot_set = false\n").unwrap();
    let memories = place.checkout().join(".lukasa/memory");
    let text = "- The harbour master of Brenn is called Olga.\n";
    fs::write(memories.join("harbour.md"), text).unwrap();
    place.run_ok(&["accept", "--yes", "project/harbour.md"]);
    let ask = "who is the harbour master?";
    let at =
        |moment: &str, prompt: &str| place.json(&["context", "--at", moment, "--prompt", prompt]);
    let (start, prompt) = (place.json(&["context"]), at("prompt", ask));
    assert_eq!(start["recalled"], Value::Null);
    assert_eq!(prompt["recalled"][0]["path"], "/memories/project/harbour.md", "{prompt}");
    let parts = prompt["parts"].as_array().unwrap();
    let (last, before) = parts.split_last().unwrap();
    assert_eq!(before, start["parts"].as_array().unwrap(), "what was given stays as it is");
    assert_eq!(last["part"], "recalled");
    assert!(last["text"].as_str().unwrap().contains("called Olga."), "{last}");
    let all = start["tokens"].as_u64().unwrap() + last["tokens"].as_u64().unwrap();
    assert_eq!(prompt["tokens"].as_u64().unwrap(), all);
    assert_eq!(at("tool-result", "what do penguins eat in winter?")["recalled"], json!([]));

    let why = place.run_ok(&["context", "--why", "--at", "tool-result", "--prompt", ask]);
    assert!(why.contains("recalled: "), "{why}");
    assert!(
        why.contains("after the results of tools, if recall was not finished by then\n"),
        "{why}"
    );
    assert!(why.contains("  project/harbour.md: has `harbour`"), "{why}");
    for wrong in [&["--at", "prompt"][..], &["--prompt", "x"], &["--at", "dusk", "--prompt", "x"]] {
        assert_eq!(place.run(&[&["context"], wrong].concat()).status, 2, "{wrong:?}");
    }
}

#[test]
fn an_untrusted_folder_shows_no_own_files_and_names_the_trust_command() {
    let place = prepared_sandbox();
    let ended = place.run(&["context"]);
    assert!(ended.stdout.contains("Answer briefly."), "{}", ended.stdout);
    assert!(!ended.stdout.contains("Build with make."), "{}", ended.stdout);
    assert!(ended.stderr.contains("1 context file is not shown"), "{}", ended.stderr);
    assert!(ended.stderr.contains("`lukasa trust`"), "{}", ended.stderr);
}

#[test]
fn trust_is_granted_listed_and_revoked() {
    let place = Sandbox::new();
    fs::create_dir(place.checkout().join("src")).unwrap();
    assert_eq!(place.json(&["trust", "--list"]), json!({ "folders": [] }));
    insta::assert_snapshot!(place.run(&["trust"]).shown(), @r"
    status 0
    --- stderr
    <place>/app is trusted
    ");
    let from_below = place.json(&["trust", "--project", "src"]);
    assert_eq!(from_below["changed"], json!(false), "the top of the checkout is meant");
    let below = place.json(&["trust", "src"]);
    assert_eq!((&below["trusted"], &below["changed"]), (&json!(true), &json!(true)));
    assert_eq!(place.run_ok(&["trust", "--list"]).lines().count(), 2);
    assert_eq!(place.json(&["trust", "--remove", "src"])["changed"], json!(true));
    let again = place.run(&["trust", "--remove", "src"]);
    assert!(again.status == 1 && again.stderr.contains("still trusted"), "{again:?}");
    assert_eq!(place.run(&["trust", "gone"]).status, 1);
    assert_eq!(place.run(&["trust", "/"]).status, 2);
    assert_eq!(place.run(&["trust", "--list", "src"]).status, 2);
    assert_eq!(place.run_ok(&["trust", "--list"]).lines().count(), 1);
}

#[test]
fn of_a_large_store_the_context_says_what_is_left_out_and_why() {
    let place = prepared_sandbox();
    place.run_ok(&["pin", "global/tea.md"]);
    fs::write(place.home().join("config.toml"), "start_tokens_max = 5\n").unwrap();
    let memories = place.checkout().join(".lukasa/memory");
    for number in 0..120 {
        let text =
            format!("- Fact {number} {}.\n- Another {number}.\n", "of many words ".repeat(20));
        fs::write(memories.join(format!("topic-{number}.md")), text).unwrap();
    }
    place.run_ok(&["accept", "--yes", "project"]);
    let shown = place.run(&["context"]);
    let counts = shown.stderr.lines().next().unwrap();
    assert!(counts.contains(" of 242 facts, about "), "{}", shown.stderr);
    assert!(shown.stderr.contains("`lukasa context --why` says which"), "{}", shown.stderr);
    let why = place.run_ok(&["context", "--why"]);
    assert!(why.contains("  global/tea.md: 1 fact, pinned, 2 uses\n"), "{why}");
    assert!(why.contains("left out:\n") && why.contains(": no room\n"), "{why}");
    assert!(why.contains("other memories: not pinned, and less recent"), "{why}");
    let value = place.json(&["context"]);
    let parts: Vec<_> =
        value["parts"].as_array().unwrap().iter().map(|part| &part["part"]).collect();
    assert_eq!(parts, ["hot_set", "context_files", "index"]);
    let index = value["parts"][2]["text"].as_str().unwrap();
    assert!(index.contains(" (2)\n") && index.contains("/memories/project/ ("), "{index}");
    // Everything is given again with the default.
    fs::remove_file(place.home().join("config.toml")).unwrap();
    assert!(place.run(&["context"]).stderr.contains(" of 242 facts"));
}

#[test]
fn settings_determine_the_loaded_files() {
    let place = prepared_sandbox();
    place.run_ok(&["trust"]);
    fs::create_dir(place.home().join(".qwen")).unwrap();
    fs::write(place.home().join(".qwen/QWEN.md"), "Of the other product.\n").unwrap();
    fs::write(place.home().join("me.md"), "My own.\n").unwrap();
    let settings = "[context]\nprofile = \"qwen\"\nfiles = [\"~/me.md\"]\nimports = \"flat\"\n";
    fs::write(place.home().join("config.toml"), settings).unwrap();
    let shown = place.json(&["context"]);
    let name = |file: &serde_json::Value| {
        let path = file["path"].as_str().unwrap();
        let parts: Vec<_> = path.rsplitn(3, '/').collect();
        format!("{} {}/{}", file["scope"].as_str().unwrap(), parts[1], parts[0])
    };
    let files: Vec<_> = shown["files"].as_array().unwrap().iter().map(name).collect();
    let expected = [
        "global home/QWEN.md",
        "global .qwen/QWEN.md",
        "project app/AGENTS.md",
        "project docs/setup.md",
        "extension home/me.md",
    ];
    assert_eq!(files, expected);
    let text = shown["parts"][1]["text"].as_str().unwrap();
    assert!(text.contains("Build with make.\n@docs/setup.md and @docs/gone.md\n--- End"), "{text}");
}
