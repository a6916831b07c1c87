//! Trials of the packages for agents: each is loaded as its agent loads it, in an empty home and without a network.
//!
//! Claude Code itself installs its plugin. For the other agents, the commands of the servers and hooks are read from the
//! installed package and started as the agent starts them. The agents themselves were tried by hand.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::{Value, json};

use crate::cargo;
use crate::dist::Release;
use crate::dist::mcp::McpServer;
use crate::dist::trial::{BareRoot, EmptyHome, FACT, QUESTION};
use crate::tools::Tools;

/// The memory that the trials create.
const MEMORY: &str = "/memories/global/boats.md";

/// The start of the text that a model gets when its session begins.
const OPENING: &str = "<long_term_memory>";

/// Loads the plugin of opencode. Prints the settings with its server, its effect on other settings, and the parts of a message.
const OPENCODE_SCRIPT: &str = r#"
import { Lukasa } from "@lukasa/opencode"
const plugin = await Lukasa({ directory: process.cwd() })
const settings = {}
await plugin.config(settings)
const own = { mcp: { lukasa: { enabled: false } } }
await plugin.config(own)
const parts = [{ id: "prt_1", type: "text", text: process.argv[2] }]
await plugin["chat.message"]({}, { message: { id: "msg_1", sessionID: "ses_1" }, parts })
console.log(JSON.stringify({ settings, own, parts }))
"#;

/// Has Claude Code install the plugin from its folder, and uses the server and the hooks.
pub(super) fn try_claude_code(
    tools: &Tools,
    folder: &Path,
    (file, release): (&Path, &Release),
) -> anyhow::Result<()> {
    let home = EmptyHome(folder.to_owned());
    let plugin = extract(file, folder)?;
    let package = format!("@anthropic-ai/claude-code-{}/claude", release.target.npm_name());
    let program = tools.npm_file(&package)?;
    let claude = |arguments: &[&str]| {
        let mut claude = with_program(&home, &program, release)?;
        claude.args(arguments).env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        cargo::output(&mut claude)
    };
    let path = plugin.to_str().context("the folder has a name of text")?;
    claude(&["plugin", "validate", "--strict", path])?;
    // What the public list of plugins refuses. Its warnings are about an icon.
    claude(&["plugin", "validate", "--profile", "directory", path])?;
    claude(&["plugin", "marketplace", "add", path])?;
    claude(&["plugin", "install", "lukasa@lukasa"])?;
    let servers = claude(&["mcp", "list"])?;
    anyhow::ensure!(servers.contains("Connected"), "the server does not start: {servers}");

    let servers = read_json(&plugin.join(".mcp.json"))?;
    use_server(&mut server_command(&home, &servers["mcpServers"], release)?, release)?;
    use_hooks(&home, &plugin, release)?;
    claude(&["plugin", "uninstall", "lukasa@lukasa"])?;
    home.check_memory()
}

/// Uses the server and the hooks of the extension of Gemini CLI.
pub(super) fn try_gemini(folder: &Path, (file, release): (&Path, &Release)) -> anyhow::Result<()> {
    let home = EmptyHome(folder.to_owned());
    let extension = extract(file, folder)?;
    let manifest = read_json(&extension.join("gemini-extension.json"))?;
    anyhow::ensure!(manifest["version"] == release.version, "it is another version");
    use_server(&mut server_command(&home, &manifest["mcpServers"], release)?, release)?;
    use_hooks(&home, &extension, release)?;
    fs::remove_dir_all(extension)?;
    home.check_memory()
}

/// Installs the package for opencode, and calls it as opencode does.
pub(super) fn try_opencode(
    tools: &Tools,
    folder: &Path,
    (file, release): (&Path, &Release),
) -> anyhow::Result<()> {
    let home = EmptyHome(folder.to_owned());
    let mut npm = home.command("npm");
    npm.env("PATH", tools.search_path()).args(["install", "--offline", "--silent"]).arg(file);
    cargo::output(&mut npm)?;
    let script = folder.join("load.mjs");
    fs::write(&script, OPENCODE_SCRIPT)?;
    let node = tools.node_program()?;
    let load = || {
        let mut node = with_program(&home, &node, release)?;
        let printed = cargo::output(node.arg(&script).arg(QUESTION))?;
        anyhow::Ok(serde_json::from_str::<Value>(&printed)?)
    };
    let loaded = load()?;
    let unchanged = json!({ "mcp": { "lukasa": { "enabled": false } } });
    anyhow::ensure!(loaded["own"] == unchanged, "it changes a server of the person's settings");
    let words = loaded["settings"]["mcp"]["lukasa"]["command"].as_array();
    let words = words.context("the plugin adds no server")?.iter().filter_map(Value::as_str);
    let words: Vec<_> = words.collect();
    let (program, arguments) = words.split_first().context("the server has no command")?;
    let mut server = with_program(&home, Path::new(program), release)?;
    use_server(server.args(arguments), release)?;

    let message = load()?["parts"].to_string();
    for text in [OPENING, FACT] {
        anyhow::ensure!(message.contains(text), "the message lacks `{text}`: {message}");
    }
    fs::remove_dir_all(folder.join("node_modules"))?;
    home.check_memory()
}

