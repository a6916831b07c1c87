//! The table of agent hosts: their settings for the scripted model, their commands, and their expected behavior.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::mcp_clients::tool;
use crate::sandbox::Sandbox;

use super::Observations;
use super::ResultForm::{InJson, Text};

/// An agent host.
pub(super) struct HostSpec {
    /// Its name for `lukasa install`.
    pub(super) agent: &'static str,
    pub(super) title: &'static str,
    /// The npm package whose version is the host's.
    pub(super) package: &'static str,
    /// Whether a run without a person can resume an earlier one.
    pub(super) keeps_sessions: bool,
    /// The prompt by which a run without a person compacts the conversation, if there is one.
    pub(super) compaction: Option<&'static str>,
    /// Writes the settings that point it at the model.
    pub(super) prepare: fn(&Sandbox, &str),
    pub(super) command: fn(&Sandbox, &str, &AgentRun<'_>) -> Command,
    /// The expected observations. A version that behaves differently fails the test.
    pub(super) expected: fn() -> Observations,
    /// Sentences about the run for the document.
    pub(super) notes: &'static [&'static str],
}

/// One run of a host, without a person.
pub(super) struct AgentRun<'a> {
    pub(super) prompt: &'a str,
    pub(super) start: RunStart,
    pub(super) approval: Approval,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunStart {
    Fresh,
    /// Resumes the conversation of the run before.
    Resumed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    /// The settings of `install`: calls that need approval are refused.
    Skipped,
    /// The command line allows our tools.
    Given,
}

/// A conversation's id, for hosts that let the caller choose it.
const CONVERSATION: &str = "0cb916db-26aa-40f2-86b5-1ba81b225fd2";

/// Returns a file of an installed npm package.
fn packaged(path: &str) -> PathBuf {
    tool("LUKASA_TEST_NODE_MODULES").join(path)
}

/// Returns the name of this machine's processor in npm packages.
fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    }
}

pub(super) fn write(place: &Sandbox, file: &str, text: &str) {
    let file = place.home().join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Prepares a program of an npm package. It reaches nothing but loopback.
fn program(place: &Sandbox, program: &Path) -> Command {
    let mut command = place.program(program.to_str().unwrap());
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"] {
        command.env(name, "http://127.0.0.1:9");
    }
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    command
}

/// Prepares a script of an npm package.
fn script(place: &Sandbox, path: &str) -> Command {
    let mut command = program(place, &tool("LUKASA_TEST_NODE"));
    command.arg(packaged(path));
    command
}

pub(super) const CLAUDE_CODE: HostSpec = HostSpec {
    agent: "claude-code",
    title: "Claude Code",
    package: "@anthropic-ai/claude-code",
    keeps_sessions: true,
    compaction: Some("/compact"),
    prepare: |_, _| (),
    command: |place, url, run| {
        let file = format!("@anthropic-ai/claude-code-linux-{}/claude", processor());
        let mut command = program(place, &packaged(&file));
        command.env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", "none");
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        command.args(["-p", run.prompt]);
        match run.start {
            RunStart::Fresh => command.args(["--session-id", CONVERSATION]),
            RunStart::Resumed => command.args(["--resume", CONVERSATION]),
        };
        if run.approval == Approval::Given {
            command.args(["--allowedTools", "mcp__lukasa"]);
        }
        command
    },
    expected: || Observations {
        view: Text,
        recall: Text,
        facts: false,
        searched: false,
        refused: vec!["memory", "recall"],
        instructions: true,
        block: true,
        recalls: 1,
        repeats: false,
        compacted: Some(1),
        events: vec![
            "session-start",
            "user-prompt",
            "post-tool-use",
            "pre-compact",
            "stop",
            "session-end",
        ],
    },
    notes: &[
        "`claude -p`, with `ANTHROPIC_BASE_URL`.",
        "`--allowedTools mcp__lukasa` allowed Lukasa's tools.",
    ],
};

pub(super) const CODEX: HostSpec = HostSpec {
    agent: "codex",
    title: "Codex CLI",
    package: "@openai/codex",
    keeps_sessions: true,
    compaction: None,
    prepare: |place, url| {
        let settings = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\n\n[model_providers.scripted]\n\
             name = \"scripted\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n"
        );
        write(place, ".codex/config.toml", &settings);
    },
    command: |place, _, run| {
        let machine = std::env::consts::ARCH;
        let file = format!(
            "@openai/codex-linux-{}/vendor/{machine}-unknown-linux-musl/bin/codex",
            processor()
        );
        let mut command = program(place, &packaged(&file));
        command.arg("exec");
        if run.start == RunStart::Resumed {
            command.args(["resume", "--last"]);
        }
        // The hooks need the approval of a person once; there is no other way.
        command.arg("--dangerously-bypass-hook-trust");
        if run.approval == Approval::Given {
            command.args(["-c", "mcp_servers.lukasa.default_tools_approval_mode=\"approve\""]);
        }
        command.arg(run.prompt);
        command
    },
    expected: || Observations {
        view: Text,
        recall: Text,
        facts: false,
        searched: false,
        refused: vec!["memory"],
        instructions: true,
        block: true,
        recalls: 1,
        repeats: false,
        compacted: None,
        events: vec!["session-start", "user-prompt", "post-tool-use", "stop"],
    },
    notes: &[
        "`codex exec`, with its own model provider in `config.toml`.",
        "`--dangerously-bypass-hook-trust` allowed its hooks in place of a person.",
        "`default_tools_approval_mode` allowed Lukasa's tools.",
    ],
};

