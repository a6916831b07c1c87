//! Tests of feature switches: a disabled feature is invisible in every interface, and all other output stays the same,
//! byte for byte.

use std::collections::BTreeMap;
use std::fs;

use memory::feature::Feature;
use serde_json::{Value, json};

use crate::daemon::{Daemon, TOKEN};
use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

/// The output of each interface.
type Tour = BTreeMap<&'static str, String>;

/// A person's memories and a trusted project with a context file.
fn prepared_sandbox() -> Sandbox {
    let place = Sandbox::new();
    place.create(
        "global/tea.md",
        "---\ndescription: drinks\n---\n\n- I drink green tea in the morning\n",
    );
    place.run_ok(&["pin", "global/tea.md"]);
    fs::write(place.checkout().join("AGENTS.md"), "Build with make.\n").unwrap();
    place.run_ok(&["trust", "-y"]);
    // The tour saves a fact that already exists, so that it changes nothing.
    place.run_ok(&["save", "--scope", "project", "Builds take an hour"]);
    place
}

/// Calls every interface with these features off.
fn tour(place: &Sandbox, off: &str) -> Tour {
    let mut tour = Tour::new();
    let run = |args: &[&str], stdin: &str| {
        let mut command = place.lukasa(args);
        command.env("LUKASA_FEATURES", off).write_stdin(stdin);
        place.run_command(&mut command)
    };
    let folder = place.checkout().display().to_string();
    let told = |event: &str, session: &str, more: &Value| {
        let session = format!("{session}{off}");
        let mut told = json!({ "hook_event_name": event, "session_id": session, "cwd": folder });
        told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        told.to_string()
    };
    let start = told("SessionStart", "first", &json!({ "source": "startup" }));
    let hook = ["hook", "session-start", "--agent", "claude-code"];
    tour.insert("session start", run(&hook, &start).stdout);
    let prompt = json!({ "prompt": "which tea do I drink in the morning?" });
    let prompt = told("UserPromptSubmit", "second", &prompt);
    let hook = ["hook", "user-prompt", "--agent", "claude-code"];
    tour.insert("prompt", run(&hook, &prompt).stdout);
    tour.insert("context", run(&["context"], "").stdout);
    for (door, args) in [
        ("ls", &["ls"][..]),
        ("recall", &["recall", "green", "tea"]),
        ("tasks", &["tasks"]),
        ("save", &["save", "--scope", "project", "Builds take an hour"]),
    ] {
        let ended = run(args, "");
        let refused = if ended.stderr.contains("is switched off") { " off" } else { "" };
        tour.insert(door, format!("{}{refused}\n{}", ended.status, ended.stdout));
    }

    let mut command = place.program(env!("CARGO_BIN_EXE_lukasa"));
    command.env("LUKASA_FEATURES", off).args(["mcp", "--workspace-id", "w"]);
    let mut served = McpServerProcess::start_as(command);
    tour.insert("mcp server", served.greeting()["result"].to_string());
    for (door, method) in [
        ("mcp tools", "tools/list"),
        ("mcp resources", "resources/list"),
        ("mcp prompts", "prompts/list"),
    ] {
        let answer = served.request(method, &json!({}));
        tour.insert(door, answer.get("result").unwrap_or(&answer["error"]["code"]).to_string());
    }
    served.close_input();
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
    let ended = run(&["acp"], &format!("{greeting}\n"));
    let refused = if ended.stderr.contains("is switched off") { " off" } else { "" };
    tour.insert("acp", format!("{}{refused}", ended.status));
    at_daemon(place, off, &mut tour);
    tour
}

