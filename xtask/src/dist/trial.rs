//! Tries packages as people install them: in an empty root, or in an empty home, without a network.
//!
//! A Debian and an RPM package, the tarball and the bundle are installed in a root that has a C library and nothing else. The
//! wheel and the npm packages need the interpreter of this machine. Each trial installs a package, remembers a fact, recalls it
//! and removes the package. The memory stays.

mod container;
mod plugins;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::cargo;
use crate::dist::Release;
use crate::dist::packages::Package;
use crate::tools::{Tools, system};
use crate::workspace::CargoWorkspace;

/// The fact that each trial remembers, and the question that it is recalled by.
const FACT: &str = "The berth of the boat Merle is number seven.";
const QUESTION: &str = "Which berth has the boat Merle?";

/// Tries each package, and the image of the container file.
pub(super) fn try_all(
    workspace: &CargoWorkspace,
    tools: &Tools,
    release: &Release,
    packages: &[Package],
) -> anyhow::Result<()> {
    let empty_folder = || {
        let folder = release.work.join("trial");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        anyhow::Ok(folder)
    };
    for package in packages {
        let folder = empty_folder()?;
        let name = package.files()[0].file_name().unwrap_or_default().to_string_lossy();
        try_one(tools, (&folder, package), release)
            .with_context(|| format!("{name} does not work"))?;
        println!("{name}: installed, remembered, recalled, removed");
    }
    let program = release.stage.join("bin/lukasa");
    container::try_container(&workspace.root, &empty_folder()?, &program)
        .context("the image does not work")?;
    println!("{}: started, remembered, recalled, stopped", container::CONTAINERFILE);
    Ok(())
}

fn try_one(
    tools: &Tools,
    (folder, package): (&Path, &Package),
    release: &Release,
) -> anyhow::Result<()> {
    let version = &release.version;
    match package {
        Package::Tarball(file) => {
            let root = BareRoot::create(folder)?;
            let mut tar = Command::new("tar");
            tar.args(["--extract", "--no-same-owner", "--strip-components=1", "--file"]).arg(file);
            cargo::output(tar.arg("--directory").arg(root.0.join("usr")))?;
            use_program(|| root.lukasa(), version)?;
            fs::remove_file(root.0.join("usr/bin/lukasa"))?;
            root.check_memory()
        }
        Package::Debian(file) => {
            let root = BareRoot::create(folder)?;
            root.dpkg(&["--install"], Some(file))?;
            use_program(|| root.lukasa(), version)?;
            root.dpkg(&["--purge", "lukasa"], None)?;
            root.check_removed()
        }
        Package::Rpm(file) => {
            let root = BareRoot::create(folder)?;
            root.rpm(&["--install"], Some(file))?;
            use_program(|| root.lukasa(), version)?;
            root.rpm(&["--erase", "lukasa"], None)?;
            root.check_removed()
        }
        Package::Wheel(file) => {
            let home = EmptyHome(folder.to_owned());
            let environment = folder.join("python");
            let python = tools.python_command("python")?;
            let create = ["-m", "venv", "--without-pip"];
            cargo::output(home.command(python.get_program()).args(create).arg(&environment))?;
            let pip = |arguments: &[&str]| {
                let mut pip = home.command(python.get_program());
                pip.args(["-m", "pip", "--python"]).arg(environment.join("bin/python"));
                pip.args(arguments);
                pip
            };
            cargo::output(pip(&["install", "--no-index", "--quiet"]).arg(file))?;
            let program = environment.join("bin/lukasa");
            use_program(|| home.command(&program), version)?;
            cargo::output(home.command(environment.join("bin/lukasa-cli")).arg("status"))?;
            cargo::output(&mut pip(&["uninstall", "--yes", "lukasa-cli"]))?;
            anyhow::ensure!(!program.exists(), "pip left {}", program.display());
            home.check_memory()
        }
        Package::Npm(command, program) => try_npm(tools, folder, (command, program), version),
        Package::ClaudeCode(file) => plugins::try_claude_code(tools, folder, (file, release)),
        Package::Gemini(file) => plugins::try_gemini(folder, (file, release)),
        Package::Opencode(file) => plugins::try_opencode(tools, folder, (file, release)),
        Package::Bundle(file) => plugins::try_bundle(tools, folder, (file, release)),
    }
}

/// Installs the npm packages into a folder of their own.
fn try_npm(
    tools: &Tools,
    folder: &Path,
    (command, program): (&Path, &Path),
    version: &str,
) -> anyhow::Result<()> {
    let home = EmptyHome(folder.to_owned());
    let prefix = folder.join("npm");
    let node = |program: &Path| {
        let mut started = home.command(program);
        started.env("PATH", tools.search_path()).env("npm_config_prefix", &prefix);
        started.env("npm_config_offline", "true").env("npm_config_update_notifier", "false");
        started
    };
    let npm = |action: &str| {
        let mut npm = node(Path::new("npm"));
        npm.args([action, "--global", "--silent"]);
        npm
    };
    cargo::output(npm("install").arg(program).arg(command))?;
    let installed = prefix.join("bin/lukasa");
    use_program(|| node(&installed), version)?;
    cargo::output(npm("uninstall").arg("lukasa"))?;
    anyhow::ensure!(!installed.exists(), "npm left {}", installed.display());
    home.check_memory()
}

