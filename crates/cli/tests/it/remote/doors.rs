//! Tests of the other ways to a remote project: the daemon and its page, the roots of MCP clients, names of the settings.

use std::fs;

use serde_json::{Value, json};
use testkit::eventually;

use super::setup::{ADDRESS, RemoteSetup, write_settings};
use crate::daemon::{Daemon, HttpResponse};
use crate::page::play_in;
use crate::served::{McpServerProcess, ToolAnswer};

pub(super) fn start_daemon(setup: &RemoteSetup) -> Daemon {
    Daemon::start_with(&setup.place, &["--workspace", ADDRESS])
}

/// Returns the value of an answer that succeeded.
pub(super) fn done(answer: &HttpResponse) -> Value {
    assert!((200..300).contains(&answer.status), "{} {}", answer.status, answer.text());
    answer.json()
}

/// Writes a memory that may not exist yet, or must have this revision.
fn put(daemon: &Daemon, path: &str, text: &str, revision: Option<&str>) -> HttpResponse {
    let ask = daemon.ask("PUT", &format!("/v1/memories/{path}")).json(&json!({ "text": text }));
    match revision {
        Some(tag) => ask.header("If-Match", tag).send(),
        None => ask.header("If-None-Match", "*").send(),
    }
}

#[test]
fn a_daemon_serves_a_remote_project_by_http() {
    let setup = RemoteSetup::installed();
    let daemon = start_daemon(&setup);
    assert_eq!(daemon.log_lines["workspaces"][0]["cwd"], ADDRESS);
    let listed = done(&daemon.get("/v1/memories")).to_string();
    assert!(listed.contains("/memories/project/deploy.md"), "{listed}");
    assert!(listed.contains("/memories/global/tea.md"), "{listed}");
    let made = put(&daemon, "project/new.md", "- The pier gate opens at six.\n", None);
    assert_eq!(made.status, 201, "{}", made.text());
    let tag = made.header("ETag").unwrap().to_owned();
    let text = || fs::read_to_string(setup.memory("new.md")).unwrap();
    assert_eq!(text(), "- The pier gate opens at six.\n");
    // A person there was faster.
    fs::write(setup.memory("new.md"), "- The pier gate opens at seven.\n").unwrap();
    assert_eq!(put(&daemon, "project/new.md", "x\n", Some(&tag)).status, 412);
    let read = daemon.get("/v1/memories/project/new.md");
    assert_eq!(done(&read)["text"], text());
    let tag = read.header("ETag").unwrap();
    let saved = done(&put(&daemon, "project/new.md", "- It opens at eight.\n", Some(tag)));
    assert_eq!(text(), "- It opens at eight.\n");
    let undo = format!("/v1/changes/{}/undo", saved["change"]);
    done(&daemon.post(&undo, &json!({})));
    assert_eq!(text(), "- The pier gate opens at seven.\n");
    let found = done(&daemon.get("/v1/search?q=PIER%20gate"));
    assert_eq!(found["matches"][0]["path"], "/memories/project/new.md", "{found}");
    // Text of a clone is recalled once the person trusts it.
    done(&daemon.ask("PUT", "/v1/trust").json(&json!({ "path": ADDRESS, "trusted": true })).send());
    let recalled = done(&daemon.get("/v1/recall?q=when%20does%20the%20pier%20gate%20open%3F"));
    assert_eq!(recalled["memories"][0]["path"], "/memories/project/new.md", "{recalled}");
    let context = done(&daemon.get("/v1/context"));
    assert!(context["text"].as_str().unwrap().contains("/memories/project/new.md"), "{context}");
    let renaming = json!({ "from": "/memories/project/new.md", "to": "/memories/project/a/b.md" });
    done(&daemon.post("/v1/memories/move", &renaming));
    assert!(setup.memory("a/b.md").exists() && !setup.memory("new.md").exists());
    done(&daemon.ask("PUT", "/v1/pins/project/a/b.md").send());
    let tool = json!({ "command": "view", "path": "/memories/project/a/b.md" });
    let viewed = done(&daemon.post("/v1/tool", &tool));
    assert!(viewed["text"].as_str().unwrap().contains("opens at seven"), "{viewed}");
    let task = json!({ "content": "This shop deploys at noon on Mondays.", "scope": "project" });
    let task = daemon.task("remember", &task);
    assert_eq!(task["status"], "completed", "{task}");
    // The address names the workspace, in any spelling.
    for cwd in [ADDRESS, "SSH://far/~/shop/"] {
        let session = done(&daemon.post("/session", &json!({ "cwd": cwd })));
        assert_eq!(session["workspaceCwd"], ADDRESS);
        let opening = json!({ "sessionId": "talk-1", "cwd": cwd, "context": true });
        let opened = done(&daemon.post("/v1/sessions", &opening));
        assert!(opened["context"]["text"].as_str().unwrap().contains("project/a/b.md"), "{opened}");
    }
    let nowhere = daemon.ask("POST", "/session").json(&json!({ "cwd": "ssh://far/~/other" }));
    assert_eq!(nowhere.code(), (400, "workspace_mismatch".to_owned()));
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
    setup.wait_until_unused();
    setup.check_coherent(&setup.place);
}

