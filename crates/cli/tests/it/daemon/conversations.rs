//! Tests of conversations over HTTP: a host receives each text for its model once, also after a restart of the daemon.

use serde_json::{Value, json};
use testkit::eventually;

use super::{Daemon, HttpResponse};
use crate::sandbox::Sandbox;

const SESSIONS: &str = "/v1/sessions";

fn done(answer: &HttpResponse) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn open(daemon: &Daemon, id: &str) -> Value {
    done(&daemon.post(SESSIONS, &json!({ "sessionId": id })))
}

fn prompt(daemon: &Daemon, id: &str, text: &str) -> Value {
    done(&daemon.post(&format!("{SESSIONS}/{id}/prompts"), &json!({ "text": text })))
}

fn report_event(daemon: &Daemon, id: &str, what: &str, event: &str) -> Value {
    done(&daemon.post(&format!("{SESSIONS}/{id}/{what}"), &json!({ "eventId": event })))
}

/// Returns the text for a prompt, which comes at once or with a tool's result.
fn prompt_update(daemon: &Daemon, id: &str, text: &str) -> Value {
    let mut shown = prompt(daemon, id, text);
    eventually(|| {
        if !shown["recalled"].is_null() {
            return Ok(shown["recalled"].clone());
        }
        shown = done(&daemon.post(&format!("{SESSIONS}/{id}/tool-results"), &json!({})));
        Err(format!("nothing is found for {text}"))
    })
}

fn remembered(place: &Sandbox) {
    for (name, text) in [
        ("harbour", "- The harbour master of Brenn is called Olga Tveit.\n"),
        ("bread", "- The sourdough rests for eleven hours before it is baked.\n"),
        ("tests", "- Integration tests need the variable TARN_URL.\n"),
    ] {
        place.create(&format!("project/{name}.md"), text);
    }
}

#[test]
fn a_host_receives_fitting_memories_once() {
    let place = Sandbox::new();
    remembered(&place);
    let daemon = Daemon::start(&place);
    let opened = open(&daemon, "talk-1");
    assert_eq!(opened["resumed"], false, "{opened}");
    assert_eq!(opened["workspaceId"], daemon.workspace(0), "{opened}");
    let recalled = prompt_update(&daemon, "talk-1", "how long does the sourdough rest?");
    assert_eq!(recalled["memories"][0]["path"], "/memories/project/bread.md", "{recalled}");
    let block = recalled["text"].as_str().unwrap();
    assert!(block.starts_with("<recalled_memories>\n"), "{block}");
    assert!(block.contains("rests for eleven hours"), "{block}");
    assert!(!block.contains("Olga"), "{block}");
    assert_eq!(report_event(&daemon, "talk-1", "tool-results", "t1"), json!({}));
    let again = prompt(&daemon, "talk-1", "how long does the sourdough rest?");
    assert_eq!(again, json!({}), "it was shown before");
    assert_eq!(prompt(&daemon, "talk-1", "what do penguins eat?"), json!({}));
}

#[test]
fn a_prompt_without_a_conversation_is_answered_with_reasons() {
    let place = Sandbox::new();
    remembered(&place);
    let daemon = Daemon::start(&place);
    let recalled = done(&daemon.get("/v1/recall?q=how%20long%20does%20the%20sourdough%20rest%3F"));
    assert_eq!(recalled["memories"][0]["path"], "/memories/project/bread.md", "{recalled}");
    assert!(!recalled["memories"][0]["why"].as_str().unwrap().is_empty(), "{recalled}");
    assert!(recalled["text"].as_str().unwrap().contains("rests for eleven hours"), "{recalled}");
    let nothing = done(&daemon.get("/v1/recall?q=what%20do%20penguins%20eat%3F"));
    assert_eq!(nothing, json!({ "text": "", "memories": [] }));
    assert_eq!(daemon.get("/v1/recall?q=%20").status, 400);
    let below = |folder: &str| {
        let found = daemon.get(&format!("/v1/recall?q=sourdough%20rest&path={folder}"));
        done(&found)["memories"].as_array().unwrap().len()
    };
    assert_eq!([below("/memories/project"), below("/memories/global")], [1, 0]);
    assert_eq!(daemon.get("/v1/recall?q=sourdough&path=/etc").status, 400);

    let context = done(&daemon.get("/v1/context"));
    assert!(context["text"].as_str().unwrap().contains("/memories/project/bread.md"), "{context}");
    let small = done(&daemon.get("/v1/context?bytesMax=10"));
    assert_eq!([&small["text"], &small["parts"]], [&json!(""), &json!([])]);
}

#[test]
fn a_reset_drops_the_search_and_the_conversation_continues() {
    let place = Sandbox::new();
    remembered(&place);
    let daemon = Daemon::start(&place);
    open(&daemon, "talk-1");
    let reset = done(&daemon.post(&format!("{SESSIONS}/talk-1/resets"), &json!({})));
    assert_eq!([&reset["sessionId"], &reset["turns"]], [&json!("talk-1"), &json!(0)]);
    assert_eq!(report_event(&daemon, "talk-1", "tool-results", "t1"), json!({}));
    let recalled = prompt_update(&daemon, "talk-1", "how long does the sourdough rest?");
    assert_eq!(recalled["memories"][0]["path"], "/memories/project/bread.md", "{recalled}");
    assert_eq!(daemon.post(&format!("{SESSIONS}/none/resets"), &json!({})).status, 404);
}

