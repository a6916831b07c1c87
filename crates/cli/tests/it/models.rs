//! `quipu models` and the settings behind it, with servers of models on this machine.

use std::fs;

use serde_json::{Value, json};
use testkit::{Models, Says};

use crate::daemon::Daemon;
use crate::place::Place;

/// Names a server as the provider `local`.
fn settings(place: &Place, server: &Models, more: &str) {
    let text = format!("[models]\n{more}\n[models.providers.local]\nurl = \"{}\"\n", server.url());
    fs::write(place.home().join("config.toml"), text).unwrap();
}

#[test]
fn models_are_listed_and_asked_once_each() {
    let server = Models::start(|_, asked| {
        if asked.text().contains("\"model\":\"talks\"") {
            Says::text("I will note it.")
        } else {
            Says::call("note", json!({ "word": "quipu" }))
        }
    })
    .unwrap();
    let place = Place::new();
    settings(&place, &server, "default = 'local/works'\nforget = 'rules'");
    let listed = place.done(&["models"]);
    let expected = "remember\tlocal/works\nforget\trules\ndream\tlocal/works\n";
    assert!(listed.starts_with(expected), "{listed}");
    assert!(listed.ends_with("\tcalls tools\n"), "{listed}");
    assert_eq!(server.asked().len(), 1);
    settings(&place, &server, "default = 'local/talks'");
    let ended = place.run(&["models"]);
    assert_eq!(ended.status, 1);
    assert!(ended.stdout.contains("calls no tools"), "{}", ended.stdout);
    let asked = server.asked().len();
    place.done(&["models", "--no-check"]);
    assert_eq!(server.asked().len(), asked, "nothing is asked");
}

#[test]
fn what_is_wrong_with_a_model_is_told_without_the_key() {
    let server = Models::saying(vec![Says::Status(401, None, "the key k-123 is wrong")]).unwrap();
    let place = Place::new();
    settings(&place, &server, "default = 'local/small'");
    let file = place.home().join("config.toml");
    let keyed = fs::read_to_string(&file).unwrap() + "key_variable = 'TEST_KEY'\n";
    fs::write(&file, keyed).unwrap();
    let missing = place.run(&["models"]);
    assert!(
        missing.stdout.contains("the variable `TEST_KEY` of the environment holds no key"),
        "{}",
        missing.stdout
    );
    assert_eq!(server.asked().len(), 0);
    let mut command = place.quipu(&["models", "--json"]);
    let ended = place.end(command.env("TEST_KEY", "k-123"));
    assert_eq!(ended.status, 1);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    let error = told["checked"][0]["error"].as_str().unwrap();
    assert_eq!(error, "the model's server answered with status 401: the key [key] is wrong");
}

#[test]
fn without_models_the_rules_do_everything() {
    let place = Place::new();
    assert_eq!(place.done(&["models"]), "remember\trules\nforget\trules\ndream\trules\n");
}

#[test]
fn a_checkout_cannot_name_a_model() {
    let server = Models::saying(vec![Says::text("yes")]).unwrap();
    let place = Place::new();
    let planted = format!(
        "[models]\ndefault = 'local/m'\n[models.providers.local]\nurl = \"{}\"\n",
        server.url()
    );
    for name in ["config.toml", ".quipu/config.toml", ".quipu/memory/config.toml", "quipu.toml"] {
        let path = place.checkout().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &planted).unwrap();
    }
    assert!(place.done(&["models"]).starts_with("remember\trules\n"));
    assert_eq!(server.asked().len(), 0);
}

/// A model that puts `- I keep bees` into a file.
fn keeper() -> Vec<Says> {
    let text = "---\nname: Bees\ndescription: what I keep\ntype: user\n---\n\n- I keep bees\n";
    vec![
        Says::call(
            "write_file",
            json!({ "path": "/memories/global/user/bees.md", "content": text }),
        ),
        Says::text("I noted the bees."),
    ]
}

#[test]
fn a_model_remembers_and_what_it_took_is_on_record() {
    let server = Models::saying(keeper()).unwrap();
    let place = Place::new();
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
    let listed = place.done(&["runs"]);
    assert!(listed.contains("remember\tlocal/small\t"), "{listed}");
    place.done(&["undo", "-y"]);
    assert!(!place.done(&["ls"]).contains("bees"));
}

#[test]
fn what_a_model_fails_to_do_fails_and_is_on_record() {
    let server = Models::saying(vec![Says::Status(400, None, "no such model")]).unwrap();
    let place = Place::new();
    settings(&place, &server, "default = 'local/small'");
    let ended = place.run(&["remember", "I keep bees."]);
    assert_ne!(ended.status, 0);
    assert!(ended.stderr.contains("The model cannot be reached"), "{}", ended.stderr);
    assert!(ended.stderr.contains("status 400: no such model"), "{}", ended.stderr);
    assert_eq!(place.done(&["ls"]), "");
    let run = place.json(&["runs"]);
    assert_eq!(
        (&run["ended"], &run["why"]),
        (&json!("failed"), &json!("the model's server answered with status 400"))
    );
}

#[test]
fn the_rules_do_it_if_a_person_says_so_and_the_result_tells() {
    let server = Models::saying(vec![Says::Status(400, None, "no such model")]).unwrap();
    let place = Place::new();
    settings(&place, &server, "default = 'local/small'\nfallback = 'rules'");
    let said = place.run(&["remember", "I keep bees."]).stderr;
    assert!(said.contains("The rules did it, since the model failed."), "{said}");
    assert_eq!(place.json(&["runs"])["ended"], "fallback");
    assert!(place.done(&["ls"]).contains("bees"));
}

#[test]
fn with_models_switched_off_the_rules_do_it_and_nobody_is_asked() {
    let server = Models::saying(keeper()).unwrap();
    let place = Place::new();
    settings(&place, &server, "default = 'local/small'");
    let mut command = place.quipu(&["remember", "I keep bees."]);
    assert_eq!(place.end(command.env("QUIPU_FEATURES", "-models")).status, 0);
    assert_eq!(server.asked().len(), 0);
    assert!(place.done(&["ls"]).contains("bees"));
}

#[test]
fn a_daemon_tells_of_models_over_http_and_in_its_metrics() {
    let server = Models::saying(keeper()).unwrap();
    let place = Place::new();
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
    let line = "quipu_model_tokens{task=\"remember\",model=\"local/small\",kind=\"in\"} 200";
    assert!(metrics.contains(line), "{metrics}");
}
