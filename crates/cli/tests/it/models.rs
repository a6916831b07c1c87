//! Tests of `lukasa models` and of its settings, with model servers on this machine.

use std::fs;

use serde_json::{Value, json};
use testkit::{ModelReply, ModelServer, eventually};

use crate::daemon::Daemon;
use crate::sandbox::Sandbox;

/// Writes settings with a server as the provider `local`.
fn settings(place: &Sandbox, server: &ModelServer, more: &str) {
    let text = format!("[models]\n{more}\n[models.providers.local]\nurl = \"{}\"\n", server.url());
    fs::write(place.home().join("config.toml"), text).unwrap();
}

#[test]
fn models_are_listed_and_each_is_checked_once() {
    let server = ModelServer::start(|_, asked| {
        if asked.text().contains("\"model\":\"talks\"") {
            ModelReply::text("I will note it.")
        } else {
            ModelReply::call("note", json!({ "word": "lukasa" }))
        }
    })
    .unwrap();
    let place = Sandbox::new();
    settings(&place, &server, "default = 'local/works'\nforget = 'rules'");
    let listed = place.run_ok(&["models"]);
    // The default model does not choose recalled memories, because that needs a request for each prompt.
    let expected = "remember\tlocal/works\nforget\trules\ndream\tlocal/works\nreview\tlocal/works\nrecall\trules\n";
    assert!(listed.starts_with(expected), "{listed}");
    assert!(listed.ends_with("\tcalls tools\n"), "{listed}");
    assert_eq!(server.requests().len(), 1);
    settings(&place, &server, "default = 'local/talks'");
    let ended = place.run(&["models"]);
    assert_eq!(ended.status, 1);
    assert!(ended.stdout.contains("does not call tools"), "{}", ended.stdout);
    let asked = server.requests().len();
    place.run_ok(&["models", "--no-check"]);
    assert_eq!(server.requests().len(), asked, "nothing is asked");
}

#[test]
fn the_error_of_a_model_is_shown_without_the_key() {
    let server =
        ModelServer::scripted(vec![ModelReply::Status(401, None, "the key k-123 is wrong")])
            .unwrap();
    let place = Sandbox::new();
    settings(&place, &server, "default = 'local/small'");
    let file = place.home().join("config.toml");
    let keyed = fs::read_to_string(&file).unwrap() + "key_variable = 'TEST_KEY'\n";
    fs::write(&file, keyed).unwrap();
    let missing = place.run(&["models"]);
    assert!(
        missing.stdout.contains("the environment variable `TEST_KEY` holds no key"),
        "{}",
        missing.stdout
    );
    assert_eq!(server.requests().len(), 0);
    let mut command = place.lukasa(&["models", "--json"]);
    let ended = place.run_command(command.env("TEST_KEY", "k-123"));
    assert_eq!(ended.status, 1);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    let error = told["checked"][0]["error"].as_str().unwrap();
    assert_eq!(error, "the model's server answered with status 401: the key [key] is wrong");
}

#[test]
fn without_models_the_rules_do_everything() {
    let place = Sandbox::new();
    let listed = "remember\trules\nforget\trules\ndream\trules\nreview\trules\nrecall\trules\n";
    assert_eq!(place.run_ok(&["models"]), listed);
}

#[test]
fn a_checkout_cannot_name_a_model() {
    let server = ModelServer::scripted(vec![ModelReply::text("yes")]).unwrap();
    let place = Sandbox::new();
    let planted = format!(
        "[models]\ndefault = 'local/m'\n[models.providers.local]\nurl = \"{}\"\n",
        server.url()
    );
    for name in ["config.toml", ".lukasa/config.toml", ".lukasa/memory/config.toml", "lukasa.toml"]
    {
        let path = place.checkout().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &planted).unwrap();
    }
    assert!(place.run_ok(&["models"]).starts_with("remember\trules\n"));
    assert_eq!(server.requests().len(), 0);
}

/// A model that puts `- I keep bees` into a file.
fn keeper() -> Vec<ModelReply> {
    let text = "---\nname: Bees\ndescription: what I keep\ntype: user\n---\n\n- I keep bees\n";
    vec![
        ModelReply::call(
            "write_file",
            json!({ "path": "/memories/global/user/bees.md", "content": text }),
        ),
        ModelReply::text("I noted the bees."),
    ]
}

