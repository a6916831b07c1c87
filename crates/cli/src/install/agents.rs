//! The agents that can be told to use Lukasa: their files, and what goes into each.
//!
//! One table drives `install`, `uninstall` and their tests. `docs/AGENTS.md` says which version's documentation each
//! entry was read from.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::files;
use crate::hooks::host::{self, HookHost};
use crate::install::entry::ConfigValue;
use crate::install::{ConfigPart, GUARD, HookForm, ServerForm, SettingEdit};
use crate::render::text::shell_word;

/// How long an agent waits for a hook before it goes on, in seconds; a hook gives up far earlier by itself.
const HOOK_SECONDS: u64 = 5;

/// The rule by which Claude Code runs all tools of the server without asking.
const CLAUDE_RULE: &str = "mcp__lukasa";

/// An agent that can be told to use Lukasa.
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
    /// Copilot CLI: hooks and MCP server
    Copilot,
    /// opencode: plugin and MCP server
    Opencode,
    /// Cline: MCP server
    Cline,
    /// Cursor: hooks and MCP server
    Cursor,
    /// VS Code: MCP server
    Vscode,
    /// Windsurf: MCP server
    Windsurf,
    /// Claude Desktop: MCP server
    ClaudeDesktop,
    /// Zed: MCP server
    Zed,
}

/// For whom an agent is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallScope {
    /// For you, in all projects
    #[default]
    User,
    /// For everybody who works on this project
    Project,
}

/// Where agents keep what they are told.
#[derive(Clone, Debug)]
pub(crate) struct AgentDirs {
    /// The person's home.
    pub(crate) home: PathBuf,
    /// The system's folder for settings of command-line programs.
    pub(crate) config: PathBuf,
    /// The system's folder for settings of desktop programs.
    pub(crate) desktop: PathBuf,
    /// The folders of programs, in the order of `PATH`.
    pub(crate) programs: Vec<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`.
    pub(crate) claude: Option<PathBuf>,
    /// `CODEX_HOME`.
    pub(crate) codex: Option<PathBuf>,
    /// `COPILOT_HOME`.
    pub(crate) copilot: Option<PathBuf>,
    /// `CLINE_DATA_DIR`.
    pub(crate) cline: Option<PathBuf>,
    /// `CLINE_MCP_SETTINGS_PATH`.
    pub(crate) cline_servers: Option<PathBuf>,
    /// `GEMINI_CLI_HOME`.
    pub(crate) gemini: Option<PathBuf>,
    /// `QWEN_HOME`.
    pub(crate) qwen: Option<PathBuf>,
}

/// Consent of a person to what is not harmless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Consent {
    /// The agent runs the tools without asking.
    pub(crate) permissions: bool,
    /// The agent's own memory is switched off.
    pub(crate) replace_memory: bool,
}

impl Consent {
    /// Consent to everything.
    pub(crate) const ALL: Self = Self { permissions: true, replace_memory: true };
}

/// What is to be written, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct InstallSpec {
    /// The agent.
    pub(crate) agent: AgentName,
    /// The project's folder, unless it is for all projects.
    pub(crate) project: Option<PathBuf>,
    /// The program that agents start.
    pub(crate) program: String,
    /// Variables that say where memories are, where the agent does not hand on all of them.
    pub(crate) variables: Vec<&'static str>,
    /// What the person consents to.
    pub(crate) consent: Consent,
    /// Whether plugins are written, where an agent has them.
    pub(crate) plugin: bool,
}

/// A file, and what of it is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigTarget {
    /// The file.
    pub(crate) path: PathBuf,
    /// What is ours.
    pub(crate) parts: Vec<ConfigPart>,
}

/// A row of the table of agents.
#[derive(Debug)]
pub(crate) struct AgentSpec {
    /// The product's name.
    pub(crate) title: &'static str,
    /// What is left to do for the person.
    pub(crate) next: &'static str,
    /// Whose hooks it has.
    host: Option<HookHost>,
    /// The name of its program.
    program: &'static str,
    /// The name of the object that holds servers.
    servers: &'static str,
    form: ServerForm,
    /// The member of a server by which the model sees the tools without a search.
    always: Option<&'static str>,
    /// What lets it run the tools without asking.
    pub(crate) permission: Option<&'static str>,
    /// What switches its own memory off.
    pub(crate) own_memory: Option<&'static str>,
}

const CLAUDE_CODE: AgentSpec = AgentSpec {
    title: "Claude Code",
    next: "start Claude Code again; `/hooks` and `/mcp` show what it found",
    host: Some(HookHost::ClaudeCode),
    program: "claude",
    servers: "mcpServers",
    form: ServerForm::Typed,
    always: Some("alwaysLoad"),
    permission: Some("`mcp__lukasa` in `permissions.allow`"),
    own_memory: Some("`autoMemoryEnabled: false`"),
};

const CODEX: AgentSpec = AgentSpec {
    title: "Codex CLI",
    next: "start Codex again and let it trust the hooks: it asks, or `/hooks` does",
    host: Some(HookHost::Codex),
    program: "codex",
    servers: "mcp_servers",
    form: ServerForm::Plain,
    always: None,
    permission: Some("`default_tools_approval_mode = \"approve\"` of the server"),
    own_memory: None,
};