pub(super) const QWEN: HostSpec = HostSpec {
    agent: "qwen",
    title: "Qwen Code",
    package: "@qwen-code/qwen-code",
    keeps_sessions: true,
    compaction: Some("/compress"),
    prepare: |place, _| {
        let quiet = json!({
            "general": { "enableAutoUpdate": false },
            "privacy": { "usageStatisticsEnabled": false },
            "memory": { "enableManagedAutoMemory": false },
        });
        write(place, ".qwen/settings.json", &format!("{quiet:#}\n"));
    },
    command: |place, url, run| {
        let mut command = script(place, "@qwen-code/qwen-code/cli-entry.js");
        command.env("OPENAI_API_KEY", "none").env("OPENAI_BASE_URL", format!("{url}/v1"));
        command.env("OPENAI_MODEL", "scripted").args(["--auth-type", "openai"]);
        if run.approval == Approval::Given {
            command.args(["--approval-mode", "yolo"]);
        }
        if run.start == RunStart::Resumed {
            command.arg("--continue");
        }
        command.args(["-p", run.prompt]);
        command
    },
    expected: || Observations {
        view: Text,
        recall: Text,
        facts: false,
        searched: false,
        refused: vec!["memory", "recall"],
        instructions: true,
        block: true,
        recalls: 1,
        repeats: false,
        compacted: Some(1),
        events: vec!["session-start", "user-prompt", "post-tool-use", "pre-compact", "stop"],
    },
    notes: &[
        "`qwen -p`, with `OPENAI_BASE_URL`.",
        "`--approval-mode yolo` allowed Lukasa's tools.",
        "A headless run sends `UserPromptSubmit` again after each round of tools, and sends no `SessionEnd`.",
    ],
};

pub(super) const GEMINI: HostSpec = HostSpec {
    agent: "gemini",
    title: "Gemini CLI",
    package: "@google/gemini-cli",
    keeps_sessions: true,
    compaction: None,
    prepare: |place, _| {
        let quiet = json!({
            "general": { "enableAutoUpdate": false },
            "privacy": { "usageStatisticsEnabled": false },
            "security": { "auth": { "selectedType": "gemini-api-key" } },
        });
        write(place, ".gemini/settings.json", &format!("{quiet:#}\n"));
    },
    command: |place, url, run| {
        let mut command = script(place, "@google/gemini-cli/bundle/gemini.js");
        command.env("GEMINI_API_KEY", "none").env("GOOGLE_GEMINI_BASE_URL", url);
        command.env("GEMINI_CLI_TRUST_WORKSPACE", "true").args(["-m", "gemini-2.5-flash"]);
        if run.approval == Approval::Given {
            command.args(["--approval-mode", "yolo"]);
        }
        if run.start == RunStart::Resumed {
            command.args(["--resume", "latest"]);
        }
        command.args(["-p", run.prompt]);
        command
    },
    expected: || Observations {
        view: Text,
        recall: Text,
        facts: false,
        searched: false,
        refused: vec!["memory", "recall"],
        instructions: true,
        block: true,
        recalls: 1,
        repeats: false,
        compacted: None,
        events: vec![
            "session-start",
            "user-prompt",
            "post-tool-use",
            "pre-compact",
            "stop",
            "session-end",
        ],
    },
    notes: &[
        "`gemini -p`, with `GOOGLE_GEMINI_BASE_URL`.",
        "`--approval-mode yolo` allowed Lukasa's tools; without it they are not even offered.",
        "It escapes `<` and `>` in the output of hooks as entities.",
    ],
};

