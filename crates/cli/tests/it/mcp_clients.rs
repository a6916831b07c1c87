//! Tests of MCP clients by other authors, which start the program or reach it over HTTP.
//!
//! Each client acts as a host application. It lists the tool, calls all six commands, receives one refusal, lists and
//! reads resources, and receives a notification of an external edit.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that cannot go on ends its test, and tests look at the files themselves"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::daemon::{Daemon, TOKEN};

/// The time limit of a client, which starts its own runtime.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns the path of a tool that `cargo xtask` installs.
pub(crate) fn tool(variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(
        || {
            panic!(
                "{variable} is not set: run `cargo xtask test`, or set what `cargo xtask tools` \
                 prints"
            )
        },
        PathBuf::from,
    )
}

fn client_script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// The program that clients start.
const LUKASA: &str = env!("CARGO_BIN_EXE_lukasa");

/// A throw-away home, and the memory that clients leave in it.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn memory(&self) -> PathBuf {
        self.folder.path().join("memory/kept.md")
    }

    /// Starts a daemon that sees this home.
    fn daemon(&self) -> Daemon {
        let mut command = std::process::Command::new(LUKASA);
        command.env("LUKASA_HOME", self.folder.path()).env("LUKASA_TOKEN", TOKEN);
        command.current_dir(self.folder.path()).args(["serve", "--port", "0", "--json"]);
        Daemon::start_by(command)
    }

    /// Returns a command that sees this home and works outside of any checkout.
    fn command(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        command.env("LUKASA_HOME", self.folder.path());
        command.current_dir(self.folder.path()).timeout(PATIENCE);
        command
    }
}

/// Runs a command that must succeed and returns the JSON that it prints.
fn json_of(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?} {complaint}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {complaint}", String::from_utf8_lossy(&output.stdout))
    })
}

/// The refusal of a call.
struct ExpectedRefusal {
    code: &'static str,
    text: &'static str,
}

/// Returns the arguments of each call, with the expected answer.
fn calls() -> Vec<(Value, Result<&'static str, ExpectedRefusal>)> {
    let (first, kept) = ("/memories/global/first.md", "/memories/global/kept.md");
    vec![
        (
            json!({ "command": "create", "path": first, "file_text": "one\ntwo\n" }),
            Ok("File created successfully at: /memories/global/first.md"),
        ),
        (
            json!({ "command": "create", "path": first, "file_text": "again" }),
            Err(ExpectedRefusal {
                code: "already_exists",
                text: "File /memories/global/first.md already exists",
            }),
        ),
        (
            json!({ "command": "str_replace", "path": first, "old_str": "two", "new_str": "second" }),
            Ok("The memory file has been edited. Here is the snippet showing the change (with \
                line numbers):\n     1\tone\n     2\tsecond\n     3\t"),
        ),
        (
            json!({ "command": "insert", "path": first, "insert_line": 2, "insert_text": "three" }),
            Ok("The file /memories/global/first.md has been edited."),
        ),
        (
            json!({ "command": "rename", "old_path": first, "new_path": kept }),
            Ok("Successfully renamed /memories/global/first.md to /memories/global/kept.md"),
        ),
        (
            json!({ "command": "view", "path": kept }),
            Ok(
                "Here's the content of /memories/global/kept.md with line numbers:\n     1\tone\n     \
                 2\tsecond\n     3\tthree\n     4\t",
            ),
        ),
        (
            json!({ "command": "create", "path": "/memories/global/gone.md", "file_text": "x\n" }),
            Ok("File created successfully at: /memories/global/gone.md"),
        ),
        (
            json!({ "command": "delete", "path": "/memories/global/gone.md" }),
            Ok("Successfully deleted /memories/global/gone.md"),
        ),
    ]
}

