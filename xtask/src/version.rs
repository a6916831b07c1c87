//! The version of the next release, in every file that has it.
//!
//! All crates, the clients and the packages have one version. The changelog gets a heading with the version and the day.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cargo;
use crate::workspace::CargoWorkspace;

/// The arguments of `cargo xtask version`.
#[derive(clap::Args)]
pub(crate) struct VersionArgs {
    /// The new version, such as `0.2.0` or `1.0.0-rc.1`
    version: String,
    /// The day of the release, as `YYYY-MM-DD`; today by default
    #[arg(long)]
    day: Option<String>,
}

/// The heading of what is not released yet.
const UNRELEASED: &str = "## Unreleased\n";

/// Writes the version, the changelog and the lock files.
pub(crate) fn run(workspace: &CargoWorkspace, args: &VersionArgs) -> anyhow::Result<()> {
    let new = args.version.as_str();
    let root = &workspace.root;
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let old = package_text(&manifest, "version")?;
    anyhow::ensure!(
        parsed(new)? > parsed(&old)?,
        "{new} is not later than {old}, the version of Cargo.toml"
    );
    let day = match &args.day {
        Some(day) => day.clone(),
        None => today()?,
    };
    // Everything is computed before the first file is written.
    let changelog = released(&fs::read_to_string(root.join("CHANGELOG.md"))?, new, &day)?;
    let mut files = vec![("Cargo.toml", manifest), ("CHANGELOG.md", changelog)];
    for (path, old_line, new_line) in version_lines(&old, new) {
        if !files.iter().any(|(known, _)| *known == path) {
            files.push((path, read(root, path)?));
        }
        let file = files.iter_mut().find(|(known, _)| *known == path);
        let text = &mut file.context("each file is read")?.1;
        anyhow::ensure!(text.contains(&old_line), "{path} has no `{}`", old_line.trim());
        *text = text.replace(&old_line, &new_line);
    }
    for (path, text) in files {
        fs::write(root.join(path), text).with_context(|| format!("cannot write {path}"))?;
    }
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let mut update = cargo::command();
        update.current_dir(root).args(["update", "--quiet", "--workspace", "--manifest-path"]);
        cargo::run(update.arg(manifest))?;
    }
    println!(
        "The version is {new} now. Next: `cargo xtask docs`, `cargo xtask sdk --types`, `cargo xtask test`."
    );
    Ok(())
}

/// Returns each file with the version, with the old line and the new one.
fn version_lines(old: &str, new: &str) -> Vec<(&'static str, String, String)> {
    let line = |path, form: fn(&str) -> String| (path, form(old), form(new));
    vec![
        line("Cargo.toml", |version| format!("\nversion = \"{version}\"\n")),
        line("Cargo.toml", |version| format!(" = {{ version = \"{version}\", path = \"crates/")),
        line("sdks/typescript/package.json", |version| {
            format!("\n  \"version\": \"{version}\",\n")
        }),
        line("sdks/python/pyproject.toml", |version| format!("\nversion = \"{version}\"\n")),
        line("sdks/typescript/package-lock.json", |version| {
            format!("\"name\": \"@lukasa/client\",\n  \"version\": \"{version}\",\n")
        }),
        line("sdks/typescript/package-lock.json", |version| {
            format!("\"name\": \"@lukasa/client\",\n      \"version\": \"{version}\",\n")
        }),
    ]
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

/// Returns a text that the root manifest has for all packages, such as `version`.
pub(crate) fn package_text(manifest: &str, key: &str) -> anyhow::Result<String> {
    let manifest: toml::Table = manifest.parse()?;
    let value = manifest.get("workspace").and_then(|of| of.get("package")?.get(key)?.as_str());
    value.map(str::to_owned).with_context(|| format!("Cargo.toml has no `{key}`"))
}

/// Parses a version, in the order of [Semantic Versioning](https://semver.org/spec/v2.0.0.html).
fn parsed(text: &str) -> anyhow::Result<semver::Version> {
    let version = semver::Version::parse(text);
    version.with_context(|| format!("`{text}` is no version such as 0.2.0"))
}

/// Puts a heading of the version above what is not released yet.
fn released(changelog: &str, version: &str, day: &str) -> anyhow::Result<String> {
    let is_day = day.len() == 10 && day.split('-').map(str::len).eq([4, 2, 2]);
    anyhow::ensure!(is_day, "`{day}` is no day such as 2026-01-31");
    let (before, changes) =
        changelog.split_once(UNRELEASED).context("CHANGELOG.md has no `## Unreleased`")?;
    let end = changes.find("\n## ").unwrap_or(changes.len());
    let has_changes = changes.get(..end).is_some_and(|text| !text.trim().is_empty());
    anyhow::ensure!(has_changes, "CHANGELOG.md has nothing below `## Unreleased`");
    Ok(format!("{before}{UNRELEASED}\n## {version} - {day}\n{changes}"))
}

/// Returns the day of today in UTC.
fn today() -> anyhow::Result<String> {
    let mut date = std::process::Command::new("date");
    Ok(cargo::output(date.args(["--utc", "+%Y-%m-%d"]))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_gets_a_heading_and_later_changes_another_one() {
        let changelog =
            "# Changelog\n\n## Unreleased\n\n### Added\n\n- A\n\n## 0.1.0 - 2026-01-01\n\n- B\n";
        let first = released(changelog, "0.2.0", "2026-11-27").unwrap();
        assert_eq!(
            first,
            "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-11-27\n\n### Added\n\n- A\n\n## 0.1.0 - 2026-01-01\n\n- B\n"
        );
        released(&first, "0.3.0", "2026-11-28").unwrap_err();
        released(changelog, "0.2.0", "today").unwrap_err();
        released("# Changelog\n", "0.2.0", "2026-11-27").unwrap_err();
    }

    #[test]
    fn versions_have_the_order_of_semantic_versioning() {
        for (less, more) in [("0.9.0", "0.10.0"), ("1.0.0-rc.1", "1.0.0"), ("1.0.0", "1.0.1")] {
            assert!(parsed(less).unwrap() < parsed(more).unwrap(), "{less} {more}");
        }
        for wrong in ["", "1", "1.0", "v1.0.0", "1.0.0.0"] {
            parsed(wrong).unwrap_err();
        }
    }

    #[test]
    fn every_file_with_the_version_is_known() {
        let workspace = CargoWorkspace::load().unwrap();
        let manifest = read(&workspace.root, "Cargo.toml").unwrap();
        let old = package_text(&manifest, "version").unwrap();
        for (path, line, _) in version_lines(&old, "9.9.9") {
            assert!(read(&workspace.root, path).unwrap().contains(&line), "{path}: {line}");
        }
    }
}