/// Calls the interfaces of a daemon with these features off.
fn at_daemon(place: &Sandbox, off: &str, tour: &mut Tour) {
    let mut command = Daemon::command(place, &[]);
    command.env("LUKASA_TOKEN", TOKEN).env("LUKASA_FEATURES", off);
    let daemon = Daemon::start_by(command);
    tour.insert("capabilities", daemon.get("/capabilities").json()["features"].to_string());
    tour.insert("health", daemon.get("/health").text());
    let view = json!({ "command": "view", "path": "/memories/global/none.md" });
    let code = |answer: crate::daemon::HttpResponse| {
        let status = answer.status;
        let body = answer.json();
        format!("{status} {} {}", body["code"], body["feature"])
    };
    tour.insert("http tool", code(daemon.post("/v1/tool", &view)));
    for (door, path) in [
        ("http memories", "/v1/memories"),
        ("http recall", "/v1/recall?q=green+tea"),
        ("http tasks", "/v1/tasks"),
        ("http files", "/workspace/memory"),
        ("http context", "/v1/context"),
    ] {
        tour.insert(door, code(daemon.get(path)));
    }
    let fact = json!({ "content": "Builds take an hour", "scope": "nowhere" });
    tour.insert("http save", code(daemon.post("/workspace/memory", &fact)));
    tour.insert(
        "http remember",
        code(daemon.post("/workspace/memory/remember", &json!({ "content": 7 }))),
    );
}

/// Returns the interfaces whose output differs from that of another tour.
fn changed<'t>(before: &'t Tour, now: &'t Tour) -> Vec<&'t str> {
    assert_eq!(before.len(), now.len());
    before.iter().filter(|(door, said)| now[*door] != **said).map(|(door, _)| *door).collect()
}

fn off(feature: Feature) -> String {
    format!("403 \"feature_disabled\" \"{feature}\"")
}

#[test]
fn a_disabled_feature_is_off_in_its_interfaces_and_nothing_else_changes() {
    let place = prepared_sandbox();
    let all = tour(&place, "");
    assert!(all["session start"].contains("long_term_memory"), "{all:#?}");
    assert!(all["session start"].contains("make"), "{all:#?}");
    assert!(all["prompt"].contains("recalled_memories"));
    assert_eq!(all["http memories"], "200 null null");
    let doors: [(Feature, &[&str]); 10] = [
        (Feature::Tool, &["http tool", "mcp prompts", "mcp resources", "mcp server", "mcp tools"]),
        (Feature::Tasks, &["capabilities", "http remember", "http tasks", "tasks"]),
        // All facts of this small store are given, without an index.
        (Feature::ContextIndex, &[]),
        (Feature::HotSet, &["context", "session start"]),
        (Feature::Recall, &["http recall", "mcp tools", "prompt", "recall"]),
        (Feature::ContextFiles, &["capabilities", "context", "http files", "session start"]),
        (Feature::SaveMemory, &["http save", "mcp tools", "save"]),
        (Feature::ScheduledDreams, &[]),
        (Feature::Models, &[]),
        (Feature::Child, &["acp"]),
    ];
    for (feature, expected) in doors {
        let now = tour(&place, &format!("-{feature}"));
        assert_eq!(changed(&all, &now), expected, "{feature}: {now:#?}");
        for (door, said) in now.iter().filter(|(door, _)| expected.contains(door)) {
            if door.starts_with("http ") {
                assert_eq!(*said, off(feature), "{feature} {door}");
            }
        }
    }
    let without = tour(&place, "-hot_set");
    assert!(without["session start"].contains("`view` reads"), "{}", without["session start"]);
    let without = tour(&place, "-hot_set,-tool");
    assert!(!without["session start"].contains("`view`"), "{}", without["session start"]);
    let without = tour(&place, "-hot_set,-context_index");
    assert!(!without["session start"].contains("memory"), "{}", without["session start"]);
    let without = tour(&place, "-tool");
    assert!(!without["mcp tools"].contains("`memory`"), "{}", without["mcp tools"]);
    let tools = |tour: &Tour| {
        let listed: Value = serde_json::from_str(&tour["mcp tools"]).unwrap();
        let tools = listed["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(tools(&all), ["memory", "recall", "view_memory", "save_memory"]);
    assert_eq!(tools(&tour(&place, "-tool")), ["recall", "save_memory"]);
    assert_eq!(tools(&tour(&place, "-recall")), ["memory", "view_memory", "save_memory"]);
    let without = tour(&place, "-context_index,-hot_set,-context_files");
    assert_eq!((&without["session start"], &without["context"]), (&String::new(), &String::new()));
}

#[test]
fn without_memory_nothing_is_offered_or_created() {
    let place = Sandbox::new();
    let tour = tour(&place, "-memory");
    for door in ["session start", "prompt"] {
        assert_eq!(tour[door], "", "{door}");
    }
    for door in ["ls", "recall", "tasks", "save"] {
        assert_eq!(tour[door], "4 off\n", "{door}");
    }
    assert_eq!(tour["acp"], "4 off");
    for door in ["mcp tools", "mcp resources", "mcp prompts"] {
        assert_eq!(tour[door], "-32601", "{door}: there is no such method");
    }
    let server: Value = serde_json::from_str(&tour["mcp server"]).unwrap();
    assert_eq!((&server["capabilities"], &server["instructions"]), (&json!({}), &Value::Null));
    assert_eq!(
        (tour["capabilities"].as_str(), tour["health"].as_str()),
        ("[]", "{\"status\":\"ok\"}")
    );
    assert_eq!(tour["http memories"], off(Feature::Memory));
    assert!(!place.home().join("memory").exists());
    assert!(!place.home().join("state/lukasa.db").exists());
}

#[test]
fn every_route_but_those_about_the_daemon_is_refused_without_memory() {
    let place = Sandbox::new();
    let mut command = Daemon::command(&place, &[]);
    command.env("LUKASA_TOKEN", TOKEN).env("LUKASA_FEATURES", "-memory");
    let daemon = Daemon::start_by(command);
    let described = daemon.get("/openapi.json").json();
    let mut open = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let asked = path.replace(['{', '}'], "");
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            if !["GET", "PUT", "POST", "DELETE"].contains(&method.as_str()) {
                continue;
            }
            match daemon.ask(&method, &asked).json(&json!({})).send().status {
                403 => {}
                _ => open.push(format!("{method} {path}")),
            }
        }
    }
    assert_eq!(
        open,
        ["GET /capabilities", "GET /docs", "GET /health", "GET /metrics", "GET /openapi.json"]
    );
}

