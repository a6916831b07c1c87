//! The agents that `install` supports: their configuration files, and the parts to write to each.
//!
//! One table drives `install`, `uninstall` and their tests. `docs/AGENTS.md` names the version of the documentation
//! behind each entry.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::files;
use crate::hooks::host::{self, HookHost};
use crate::install::entry::ConfigValue;
use crate::install::{ConfigPart, GUARD, HookForm, ServerForm, SettingEdit};
use crate::render::text::shell_word;

/// The timeout of a hook in the agent's settings, in seconds. The hook itself gives up earlier.
const HOOK_SECONDS: u64 = 5;

/// The permission rule by which Claude Code runs all tools of the server without asking.
const CLAUDE_RULE: &str = "mcp__lukasa";

/// An agent that can be set up to use Lukasa.
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

/// The owner of the settings that are changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallScope {
    /// Your own settings, for all projects
    #[default]
    User,
    /// Settings of the project, for all who work on it
    Project,
}

/// The folders in which agents and their settings are searched.
#[derive(Clone, Debug)]
pub(crate) struct AgentDirs {
    /// The home folder of the user.
    pub(crate) home: PathBuf,
    /// The configuration folder of command-line programs.
    pub(crate) config: PathBuf,
    /// The configuration folder of desktop programs.
    pub(crate) desktop: PathBuf,
    /// The folders in `PATH`, in order.
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

/// The consent of the user to changes that need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Consent {
    /// Whether the agent may run the tools without asking.
    pub(crate) permissions: bool,
    /// Whether the agent's own memory may be switched off.
    pub(crate) replace_memory: bool,
}

impl Consent {
    /// Consent to everything.
    pub(crate) const ALL: Self = Self { permissions: true, replace_memory: true };
}

/// An installation for one agent.
#[derive(Clone, Debug)]
pub(crate) struct InstallSpec {
    /// The agent to set up.
    pub(crate) agent: AgentName,
    /// The folder of the project; `None` for the user's own settings.
    pub(crate) project: Option<PathBuf>,
    /// The path or name of the program that the agent starts.
    pub(crate) program: String,
    /// The environment variables with folders of memories, for an agent that does not pass on all variables.
    pub(crate) variables: Vec<&'static str>,
    /// The consent of the user.
    pub(crate) consent: Consent,
    /// Whether plugins are written, if the agent supports them.
    pub(crate) plugin: bool,
}

/// A configuration file and our parts of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigTarget {
    /// The path of the file.
    pub(crate) path: PathBuf,
    /// Our parts, in the order of writing.
    pub(crate) parts: Vec<ConfigPart>,
}

/// A row of the table of agents.
#[derive(Debug)]
pub(crate) struct AgentSpec {
    /// The name of the product.
    pub(crate) title: &'static str,
    /// The next step for the user.
    pub(crate) next: &'static str,
    /// The format of its hooks, if hooks are supported.
    host: Option<HookHost>,
    /// The name of the agent's program.
    program: &'static str,
    /// The name of the object that holds servers.
    servers: &'static str,
    form: ServerForm,
    /// The member of a server that shows the tools to the model without a search.
    always: Option<&'static str>,
    /// The setting by which the agent runs the tools without asking.
    pub(crate) permission: Option<&'static str>,
    /// The setting that switches the agent's own memory off.
    pub(crate) own_memory: Option<&'static str>,
}

const CLAUDE_CODE: AgentSpec = AgentSpec {
    title: "Claude Code",
    next: "restart Claude Code; `/hooks` and `/mcp` show the result",
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
    next: "restart Codex and trust the hooks when it asks, or with `/hooks`",
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
    next: "restart Gemini CLI; `/hooks` and `/mcp` show the result",
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
    next: "restart Qwen Code; `/hooks` and `/mcp` show the result",
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
    next: "restart Copilot CLI; headless runs need `--allow-tool lukasa` to write",
    host: Some(HookHost::Copilot),
    program: "copilot",
    servers: "mcpServers",
    form: ServerForm::Tools,
    always: None,
    permission: None,
    own_memory: Some("`memory: false`"),
};

/// Returns the row of an agent that only uses the MCP server.
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
    ..client("opencode", "restart opencode; `opencode mcp list` shows the server", "opencode")
};

const CLINE: AgentSpec = AgentSpec {
    form: ServerForm::Transport,
    ..client("Cline", "restart Cline; its list of MCP servers shows the server", "cline")
};

const CURSOR: AgentSpec = AgentSpec {
    host: Some(HookHost::Cursor),
    form: ServerForm::Typed,
    ..client("Cursor", "restart Cursor; it asks once whether the server may run", "cursor")
};