const GEMINI: AgentSpec = AgentSpec {
    title: "Gemini CLI",
    next: "start Gemini CLI again; `/hooks` and `/mcp` show what it found",
    host: Some(HookHost::Gemini),
    program: "gemini",
    servers: "mcpServers",
    form: ServerForm::Plain,
    always: None,
    permission: Some("`trust: true` of the server"),
    own_memory: None,
};

const QWEN: AgentSpec = AgentSpec {
    title: "Qwen Code",
    next: "start Qwen Code again; `/hooks` and `/mcp` show what it found",
    host: Some(HookHost::Qwen),
    program: "qwen",
    servers: "mcpServers",
    form: ServerForm::Plain,
    always: Some("alwaysLoadTools"),
    permission: Some("`trust: true` of the server"),
    own_memory: Some("`memory.enableManagedAutoMemory: false`"),
};

const COPILOT: AgentSpec = AgentSpec {
    title: "Copilot CLI",
    next: "start Copilot CLI again; headless runs need `--allow-tool lukasa` to write",
    host: Some(HookHost::Copilot),
    program: "copilot",
    servers: "mcpServers",
    form: ServerForm::Tools,
    always: None,
    permission: None,
    own_memory: Some("`memory: false`"),
};

/// An agent of which only the MCP server is known.
const fn client(title: &'static str, next: &'static str, program: &'static str) -> AgentSpec {
    AgentSpec {
        title,
        next,
        host: None,
        program,
        servers: "mcpServers",
        form: ServerForm::Plain,
        always: None,
        permission: None,
        own_memory: None,
    }
}

const OPENCODE: AgentSpec = AgentSpec {
    host: Some(HookHost::Opencode),
    servers: "mcp",
    form: ServerForm::OneList,
    ..client("opencode", "start opencode again; `opencode mcp list` shows the server", "opencode")
};

const CLINE: AgentSpec = AgentSpec {
    form: ServerForm::Transport,
    ..client("Cline", "start Cline again; it shows the server among its MCP servers", "cline")
};

const CURSOR: AgentSpec = AgentSpec {
    host: Some(HookHost::Cursor),
    form: ServerForm::Typed,
    ..client("Cursor", "start Cursor again; it asks once whether the server may run", "cursor")
};

const VSCODE: AgentSpec = AgentSpec {
    servers: "servers",
    form: ServerForm::Typed,
    ..client("VS Code", "VS Code asks once whether the server may run", "code")
};

const WINDSURF: AgentSpec =
    client("Windsurf", "refresh the servers in Windsurf's settings, or start it again", "windsurf");

const CLAUDE_DESKTOP: AgentSpec =
    client("Claude Desktop", "quit Claude Desktop and start it again", "claude-desktop");

const ZED: AgentSpec = AgentSpec {
    servers: "context_servers",
    ..client("Zed", "Zed shows the server in its agent settings", "zed")
};

