//! Tests of the API for the page: settings, trust, health, runs, and undo of several changes.

use std::fs;

use serde_json::{Value, json};

use super::Daemon;
use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

fn setting<'v>(shown: &'v Value, key: &str) -> &'v Value {
    let all = shown["settings"].as_array().unwrap();
    all.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("no {key}: {shown}"))
}

fn put(daemon: &Daemon, key: &str, value: &Value) -> super::HttpResponse {
    daemon.ask("PUT", &format!("/v1/settings/{key}")).json(&json!({ "value": value })).send()
}

#[test]
fn settings_are_shown_with_their_source_and_writes_keep_comments() {
    let place = Sandbox::new();
    let file = place.home().join("config.toml");
    fs::write(&file, "# mine\nfiles_max = 2000 # many\n\n[features]\nrecall = false\n").unwrap();
    let mut command = Daemon::command(&place, &[]);
    command.env("LUKASA_TOKEN", super::TOKEN).env("LUKASA_FEATURES", "-hot_set");
    let daemon = Daemon::start_by(command);
    let shown = daemon.get("/v1/settings").json();
    assert_eq!(shown["file"], json!(file.canonicalize().unwrap().display().to_string()));
    assert_eq!(shown["restartNeeded"], false);
    let said = |key: &str| {
        let one = setting(&shown, key);
        (one["value"].clone(), one["from"].clone(), one["line"].clone())
    };
    assert_eq!(said("files_max"), (json!(2000), json!("file"), json!(2)));
    assert_eq!(said("retention.days"), (json!(90), json!("default"), Value::Null));
    assert_eq!(said("features.recall"), (json!(false), json!("file"), json!(5)));
    assert_eq!(said("features.hot_set"), (json!(false), json!("environment"), Value::Null));
    assert_eq!(setting(&shown, "features.ssh")["built"], false);
    let after = put(&daemon, "retention.days", &json!(30)).json();
    assert_eq!(setting(&after, "retention.days")["value"], 30);
    assert_eq!(after["restartNeeded"], true);
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(
        written,
        "# mine\nfiles_max = 2000 # many\n\n[features]\nrecall = false\n\n[retention]\ndays = 30\n"
    );
    for (key, value) in [
        ("retention.days", json!(-1)),
        ("retention.days", json!("thirty")),
        ("features.hot_set", json!(true)),
        ("embeddings.url", json!("http://127.0.0.1/v1")),
        ("no.such", json!(1)),
        ("context.include", json!(["relative"])),
    ] {
        let refused = put(&daemon, key, &value);
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("invalid_arguments")));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
    // After a reset, the answer shows the value that the daemon runs with.
    assert_eq!(put(&daemon, "retention.days", &Value::Null).json()["restartNeeded"], false);
    // An invalid setting that a person wrote meanwhile is reported, and stays in the file.
    fs::write(&file, "files_max = = 3\n").unwrap();
    assert_eq!(put(&daemon, "files_max", &json!(3)).status, 400);
    assert_eq!(daemon.get("/v1/settings").status, 400);
    assert_eq!(fs::read_to_string(&file).unwrap(), "files_max = = 3\n");
}

#[test]
fn settings_that_are_a_link_stay_one() {
    let place = Sandbox::new();
    let real = place.path().join("dotfiles.toml");
    fs::write(&real, "files_max = 5\n").unwrap();
    let file = place.home().join("config.toml");
    std::os::unix::fs::symlink(&real, &file).unwrap();
    let daemon = Daemon::start(&place);
    assert_eq!(put(&daemon, "files_max", &json!(6)).status, 200);
    assert_eq!(fs::read_to_string(&real).unwrap(), "files_max = 6\n");
    assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
}