pub(super) const COPILOT: HostSpec = HostSpec {
    agent: "copilot",
    title: "Copilot CLI",
    package: "@github/copilot",
    keeps_sessions: true,
    compaction: None,
    prepare: |_, _| (),
    command: |place, url, run| {
        let file = format!("@github/copilot-linux-{}/copilot", processor());
        let mut command = program(place, &packaged(&file));
        command.env("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1"));
        command.env("COPILOT_PROVIDER_API_KEY", "none").env("COPILOT_MODEL", "scripted");
        command.env("COPILOT_OFFLINE", "true").env("COPILOT_AUTO_UPDATE", "false");
        command.args(["-p", run.prompt]);
        match run.start {
            RunStart::Fresh => command.args(["--session-id", CONVERSATION]),
            RunStart::Resumed => command.arg(format!("--resume={CONVERSATION}")),
        };
        if run.approval == Approval::Given {
            command.args(["--allow-tool", "lukasa"]);
        }
        command
    },
    expected: || Observations {
        view: Text,
        recall: Text,
        facts: false,
        searched: false,
        refused: vec!["memory"],
        instructions: false,
        block: true,
        recalls: 1,
        repeats: false,
        compacted: None,
        events: vec!["session-start", "user-prompt", "post-tool-use", "stop", "session-end"],
    },
    notes: &[
        "`copilot -p`, offline, with `COPILOT_PROVIDER_BASE_URL`.",
        "`--allow-tool lukasa` allowed Lukasa's tools.",
    ],
};

pub(super) const OPENCODE: HostSpec = HostSpec {
    agent: "opencode",
    title: "opencode",
    package: "opencode-ai",
    keeps_sessions: true,
    compaction: None,
    prepare: |place, _| {
        // It would download this package, which our plugin does not use, and wait for it.
        let manifest = json!({ "dependencies": { "@opencode-ai/plugin": "1.18.33" } });
        let lock = json!({ "lockfileVersion": 3, "packages": { "": manifest.clone() } });
        write(place, ".config/opencode/package.json", &manifest.to_string());
        write(place, ".config/opencode/package-lock.json", &lock.to_string());
        write(place, ".config/opencode/node_modules/.package-lock.json", &lock.to_string());
    },
    command: |place, url, run| {
        let file = format!("opencode-linux-{}/bin/opencode", processor());
        let mut command = program(place, &packaged(&file));
        let options = json!({ "baseURL": format!("{url}/v1"), "apiKey": "none" });
        let model = json!({
            "name": "scripted", "tool_call": true,
            "limit": { "context": 200_000, "output": 8_000 },
        });
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options,
            "models": { "scripted": model },
        });
        let settings = json!({
            "autoupdate": false, "share": "disabled", "model": "scripted/scripted",
            "provider": { "scripted": provider },
        });
        command.env("OPENCODE_CONFIG_CONTENT", settings.to_string());
        command.env("OPENCODE_DISABLE_AUTOUPDATE", "1").env("OPENCODE_DISABLE_MODELS_FETCH", "1");
        command
            .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
            .env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1");
        command.arg("run");
        if run.start == RunStart::Resumed {
            command.arg("--continue");
        }
        command.arg(run.prompt);
        command
    },
    expected: || Observations {
        view: Text,
        recall: Text,
        facts: false,
        searched: false,
        refused: vec![],
        instructions: true,
        block: true,
        recalls: 1,
        repeats: false,
        compacted: None,
        events: vec!["session-start", "user-prompt", "post-tool-use", "stop"],
    },
    notes: &[
        "`opencode run`, with its own provider.",
        "opencode downloads `@opencode-ai/plugin` for any plugin; the test declared it as installed.",
    ],
};

pub(super) const CLINE: HostSpec = HostSpec {
    agent: "cline",
    title: "Cline",
    package: "cline",
    keeps_sessions: false,
    compaction: None,
    prepare: |place, url| {
        let provider = "openai-compatible";
        let settings = json!({
            "provider": provider, "apiKey": "none", "model": "scripted",
            "baseUrl": format!("{url}/v1"),
        });
        let entry = json!({
            "settings": settings, "updatedAt": "2026-11-25T00:00:00Z", "tokenSource": "manual",
        });
        let all = json!({
            "version": 1, "lastUsedProvider": provider, "modes": {},
            "providers": { provider: entry },
        });
        write(place, ".cline/data/settings/providers.json", &format!("{all:#}\n"));
    },
    command: |place, _, run| {
        let file = format!("@cline/cli-linux-{}/bin/cline", processor());
        let mut command = program(place, &packaged(&file));
        // Without its background service, which would outlive the run.
        command.env("CLINE_SESSION_BACKEND_MODE", "local").env("CLINE_NO_AUTO_UPDATE", "1");
        command.arg(run.prompt);
        command
    },
    expected: || Observations {
        view: InJson,
        recall: InJson,
        facts: false,
        searched: false,
        refused: vec![],
        instructions: false,
        block: false,
        recalls: 0,
        repeats: false,
        compacted: None,
        events: vec![],
    },
    notes: &[
        "`cline`, with the provider `openai-compatible`.",
        "Its terminal program resumes a conversation only on a terminal, so the second run was a new conversation.",
        "Its hooks give a model nothing when a conversation begins, and no hook gets the prompt.",
    ],
};
