//! The agents that can be told to use Quipu: their files, and what goes into each.
//!
//! `docs/AGENTS.md` says which version's documentation each was read from.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::hooks::Host;
use crate::install::Part;

/// How long an agent waits for a hook before it goes on, in seconds; a hook gives up far earlier by itself.
const HOOK_SECONDS: u64 = 5;

/// An agent that can be told to use Quipu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentName {
    /// Claude Code: hooks and MCP server
    ClaudeCode,
    /// Codex CLI: hooks and MCP server
    Codex,
    /// Gemini CLI: hooks and MCP server
    Gemini,
    /// Qwen Code: hooks and MCP server
    Qwen,
    /// Cursor: MCP server
    Cursor,
    /// Zed: MCP server
    Zed,
}

/// For whom an agent is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reach {
    /// For you, in all projects
    #[default]
    User,
    /// For everybody who works on this project
    Project,
}

/// Where agents keep what they are told.
#[derive(Clone, Debug)]
pub(crate) struct Homes {
    /// The person's home.
    pub(crate) home: PathBuf,
    /// The system's folder for settings.
    pub(crate) config: PathBuf,
    /// `CLAUDE_CONFIG_DIR`.
    pub(crate) claude: Option<PathBuf>,
    /// `CODEX_HOME`.
    pub(crate) codex: Option<PathBuf>,
    /// `GEMINI_CLI_HOME`.
    pub(crate) gemini: Option<PathBuf>,
    /// `QWEN_HOME`.
    pub(crate) qwen: Option<PathBuf>,
}

/// What is to be written, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The agent.
    pub(crate) agent: AgentName,
    /// The project's folder, unless it is for all projects.
    pub(crate) project: Option<PathBuf>,
    /// The program that agents start.
    pub(crate) program: String,
    /// Variables that say where memories are, where the agent does not hand on all of them.
    pub(crate) variables: Vec<&'static str>,
}

/// A file, and what of it is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The file.
    pub(crate) path: PathBuf,
    /// What is ours.
    pub(crate) parts: Vec<Part>,
}

impl AgentName {
    /// Returns the product's name.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex CLI",
            Self::Gemini => "Gemini CLI",
            Self::Qwen => "Qwen Code",
            Self::Cursor => "Cursor",
            Self::Zed => "Zed",
        }
    }

    /// Returns what is left to do for the person.
    pub(crate) const fn next(self) -> &'static str {
        match self {
            Self::Codex => "start Codex anew and let it trust the hooks: it asks, or `/hooks` does",
            Self::ClaudeCode => "start Claude Code anew; `/hooks` and `/mcp` show what it found",
            Self::Gemini => "start Gemini CLI anew; `/hooks` and `/mcp` show what it found",
            Self::Qwen => "start Qwen Code anew; `/hooks` and `/mcp` show what it found",
            Self::Cursor => "Cursor asks once whether the server may run",
            Self::Zed => "Zed shows the server in its agent settings",
        }
    }

    /// Returns whose hooks it has.
    const fn host(self) -> Option<Host> {
        match self {
            Self::ClaudeCode => Some(Host::ClaudeCode),
            Self::Codex => Some(Host::Codex),
            Self::Gemini => Some(Host::Gemini),
            Self::Qwen => Some(Host::Qwen),
            Self::Cursor | Self::Zed => None,
        }
    }
}

impl Wanted {
    /// Returns the files, in the order in which they are written.
    pub(crate) fn targets(&self, homes: &Homes) -> Vec<Target> {
        let hooks = self.hooks();
        let place = self.project.as_deref();
        match self.agent {
            AgentName::ClaudeCode => {
                let settings = homes.claude.clone().unwrap_or_else(|| homes.home.join(".claude"));
                let servers = homes.claude.as_ref().unwrap_or(&homes.home).join(".claude.json");
                vec![
                    Target {
                        path: at(place, ".claude/settings.json", &settings.join("settings.json")),
                        parts: hooks,
                    },
                    Target {
                        path: at(place, ".mcp.json", &servers),
                        parts: vec![self.server("mcpServers", true)],
                    },
                ]
            }
            AgentName::Codex => {
                let home = homes.codex.clone().unwrap_or_else(|| homes.home.join(".codex"));
                let folder = at(place, ".codex", &home);
                let (program, variables) = (self.program.clone(), self.variables.clone());
                let server = Part::TomlServer { program, variables };
                vec![
                    Target { path: folder.join("config.toml"), parts: vec![server] },
                    Target { path: folder.join("hooks.json"), parts: hooks },
                ]
            }
            AgentName::Gemini => {
                let home = homes.gemini.as_ref().unwrap_or(&homes.home).join(".gemini");
                self.settings(&at(place, ".gemini", &home), hooks)
            }
            AgentName::Qwen => {
                let home = homes.qwen.clone().unwrap_or_else(|| homes.home.join(".qwen"));
                self.settings(&at(place, ".qwen", &home), hooks)
            }
            AgentName::Cursor => vec![Target {
                path: at(place, ".cursor", &homes.home.join(".cursor")).join("mcp.json"),
                parts: vec![self.server("mcpServers", true)],
            }],
            AgentName::Zed => vec![Target {
                path: at(place, ".zed", &homes.config.join("zed")).join("settings.json"),
                parts: vec![self.server("context_servers", false)],
            }],
        }
    }

    /// One file for both.
    fn settings(&self, folder: &Path, mut parts: Vec<Part>) -> Vec<Target> {
        parts.insert(0, self.server("mcpServers", false));
        vec![Target { path: folder.join("settings.json"), parts }]
    }

    fn server(&self, servers: &'static str, typed: bool) -> Part {
        let mut args = vec!["mcp".to_owned()];
        if let (AgentName::Zed, Some(project)) = (self.agent, &self.project) {
            // Zed names no project to its servers and may start them anywhere.
            args.extend(["--project".to_owned(), project.display().to_string()]);
        }
        Part::Server { servers, program: self.program.clone(), args, typed }
    }

    fn hooks(&self) -> Vec<Part> {
        let Some(host) = self.agent.host() else { return Vec::new() };
        let (word, format) = (host.word(), host.format());
        let program = shell_word(&self.program);
        let events = format.names.iter();
        events
            .map(|(event, name)| Part::Hook {
                event: name,
                command: format!("{program} hook {} --agent {word}", event.word()),
                timeout: HOOK_SECONDS * format.second,
                named: format.has_names,
            })
            .collect()
    }
}

fn at(project: Option<&Path>, inside: &str, else_at: &Path) -> PathBuf {
    project.map_or_else(|| else_at.to_owned(), |project| project.join(inside))
}

/// Returns a text as one word of a shell; plain ones as they are.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
