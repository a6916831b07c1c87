//! Tests of `lukasa accept`: unreviewed memories, of a clone or of an agent that read a clone, in every interface.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

/// Returns a sandbox whose checkout contains a memory.
fn cloned() -> Sandbox {
    let place = Sandbox::new();
    let root = place.checkout().join(".lukasa/memory");
    fs::create_dir_all(&root).unwrap();
    let text = "---\nname: Build\ndescription: how to build\n---\n\n- Build with make\n";
    fs::write(root.join("build.md"), text).unwrap();
    place
}

fn save(served: &mut McpServerProcess) -> Value {
    let arguments = json!({ "fact": "Builds take an hour", "scope": "global" });
    let params = json!({ "name": "save_memory", "arguments": arguments });
    served.request("tools/call", &params)["result"].clone()
}

/// Lets an agent read the clone's memory and write one for all projects.
pub(crate) fn influenced() -> Sandbox {
    let place = cloned();
    let mut served = McpServerProcess::start(&place);
    served.create("/memories/global/before.md", "- Likes tea\n");
    served.done(&json!({ "command": "view", "path": "/memories/project/build.md" }));
    served.create("/memories/global/after.md", "- Every project builds with make\n");
    served.close_input();
    place
}

#[test]
fn a_write_after_reading_a_clone_waits_for_a_person() {
    let place = influenced();
    insta::assert_snapshot!(place.run_ok(&["accept"]), @r"
    /memories/global/after.md	influenced
    /memories/project/build.md	repository
    ");
    let shown = place.run_ok(&["pending", "show", "1"]);
    let shown: Vec<_> = shown.lines().filter(|line| !line.starts_with("made ")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    proposal 1
    kind      review
    why       `test/1` wrote or changed this after it had read memories that came with a repository and were not reviewed here. They may have influenced the text. Accept it if all of it is right; else edit or remove it.
    score     100 %
    by        mcp

    --- /memories/global/after.md
    +++ /memories/global/after.md
    @@ -0,0 +1 @@
    +- Every project builds with make
    ");
    let sources = place.json(&["context"]);
    let sources = sources["facts"].as_array().unwrap();
    let of = |name: &str| sources.iter().find(|one| one["path"].as_str().unwrap().ends_with(name));
    assert_eq!(of("before.md").unwrap()["facts_shown"], 1);
    assert_eq!(of("after.md").unwrap()["facts_shown"], 0);
    assert_eq!(of("after.md").unwrap()["unreviewed"], true);
    let context = place.run_ok(&["context"]);
    let line = "(2 more wait for the user's review; `lukasa accept` lists them)\n";
    assert!(context.contains(line), "{context}");
    assert!(!context.contains("Every project") && !context.contains("after.md"), "{context}");
    let told = json!({
        "hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": place.checkout(),
        "prompt": "what does every project build with?",
    });
    let hook = ["hook", "user-prompt", "--agent", "claude-code"];
    assert_eq!(place.run_with(&hook, &told.to_string()).stdout, "", "nobody asked for it");
    let recalled = place.run_ok(&["recall", "what does every project build with?"]);
    assert!(!recalled.contains("Build with make\n"), "the clone's own words: {recalled}");
    let recalled = place.json(&["recall", "what does every project build with?"]);
    assert_eq!(recalled["unreviewed"], "influenced", "{recalled}");
    // A pin is no acceptance.
    let pinned = place.run(&["pin", "global/after.md"]);
    assert!(pinned.stderr.contains("`lukasa accept global/after.md`"), "{}", pinned.stderr);
    assert!(!place.run_ok(&["context"]).contains("after.md"));
}

#[test]
fn a_person_accepts_by_path_by_proposal_or_by_folder() {
    let place = influenced();
    insta::assert_snapshot!(place.run(&["accept", "global/after.md", "-y"]).stderr, @"accepted global/after.md (change 3)");
    assert_eq!(place.run_ok(&["pending"]), "");
    assert_eq!(place.run_ok(&["accept"]), "/memories/project/build.md\trepository\n");
    assert!(place.run_ok(&["context"]).contains("global/after.md\n- Every project builds"));
    let again = place.run(&["accept", "global/after.md"]);
    assert!(again.stderr.contains("no review needed"), "{}", again.stderr);
    place.run_ok(&["undo", "-y"]);
    assert!(place.run_ok(&["pending"]).contains("global/after.md"), "taken back, it waits again");
    place.run_ok(&["accept", "global/after.md", "-y"]);
    let folder = place.run(&["accept", "project"]);
    assert_eq!(folder.status, 2, "{}", folder.stderr);
    place.run_ok(&["accept", "project", "-y"]);
    assert_eq!(place.run_ok(&["accept"]), "");
    assert!(place.run_ok(&["context"]).contains("project/build.md\n- Build with make\n"));
    assert_eq!(place.run(&["accept", "global/none.md"]).status, 1);

    let place = influenced();
    let stale = place.json(&["pending", "show", "1"]);
    assert_eq!(stale["review"]["path"], "/memories/global/after.md");
    place.run_ok(&["pending", "accept", "1"]);
    assert_eq!(place.run_ok(&["accept"]), "/memories/project/build.md\trepository\n");
    assert_eq!(place.run(&["pending", "accept", "1"]).status, 3);

    // A waiting memory is known even if it was changed meanwhile.
    let place = influenced();
    place.run_ok(&["pending"]);
    place.run_ok(&["rm", "global/after.md", "-y"]);
    assert_eq!(place.run_ok(&["pending"]), "");
    place.run_ok(&["undo", "-y"]);
    assert!(place.run_ok(&["pending"]).contains("global/after.md"));

    let place = influenced();
    place.run_ok(&["pending", "reject", "1"]);
    assert_eq!(place.run_ok(&["pending"]), "", "it is not offered again");
    assert!(place.run_ok(&["accept"]).contains("global/after.md\tinfluenced"), "and not trusted");
}

#[test]
fn after_reading_a_clone_an_instruction_file_needs_consent() {
    let place = cloned();
    let mut served = McpServerProcess::start(&place);
    assert_eq!(save(&mut served)["isError"], false);
    served.done(&json!({ "command": "view", "path": "/memories/project/build.md" }));
    let refused = save(&mut served);
    assert_eq!(refused["isError"], true);
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Nothing was saved: this session has read memories"), "{text}");
    served.close_input();
}

#[test]
fn a_resource_and_a_recall_count_as_reading() {
    let read = |served: &mut McpServerProcess, scope: &str, name: &str| {
        let uri = format!("lukasa://memories/{scope}/{name}.md");
        served.request("resources/read", &json!({ "uri": uri })).to_string()
    };
    let place = cloned();
    let mut first = McpServerProcess::start(&place);
    assert!(read(&mut first, "project", "build").contains("Build with make"));
    first.create("/memories/global/first.md", "- Every project builds with make\n");
    first.close_input();
    let mut second = McpServerProcess::start(&place);
    let arguments = json!({ "prompt": "what does every project build with?" });
    let params = json!({ "name": "recall", "arguments": arguments });
    let recalled = second.request("tools/call", &params).to_string();
    assert!(recalled.contains("not reviewed here"), "{recalled}");
    second.create("/memories/global/second.md", "- Make builds all\n");
    second.close_input();
    let listed = place.run_ok(&["accept"]);
    for name in ["first", "second"] {
        assert!(listed.contains(&format!("global/{name}.md\tinfluenced")), "{listed}");
    }
}

#[test]
fn a_trusted_project_has_no_influence() {
    let place = cloned();
    place.run_ok(&["trust", "-y"]);
    let mut served = McpServerProcess::start(&place);
    served.done(&json!({ "command": "view", "path": "/memories/project/build.md" }));
    served.create("/memories/global/after.md", "- Every project builds with make\n");
    served.close_input();
    assert_eq!(place.run_ok(&["accept"]), "/memories/project/build.md\trepository\n");
}

#[test]
fn many_memories_that_wait_are_listed_at_once() {
    let place = cloned();
    let mut served = McpServerProcess::start(&place);
    served.done(&json!({ "command": "view", "path": "/memories/project/build.md" }));
    for number in 0..300 {
        served.create(&format!("/memories/global/m{number}.md"), &format!("- fact {number}\n"));
    }
    served.close_input();
    let begun = Instant::now();
    assert_eq!(place.run_ok(&["pending"]).lines().count(), 300);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