impl AgentName {
    /// Returns the agent's row.
    pub(crate) const fn agent(self) -> &'static AgentSpec {
        match self {
            Self::ClaudeCode => &CLAUDE_CODE,
            Self::Codex => &CODEX,
            Self::Gemini => &GEMINI,
            Self::Qwen => &QWEN,
            Self::Copilot => &COPILOT,
            Self::Opencode => &OPENCODE,
            Self::Cline => &CLINE,
            Self::Cursor => &CURSOR,
            Self::Vscode => &VSCODE,
            Self::Windsurf => &WINDSURF,
            Self::ClaudeDesktop => &CLAUDE_DESKTOP,
            Self::Zed => &ZED,
        }
    }

    /// Returns its word at the command line.
    pub(crate) fn word(self) -> String {
        host::word(&self)
    }

    /// Tells whether the agent is on this machine: its program, or a folder of its settings.
    pub(crate) fn is_installed(self, homes: &AgentDirs) -> bool {
        let program = self.agent().program;
        homes.programs.iter().any(|folder| files::is_file(&folder.join(program)))
            || files::exists(&self.folder(homes))
    }

    /// Returns the folder of its settings.
    fn folder(self, homes: &AgentDirs) -> PathBuf {
        let home =
            |set: &Option<PathBuf>, name| set.clone().unwrap_or_else(|| homes.home.join(name));
        match self {
            Self::ClaudeCode => home(&homes.claude, ".claude"),
            Self::Codex => home(&homes.codex, ".codex"),
            Self::Gemini => homes.gemini.as_ref().unwrap_or(&homes.home).join(".gemini"),
            Self::Qwen => home(&homes.qwen, ".qwen"),
            Self::Copilot => home(&homes.copilot, ".copilot"),
            Self::Opencode => homes.config.join("opencode"),
            Self::Cline => home(&homes.cline, ".cline/data"),
            Self::Cursor => homes.home.join(".cursor"),
            Self::Vscode => homes.desktop.join("Code/User"),
            Self::Windsurf => homes.home.join(".codeium/windsurf"),
            Self::ClaudeDesktop => homes.desktop.join("Claude"),
            Self::Zed => homes.config.join("zed"),
        }
    }
}

impl InstallSpec {
    /// Returns the files, in the order in which they are written; none if the agent has no settings of a project.
    pub(crate) fn targets(&self, homes: &AgentDirs) -> Vec<ConfigTarget> {
        let mut targets = match &self.project {
            Some(project) => self.project_targets(project),
            None => self.user_targets(homes),
        };
        let is_plugin = |part: &ConfigPart| matches!(part, ConfigPart::Plugin { .. });
        targets.retain(|target| self.plugin || !target.parts.iter().any(is_plugin));
        targets
    }

    fn project_targets(&self, project: &Path) -> Vec<ConfigTarget> {
        let one = |path: &str, parts| vec![ConfigTarget { path: project.join(path), parts }];
        let server = || vec![self.server()];
        match self.agent {
            AgentName::ClaudeCode => {
                [one(".claude/settings.json", self.hooks()), one(".mcp.json", server())].concat()
            }
            AgentName::Codex => {
                let server = one(".codex/config.toml", server());
                [server, one(".codex/hooks.json", self.hooks())].concat()
            }
            AgentName::Gemini => one(".gemini/settings.json", [server(), self.hooks()].concat()),
            AgentName::Qwen => one(".qwen/settings.json", [server(), self.hooks()].concat()),
            AgentName::Opencode => {
                let server = one(opencode_file(project), server());
                [server, one(".opencode/plugin/lukasa.js", vec![self.plugin()])].concat()
            }
            AgentName::Cursor => {
                [one(".cursor/mcp.json", server()), one(".cursor/hooks.json", self.hooks_of_file())]
                    .concat()
            }
            AgentName::Vscode => one(".vscode/mcp.json", server()),
            AgentName::Zed => one(".zed/settings.json", server()),
            AgentName::Copilot
            | AgentName::Cline
            | AgentName::Windsurf
            | AgentName::ClaudeDesktop => Vec::new(),
        }
    }

    fn user_targets(&self, homes: &AgentDirs) -> Vec<ConfigTarget> {
        let folder = self.agent.folder(homes);
        let one = |path: PathBuf, parts| vec![ConfigTarget { path, parts }];
        let in_folder = |path: &str, parts| one(folder.join(path), parts);
        let server = || vec![self.server()];
        match self.agent {
            AgentName::ClaudeCode => {
                let servers = homes.claude.as_ref().unwrap_or(&homes.home).join(".claude.json");
                let settings = [self.hooks(), self.settings()].concat();
                [in_folder("settings.json", settings), one(servers, server())].concat()
            }
            AgentName::Codex => {
                let server = in_folder("config.toml", server());
                [server, in_folder("hooks.json", self.hooks())].concat()
            }
            AgentName::Gemini | AgentName::Qwen => {
                in_folder("settings.json", [server(), self.hooks(), self.settings()].concat())
            }
            AgentName::Copilot => {
                let mut targets = in_folder("mcp-config.json", server());
                targets.extend(in_folder("hooks/lukasa.json", self.hooks_of_file()));
                if self.consent.replace_memory {
                    targets.extend(in_folder("settings.json", self.settings()));
                }
                targets
            }
            AgentName::Opencode => {
                let server = in_folder(opencode_file(&folder), server());
                [server, in_folder("plugin/lukasa.js", vec![self.plugin()])].concat()
            }
            AgentName::Cline => {
                let file = folder.join("settings/cline_mcp_settings.json");
                one(homes.cline_servers.clone().unwrap_or(file), server())
            }
            AgentName::Cursor => {
                let servers = in_folder("mcp.json", server());
                [servers, in_folder("hooks.json", self.hooks_of_file())].concat()
            }
            AgentName::Vscode => in_folder("mcp.json", server()),
            AgentName::Windsurf => in_folder("mcp_config.json", server()),
            AgentName::ClaudeDesktop => in_folder("claude_desktop_config.json", server()),
            AgentName::Zed => in_folder("settings.json", server()),
        }
    }

