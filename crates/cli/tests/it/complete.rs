//! Tests of completions in shells.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::pending::propose;
use crate::sandbox::{CommandOutput, Sandbox};

/// Asks for completions of the last word, as the script of bash does.
fn ask(place: &Sandbox, words: &[&str]) -> CommandOutput {
    let mut command = place.lukasa(&[&["--", "lukasa"], words].concat());
    let index = words.len().to_string();
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index).env("_CLAP_IFS", "\n");
    place.run_command(&mut command)
}

/// Returns the completions of the last word, without flags.
fn completions(place: &Sandbox, words: &[&str]) -> Vec<String> {
    let ended = ask(place, words);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{words:?}");
    let offered = ended.stdout.lines().filter(|word| !word.starts_with("--"));
    offered.map(str::to_owned).collect()
}

fn filled() -> Sandbox {
    let place = Sandbox::new();
    place.create("global/prefs.md", "a\n");
    place.create("global/notes/x.md", "b\n");
    place.create("project/build.md", "c\n");
    place
}

#[test]
fn tasks_are_offered_latest_first() {
    let place = Sandbox::new();
    assert_eq!(completions(&place, &["undo", "--task", ""]), [""; 0]);
    let one = place.json(&["remember", "I keep bees"])["task"].as_str().unwrap().to_owned();
    let two = place.json(&["forget", "-y", "bees"])["task"].as_str().unwrap().to_owned();
    for words in [["undo", "--task"], ["log", "--task"], ["tasks", "--cancel"]] {
        assert_eq!(completions(&place, &[words[0], words[1], ""]), [two.clone(), one.clone()]);
        assert_eq!(completions(&place, &[words[0], words[1], "rem"]), [&*one]);
    }
}

#[tokio::test]
async fn proposals_are_offered_with_their_subject() {
    let place = Sandbox::with(&[("global/tea.md", "- Likes tea\n- Drinks tea\n")]);
    for entry in ["Likes tea", "Drinks tea"] {
        propose(&place, "why", &[("global", "tea.md", Some(entry), None)]).await;
    }
    for words in [["pending", "show"], ["pending", "accept"], ["pending", "reject"]] {
        assert_eq!(completions(&place, &[words[0], words[1], ""]), ["1", "2"]);
    }
}

#[test]
fn memories_folders_and_scopes_are_offered_where_they_belong() {
    let place = filled();
    let check = |words: &[&str], expected: &[&str]| {
        assert_eq!(completions(&place, words), expected, "{words:?}");
    };
    check(&["view", ""], &["global/", "project/", "workspace/"]);
    check(&["view", "g"], &["global/"]);
    check(&["view", "global/"], &["global/notes/", "global/prefs.md"]);
    check(&["view", "global/p"], &["global/prefs.md"]);
    check(&["rm", "global/prefs.md", "global/notes/"], &["global/notes/x.md"]);
    check(&["view", "/m"], &["/memories/"]);
    let scopes = ["global", "project", "workspace"].map(|scope| format!("/memories/{scope}/"));
    check(&["view", "/memories/"], &scopes.each_ref().map(String::as_str));
    check(&["view", "/memories/global/p"], &["/memories/global/prefs.md"]);
    // A new memory gets a new name, so only folders are offered.
    check(&["create", "global/"], &["global/notes/"]);
    check(&["mv", "global/p"], &["global/prefs.md"]);
    check(&["mv", "global/prefs.md", "global/"], &["global/notes/"]);
    check(&["import", "dir", "--to", "pro"], &["project/"]);
    check(&["diff", "global/p"], &["global/prefs.md"]);
    check(&["create", "--allow", "secrets.ag"], &["secrets.age-key"]);
    check(&["do"], &["doctor"]);
    for nowhere in ["/etc/", "../", "nonsense/", "workspace/", "global/none/", "global/\u{7}"] {
        check(&["view", nowhere], &[]);
    }
}

#[test]
fn the_newest_changes_are_offered_by_number() {
    let place = filled();
    for command in ["show", "undo"] {
        assert_eq!(completions(&place, &[command, ""]), ["3", "2", "1"], "{command}");
        assert_eq!(completions(&place, &[command, "2"]), ["2"], "{command}");
    }
    assert_eq!(completions(&place, &["diff", "global/prefs.md", ""]), ["3", "2", "1"]);
    let mut command = place.lukasa(&["--", "lukasa", "show", ""]);
    command.env("COMPLETE", "fish");
    let told = place.run_command(&mut command).stdout;
    assert!(
        told.starts_with("3\tcreate project/build.md\n2\tcreate global/notes/x.md\n"),
        "{told}"
    );
}

