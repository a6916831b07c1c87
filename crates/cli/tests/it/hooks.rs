//! Tests of `lukasa hook`: the inputs of agents in their documented formats, and the answers.
//!
//! The fixtures in `tests/hooks` have a folder for each agent and a file for each event.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::eventually;

use crate::daemon::{Daemon, PATIENCE};
use crate::mcp_clients::tool;
use crate::processes::hold_root;
use crate::sandbox::{CommandOutput, Sandbox};

fn fixtures() -> Vec<(String, String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hooks");
    let paths = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> = entries.collect();
        paths.sort();
        paths
    };
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let of_agent = |agent: &PathBuf| {
        let of_event =
            |event: &PathBuf| (name(agent), name(event), fs::read_to_string(event).unwrap());
        paths(agent).iter().map(of_event).collect::<Vec<_>>()
    };
    paths(&folder).iter().flat_map(of_agent).collect()
}

fn hook_input(place: &Sandbox, text: &str) -> String {
    let text = text.replace("<checkout>", &place.checkout().display().to_string());
    text.replace("<home>", &place.home().display().to_string())
}

pub(crate) fn fixture(place: &Sandbox, agent: &str, event: &str) -> String {
    let all = fixtures();
    let found = all.iter().find(|(one, other, _)| one == agent && other == event);
    hook_input(place, &found.unwrap().2)
}

/// Sends an event from a folder without memories.
pub(crate) fn hook(place: &Sandbox, args: &[&str], stdin: &str) -> CommandOutput {
    let mut command = place.lukasa(&[&["hook"], args].concat());
    command.current_dir(place.temporary()).write_stdin(stdin);
    place.run_command(&mut command)
}

/// Returns the log of hooks.
fn log(place: &Sandbox) -> String {
    let text = fs::read_to_string(place.home().join("state/hooks.log")).unwrap_or_default();
    place.stable(&text)
}

fn nothing() -> CommandOutput {
    CommandOutput { status: 0, stdout: String::new(), stderr: String::new() }
}

/// Sends all fixtures, and returns the answers.
fn answers_to_all(place: &Sandbox) -> Vec<String> {
    let mut answers = Vec::new();
    for (agent, event, text) in fixtures() {
        let ended = hook(place, &[&event, "--agent", &agent], &hook_input(place, &text));
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{agent} {event}");
        let answer = match ended.stdout.as_str() {
            "" => "nothing\n".to_owned(),
            answer => format!("{:#}\n", serde_json::from_str::<Value>(answer).unwrap()),
        };
        answers.push(format!("{agent} {event}: {answer}"));
    }
    answers
}

