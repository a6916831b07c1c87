//! `quipu models` and the settings behind it, with servers of models on this machine.

use std::fs;

use serde_json::{Value, json};
use testkit::{Models, Says};

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
    let expected = "remember\tlocal/works\nforget\trules\ndream\tlocal/works\nreview\tlocal/works\nrecall\t-\n";
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
    assert_eq!(
        place.done(&["models"]),
        "remember\trules\nforget\trules\ndream\trules\nreview\trules\nrecall\t-\n"
    );
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