#[test]
fn a_change_there_is_an_event_here_without_a_question() {
    let setup = RemoteSetup::installed();
    let daemon = start_daemon(&setup);
    done(&daemon.get("/v1/memories"));
    let stream = daemon.stream("/v1/events", &[]);
    fs::write(setup.memory("deploy.md"), "- Deploys run at one.\n").unwrap();
    loop {
        let event = serde_json::to_string(&stream.next().unwrap()).unwrap();
        if event.contains("/memories/project/deploy.md") {
            break;
        }
    }
}

#[test]
fn a_person_curates_a_remote_project_in_a_browser() {
    let setup = RemoteSetup::installed();
    let there = setup.server.home().join("shop");
    let variables =
        [("LUKASA_TEST_PROJECT", ADDRESS.as_ref()), ("LUKASA_TEST_THERE", there.as_ref())];
    play_in(&setup.place, "remote", &variables);
}

#[test]
fn the_routes_of_the_page_show_and_change_a_remote_project() {
    let setup = RemoteSetup::installed();
    let daemon = start_daemon(&setup);
    let ticket = done(&daemon.post("/ui/tickets", &json!({})))["ticket"].clone();
    let ask = |method: &str, path: &str| daemon.ask(method, path).without_header("Authorization");
    let session = done(&ask("POST", "/ui/session").json(&json!({ "ticket": ticket })).send());
    let token = format!("Bearer {}", session["token"].as_str().unwrap());
    let ask = |method: &str, path: &str| ask(method, path).header("Authorization", &token);
    let get = |path: &str| done(&ask("GET", path).send());
    let put = |path: &str, body: Value| ask("PUT", path).json(&body).send();
    for path in [
        "/capabilities",
        "/v1/changes",
        "/v1/health/memories",
        "/v1/hosts",
        "/v1/memories",
        "/v1/pending",
        "/v1/runs",
        "/v1/settings",
        "/v1/stats",
        "/v1/tasks",
        "/v1/workspaces",
    ] {
        let shown = get(path).to_string();
        let home = setup.server.home().display().to_string();
        assert!(!shown.contains(&home), "{path}: {shown}");
    }
    // A clone on another machine is trusted by its address.
    let here = get("/v1/trust")["here"].clone();
    assert_eq!((&here["path"], &here["trusted"]), (&json!(ADDRESS), &json!(false)));
    assert_eq!(here["speaks"][0]["path"], "/memories/project/deploy.md", "{here}");
    let context = get("/v1/context")["text"].clone();
    assert!(!context.as_str().unwrap().contains("at noon"), "{context}");
    let trusted = done(&put("/v1/trust", json!({ "path": ADDRESS, "trusted": true })));
    assert_eq!(trusted["folders"], json!([ADDRESS]));
    assert_eq!(trusted["here"]["trusted"], true, "{trusted}");
    let context = get("/v1/context")["text"].clone();
    assert!(context.as_str().unwrap().contains("at noon"), "{context}");
    let distrusted = done(&put("/v1/trust", json!({ "path": ADDRESS, "trusted": false })));
    assert_eq!(distrusted["folders"], json!([]));
    // Who may open the page must not choose a program that runs here, or a machine.
    let before = fs::read_to_string(setup.place.home().join("config.toml")).unwrap();
    for (key, value) in [
        ("ssh.command", json!(["/bin/sh", "-c", "id"])),
        ("ssh.client_hosts", json!(["evil"])),
        ("remotes.shop.address", json!("ssh://evil/srv")),
    ] {
        let answer = put(&format!("/v1/settings/{key}"), json!({ "value": value }));
        assert_eq!(answer.status, 400, "{key}: {}", answer.text());
    }
    assert_eq!(fs::read_to_string(setup.place.home().join("config.toml")).unwrap(), before);
    // An edit, its difference and its undo.
    let read = ask("GET", "/v1/memories/project/deploy.md").send();
    let ask_put = ask("PUT", "/v1/memories/project/deploy.md")
        .header("If-Match", read.header("ETag").unwrap());
    let saved = done(&ask_put.json(&json!({ "text": "- Deploys run at one.\n" })).send());
    let shown = get(&format!("/v1/changes/{}", saved["change"]));
    let diff = shown["diffs"][0]["diff"].as_str().unwrap();
    assert!(diff.contains("-- Deploys run at noon.\n+- Deploys run at one.\n"), "{diff}");
    done(&ask("POST", "/v1/undo").json(&json!({ "changes": [saved["change"]] })).send());
    let text = fs::read_to_string(setup.memory("deploy.md")).unwrap();
    assert_eq!(text, "- Deploys run at noon.\n");
}

