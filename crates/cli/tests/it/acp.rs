//! Tests of `lukasa acp`, which clients of the Agent Client Protocol start: over pipes, with raw messages and with
//! libraries of other authors.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{ModelReply, ModelServer, eventually};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

use crate::daemon::PATIENCE;
use crate::mcp_clients::tool;
use crate::sandbox::{Sandbox, pretty};

const METHODS: &str = "qwen/control/workspace/memory/";

/// An agent that is killed when the test ends.
struct AcpAgent {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    calls: u64,
}

impl Drop for AcpAgent {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}

impl AcpAgent {
    fn start(place: &Sandbox) -> Self {
        Self::start_by(place.command(&["acp"]))
    }

    fn start_by(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output, calls: 0 }
    }

    /// Starts an agent and initializes it.
    fn start_initialized(place: &Sandbox) -> Self {
        let mut agent = Self::start(place);
        agent.call("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        agent
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.calls += 1;
        let call =
            json!({ "jsonrpc": "2.0", "id": self.calls, "method": method, "params": params });
        writeln!(self.input.as_mut().unwrap(), "{call}").unwrap();
        self.calls
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    /// Sends a call and returns its answer.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        loop {
            let heard = self.receive();
            assert_ne!(heard, Value::Null, "the agent ended at `{method}`");
            if heard["id"] == id {
                return heard;
            }
        }
    }

    /// Calls one of our own methods.
    fn ask(&mut self, name: &str, params: &Value) -> Value {
        self.call(&format!("_{METHODS}{name}"), params)
    }

    /// Calls one of our own methods, which must succeed.
    fn done(&mut self, name: &str, params: &Value) -> Value {
        let answer = self.ask(name, params);
        assert_eq!(answer.get("error"), None, "{answer}");
        answer["result"].clone()
    }

    /// Waits for the end, which must come soon.
    fn ended(&mut self) -> Option<i32> {
        eventually(|| self.process.try_wait().unwrap().ok_or("the agent goes on")).code()
    }
}

fn answer_text(answer: &Value) -> String {
    let error = &answer["error"];
    format!("{} {} {}", error["code"], error["data"]["errorKind"], error["message"])
}

