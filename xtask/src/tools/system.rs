//! Programs that the machine itself must provide.
//!
//! Missing ones are installed as Debian packages if root runs this. Otherwise the error names the command that installs
//! them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cargo;
use crate::tools::version;

/// A program that the machine must provide, and the Debian packages that contain it.
pub(super) struct Requirement {
    /// Its name in messages.
    name: &'static str,
    /// A command that succeeds when it is installed.
    probe: &'static [&'static str],
    packages: &'static [&'static str],
}

/// npm, and a Node to run it.
pub(super) const NPM: Requirement =
    Requirement { name: "npm", probe: &["npm", "--version"], packages: &["nodejs", "npm"] };

/// Python with the module that creates environments.
pub(super) const PYTHON: Requirement = Requirement {
    name: "Python 3 with venv",
    probe: &["python3", "-c", "import ensurepip, venv"],
    packages: &["python3", "python3-venv"],
};

/// The program with which systemd checks units.
pub(super) const SYSTEMD_ANALYZE: Requirement = Requirement {
    name: "systemd-analyze",
    probe: &["systemd-analyze", "--version"],
    packages: &["systemd"],
};

/// A browser, for the page.
pub(super) const CHROMIUM: Requirement =
    Requirement { name: "Chromium", probe: &["chromium", "--version"], packages: &["chromium"] };

/// A C++ compiler, for libFuzzer.
pub(super) const CXX: Requirement =
    Requirement { name: "a C++ compiler", probe: &["c++", "--version"], packages: &["g++"] };

/// Installs it if it is missing; an error if that is not possible.
pub(super) fn require(requirement: &Requirement) -> anyhow::Result<()> {
    if is_installed(requirement) {
        return Ok(());
    }
    let packages = requirement.packages.join(" ");
    let by_hand = format!(
        "{} is missing; run `sudo apt-get install {packages}`, or the packages of your system that contain it",
        requirement.name
    );
    anyhow::ensure!(is_root() && find("apt-get").is_some(), by_hand);
    eprintln!("tools: installing {packages} (Debian)");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        cargo::run(command.arg("-qq").args(arguments))
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], requirement.packages].concat())?;
    anyhow::ensure!(is_installed(requirement), by_hand);
    Ok(())
}

fn is_installed(requirement: &Requirement) -> bool {
    let Some((program, arguments)) = requirement.probe.split_first() else { return true };
    cargo::output(Command::new(program).args(arguments)).is_ok()
}

fn is_root() -> bool {
    cargo::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Returns the version that a program prints; `None` if it cannot run.
pub(super) fn version_of(command: &mut Command) -> Option<(u32, u32, u32)> {
    cargo::output(command).ok().map(|printed| version(&printed))
}

/// Finds a program in the search path.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_search_path() {
        assert!(find("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(find("no-such-program-anywhere"), None);
    }

    #[test]
    fn a_program_that_does_not_run_has_no_version() {
        assert_eq!(version_of(&mut Command::new("no-such-program-anywhere")), None);
        assert_eq!(version_of(Command::new("sh").args(["-c", "echo x 1.2.3"])), Some((1, 2, 3)));
        assert_eq!(version_of(Command::new("sh").args(["-c", "echo 1.2.3; exit 1"])), None);
    }
}
