//! `config.toml`, environment and flags.

use std::fs;

use crate::place::Place;

fn set(place: &Place, text: &str) {
    fs::write(place.home().join("config.toml"), text).unwrap();
}

#[test]
fn a_mistake_in_the_settings_stops_every_command_and_is_named() {
    let place = Place::new();
    set(&place, "files_max = 10\nfile_max = 3\n");
    insta::assert_snapshot!(place.run(&["ls"]).shown(), @r"
    status 2
    --- stderr
    error: <place>/home/config.toml:2: unknown field `file_max`, expected one of `files_max`, `memory_list`, `project_root`, `retention`, `screening`
      help: `quipu --help` lists what can be set
    ");
    set(&place, "[screening.policies]\n\"secrets.no-such-rule\" = \"warn\"\n");
    let ended = place.run(&["ls"]);
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("secrets.no-such-rule"), "{}", ended.stderr);
    assert_eq!(place.run(&["completions", "bash"]).status, 0);
}

#[test]
fn settings_take_effect() {
    let place = Place::new();
    set(&place, "files_max = 1\nproject_root = \"host\"\n");
    place.create("project/a.md", "a\n");
    assert!(!place.checkout().join(".quipu").exists());
    assert_eq!(place.run(&["create", "project/b.md", "b"]).status, 5);
    let in_repo = ["create", "project/c.md", "c", "--project-root", "repo"];
    place.done(&in_repo);
    assert!(place.checkout().join(".quipu/memory/c.md").exists());
}

#[test]
fn a_rule_can_be_relaxed() {
    let place = Place::new();
    let key = ["AK", "IA", "QYLPMN5HHHFPZAM2"].concat();
    assert_eq!(place.run(&["create", "global/k.md", &key]).status, 4);
    set(&place, "[screening.policies]\nsecrets = \"warn\"\n");
    let ended = place.run(&["create", "global/k.md", &key]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("warning: line 1 matches the screening rule `secrets."));
}

#[test]
fn without_a_home_of_its_own_the_folders_are_those_of_the_system() {
    let place = Place::new();
    let mut command = place.quipu(&["create", "global/a.md", "a"]);
    command.env_remove("QUIPU_HOME").env("XDG_DATA_HOME", place.path().join("data"));
    let ended = place.end(&mut command);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(place.path().join("data/quipu/memory/a.md").exists());
    assert!(place.home().join(".local/state/quipu").is_dir());
}

#[test]
fn a_project_is_given_by_flag_or_folder() {
    let place = Place::new();
    place.create("project/a.md", "a\n");
    let elsewhere = |args: &[&str]| {
        let mut command = place.quipu(args);
        place.end(command.current_dir(place.temporary()))
    };
    let app = place.checkout().display().to_string();
    assert_eq!(elsewhere(&["view", "project/a.md", "--project", &app]).stdout, "a\n");
    assert_eq!(elsewhere(&["view", "project/a.md"]).status, 4);
    insta::assert_snapshot!(place.run(&["ls", "--project", "nowhere"]).shown(), @r"
    status 1
    --- stderr
    error: cannot use the project folder `nowhere`: no such file or directory
    ");
    insta::assert_snapshot!(place.run(&["ls", "--workspace-id", "../x"]).shown(), @r"
    status 2
    --- stderr
    error: --workspace-id: a workspace id is 1 to 64 letters, digits, `.`, `_` or `-`, and does not begin with a dot
    ");
}