    /// Returns settings of the agent's own, as far as the person consents.
    fn settings(&self) -> Vec<ConfigPart> {
        let Consent { permissions, replace_memory } = self.consent;
        let off = |at: &'static [&'static str]| ConfigPart::Setting { at, value: SettingEdit::Off };
        let mut settings = Vec::new();
        if permissions && self.agent == AgentName::ClaudeCode {
            let value = SettingEdit::InList(CLAUDE_RULE);
            settings.push(ConfigPart::Setting { at: &["permissions", "allow"], value });
        }
        match self.agent {
            AgentName::ClaudeCode if replace_memory => settings.push(off(&["autoMemoryEnabled"])),
            AgentName::Qwen if replace_memory => {
                settings.push(off(&["memory", "enableManagedAutoMemory"]));
            }
            AgentName::Copilot if replace_memory => settings.push(off(&["memory"])),
            _ => {}
        }
        settings
    }

    fn server(&self) -> ConfigPart {
        let agent = self.agent.agent();
        let Consent { permissions, .. } = self.consent;
        let program = self.program.clone();
        if self.agent == AgentName::Codex {
            let variables = self.variables.clone();
            return ConfigPart::TomlServer { program, variables, approved: permissions };
        }
        let mut args = vec!["mcp".to_owned()];
        if let (AgentName::Zed, Some(project)) = (self.agent, &self.project) {
            // Zed names no project to its servers and may start them anywhere.
            args.extend(["--project".to_owned(), project.display().to_string()]);
        }
        let mut members: Vec<_> =
            agent.always.iter().map(|name| (*name, ConfigValue::Bool(true))).collect();
        if permissions && matches!(self.agent, AgentName::Gemini | AgentName::Qwen) {
            members.push(("trust", ConfigValue::Bool(true)));
        }
        ConfigPart::Server { servers: agent.servers, program, args, form: agent.form, members }
    }

    /// Returns the hooks of a file that says its version. It comes first when it is added, and last when it goes.
    fn hooks_of_file(&self) -> Vec<ConfigPart> {
        [vec![ConfigPart::Version], self.hooks(), vec![ConfigPart::Version]].concat()
    }

    fn plugin(&self) -> ConfigPart {
        ConfigPart::Plugin { program: self.program.clone() }
    }

    fn hooks(&self) -> Vec<ConfigPart> {
        let Some(host) = self.agent.agent().host else { return Vec::new() };
        let (word, format) = (host::word(&host), host.format());
        let program = shell_word(&self.program);
        // Others who work on the project may not have the program.
        let guard = if self.project.is_some() { GUARD } else { "" };
        let events = format.names.iter();
        events
            .map(|(event, name)| ConfigPart::Hook {
                event: name,
                command: format!("{guard}{program} hook {} --agent {word}", host::word(event)),
                timeout: HOOK_SECONDS * format.units_per_second,
                form: match host {
                    HookHost::Copilot => HookForm::Flat,
                    HookHost::Cursor => HookForm::Bare,
                    _ if format.has_names => HookForm::Named,
                    _ => HookForm::Grouped,
                },
            })
            .collect()
    }
}

/// Returns the name of opencode's settings in a folder.
fn opencode_file(folder: &Path) -> &'static str {
    let with_notes = "opencode.jsonc";
    if files::exists(&folder.join(with_notes)) { with_notes } else { "opencode.json" }
}

/// Returns a generic configuration of the MCP server, for clients that are not in the table.
pub(crate) fn generic_configuration(program: &str) -> serde_json::Value {
    let server = serde_json::json!({ "command": program, "args": ["mcp"] });
    serde_json::json!({ "mcpServers": { "lukasa": server } })
}
