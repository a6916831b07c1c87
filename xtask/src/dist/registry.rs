//! The entry of the MCP registry: a file that names the packages with the server.
//!
//! The registry accepts an entry only if each package names the entry, too, or has the digest that the entry gives. `dist` checks
//! the same, and the schema.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::json;

use crate::cargo;
use crate::dist::Release;
use crate::dist::packages::Package;
use crate::dist::plugins::write_json;
use crate::tools::Tools;

/// The schema of an entry.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// Returns the name of the server in the registry: the repository's host and owner in reverse order, and the product.
pub(super) fn name(repository: &str) -> String {
    let (host, owner) = host_and_owner(repository);
    // The registry gives the owner of a repository there a namespace of this form.
    if host == "github.com" {
        return format!("io.github.{owner}/lukasa");
    }
    let labels: Vec<_> = host.split('.').rev().collect();
    format!("{}/lukasa", labels.join("."))
}

/// Adds the line by which the registry recognizes a Python package.
pub(super) fn claim_in_readme(release: &Release, readme: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(readme)?;
    let claim = format!("{text}\n<!-- mcp-name: {} -->\n", name(&release.repository));
    Ok(fs::write(readme, claim)?)
}

/// Writes the entry, with the digest of the bundle among the packages, and checks it as the registry does.
pub(super) fn entry(
    tools: &Tools,
    release: &Release,
    packages: &[Package],
) -> anyhow::Result<PathBuf> {
    let Release { version, description, repository, .. } = release;
    let bundle = packages.iter().find_map(|package| match package {
        Package::Bundle(file) => Some(file),
        _ => None,
    });
    let bundle = bundle.context("there is no bundle")?;
    let file_name = bundle.file_name().unwrap_or_default().to_string_lossy();
    let stdio = json!({ "type": "stdio" });
    let arguments = json!([{ "type": "positional", "value": "mcp" }]);
    let mut entry = json!({
        "$schema": SCHEMA,
        "name": name(repository),
        "title": "Lukasa",
        "description": description,
        "websiteUrl": repository,
        "version": version,
        "packages": [
            {
                "registryType": "npm",
                "identifier": "lukasa",
                "version": version,
                "runtimeHint": "npx",
                "packageArguments": arguments,
                "transport": stdio,
            },
            {
                "registryType": "pypi",
                "identifier": "lukasa-cli",
                "version": version,
                "runtimeHint": "uvx",
                "packageArguments": arguments,
                "transport": stdio,
            },
            {
                "registryType": "mcpb",
                "identifier": format!("{repository}/releases/download/v{version}/{file_name}"),
                "fileSha256": sha256(bundle)?,
                "transport": stdio,
            },
        ],
    });
    if let Some(source) = source(repository) {
        entry["repository"] = json!({ "url": repository, "source": source });
    }
    let file = release.out.join("server.json");
    write_json(&file, &entry)?;
    let mut lint = tools.python_command("skillsaw")?;
    cargo::output(lint.arg("lint").arg(&release.out)).context("server.json is not valid")?;
    check_claims(tools, &name(repository), packages)?;
    Ok(file)
}

/// Prints the description of a wheel, with the text of its README.
const WHEEL_SCRIPT: &str = "import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
print(*(wheel.read(file).decode() for file in wheel.namelist() if file.endswith('/METADATA')))";

/// Fails if a package of another registry does not name the entry.
fn check_claims(tools: &Tools, name: &str, packages: &[Package]) -> anyhow::Result<()> {
    for package in packages {
        let (claim, mut read) = match package {
            Package::Npm(command, _) => {
                let mut tar = Command::new("tar");
                tar.args(["--extract", "--to-stdout", "--file"]).arg(command);
                tar.arg("package/package.json");
                (format!("\"mcpName\": \"{name}\""), tar)
            }
            Package::Wheel(file) => {
                let mut python = tools.python_command("python")?;
                python.args(["-c", WHEEL_SCRIPT]).arg(file);
                (format!("mcp-name: {name} "), python)
            }
            _ => continue,
        };
        let described = cargo::output(&mut read)?;
        let file = package.files()[0].display();
        anyhow::ensure!(described.contains(&claim), "{file} lacks `{claim}`");
    }
    Ok(())
}

/// Returns the SHA-256 of a file.
fn sha256(file: &Path) -> anyhow::Result<String> {
    let printed = cargo::output(Command::new("sha256sum").arg(file))?;
    printed.split(' ').next().map(str::to_owned).context("there is no digest")
}

/// Returns the registry's name of the service that hosts a repository; `None` for other hosts.
fn source(repository: &str) -> Option<&'static str> {
    match host_and_owner(repository).0 {
        "github.com" => Some("github"),
        "gitlab.com" => Some("gitlab"),
        _ => None,
    }
}

fn host_and_owner(repository: &str) -> (&str, &str) {
    let mut parts = repository.trim_start_matches("https://").split('/');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_begins_with_the_host_in_reverse_order() {
        assert_eq!(name("https://github.com/Merle/boats"), "io.github.Merle/lukasa");
        assert_eq!(name("https://git.example.org/boats"), "org.example.git/lukasa");
        assert_eq!(source("https://gitlab.com/merle/boats"), Some("gitlab"));
        assert_eq!(source("https://git.example.org/boats"), None);
    }
}
