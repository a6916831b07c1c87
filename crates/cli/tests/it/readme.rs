//! Tests that the examples in the README and in documents of `docs/` work as printed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::daemon::{Daemon, TOKEN};
use crate::sandbox::Sandbox;

/// A fenced code block of a document.
struct Example {
    /// The nearest heading above it.
    heading: String,
    language: String,
    text: String,
}

fn examples() -> Vec<Example> {
    examples_of("README.md")
}

/// Returns the code blocks of a document, named by its path in the repository.
fn examples_of(document: &str) -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let (mut found, mut heading) = (Vec::<Example>::new(), String::new());
    let mut inside = false;
    for line in fs::read_to_string(path).unwrap().lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(_), true) => inside = false,
            (Some(language), false) => {
                inside = true;
                let (language, text) = (language.to_owned(), String::new());
                found.push(Example { heading: heading.clone(), language, text });
            }
            (None, true) => {
                let example = found.last_mut().unwrap();
                example.text.push_str(line);
                example.text.push('\n');
            }
            (None, false) if line.starts_with('#') => {
                line.trim_start_matches(['#', ' ']).clone_into(&mut heading);
            }
            (None, false) => {}
        }
    }
    found
}

/// Returns the example of a language under a heading, as one value.
fn parsed(heading: &str, language: &str) -> Value {
    let all = examples();
    let mut these = all.iter().filter(|one| one.heading == heading && one.language == language);
    let text = &these.next().unwrap_or_else(|| panic!("{heading} has no {language}")).text;
    assert!(these.next().is_none(), "{heading} has one {language}");
    match language {
        "json" => serde_json::from_str(text).unwrap(),
        "toml" => toml::from_str(text).unwrap(),
        other => panic!("{other}"),
    }
}

#[test]
fn every_example_for_a_client_starts_a_server() {
    for (client, language, key) in [
        ("Claude Code", "json", "mcpServers"),
        ("Codex CLI", "toml", "mcp_servers"),
        ("Gemini CLI", "json", "mcpServers"),
        ("Qwen Code", "json", "mcpServers"),
        ("Cursor", "json", "mcpServers"),
        ("Zed", "json", "context_servers"),
    ] {
        let settings = parsed(client, language);
        let server = &settings[key]["lukasa"];
        assert_eq!(server["command"], "lukasa", "{client}");
        // If a client's settings name the kind of the server, it is this one.
        assert!(server["type"].is_null() || server["type"] == "stdio", "{client}");
        let args: Vec<&str> =
            server["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        let place = Sandbox::new();
        let checkout = place.checkout().display().to_string();
        let args: Vec<&str> = args
            .into_iter()
            .map(|arg| if arg == "/home/you/src/app" { checkout.as_str() } else { arg })
            .collect();
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let start = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let ended = place.run_with(&args, &format!("{start}\n{request}\n"));
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{client}");
        assert!(ended.stdout.contains(r#""name":"memory""#), "{client}: {}", ended.stdout);
    }
}

#[test]
fn the_settings_are_understood() {
    let place = Sandbox::new();
    let all = examples_of("docs/SETTINGS.md");
    let settings = all.iter().find(|one| one.heading == "All settings" && one.language == "toml");
    let text = &settings.unwrap().text;
    // The commented-out example must be valid too.
    fs::write(place.home().join("config.toml"), text.replace("# \"secrets", "\"secrets")).unwrap();
    place.run_ok(&["ls"]);
}

#[test]
fn the_commands_of_the_documents_succeed() {
    for document in
        ["README.md", "docs/START.md", "docs/CURATE.md", "docs/TEAMS.md", "docs/OPERATE.md"]
    {
        // Some show a change, and there must be one.
        let place = Sandbox::with(&[("global/tests.md", "- The tests need a database.\n")]);
        for example in examples_of(document).iter().filter(|one| one.language == "sh") {
            for line in example.text.lines().filter(|line| line.starts_with("lukasa ")) {
                let line = line.split(" | ").next().unwrap().split("  #").next().unwrap();
                let line = line.replace("lukasa ", &format!("{} ", env!("CARGO_BIN_EXE_lukasa")));
                let output = place.program("bash").args(["-c", &line]).output().unwrap();
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{document}: {line}: {stderr}");
            }
        }
    }
}

#[test]
fn every_example_for_the_daemon_is_accepted() {
    let server = &parsed("Over HTTP", "json")["mcpServers"]["lukasa"];
    assert_eq!(server["type"], "http");
    let (place, daemon) = Daemon::in_new_sandbox();
    let path = server["url"].as_str().unwrap().strip_prefix("http://127.0.0.1:4170").unwrap();
    let header = server["headers"]["Authorization"].as_str().unwrap();
    let shown = examples().into_iter().find(|one| one.heading == "Over HTTP").unwrap().text;
    let command = place.run_ok(&["serve", "--help"]);
    assert!(command.contains("4170") && shown.contains("lukasa token"), "{shown}");
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "a client", "version": "1" },
    } });
    let ask = daemon.ask("POST", path).json(&begin);
    let ask = ask.header("Accept", "application/json, text/event-stream");
    let answer = ask.header("Authorization", &header.replace("${LUKASA_TOKEN}", TOKEN)).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.header("Mcp-Session-Id").is_some());
}
