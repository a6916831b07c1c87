//! Tests of `lukasa ls` and `lukasa view`.

use std::fs;

use crate::sandbox::{Sandbox, pretty};
use crate::served::McpServerProcess;

fn with_memories() -> Sandbox {
    let place = Sandbox::new();
    place.create("global/prefs.md", "---\ndescription: How I like it\n---\n- short\n");
    place.create("global/tools/editor.md", "- vim\n");
    place.create("project/build.md", "uses make\n");
    place.run_ok(&["pin", "global/prefs.md"]);
    place
}

#[test]
fn a_piped_listing_has_one_line_per_memory() {
    let place = with_memories();
    insta::assert_snapshot!(place.run_ok(&["ls"]).replace('\t', "|"), @r"
    global/prefs.md|43|<time>|2|pinned|How I like it
    global/tools/editor.md|6|<time>|1||vim
    project/build.md|10|<time>|1||uses make
    ");
    assert_eq!(place.run_ok(&["ls", "global/tools"]).lines().count(), 1);
    assert_eq!(place.run_ok(&["ls", "/memories/project/"]).lines().count(), 1);
    assert_eq!(place.run_ok(&["ls", "global/prefs.md"]).lines().count(), 1);
    assert_eq!(place.run(&["ls", "global/none"]).status, 1);
}

#[test]
fn a_tree_shows_folders() {
    insta::assert_snapshot!(with_memories().run_ok(&["ls", "--tree"]), @r"
    /memories
    ├── global/  2 memories
    │   ├── prefs.md *  43B  How I like it
    │   └── tools/  1 memory
    │       └── editor.md  6B  vim
    └── project/  1 memory
        └── build.md  10B  uses make
    ");
}

#[test]
fn json_has_all_facts_of_a_memory() {
    insta::assert_snapshot!(pretty(&with_memories().json(&["ls", "global/prefs.md"])), @r#"
    {
      "memories": [
        {
          "path": "/memories/global/prefs.md",
          "bytes": 43,
          "modified_at": "<time>",
          "description": "How I like it",
          "name": null,
          "type": null,
          "pinned": true,
          "uses": 2,
          "last_used_at": "<time>",
          "author": "person",
          "trust": "person",
          "written_at": "<time>"
        }
      ],
      "left_out": 0,
      "unavailable": []
    }
    "#);
}

#[test]
fn an_empty_listing_is_no_failure() {
    let ended = Sandbox::new().run(&["ls"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    no memories here yet; `lukasa create PATH` creates one
    ");
}

#[test]
fn a_view_is_the_text_byte_for_byte() {
    let place = Sandbox::new();
    let text = "one\r\ntwo \u{1b}[31m\nthree";
    std::fs::create_dir_all(place.home().join("memory")).unwrap();
    std::fs::write(place.home().join("memory/a.md"), text).unwrap();
    assert_eq!(place.view("global/a.md"), text);
    assert_eq!(place.run_ok(&["view", "global/a.md", "--lines", "2:"]), "two \u{1b}[31m\nthree");
    assert_eq!(place.run_ok(&["view", "global/a.md", "--lines", "1", "-n"]), "     1 one\n");
    insta::assert_snapshot!(pretty(&place.json(&["view", "global/a.md", "-l", ":2"])), @r#"
    {
      "path": "/memories/global/a.md",
      "text": "one\r\ntwo \u001b[31m\n",
      "first_line": 1,
      "revision": "043e612a8e9e8bce6e316991e6342e936180ed5fd1eb49fd059e4fde7842c5e1",
      "bytes": 20,
      "modified_at": "<time>"
    }
    "#);
    assert_eq!(place.run(&["view", "global/a.md", "--lines", "9"]).status, 1);
}

#[test]
fn a_file_that_outgrew_the_cap_is_viewed_in_part() {
    let place = Sandbox::new();
    let lines: Vec<_> = (1..=20_000).map(|number| format!("line {number}\n")).collect();
    std::fs::create_dir_all(place.home().join("memory")).unwrap();
    std::fs::write(place.home().join("memory/big.md"), lines.concat()).unwrap();
    let whole = place.run(&["view", "global/big.md"]);
    assert_eq!(whole.status, 5);
    assert!(
        whole.stderr.ends_with("help: print a part of it with `--lines A:B`\n"),
        "{}",
        whole.stderr
    );
    let part = place.run_ok(&["view", "global/big.md", "--lines", "19999:20000"]);
    assert_eq!(part, "line 19999\nline 20000\n");
}

#[test]
fn viewing_and_listing_do_not_count_as_usage() {
    let place = Sandbox::with(&[("global/a.md", "a")]);
    let uses = |place: &Sandbox| place.json(&["ls"])["memories"][0]["uses"].clone();
    let before = uses(&place);
    place.view("global/a.md");
    assert_eq!(uses(&place), before);
}

#[test]
fn a_listing_names_authors_and_can_be_filtered() {
    let place = with_memories();
    let mut served = McpServerProcess::start(&place);
    served.create("/memories/project/agent.md", "- by an agent\n");
    served.close_input();
    fs::write(place.checkout().join(".lukasa/memory/outside.md"), "- by an editor\n").unwrap();
    place.run_ok(&["remember", "I keep bees"]);
    let listed = |flags: &[&str]| {
        let lines = place.run_ok(&[&["ls"], flags].concat());
        let paths = lines.lines().map(|line| line.split('\t').next().unwrap().to_owned());
        paths.collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--by", "agent"]), ["project/agent.md"]);
    assert_eq!(listed(&["--by", "outside"]), ["project/outside.md"]);
    assert_eq!(listed(&["--trust", "outside"]), ["project/outside.md"]);
    assert_eq!(listed(&["--by", "task"]), ["global/user/keep-bees.md"]);
    assert_eq!(listed(&["--pinned"]), ["global/prefs.md"]);
    assert_eq!(listed(&["--pinned", "--by", "agent"]), [""; 0]);
    assert_eq!(listed(&["--since", "1h"]).len(), 6);
    // The pinned memory was used after it was written.
    assert!(!listed(&["--unused"]).contains(&"global/prefs.md".to_owned()));
    assert_eq!(listed(&["--unused"]).len(), 5);
    assert_eq!(listed(&["--sort", "size"])[0], "global/user/keep-bees.md");
    assert_eq!(listed(&["--sort", "uses"])[0], "global/prefs.md");
    let long = place.run_ok(&["ls", "project", "--long"]).replace('\t', "|");
    insta::assert_snapshot!(long, @r"
    project/agent.md|14|<time>|1||by an agent|agent|agent|<time>
    project/build.md|10|<time>|1||uses make|person|person|<time>
    project/outside.md|15|<time>|0||by an editor|outside|outside|
    ");
    let json = place.json(&["ls", "project/agent.md"]);
    let agent = &json["memories"][0];
    assert_eq!((&agent["author"], &agent["trust"]), (&"agent".into(), &"agent".into()), "{json}");
    assert!(agent["written_at"].is_string(), "{json}");
    assert_eq!(place.run(&["ls", "--pinned", "project"]).stderr, "none of 3 memories matches\n");
    let wrong = place.run(&["ls", "--by", "robot"]);
    assert!(wrong.stderr.contains("expected one of person, agent, task"), "{}", wrong.stderr);
}

#[test]
fn a_memory_that_moved_has_the_author_who_wrote_it() {
    let place = Sandbox::new();
    let mut served = McpServerProcess::start(&place);
    served.create("/memories/project/a.md", "- by an agent\n");
    served.close_input();
    place.run_ok(&["mv", "project/a.md", "project/deep/b.md"]);
    place.run_ok(&["mv", "project/deep/b.md", "global/"]);
    let json = place.json(&["ls", "global/b.md"]);
    let moved = &json["memories"][0];
    assert_eq!((&moved["author"], &moved["trust"]), (&"agent".into(), &"agent".into()), "{json}");
}

#[test]
fn memories_of_the_same_text_keep_their_own_origin_in_another_scope() {
    let place = Sandbox::new();
    for name in ["one", "two"] {
        place.create(&format!("project/d/{name}.md"), "same\n");
    }
    place.run_ok(&["mv", "project/d", "global/d"]);
    for name in ["one", "two"] {
        let log = place.run_ok(&["log", &format!("global/d/{name}.md")]);
        assert!(log.contains(&format!("project/d/{name}.md")), "{log}");
    }
    let listed = place.json(&["ls"]);
    for one in listed["memories"].as_array().unwrap() {
        assert_eq!((&one["author"], &one["trust"]), (&"person".into(), &"person".into()), "{one}");
    }
}
