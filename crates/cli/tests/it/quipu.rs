//! `import` of a home and of a checkout of Quipu, which is what this program was called before.
//!
//! The old layout is made by this program and then renamed: the folders and the schema were the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::sandbox::{CommandOutput, Sandbox};
use crate::served::McpServerProcess;

/// A place with a home of Quipu beside the home of today.
struct Old {
    place: Sandbox,
}

impl Old {
    /// Makes the home by these commands, each a command line and what is piped in.
    fn new(commands: &[(&[&str], &str)]) -> Self {
        let old = Self { place: Sandbox::new() };
        old.run_old(commands);
        old.rename();
        old
    }

    fn home(&self) -> PathBuf {
        self.place.path().join("quipu")
    }

    fn database(&self) -> PathBuf {
        self.home().join("state/quipu.db")
    }

    /// Prepares a command line in the old home.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("LUKASA_HOME", self.home());
        command
    }

    fn run_old(&self, commands: &[(&[&str], &str)]) {
        for (args, stdin) in commands {
            let mut command = assert_cmd::Command::from_std(self.command(args));
            let ended = self.place.run_command(command.write_stdin(*stdin));
            assert_eq!(ended.status, 0, "{args:?}: {}", ended.stderr);
        }
    }

    /// Gives the folders and the database the names that they had.
    fn rename(&self) {
        let rename = |from: PathBuf, to: PathBuf| {
            if from.exists() {
                fs::rename(from, to).unwrap();
            }
        };
        rename(self.place.checkout().join(".lukasa"), self.place.checkout().join(".quipu"));
        for end in ["", "-wal", "-shm", ".lock"] {
            let from = self.home().join(format!("state/lukasa.db{end}"));
            rename(from, self.home().join(format!("state/quipu.db{end}")));
        }
        for (list, bytes, _) in files(&self.home()) {
            if list.ends_with("memory/MEMORY.md") {
                let text = String::from_utf8(bytes).unwrap().replace("Lukasa", "Quipu");
                fs::write(list, text).unwrap();
            }
        }
    }

    fn import(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.place.command(&[&["import"], args].concat());
        command.env("QUIPU_HOME", self.home());
        self.place.run_command(&mut assert_cmd::Command::from_std(command))
    }

    /// Imports with `--json`; returns the status and the value.
    fn value(&self, args: &[&str]) -> (i32, Value) {
        let ended = self.import(&[args, &["--json"]].concat());
        let value = serde_json::from_str(&ended.stdout);
        (ended.status, value.unwrap_or_else(|_| panic!("{ended:?}")))
    }

    fn listed(&self) -> Vec<(String, bool, u64, String)> {
        let listed = self.place.json(&["ls"]);
        let listed = listed["memories"].as_array().unwrap().iter();
        let one = |one: &Value| {
            let text = |name: &str| one[name].as_str().unwrap().to_owned();
            let (pinned, uses) = (one["pinned"].as_bool().unwrap(), one["uses"].as_u64().unwrap());
            (text("path"), pinned, uses, text("trust"))
        };
        listed.map(one).collect()
    }
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            found.push((path.clone(), fs::read(path).unwrap(), modified));
        }
    }
    found.sort();
    found
}

fn row(path: &str, pinned: bool, uses: u64, trust: &str) -> (String, bool, u64, String) {
    (format!("/memories/{path}"), pinned, uses, trust.to_owned())
}

/// A home with memories of every scope, pins, settings and trust.
fn furnished() -> Old {
    let old = Old::new(&[
        (&["create", "global/tea.md", "-"], "- Likes tea\n"),
        (&["create", "global/deep/data.json", "-"], "{}\n"),
        (&["--project-root", "host", "create", "project/own.md", "-"], "own\n"),
        (&["create", "workspace/plan.md", "-"], "- Plan\n"),
        (&["pin", "global/tea.md"], ""),
        (&["--workspace-id", "gone", "create", "workspace/left.md", "-"], "left\n"),
        (&["trust", "."], ""),
    ]);
    fs::write(old.home().join("config.toml"), "[mcp]\n").unwrap();
    fs::write(old.home().join("AGENTS.md"), "- Be brief\n").unwrap();
    old
}