/// Runs a client through all steps with the program or the daemon, and compares its report.
fn check(revision: &str, way: TransportKind, client: impl FnOnce(&Home, &str) -> Command) {
    let home = Home::new();
    let daemon = (way == TransportKind::Http).then(|| home.daemon());
    let server = daemon.as_ref().map_or(LUKASA.to_owned(), |daemon| {
        format!("{}/mcp", daemon.log_lines["url"].as_str().unwrap())
    });
    let arguments: Vec<Value> = calls().into_iter().map(|(arguments, _)| arguments).collect();
    let mut client = client(&home, &server);
    client.env("LUKASA_TOKEN", TOKEN).write_stdin(json!(arguments).to_string());
    let seen = json_of(&mut client);
    let answers: Vec<Value> = calls()
        .into_iter()
        .map(|(_, answer)| match answer {
            Ok(text) => json!({ "ok": true, "code": null, "isError": false, "text": text }),
            Err(ExpectedRefusal { code, text }) => {
                json!({ "ok": false, "code": code, "isError": true, "text": text })
            }
        })
        .collect();
    let expected = json!({
        "revision": revision,
        "tools": ["memory", "recall", "view_memory", "save_memory"],
        "calls": answers,
        "resources": ["lukasa://memories/global/kept.md"],
        "read": "one\nsecond\nthree\n",
        "updated": "lukasa://memories/global/kept.md",
        "readAgain": "edited outside\n",
    });
    assert_eq!(seen, expected, "{revision}");
}

/// The transport of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    /// The client starts the program and uses pipes.
    Pipes,
    Http,
}

fn npm_client(revision: &str, way: TransportKind) {
    check(revision, way, |home, server| {
        let mut command = home.command(tool("LUKASA_TEST_NODE"));
        command.arg(client_script("sdk.mjs")).arg(tool("LUKASA_TEST_NODE_MODULES"));
        command.args([server, revision]).arg(home.memory());
        command
    });
}

fn python_client(revision: &str, way: TransportKind) {
    check(revision, way, |home, server| {
        let mut command = home.command(tool("LUKASA_TEST_PYTHON"));
        command.arg(client_script("sdk.py")).args([server, revision]).arg(home.memory());
        command
    });
}

#[test]
fn the_npm_client_is_served_in_the_oldest_and_the_last_revision_with_a_handshake() {
    npm_client("2024-11-05", TransportKind::Pipes);
    npm_client("2025-11-25", TransportKind::Pipes);
}

#[test]
fn the_npm_client_is_served_over_http() {
    npm_client("2024-11-05", TransportKind::Http);
    npm_client("2025-11-25", TransportKind::Http);
}

#[test]
fn the_python_client_is_served_in_the_newest_revision_and_the_one_before() {
    python_client("2025-11-25", TransportKind::Pipes);
    python_client("2026-07-28", TransportKind::Pipes);
}

#[test]
fn the_python_client_is_served_over_http() {
    python_client("2025-11-25", TransportKind::Http);
    python_client("2026-07-28", TransportKind::Http);
}

/// Every keyword of a schema that is a list of types, a `null` in an `enum`, or `additionalProperties`.
fn keywords_that_gemini_refuses(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                let refused = match name.as_str() {
                    "type" => !value.is_string() && !value.is_object(),
                    "enum" => value.as_array().is_some_and(|values| values.contains(&Value::Null)),
                    "additionalProperties" | "additional_properties" => true,
                    _ => false,
                };
                if refused {
                    found.push(format!("{name}: {value}"));
                }
                found.extend(keywords_that_gemini_refuses(value));
            }
        }
        Value::Array(values) => found.extend(values.iter().flat_map(keywords_that_gemini_refuses)),
        _ => {}
    }
    found
}