const VSCODE: AgentSpec = AgentSpec {
    servers: "servers",
    form: ServerForm::Typed,
    ..client("VS Code", "VS Code asks once whether the server may run", "code")
};

const WINDSURF: AgentSpec =
    client("Windsurf", "refresh the servers in Windsurf's settings, or restart it", "windsurf");

const CLAUDE_DESKTOP: AgentSpec =
    client("Claude Desktop", "restart Claude Desktop", "claude-desktop");

const ZED: AgentSpec = AgentSpec {
    servers: "context_servers",
    ..client("Zed", "Zed shows the server in its agent settings", "zed")
};

impl AgentName {
    /// Returns the agent's row of the table.
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

    /// Returns its name on the command line.
    pub(crate) fn word(self) -> String {
        host::word(&self)
    }

    /// Checks whether the agent is on this machine: its program, or the folder of its settings.
    pub(crate) fn is_installed(self, homes: &AgentDirs) -> bool {
        let program = self.agent().program;
        homes.programs.iter().any(|folder| files::is_file(&folder.join(program)))
            || files::exists(&self.folder(homes))
    }

    /// Returns the folder of the agent's settings.
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
    /// Returns the files in the order of writing; none if the agent has no settings of a project.
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
        let target = |path: &str, parts| vec![ConfigTarget { path: project.join(path), parts }];
        let server = || vec![self.server()];
        match self.agent {
            AgentName::ClaudeCode => {
                let hooks = target(".claude/settings.json", self.hooks());
                [hooks, target(".mcp.json", server())].concat()
            }
            AgentName::Codex => {
                let server = target(".codex/config.toml", server());
                [server, target(".codex/hooks.json", self.hooks())].concat()
            }
            AgentName::Gemini => target(".gemini/settings.json", [server(), self.hooks()].concat()),
            AgentName::Qwen => target(".qwen/settings.json", [server(), self.hooks()].concat()),
            AgentName::Opencode => {
                let server = target(opencode_file(project), server());
                [server, target(".opencode/plugin/lukasa.js", vec![self.plugin()])].concat()
            }
            AgentName::Cursor => {
                let hooks = target(".cursor/hooks.json", self.hooks_of_file());
                [target(".cursor/mcp.json", server()), hooks].concat()
            }
            AgentName::Vscode => target(".vscode/mcp.json", server()),
            AgentName::Zed => target(".zed/settings.json", server()),
            AgentName::Copilot
            | AgentName::Cline
            | AgentName::Windsurf
            | AgentName::ClaudeDesktop => Vec::new(),
        }
    }

    fn user_targets(&self, homes: &AgentDirs) -> Vec<ConfigTarget> {
        let folder = self.agent.folder(homes);
        let target = |path: PathBuf, parts| vec![ConfigTarget { path, parts }];
        let in_folder = |path: &str, parts| target(folder.join(path), parts);
        let server = || vec![self.server()];
        match self.agent {
            AgentName::ClaudeCode => {
                let servers = homes.claude.as_ref().unwrap_or(&homes.home).join(".claude.json");
                let settings = [self.hooks(), self.settings()].concat();
                [in_folder("settings.json", settings), target(servers, server())].concat()
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
                target(homes.cline_servers.clone().unwrap_or(file), server())
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

    /// Returns the settings of the agent's own that the user consents to change.
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
            // Zed passes no project to its servers and may start them in any folder.
            args.extend(["--project".to_owned(), project.display().to_string()]);
        }
        let mut members: Vec<_> =
            agent.always.iter().map(|name| (*name, ConfigValue::Bool(true))).collect();
        if permissions && matches!(self.agent, AgentName::Gemini | AgentName::Qwen) {
            members.push(("trust", ConfigValue::Bool(true)));
        }
        ConfigPart::Server { servers: agent.servers, program, args, form: agent.form, members }
    }

    /// Returns the parts of a file with hooks and a version. The version is listed twice: `install` adds it before the
    /// hooks, `uninstall` removes it after them.
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
        // Other people who work on the project may not have the program.
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

/// Returns the file name of opencode's settings in a folder.
fn opencode_file(folder: &Path) -> &'static str {
    let with_notes = "opencode.jsonc";
    if files::exists(&folder.join(with_notes)) { with_notes } else { "opencode.json" }
}

/// Returns a generic configuration of the MCP server, for clients that are not in the table.
pub(crate) fn generic_configuration(program: &str) -> serde_json::Value {
    let server = serde_json::json!({ "command": program, "args": ["mcp"] });
    serde_json::json!({ "mcpServers": { "lukasa": server } })
}
