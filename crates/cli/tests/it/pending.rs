//! Tests of `lukasa pending`: the list of proposals, and the decisions of a person.

use std::time::SystemTime;

use engine::{BaseFolders, BindingRequest, Caller, Config, Engine};
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::Mount;
use serde_json::{Value, json};
use state::{HistoryStore as _, NewProposal, SqliteState, TaskStore as _};

use crate::sandbox::{Sandbox, pretty};

/// A proposed change: the scope and name of a memory, the old entry, the new one.
type ProposedChange<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a str>);

/// Adds proposals to the queue, as a completed dream does.
pub(crate) async fn propose(place: &Sandbox, reason: &str, changes: &[ProposedChange<'_>]) {
    let folders = BaseFolders { data: place.home(), state: place.home().join("state") };
    let engine = Engine::open(Config::new(folders)).unwrap();
    let request = BindingRequest { project: Some(place.checkout().into()), ..Default::default() };
    let memories = engine.memories(&request, Caller::person("test"));
    let mounts = memories.mounts();
    let mut roots = Vec::new();
    let mut values = Vec::new();
    for (scope, path, old, new) in changes {
        let is_meant = |mount| matches!(mount, Mount::Scope(one) if one.as_ref() == *scope);
        let mount = mounts.iter().find(|one| is_meant(one.mount)).unwrap();
        let key = mount.key.clone().unwrap();
        let root = roots.iter().position(|one| *one == key).unwrap_or_else(|| {
            roots.push(key);
            roots.len() - 1
        });
        values.push(json!({ "root": root, "path": path, "old": old, "new": new }));
    }
    engine.close().await;
    let record = json!({
        "kind": "repetition", "reason": reason, "score": 80, "changes": values,
    });
    let new = NewProposal {
        made_at: Timestamp::try_from(SystemTime::now()).unwrap(),
        origin: "dream".to_owned(),
        task: Some("dream-1".to_owned()),
        digest: Revision::digest(record.to_string().as_bytes()),
        trust: Trust::Person,
        roots,
        proposal: record.to_string(),
    };
    let state = SqliteState::new(place.home().join("state/lukasa.db"));
    assert_eq!(state.add_proposals(&[new]).await.unwrap().ids.len(), 1);
    state.close().await;
}

async fn with_three() -> Sandbox {
    let place = Sandbox::new();
    place.create("global/tea.md", "- Likes tea\n- Drinks tea\n- Green tea\n");
    place.create("project/build.md", "- Build with make\n");
    propose(
        &place,
        "both say that tea is liked",
        &[("global", "tea.md", Some("Drinks tea"), None)],
    )
    .await;
    let moved = [
        ("global", "tea.md", Some("Green tea"), None),
        ("project", "build.md", None, Some("Green tea")),
    ];
    propose(&place, "it belongs to the project", &moved).await;
    propose(&place, "gone", &[("project", "build.md", Some("Build with just"), None)]).await;
    place
}

#[tokio::test]
async fn proposals_are_listed_with_reason_and_memories() {
    let place = with_three().await;
    insta::assert_snapshot!(place.run_ok(&["pending"]), @r"
    1	<time>	waiting	repetition	80	global/tea.md	both say that tea is liked
    2	<time>	waiting	repetition	80	global/tea.md,project/build.md	it belongs to the project
    3	<time>	stale	repetition	80	project/build.md	gone
    ");
    let listed = place.json(&["pending"]);
    insta::assert_snapshot!(pretty(&listed["proposals"][0]), @r#"
    {
      "id": 1,
      "made_at": "<time>",
      "origin": "dream",
      "task": "dream-1",
      "kind": "repetition",
      "reason": "both say that tea is liked",
      "score": 80,
      "stale": null,
      "changes": [
        {
          "path": "/memories/global/tea.md",
          "old": "Drinks tea",
          "new": null
        }
      ],
      "relies_on": [],
      "review": null,
      "diffs": [
        {
          "path": "/memories/global/tea.md",
          "moved_to": null,
          "diff": "--- /memories/global/tea.md\n+++ /memories/global/tea.md\n@@ -1,3 +1,2 @@\n - Likes tea\n-- Drinks tea\n - Green tea\n",
          "kept": true
        }
      ]
    }
    "#);
    assert_eq!(listed["proposals"].as_array().unwrap().len(), 3);
    assert!(listed["proposals"][2]["stale"].is_string(), "{listed}");
    let colored = place.run_ok(&["pending", "--color", "always"]);
    let plain = anstream::adapter::strip_str(&colored).to_string();
    let age = regex::Regex::new(r" +(now|\d+s) ").unwrap();
    insta::assert_snapshot!(age.replace_all(&plain, " <age> "), @r"
    ID  AGE  KIND        WHERE                            WHY
     1 <age>  repetition  global/tea.md                    both say that tea is liked
     2 <age>  repetition  global/tea.md, project/build.md  it belongs to the project
     3 <age>  stale       project/build.md                 the entry was changed or removed since
    ");
    assert_eq!(place.json(&["status"])["pending"], 3);
    let status = place.run_ok(&["status"]);
    assert!(status.contains("pending    3 proposals wait: `lukasa pending`\n"), "{status}");
    // That folder belongs to another project.
    let elsewhere = place.path().join("tmp").display().to_string();
    assert_eq!(place.json(&["pending", "--project", &elsewhere])["proposals"][0]["id"], 1);
    assert_eq!(place.json(&["status", "--project", &elsewhere])["pending"], 1);
}

#[tokio::test]
async fn at_first_there_are_no_proposals() {
    let place = Sandbox::new();
    let ended = place.run(&["pending"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, ""));
    assert_eq!(ended.stderr, "no proposals wait\n");
    assert_eq!(place.json(&["pending"]), json!({ "proposals": [] }));
    assert_eq!(place.json(&["status"])["pending"], 0);
    assert!(!place.home().join("state").exists(), "reading makes nothing");
    let ended = place.run(&["pending", "accept", "7"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 1
    --- stderr
    error: there is no proposal 7 for these memories
      help: `lukasa pending` lists the waiting proposals
    ");
}

#[tokio::test]
async fn a_proposal_is_shown_in_full() {
    let place = with_three().await;
    let shown = |id: &str| {
        let text = place.run_ok(&["pending", "show", id]);
        let when = regex::Regex::new(r"made      .*").unwrap();
        when.replace(&text, "made      <when>").into_owned()
    };
    insta::assert_snapshot!(shown("2"), @r"
    proposal 2
    kind      repetition
    why       it belongs to the project
    score     80 %
    made      <when>
    by        dream-1

    --- /memories/global/tea.md
    +++ /memories/global/tea.md
    @@ -1,3 +1,2 @@
     - Likes tea
     - Drinks tea
    -- Green tea
    --- /memories/project/build.md
    +++ /memories/project/build.md
    @@ -1 +1,2 @@
     - Build with make
    +- Green tea
    ");
    insta::assert_snapshot!(shown("3"), @r"
    proposal 3
    kind      repetition
    why       gone
    score     80 %
    made      <when>
    by        dream-1
    stale     the entry was changed or removed since

      project/build.md
      - Build with just
    ");
    assert_eq!(
        place.json(&["pending", "show", "2"])["diffs"][1]["path"],
        "/memories/project/build.md"
    );
}

#[tokio::test]
async fn several_proposals_are_accepted_separately() {
    let place = with_three().await;
    let ended = place.run(&["pending", "accept", "1", "3", "2"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 1
    --- stderr
    accepted proposal 1 (change 3)
    warning: the proposal 3 is stale: /memories/project/build.md: the entry was changed or removed since
    accepted proposal 2 (change 4)
    ");
    assert_eq!(place.view("global/tea.md"), "- Likes tea\n");
    assert_eq!(place.view("project/build.md"), "- Build with make\n- Green tea\n");
    let ended = place.run(&["pending", "accept", "3"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 3
    --- stderr
    error: the proposal 3 is stale: /memories/project/build.md: the entry was changed or removed since
      help: `lukasa pending reject 3` removes it from the list
    ");
    insta::assert_snapshot!(place.run_ok(&["log", "-n", "2"]), @r"
    4	<time>	proposal	person (cli)	global/tea.md, project/build.md
    3	<time>	proposal	person (cli)	global/tea.md
    ");
    place.run_ok(&["undo", "-y", "4"]);
    assert_eq!(place.view("global/tea.md"), "- Likes tea\n- Green tea\n");
    place.check_healthy();
}

#[tokio::test]
async fn a_rejected_proposal_is_removed() {
    let place = with_three().await;
    insta::assert_snapshot!(place.run(&["pending", "reject", "1", "9"]).shown(), @r"
    status 1
    --- stderr
    rejected proposal 1
    warning: there is no proposal 9 for these memories
    ");
    let ended = place.json(&["pending", "reject", "2", "3"]);
    assert_eq!(
        ended["decisions"],
        json!([
            { "id": 2, "done": true, "change": Value::Null },
            { "id": 3, "done": true, "change": Value::Null },
        ])
    );
    assert_eq!(place.json(&["pending"]), json!({ "proposals": [] }));
    assert_eq!(place.view("global/tea.md").lines().count(), 3);
}

#[tokio::test]
async fn without_a_terminal_deciding_on_all_needs_a_flag() {
    let place = with_three().await;
    insta::assert_snapshot!(place.run(&["pending", "accept", "--all"]).shown(), @r"
    status 2
    --- stderr
    error: `lukasa pending accept --all` changes memories, and needs `-y` without a terminal
      help: add `-y` to your command to skip the question; `lukasa undo` undoes it
    ");
    insta::assert_snapshot!(place.run(&["pending", "reject", "--all"]).shown(), @r"
    status 2
    --- stderr
    error: `lukasa pending reject --all` cannot be undone, and needs `-y` without a terminal
      help: add `-y` to your command to skip the question; `lukasa pending` lists the proposals
    ");
    let ended = place.run(&["pending", "accept", "--all", "-y"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    1 proposal is stale; `lukasa pending reject --all` drops the rest
    accepted proposal 1 (change 3)
    accepted proposal 2 (change 4)
    ");
    assert_eq!(place.json(&["pending"])["proposals"].as_array().unwrap().len(), 1);
    let ended = place.run(&["pending", "reject", "--all", "-y"]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, "rejected proposal 3\n"));
    assert_eq!(place.run(&["pending", "accept"]).status, 2);
}

#[tokio::test]
async fn a_dream_shows_the_number_of_proposals() {
    let place = with_three().await;
    let ended = place.run(&["dream", "-y"]);
    assert!(ended.stderr.ends_with("proposals wait: `lukasa pending`\n"), "{ended:?}");
    assert!(place.json(&["dream", "-y"])["pending"].as_u64().unwrap() >= 3);
}

#[test]
fn an_uncertain_remember_becomes_a_proposal_that_is_accepted() {
    let place = Sandbox::new();
    let kept = "- Uses VS Code with vim keys\n- I switched from VS Code to Zed\n";
    place.create("global/a.md", "- Uses VS Code with vim keys\n");
    let ended = place.run(&["remember", "I switched from VS Code to Zed"]);
    assert!(ended.stderr.ends_with("\n1 proposal waits: `lukasa pending`\n"), "{ended:?}");
    assert_eq!(place.view("global/a.md"), kept);
    let waiting = place.json(&["pending"]);
    let proposal = &waiting["proposals"][0];
    assert_eq!((&proposal["kind"], &proposal["origin"]), (&json!("update"), &json!("remember")));
    let change = place.json(&["pending", "accept", "1"])["decisions"][0]["change"].to_string();
    assert_eq!(place.view("global/a.md"), "- I switched from VS Code to Zed\n");
    place.run_ok(&["undo", "-y", &change]);
    assert_eq!(place.view("global/a.md"), kept);
}
