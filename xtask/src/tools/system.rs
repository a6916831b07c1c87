//! Programs that the machine itself must provide.
//!
//! Missing ones are installed as Debian packages if root runs this. Otherwise the error names the command that installs
//! them.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::cargo;
use crate::tools::version;

/// A program that the machine must provide, and the Debian packages that contain it.
pub(super) struct Requirement {
    /// Its name in messages.
    name: &'static str,
    /// A command that succeeds when it is installed.
    probe: &'static [&'static str],
    packages: &'static [&'static str],
    /// A service of the packages. It is not started when they are installed, nor when the machine starts.
    service: Option<&'static str>,
}

/// npm, and a Node to run it.
pub(super) const NPM: Requirement = Requirement {
    name: "npm",
    probe: &["npm", "--version"],
    packages: &["nodejs", "npm"],
    service: None,
};

/// Python with the module that creates environments.
pub(super) const PYTHON: Requirement = Requirement {
    name: "Python 3 with venv",
    probe: &["python3", "-c", "import ensurepip, venv"],
    packages: &["python3", "python3-venv"],
    service: None,
};

/// The program with which systemd checks units.
pub(super) const SYSTEMD_ANALYZE: Requirement = Requirement {
    name: "systemd-analyze",
    probe: &["systemd-analyze", "--version"],
    packages: &["systemd"],
    service: None,
};

/// A browser, for the page.
pub(super) const CHROMIUM: Requirement = Requirement {
    name: "Chromium",
    probe: &["chromium", "--version"],
    packages: &["chromium"],
    service: None,
};

/// OpenSSH's server, its client, and the program that creates keys.
///
/// Older servers have no option that prints their version and succeeds, so the probe looks for the file.
pub(super) const SSHD: Requirement = Requirement {
    name: "OpenSSH with its server",
    probe: &["sh", "-c", "test -x /usr/sbin/sshd && ssh -V && command -v ssh-keygen"],
    packages: &["openssh-server", "openssh-client"],
    service: Some("ssh"),
};

/// The PostgreSQL server and its client. Debian installs them outside of the search path.
pub(super) const POSTGRES: Requirement = Requirement {
    name: "the PostgreSQL server",
    probe: &["sh", "-c", "ls /usr/lib/postgresql/*/bin/postgres /usr/lib/postgresql/*/bin/psql"],
    packages: &["postgresql", "postgresql-client"],
    service: Some("postgresql"),
};

/// The program that installs RPM packages.
pub(super) const RPM: Requirement =
    Requirement { name: "rpm", probe: &["rpm", "--version"], packages: &["rpm"], service: None };

/// A C++ compiler, for libFuzzer.
pub(super) const CXX: Requirement = Requirement {
    name: "a C++ compiler",
    probe: &["c++", "--version"],
    packages: &["g++"],
    service: None,
};

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
    let install = [&["install", "-y", "--no-install-recommends"], requirement.packages].concat();
    let refuse = |service| StartRefusal::begin(Path::new(POLICY_FILE), service);
    let refusal = requirement.service.map(refuse).transpose()?;
    apt(&install)?;
    drop(refusal);
    if let Some(service) = requirement.service {
        disable(service);
    }
    anyhow::ensure!(is_installed(requirement), by_hand);
    Ok(())
}

/// The program that Debian packages ask before they start a service.
const POLICY_FILE: &str = "/usr/sbin/policy-rc.d";

/// Refuses the start of a service by a package that is being installed, until it is dropped.
///
/// Tests start their own servers. A start that fails, such as on a busy port, could also fail the installation.
struct StartRefusal {
    /// The policy that was written; `None` if the machine has its own, which holds.
    policy_file: Option<PathBuf>,
}

impl StartRefusal {
    fn begin(policy_file: &Path, service: &str) -> anyhow::Result<Self> {
        let mut file = match File::create_new(policy_file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(Self { policy_file: None });
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot create {POLICY_FILE}"));
            }
        };
        let refusal = Self { policy_file: Some(policy_file.to_owned()) };
        file.write_all(start_policy(service).as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o755))?;
        Ok(refusal)
    }
}

impl Drop for StartRefusal {
    fn drop(&mut self) {
        if let Some(file) = &self.policy_file
            && let Err(error) = fs::remove_file(file)
        {
            eprintln!("tools: cannot remove {}: {error}", file.display());
        }
    }
}

/// Returns the policy as a script. It refuses nothing but this service, because an interrupted installation leaves it.
fn start_policy(service: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Written by `cargo xtask tools` while it installs packages; useless afterwards.\n\
         case \" $* \" in *\" {service} \"* | *\" {service}.\"*) exit 101 ;; esac\n"
    )
}

/// Disables a service, so that the machine does not start it later.
fn disable(service: &str) {
    if find("systemctl").is_none() {
        return;
    }
    let mut command = Command::new("systemctl");
    command.args(["--quiet", "disable"]);
    command.args([format!("{service}.service"), format!("{service}.socket")]);
    // The tests can run all the same, so a person only has to know of it.
    if let Err(error) = cargo::output(&mut command) {
        eprintln!("tools: the service `{service}` may start with the machine: {error:#}");
    }
}

fn is_installed(requirement: &Requirement) -> bool {
    let Some((program, arguments)) = requirement.probe.split_first() else { return true };
    cargo::output(Command::new(program).args(arguments)).is_ok()
}

pub(crate) fn is_root() -> bool {
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
    fn the_start_of_one_service_is_refused_until_its_packages_are_installed() {
        let folder = tempfile::tempdir().unwrap();
        let policy_file = folder.path().join("policy-rc.d");
        let refusal = StartRefusal::begin(&policy_file, "ssh").unwrap();
        let check = |arguments: &[&str], expected| {
            let status = Command::new("sh").arg(&policy_file).args(arguments).status().unwrap();
            assert_eq!(status.code(), Some(expected), "{arguments:?}");
        };
        check(&["ssh", "start", "2"], 101);
        check(&["--quiet", "ssh", "start"], 101);
        check(&["ssh.service", "start"], 101);
        check(&["ssh.socket", "restart"], 101);
        check(&["sshguard", "start"], 0);
        check(&["rescue-ssh.target", "start"], 0);
        drop(refusal);
        assert!(!policy_file.exists());
    }

    #[test]
    fn the_machine_s_own_policy_stays() {
        let folder = tempfile::tempdir().unwrap();
        let policy_file = folder.path().join("policy-rc.d");
        fs::write(&policy_file, "its own").unwrap();
        drop(StartRefusal::begin(&policy_file, "ssh").unwrap());
        assert_eq!(fs::read_to_string(&policy_file).unwrap(), "its own");
    }

    #[test]
    fn a_program_that_does_not_run_has_no_version() {
        assert_eq!(version_of(&mut Command::new("no-such-program-anywhere")), None);
        assert_eq!(version_of(Command::new("sh").args(["-c", "echo x 1.2.3"])), Some((1, 2, 3)));
        assert_eq!(version_of(Command::new("sh").args(["-c", "echo 1.2.3; exit 1"])), None);
    }
}