#[test]
fn earlier_flags_determine_the_scope_of_completions() {
    let place = filled();
    let app = place.checkout().display().to_string();
    let memory = place.home().join("memory").display().to_string();
    let elsewhere = |words: &[&str]| {
        let mut command = place.lukasa(&[&["--", "lukasa"], words].concat());
        let index = words.len().to_string();
        command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index);
        let ended = place.run_command(command.current_dir(place.temporary()));
        ended.stdout.lines().filter(|word| !word.starts_with("--")).map(str::to_owned).collect()
    };
    let check = |words: &[&str], expected: &[&str]| {
        let offered: Vec<String> = elsewhere(words);
        assert_eq!(offered, expected, "{words:?}");
    };
    check(&["view", "project/"], &[]);
    check(&["view", "--project", &app, "project/"], &["project/build.md"]);
    check(&["--project", &app, "view", "project/"], &["project/build.md"]);
    check(&["view", "--flat", &memory, "no"], &["notes/"]);
}

#[test]
fn a_name_with_shell_syntax_is_not_offered() {
    let place = filled();
    let folder = place.checkout().join(".lukasa/memory");
    for name in ["$(touch x).md", "`id`.md", "a;b.md", "two words.md", "it's.md", "-rf.md", "#.md"]
    {
        fs::write(folder.join(name), "x\n").unwrap();
    }
    assert_eq!(completions(&place, &["view", "project/"]), ["project/build.md"]);
}

/// Collects every file and folder with its bytes and its time of modification.
fn all(folder: &Path, found: &mut BTreeMap<String, (Vec<u8>, SystemTime)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let written = fs::symlink_metadata(&path).unwrap().modified().unwrap();
        if path.is_dir() {
            found.insert(path.display().to_string(), (Vec::new(), written));
            all(&path, found);
        } else {
            found.insert(path.display().to_string(), (fs::read(&path).unwrap(), written));
        }
    }
}

#[test]
fn a_completion_creates_and_changes_nothing() {
    let check = |place: &Sandbox| {
        let look = || {
            let mut found = BTreeMap::new();
            all(place.path(), &mut found);
            // SQLite creates its shared memory file for every reader, and removes it.
            found.remove(&place.home().join("state").display().to_string());
            found
        };
        let before = look();
        for words in [&["view", ""][..], &["view", "global/"], &["undo", ""], &["diff", ""]] {
            assert_eq!(ask(place, words).status, 0);
        }
        assert!(look() == before, "something was written");
    };
    check(&Sandbox::new());
    let place = filled();
    // A completion does not record an external edit either.
    fs::write(place.home().join("memory/prefs.md"), "edited\n").unwrap();
    check(&place);
}

#[test]
fn with_broken_settings_or_state_nothing_is_offered_or_printed() {
    let place = filled();
    let database = place.home().join("state/lukasa.db");
    fs::write(&database, "no database").unwrap();
    assert_eq!(completions(&place, &["undo", ""]), [""; 0]);
    assert_eq!(completions(&place, &["view", "global/p"]), ["global/prefs.md"]);
    assert!(fs::read(&database).unwrap() == b"no database", "it was left for a command to heal");
    fs::write(place.home().join("config.toml"), "nonsense = = 1").unwrap();
    assert_eq!(completions(&place, &["view", "global/p"]), [""; 0]);
    let ended = place.run_command(place.lukasa(&[]).env("COMPLETE", "tcsh"));
    assert_eq!((ended.status, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("unknown shell `tcsh`"), "{}", ended.stderr);
}

#[test]
fn bash_completes_by_the_script() {
    let place = filled();
    let script = place.path().join("completions.bash");
    fs::write(&script, place.run_ok(&["completions", "bash"])).unwrap();
    // The calls of bash when Tab is pressed after the last word.
    let press = r#"source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
        _clap_complete_lukasa lukasa "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let complete = |words: &[&str]| {
        let mut bash = place.program("bash");
        bash.args(["--norc", "-c", press]).arg(&script).args(words);
        let output = bash.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete(&["lukasa", "view", "global/p"]), "global/prefs.md\n");
    assert_eq!(complete(&["lukasa", "view", "global/"]), "global/notes/\nglobal/prefs.md\n");
    assert_eq!(complete(&["lukasa", "unp"]), "unpin\n");
}
