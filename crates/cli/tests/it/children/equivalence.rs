//! One test suite for both runners: the effect of a task does not depend on the process that decides it.

use std::fs;
use std::sync::Arc;

use engine::{
    CuratorRequest, ForgetRequest, Runner, SubmitError, TaskDetails, TaskResult, TaskState,
};
use serde_json::{Value, json};
use testkit::{ModelReply, ModelServer};

use super::{ChildTestEngine, forget, own_child_settings, remember, runner};
use crate::daemon::Daemon;
use crate::sandbox::Sandbox;

/// Returns everything that a person can see of the results, without the values that differ from run to run.
fn visible_state(place: &Sandbox) -> Value {
    let text = |args: &[&str]| place.stable(&place.run_ok(args));
    let mut runs = Vec::new();
    for line in text(&["runs", "--json"]).lines() {
        let mut run: Value = serde_json::from_str(line).unwrap();
        for name in ["task", "workspace", "startedAt", "endedAt", "number"] {
            run.as_object_mut().unwrap().remove(name);
        }
        runs.push(run);
    }
    let mut changes = Vec::new();
    for line in text(&["log", "--json"]).lines() {
        let change: Value = serde_json::from_str(line).unwrap();
        changes.push(json!([
            change["kind"],
            change["actor"],
            change["trust"],
            change["model"],
            change["files"]
        ]));
    }
    let mut files = Vec::new();
    for line in text(&["ls", "--json"]).split("\"path\": \"").skip(1) {
        let path = line.split('"').next().unwrap();
        files.push(json!([path, place.view(path.trim_start_matches("/memories/"))]));
    }
    let pending = text(&["pending", "--json"]);
    json!({ "runs": runs, "changes": changes, "files": files, "pending": pending })
}

/// Runs the same tasks with a runner; returns the outcome of each, and the state at the end.
async fn tour(world: ChildTestEngine) -> Value {
    let mut told = Vec::new();
    let requests = [
        remember("I prefer tabs over spaces."),
        remember("I prefer tabs over spaces."),
        remember("- The pier gate opens at six\n- Deploys to the pier take ten minutes"),
        CuratorRequest::Remember(engine::RememberRequest {
            content: "The build needs make.".to_owned(),
            context_mode: engine::ContextMode::Clean,
            scope: Some(memory::path::Scope::Project),
        }),
        CuratorRequest::Remember(engine::RememberRequest {
            content: "This branch is called blue.".to_owned(),
            context_mode: engine::ContextMode::Workspace,
            scope: Some(memory::path::Scope::Workspace),
        }),
        remember("The key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123."),
        CuratorRequest::Dream,
        forget("the pier gate"),
        forget("something that nobody said"),
        CuratorRequest::Forget(ForgetRequest {
            query: "The build needs make".to_owned(),
            scope: Some(memory::path::Scope::Project),
            file: None,
        }),
        forget("my tabs preference"),
        CuratorRequest::Dream,
    ];
    for request in requests {
        let task = world.done(request).await;
        told.push(match task.state {
            TaskState::Completed(result) => outcome(&result),
            TaskState::Failed(error) => json!([error.code.as_str(), error.details()]),
            other => panic!("{other:?}"),
        });
    }
    let place = world.close().await;
    place.check_healthy();
    json!({ "told": told, "seen": visible_state(&place) })
}

fn outcome(result: &TaskResult) -> Value {
    let mut told = json!({
        "summary": result.summary,
        "scopes": format!("{:?}", result.scopes),
        "changes": format!("{:?}", result.changes),
        "proposals": result.proposals.count(),
    });
    match &result.details {
        TaskDetails::Remember { files_touched, .. } | TaskDetails::Review { files_touched, .. } => {
            told["files"] = format!("{files_touched:?}").into();
        }
        TaskDetails::Forget { removed, topics, candidates, .. } => {
            told["removed"] = format!("{removed:?} {topics:?} {candidates:?}").into();
        }
        TaskDetails::Dream { topics, deduped, .. } => {
            told["dreamt"] = format!("{topics:?} {deduped}").into();
        }
    }
    told
}