#[test]
fn a_workspace_can_only_disable_features() {
    let place = prepared_sandbox();
    let id = place.json(&["features"])["workspace"].as_str().unwrap().to_owned();
    let settings = place.home().join("config.toml");
    fs::write(&settings, format!("[workspace.\"{id}\".features]\nrecall = false\n")).unwrap();
    assert_eq!(place.run(&["recall", "tea"]).status, 4);
    let listed = place.json(&["features"]);
    let recall = &listed["features"].as_array().unwrap()[5];
    assert_eq!(recall["on"], false);
    assert_eq!(recall["from"], "<place>/home/config.toml:2");
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let folder = elsewhere.display().to_string();
    assert!(place.run(&["recall", "green", "tea", "--project", &folder]).status < 2);
    // A daemon refuses it only in that workspace.
    let daemon = Daemon::start_with(
        &place,
        &["--workspace", &place.checkout().display().to_string(), "--workspace", &folder],
    );
    let status =
        |workspace: &str| daemon.get(&format!("/v1/recall?q=tea&workspace={workspace}")).status;
    assert_eq!((status(&id), status(daemon.workspace(1))), (403, 200));
    assert_eq!(daemon.get("/v1/recall?q=tea").status, 403);
    drop(daemon);
    for (wrong, said) in [
        ("recall = true", "2: a workspace can only turn features off"),
        ("recal = false", "2: there is no feature `recal`; did you mean `recall`?"),
    ] {
        fs::write(&settings, format!("[workspace.\"{id}\".features]\n{wrong}\n")).unwrap();
        let refused = place.run(&["ls"]);
        assert_eq!(refused.status, 2);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}

#[test]
fn the_environment_applies_to_one_process_and_its_errors_are_named() {
    let place = prepared_sandbox();
    fs::write(place.home().join("config.toml"), "[features]\nrecall = false\n").unwrap();
    let with = |value: &str, args: &[&str]| {
        let mut command = place.lukasa(args);
        command.env("LUKASA_FEATURES", value);
        place.run_command(&mut command)
    };
    assert_eq!(with("+recall", &["recall", "green", "tea"]).status, 0);
    assert!(with("+recall", &["features"]).stdout.contains("recall\ton\tLUKASA_FEATURES\n"));
    assert_eq!(place.run(&["recall", "green", "tea"]).status, 4);
    let wrong = with("-hotset", &["ls"]);
    assert_eq!(wrong.status, 2);
    assert!(wrong.stderr.contains("did you mean `hot_set`?"), "{}", wrong.stderr);
    assert!(with("recall", &["ls"]).stderr.contains("`recall` has no sign"));
}