/// Unpacks the bundle and starts its server in a root that has a C library and nothing else.
pub(super) fn try_bundle(
    tools: &Tools,
    folder: &Path,
    (file, release): (&Path, &Release),
) -> anyhow::Result<()> {
    let root = BareRoot::create(folder)?;
    let unpacked = root.0.join("opt/lukasa");
    cargo::output(tools.mcpb_command()?.arg("unpack").arg(file).arg(&unpacked))?;
    let manifest = read_json(&unpacked.join("manifest.json"))?;
    let call = &manifest["server"]["mcp_config"];
    let (program, arguments) = words_of(call)?;
    let mut server = root.command(&program.replace("${__dirname}", "/opt/lukasa"));
    let tools = use_server(server.args(arguments), release)?;
    let declared = manifest["tools"].as_array().context("the bundle declares no tools")?;
    let declared: Vec<_> = declared.iter().map(|tool| tool["name"].clone()).collect();
    anyhow::ensure!(declared == tools, "the server has the tools {tools:?}, not {declared:?}");
    fs::remove_dir_all(unpacked)?;
    root.check_memory()
}

/// Writes a memory through a server, reads it and recalls it. Returns the names of the tools.
fn use_server(command: &mut Command, release: &Release) -> anyhow::Result<Vec<Value>> {
    let mut server = McpServer::start(command)?;
    anyhow::ensure!(server.version == release.version, "it is version {}", server.version);
    let tools = server.request("tools/list", &json!({}))?;
    let create = json!({ "command": "create", "path": MEMORY, "file_text": format!("- {FACT}\n") });
    server.call("memory", &create)?;
    for (tool, arguments) in
        [("view_memory", json!({ "path": MEMORY })), ("recall", json!({ "prompt": QUESTION }))]
    {
        let answer = server.call(tool, &arguments)?;
        anyhow::ensure!(answer.contains(FACT), "`{tool}` does not show the fact: {answer}");
    }
    server.stop()?;
    let tools = tools["tools"].as_array().context("the server lists no tools")?;
    Ok(tools.iter().map(|tool| tool["name"].clone()).collect())
}

/// Runs each hook of a plugin with the input of its event. The answers must have the index and the fact.
fn use_hooks(home: &EmptyHome, plugin: &Path, release: &Release) -> anyhow::Result<()> {
    let hooks = read_json(&plugin.join("hooks/hooks.json"))?;
    let events = hooks["hooks"].as_object().context("the plugin has no hooks")?;
    let mut texts = String::new();
    for (event, groups) in events {
        let command = groups[0]["hooks"][0]["command"].as_str();
        let command = command.with_context(|| format!("`{event}` has no command"))?;
        let input = json!({
            "session_id": "5a1c0a52-6ef4-4f0c-9a6c-6f1f7f2d9b11",
            "transcript_path": home.0.join("transcript.jsonl"),
            "cwd": home.0,
            "hook_event_name": event,
            "source": "startup",
            "prompt": QUESTION,
        });
        let mut shell = with_program(home, Path::new("sh"), release)?;
        let answer = output_with_input(shell.args(["-c", command]), &input.to_string())?;
        if answer.is_empty() {
            continue;
        }
        let answer: Value = serde_json::from_str(&answer)?;
        let answer = &answer["hookSpecificOutput"];
        anyhow::ensure!(answer["hookEventName"] == event.as_str(), "`{event}`: {answer}");
        texts += answer["additionalContext"].as_str().unwrap_or_default();
    }
    for text in [OPENING, FACT] {
        anyhow::ensure!(texts.contains(text), "no hook answers with `{text}`: {texts}");
    }
    Ok(())
}

/// Returns the command of the server `lukasa` among others.
fn server_command(home: &EmptyHome, servers: &Value, release: &Release) -> anyhow::Result<Command> {
    let (program, arguments) = words_of(&servers["lukasa"])?;
    let mut command = with_program(home, Path::new(program), release)?;
    command.args(arguments);
    Ok(command)
}

/// Returns the program and the arguments of a server.
fn words_of(server: &Value) -> anyhow::Result<(&str, Vec<&str>)> {
    let program = server["command"].as_str().context("the server has no command")?;
    let arguments = server["args"].as_array().context("the server has no arguments")?;
    Ok((program, arguments.iter().filter_map(Value::as_str).collect()))
}

/// Returns a command in an empty home, with the program of the release in the search path.
fn with_program(home: &EmptyHome, program: &Path, release: &Release) -> anyhow::Result<Command> {
    let machine = std::env::var_os("PATH").unwrap_or_default();
    let search = [release.program_dir.clone()].into_iter().chain(std::env::split_paths(&machine));
    let mut command = home.command(program);
    command.env("PATH", std::env::join_paths(search)?);
    Ok(command)
}

/// Runs a program with an input, and returns what it printed.
fn output_with_input(command: &mut Command, input: &str) -> anyhow::Result<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "a hook ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Extracts a tarball, and returns the folder in it.
fn extract(file: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let into = folder.join("plugin");
    fs::create_dir_all(&into)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--no-same-owner", "--strip-components=1", "--file"]).arg(file);
    cargo::output(tar.arg("--directory").arg(&into))?;
    Ok(into)
}

fn read_json(file: &Path) -> anyhow::Result<Value> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(serde_json::from_slice(&text)?)
}