#[test]
fn the_converters_of_the_sdks_accept_every_schema_and_pass_on_the_text() {
    let home = Home::new();
    let mut command = home.command(tool("LUKASA_TEST_PYTHON"));
    let seen = json_of(command.arg(client_script("schemas.py")).arg(LUKASA));
    let tools = seen["tools"].as_object().unwrap();
    assert_eq!(
        tools.keys().collect::<Vec<_>>(),
        ["memory", "recall", "view_memory", "save_memory"]
    );
    for (tool, converted) in tools {
        for (converter, made) in converted.as_object().unwrap() {
            assert!(made.get("error").is_none(), "{tool} {converter}: {made}");
            assert!(made.to_string().contains("description"), "{tool} {converter}: {made}");
        }
        for gemini in ["gemini_mcp", "gemini_schema", "pydantic_ai_gemini"] {
            let none: [&str; 0] = [];
            assert_eq!(keywords_that_gemini_refuses(&converted[gemini]), none, "{tool} {gemini}");
        }
    }
    assert_eq!(
        seen["view"],
        "Here's the content of /memories/global/tea.md with line numbers:\n     \
         1\t- Oolong is the tea I like.\n     2\t"
    );
    let recalled = seen["recall"].as_str().unwrap();
    assert!(recalled.contains("Oolong is the tea I like."), "{recalled}");
}

/// Returns a command of the inspector, which sends one request in a run.
fn inspector(home: &Home, era: &str, method: &str) -> Command {
    let mut command = home.command(tool("LUKASA_TEST_NODE"));
    command.arg(tool("LUKASA_TEST_NODE_MODULES").join(".bin/mcp-inspector"));
    command.arg("--cli").arg("-e").arg(format!("LUKASA_HOME={}", home.folder.path().display()));
    command.args([LUKASA, "mcp", "--protocol-era", era, "--method", method]);
    command
}

/// Runs all steps with the inspector, which starts a server for each request.
fn inspect(era: &str) {
    let home = Home::new();
    let listed = json_of(inspector(&home, era, "tools/list").arg("--strict"));
    assert_eq!(listed["tools"][0]["name"], "memory", "{era}");
    for (arguments, answer) in calls() {
        let mut call = inspector(&home, era, "tools/call");
        call.args(["--tool-name", "memory", "--tool-arg"]);
        for (field, value) in arguments.as_object().unwrap() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            call.arg(format!("{field}={value}"));
        }
        let output = call.output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let shown = (output.status.success(), result["content"][0]["text"].as_str());
        match answer {
            Ok(text) => assert_eq!(shown, (true, Some(text)), "{era} {arguments}"),
            Err(ExpectedRefusal { code, text }) => {
                assert_eq!(shown, (false, Some(text)), "{era} {arguments}");
                assert_eq!(result["_meta"]["lukasa"]["code"], code);
            }
        }
    }
    let resources = json_of(&mut inspector(&home, era, "resources/list"));
    let uri = "lukasa://memories/global/kept.md";
    assert_eq!(resources["resources"][0]["uri"], uri, "{era}");
    let read = json_of(inspector(&home, era, "resources/read").args(["--uri", uri]));
    assert_eq!(read["contents"][0]["text"], fs::read_to_string(home.memory()).unwrap());
}

#[test]
fn the_inspector_is_served_with_a_handshake() {
    inspect("legacy");
}

#[test]
fn the_inspector_is_served_without_a_handshake() {
    inspect("modern");
}

#[test]
fn the_daemon_serves_the_memory_tool_of_the_python_sdk() {
    let home = Home::new();
    let daemon = home.daemon();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/EMBEDDING.md");
    let mut client = home.command(tool("LUKASA_TEST_PYTHON"));
    client.arg(client_script("memory_tool.py")).arg(document);
    client.env("LUKASA_URL", daemon.log_lines["url"].as_str().unwrap()).env("LUKASA_TOKEN", TOKEN);
    let arguments: Vec<Value> = calls().into_iter().map(|(arguments, _)| arguments).collect();
    let seen = json_of(client.write_stdin(json!(arguments).to_string()));
    assert_eq!(seen["declared"], json!({ "type": "memory_20250818", "name": "memory" }));
    let answers = calls().into_iter().map(|(_, answer)| match answer {
        Ok(text) => json!({ "ok": true, "text": text }),
        Err(ExpectedRefusal { text, .. }) => json!({ "ok": false, "text": text }),
    });
    assert_eq!(seen["answers"], answers.collect::<Value>());
    assert_eq!(fs::read_to_string(home.memory()).unwrap(), "one\nsecond\nthree\n");
}