#[test]
fn a_model_remembers_and_its_run_is_recorded() {
    let server = ModelServer::scripted(keeper()).unwrap();
    let place = Sandbox::new();
    settings(&place, &server, "default = 'local/small'");
    let said = place.run(&["remember", "I keep bees."]).stderr;
    assert!(said.contains("Saved to /memories/global/user/bees.md: 1 new, 0 updated."), "{said}");
    assert!(place.view("global/user/bees.md").contains("- I keep bees"));
    let change = place.json(&["log", "-n", "1"]);
    assert_eq!(change["model"], "local/small", "{change}");
    let run = place.json(&["runs"]);
    let told = [
        "agent",
        "model",
        "ended",
        "turns",
        "calls",
        "refused",
        "tokensIn",
        "tokensCached",
        "tokensOut",
        "cost",
        "background",
    ];
    let told: Vec<String> = told.iter().map(|key| run[key].to_string()).collect();
    assert_eq!(
        told.join(" "),
        "\"managed-auto-memory-remember\" \"local/small\" \"completed\" 2 1 0 200 80 14 0.5 false"
    );
    let listed = place.run_ok(&["runs"]);
    assert!(listed.contains("remember\tlocal/small\t"), "{listed}");
    place.run_ok(&["undo", "-y"]);
    assert!(!place.run_ok(&["ls"]).contains("bees"));
}

#[test]
fn a_failure_of_a_model_fails_the_task_and_is_recorded() {
    let server =
        ModelServer::scripted(vec![ModelReply::Status(400, None, "no such model")]).unwrap();
    let place = Sandbox::new();
    settings(&place, &server, "default = 'local/small'");
    let ended = place.run(&["remember", "I keep bees."]);
    assert_ne!(ended.status, 0);
    assert!(ended.stderr.contains("The model cannot be reached"), "{}", ended.stderr);
    assert!(ended.stderr.contains("status 400: no such model"), "{}", ended.stderr);
    assert_eq!(place.run_ok(&["ls"]), "");
    let run = place.json(&["runs"]);
    assert_eq!(
        (&run["ended"], &run["why"]),
        (&json!("failed"), &json!("the model's server answered with status 400"))
    );
}

#[test]
fn the_rules_decide_if_a_person_says_so_and_the_result_names_them() {
    let server =
        ModelServer::scripted(vec![ModelReply::Status(400, None, "no such model")]).unwrap();
    let place = Sandbox::new();
    settings(&place, &server, "default = 'local/small'\nfallback = 'rules'");
    let said = place.run(&["remember", "I keep bees."]).stderr;
    assert!(said.contains("The rules did it, since the model failed."), "{said}");
    assert_eq!(place.json(&["runs"])["ended"], "fallback");
    assert!(place.run_ok(&["ls"]).contains("bees"));
}

#[test]
fn with_models_off_the_rules_decide_and_no_model_is_called() {
    let server = ModelServer::scripted(keeper()).unwrap();
    let place = Sandbox::new();
    settings(&place, &server, "default = 'local/small'");
    let mut command = place.lukasa(&["remember", "I keep bees."]);
    assert_eq!(place.run_command(command.env("LUKASA_FEATURES", "-models")).status, 0);
    assert_eq!(server.requests().len(), 0);
    assert!(place.run_ok(&["ls"]).contains("bees"));
}

#[test]
fn a_daemon_reports_models_over_http_and_in_its_metrics() {
    let server = ModelServer::scripted(keeper()).unwrap();
    let place = Sandbox::new();
    settings(&place, &server, "default = 'local/small'");
    let daemon = Daemon::start(&place);
    let task = daemon.task("remember", &json!({ "content": "I keep bees." }));
    let id = task["taskId"].as_str().unwrap();
    let ended = daemon.finished("remember", id, None);
    assert_eq!(ended["status"], "completed", "{ended}");
    let runs = daemon.get("/v1/runs/models").json();
    let run = &runs["runs"][0];
    assert_eq!((&run["task"], &run["ended"]), (&json!(id), &json!("completed")));
    let metrics = daemon.get("/metrics").text();
    let line = "lukasa_model_tokens{task=\"remember\",model=\"local/small\",kind=\"in\"} 200";
    assert!(metrics.contains(line), "{metrics}");
}