#[test]
fn every_event_of_every_agent_is_understood() {
    let place = Sandbox::new();
    place.create("project/build.md", "---\ndescription: How <this> is built\n---\nWith make.\n");
    place.create("global/prefs.md", "- Short answers.\n");
    place.run_ok(&["pin", "global/prefs.md"]);
    let answers = answers_to_all(&place);
    let (silent, said): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.ends_with(": nothing\n"));
    let silent: BTreeSet<_> = silent.iter().filter_map(|answer| answer.split(' ').nth(1)).collect();
    // The session of Codex CLI is resumed, and its model still has the facts.
    assert_eq!(silent.len(), 6, "{silent:?}");
    insta::assert_snapshot!(said.into_iter().map(String::as_str).collect::<String>(), @r#"
    claude-code session-start: {
      "hookSpecificOutput": {
        "hookEventName": "SessionStart",
        "additionalContext": "<long_term_memory>\nAll that this user and their agents noted in earlier sessions. What the user says now comes first.\n\n/memories/global/prefs.md\n- Short answers.\n\n/memories/project/build.md\n\nWith make.\n</long_term_memory>\n"
      }
    }
    copilot session-start: {
      "additionalContext": "<long_term_memory>\nAll that this user and their agents noted in earlier sessions. What the user says now comes first.\n\n/memories/global/prefs.md\n- Short answers.\n\n/memories/project/build.md\n\nWith make.\n</long_term_memory>\n"
    }
    cursor session-start: {
      "additional_context": "<long_term_memory>\nAll that this user and their agents noted in earlier sessions. What the user says now comes first.\n\n/memories/global/prefs.md\n- Short answers.\n\n/memories/project/build.md\n\nWith make.\n</long_term_memory>\n"
    }
    gemini session-start: {
      "hookSpecificOutput": {
        "hookEventName": "SessionStart",
        "additionalContext": "<long_term_memory>\nAll that this user and their agents noted in earlier sessions. What the user says now comes first.\n\n/memories/global/prefs.md\n- Short answers.\n\n/memories/project/build.md\n\nWith make.\n</long_term_memory>\n"
      }
    }
    opencode session-start: {
      "additionalContext": "<long_term_memory>\nAll that this user and their agents noted in earlier sessions. What the user says now comes first.\n\n/memories/global/prefs.md\n- Short answers.\n\n/memories/project/build.md\n\nWith make.\n</long_term_memory>\n"
    }
    qwen session-start: {
      "hookSpecificOutput": {
        "hookEventName": "SessionStart",
        "additionalContext": "<long_term_memory>\nAll that this user and their agents noted in earlier sessions. What the user says now comes first.\n\n/memories/global/prefs.md\n- Short answers.\n\n/memories/project/build.md\n\nWith make.\n</long_term_memory>\n"
      }
    }
    "#);
    assert_eq!(log(&place), "");
}

#[test]
fn the_index_is_of_the_project_that_the_agent_works_in_and_counts_no_use() {
    let place = Sandbox::with(&[("project/build.md", "With make.\n")]);
    let before = place.json(&["ls"]);
    let start = fixture(&place, "qwen", "session-start");
    let answer = hook(&place, &["session-start", "--agent", "qwen"], &start).stdout;
    assert!(answer.contains("/memories/project/build.md"), "{answer}");
    let elsewhere = start.replace("/app\"", "/tmp\"");
    let answer = hook(&place, &["session-start", "--agent", "qwen"], &elsewhere).stdout;
    assert_eq!(answer, "", "there are no memories");
    assert_eq!(place.json(&["ls"]), before);
}

#[test]
fn cursor_is_answered_after_a_tool_and_several_folders_mean_no_project() {
    let place = Sandbox::new();
    place.create("global/bread.md", "- The sourdough rests for eleven hours.\n");
    place.create("project/plan.md", "- The sourdough is sold in May.\n");
    let event = |event: &str| {
        fixture(&place, "cursor", event)
            .replace("How is this built?", "How long does the sourdough rest, and when is it sold?")
    };
    let run = |name: &str, told: &str| hook(&place, &[name, "--agent", "cursor"], told).stdout;
    assert_eq!(run("user-prompt", &event("user-prompt")), "");
    let behind = run("post-tool-use", &event("post-tool-use"));
    assert!(behind.contains("additional_context"), "{behind}");
    assert!(behind.contains("eleven hours") && behind.contains("sold in May"), "{behind}");
    // The stored text is for one prompt only.
    run("user-prompt", &event("user-prompt"));
    run("stop", &event("stop"));
    assert_eq!(run("post-tool-use", &event("post-tool-use")), "");
    let checkout = format!("\"{}\"", place.checkout().display());
    let several = |told: String| told.replace(&checkout, &format!("{checkout}, \"/\""));
    let several = |event_name: &str| several(event(event_name)).replace("668320d2", "768320d2");
    run("user-prompt", &several("user-prompt"));
    let behind = run("post-tool-use", &several("post-tool-use"));
    assert!(behind.contains("eleven hours") && !behind.contains("sold in May"), "{behind}");
    assert_eq!(log(&place), "");
}

#[test]
fn copilot_keeps_the_context_of_its_session_start() {
    let place = Sandbox::with(&[("project/build.md", "With make.\n")]);
    let start = fixture(&place, "copilot", "session-start");
    let args = ["session-start", "--agent", "copilot"];
    assert!(hook(&place, &args, &start).stdout.contains("/memories/project/build.md"));
    let resumed = start.replace("\"new\"", "\"resume\"");
    assert_eq!(hook(&place, &args, &resumed), nothing());
    assert_eq!(log(&place), "");
}

