//! `import` and `export`.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sandbox::{Sandbox, pretty};

fn source(place: &Sandbox, files: &[(&str, &str)]) -> String {
    let folder = place.path().join("source");
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn a_folder_of_markdown_is_taken_over_as_one_change() {
    let place = Sandbox::new();
    let from = source(&place, &[("a.md", "a\n"), ("deep/b.md", "b\n"), ("image.png", "\u{0}")]);
    let plan = place.run(&["import", &from, "--to", "global/notes", "--dry-run"]);
    insta::assert_snapshot!(plan.shown(), @r"
    status 0
    --- stdout
    + global/notes/a.md  from a.md
    + global/notes/deep/b.md  from deep/b.md
    skipped image.png: is not Markdown
    --- stderr
    would import 2 memories (folder format), 1 skipped
    ");
    assert_eq!(place.run_ok(&["ls"]), "");
    let done = place.json(&["import", &from, "--to", "global/notes"]);
    insta::assert_snapshot!(pretty(&done), @r#"
    {
      "format": "folder",
      "dry_run": false,
      "memories": [
        {
          "path": "/memories/global/notes/a.md",
          "source": "a.md",
          "notes": []
        },
        {
          "path": "/memories/global/notes/deep/b.md",
          "source": "deep/b.md",
          "notes": []
        }
      ],
      "skipped": [
        {
          "source": "image.png",
          "why": "is not Markdown",
          "is_loss": false
        }
      ],
      "change": 1
    }
    "#);
    assert_eq!(place.view("global/notes/deep/b.md"), "b\n");
    let change = &place.json(&["show", "1"]);
    assert_eq!(change["kind"], "import");
    assert_eq!(change["trust"], "imported");
    assert_eq!(change["origin"], "import:folder");
    place.run_ok(&["undo", "-y", "1"]);
    assert_eq!(place.run_ok(&["ls"]), "");
}

#[test]
fn what_is_there_is_not_overwritten() {
    let place = Sandbox::with(&[("global/a.md", "mine\n"), ("global/b.md", "b\n")]);
    let from = source(&place, &[("a.md", "theirs\n"), ("b.md", "b\n"), ("c.md", "c\n")]);
    insta::assert_snapshot!(place.run(&["import", &from]).shown(), @r"
    status 1
    --- stdout
    + global/c.md  from c.md
    skipped a.md: global/a.md is there with another text
    skipped b.md: it exists already
    --- stderr
    imported 1 memory (folder format), 2 skipped (change 3)
    warning: 1 piece of the source that may hold memories could not be taken over; see `skipped` above
    ");
    assert_eq!(place.view("global/a.md"), "mine\n");
}

#[test]
fn a_secret_in_a_source_is_left_out_and_named_by_rule() {
    let place = Sandbox::new();
    let key = ["AK", "IA", "QYLPMN5HHHFPZAM2\n"].concat();
    let from = source(&place, &[("a.md", "a\n"), ("key.md", &key)]);
    let ended = place.run(&["import", &from]);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    assert!(ended.stdout.contains("key.md: "), "{}", ended.stdout);
    assert!(!ended.stdout.contains("QYLPMN5HHHFPZAM2"), "{}", ended.stdout);
    assert_eq!(place.run_ok(&["ls"]).lines().count(), 1);
}

#[test]
fn a_source_with_more_than_a_scope_holds_is_refused_before_it_is_worked_on() {
    let place = Sandbox::new();
    let entity = |n: usize| json!({ "type": "entity", "name": format!("thing {n}"), "entityType": "x", "observations": ["a fact"] });
    let lines = (0..20_000).map(|n| entity(n).to_string()).collect::<Vec<_>>().join("\n");
    let file = place.temporary().join("memory.jsonl");
    fs::write(&file, lines).unwrap();
    let begun = Instant::now();
    let ended = place.run(&["import", file.to_str().unwrap()]);
    assert!(ended.stderr.contains("is limited to 1000 files"), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(place.run_ok(&["ls"]), "");
}

#[test]
fn a_server_memory_file_is_recognized() {
    let place = Sandbox::new();
    let line = r#"{"type":"entity","name":"Ada","entityType":"person","observations":["codes"]}"#;
    let folder = source(&place, &[("memory.jsonl", &format!("{line}\n"))]);
    let done = place.json(&["import", &format!("{folder}/memory.jsonl")]);
    assert_eq!(done["format"], "server-memory");
    assert_eq!(done["memories"].as_array().unwrap().len(), 1, "{done}");
}

#[test]
fn an_import_of_a_damaged_file_says_so_with_its_status() {
    let place = Sandbox::new();
    let line = r#"{"type":"entity","name":"Ada","entityType":"person","observations":["codes"]}"#;
    let cut: String = line.chars().take(40).collect();
    let folder = source(&place, &[("memory.jsonl", &format!("{line}\n{cut}\n"))]);
    insta::assert_snapshot!(place.run(&["import", &format!("{folder}/memory.jsonl")]).shown(), @r"
    status 1
    --- stdout
    + global/person/ada.md  from memory.jsonl:1
    skipped memory.jsonl:2: is damaged: it is not JSON
    --- stderr
    imported 1 memory (server-memory format), 1 skipped (change 1)
    warning: 1 piece of the source that may hold memories could not be taken over; see `skipped` above
    ");
    assert!(place.view("global/person/ada.md").contains("- codes"));
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let place = Sandbox::new();
    insta::assert_snapshot!(place.run(&["import", "nowhere"]).shown(), @r"
    status 1
    --- stderr
    error: cannot read `nowhere`: no such file or directory
    ");
    assert_eq!(place.run(&["import", "nowhere", "--to", "/memories"]).status, 2);
    assert_eq!(place.run(&["import", "nowhere", "--to", "elsewhere"]).status, 2);
}

#[test]
fn an_export_is_an_archive_of_the_files_and_what_is_known() {
    let place = Sandbox::with(&[("global/a.md", "a\n"), ("project/deep/b.md", "b\n")]);
    place.run_ok(&["pin", "global/a.md"]);
    let archive = place.path().join("out.tar");
    let output = place.lukasa(&["export"]).output().unwrap();
    assert!(output.status.success());
    fs::write(&archive, output.stdout).unwrap();
    let listed = place.program("tar").arg("-tf").arg(&archive).output().unwrap();
    assert_eq!(
        String::from_utf8(listed.stdout).unwrap(),
        "global/a.md\nproject/deep/b.md\nlukasa.json\n"
    );
    let unpacked = place.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let mut tar = place.program("tar");
    assert!(tar.arg("-xf").arg(&archive).arg("-C").arg(&unpacked).status().unwrap().success());
    assert_eq!(fs::read_to_string(unpacked.join("project/deep/b.md")).unwrap(), "b\n");
    let manifest = fs::read_to_string(unpacked.join("lukasa.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["memories"][0]["path"], "/memories/global/a.md");
    assert_eq!(manifest["memories"][0]["pinned"], true);
}

#[test]
fn an_export_to_a_folder_overwrites_nothing_unless_it_must() {
    let place = Sandbox::with(&[("global/a.md", "a\n")]);
    let to = place.path().join("out");
    let to_text = to.display().to_string();
    place.run_ok(&["export", "global", "--to", &to_text]);
    assert_eq!(fs::read_to_string(to.join("global/a.md")).unwrap(), "a\n");
    fs::write(to.join("global/a.md"), "mine\n").unwrap();
    insta::assert_snapshot!(place.run(&["export", "--to", &to_text]).shown(), @"
    status 3
    --- stderr
    error: <place>/out already has global/a.md, lukasa.json
      help: nothing was written; `--force` overwrites
    ");
    assert_eq!(fs::read_to_string(to.join("global/a.md")).unwrap(), "mine\n");
    place.run_ok(&["export", "--to", &to_text, "--force"]);
    assert_eq!(fs::read_to_string(to.join("global/a.md")).unwrap(), "a\n");
}

#[test]
fn an_export_is_taken_over_again() {
    let place = Sandbox::with(&[("global/deep/a.md", "a\n")]);
    let out = place.path().join("out").display().to_string();
    place.run_ok(&["export", "--to", &out]);
    place.run_ok(&["rm", "-y", "global/deep/a.md"]);
    place.run_ok(&["import", &format!("{out}/global")]);
    assert_eq!(place.view("global/deep/a.md"), "a\n");
}