/// Remembers a fact and recalls it.
fn use_program(lukasa: impl Fn() -> Command, version: &str) -> anyhow::Result<()> {
    let printed = cargo::output(lukasa().arg("--version"))?;
    anyhow::ensure!(printed.contains(version), "it is version {printed}");
    cargo::output(lukasa().args(["remember", "--scope", "global", FACT]))?;
    let recalled = cargo::output(lukasa().args(["recall", QUESTION]))?;
    anyhow::ensure!(recalled.contains(FACT), "the fact is not recalled: {recalled}");
    let checked = cargo::output(lukasa().arg("doctor"))?;
    anyhow::ensure!(!checked.contains("error"), "{checked}");
    Ok(())
}

/// Returns whether a folder has the memory with the fact, in any file.
fn has_memory(home: &Path) -> anyhow::Result<bool> {
    let mut find = Command::new("grep");
    let found =
        find.args(["--recursive", "--quiet", "--fixed-strings", FACT]).arg(home).status()?;
    Ok(found.success())
}

/// A home folder with nothing in it.
struct EmptyHome(PathBuf);

impl EmptyHome {
    /// Returns a command with this home, no other variables and no network.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = isolated(&["--net"]);
        command.arg("--").arg(program).env_clear().current_dir(&self.0).env("HOME", &self.0);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    fn check_memory(&self) -> anyhow::Result<()> {
        let data = self.0.join(".local/share/lukasa");
        anyhow::ensure!(has_memory(&data)?, "the memory is gone");
        Ok(())
    }
}

/// Returns `unshare` with these further namespaces. A user who is not root gets one of users, too.
fn isolated(namespaces: &[&str]) -> Command {
    let mut unshare = Command::new("unshare");
    if !system::is_root() {
        unshare.arg("--map-root-user");
    }
    unshare.args(namespaces);
    unshare
}

/// A root folder with the C library of this machine and an empty home.
struct BareRoot(PathBuf);

/// The files of the C library and the compiler's library, as far as this machine has them.
const LIBRARIES: [&str; 7] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "libgcc_s.so.1",
];

impl BareRoot {
    fn create(folder: &Path) -> anyhow::Result<Self> {
        let root = folder.join("root");
        for inside in
            ["dev", "etc", "lib64", "proc", "root", "tmp", "usr/bin", "usr/lib", "var/lib"]
        {
            fs::create_dir_all(root.join(inside))?;
        }
        fs::write(root.join("dev/null"), "")?;
        fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
        let known = cargo::output(Command::new("ldconfig").arg("-p"))
            .or_else(|_| cargo::output(Command::new("/sbin/ldconfig").arg("-p")))?;
        for library in LIBRARIES {
            let found = if library.starts_with('/') {
                Some(PathBuf::from(library))
            } else {
                library_path(&known, library)
            };
            if let Some(found) = found.filter(|found| found.exists()) {
                let folder = if library.starts_with('/') { "" } else { "usr/lib/" };
                let target = root.join(format!("{folder}{}", library.trim_start_matches('/')));
                fs::create_dir_all(target.parent().context("a library is in a folder")?)?;
                fs::copy(found, target)?;
            }
        }
        Ok(Self(root))
    }

    /// Returns the installed program, started inside of the root.
    fn lukasa(&self) -> Command {
        self.command("/usr/bin/lukasa")
    }

    /// Returns a program, started inside of the root.
    fn command(&self, program: &str) -> Command {
        let mut command = isolated(&["--net", "--mount", "--pid", "--fork"]);
        command.arg("--root").arg(&self.0).args(["--wd", "/root", "--mount-proc"]);
        command.args(["--", program]).env_clear().env("HOME", "/root");
        command
    }

    /// Installs or removes a Debian package. The root has no packages, so dependencies are not looked up.
    fn dpkg(&self, action: &[&str], file: Option<&Path>) -> anyhow::Result<()> {
        let folder = self.0.join("var/lib/dpkg");
        fs::create_dir_all(folder.join("updates"))?;
        fs::create_dir_all(folder.join("info"))?;
        for list in ["status", "available"] {
            let list = folder.join(list);
            if !list.exists() {
                fs::write(list, "")?;
            }
        }
        let mut dpkg = isolated(&["--net"]);
        dpkg.args(["--", "dpkg"]).arg(format!("--root={}", self.0.display()));
        dpkg.args(["--force-depends", "--force-not-root", "--log=/dev/null"])
            .args(action)
            .args(file);
        cargo::output(&mut dpkg).map(drop)
    }

    /// Installs or removes an RPM package.
    fn rpm(&self, action: &[&str], file: Option<&Path>) -> anyhow::Result<()> {
        let mut rpm = isolated(&["--net"]);
        rpm.args(["--", "rpm", "--nodeps", "--root"]).arg(&self.0).args(action).args(file);
        cargo::output(&mut rpm).map(drop)
    }

    /// Checks that the files of the package are gone, and the memory is not.
    fn check_removed(&self) -> anyhow::Result<()> {
        let mut find = Command::new("find");
        let find = find.arg(self.0.join("usr")).args(["-name", "*lukasa*"]);
        let left = cargo::output(find)?;
        anyhow::ensure!(left.is_empty(), "these files are left: {left}");
        self.check_memory()
    }

    fn check_memory(&self) -> anyhow::Result<()> {
        anyhow::ensure!(has_memory(&self.0.join("root"))?, "the memory is gone");
        Ok(())
    }
}

/// Finds a library in what `ldconfig -p` prints.
fn library_path(known: &str, name: &str) -> Option<PathBuf> {
    let is_it = |line: &&str| {
        line.trim_start().split(' ').next() == Some(name)
            && line.to_ascii_lowercase().contains(&std::env::consts::ARCH.replace('_', "-"))
    };
    let line = known.lines().find(is_it)?;
    line.split_once("=> ").map(|(_, path)| PathBuf::from(path.trim()))
}
