//! The packages for agents: plugins that start `lukasa` by its name, and a bundle that holds the program.
//!
//! The settings in them are those of `lukasa install`. The program writes them into an empty project, and they are moved from
//! there into the plugins. A file or a member that is left over fails the build, so no setting is missing in a plugin.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use crate::cargo;
use crate::dist::Release;
use crate::dist::licences;
use crate::dist::mcp::McpServer;
use crate::dist::packages::{self, Package};
use crate::tools::Tools;
use crate::workspace::CargoWorkspace;

/// The author in the manifests of plugins.
const AUTHOR: &str = "The Lukasa developers";

/// The version of MCPB's manifest. Version 0.4 adds only servers in Python, and a program that knows 0.3 refuses it.
const MCPB_MANIFEST: &str = "0.3";

/// Builds all packages for agents.
pub(super) fn all(
    workspace: &CargoWorkspace,
    tools: &Tools,
    release: &Release,
) -> anyhow::Result<Vec<Package>> {
    let build = PluginBuild { workspace, tools, release };
    Ok(vec![build.claude_code()?, build.gemini()?, build.opencode()?, build.bundle()?])
}

/// The sources and tools of all plugins.
struct PluginBuild<'a> {
    workspace: &'a CargoWorkspace,
    tools: &'a Tools,
    release: &'a Release,
}