#[test]
fn a_trust_preview_lists_the_files_that_would_be_loaded() {
    let place = Sandbox::new();
    fs::write(place.checkout().join("AGENTS.md"), "Use tabs.\n").unwrap();
    let root = place.checkout().join(".lukasa/memory");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("build.md"), "---\ndescription: how to build\n---\n\n- make\n").unwrap();
    let daemon = Daemon::start(&place);
    let shown = daemon.get("/v1/trust").json();
    let checkout = place.checkout().canonicalize().unwrap().display().to_string();
    assert_eq!(shown["folders"], json!([]));
    assert_eq!(
        (&shown["here"]["path"], &shown["here"]["trusted"]),
        (&json!(checkout), &json!(false))
    );
    let speaks = json!([
        { "kind": "contextFile", "path": "AGENTS.md", "description": "" },
        { "kind": "memory", "path": "/memories/project/build.md", "description": "how to build" },
    ]);
    assert_eq!(shown["here"]["speaks"], speaks);
    let put = |path: &str, trusted: bool| {
        let body = json!({ "path": path, "trusted": trusted });
        daemon.ask("PUT", "/v1/trust").json(&body).send()
    };
    let trusted = put(&checkout, true).json();
    assert_eq!(trusted["folders"], json!([checkout]));
    assert_eq!(
        (&trusted["here"]["trusted"], &trusted["here"]["speaks"]),
        (&json!(true), &json!([]))
    );
    assert!(daemon.get("/v1/context").json()["text"].as_str().unwrap().contains("Use tabs."));
    for wrong in ["app", "/", "/no/such/folder"] {
        assert_eq!(put(wrong, true).status, 400, "{wrong}");
    }
    assert_eq!(put(&checkout, false).json()["here"]["trusted"], false);
}