#[test]
fn the_plugin_for_opencode_shows_each_text_once_in_a_session() {
    let place = Sandbox::with(&[("project/tea.md", "Oolong is the tea for the afternoon.\n")]);
    place.run_ok(&["install", "opencode"]);
    let plugin = place.home().join(".config/opencode/plugin/lukasa.js");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/opencode_plugin.mjs");
    let mut client = place.program(tool("LUKASA_TEST_NODE").to_str().unwrap());
    let output = client.arg(script).args([&plugin, &place.checkout()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let has = |seen: &Value, what: &str| seen.to_string().contains(what);
    let first = &seen["first"];
    assert!(has(first, "<long_term_memory>") && has(first, "Oolong is the tea"), "{seen}");
    for nothing in ["again", "child", "resumed", "fork", "old_child", "kept"] {
        assert_eq!(seen[nothing], "", "{nothing}: {seen}");
    }
    assert!(has(&seen["undone"], "<long_term_memory>"), "{seen}");
    assert_eq!(seen["parts"], 2, "{seen}");
    assert_eq!(seen["tool"], json!({ "title": "", "output": "done", "metadata": {} }));
    let shortened = &seen["shortened"]["content"];
    assert_eq!(shortened[0]["text"], "done");
    assert!(has(&shortened[1]["text"], "<long_term_memory>"), "{seen}");
    assert_eq!(log(&place), "");
}

#[test]
fn the_plugin_for_opencode_fails_no_turn_when_the_program_is_broken() {
    let place = Sandbox::new();
    place.run_ok(&["install", "opencode"]);
    let plugin = place.home().join(".config/opencode/plugin/lukasa.js");
    let text = fs::read_to_string(&plugin).unwrap();
    let broken = place.home().join("broken");
    fs::write(&broken, b"\x7fELF no program").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o700)).unwrap();
    let programs = [
        broken.display().to_string(),
        "/nowhere/lukasa".to_owned(),
        place.script("hangs", "trap '' TERM\nsleep 60\nsleep 60"),
        place.script("babbles", "echo '{\"additionalContext\": 1}'"),
    ];
    for (number, program) in programs.iter().enumerate() {
        let copy = place.home().join(format!("plugin{number}.mjs"));
        let line = format!("const PROGRAM = {}", json!(env!("CARGO_BIN_EXE_lukasa")));
        fs::write(&copy, text.replace(&line, &format!("const PROGRAM = {}", json!(program))))
            .unwrap();
        let script = format!(
            "const {{ Lukasa }} = await import({}); const plugin = await Lukasa({{ directory: '/' }});
            const parts = [{{ id: 'prt_1', type: 'text', text: 'Hello' }}];
            await plugin['chat.message']({{}}, {{ message: {{ id: 'm', sessionID: 's' }}, parts }});
            await plugin['tool.execute.after']({{ sessionID: 's' }}, undefined);
            console.log(parts.length); process.exit(0)",
            json!(copy)
        );
        let mut node = place.program(tool("LUKASA_TEST_NODE").to_str().unwrap());
        let begun = Instant::now();
        let output = node.args(["--input-type=module", "-e", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n", "{program}: {output:?}");
        assert!(begun.elapsed() < PATIENCE, "{program}");
    }
}

#[test]
fn a_prompt_that_was_cut_in_the_middle_of_a_character_is_answered() {
    let place = Sandbox::new();
    place.create("project/build.md", "The release is built with make and signed with minisign.\n");
    let prompt = fixture(&place, "claude-code", "user-prompt");
    let mut prompt: Value = serde_json::from_str(&prompt).unwrap();
    prompt["prompt"] = "How is the release built and signed? CUT".into();
    let cut = prompt.to_string().replace("CUT", r"\ud83d");
    let answer = hook(&place, &["user-prompt", "--agent", "claude-code"], &cut).stdout;
    assert!(answer.contains("minisign"), "{answer} {}", log(&place));
}

#[test]
fn an_error_is_only_in_the_log_and_not_in_the_answer_to_the_agent() {
    let place = Sandbox::new();
    let start = fixture(&place, "claude-code", "session-start");
    let secret = start.replace("startup", "my secret prompt");
    let cases: &[(&[&str], String)] = &[
        (&["session-start"], String::new()),
        (&["session-start"], "my secret prompt".to_owned()),
        (&["session-start"], "[1, 2]".to_owned()),
        (&["session-start"], secret.replace("\"session_id\"", "\"id\"")),
        (&["session-start"], secret.replace("SessionStart", "SessionBegin")),
        (&["user-prompt"], secret.clone()),
        (&["session-begin"], secret.clone()),
        (&["session-start", "--agent", "emacs"], secret.clone()),
        (&["session-end", "--agent", "codex"], secret.clone()),
        (&["session-start", "--color", "blue"], secret.clone()),
        (&[], secret.clone()),
        (&["session-start", "--bogus"], secret),
    ];
    for (args, stdin) in cases {
        assert_eq!(hook(&place, args, stdin), nothing(), "{args:?}");
    }
    let log = log(&place);
    assert!(!log.contains("secret"), "{log}");
    insta::assert_snapshot!(log, @r"
    <time> session-start claude-code: invalid_arguments: invalid hook input at line 1, column 0
    <time> session-start claude-code: invalid_arguments: invalid hook input at line 1, column 1
    <time> session-start claude-code: invalid_arguments: invalid hook input at line 1, column 2
    <time> session-start claude-code: invalid_arguments: the hook input names no session
    <time> session-start claude-code: invalid_arguments: expected event `SessionStart`, but the hook input names another one
    <time> user-prompt claude-code: invalid_arguments: expected event `UserPromptSubmit`, but the hook input names another one
    <time> session-begin claude-code: invalid_arguments: unknown event; `lukasa help hook` lists the names
    <time> session-start emacs: invalid_arguments: unknown agent; `lukasa help hook` lists the names
    <time> session-end codex: invalid_arguments: the agent does not report this event
    <time> invalid arguments: one of the values isn't valid for an argument
    <time> invalid arguments: one or more required arguments were not provided
    <time> invalid arguments: unexpected argument found
    ");
    let mode = fs::metadata(place.home().join("state/hooks.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_too_large_input_is_read_completely_and_answered_with_nothing() {
    let place = Sandbox::new();
    let mut huge = fixture(&place, "claude-code", "post-tool-use");
    huge.push_str(&" ".repeat(17 * 1024 * 1024));
    // `write_stdin` fails where a pipe is closed early.
    assert_eq!(hook(&place, &["post-tool-use"], &huge), nothing());
    assert!(log(&place).contains("hook input exceeds 16777216 bytes"), "{}", log(&place));
}

#[test]
fn unusable_settings_and_homes_do_not_affect_the_agent() {
    let place = Sandbox::new();
    let start = fixture(&place, "gemini", "session-start");
    let args = ["session-start", "--agent", "gemini"];
    fs::write(place.home().join("config.toml"), "files_max = 'many'\n").unwrap();
    assert_eq!(hook(&place, &args, &start), nothing());
    assert!(log(&place).contains("config.toml:1"), "{}", log(&place));
    fs::remove_file(place.home().join("config.toml")).unwrap();

    // A damaged state is left for a command whose output a person sees.
    let state = place.home().join("state");
    fs::write(state.join("lukasa.db"), "not a database at all".repeat(100)).unwrap();
    let ended = hook(&place, &args, &start);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    assert!(fs::read(state.join("lukasa.db")).unwrap().starts_with(b"not a database"));

    // The same holds for a home that is a file, and for a missing home.
    let mut command = place.lukasa(&[&["hook"], &args[..]].concat());
    command.env("LUKASA_HOME", place.checkout().join(".git/HEAD")).write_stdin(start.as_bytes());
    let ended = place.run_command(&mut command);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    let mut command = place.lukasa(&[&["hook"], &args[..]].concat());
    command
        .env_remove("LUKASA_HOME")
        .env("HOME", place.checkout().join(".git/HEAD/x"))
        .write_stdin(start.as_bytes());
    let ended = place.run_command(&mut command);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
}

#[test]
fn a_root_is_read_while_another_process_writes() {
    let place = Sandbox::with(&[("global/a.md", "a")]);
    let held = hold_root(&place);
    let start = fixture(&place, "codex", "session-start");
    let ended = hook(&place, &["session-start", "--agent", "codex"], &start);
    assert!(ended.stdout.contains("/memories/global/a.md"), "{ended:?}");
    drop(held);
}

#[test]
fn a_hook_does_not_wait_for_more_input() {
    let place = Sandbox::new();
    let mut command = place.command(&["hook", "stop"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
    assert!(log(&place).contains("timeout after 1000 ms"), "{}", log(&place));
    drop(open);
}

#[test]
fn the_log_stays_small() {
    let place = Sandbox::new();
    hook(&place, &["nothing"], "");
    let file = place.home().join("state/hooks.log");
    fs::write(&file, "x".repeat(300 * 1024)).unwrap();
    hook(&place, &["nothing"], "");
    assert_eq!(fs::read_to_string(file).unwrap().lines().count(), 1);
}

/// Returns an agent's input for a prompt.
pub(crate) fn prompted(place: &Sandbox, agent: &str, prompt: &str) -> String {
    let mut told: Value = serde_json::from_str(&fixture(place, agent, "user-prompt")).unwrap();
    told["prompt"] = prompt.into();
    told.to_string()
}

/// Returns the text for the model.
fn visible_output(ended: &CommandOutput) -> String {
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    if ended.stdout.is_empty() {
        return String::new();
    }
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
}

#[test]
fn a_prompt_gets_each_fitting_memory_once_in_a_session() {
    for agent in ["claude-code", "codex", "gemini", "qwen"] {
        let place = Sandbox::new();
        place.create("project/harbour.md", "- The harbour master of Brenn is called Olga.\n");
        place.create("project/bread.md", "- The sourdough rests for eleven hours.\n");
        let args = ["user-prompt", "--agent", agent];
        let asked = prompted(&place, agent, "who is the harbour master?");
        let first = visible_output(&hook(&place, &args, &asked));
        assert!(first.starts_with("<recalled_memories>\n"), "{agent}: {first}");
        assert!(first.contains("is called Olga.") && !first.contains("sourdough"), "{first}");
        assert_eq!(visible_output(&hook(&place, &args, &asked)), "", "{agent} is shown it twice");
        let other = prompted(&place, agent, "how long does the sourdough rest?");
        assert!(visible_output(&hook(&place, &args, &other)).contains("eleven hours"), "{agent}");
        let nothing = prompted(&place, agent, "what do penguins eat in winter?");
        assert_eq!(visible_output(&hook(&place, &args, &nothing)), "", "{agent}");
        assert_eq!(log(&place), "");
    }
}

#[test]
fn a_hook_asks_only_a_daemon_that_serves_the_folder() {
    let place = Sandbox::new();
    place.create("project/harbour.md", "- The harbour master of Brenn is called Olga.\n");
    let daemon = start_daemon(&place);
    let asked = prompted(&place, "qwen", "who is the harbour master?");
    let result = fixture(&place, "qwen", "post-tool-use");
    let told = reviewed_text(&place, &asked);
    assert!(told.contains("is called Olga."), "{told}");
    assert_eq!(visible_output(&hook(&place, &["post-tool-use", "--agent", "qwen"], &result)), "");
    for event in ["stop", "pre-compact", "session-end"] {
        let ended = hook(&place, &[event, "--agent", "qwen"], &fixture(&place, "qwen", event));
        assert_eq!(ended, nothing(), "{event}");
    }
    check_requested(&place, &daemon, &["", "/{id}/prompts", "/{id}/tool-results", "/{id}/turns"]);
    // A resumed session knows the shown texts, even without a daemon.
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
    assert_eq!(visible_output(&hook(&place, &["user-prompt", "--agent", "qwen"], &asked)), "");
    assert_eq!(log(&place), "");
}

#[test]
fn a_hook_does_not_wait_for_a_hanging_daemon() {
    let place = Sandbox::with(&[("project/tea.md", "Oolong is the tea for the afternoon.\n")]);
    let daemon = start_daemon(&place);
    daemon.signal("STOP");
    let start = fixture(&place, "claude-code", "session-start");
    let prompt = fixture(&place, "claude-code", "user-prompt");
    let mut prompt: Value = serde_json::from_str(&prompt).unwrap();
    prompt["prompt"] = "Which tea is for the afternoon?".into();
    for turn in 0..2 {
        let begun = hook(&place, &["session-start", "--agent", "claude-code"], &start);
        assert!(begun.stdout.contains("long_term_memory"), "{turn}: {begun:?} {}", log(&place));
    }
    // For some seconds, hooks do not ask it again.
    let asked = log(&place).matches("did not answer").count();
    assert_eq!(asked, 1, "{}", log(&place));
    prompt["session_id"] = "another".into();
    let told = prompt.to_string();
    let answer = hook(&place, &["user-prompt", "--agent", "claude-code"], &told).stdout;
    assert!(answer.contains("Oolong"), "{answer} {}", log(&place));
    daemon.signal("CONT");
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
}

/// Returns the text for the model with a prompt, or with the next tool's result.
fn reviewed_text(place: &Sandbox, asked: &str) -> String {
    let beside = visible_output(&hook(place, &["user-prompt", "--agent", "qwen"], asked));
    if !beside.is_empty() {
        return beside;
    }
    let result = fixture(place, "qwen", "post-tool-use");
    eventually(|| {
        let behind = visible_output(&hook(place, &["post-tool-use", "--agent", "qwen"], &result));
        if behind.is_empty() { Err("nothing is shown") } else { Ok(behind) }
    })
}

/// Starts a daemon whose token is in its file, where hooks find it.
fn start_daemon(place: &Sandbox) -> Daemon {
    Daemon::start_by(Daemon::command(place, &[]))
}

/// Checks that the daemon answered at these routes of sessions, and not the hook alone.
fn check_requested(place: &Sandbox, daemon: &Daemon, routes: &[&str]) {
    let bearer = format!("Bearer {}", place.run_ok(&["token"]).trim());
    let metrics = daemon.ask("GET", "/metrics").header("Authorization", &bearer).send().text();
    for route in routes {
        let counted = format!("method=\"POST\",route=\"/v1/sessions{route}\",status=\"200\"");
        assert!(metrics.contains(&counted), "{route} was not asked: {metrics}");
    }
}

/// Returns an agent's input for the start of a session.
fn session_start(place: &Sandbox, agent: &str, source: &str) -> String {
    let mut told: Value = serde_json::from_str(&fixture(place, agent, "session-start")).unwrap();
    told["source"] = source.into();
    told.to_string()
}

#[test]
fn a_resumed_session_keeps_its_bytes_and_receives_changes() {
    let place = Sandbox::with(&[("project/a.md", "a\n")]);
    continue_session(&place);

    // A new fact that fits the prompt is given once: as recalled or as a change.
    place.create("project/harbour.md", "- The harbour master of Brenn is called Olga.\n");
    place.create("project/pier.md", "- Nobody fishes here.\n");
    let asked = prompted(&place, "claude-code", "who is the harbour master?");
    let beside = visible_output(&hook(&place, &["user-prompt", "--agent", "claude-code"], &asked));
    assert_eq!(beside.matches("is called Olga.").count(), 1, "{beside}");
    assert!(beside.contains("<memory_changes>\n"), "{beside}");
    assert!(
        beside.contains("/memories/project/pier.md [new]\n- Nobody fishes here.\n"),
        "{beside}"
    );
}

#[test]
fn a_resumed_session_behaves_the_same_with_a_daemon() {
    let place = Sandbox::with(&[("project/a.md", "a\n")]);
    let args = ["session-start", "--agent", "codex"];
    let start = |source: &str| {
        visible_output(&hook(&place, &args, &session_start(&place, "codex", source)))
    };
    let alone = start("startup");
    let daemon = start_daemon(&place);
    assert!(alone.contains("/memories/project/a.md"), "{alone}");
    assert_eq!(start("resume"), "", "the daemon knows what was given before it");
    continue_session(&place);
    check_requested(&place, &daemon, &[""]);
}

/// Starts a session, writes, and starts it again in all ways.
fn continue_session(place: &Sandbox) {
    let args = ["session-start", "--agent", "claude-code"];
    let start = |source: &str| {
        visible_output(&hook(place, &args, &session_start(place, "claude-code", source)))
    };
    assert!(start("startup").contains("/memories/project/a.md"));
    place.create("project/b.md", "b\n");
    let changes = start("resume");
    assert!(changes.starts_with("<memory_changes>\n"), "{changes}");
    assert!(changes.contains("/memories/project/b.md [new]\nb\n"), "{changes}");
    assert_eq!(start("resume"), "", "it is told once, and the agent has the rest");

    // A compacted or new conversation starts with the current memories.
    for source in ["compact", "clear", "startup"] {
        let anew = start(source);
        assert!(anew.contains("/memories/project/b.md\n\nb\n"), "{anew}");
        assert!(!anew.contains("memory_changes"), "{anew}");
    }
    assert_eq!(log(place), "");
}

#[test]
fn an_agent_without_a_start_after_a_compaction_is_given_everything_with_its_next_prompt() {
    let place = Sandbox::with(&[("project/tea.md", "- Oolong is the tea.\n")]);
    let told = |event: &str| fixture(&place, "copilot", event);
    let run = |event: &str, told: &str| hook(&place, &[event, "--agent", "copilot"], told).stdout;
    let check = || {
        assert!(run("session-start", &told("session-start")).contains("Oolong"));
        assert_eq!(run("user-prompt", &told("user-prompt")), "");
        run("pre-compact", &told("pre-compact"));
        let again = run("user-prompt", &told("user-prompt"));
        assert!(again.contains("<long_term_memory>") && again.contains("Oolong"), "{again}");
        assert_eq!(run("user-prompt", &told("user-prompt")), "");
    };
    check();
    let _daemon = start_daemon(&place);
    check();
    assert_eq!(log(&place), "");
}

#[test]
fn what_the_model_wrote_itself_is_not_announced_to_it() {
    let place = Sandbox::with(&[("project/a.md", "- a\n")]);
    let run = |event: &str, told: &str| {
        visible_output(&hook(&place, &[event, "--agent", "claude-code"], told))
    };
    let asked = prompted(&place, "claude-code", "what do penguins eat in winter?");
    let wrote = |name: &str| {
        let path = format!("/memories/project/{name}.md");
        place.create(&format!("project/{name}.md"), "- The tide is late.\n");
        let told = fixture(&place, "claude-code", "post-tool-use");
        let mut told: Value = serde_json::from_str(&told).unwrap();
        told["tool_name"] = "mcp__lukasa__memory".into();
        told["tool_input"] =
            json!({ "command": "create", "path": path, "file_text": "- The tide is late.\n" });
        told.to_string()
    };
    run("session-start", &session_start(&place, "claude-code", "startup"));
    let check = |own: &str, foreign: &str| {
        run("post-tool-use", &wrote(own));
        place.create(&format!("project/{foreign}.md"), &format!("- Of {foreign}.\n"));
        let mut told = String::new();
        // A daemon looks for changes in the background, and may give them with the next prompt.
        for _ in 0..20 {
            told.push_str(&run("user-prompt", &asked));
            if told.contains(foreign) {
                break;
            }
        }
        assert!(told.contains(&format!("{foreign}.md [new]\n- Of {foreign}.\n")), "{told}");
        assert!(!told.contains(&format!("/{own}.md")) && !told.contains("tide"), "{told}");
    };
    check("own-note", "foreign");
    let _daemon = start_daemon(&place);
    check("mine", "theirs");
    assert_eq!(log(&place), "");
}

#[test]
fn an_agent_that_drops_the_context_receives_the_same_bytes_again() {
    let place = Sandbox::with(&[("project/a.md", "a\n")]);
    let args = ["session-start", "--agent", "gemini"];
    let start = |source: &str| {
        visible_output(&hook(&place, &args, &session_start(&place, "gemini", source)))
    };
    let first = start("startup");
    assert!(first.contains("/memories/project/a.md"), "{first}");
    assert_eq!(start("resume"), first);
}

#[test]
fn pins_come_first_where_an_agent_passes_on_less_than_there_is() {
    let place = Sandbox::new();
    for n in 0..120 {
        let text = format!(
            "---\ndescription: What is to be known of part {n} of the works\n---\n- Part {n} is of \
             some use to the works, and has a long story.\n- Gate {n} is never locked.\n"
        );
        place.create(&format!("project/parts/{n:03}.md"), &text);
    }
    place.create("global/rules.md", "- Never deploy on a Friday.\n");
    place.run_ok(&["pin", "global/rules.md"]);
    for agent in ["claude-code", "codex"] {
        let text = visible_output(&hook(
            &place,
            &["session-start", "--agent", agent],
            &session_start(&place, agent, "startup"),
        ));
        assert!(text.len() <= 10_000, "{agent}: {} bytes", text.len());
        assert!(text.contains("- Never deploy on a Friday."), "{agent}: {text}");
        assert!(text.contains("- /memories/project/parts/ ("), "{agent}: {text}");
        let shown = place.run_ok(&["context", "--agent", agent]);
        assert_eq!(shown, text, "{agent} is given what the command shows");
    }
}

#[test]
fn memories_of_the_session_start_are_not_recalled_with_the_first_prompt() {
    let place = Sandbox::new();
    place.create("project/harbour.md", "- The harbour master of Brenn is called Olga.\n");
    let question = "who is the harbour master?";
    let ask = |agent: &str| {
        let told = prompted(&place, agent, question);
        visible_output(&hook(&place, &["user-prompt", "--agent", agent], &told))
    };
    assert!(ask("codex").contains("Olga"), "nothing was shown before");
    let start = ["session-start", "--agent", "claude-code"];
    let first =
        visible_output(&hook(&place, &start, &session_start(&place, "claude-code", "startup")));
    assert!(first.contains("Olga"), "all facts are given: {first}");
    assert_eq!(ask("claude-code"), "");
}

#[test]
fn the_prefix_of_gemini_prompts_is_not_part_of_the_query() {
    let place = Sandbox::new();
    place.create("project/harbour.md", "- The harbour master of Brenn is called Olga.\n");
    let args = ["user-prompt", "--agent", "gemini"];
    let ask =
        |prompt: &str| visible_output(&hook(&place, &args, &prompted(&place, "gemini", prompt)));
    let block =
        "<hook_context>&lt;long_term_memory&gt; The harbour master of Brenn</hook_context>\n\n";
    assert_eq!(ask(&format!("{block}thanks")), "");
    assert!(ask(&format!("{block}who is the harbour master?")).contains("Olga"));
}

#[test]
fn a_daemon_reports_changes_since_a_hook_started_the_session() {
    let place = Sandbox::with(&[("project/a.md", "a\n")]);
    let daemon = start_daemon(&place);
    let args = ["session-start", "--agent", "qwen"];
    assert!(
        visible_output(&hook(&place, &args, &session_start(&place, "qwen", "startup")))
            .contains("a.md")
    );
    place.create("project/b.md", "b\n");
    let asked = prompted(&place, "qwen", "what do penguins eat in winter?");
    let told = reviewed_text(&place, &asked);
    assert!(told.starts_with("<memory_changes>\n") && told.contains("b.md [new]\nb\n"), "{told}");
    check_requested(&place, &daemon, &["", "/{id}/prompts"]);
}