impl PluginBuild<'_> {
    /// Packs the plugin of Claude Code. Its folder is also a marketplace with one plugin, because Claude Code installs plugins
    /// only from marketplaces.
    fn claude_code(&self) -> anyhow::Result<Package> {
        let folder = self.folder("claude-code")?;
        let mut installed = InstalledSettings::of(self.release, "claude-code")?;
        write_json(&folder.join(".mcp.json"), &installed.take(".mcp.json")?)?;
        write_json(&folder.join("hooks/hooks.json"), &installed.take(".claude/settings.json")?)?;
        installed.finish()?;

        let Release { version, description, repository, .. } = self.release;
        let manifest = json!({
            "name": "lukasa",
            "version": version,
            "description": description,
            "author": { "name": AUTHOR },
            "homepage": repository,
            "repository": repository,
            "license": self.license()?,
        });
        write_json(&folder.join(".claude-plugin/plugin.json"), &manifest)?;
        let marketplace = json!({
            "name": "lukasa",
            "owner": { "name": AUTHOR },
            "metadata": { "description": description },
            "plugins": [{ "name": "lukasa", "source": "./", "description": description }],
        });
        write_json(&folder.join(".claude-plugin/marketplace.json"), &marketplace)?;
        self.tarball(&folder, "claude-code").map(Package::ClaudeCode)
    }

    /// Packs the extension of Gemini CLI.
    fn gemini(&self) -> anyhow::Result<Package> {
        let folder = self.folder("gemini")?;
        let mut installed = InstalledSettings::of(self.release, "gemini")?;
        let settings = installed.take(".gemini/settings.json")?;
        installed.finish()?;
        let [servers, hooks] = members(settings, ["mcpServers", "hooks"])?;
        write_json(&folder.join("hooks/hooks.json"), &json!({ "hooks": hooks }))?;
        let manifest = json!({
            "name": "lukasa",
            "version": self.release.version,
            "description": self.release.description,
            "mcpServers": servers,
        });
        write_json(&folder.join("gemini-extension.json"), &manifest)?;
        self.tarball(&folder, "gemini").map(Package::Gemini)
    }

    /// Packs the plugin of opencode as an npm package.
    fn opencode(&self) -> anyhow::Result<Package> {
        let folder = self.folder("opencode")?;
        let mut installed = InstalledSettings::of(self.release, "opencode")?;
        let hooks = installed.take_text(".opencode/plugin/lukasa.js")?;
        let [servers] = members(installed.take("opencode.json")?, ["mcp"])?;
        installed.finish()?;
        // The first lines mark files that `install` owns, and say so.
        let (_, hooks) = hooks.split_once("\n//\n").context("the plugin has another head")?;
        fs::write(folder.join("hooks.js"), hooks)?;
        write_json(&folder.join("servers.json"), &servers)?;
        let manifest = json!({
            "name": "@lukasa/opencode",
            "version": self.release.version,
            "description": self.release.description,
            "license": self.license()?,
            "repository": self.release.repository,
            "type": "module",
            "main": "index.js",
            "exports": { ".": "./index.js" },
            "files": ["hooks.js", "index.js", "servers.json", "LICENSE-*"],
        });
        write_json(&folder.join("package.json"), &manifest)?;
        packages::npm_pack(self.tools, self.release, &folder).map(Package::Opencode)
    }

    /// Packs the program as a bundle. A desktop program unpacks it and starts the server in it.
    fn bundle(&self) -> anyhow::Result<Package> {
        let folder = self.release.work.join("mcpb");
        fs::create_dir_all(&folder)?;
        // Beside the manifest: MCPB's own unpacker fails on an entry for a folder, and Python writes one for each folder.
        fs::copy(self.release.stage.join("bin/lukasa"), folder.join("lukasa"))?;
        licences::copy_with_program(self.release, &folder)?;
        let system = self.release.target.npm_name().split('-').next();
        let Release { version, description, repository, .. } = self.release;
        let manifest = json!({
            "manifest_version": MCPB_MANIFEST,
            "name": "lukasa",
            "display_name": "Lukasa",
            "version": version,
            "description": description,
            "author": { "name": AUTHOR },
            "repository": { "type": "git", "url": repository },
            "license": self.license()?,
            "server": {
                "type": "binary",
                "entry_point": "lukasa",
                "mcp_config": {
                    "command": "${__dirname}/lukasa",
                    "args": self.server_arguments()?,
                },
            },
            "tools": self.tools_of_server()?,
            // Their texts depend on their arguments.
            "prompts_generated": true,
            "compatibility": { "platforms": [system] },
        });
        let manifest_file = folder.join("manifest.json");
        write_json(&manifest_file, &manifest)?;
        cargo::output(self.tools.mcpb_command()?.arg("validate").arg(&manifest_file))?;

        let Release { out, target, .. } = self.release;
        let file = out.join(format!("lukasa-{version}-{target}.mcpb"));
        packages::normalize(self.release, &folder)?;
        // The packer of that tool writes the current time into the file. Python writes that of each file, in local time.
        let mut zip = self.tools.python_command("python")?;
        zip.current_dir(&folder).env("TZ", "UTC").args(["-m", "zipfile", "--create"]).arg(&file);
        cargo::output(zip.args(["manifest.json", "LICENSE-APACHE", "LICENSE-MIT", "lukasa"]))?;
        Ok(Package::Bundle(file))
    }

    /// Returns the arguments with which MCP clients start the program.
    fn server_arguments(&self) -> anyhow::Result<Value> {
        let printed = cargo::output(self.release.lukasa().args(["install", "--print"]))?;
        let settings: Value = serde_json::from_str(&printed)?;
        Ok(settings["mcpServers"]["lukasa"]["args"].clone())
    }

    /// Returns the name of each tool of the server, with the first sentence of its description.
    fn tools_of_server(&self) -> anyhow::Result<Value> {
        let mut server = McpServer::start(self.release.lukasa().arg("mcp"))?;
        let listed = server.request("tools/list", &json!({}))?;
        server.stop()?;
        let listed = listed["tools"].as_array().context("the server lists no tools")?;
        Ok(listed
            .iter()
            .map(|tool| {
                let description = tool["description"].as_str().unwrap_or_default();
                let first = description.split(". ").next().unwrap_or_default();
                let first = format!("{}.", first.trim_end_matches('.'));
                json!({ "name": tool["name"], "description": first })
            })
            .collect())
    }

    /// Creates the folder of a plugin, with the files that are the same in each version.
    fn folder(&self, agent: &str) -> anyhow::Result<PathBuf> {
        let folder = self.release.work.join("plugins").join(agent);
        packages::copy_folder(&self.workspace.root.join("packaging").join(agent), &folder)?;
        licences::copy(self.workspace, &folder)?;
        Ok(folder)
    }

    fn tarball(&self, folder: &Path, agent: &str) -> anyhow::Result<PathBuf> {
        let name = format!("lukasa-{agent}-{}", self.release.version);
        packages::tarball(self.release, folder, &name)
    }

    /// Returns the licence of the npm package, which is that of all packages.
    fn license(&self) -> anyhow::Result<Value> {
        let manifest = fs::read(self.workspace.root.join("packaging/npm/package.json"))?;
        Ok(serde_json::from_slice::<Value>(&manifest)?["license"].clone())
    }
}