#[test]
fn health_reports_findings_and_fixes_some() {
    let place = Sandbox::new();
    place.create("global/a.md", "- I drink tea\n- I drink tea\n- and water\n");
    place.create("global/told.md", "---\ndescription: told\n---\n\n- one\n- two\n");
    place.run_ok(&["pin", "global/told.md"]);
    let root = place.home().join("memory");
    fs::write(root.join("broken.md"), [0xff, 0xfe]).unwrap();
    fs::write(root.join("old.md"), "- an old thing\n").unwrap();
    let year = std::time::Duration::from_hours(365 * 24);
    let old = fs::File::options().write(true).open(root.join("old.md")).unwrap();
    old.set_modified(std::time::SystemTime::now() - year).unwrap();
    fs::write(place.home().join("config.toml"), "files_max = 4\n").unwrap();
    let daemon = Daemon::start(&place);
    let health = daemon.get("/v1/health/memories").json();
    let kinds = |list: &Value| {
        let all = list.as_array().unwrap().iter();
        all.map(|one| {
            format!("{} {}", one["kind"].as_str().unwrap(), one["subject"].as_str().unwrap())
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&health["findings"]),
        ["not-text /memories/global/broken.md", "nearly-full global"],
        "{health}"
    );
    assert_eq!(
        kinds(&health["advice"]),
        [
            "missing-description /memories/global/a.md",
            "repeated-entry /memories/global/a.md",
            "stale /memories/global/old.md",
        ],
        "{health}"
    );
    assert_eq!(health["advice"][0]["path"], "/memories/global/a.md");
    // A pin of a deleted memory is removed.
    fs::remove_file(root.join("told.md")).unwrap();
    let health = daemon.get("/v1/health/memories").json();
    let orphan = health["findings"].as_array().unwrap().iter().find(|one| one["fixable"] == true);
    assert!(orphan.is_some(), "{health}");
    let repaired = daemon.post("/v1/health/memories/repair", &json!({})).json();
    assert_eq!(repaired["done"].as_array().unwrap().len(), 1, "{repaired}");
    assert!(repaired["left"].as_array().unwrap().iter().all(|one| one["fixable"] == false));
}

#[test]
fn the_changes_of_a_session_or_task_are_one_run_and_undone_together() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let agent = |args: &[&str]| {
        let mut command = place.command(&["mcp"]);
        command.args(args);
        McpServerProcess::start_as(command)
    };
    let mut first = agent(&["--session", "s-1"]);
    for name in ["a", "b"] {
        first.create(&format!("/memories/global/{name}.md"), &format!("- {name}\n"));
    }
    agent(&[]).create("/memories/global/c.md", "- c\n");
    let task = daemon.task("remember", &json!({ "content": "I like figs." }));
    let task = task["taskId"].clone();
    let runs = || daemon.get("/v1/runs").json()["runs"].clone();
    let shown = runs();
    let shown: Vec<_> = shown.as_array().unwrap().iter().collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert_eq!((&shown[0]["kind"], &shown[0]["id"]), (&json!("task"), &task));
    assert_eq!(shown[0]["status"], "completed");
    assert_eq!((&shown[1]["kind"], &shown[1]["memories"]), (&json!("session"), &json!(1)));
    assert!(shown[1]["id"].as_str().unwrap().len() == 12, "a session without a name gets one");
    assert_eq!((&shown[2]["id"], &shown[2]["memories"]), (&json!("s-1"), &json!(2)));
    let of = |query: &str| {
        let page = daemon.get(&format!("/v1/changes?{query}")).json();
        page["changes"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(json!(of("session=s-1")), shown[2]["changes"]);
    assert_eq!(of("actor=task").len(), 1);
    assert_eq!(of("actor=agent&since=2999-01-01T00:00:00Z").len(), 0);
    for wrong in ["actor=me", "since=yesterday"] {
        assert_eq!(daemon.get(&format!("/v1/changes?{wrong}")).status, 400, "{wrong}");
    }
    // First a dry run, then the undo, which is atomic.
    let dry = daemon.post("/v1/undo?dryRun=true", &json!({ "session": "s-1" })).json();
    assert_eq!((&dry["undone"], dry.get("change")), (&shown[2]["changes"], None));
    place.run_ok(&["replace", "global/a.md", "- a", "- a of a person"]);
    assert_eq!(daemon.post("/v1/undo", &json!({ "session": "s-1" })).status, 409);
    assert!(place.run_ok(&["view", "global/b.md"]).contains("- b"));
    place.run_ok(&["undo", "-y"]);
    let undone = daemon.post("/v1/undo", &json!({ "session": "s-1" })).json();
    assert_eq!(undone["paths"].as_array().unwrap().len(), 2, "{undone}");
    // The undo is a change too; several changes are named in any order.
    let back = daemon.post("/v1/undo", &json!({ "changes": [undone["change"]] })).json();
    assert_eq!(back["paths"].as_array().unwrap().len(), 2);
    let mut ids = shown[2]["changes"].as_array().unwrap().clone();
    ids.extend(shown[1]["changes"].as_array().unwrap().clone());
    ids.reverse();
    let undone = daemon.post("/v1/undo", &json!({ "changes": ids })).json();
    assert_eq!(undone["paths"].as_array().unwrap().len(), 3, "{undone}");
    let since = daemon.post("/v1/undo", &json!({ "since": "2020-01-01T00:00:00Z" }));
    assert_eq!(since.status, 200, "{}", since.text());
    assert_eq!(daemon.get("/v1/memories").json()["total"], 0);
    for wrong in [
        json!({}),
        json!({ "changes": [] }),
        json!({ "changes": [1], "task": "t" }),
        json!({ "until": "2020-01-01T00:00:00Z" }),
        json!({ "session": "none" }),
        json!({ "chnages": [1] }),
    ] {
        let refused = daemon.post("/v1/undo", &wrong);
        assert!([400, 404].contains(&refused.status), "{wrong}: {}", refused.text());
    }
}

#[test]
fn the_context_of_an_agent_equals_its_hook_and_has_reasons() {
    let place = Sandbox::new();
    place.create("global/tea.md", "---\ndescription: tea\n---\n\n- green\n");
    place.create("global/water.md", "---\ndescription: water\n---\n\n- still\n");
    place.run_ok(&["pin", "global/tea.md"]);
    let daemon = Daemon::start(&place);
    let hosts = daemon.get("/v1/hosts").json()["hosts"].clone();
    let claude = hosts.as_array().unwrap().iter().find(|one| one["name"] == "claude-code").unwrap();
    assert_eq!(
        (&claude["title"], &claude["contextBytesMax"]),
        (&json!("Claude Code"), &json!(10_000))
    );
    let context = daemon.get("/v1/context?bytesMax=10000&contextFilesLoaded=CLAUDE.md").json();
    let printed = place.run_ok(&["context", "--agent", "claude-code"]);
    assert_eq!(context["text"].as_str().unwrap().trim_end(), printed.trim_end());
    assert_eq!(context["memories"], 2);
    assert_eq!(context["hot"][0]["path"], "/memories/global/tea.md");
    assert!(context["hot"][0]["why"].as_str().unwrap().starts_with("Pinned, used"));
    assert_eq!((&context["facts"], &context["factsShown"]), (&json!(2), &json!(2)));
    assert_eq!(
        (&context["hot"][1]["facts"], &context["hot"][1]["whole"]),
        (&json!(1), &json!(true))
    );
}
