//! Tests of the list of workspaces, on the command line and over HTTP.

use std::fs;

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::sandbox::Sandbox;

fn workspaces(place: &Sandbox) -> Vec<Value> {
    place.json(&["workspace", "ls"])["workspaces"].as_array().unwrap().clone()
}

#[test]
fn a_workspace_is_listed_and_its_removal_is_undone() {
    let place = Sandbox::new();
    let none = place.run(&["workspace", "ls"]);
    assert_eq!((none.status, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("no workspace has memories yet"), "{}", none.stderr);
    place.create("workspace/plan.md", "- Tea.\n");
    place.run_ok(&["create", "workspace/named.md", "one", "--workspace-id", "ws-1"]);
    let listed = workspaces(&place);
    let own = listed.iter().find(|one| one["id"] != "ws-1").unwrap();
    assert_eq!(own["checkout"], "<place>/app");
    assert_eq!((&own["checkout_exists"], &own["memories"]), (&json!(true), &json!(1)));
    let named = listed.iter().find(|one| one["id"] == "ws-1").unwrap();
    assert_eq!((&named["checkout"], &named["memories"]), (&Value::Null, &json!(1)));

    let id = own["id"].as_str().unwrap();
    let asked = place.run(&["workspace", "rm", id]);
    assert_eq!(asked.status, 2, "{}", asked.stderr);
    assert!(asked.stderr.contains("this removes 1 workspace with 1 memory"), "{}", asked.stderr);
    assert_eq!(workspaces(&place).len(), 2);
    let unknown = place.run(&["workspace", "rm", "-y", id, "ws-2"]);
    assert_eq!(unknown.status, 1, "{}", unknown.stderr);
    assert_eq!(workspaces(&place).len(), 2, "nothing is removed when one is unknown");

    let removed = place.json(&["workspace", "rm", "-y", id])["removed"][0].clone();
    assert_eq!(removed["memories"], json!(["/memories/workspace/plan.md"]));
    assert_eq!(workspaces(&place).len(), 1);
    assert_eq!(place.run(&["view", "workspace/plan.md"]).status, 1);
    let change = removed["change"].to_string();
    place.run_ok(&["--workspace-id", id, "undo", "-y", &change]);
    assert_eq!(place.view("workspace/plan.md"), "- Tea.\n");
}

#[test]
fn workspaces_of_worktrees_that_no_longer_exist_are_removed_together() {
    let place = Sandbox::with(&[("workspace/plan.md", "- Tea.\n")]);
    let gone = place.home().join("gone");
    fs::create_dir_all(gone.join(".git")).unwrap();
    let at = gone.to_str().unwrap();
    place.run_ok(&["create", "workspace/plan.md", "one", "--project", at]);
    place.run_ok(&["create", "workspace/named.md", "one", "--workspace-id", "ws-1"]);
    let nothing = place.run(&["workspace", "rm", "--gone"]);
    assert_eq!(nothing.status, 0, "{}", nothing.stderr);
    assert_eq!(workspaces(&place).len(), 3);
    fs::remove_dir_all(&gone).unwrap();
    let removed = place.run(&["workspace", "rm", "--gone", "-y"]);
    assert_eq!(removed.status, 0, "{}", removed.stderr);
    assert!(!removed.stderr.contains("warning"), "{}", removed.stderr);
    let left = workspaces(&place);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|one| one["checkout"] != "<place>/home/gone"), "{left:?}");
}

#[test]
fn a_daemon_lists_and_removes_workspaces() {
    let place = Sandbox::with(&[("workspace/plan.md", "- Tea.\n")]);
    place.run_ok(&["create", "workspace/named.md", "one", "--workspace-id", "ws-1"]);
    let daemon = Daemon::start(&place);
    let listed = daemon.get("/v1/workspaces").json()["workspaces"].as_array().unwrap().clone();
    let served: Vec<_> = listed.iter().filter(|one| one["servedAs"] != json!([])).collect();
    assert_eq!(served.len(), 1, "{listed:?}");
    assert_eq!(served[0]["servedAs"], json!([daemon.workspace(0)]));
    assert_eq!(served[0]["checkout"], place.checkout().to_str().unwrap());
    for unknown in ["ws-2", "..%2Fdata", &"x".repeat(65)] {
        let answer = daemon.ask("DELETE", &format!("/v1/workspaces/{unknown}")).code();
        assert_eq!(answer, (404, "workspace_not_found".to_owned()), "{unknown}");
    }
    let no_client = daemon.ask("DELETE", "/v1/workspaces/ws-1").header("x-lukasa-client-id", "no");
    assert_eq!(no_client.code(), (400, "invalid_client_id".to_owned()));
    let id = served[0]["id"].as_str().unwrap();
    let removed = daemon.ask("DELETE", &format!("/v1/workspaces/{id}")).send();
    assert_eq!(removed.status, 200, "{}", removed.text());
    assert_eq!(removed.json()["memories"], json!(["/memories/workspace/plan.md"]));
    let change = &removed.json()["change"];
    let undone = daemon.post(&format!("/v1/changes/{change}/undo"), &json!({}));
    assert_eq!(undone.status, 200, "{}", undone.text());
    assert_eq!(place.view("workspace/plan.md"), "- Tea.\n");
    let named = daemon.ask("DELETE", "/v1/workspaces/ws-1").send();
    assert_eq!(named.status, 200, "{}", named.text());
    assert_eq!(workspaces(&place).len(), 1);
}

#[test]
fn a_daemon_neither_lists_nor_removes_a_workspace_that_it_does_not_trust() {
    let place = Sandbox::new();
    let other = place.home().join("other");
    fs::create_dir_all(other.join(".git")).unwrap();
    let at = other.to_str().unwrap();
    place.run_ok(&["create", "workspace/plan.md", "one", "--project", at]);
    let id = workspaces(&place)[0]["id"].as_str().unwrap().to_owned();
    let daemon = Daemon::start_with(&place, &["--untrusted", at]);
    assert_eq!(daemon.get("/v1/workspaces").json()["workspaces"], json!([]));
    let removed = daemon.ask("DELETE", &format!("/v1/workspaces/{id}")).code();
    assert_eq!(removed, (403, "untrusted_workspace".to_owned()));
    assert_eq!(workspaces(&place)[0]["memories"], 1);
}