#[test]
fn a_daemon_starts_and_serves_the_other_scopes_while_the_machine_is_away() {
    let mut setup = RemoteSetup::installed();
    setup.server.stop();
    let daemon = start_daemon(&setup);
    let listed = done(&daemon.get("/v1/memories")).to_string();
    assert!(listed.contains("/memories/global/tea.md"), "{listed}");
    let away = daemon.get("/v1/memories/project/deploy.md");
    assert_eq!(away.json()["code"], "scope_unavailable", "{}", away.text());
    assert!(away.text().contains("`far` cannot be reached"), "{}", away.text());
    let refused = put(&daemon, "project/new.md", "- new\n", None);
    assert_eq!(refused.json()["code"], "scope_unavailable", "{}", refused.text());
    assert_eq!(put(&daemon, "global/new.md", "- new\n", None).status, 201);
    setup.server.restart().unwrap();
    eventually(|| {
        let answer = daemon.get("/v1/memories/project/deploy.md");
        if answer.status == 200 { Ok(()) } else { Err(answer) }
    });
    assert_eq!(put(&daemon, "project/new.md", "- new\n", None).status, 201);
}

/// Returns what a client with this root finds in its project.
fn view_with_root(setup: &RemoteSetup, uri: &str) -> ToolAnswer {
    let command = setup.place.command(&["mcp"]);
    let mut served = McpServerProcess::start_with_roots(command, &[uri]);
    let call = json!({ "command": "view", "path": "/memories/project/deploy.md" });
    let answer = served.call(&call);
    served.close_input();
    answer
}

#[test]
fn a_client_names_a_remote_folder_only_on_a_machine_that_a_person_listed() {
    let setup = RemoteSetup::installed();
    let folder = setup.server.home().join("shop").display().to_string();
    let by_editor = format!("vscode-remote://ssh-remote%2Bfar{folder}");
    let uris = [ADDRESS, &format!("ssh://far{folder}"), &by_editor];
    let log = setup.server.log().unwrap();
    for uri in uris {
        // The project of the current folder has no such memory.
        let answer = view_with_root(&setup, uri);
        assert_eq!(answer.code, "not_found", "{uri}: {}", answer.text);
    }
    assert_eq!(setup.server.log().unwrap(), log, "the machine was contacted");
    write_settings(&setup.place, setup.server.client_config(), "client_hosts = [\"far\"]\n");
    for uri in uris {
        let answer = view_with_root(&setup, uri);
        assert_eq!(answer.code, "ok", "{uri}: {}", answer.text);
        assert!(answer.text.contains("Deploys run at noon"), "{uri}: {}", answer.text);
        assert!(!answer.text.contains(&folder), "{uri}: {}", answer.text);
    }
    for uri in ["ssh://ada@far/~/shop", "vscode-remote://ssh-remote+-oProxyCommand=id/srv"] {
        let answer = view_with_root(&setup, uri);
        assert_eq!(answer.code, "not_found", "{uri}: {}", answer.text);
    }
}

#[test]
fn a_name_of_the_settings_stands_for_an_address() {
    let setup = RemoteSetup::installed();
    let file = setup.place.home().join("config.toml");
    let settings = fs::read_to_string(&file).unwrap();
    let named = format!("[remotes.shop]\naddress = \"{ADDRESS}\"\n");
    fs::write(&file, format!("{settings}{named}")).unwrap();
    let run = |args: &[&str]| setup.place.run(&[&["--project", "remote:shop"], args].concat());
    let made = run(&["create", "project/new.md", "- new\n"]);
    assert_eq!(made.status, 0, "{}", made.stderr);
    // Both names are one project with one history.
    assert!(setup.run_ok(&["log"]).contains("project/new.md"));
    assert!(setup.place.run_ok(&["remote", "check", "remote:shop"]).contains("2 memories"));
    let unknown = setup.place.run(&["--project", "remote:none", "ls"]);
    assert_eq!(unknown.status, 2, "{}", unknown.stderr);
    // The settings of a checkout cannot name a machine.
    let local = setup.place.checkout().join(".lukasa");
    fs::create_dir_all(&local).unwrap();
    fs::write(local.join("config.toml"), named.replace("shop", "clone")).unwrap();
    assert_eq!(setup.place.run(&["--project", "remote:clone", "ls"]).status, 2);
}
