//! Qwen Code itself, told by `quipu install`, with a scripted model on loopback: what it learns in one session is
//! there in the next.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp_clients::tool;
use crate::place::Place;

/// How long the agent may take for one session.
const PATIENCE: Duration = Duration::from_mins(1);

/// A model that says what it was told to say, one answer after the other.
struct Model {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Model {
    /// Begins to answer with these messages in turn, then with a word.
    fn scripted(script: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut script = script.into_iter();
            for connection in listener.incoming() {
                // An agent that hangs up has what it wanted.
                let Ok(request) = read(connection.as_ref().unwrap()) else { continue };
                heard.lock().unwrap().push(request);
                let done = json!({ "role": "assistant", "content": "Done." });
                answer(connection.unwrap(), &script.next().unwrap_or(done));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(connection: &TcpStream) -> std::io::Result<Value> {
    let mut lines = BufReader::new(connection);
    let (mut line, mut length) = (String::new(), 0);
    while lines.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Answers as a stream of one message and its end.
fn answer(mut connection: TcpStream, message: &Value) {
    let chunk = |delta: &Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let chunk = json!({
            "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
            "choices": [choice],
        });
        format!("data: {chunk}\n\n")
    };
    let reason = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    let stream =
        chunk(message, Value::Null) + &chunk(&json!({}), reason.into()) + "data: [DONE]\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    connection.write_all(format!("{head}{stream}").as_bytes()).unwrap();
}

fn calls(name: &str, arguments: &Value) -> Value {
    let function = json!({ "name": name, "arguments": arguments.to_string() });
    let call = json!({ "index": 0, "id": format!("call-{name}"), "type": "function", "function": function });
    json!({ "role": "assistant", "content": null, "tool_calls": [call] })
}

/// Lets the agent do what it is asked, without a person.
fn session(place: &Place, model: &Model, prompt: &str) -> String {
    let modules = tool("QUIPU_TEST_NODE_MODULES");
    let mut command = place.program(tool("QUIPU_TEST_NODE").to_str().unwrap());
    command
        .arg(modules.join("@qwen-code/qwen-code/cli-entry.js"))
        .args(["--auth-type", "openai", "--approval-mode", "yolo", "-p", prompt])
        .env("OPENAI_API_KEY", "none")
        .env("OPENAI_BASE_URL", &model.url)
        .env("OPENAI_MODEL", "scripted")
        // Nobody but the model is reached, whatever the agent would like to tell its makers.
        .env("HTTPS_PROXY", "http://127.0.0.1:9")
        .env("NO_PROXY", "127.0.0.1");
    let mut command = assert_cmd::Command::from_std(command);
    let ended = place.end(command.timeout(PATIENCE));
    assert_eq!(ended.status, 0, "{ended:?}");
    ended.stdout
}

/// Lets what the agent calls be written down, as if the program lay elsewhere; returns where.
fn called_through_a_script(place: &Place, settings: &Path) -> PathBuf {
    let (program, called) = (env!("CARGO_BIN_EXE_quipu"), place.path().join("called"));
    let body = format!("echo \"$*\" >> '{}'\nexec '{program}' \"$@\"", called.display());
    let script = place.script("quipu", &body);
    let text = fs::read_to_string(settings).unwrap();
    fs::write(settings, text.replace(program, &script)).unwrap();
    called
}

#[test]
fn qwen_code_remembers_in_one_session_and_is_shown_it_in_the_next() {
    let place = Place::new();
    let settings = place.home().join(".qwen/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let quiet = json!({
        "general": { "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
        "memory": { "enableManagedAutoMemory": false },
    });
    fs::write(&settings, format!("{quiet:#}\n")).unwrap();
    place.done(&["install", "qwen"]);
    let called = called_through_a_script(&place, &settings);

    let memory = "---\ndescription: What tea I like\n---\n- Oolong.\n";
    let learn = json!({
        "command": "create", "path": "/memories/global/tea.md", "file_text": memory,
    });
    let call = json!({ "name": "mcp__quipu__memory", "arguments": learn });
    let model = Model::scripted(vec![
        calls("tool_search", &json!({ "query": "select:mcp__quipu__memory" })),
        calls("tool_call", &call),
    ]);
    assert_eq!(session(&place, &model, "I like oolong.").trim(), "Done.");
    let asked = model.asked();
    let first = asked[0]["messages"].to_string();
    assert!(first.contains("(no memory files yet)"), "{first}");
    assert!(first.contains("mcp__quipu__memory"), "{first}");
    let last = asked.last().unwrap()["messages"].to_string();
    assert!(last.contains("File created successfully at: /memories/global/tea.md"), "{last}");
    assert_eq!(place.view("global/tea.md"), memory);

    let model = Model::scripted(Vec::new());
    session(&place, &model, "Which tea?");
    let shown = model.asked()[0]["messages"].to_string();
    assert!(shown.contains("- /memories/global/tea.md — "), "{shown}");
    assert!(shown.contains("What tea I like"), "{shown}");
    // Every hook was understood, or it would stand there.
    assert!(!place.home().join("state/hooks.log").exists());
    let called = fs::read_to_string(called).unwrap();
    // Without a person at it, it tells of no end of a session.
    for event in ["session-start", "user-prompt", "post-tool-use", "stop"] {
        assert!(called.contains(&format!("hook {event} --agent qwen\n")), "{called}");
    }

    // The agent wrote its file anew meanwhile.
    place.done(&["uninstall", "qwen"]);
    let left: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert!(!left.to_string().contains("quipu"), "{left}");
    assert_eq!(left["privacy"], quiet["privacy"]);
}