/// Returns a sandbox with some memories, one of them pinned and two with the same fact.
fn prepared_sandbox() -> Sandbox {
    let place = Sandbox::new();
    place.create(
        "global/user/tea.md",
        "---\ntype: user\n---\n\n- I drink tea\n- I drink tea\n- The pier is old\n",
    );
    place.create(
        "global/user/dog.md",
        "---\ntype: user\n---\n\n- My dog is called Rex\n- My dog is called Max\n",
    );
    place.run_ok(&["pin", "global/user/tea.md"]);
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_do_the_same_in_a_child() {
    let here = prepared_sandbox();
    let engine = ChildTestEngine::engine(&here);
    let in_process: Arc<dyn Runner> = engine.runner();
    let expected = tour(ChildTestEngine::with(here, engine, in_process)).await;
    let there = prepared_sandbox();
    let child = runner(own_child_settings(&there));
    let found = tour(ChildTestEngine::open(there, child.clone())).await;
    child.close().await;
    assert_eq!(found, expected);
}

/// Returns a model that writes a memory, then selects its entry, then changes nothing.
fn model() -> ModelServer {
    let bees = "---\nname: Bees\ndescription: what I keep\ntype: user\n---\n\n- I keep bees\n";
    let path = "/memories/global/user/bees.md";
    ModelServer::start(move |number, _| match number {
        0 => ModelReply::call("write_file", json!({ "path": path, "content": bees })),
        1 => ModelReply::text("I noted the bees."),
        2 => ModelReply::call("select_entries", json!({ "ids": ["global/user/bees.md:0"] })),
        _ => ModelReply::text("All is in order."),
    })
    .unwrap()
}

fn with_model(place: &Sandbox, server: &ModelServer, more: &str) {
    let text = format!(
        "{more}[models]\ndefault = 'local/small'\n[models.providers.local]\nurl = \"{}\"\n",
        server.url()
    );
    fs::write(place.home().join("config.toml"), text).unwrap();
}

#[test]
fn a_model_does_the_same_in_a_child_and_its_run_is_recorded() {
    let told = |kind: &str| {
        let server = model();
        let place = Sandbox::new();
        with_model(&place, &server, "");
        let daemon = Daemon::start_with(&place, &["--runner", kind]);
        let mut told = Vec::new();
        for (task, body) in [
            ("remember", json!({ "content": "I keep bees." })),
            ("forget", json!({ "query": "that I keep bees" })),
            ("dream", json!({})),
        ] {
            let mut ended = daemon.task(task, &body);
            for name in ["taskId", "createdAt", "updatedAt"] {
                ended.as_object_mut().unwrap().remove(name);
            }
            told.push(ended);
        }
        let metrics = daemon.get("/metrics").text();
        let of_models = metrics.lines().filter(|line| line.starts_with("lukasa_model"));
        let metrics: std::collections::BTreeSet<String> = of_models.map(str::to_owned).collect();
        drop(daemon);
        json!({ "told": told, "seen": visible_state(&place), "metrics": metrics, "asked": server.requests().len() })
    };
    let expected = told("inline");
    assert!(
        expected["seen"]["runs"].to_string().contains("managed-auto-memory-remember"),
        "{expected:#}"
    );
    assert!(expected["seen"]["changes"].to_string().contains("local/small"), "{expected:#}");
    assert_eq!(told("child"), expected);
}

#[test]
fn a_review_is_the_same_in_a_child_and_keeps_its_reason() {
    let told = |kind: &str| {
        let evidence = json!(["m1"]);
        let add = |target: &str, text: &str| {
            let arguments = json!({ "target": target, "text": text, "evidence": evidence });
            ("add_memory".to_owned(), arguments)
        };
        let server = ModelServer::scripted(vec![
            ModelReply::Calls(vec![
                add("user", "I keep bees"),
                add("user", "My key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123"),
                ("delete_memory".to_owned(), json!({ "id": "e1", "evidence": evidence })),
            ]),
            ModelReply::text("Saved one."),
        ])
        .unwrap();
        let place = Sandbox::new();
        place.create("global/user/dog.md", "---\ntype: user\n---\n\n- My dog keeps bees away\n");
        with_model(&place, &server, "memory_review_interval = 1\n");
        let daemon = Daemon::start_with(&place, &["--runner", kind]);
        daemon.post("/v1/sessions", &json!({ "sessionId": "talk" }));
        let messages = json!([{ "role": "user", "text": "I keep bees, and no dog any more" }]);
        daemon.post("/v1/sessions/talk/turns", &json!({ "messages": messages }));
        let [mut review] = crate::reviews::ended(&daemon).try_into().unwrap();
        let id = review["taskId"].as_str().unwrap().to_owned();
        for name in ["taskId", "workspaceId", "createdAt", "updatedAt"] {
            review.as_object_mut().unwrap().remove(name);
        }
        let children = daemon.children().len();
        drop(daemon);
        let change = place.json(&["log", "-n", "1"]);
        assert_eq!(children, usize::from(kind == "child"));
        let seen = visible_state(&place).to_string().replace(&id, "<task>");
        json!([review, change["note"], change["trust"], seen])
    };
    let expected = told("inline");
    assert_eq!(expected[0]["result"]["leftOut"], json!({ "screened": 1 }), "{expected:#}");
    assert_eq!(expected[0]["result"]["proposals"], 1, "{expected:#}");
    assert_eq!(expected[1], "Said in turn 1: “I keep bees, and no dog any more”");
    assert_eq!(told("child"), expected);
}

#[test]
fn the_failure_of_a_model_is_reported_the_same_by_a_child() {
    for fallback in ["none", "rules"] {
        let told = |kind: &str| {
            let server =
                ModelServer::start(|_, _| ModelReply::Status(400, None, "no such model")).unwrap();
            let place = Sandbox::new();
            with_model(&place, &server, "");
            let file = place.home().join("config.toml");
            let text = fs::read_to_string(&file).unwrap();
            let text = text.replace("[models]\n", &format!("[models]\nfallback = '{fallback}'\n"));
            fs::write(&file, text).unwrap();
            let daemon = Daemon::start_with(&place, &["--runner", kind]);
            let ended = daemon.task("remember", &json!({ "content": "I keep bees." }));
            drop(daemon);
            json!([ended["status"], ended["result"], ended["error"], visible_state(&place)])
        };
        let expected = told("inline");
        assert_eq!(told("child"), expected, "{fallback}");
    }
}

#[test]
fn a_model_is_asked_in_a_child_unless_a_person_says_otherwise() {
    let asked_by = |more: &str, flags: &[&str], features: &str| {
        let server = model();
        let place = Sandbox::new();
        with_model(&place, &server, more);
        let mut command = Daemon::command(&place, flags);
        command.env("LUKASA_TOKEN", crate::daemon::TOKEN).env("LUKASA_FEATURES", features);
        let daemon = Daemon::start_by(command);
        daemon.task("remember", &json!({ "content": "I keep bees." }));
        daemon.children().len()
    };
    assert_eq!(asked_by("", &[], ""), 1);
    assert_eq!(asked_by("", &["--runner", "inline"], ""), 0);
    assert_eq!(asked_by("runner = 'in_process'\n", &[], ""), 0);
    assert_eq!(asked_by("runner = 'in_process'\n", &["--runner", "child"], ""), 1);
    assert_eq!(asked_by("", &[], "-child"), 0);
    // The settings of a checkout do not decide it.
    let place = Sandbox::new();
    for name in ["config.toml", ".lukasa/config.toml", "lukasa.toml"] {
        let path = place.checkout().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "runner = \"child\"\n").unwrap();
    }
    let daemon = Daemon::start(&place);
    daemon.task("remember", &json!({ "content": "I keep bees." }));
    assert_eq!(daemon.children(), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_off_in_the_child_is_unavailable_at_once() {
    let place = Sandbox::new();
    let mut settings = own_child_settings(&place);
    settings.environment.push(("LUKASA_FEATURES".into(), "-tasks".into()));
    let world = ChildTestEngine::open(place, runner(settings));
    let by = engine::Requester::client("test", None);
    let refused = world.lanes.submit(&world.workspace, remember("I keep bees."), by).await;
    assert!(matches!(refused, Err(SubmitError::Unavailable)), "{refused:?}");
}