/// Returns a server that chooses the recalled memories that contain this word.
fn choosing(word: &'static str) -> ModelServer {
    let server = ModelServer::start(move |_, asked| {
        let task = asked.body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        let (_, lines) = task.as_str().unwrap().split_once("one a line:\n").unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let chosen = lines.filter(|line| line["text"].as_str().unwrap().contains(word));
        let ids: Vec<Value> = chosen.map(|line| line["id"].clone()).collect();
        ModelReply::call("select_memories", json!({ "ids": ids }))
    });
    server.unwrap()
}

#[test]
fn a_model_chooses_recalled_memories_and_its_run_is_recorded() {
    let server = choosing("Olga");
    let place = Sandbox::new();
    settings(&place, &server, "recall = 'local/small'");
    place.create("global/harbour.md", "- The harbour master of Brenn is called Olga.\n");
    place.create("global/ferry.md", "- The ferry leaves the harbour of Brenn at noon.\n");
    assert!(place.run_ok(&["models", "--no-check"]).contains("recall\tlocal/small\n"));
    let daemon = Daemon::start(&place);
    let opened = daemon.post("/v1/sessions", &json!({ "sessionId": "talk" }));
    assert_eq!(opened.status, 200, "{}", opened.text());
    let said = json!({ "text": "wer leitet den Kai?" });
    let mut shown = daemon.post("/v1/sessions/talk/prompts", &said).json();
    assert!(shown["recalled"].is_null(), "the turn goes on: {shown}");
    eventually(|| {
        if !shown["recalled"].is_null() {
            return Ok(());
        }
        shown = daemon.post("/v1/sessions/talk/tool-results", &json!({})).json();
        Err("recall failed")
    });
    let memories = shown["recalled"]["memories"].as_array().unwrap();
    assert_eq!(memories.len(), 1, "{shown}");
    assert_eq!(memories[0]["path"], "/memories/global/harbour.md");

    // An explicit recall is answered by the ranker alone.
    let asked = daemon.get("/v1/recall?q=harbour%20of%20Brenn").json();
    assert_eq!(asked["memories"].as_array().unwrap().len(), 2, "{asked}");
    assert_eq!(server.requests().len(), 1);

    let run = eventually(|| {
        let runs = daemon.get("/v1/runs/models").json();
        runs["runs"].get(0).cloned().ok_or("nothing is on record")
    });
    assert_eq!(run["agent"], "managed-auto-memory-recall", "{run}");
    assert_eq!((&run["ended"], &run["cost"]), (&json!("completed"), &json!(0.25)));
    assert_eq!((&run["task"], &run["background"]), (&Value::Null, &json!(false)));
    let metrics = daemon.get("/metrics").text();
    let line = "lukasa_model_tokens{task=\"recall\",model=\"local/small\",kind=\"in\"} 100";
    assert!(metrics.contains(line), "{metrics}");
    assert!(place.run_ok(&["runs"]).contains("recall\tlocal/small\t"));
}

#[test]
fn a_hook_without_a_daemon_calls_no_model_and_shows_ranked_memories() {
    let server = choosing("nothing");
    let place = Sandbox::new();
    settings(&place, &server, "recall = 'local/small'");
    place.create("global/harbour.md", "- The harbour master of Brenn is called Olga.\n");
    place.create("global/ferry.md", "- The ferry leaves the harbour of Brenn at noon.\n");
    let told = json!({
        "session_id": "s", "cwd": place.checkout(), "hook_event_name": "UserPromptSubmit",
        "prompt": "who is the harbour master of Brenn?",
    });
    let mut hook = place.lukasa(&["hook", "user-prompt", "--agent", "claude-code"]);
    let answer = place.run_command(hook.write_stdin(told.to_string()));
    assert!(answer.stdout.contains("Olga"), "{}{}", answer.stdout, answer.stderr);
    assert_eq!(server.requests().len(), 0);
}