#[test]
fn a_conversation_continues_after_a_restart_of_the_daemon() {
    let place = Sandbox::new();
    remembered(&place);
    let daemon = Daemon::start(&place);
    open(&daemon, "talk-1");
    let rest = "how long does the sourdough rest?";
    prompt_update(&daemon, "talk-1", rest);
    assert_eq!(report_event(&daemon, "talk-1", "turns", "end-1")["turns"], 1);
    assert_eq!(report_event(&daemon, "talk-1", "turns", "end-1")["turns"], 1, "said twice");
    report_event(&daemon, "talk-1", "resets", "r-1");
    let upcoming = json!({ "upcoming": true });
    let going_on = done(&daemon.post(&format!("{SESSIONS}/talk-1/compactions"), &upcoming));
    assert_eq!(going_on["segment"], 0, "{going_on}");
    assert_eq!(prompt(&daemon, "talk-1", rest), json!({}), "the model still has it");
    assert_eq!(report_event(&daemon, "talk-1", "compactions", "c-1")["segment"], 1);
    let again = prompt_update(&daemon, "talk-1", rest);
    assert_eq!(again["memories"][0]["path"], "/memories/project/bread.md", "{again}");
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));

    let daemon = Daemon::start(&place);
    let after = report_event(&daemon, "talk-1", "turns", "end-1");
    assert_eq!((&after["turns"], &after["segment"]), (&json!(1), &json!(1)), "{after}");
    let recalled = prompt_update(&daemon, "talk-1", "what do the integration tests need?");
    assert_eq!(recalled["memories"][0]["path"], "/memories/project/tests.md", "{recalled}");
    let again = prompt(&daemon, "talk-1", "how long does the sourdough rest?");
    assert_eq!(again, json!({}), "it was shown in the life before");
    assert_eq!(open(&daemon, "talk-1")["resumed"], true);
}

#[test]
fn an_invalid_conversation_is_refused() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let nowhere = daemon.post(&format!("{SESSIONS}/nobody/prompts"), &json!({ "text": "a" }));
    assert_eq!((nowhere.status, &nowhere.json()["code"]), (404, &json!("session_not_found")));
    let bad = daemon.post(SESSIONS, &json!({ "sessionId": "a b" }));
    assert_eq!((bad.status, &bad.json()["code"]), (400, &json!("invalid_arguments")));
    assert!(bad.json()["error"].as_str().unwrap().contains("1 to 128"), "{}", bad.text());
    let elsewhere = daemon.post(SESSIONS, &json!({ "cwd": "/nowhere" }));
    assert_eq!(elsewhere.json()["code"], "workspace_mismatch", "{}", elsewhere.text());
    let given = done(&daemon.post(SESSIONS, &json!({})));
    let id = given["sessionId"].as_str().unwrap();
    assert_eq!(daemon.ask("DELETE", &format!("{SESSIONS}/{id}")).send().status, 204);
    let text = daemon.post(&format!("{SESSIONS}/{id}/prompts"), &json!({ "txt": "a" }));
    assert_eq!(text.status, 400, "{}", text.text());
}

#[test]
fn the_start_of_a_segment_stays_the_same_until_the_next_one() {
    let place = Sandbox::new();
    remembered(&place);
    let daemon = Daemon::start(&place);
    let open = || done(&daemon.post(SESSIONS, &json!({ "sessionId": "talk-1", "context": true })));
    let first = open()["context"].clone();
    let text = first["text"].as_str().unwrap();
    assert!(
        text.starts_with("<long_term_memory>\n") && text.contains("project/bread.md"),
        "{text}"
    );
    let sum: u64 = first["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(first["tokens"], sum, "{first}");
    place.create("project/new.md", "- Something new.\n");
    assert_eq!(open()["context"], first, "a write moved what was given already");
    let compacted = json!({ "context": true });
    let second = done(&daemon.post(&format!("{SESSIONS}/talk-1/compactions"), &compacted));
    assert_eq!(second["segment"], 1);
    let second = &second["context"];
    assert_ne!(second["revision"], first["revision"]);
    assert!(second["text"].as_str().unwrap().contains("project/new.md"), "{second}");
    let other = done(&daemon.post(SESSIONS, &json!({ "context": true })));
    assert_eq!(other["context"]["revision"], second["revision"], "the same is the same bytes");
}

#[test]
fn the_start_of_a_segment_survives_the_daemon_and_changes_are_shown_once() {
    let place = Sandbox::new();
    remembered(&place);
    let opening = json!({ "sessionId": "talk-1", "context": true });
    let daemon = Daemon::start(&place);
    let first = done(&daemon.post(SESSIONS, &opening));
    assert_eq!(first["changes"], Value::Null, "{first}");
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
    place.create("project/ferry.md", "- It leaves at nine.\n");

    let daemon = Daemon::start(&place);
    let again = done(&daemon.post(SESSIONS, &opening));
    assert_eq!(again["context"], first["context"]);
    let changes = again["changes"]["text"].as_str().unwrap();
    assert!(
        changes.contains("ferry.md [new]\n- It leaves at nine.\n") && !changes.contains("bread.md"),
        "{changes}"
    );
    assert_eq!(done(&daemon.post(SESSIONS, &opening))["changes"], Value::Null, "it was told");

    // Within a turn, changes are checked with the prompt.
    place.create("project/train.md", "- It leaves at ten.\n");
    let mut told = prompt(&daemon, "talk-1", "what do penguins eat?");
    let changes = eventually(|| {
        if let Some(changes) = told["changes"]["text"].as_str() {
            return Ok(changes.to_owned());
        }
        told = done(&daemon.post(&format!("{SESSIONS}/talk-1/tool-results"), &json!({})));
        Err("no change is told")
    });
    assert!(
        changes.contains("train.md [new]\n- It leaves at ten.\n") && !changes.contains("ferry.md"),
        "{changes}"
    );
}