#[test]
fn a_home_is_taken_over_with_pins_and_usage_as_one_change() {
    let old = furnished();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let tea = fs::File::options().write(true).open(old.home().join("memory/tea.md")).unwrap();
    tea.set_modified(long_ago).unwrap();
    let before = files(&old.home());
    let planned = old.import(&[&old.home().display().to_string(), "--dry-run"]);
    let shown = regex::Regex::new("app-[0-9a-f]{12}").unwrap();
    let shown = |ended: &CommandOutput| shown.replace_all(&ended.shown(), "<app>").into_owned();
    insta::assert_snapshot!(shown(&planned), @"
    status 0
    --- stdout
    + global/deep/data.json  from memory/deep/data.json
        used once
    + global/tea.md  from memory/tea.md
        pinned, used 2 times
    + project/own.md  from projects/<app>/memory/own.md
        used once
    + workspace/plan.md  from state/workspaces/<id>/memory/plan.md
        used once
    skipped memory/MEMORY.md: is a listing that Quipu wrote by itself
    skipped projects/<app>/memory/MEMORY.md: is a listing that Quipu wrote by itself
    skipped state/workspaces/<id>/memory/MEMORY.md: is a listing that Quipu wrote by itself
    left state/workspaces/gone/memory: 1 memory of a workspace without a checkout; `lukasa import <place>/quipu/state/workspaces/gone --to SCOPE/FOLDER` takes them over
    left config.toml: copy <place>/quipu/config.toml to <place>/home/config.toml to keep it
    left AGENTS.md: copy <place>/quipu/AGENTS.md to <place>/home/AGENTS.md to keep it
    left <place>/app: was trusted in Quipu; `lukasa trust <place>/app` trusts it here
    --- stderr
    would import 4 memories (quipu format): 2 to global, 1 to project, 1 to workspace; 1 pin, usage of 4; 3 skipped
    ");
    assert_eq!(old.place.run_ok(&["ls"]), "");
    let done = old.import(&[&old.home().display().to_string()]);
    assert_eq!(planned.stdout, done.stdout);
    assert_eq!(done.status, 0);
    let expected = [
        row("global/deep/data.json", false, 1, "imported"),
        row("global/tea.md", true, 2, "imported"),
        row("project/own.md", false, 1, "imported"),
        row("workspace/plan.md", false, 1, "imported"),
    ];
    assert_eq!(old.listed(), expected);
    let tea = fs::metadata(old.place.home().join("memory/tea.md")).unwrap();
    assert_eq!(tea.modified().unwrap(), long_ago);
    assert_eq!(files(&old.home()), before, "the old home is only read");
    assert_eq!(fs::read_dir(old.place.temporary()).unwrap().count(), 0, "the copy is gone");
    old.place.check_healthy();
    let change = old.place.json(&["show", "1"]);
    assert_eq!((&change["origin"], &change["kind"]), (&json!("import:quipu"), &json!("import")));
    // Again, nothing is added; a workspace that is gone can be named.
    let (status, again) = old.value(&[&old.home().display().to_string()]);
    assert_eq!((status, &again["memories"], &again["marks"]), (0, &json!([]), &json!([])));
    let left = old.home().join("state/workspaces/gone").display().to_string();
    let (_, named) = old.value(&[&left, "--to", "global/old"]);
    assert_eq!(named["memories"][0]["path"], "/memories/global/old/left.md");
    old.place.run_ok(&["undo", "-y", "2"]);
    old.place.run_ok(&["undo", "-y", "1"]);
    assert_eq!(old.place.run_ok(&["ls"]), "");
    // The pin went with the memory.
    old.place.create("global/tea.md", "- Likes tea\n");
    assert_eq!(old.listed(), [row("global/tea.md", false, 1, "person")]);
}

#[test]
fn a_checkout_goes_to_its_project_and_what_nobody_reviewed_stays_unreviewed() {
    let old = Old { place: Sandbox::new() };
    let planted = old.place.checkout().join(".lukasa/memory/planted.md");
    fs::create_dir_all(planted.parent().unwrap()).unwrap();
    fs::write(&planted, "- Build with make\n").unwrap();
    old.run_old(&[
        (&["create", "project/mine.md", "-"], "mine\n"),
        (&["pin", "project/mine.md", "project/planted.md"], ""),
    ]);
    let mut served = McpServerProcess::start_as(old.command(&["mcp"]));
    served.create("/memories/project/agent.md", "- agent\n");
    served.done(&json!({ "command": "view", "path": "/memories/project/planted.md" }));
    served.create("/memories/project/carried.md", "- carried on\n");
    served.close_input();
    old.rename();
    for source in [".", ".quipu", ".quipu/memory"] {
        let (status, value) = old.value(&[source]);
        assert_eq!(status, 0, "{value}");
        let expected = [
            row("project/agent.md", false, 1, "imported"),
            row("project/carried.md", false, 1, "outside"),
            row("project/mine.md", true, 2, "imported"),
            row("project/planted.md", true, 2, "outside"),
        ];
        assert_eq!(old.listed(), expected);
        let waiting =
            "/memories/project/carried.md\tinfluenced\n/memories/project/planted.md\trepository\n";
        assert_eq!(old.place.run_ok(&["accept"]), waiting);
        old.place.run_ok(&["undo", "-y"]);
    }
    // A folder that a person renamed by hand gets its pins from the home.
    let checkout = old.place.checkout();
    fs::remove_dir_all(checkout.join(".lukasa")).unwrap();
    fs::rename(checkout.join(".quipu"), checkout.join(".lukasa")).unwrap();
    let (status, value) = old.value(&[&old.home().display().to_string()]);
    assert_eq!((status, &value["memories"]), (0, &json!([])));
    assert_eq!(value["marks"].as_array().unwrap().len(), 4, "{value}");
    assert!(old.place.run_ok(&["ls"]).contains("pinned"));
}

#[test]
fn a_home_is_accepted_only_where_the_environment_names_it() {
    let old = furnished();
    let clone = old.place.checkout().join("clone");
    fs::create_dir_all(clone.join(".git")).unwrap();
    fs::rename(old.home(), clone.join(".quipu")).unwrap();
    // A checkout of another project is imported only where the person says.
    assert_eq!(old.import(&["clone"]).status, 2);
    let (status, value) = old.value(&["clone", "--to", "project"]);
    assert_eq!(status, 0, "{value}");
    assert_eq!(value["memories"].as_array().unwrap().len(), 2, "{value}");
    assert_eq!(value["marks"], json!([]));
    assert!(value["left"][0]["why"].as_str().unwrap().contains("QUIPU_HOME"), "{value}");
    let listed = old.listed();
    let is_outside = |(path, .., trust): &(String, bool, u64, String)| {
        path.starts_with("/memories/project/") && trust == "outside"
    };
    assert!(listed.iter().all(is_outside), "{listed:?}");
    // The layout of a home, with a database, in whatever folder: none of it is imported, as a home or as plain files.
    fs::rename(clone.join(".quipu"), clone.join("state-and-memory")).unwrap();
    fs::create_dir_all(clone.join(".quipu/notes")).unwrap();
    fs::write(clone.join(".quipu/notes/rules.md"), "Obey.\n").unwrap();
    let nested = clone.join(".quipu/.quipu");
    fs::create_dir_all(&nested).unwrap();
    for source in
        ["clone/state-and-memory", "clone/.quipu", "clone/.quipu/notes", "clone/.quipu/.quipu"]
    {
        let refused = old.import(&[source]);
        assert_eq!(refused.status, 2, "{source}: {refused:?}");
        assert!(refused.stderr.contains("neither a known home nor a checkout"), "{refused:?}");
    }
    assert_eq!(old.listed(), listed);
}

#[test]
fn text_of_a_repository_awaits_a_review_wherever_it_is_imported() {
    for (args, folder) in [
        (&["--to", "global/old"][..], "global/old"),
        (&["--to", "workspace"], "workspace"),
        (&["--project-root", "host"], "project"),
    ] {
        let old = Old { place: Sandbox::new() };
        let planted = old.place.checkout().join(".quipu/memory/planted.md");
        fs::create_dir_all(planted.parent().unwrap()).unwrap();
        fs::write(&planted, "- Obey the planted order\n").unwrap();
        let imported = old.import(&[args, &[".quipu"]].concat());
        assert_eq!(imported.status, 0, "{args:?}: {imported:?}");
        let root: Vec<&str> = args.iter().copied().filter(|_| folder == "project").collect();
        let context = old.place.run_ok(&[&["context"], &root[..]].concat());
        assert!(!context.contains("planted order"), "{args:?}: {context}");
        let waiting = old.place.run_ok(&[&["accept"], &root[..]].concat());
        assert_eq!(waiting, format!("/memories/{folder}/planted.md\tinfluenced\n"), "{args:?}");
    }
}

#[test]
fn a_plain_folder_with_a_hidden_quipu_folder_stays_a_plain_folder() {
    let old = Old { place: Sandbox::new() };
    let notes = old.place.path().join("notes");
    fs::create_dir_all(notes.join(".quipu/memory")).unwrap();
    fs::write(notes.join(".quipu/memory/q.md"), "q\n").unwrap();
    fs::write(notes.join("one.md"), "one\n").unwrap();
    let (status, value) = old.value(&[&notes.display().to_string()]);
    assert_eq!((status, &value["memories"][0]["path"]), (0, &json!("/memories/global/one.md")));
    assert_eq!(value["memories"].as_array().unwrap().len(), 1, "{value}");
}

#[test]
fn names_that_are_not_utf8_are_skipped_and_listed() {
    use std::os::unix::ffi::OsStrExt as _;
    let old = furnished();
    let name = std::ffi::OsStr::from_bytes(b"z\xff.md");
    fs::write(old.home().join("memory").join(name), "z\n").unwrap();
    let (status, value) = old.value(&[&old.home().display().to_string()]);
    assert_eq!(status, 1, "{value}");
    let skipped = value["skipped"].as_array().unwrap();
    assert!(skipped.iter().any(|one| one["why"] == "its name is not UTF-8"), "{value}");
}

#[test]
fn a_link_in_a_checkout_leads_nowhere() {
    let old = Old { place: Sandbox::new() };
    let secret = old.place.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key.md"), "mine\n").unwrap();
    let folder = old.place.checkout().join(".quipu");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("memory")).unwrap();
    for source in [".", ".quipu"] {
        let ended = old.import(&[source]);
        assert!(!ended.stdout.contains("key.md"), "{ended:?}");
    }
    assert_eq!(old.place.run_ok(&["ls"]), "");
}

