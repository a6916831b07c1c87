//! `ls` and `view`.

use crate::place::{Place, pretty};

fn with_memories() -> Place {
    let place = Place::new();
    place.create("global/prefs.md", "---\ndescription: How I like it\n---\n- short\n");
    place.create("global/tools/editor.md", "- vim\n");
    place.create("project/build.md", "uses make\n");
    place.done(&["pin", "global/prefs.md"]);
    place
}

#[test]
fn a_piped_listing_has_one_line_a_memory() {
    let place = with_memories();
    insta::assert_snapshot!(place.done(&["ls"]).replace('\t', "|"), @r"
    global/prefs.md|43|<time>|2|pinned|How I like it
    global/tools/editor.md|6|<time>|1||
    project/build.md|10|<time>|1||
    ");
    assert_eq!(place.done(&["ls", "global/tools"]).lines().count(), 1);
    assert_eq!(place.done(&["ls", "/memories/project/"]).lines().count(), 1);
    assert_eq!(place.done(&["ls", "global/prefs.md"]).lines().count(), 1);
    assert_eq!(place.run(&["ls", "global/none"]).status, 1);
}

#[test]
fn a_tree_shows_folders() {
    insta::assert_snapshot!(with_memories().done(&["ls", "--tree"]), @r"
    /memories
    ├── global/  2 memories
    │   ├── prefs.md *  43B  How I like it
    │   └── tools/  1 memory
    │       └── editor.md  6B
    └── project/  1 memory
        └── build.md  10B
    ");
}

#[test]
fn json_has_all_that_is_known_of_a_memory() {
    insta::assert_snapshot!(pretty(&with_memories().json(&["ls", "global/prefs.md"])), @r#"
    {
      "left_out": 0,
      "memories": [
        {
          "bytes": 43,
          "description": "How I like it",
          "last_used_at": "<time>",
          "modified_at": "<time>",
          "name": null,
          "path": "/memories/global/prefs.md",
          "pinned": true,
          "type": null,
          "uses": 2
        }
      ],
      "unavailable": [
        {
          "reason": "no workspace is associated with this session",
          "scope": "workspace"
        }
      ]
    }
    "#);
}

#[test]
fn nothing_yet_is_no_failure() {
    let ended = Place::new().run(&["ls"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    no memories here yet; `quipu create PATH` makes one
    ");
}

#[test]
fn a_view_is_the_text_byte_for_byte() {
    let place = Place::new();
    let text = "one\r\ntwo \u{1b}[31m\nthree";
    std::fs::create_dir_all(place.home().join("memory")).unwrap();
    std::fs::write(place.home().join("memory/a.md"), text).unwrap();
    assert_eq!(place.view("global/a.md"), text);
    assert_eq!(place.done(&["view", "global/a.md", "--lines", "2:"]), "two \u{1b}[31m\nthree");
    assert_eq!(place.done(&["view", "global/a.md", "--lines", "1", "-n"]), "     1 one\n");
    insta::assert_snapshot!(pretty(&place.json(&["view", "global/a.md", "-l", ":2"])), @r#"
    {
      "bytes": 20,
      "first_line": 1,
      "modified_at": "<time>",
      "path": "/memories/global/a.md",
      "revision": "043e612a8e9e8bce6e316991e6342e936180ed5fd1eb49fd059e4fde7842c5e1",
      "text": "one\r\ntwo \u001b[31m\n"
    }
    "#);
    assert_eq!(place.run(&["view", "global/a.md", "--lines", "9"]).status, 1);
}

#[test]
fn a_file_that_outgrew_the_cap_is_viewed_in_part() {
    let place = Place::new();
    let lines: Vec<_> = (1..=20_000).map(|number| format!("line {number}\n")).collect();
    std::fs::create_dir_all(place.home().join("memory")).unwrap();
    std::fs::write(place.home().join("memory/big.md"), lines.concat()).unwrap();
    let whole = place.run(&["view", "global/big.md"]);
    assert_eq!(whole.status, 5);
    assert!(whole.stderr.ends_with("help: `--lines A:B` shows a part of it\n"), "{}", whole.stderr);
    let part = place.done(&["view", "global/big.md", "--lines", "19999:20000"]);
    assert_eq!(part, "line 19999\nline 20000\n");
}

#[test]
fn viewing_and_listing_are_no_use() {
    let place = Place::new();
    place.create("global/a.md", "a");
    let uses = |place: &Place| place.json(&["ls"])["memories"][0]["uses"].clone();
    let before = uses(&place);
    place.view("global/a.md");
    assert_eq!(uses(&place), before);
}
