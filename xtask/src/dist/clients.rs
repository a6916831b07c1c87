//! The packages of the clients: a wheel and a source package of Python, and an npm package.
//!
//! They do not depend on the platform. `cargo xtask sdk` tests the clients, so the packages are only checked for their licences.
//! A page of a package index is at another place than the repository, so links of a README become addresses.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use crate::cargo;
use crate::dist::{Release, licences, packages};
use crate::tidy::resolve;
use crate::tools::{self, Tools};
use crate::workspace::CargoWorkspace;

/// The folders of the clients, from the root of the repository.
const PYTHON: &str = "sdks/python";
const TYPESCRIPT: &str = "sdks/typescript";

/// Builds the packages of all clients and returns their files.
pub(super) fn all(
    workspace: &CargoWorkspace,
    tools: &Tools,
    release: &Release,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = python(workspace, tools, release)?;
    files.push(typescript(workspace, tools, release)?);
    Ok(files)
}

fn python(
    workspace: &CargoWorkspace,
    tools: &Tools,
    release: &Release,
) -> anyhow::Result<Vec<PathBuf>> {
    let source = workspace.root.join(PYTHON);
    let folder = release.work.join("python-client");
    for part in ["scripts", "src", "tests"] {
        packages::copy_folder(&source.join(part), &folder.join(part))?;
    }
    fs::copy(source.join("pyproject.toml"), folder.join("pyproject.toml"))?;
    licences::copy(workspace, &folder)?;
    packages::add_python_urls(release, &folder.join("pyproject.toml"))?;
    copy_readme(release, (&source, PYTHON), &folder)?;
    cargo::output(&mut packages::hatchling(tools, release, &folder)?)?;
    let names = ["-py3-none-any.whl", ".tar.gz"];
    let files = names.map(|end| release.out.join(format!("lukasa-{}{end}", release.version)));
    for file in &files {
        anyhow::ensure!(file.exists(), "the Python client has no {}", file.display());
    }
    Ok(files.into())
}

fn typescript(
    workspace: &CargoWorkspace,
    tools: &Tools,
    release: &Release,
) -> anyhow::Result<PathBuf> {
    let source = workspace.root.join(TYPESCRIPT);
    let folder = release.work.join("typescript-client");
    tools::install_package(workspace, &source)?;
    // Into a folder of its own, because the tests of the client use the one beside the sources.
    let mut compile = tools.npm_command();
    compile.current_dir(&source).args(["exec", "--", "tsc", "--outDir"]).arg(folder.join("dist"));
    cargo::output(&mut compile)?;
    let manifest = fs::read(source.join("package.json"))?;
    let manifest = published(serde_json::from_slice(&manifest)?, &release.repository)?;
    fs::write(folder.join("package.json"), serde_json::to_vec_pretty(&manifest)?)?;
    licences::copy(workspace, &folder)?;
    copy_readme(release, (&source, TYPESCRIPT), &folder)?;
    packages::npm_pack(tools, release, &folder)
}

/// Returns the manifest without the members that only the checkout needs. One of them keeps it from being published.
fn published(mut manifest: Value, repository: &str) -> anyhow::Result<Value> {
    let members = manifest.as_object_mut().context("the manifest is no object")?;
    for member in ["private", "imports", "scripts", "devDependencies"] {
        members.shift_remove(member).with_context(|| format!("the manifest has no `{member}`"))?;
    }
    members.insert("repository".to_owned(), json!(repository));
    Ok(manifest)
}

/// Copies the README of a client. Its links lead to the repository.
fn copy_readme(
    release: &Release,
    (source, folder): (&Path, &str),
    target: &Path,
) -> anyhow::Result<()> {
    let text = fs::read_to_string(source.join("README.md"))?;
    let file = format!("{folder}/README.md");
    let text = with_addresses(&text, &file, |path| release.address_of(path))?;
    Ok(fs::write(target.join("README.md"), text)?)
}

/// Returns a document whose relative links are addresses of files in the repository.
fn with_addresses(
    text: &str,
    file: &str,
    address: impl Fn(&str) -> String,
) -> anyhow::Result<String> {
    let mut pieces = text.split("](");
    let mut changed = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (link, rest) = piece.split_once(')').context("a link has no end")?;
        changed.push_str("](");
        if link.starts_with('#') || link.contains("://") {
            changed.push_str(link);
        } else {
            let (path, heading) =
                link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
            let path = resolve(file, path)
                .with_context(|| format!("{file}: `{link}` leads out of the repository"))?;
            changed.push_str(&address(&path));
            if let Some(heading) = heading {
                changed.push('#');
                changed.push_str(heading);
            }
        }
        changed.push(')');
        changed.push_str(rest);
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_links_of_a_readme_become_addresses() {
        let check = |text: &str| {
            with_addresses(text, "sdks/python/README.md", |path| {
                format!("https://a.example/{path}")
            })
        };
        assert_eq!(
            check("[A](../../docs/A.md#b), [B](scripts/b.py), [C](#c), [D](https://d.example/x)")
                .unwrap(),
            "[A](https://a.example/docs/A.md#b), [B](https://a.example/sdks/python/scripts/b.py), \
             [C](#c), [D](https://d.example/x)"
        );
        assert_eq!(check("no link").unwrap(), "no link");
        check("[A](../../../a.md)").unwrap_err();
    }

    #[test]
    fn the_published_manifest_is_not_private() {
        let manifest = json!({
            "name": "a", "private": true, "imports": {}, "scripts": {}, "devDependencies": {},
        });
        let repository = "https://a.example/b";
        let expected = json!({ "name": "a", "repository": repository });
        assert_eq!(published(manifest, repository).unwrap(), expected);
        published(json!({ "name": "a" }), repository).unwrap_err();
    }
}