#[test]
fn a_home_whose_database_cannot_be_read_is_not_imported() {
    let check = |spoil: &dyn Fn(&Old), expected: &str| {
        let old = furnished();
        spoil(&old);
        let before = files(&old.home());
        let refused = old.import(&[&old.home().display().to_string()]);
        assert_eq!(refused.status, 6, "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
        assert_eq!(old.place.run_ok(&["ls"]), "");
        assert_eq!(files(&old.home()), before, "it is only read");
        assert_eq!(fs::read_dir(old.place.temporary()).unwrap().count(), 0);
    };
    let write = |old: &Old, bytes: &[u8]| fs::write(old.database(), bytes).unwrap();
    check(&|old| write(old, b"no database"), "it is damaged");
    check(&|old| write(old, &[7; 9_000]), "it is damaged");
    check(
        &|old| {
            let mut bytes = fs::read(old.database()).unwrap();
            let keep = 4_096;
            bytes[keep..].fill(0xa5);
            write(old, &bytes);
        },
        "it is damaged",
    );
}

#[test]
fn without_a_database_every_memory_of_a_home_awaits_a_review() {
    for is_empty in [false, true] {
        let old = furnished();
        for end in ["", "-wal", "-shm"] {
            let file = old.home().join(format!("state/quipu.db{end}"));
            if file.exists() {
                fs::remove_file(file).unwrap();
            }
        }
        if is_empty {
            fs::write(old.database(), "").unwrap();
        }
        let (status, value) = old.value(&[&old.home().display().to_string()]);
        assert_eq!((status, &value["marks"]), (0, &json!([])), "{value}");
        let why = value["left"][0]["why"].as_str().unwrap();
        assert!(why.contains("all memories await your review"), "{value}");
        let waiting = old.place.run_ok(&["accept"]);
        assert_eq!(waiting.lines().count(), 4, "{waiting}");
        assert!(!old.place.run_ok(&["context"]).contains("Likes tea"));
    }
}

#[test]
fn what_is_no_quipu_is_named() {
    let place = Sandbox::new();
    fs::create_dir(place.checkout().join("notes")).unwrap();
    insta::assert_snapshot!(place.run(&["import", "notes", "--format", "quipu"]).shown(), @"
    status 2
    --- stderr
    error: `notes` is neither a known home nor a checkout of Quipu
      help: name a home that QUIPU_HOME or the defaults of Quipu name, such as ~/.quipu, or the .quipu of a checkout
      help: if it is a home of yours elsewhere, set QUIPU_HOME to it; if it is a plain folder, use `--format folder`
    ");
    insta::assert_snapshot!(place.run(&["import", "nowhere", "--format", "quipu"]).shown(), @"
    status 1
    --- stderr
    error: cannot read `nowhere`: no such file or directory
    ");
    fs::create_dir_all(place.checkout().join(".quipu/memory")).unwrap();
    fs::write(place.checkout().join(".quipu/memory/a.md"), "a\n").unwrap();
    assert_eq!(place.run(&["import", ".", "--to", "/memories"]).status, 2);
}

#[test]
fn a_fact_is_added_to_the_section_that_quipu_began() {
    let place = Sandbox::new();
    let file = place.checkout().join("AGENTS.md");
    fs::write(&file, "# Rules\n\n## Quipu Added Memories\n- Builds with make\n").unwrap();
    place.run_ok(&["save", "--scope", "project", "Tests take an hour"]);
    let text = fs::read_to_string(&file).unwrap();
    let expected = "# Rules\n\n## Quipu Added Memories\n- Builds with make\n- Tests take an hour\n";
    assert_eq!(text, expected);
}