/// The files that `lukasa install` wrote into an empty project.
struct InstalledSettings {
    project: tempfile::TempDir,
    agent: String,
}

impl InstalledSettings {
    /// Installs Lukasa for an agent into an empty project. In the settings of a project, the program is called by its name.
    fn of(release: &Release, agent: &str) -> anyhow::Result<Self> {
        // Not below the target folder: that is in a checkout, whose settings `install` would change.
        let project = tempfile::tempdir()?;
        let mut install = release.lukasa();
        install.current_dir(project.path()).args(["install", agent, "--scope", "project", "--yes"]);
        cargo::output(&mut install)?;
        Ok(Self { project, agent: agent.to_owned() })
    }

    /// Removes a file and returns its text.
    fn take_text(&mut self, file: &str) -> anyhow::Result<String> {
        let path = self.project.path().join(file);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("`lukasa install {}` wrote no {file}", self.agent))?;
        fs::remove_file(path)?;
        Ok(text)
    }

    /// Removes a file and returns the JSON in it.
    fn take(&mut self, file: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.take_text(file)?)?)
    }

    /// Fails if a file is left that no plugin has.
    fn finish(self) -> anyhow::Result<()> {
        let mut find = Command::new("find");
        let left = cargo::output(find.arg(self.project.path()).args(["-type", "f"]))?;
        anyhow::ensure!(
            left.is_empty(),
            "`lukasa install {}` wrote files that the plugin lacks: {left}",
            self.agent
        );
        Ok(())
    }
}

/// Returns the values of these members of an object, in this order. An object with other members is an error.
fn members<const N: usize>(value: Value, names: [&str; N]) -> anyhow::Result<[Value; N]> {
    let Value::Object(mut object) = value else { anyhow::bail!("the settings are no object") };
    let values = names.map(|name| object.remove(name).unwrap_or_default());
    let others: Vec<_> = object.keys().collect();
    anyhow::ensure!(others.is_empty(), "the plugin lacks these settings: {others:?}");
    anyhow::ensure!(!values.contains(&Value::Null), "the settings lack one of {names:?}");
    Ok(values)
}

/// Writes a JSON file, and creates its folder.
pub(super) fn write_json(file: &Path, value: &Value) -> anyhow::Result<()> {
    fs::create_dir_all(file.parent().context("the file is in a folder")?)?;
    fs::write(file, format!("{value:#}\n"))
        .with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_a_plugin_lacks_is_an_error() {
        let settings = || json!({ "mcpServers": { "lukasa": {} }, "hooks": { "Stop": [] } });
        let taken = members(settings(), ["hooks", "mcpServers"]).unwrap();
        assert_eq!(taken, [json!({ "Stop": [] }), json!({ "lukasa": {} })]);
        let error = |names| members(settings(), names).unwrap_err().to_string();
        assert_eq!(error(["hooks"]), r#"the plugin lacks these settings: ["mcpServers"]"#);
        members(settings(), ["hooks", "mcpServers", "trust"]).unwrap_err();
    }
}
