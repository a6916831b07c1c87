//! Tests of `lukasa log`, `show`, `diff` and `undo`.

use std::fs;

use engine::{BaseFolders, BindingRequest, CallContext, Caller, Config, Engine};
use memory::command::MemoryCommand;
use memory::path::{Layout, MemoryPath};

use crate::sandbox::{Sandbox, pretty};

fn with_history() -> Sandbox {
    let place = Sandbox::with(&[("global/a.md", "one\ntwo\n")]);
    place.run_ok(&["replace", "global/a.md", "two", "2"]);
    place.create("project/b.md", "b\n");
    place.run_ok(&["mv", "global/a.md", "global/c.md"]);
    place
}

#[test]
fn the_log_is_newest_first() {
    let place = with_history();
    insta::assert_snapshot!(place.run_ok(&["log"]), @r"
    4	<time>	rename	person (cli)	global/a.md → global/c.md
    3	<time>	create	person (cli)	project/b.md
    2	<time>	edit	person (cli)	global/a.md
    1	<time>	create	person (cli)	global/a.md
    ");
    assert_eq!(place.run_ok(&["log", "-n", "2"]).lines().count(), 2);
    assert_eq!(place.run_ok(&["log", "project"]).lines().count(), 1);
    assert_eq!(place.run_ok(&["log", "--since", "1h"]).lines().count(), 4);
    assert_eq!(place.run_ok(&["log", "--until", "1h"]), "");
    assert_eq!(place.run_ok(&["log", "--task", "none"]), "");
    assert_eq!(place.run(&["log", "--since", "soon"]).status, 2);
    assert_eq!(place.run(&["log", "--since", "1h", "--until", "2h"]).status, 2);
}

#[test]
fn json_has_one_change_per_line() {
    insta::assert_snapshot!(with_history().run_ok(&["log", "global/c.md", "-n", "1", "--json"]), @r#"{"id":4,"at":"<time>","kind":"rename","action":"rename","actor":"person","trust":"person","origin":"cli","client":null,"model":null,"session":null,"task":null,"tool_call":null,"note":null,"undoes":null,"folder":null,"files":[{"path":"/memories/global/a.md","moved_to":"/memories/global/c.md","before":"b8c083898d90038ced2e04df2f932eefa7d187080dee0d9942be12c156d95034","after":"b8c083898d90038ced2e04df2f932eefa7d187080dee0d9942be12c156d95034","trust":"person"}]}"#);
}

#[test]
fn a_change_is_shown_in_full() {
    let place = with_history();
    let shown = place.run_ok(&["show", "2"]);
    let when = shown.lines().find(|line| line.starts_with("when")).unwrap();
    insta::assert_snapshot!(shown.replace(when, "when        <local>"), @r"
    change 2
    action      edit
    when        <local>
    by          person
    trust       person
    via         cli
      global/a.md  c3f9c8c283a2 → b8c083898d90

    --- /memories/global/a.md
    +++ /memories/global/a.md
    @@ -1,2 +1,2 @@
     one
    -two
    +2
    ");
    insta::assert_snapshot!(pretty(&place.json(&["show", "2"])["diffs"]), @r#"
    [
      {
        "path": "/memories/global/a.md",
        "moved_to": null,
        "diff": "--- /memories/global/a.md\n+++ /memories/global/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
        "kept": true
      }
    ]
    "#);
    insta::assert_snapshot!(place.run(&["show", "99"]).shown(), @r"
    status 1
    --- stderr
    error: there is no change 99 in the history of these memories
      help: `lukasa ls` lists memories, `lukasa log` their changes
    ");
}

#[test]
fn an_external_edit_is_recorded_and_shown() {
    let place = Sandbox::with(&[("global/a.md", "one\n")]);
    fs::write(place.home().join("memory/a.md"), "one\nby hand\n").unwrap();
    let log = place.run_ok(&["log"]);
    assert!(log.lines().next().unwrap().contains("\toutside\t"), "{log}");
    assert!(place.run_ok(&["diff", "global/a.md"]).ends_with(" one\n+by hand\n"));
}

#[test]
fn a_diff_shows_a_change_or_a_memory() {
    let place = with_history();
    let check = |args: &[&str], status: i32, expected: &[&str]| {
        let ended = place.run(&[&["diff"], args].concat());
        let lines: Vec<_> = ended
            .stdout
            .lines()
            .filter(|line| !line.starts_with("---") && !line.starts_with("+++"))
            .collect();
        assert_eq!((ended.status, lines.as_slice()), (status, expected), "{args:?}");
    };
    check(&["1"], 0, &["@@ -0,0 +1,2 @@", "+one", "+two"]);
    check(&["2"], 0, &["@@ -1,2 +1,2 @@", " one", "-two", "+2"]);
    check(&[], 0, &["global/a.md → global/c.md"]);
    check(&["project/b.md"], 0, &["@@ -0,0 +1 @@", "+b"]);
    check(&["project/b.md", "3"], 0, &[]);
    check(&["project/b.md", "2"], 1, &[]);
    check(&["project/none.md"], 1, &[]);
    check(&["1", "2"], 2, &[]);
    check(&["99"], 1, &[]);
    check(&["project/b.md", "xyz"], 2, &[]);
    check(&["project/b.md", "abcdef0123"], 1, &[]);
}

#[test]
fn a_diff_reaches_back_to_a_revision() {
    let place = Sandbox::new();
    let made = place.json(&["create", "global/a.md", "one"]);
    place.run_ok(&["replace", "global/a.md", "one", "two"]);
    let revision = made["revision"].as_str().unwrap();
    for named in [revision, revision.get(..8).unwrap(), "1"] {
        let diff = place.run_ok(&["diff", "global/a.md", named]);
        assert!(diff.ends_with("@@ -1 +1 @@\n-one\n+two\n"), "{named}: {diff}");
    }
}

#[test]
fn an_undo_reverts_a_change_and_can_be_undone() {
    let place = with_history();
    place.run_ok(&["rm", "-y", "project/b.md"]);
    let ended = place.run(&["undo", "-y", "5"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    undid change 5 in 1 memory:
      project/b.md
    (change 6)
    ");
    assert_eq!(place.view("project/b.md"), "b\n");
    place.run_ok(&["undo", "-y", "6"]);
    assert_eq!(place.run(&["view", "project/b.md"]).status, 1);
}

#[test]
fn a_folder_without_memories_can_be_deleted() {
    let place = Sandbox::new();
    std::fs::create_dir_all(place.home().join("memory/empty")).unwrap();
    place.run_ok(&["rm", "-y", "global/empty"]);
    let log = place.run(&["log"]);
    assert!(log.stdout.ends_with("\tdelete\tperson (cli)\tglobal/empty/ (0 memories)\n"));
    assert_eq!(log.stderr, "");
    assert_eq!(place.run(&["doctor"]).stderr, "");
}

#[test]
fn an_undo_is_refused_with_the_difference_when_a_memory_changed_since() {
    let place = Sandbox::with(&[("global/a.md", "one\n")]);
    place.run_ok(&["replace", "global/a.md", "one", "two"]);
    place.run_ok(&["replace", "global/a.md", "two", "three"]);
    insta::assert_snapshot!(place.run(&["undo", "-y", "2"]).shown(), @r"
    status 3
    --- stderr
    /memories/global/a.md: it was changed since
    --- /memories/global/a.md as the change left it
    +++ /memories/global/a.md as it is
    @@ -1 +1 @@
    -two
    +three

    error: /memories/global/a.md changed since, so nothing was undone
      help: undo the later changes first, or edit the memory by hand
    ");
    let ended = place.run(&["undo", "-y", "2", "--json"]);
    assert_eq!(ended.status, 3);
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(error["error"]["code"], "conflict");
    assert_eq!(error["error"]["differences"][0]["path"], "/memories/global/a.md");
    assert_eq!(place.view("global/a.md"), "three\n");
}

#[test]
fn the_changes_of_a_time_span_are_undone_together() {
    let place = with_history();
    let plan = place.run_ok(&["undo", "--since", "1h", "--dry-run"]);
    insta::assert_snapshot!(plan, @r"
    would undo changes 4, 3, 2, 1 in 2 memories:
      global/c.md
      project/b.md
    ");
    assert_eq!(place.view("project/b.md"), "b\n");
    let undone = place.json(&["undo", "-y", "--since", "1h"]);
    insta::assert_snapshot!(undone, @r#"{"change":5,"undone":[4,3,2,1],"paths":["/memories/global/c.md","/memories/project/b.md"],"warnings":[],"left":[]}"#);
    assert_eq!(place.run_ok(&["ls"]), "");
}

/// Creates a memory in the project of a folder as a part of a task.
async fn make_in_task(place: &Sandbox, folder: &str, name: &str) {
    let folders = BaseFolders { data: place.home(), state: place.home().join("state") };
    let engine = Engine::open(Config::new(folders)).unwrap();
    let request =
        BindingRequest { project: Some(place.path().join(folder).into()), ..Default::default() };
    let memories = engine.memories(&request, Caller::person("test"));
    let path = MemoryPath::parse(&format!("/memories/project/{name}"), Layout::Scoped).unwrap();
    let task = CallContext { task: Some("tidy-1".to_owned()), ..CallContext::default() };
    let command = MemoryCommand::Create { path, file_text: "x\n".to_owned() };
    memories.apply(command, &task).await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn undoing_a_task_names_its_changes_in_other_projects() {
    let place = Sandbox::new();
    fs::create_dir_all(place.path().join("other/.git")).unwrap();
    make_in_task(&place, "other", "b.md").await;
    make_in_task(&place, "app", "a.md").await;
    let ended = place.run(&["undo", "-y", "--task", "tidy-1"]);
    let whose = ended.stderr.split_once("project other-").unwrap().1.get(..12).unwrap();
    insta::assert_snapshot!(ended.shown().replace(whose, "<digest>"), @r"
    status 1
    --- stderr
    undid change 2 in 1 memory:
      project/a.md
    (change 3)
    warning: change 1 of this task is in the project other-<digest> and was not undone; to undo, run the same command in its checkout
    ");
    let there = place.path().join("other").display().to_string();
    // The change that was already undone here is still named there, because it was a part of the task.
    let ended = place.run(&["undo", "-y", "--task", "tidy-1", "--project", &there]);
    assert!(ended.stderr.starts_with("undid change 1 in 1 memory"), "{}", ended.stderr);
    assert!(!place.path().join("other/.lukasa/memory/b.md").exists());
}

#[test]
fn an_undo_needs_a_subject() {
    let place = Sandbox::new();
    let none = place.run(&["undo", "-y"]);
    assert_eq!(none.status, 1);
    assert!(none.stderr.contains("no change to undo in history"), "{}", none.stderr);
    assert_eq!(place.run(&["undo", "-y", "--until", "1h"]).status, 2);
    assert_eq!(place.run(&["undo", "-y", "1", "--task", "x"]).status, 2);
    assert_eq!(place.run(&["undo", "-y", "1"]).status, 1);
    assert_eq!(place.run(&["undo", "-y", "--task", "none"]).status, 1);
}

#[test]
fn an_undo_without_a_name_reverts_the_last_change() {
    let place = Sandbox::with(&[("global/a.md", "one\n")]);
    place.run_ok(&["replace", "global/a.md", "one", "two"]);
    let plan = place.run(&["undo", "--dry-run"]);
    assert_eq!(plan.stdout, "would undo change 2 in 1 memory:\n  global/a.md\n");
    assert_eq!(place.view("global/a.md"), "two\n");
    assert_eq!(place.json(&["undo", "-y"])["undone"], serde_json::json!([2]));
    assert_eq!(place.view("global/a.md"), "one\n");
    // An undo is a change too.
    place.run_ok(&["undo", "--yes"]);
    assert_eq!(place.view("global/a.md"), "two\n");
}

#[test]
fn the_log_of_a_memory_includes_its_former_paths() {
    let place = Sandbox::with(&[("global/a.md", "one\n"), ("global/c.md", "another\n")]);
    place.run_ok(&["replace", "global/a.md", "one", "two"]);
    place.run_ok(&["mv", "global/a.md", "global/deep/b.md"]);
    place.run_ok(&["replace", "global/deep/b.md", "two", "three"]);
    place.run_ok(&["mv", "global/deep", "global/deeper"]);
    place.run_ok(&["pin", "global/deeper/b.md"]);
    place.run_ok(&["mv", "global/deeper/b.md", "project/"]);
    let told = |path: &str| {
        let lines = place.run_ok(&["log", path]);
        let line = |line: &str| {
            let fields: Vec<_> = line.split('\t').collect();
            [fields[0], fields[2], fields[4]].join(" ")
        };
        lines.lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(
        told("project/b.md"),
        [
            "7 rename global/deeper/b.md → project/b.md",
            "6 rename global/deep/ → global/deeper/ (1 memory)",
            "5 edit global/deep/b.md",
            "4 rename global/a.md → global/deep/b.md",
            "3 edit global/a.md",
            "1 create global/a.md",
        ]
    );
    assert_eq!(place.run_ok(&["log", "project/b.md", "-n", "3"]).lines().count(), 3);
    assert_eq!(place.json(&["ls", "project"])["memories"][0]["pinned"], true);
    assert_eq!(place.view("project/b.md"), "three\n");
    place.run_ok(&["undo", "-y"]);
    assert_eq!(place.view("global/deeper/b.md"), "three\n");
    assert_eq!(place.run(&["view", "project/b.md"]).status, 1);
}

#[test]
fn the_log_names_changes_after_their_commands() {
    let place = Sandbox::new();
    place.create("global/a.md", "- I keep bees\n- Tea at four\n");
    place.create("global/a-2.md", "- I keep  bees.\n");
    place.run_ok(&["remember", "I drink tea"]);
    place.run_ok(&["forget", "-y", "tea at four"]);
    place.run_ok(&["dream", "-y"]);
    place.run_ok(&["undo", "-y"]);
    let lines = place.run_ok(&["log"]);
    let actions: Vec<_> = lines.lines().map(|line| line.split('\t').nth(2).unwrap()).collect();
    assert_eq!(actions, ["undo", "dream", "forget", "remember", "create", "create"]);
    let values = place.run_ok(&["log", "--json", "-n", "2"]);
    assert!(values.contains(r#""action":"dream""#) && values.contains(r#""kind":"draft""#));
}