#[test]
fn an_agent_declares_only_its_own_capabilities() {
    let place = Sandbox::new();
    for asked in [1, 0, 7, 65_535] {
        let mut agent = AcpAgent::start(&place);
        let early = agent.ask("remember/availability", &json!({}));
        assert_eq!(early["error"]["code"], -32600, "nobody greeted it: {early}");
        let greeting = agent
            .call("initialize", &json!({ "protocolVersion": asked, "clientCapabilities": {} }));
        let mut greeting = greeting["result"].clone();
        assert_eq!(greeting["agentInfo"]["version"], env!("CARGO_PKG_VERSION"));
        greeting["agentInfo"].as_object_mut().unwrap().remove("version");
        insta::allow_duplicates! {
            insta::assert_snapshot!(pretty(&greeting), @r#"
            {
              "protocolVersion": 1,
              "agentCapabilities": {
                "loadSession": false,
                "promptCapabilities": {
                  "image": false,
                  "audio": false,
                  "embeddedContext": false
                },
                "mcpCapabilities": {
                  "http": false,
                  "sse": false
                },
                "sessionCapabilities": {},
                "auth": {},
                "_meta": {
                  "lukasa": {
                    "extMethods": [
                      "qwen/control/workspace/memory/remember/availability",
                      "qwen/control/workspace/memory/remember",
                      "qwen/control/workspace/memory/forget",
                      "qwen/control/workspace/memory/dream"
                    ],
                    "stage": 1,
                    "sessions": false
                  }
                }
              },
              "authMethods": [],
              "agentInfo": {
                "name": "lukasa",
                "title": "Lukasa"
              }
            }
            "#);
        }
    }
}

#[test]
fn sessions_and_unknown_methods_are_not_supported() {
    let place = Sandbox::new();
    let mut agent = AcpAgent::start_initialized(&place);
    let session = json!({ "sessionId": "s", "cwd": place.checkout(), "mcpServers": [] });
    for method in [
        "session/new",
        "session/load",
        "session/resume",
        "session/list",
        "session/prompt",
        "session/set_mode",
        "authenticate",
    ] {
        let refused = agent.call(method, &session);
        assert_eq!(
            answer_text(&refused),
            "-32601 \"no_sessions\" \"Method not found\"",
            "{method}"
        );
    }
    for method in ["somebody/else", "_somebody/else", "__qwen/control/workspace/memory/dream"] {
        assert_eq!(agent.call(method, &json!({}))["error"]["code"], -32601, "{method}");
    }
    // The agent still answers, and has created nothing.
    assert_eq!(agent.done("remember/availability", &json!({})), json!({ "available": true }));
    assert!(!place.home().join("memory").exists());
}

#[test]
fn a_task_of_any_client_runs_in_the_lane() {
    let place = Sandbox::new();
    let mut agent = AcpAgent::start_initialized(&place);
    let bare = format!("{METHODS}remember");
    let answer = agent.call(&bare, &json!({ "content": "I keep bees in the garden." }));
    insta::assert_snapshot!(pretty(&answer["result"]), @r#"
    {
      "summary": "Saved to the global memories: 1 new, 0 updated, 0 known already.",
      "filesTouched": [
        "/memories/global/user/keep-bees-garden.md"
      ],
      "touchedScopes": [
        "user"
      ],
      "changes": [
        {
          "filePath": "/memories/global/user/keep-bees-garden.md",
          "action": "added",
          "summary": "I keep bees in the garden"
        }
      ]
    }
    "#);
    let again = agent.done("remember", &json!({ "content": "I keep bees in the garden." }));
    assert_eq!(again["filesTouched"], json!([]));
    assert!(place.view("global/user/keep-bees-garden.md").contains("- I keep bees in the garden"));
    let change = place.json(&["log", "-n", "1"]);
    assert_eq!((&change["actor"], &change["origin"]), (&json!("task"), &json!("acp")), "{change}");
    // The call's folder determines the project.
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join(".git")).unwrap();
    let params =
        json!({ "content": "Deploys take ten minutes.", "scope": "project", "cwd": elsewhere });
    agent.done("remember", &params);
    assert!(elsewhere.join(".lukasa/memory").exists());
    assert!(!place.checkout().join(".lukasa").exists());
    let gone = agent.done("forget", &json!({ "query": "everything about bees" }));
    assert_eq!(gone["summary"], "Forgot 1 memory entry.");
    let dreamt = agent.done("dream", &json!({}));
    assert_eq!(dreamt["summary"], "Managed auto-memory dream completed. Nothing to tidy up.");
    assert_eq!(dreamt["dedupedEntries"], 0);
    place.run_ok(&["undo", "-y"]);
    place.check_healthy();
}

#[test]
fn errors_equal_those_of_the_http_api() {
    let place = Sandbox::new();
    let mut agent = AcpAgent::start_initialized(&place);
    let mut check = |name: &str, params: Value, expected: &str| {
        let answer = agent.ask(name, &params);
        assert_eq!(answer_text(&answer), expected, "{name} {params:.80}");
    };
    let content = "-32602 \"invalid_content\" \"`content` must be a text that is not blank and has at most 65,536 bytes of UTF-8.\"";
    check("remember", json!({}), content);
    check("remember", json!({ "content": 7 }), content);
    check("remember", json!({ "content": " \n" }), content);
    check("remember", json!({ "content": "a".repeat(65_537) }), content);
    check(
        "remember",
        json!({ "content": "a", "contextMode": "all" }),
        "-32602 \"invalid_context_mode\" \"`contextMode` must be `workspace` or `clean`.\"",
    );
    let query = "-32602 \"invalid_query\" \"The query must be a text that is not blank and has at most 65,536 bytes of UTF-8.\"";
    check("forget", json!({ "content": "a" }), query);
    check("forget", json!({ "query": "" }), query);
    for cwd in [json!("here"), json!(7)] {
        let expected = "-32602 \"invalid_arguments\" \"`cwd` must be an absolute path\"";
        check("dream", json!({ "cwd": cwd }), expected);
    }
    let nowhere = "-32602 \"workspace_mismatch\" \"`cwd` is not a folder: /nowhere/at/all\"";
    check("remember", json!({ "content": "a", "cwd": "/nowhere/at/all" }), nowhere);
    let secret = "The key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123.";
    let screened =
        "-32099 \"screened\" \"The text looks like a secret or like an attack on a model.\"";
    check("remember", json!({ "content": secret }), screened);
    assert_eq!(place.run_ok(&["ls"]), "");
}

#[test]
fn memory_that_is_off_is_unavailable() {
    let place = Sandbox::new();
    let mut command = place.command(&["acp"]);
    command.env("LUKASA_FEATURES", "-tasks");
    let mut agent = AcpAgent::start_by(command);
    agent.call("initialize", &json!({ "protocolVersion": 1 }));
    assert_eq!(agent.done("remember/availability", &json!({})), json!({ "available": false }));
    let refused = agent.ask("remember", &json!({ "content": "I keep bees." }));
    assert_eq!(
        answer_text(&refused),
        "-32009 \"feature_disabled\" \"A person switched this off. `feature` names it.\""
    );
    let mut command = place.lukasa(&["acp"]);
    let ended = place.run_command(command.env("LUKASA_FEATURES", "-child").write_stdin(""));
    assert_eq!(ended.status, 4, "{}", ended.stderr);
}

#[test]
fn a_staged_attempt_is_answered_with_its_edits_and_changes_nothing() {
    let place = Sandbox::with(&[("global/user/tea.md", "---\ntype: user\n---\n\n- I drink tea\n")]);
    let mut agent = AcpAgent::start_initialized(&place);
    let workspace = json!({
        "cwd": { "local": { "Unix": place.checkout().as_os_str().as_encoded_bytes() } },
        "project": { "local": { "Unix": place.checkout().as_os_str().as_encoded_bytes() } },
        "noProject": null, "projectOnHost": false, "workspaceId": null, "ofCheckout": true,
        "flat": null, "readOnly": false,
    });
    let staged = |task: &str, more: Value| {
        let stage = json!({ "v": 1, "task": task, "workspace": workspace });
        let mut params = json!({ "_meta": { "lukasa": { "stage": stage } } });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let id = "0b7f1f66-2a1f-4f0e-9d2b-3c1a5d8e9f00";
    let asked = staged(&format!("forget-{id}"), json!({ "query": "I drink tea" }));
    let answer = agent.done("forget", &asked);
    let base =
        memory::document::Revision::digest("---\ntype: user\n---\n\n- I drink tea\n".as_bytes());
    let edit =
        json!({ "path": "/memories/global/user/tea.md", "base": base.to_string(), "text": null });
    assert_eq!(answer["edits"], json!([edit]), "{answer}");
    assert_eq!(answer["summary"], "Forgot 1 memory entry.");
    assert_eq!((&answer["scopes"], &answer["decidedBy"]), (&json!(["global"]), &Value::Null));
    assert_eq!(answer["report"]["turns"], 0);
    let asked = staged(&format!("remember-{id}"), json!({ "content": "I keep bees." }));
    let answer = agent.done("remember", &asked);
    assert_eq!(answer["edits"][0]["base"], Value::Null);
    assert!(answer["edits"][0]["text"].as_str().unwrap().contains("- I keep bees"), "{answer}");
    // An unknown call is refused, and so is another version.
    for wrong in [json!({ "task": "remember-1" }), json!({ "v": 2 }), json!({ "workspace": 7 })] {
        let mut asked = asked.clone();
        let stage = asked["_meta"]["lukasa"]["stage"].as_object_mut().unwrap();
        stage.extend(wrong.as_object().unwrap().clone());
        assert_eq!(agent.ask("remember", &asked)["error"]["code"], -32602, "{wrong}");
    }
    assert_eq!(place.view("global/user/tea.md"), "---\ntype: user\n---\n\n- I drink tea\n");
    assert_eq!(place.run_ok(&["ls", "--json"]).matches("\"path\"").count(), 1);
    assert_eq!(place.json(&["tasks"])["tasks"], json!([]));
}

#[test]
fn an_agent_ends_with_its_client_during_a_model_call() {
    let server = ModelServer::start(|_, _| ModelReply::Nothing).unwrap();
    let place = Sandbox::new();
    let (mut agent, _) = start_waiting_task(&place, &server);
    let began = Instant::now();
    drop(agent.input.take());
    assert_eq!(agent.ended(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // The task was accepted, and waits for a worker.
    let tasks = place.json(&["tasks"]);
    assert_eq!(tasks["tasks"][0]["status"], "queued", "{tasks}");
}

/// Starts an agent whose model never answers, and starts a remember; returns when the model has the request.
fn start_waiting_task(place: &Sandbox, server: &ModelServer) -> (AcpAgent, u64) {
    let url = server.url();
    let settings =
        format!("[models]\ndefault = 'local/m'\n[models.providers.local]\nurl = \"{url}\"\n");
    fs::write(place.home().join("config.toml"), settings).unwrap();
    let mut agent = AcpAgent::start_initialized(place);
    let id = agent.send(&format!("_{METHODS}remember"), &json!({ "content": "I keep bees." }));
    server.wait_for_requests(1);
    assert_eq!(server.requests().len(), 1);
    (agent, id)
}

#[test]
fn a_cancelled_call_cancels_its_task() {
    let server = ModelServer::start(|_, _| ModelReply::Nothing).unwrap();
    let place = Sandbox::new();
    let (mut agent, id) = start_waiting_task(&place, &server);
    // Other calls are answered meanwhile.
    assert_eq!(agent.done("remember/availability", &json!({})), json!({ "available": true }));
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id } });
    writeln!(agent.input.as_mut().unwrap(), "{cancel}").unwrap();
    let answer = agent.receive();
    assert_eq!(answer["id"], id);
    assert_eq!(answer_text(&answer), "-32099 \"cancelled\" \"The task was cancelled.\"");
    // The call is answered at once, and the task stops a little later.
    drop(agent.input.take());
    agent.ended();
    let task = &place.json(&["tasks"])["tasks"][0];
    assert_eq!(task["status"], "failed", "{task}");
    assert_eq!(place.run_ok(&["ls"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_given_up_in_time() {
    let server = ModelServer::start(|_, _| ModelReply::Nothing).unwrap();
    let place = Sandbox::new();
    let folders = engine::BaseFolders { state: place.home().join("state"), data: place.home() };
    let mut config = engine::Config::new(folders);
    let address =
        engine::Address::parse(&server.url(), engine::PlaintextReach::ThisMachine).unwrap();
    let chat = engine::Chat::new(engine::ChatProtocol::OpenAi, address, "m", engine::ApiKey::None);
    config.models.set(engine::ModelJob::Remember, Some(chat));
    let engine = engine::Engine::open(config).unwrap();
    let lanes = engine.lanes(engine.lane_settings(), std::sync::Arc::new(engine::NullFeed));
    let here = engine::Workspace::new(place.checkout(), engine::BindingRequest::default());
    let find = std::sync::Arc::new(move |_: Option<&Path>| Ok(here.clone()));
    let mut host = server::acp::AcpConfig::new(lanes, find, "0");
    assert_eq!(host.deadline, Duration::from_secs(295));
    host.deadline = Duration::from_millis(300);
    let (ours, theirs) = tokio::io::duplex(65_536);
    let (input, output) = tokio::io::split(theirs);
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(server::acp::serve(host, input, output, stop));
    let (output, mut input) = tokio::io::split(ours);
    let mut answered = tokio::io::BufReader::new(output).lines();
    let mut answers = Vec::new();
    for (method, params) in [
        ("initialize", json!({ "protocolVersion": 1 })),
        ("_qwen/control/workspace/memory/remember", json!({ "content": "I keep bees." })),
    ] {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        input.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        let line = answered.next_line().await.unwrap().unwrap();
        answers.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    let expected = "-32099 \"timeout\" \"The task took too long and was given up.\"";
    assert_eq!(answer_text(&answers[1]), expected);
    input.shutdown().await.unwrap();
    drop((input, answered));
    serving.await.unwrap().unwrap();
    engine.close().await;
}

#[test]
fn a_line_without_end_ends_the_agent() {
    let place = Sandbox::new();
    let mut agent = AcpAgent::start_initialized(&place);
    let mut input = agent.input.take().unwrap();
    let part = vec![b'x'; 1024 * 1024];
    for _ in 0..100 {
        if input.write_all(&part).is_err() {
            break;
        }
    }
    assert_eq!(agent.ended(), Some(6));
}

#[test]
fn libraries_of_other_authors_can_drive_the_agent() {
    for library in ["@agentclientprotocol/sdk", "@zed-industries/agent-client-protocol"] {
        let place = Sandbox::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/acp.mjs");
        let mut client = place.program(tool("LUKASA_TEST_NODE").to_str().unwrap());
        client
            .arg(script)
            .arg(tool("LUKASA_TEST_NODE_MODULES").join(library))
            .arg(env!("CARGO_BIN_EXE_lukasa"))
            .arg(place.checkout());
        let output = assert_cmd::Command::from_std(client).timeout(PATIENCE).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{library}: {complaint}");
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = json!({
            "protocolVersion": 1,
            "name": "lukasa",
            "loadSession": false,
            "available": true,
            "remembered": [1, ["user"]],
            "known": 0,
            "dreamt": "Managed auto-memory dream completed. Nothing to tidy up.",
            "forgotten": ["Forgot 1 memory entry.", 1, ["user"]],
            "blank": { "code": -32602, "errorKind": "invalid_content" },
            "mode": { "code": -32602, "errorKind": "invalid_context_mode" },
            "query": { "code": -32602, "errorKind": "invalid_query" },
            "unknown": -32601,
            "session": { "code": -32601, "errorKind": "no_sessions" },
            "prompt": { "code": -32601, "errorKind": "no_sessions" },
            "status": 0,
        });
        assert_eq!(seen, expected, "{library} {complaint}");
    }
}
